"""Answering questions: pools are named, looked up, computed by workers, recorded, and handed back.

Each different pool is paid once. Games that cost nothing are just asked, and so is a GPU that
trains a hundred thousand pools in the time it takes to name them: their pools have no names, and
one that comes again is computed again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from time import monotonic
from typing import Any

import numpy as np

from dushapley.arrays import FloatArray, IntArray, Queries
from dushapley.engine.dialogue import Transcript
from dushapley.engine.error_bars import Begin, Carrier, known_weights
from dushapley.engine.executors import Executor
from dushapley.engine.executors.worker import Numbered, one_blas_thread
from dushapley.engine.history import MOST_POOLS, run_history
from dushapley.engine.ledger import Ledger, Row, roster_of
from dushapley.engine.plan import Plan, Probes, trainings_each
from dushapley.engine.progress import Progress
from dushapley.errors import LedgerUnreadable, ProtocolViolated
from dushapley.games.base import Answers, Game, Outcome, Scores, is_scored
from dushapley.games.policy import nobody_failed, still_counts
from dushapley.games.rows import blocks
from dushapley.protocol import Ask, Estimate
from dushapley.validation import refuse_non_finite

OFTEN = 0.02
"""Seconds between two commits of blocks of pools, at least: so much work more a kill may lose.
Pools that are paid one by one are committed one by one."""
AT_ONCE = 256
"""Pools whose scores are put into one matrix."""
LEAST_BULK, BULK_BLOCK, BULK_ROUND = 2**15, 2**12, 2**12
"""Pools below which every one is named, pools of a block from which they need not be, and pools of
a round of so many."""
NONE = np.zeros(0, dtype=np.int64)
HELPINGS, MOST_CELLS = 4, 2**26
"""Blocks, and pools times owners, computed at a time without names."""


def is_bulk(game: Game, plan: Plan) -> bool:
    """Whether pools are computed faster than they can be named, and their weights are known."""
    training = game.training
    plain = training is not None and training.deterministic is True and not training.limits.any
    large = game.block >= BULK_BLOCK and plan.budget >= LEAST_BULK
    return plain and large and known_weights(plan, game.n_players) is not None


@dataclass(frozen=True)
class Task:
    """Pools that are computed together: numbers, pools, draws, and under which other seed.

    Of a probe the number is its place among the pools that are probed.
    """

    numbers: IntArray
    queries: Queries
    draws: IntArray | None = None
    seed: int | None = None

    def part(self, some: slice) -> Task:
        """Some of these pools."""
        draws = None if self.draws is None else self.draws[some]
        return Task(self.numbers[some], self.queries[some], draws)


def together(tasks: Sequence[Task]) -> Task:
    """Return the pools of several tasks as one; whole owners need no draws."""
    some = [task for task in tasks if len(task.queries)]
    if len(some) == 1:
        return some[0]
    numbers = np.concatenate([task.numbers for task in some])
    queries = np.concatenate([task.queries for task in some])
    if all(task.draws is None for task in some):
        return Task(numbers, queries)
    draws = [np.zeros(len(t.queries), np.int64) if t.draws is None else t.draws for t in some]
    return Task(numbers, queries, np.concatenate(draws))


class Evaluator:
    """Answers rounds of questions, in the order of the conversation.

    Parameters
    ----------
    game, plan
        Whose pools, how many may be asked, and how many are probed.
    foreseen
        Rounds that are sure to come, before their turn.
    executor
        Where pools are computed; None: nowhere but here, without names.
    ledger
        Where they are kept, if anywhere.
    bar
        Shows how far it is.
    may_ask
        Whether a round that begins after so many pools may be taken before its turn.

    Attributes
    ----------
    n_computed
        Pools computed now.
    influence
        Values by test row or group of them, once errors were asked for, where they are known.
    """

    def __init__(
        self,
        game: Game,
        plan: Plan,
        foreseen: Iterator[Ask],
        executor: Executor | None,
        ledger: Ledger | None,
        bar: Progress,
        may_ask: Callable[[int], bool] = lambda _: True,
    ) -> None:
        self.game, self.plan, self.foreseen, self.bar = game, plan, foreseen, bar
        self.executor, self.ledger, self.may_ask = executor, ledger, may_ask
        self.store = ledger
        self.transcript = Transcript(plan.budget)
        self.rounds: deque[tuple[Ask, IntArray]] = deque()  # with the numbers of their pools
        self.values: deque[FloatArray] = deque()  # of rounds without numbers
        self.waiting = Task(NONE, np.zeros((0, game.n_players), dtype=np.bool_))
        self.out: dict[int, Task] = {}
        self.results: Iterator[tuple[int, Answers]] = iter(())
        self.unwritten: list[Row] = []
        self.committed = monotonic()
        self.n_blocks = self.n_taken = self.n_computed = 0
        self.folded = Folded(plan, game.n_players)
        self.probes = Probes(game, plan.probes, ledger)
        self.influence: FloatArray | None = None

    def answer(self, ask: Ask) -> FloatArray:
        """Utilities of the pools of the next round."""
        if not self.rounds and not self._take():
            self._add(ask)
        foreseen, numbers = self.rounds[0]
        if not np.array_equal(foreseen.queries, ask.queries):
            raise ProtocolViolated(
                "The method declares that its questions depend on no answer, and asked others than "
                "were foreseen. Declare it without foreseeable=True."
            )
        if self.executor is None:
            return self._directly(ask)
        self.rounds.popleft()
        unpaid = numbers
        while len(unpaid := self.transcript.unknown(unpaid)):
            for _ in range(0, len(np.unique(unpaid)), self.game.block):  # at least so many blocks
                self._receive()
        self.transcript.add(ask, numbers)
        return self.transcript.at(numbers)

    def _take(self) -> bool:
        """Take a round before its turn, if one is foreseen."""
        ask = next(self.foreseen, None)
        if ask is not None:
            self._add(ask)
        return ask is not None

    def _add(self, ask: Ask) -> None:
        """Name the pools of a round, look up those not met before, queue the rest."""
        self.n_taken += len(ask.queries)
        if self.executor is None:
            self.rounds.append((ask, NONE))
            return
        queries, draws = self.game.check(ask.queries, ask.draws)
        keys = self.game.keys(queries, draws)
        numbers, new = self.transcript.number(keys)
        new = self._look_up(keys, numbers, new)
        if len(new):
            some = None if draws is None else draws[new]
            self.waiting = together([self.waiting, Task(numbers[new], queries[new], some)])
        if self.bar.show:
            self.bar.advance(len(keys) - len(new), found=True)
        self.rounds.append((ask, numbers))

    def _look_up(self, keys: list[bytes], numbers: IntArray, new: IntArray) -> IntArray:
        """Learn what ledger and probes know of new pools; places of those to be computed."""
        probed = self.probes.worth
        known = {} if self.ledger is None else self.ledger.read([keys[place] for place in new])
        known |= probed
        found = [place for place in new.tolist() if self._stands(known.get(keys[place]))]
        if found:
            answers = Answers.of([known[keys[place]] for place in found])
            self.transcript.learn(numbers[found], answers)
            self.n_computed += sum(keys[place] in probed for place in found)
        coming = [place for place in new.tolist() if keys[place] in self.probes.firsts]
        return np.setdiff1d(new, found + coming)

    def _stands(self, found: Outcome | None) -> bool:
        """Whether what was stored counts today: failures follow today's policy and limits."""
        if found is None or found.failure is None:
            return found is not None
        return still_counts(found.failure, self.game.training)

    def take(self) -> Numbered | None:
        """The next block to compute, taking rounds ahead to fill it; None: none for now."""
        if self.probes.waiting:
            place, seed = self.probes.waiting.popleft()
            task: Task | None = Task(np.array([place]), self.probes.pools[[place]], seed=seed)
        else:
            task = self._cut()
        if task is None:
            return None
        self.n_blocks += 1
        self.out[self.n_blocks] = task
        return self.n_blocks, (task.queries, task.draws, task.seed)

    def _cut(self) -> Task | None:
        """The first pools that wait, as many as a block holds or as there are."""
        block = self.game.block
        while len(self.waiting.numbers) < block and self.may_ask(self.n_taken) and self._take():
            pass
        if not len(self.waiting.numbers):
            return None
        first = self.waiting.part(slice(block))
        self.waiting = self.waiting.part(slice(block, None))
        return first

    @property
    def left(self) -> int:
        """Blocks that may still be asked for, about."""
        asked = self.plan.budget - self.n_taken + len(self.waiting.numbers)
        return -(-asked // self.game.block)

    def _receive(self) -> None:
        """Take in the next block that is computed, having handed out more if none is out."""
        assert self.executor is not None
        done = next(self.results, None)
        if done is None:
            self.results = self.executor.run(self.game, self)
            done = next(self.results)
        position, answers = done
        task = self.out.pop(position)
        if task.seed is None:
            self._keep(task, answers)
        else:
            self._keep_probe(task, task.seed, answers)

    def _keep_probe(self, task: Task, seed: int, answers: Answers) -> None:
        """Record a probe; what its pool is worth is learnt, or found out, where it was asked."""
        place = int(task.numbers[0])
        voice, *own = self.probes.learn(place, seed, answers).items()
        self._record([voice[0]], None, Answers.of([voice[1]]))
        for key, outcome in own:
            self._record([key], task.queries, Answers.of([outcome]))
        asked = self.transcript.by_key.get(self.probes.own[place])
        unpaid = NONE if asked is None else self.transcript.unknown(np.array([asked]))
        if seed != 0 or not len(unpaid):
            return
        if own:
            self._learn(unpaid, Answers.of([own[0][1]]))
        else:
            self.waiting = together([self.waiting, Task(unpaid, task.queries)])

    def _keep(self, task: Task, answers: Answers) -> None:
        """Record a block, and remember what it came to."""
        known = answers.values.copy()
        known[list(answers.failures)] = 0.0
        refuse_non_finite(task.queries, known, self.game.names)
        for place in answers.failures:
            if not task.queries[place].any():
                raise nobody_failed(answers.failures[place])
        self._record(
            [self.transcript.keys[n] for n in task.numbers.tolist()], task.queries, answers
        )
        self._learn(task.numbers, answers)

    def _learn(self, numbers: IntArray, answers: Answers) -> None:
        """Remember what pools came to that were computed now."""
        self.transcript.learn(numbers, answers)
        self.n_computed += len(answers)
        if self.bar.show:
            self.bar.advance(len(answers))

    def _record(self, keys: list[bytes], queries: Queries | None, answers: Answers) -> None:
        """Have the ledger keep a block, or a private store its scores."""
        if self.store is None and answers.scores is not None:
            self.store = Ledger(None)
        if self.store is None or (self.ledger is None and answers.scores is None):
            return
        members = None
        if self.ledger is not None and queries is not None:
            members = self.ledger.members_of(self.roster, queries)
        self.unwritten += self.store.rows(keys, answers, members)
        if self.game.block == 1 or monotonic() - self.committed > OFTEN:
            self._commit()

    def _commit(self) -> None:
        if self.unwritten and self.store is not None:
            self.store.commit(self.unwritten)
            self.unwritten = []
            self.committed = monotonic()

    @cached_property
    def roster(self) -> bytes:
        """Whose pools are kept."""
        return roster_of(self.game)

    def _directly(self, ask: Ask) -> FloatArray:
        """Answers to the oldest round, computed here with others that are foreseen."""
        if not self.values:
            fill = max(1, min(HELPINGS * self.game.block, MOST_CELLS // self.game.n_players))
            start = self.n_taken - len(self.rounds[0][0].queries)
            while self.game.block >= BULK_BLOCK and self.n_taken - start < fill and self._take():
                pass
            self._compute([foreseen for foreseen, _ in self.rounds])
        self.rounds.popleft()
        values = self.values.popleft()
        shown = self.transcript.asked < MOST_POOLS and not self.game.cheap
        if shown or self.folded.needs_questions:
            numbers = self.transcript.asked + np.arange(len(values))
            self.transcript.learn(numbers, Answers(values))
            self.transcript.add(ask, numbers)  # not the round as foreseen, whose estimate is not
        return values

    def _compute(self, asks: list[Ask]) -> None:
        """Compute rounds without naming their pools, and fold their scores."""
        asked = together([Task(NONE, ask.queries, ask.draws) for ask in asks])
        queries, draws = self.game.check(asked.queries, asked.draws)
        whole = self.game.block >= BULK_BLOCK or not is_scored(self.game)
        step = len(queries) if whole else self.game.block
        values, start = [], 0
        for part in blocks(queries, draws, step):
            answers = Answers.of(self.game.evaluate(*part))
            values.append(answers.values)
            self.folded.add(asks, start, answers)
            start += len(answers)
            if self.ledger is not None:  # values alone: scores of a million pools fit nowhere
                members = self.ledger.members_of(self.roster, part[0])
                self.ledger.commit_values(self.game.keys(part[0], None), members, answers.values)
        self.n_computed += start
        self.bar.advance(start)
        ends = np.cumsum([len(ask.queries) for ask in asks])
        self.values.extend(np.split(np.concatenate(values), ends[:-1]))

    def account(self, final: Estimate, begin: Begin) -> dict[str, Any]:
        """What was computed, and what else a valuation says of the answers."""
        details = dict(final.details)
        if not self.game.cheap:
            with one_blas_thread():
                details["trail"] = run_history(self.game.sizes, self.transcript, final)
        training = self.game.training
        if training is not None and training.deterministic is None:
            details["probes"] = self.probes.account()
        distinct = None if self.executor is None else self.transcript.n_known
        trained = (self.n_computed if distinct is None else distinct) - 1  # nobody's is none
        causes = sorted(self.transcript.failures.values())  # workers finish in any order
        return {
            "n_computed": self.n_computed,
            "n_distinct": distinct,
            "n_trainings": trained * trainings_each(self.game)
            + self.probes.n_trained(self.transcript.keys),
            "details": details,
            "errors": self.errors(final, begin),
            "failures": {cause: causes.count(cause) for cause in causes},
        }

    def errors(self, estimate: Estimate, begin: Begin) -> dict[str, Any]:
        """Standard errors by source of this estimate; none where nothing is trained or tested."""
        training = self.game.training
        if training is None:
            return {}
        if training.deterministic is None:
            training = replace(training, deterministic=self.probes.concluded())
        with one_blas_thread():
            carrier = Carrier(
                begin,
                self.plan,
                self.game.sizes,
                training,
                self.transcript,
                estimate,
                self._scores,
                self.folded.influence(estimate),
            )
            errors, self.influence = carrier.errors()
        return errors

    def _scores(self) -> Iterator[tuple[int, Scores]]:
        """Scores of all pools by number, block by block."""
        if self.executor is None:
            yield from self._scores_again()
            return
        if self.store is None:
            return
        self._commit()
        keys, rows = self.transcript.keys[: self.transcript.n_answers], 0
        nobody = self.store.scores(keys[:1]).get(keys[0])
        for start in range(0, len(keys), AT_ONCE):
            stored = self.store.scores(keys[start : start + AT_ONCE])
            rows = rows or max(map(len, stored.values()), default=0)
            if rows:
                if nobody is None:  # fixed beforehand, so the same on every test set
                    nobody = np.full(rows, self.transcript.at(slice(1))[0])
                matrix = [
                    self._row(number, stored.get(key), nobody)
                    for number, key in enumerate(keys[start : start + AT_ONCE], start)
                ]
                yield start, Scores(np.stack(matrix))

    def _row(self, number: int, stored: FloatArray | None, nobody: FloatArray) -> FloatArray:
        """Scores of one pool, nobody's of one that failed; any other without might be anything."""
        if stored is None:
            failed = number == 0 or number in self.transcript.failures
            return nobody if failed else np.full(len(nobody), np.nan)
        if len(stored) != len(nobody):
            raise LedgerUnreadable(
                f"The ledger {self.store and self.store.path} is damaged: of some pool it holds "
                f"{len(stored)} scores, and {len(nobody)} of others. It was left alone; name "
                "another file, and what it held is computed again."
            )
        return stored

    def _scores_again(self) -> Iterator[tuple[int, Scores]]:
        """Scores of pools that cost nothing, asked again."""
        start = 0
        for ask in self.transcript.asks:
            queries, draws = self.game.check(ask.queries, ask.draws)
            for part in blocks(queries, draws, self.game.block):
                answers = Answers.of(self.game.evaluate(*part))
                if answers.scores is None:
                    return
                yield start, answers.scores
                start += len(answers)

    def settle(self) -> None:
        """Wait for the probes."""
        while self.probes.is_open:
            self._receive()

    def finish(self) -> None:
        """There are no more questions: drain the executor, and commit what is left."""
        self.settle()
        self.may_ask = lambda _: False
        if not self.out and not len(self.waiting.numbers):
            deque(self.results, maxlen=0)
        self.results = iter(())
        self._commit()

    def close(self) -> None:
        """Let go of what only this run needed; however it ends, what was paid is kept."""
        self.results = iter(())  # ends what an executor still waits for
        self._commit()
        if self.store is not None and self.ledger is None:
            self.store.close()


class Folded:
    """Sums of scores by weights that are known before any answer, taken as answers come.

    Parameters
    ----------
    plan, n_players
        What runs, which decides the weights.

    Attributes
    ----------
    sums
        Weights times scores of all pools but nobody's and everybody's, shape (I, rows); None where
        there are no scores, or no weights.
    needs_questions
        Whether questions are needed in the end: there are scores, and their weights are unknown.
    """

    def __init__(self, plan: Plan, n_players: int) -> None:
        self.weigh, self.n_players = known_weights(plan, n_players), n_players
        self.sums: FloatArray | None = None
        self.needs_questions = False
        self.ends = np.zeros((2, 0))  # scores of nobody and everybody, who are asked first
        self.weights = np.zeros((n_players, 2))  # of the round whose pools come in
        self.end_weights = np.zeros((n_players, 2))

    def add(self, asks: list[Ask], start: int, answers: Answers) -> None:
        """Take in the scores of pools of some rounds, from this place on, round by round.

        So a block that is cut elsewhere adds up the same numbers in the same order.
        """
        scores, stop = answers.scores, start + len(answers)
        if scores is None:
            return
        if self.weigh is None:
            self.needs_questions = True
            return
        first = 0
        for ask in asks:
            last = first + len(ask.queries)
            inside = slice(max(first, start) - start, min(last, stop) - start)
            if inside.start < inside.stop:
                self._add(ask, scores, inside, start - first)
            first = last

    def _add(self, ask: Ask, scores: Scores, some: slice, shift: int) -> None:
        """Fold some pools of one round: those from `shift` places further on in it."""
        assert self.weigh is not None
        if self.sums is None:  # nobody and everybody
            self.ends = scores.fold(np.eye(2), some)
            self.sums = np.zeros((self.n_players, self.ends.shape[1]))
            return
        own = slice(some.start + shift, some.stop + shift)
        if own.start == 0:
            self.weights = self.weigh(np.asarray(ask.queries, dtype=np.bool_))
            self.end_weights += self.weights[:, -2:]
        self.sums += scores.fold(self.weights[:, own], some)

    def influence(self, estimate: Estimate) -> FloatArray | None:
        """Values by test row, shape (rows, I); None where nothing was folded."""
        if self.sums is None:
            return None
        return (self.sums + self.end_weights @ self.ends).T / (estimate.replicates or 1)
