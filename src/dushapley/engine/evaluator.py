"""Answering questions: pools are named, looked up, computed by workers, recorded, and handed back.

Each different pool is paid once. Games that cost nothing are just asked, and so is a GPU that
trains a hundred thousand pools in the time it takes to name them: their pools have no names, and
one that comes again is computed again.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from time import monotonic
from typing import Any

import numpy as np

from dushapley.arrays import FloatArray, IntArray, Queries
from dushapley.engine.dialogue import Transcript
from dushapley.engine.error_bars import Begin, Carrier, known_weights
from dushapley.engine.executors.base import Executor
from dushapley.engine.executors.worker import Numbered
from dushapley.engine.ledger import Ledger, Members, Row, roster_of
from dushapley.engine.plan import Plan, Probes, trainings_each
from dushapley.engine.progress import Progress
from dushapley.errors import LedgerUnreadable, ProtocolViolated
from dushapley.games.base import Answers, Game, Scores, is_scored
from dushapley.games.policy import nobody_failed, still_counts
from dushapley.games.rows import blocks
from dushapley.processes import one_blas_thread
from dushapley.protocol import Ask, Estimate
from dushapley.results.history import MOST_POOLS, run_history
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

    def part(self, some: slice | IntArray) -> Task:
        """Some of these pools."""
        draws = None if self.draws is None else self.draws[some]
        return Task(self.numbers[some], self.queries[some], draws)


def together(tasks: Sequence[Task]) -> Task:
    """Return the pools of several tasks as one; whole owners need no draws."""
    some = [task for task in tasks if len(task.queries)]
    if len(some) == 1:
        return some[0]  # not copied, and not to be written to
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
        self.transcript = Transcript(plan.budget)
        self.rounds: deque[tuple[Ask, IntArray]] = deque()  # with the numbers of their pools
        self.values: deque[FloatArray] = deque()  # of rounds without numbers
        self.waiting = Task(NONE, np.zeros((0, game.n_players), dtype=np.bool_))
        self.out: dict[int, Task] = {}
        self.results: Iterator[tuple[int, Answers]] = iter(())
        self.unwritten: list[Row] = []
        self.committed = monotonic()
        self.roster = b"" if ledger is None else roster_of(game)  # whose pools are kept
        self.n_blocks = self.n_taken = self.n_computed = 0
        self.folded = Folded(plan, game.n_players)
        self.probes = Probes(game, plan.probes, ledger)
        self.influence: FloatArray | None = None

    @cached_property
    def store(self) -> Ledger:
        """Where answers are kept: in the ledger, or as long as this run needs their scores."""
        return Ledger(None) if self.ledger is None else self.ledger

    def answer(self, ask: Ask) -> FloatArray:
        """Utilities of the pools of the next round."""
        if not self.rounds:
            self._add(next(self.foreseen, ask))
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
            coming = Task(numbers, queries, draws).part(new)
            self.waiting = together([self.waiting, coming])
        if self.bar.show:
            self.bar.advance(len(keys) - len(new), found=True)
        self.rounds.append((ask, numbers))

    def _look_up(self, keys: list[bytes], numbers: IntArray, new: IntArray) -> IntArray:
        """Learn what ledger and probes know of new pools; places of those to be computed.

        Whether a failure that was stored counts is a matter of today's policy and limits.
        """
        probed, training = self.probes.worth, self.game.training
        stored = {} if self.ledger is None else self.ledger.read([keys[place] for place in new])
        known = {
            key: one
            for key, one in (stored | probed).items()
            if one.failure is None or still_counts(one.failure, training)
        }
        found = [place for place in new.tolist() if keys[place] in known]
        answers = Answers.of([known[keys[place]] for place in found])
        self.transcript.learn(numbers[found], answers)
        self.n_computed += sum(keys[place] in probed for place in found)
        coming = [place for place in new.tolist() if keys[place] in self.probes.firsts]
        return np.setdiff1d(new, found + coming)

    def take(self) -> Numbered | None:
        """The next block to compute, taking rounds ahead to fill it; None: none for now."""
        if self.probes.waiting:
            place, seed = self.probes.waiting.popleft()
            task = Task(np.array([place]), self.probes.pools[[place]], seed=seed)
        else:
            block = self.game.block
            while len(self.waiting.numbers) < block and self.may_ask(self.n_taken) and self._take():
                pass
            task = self.waiting.part(slice(block))
            self.waiting = self.waiting.part(slice(block, None))
        if not len(task.numbers):
            return None
        self.n_blocks += 1
        self.out[self.n_blocks] = task
        return self.n_blocks, (task.queries, task.draws, task.seed)

    @property
    def left(self) -> int:
        """Blocks that may still be asked for, about."""
        asked = self.plan.budget - self.n_taken + len(self.waiting.numbers)
        return -(-asked // self.game.block)

    def _receive(self) -> None:
        """Take in the next block that is computed, having handed out more if none is out."""
        done = next(self.results, None)
        if done is None:
            assert self.executor is not None
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
        own, kept = self.probes.own[place], self.probes.learn(place, seed, answers)
        for key, outcome in kept.items():
            self._record([key], task.queries if key == own else None, Answers.of([outcome]))
        asked = self.transcript.by_key.get(own)
        unpaid = NONE if asked is None else self.transcript.unknown(np.array([asked]))
        if seed != 0 or asked is None:
            return
        if not len(unpaid):  # found before, and trained again
            self.n_computed += 1
        elif own in kept:
            self._learn(unpaid, Answers.of([kept[own]]))
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
        if self.ledger is None and answers.scores is None:
            return
        members: Members = [None] * len(keys)
        if self.ledger is not None and queries is not None:
            members = self.ledger.members_of(self.roster, queries)
        self.unwritten += self.store.rows(keys, answers, members)
        if self.game.block == 1 or monotonic() - self.committed > OFTEN:
            self._commit()

    def _commit(self) -> None:
        if self.unwritten:
            self.store.commit(self.unwritten)
            self.unwritten = []
            self.committed = monotonic()

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
        ends = np.cumsum([len(ask.queries) for ask in asks])
        rounds = [slice(*pair) for pair in pairwise([0, *ends])]
        values, start = [], 0
        for part in blocks(queries, draws, len(queries) if whole else self.game.block):
            answers = Answers.of(self.game.evaluate(*part))
            values.append(answers.values)
            for ask, some in zip(asks, rounds, strict=True):  # one, or all are in one part
                self.folded.add(ask, answers, some, start)
            start += len(answers)
            if self.ledger is not None:  # values alone: scores of a million pools fit nowhere
                members = self.ledger.members_of(self.roster, part[0])
                self.ledger.commit_values(self.game.keys(part[0], None), members, answers.values)
        self.n_computed += start
        self.bar.advance(start)
        self.values.extend(np.split(np.concatenate(values), ends[:-1]))

    def account(self, final: Estimate, begin: Begin) -> dict[str, Any]:
        """What was computed, and what else a valuation says of the answers."""
        details = dict(final.details)
        if not self.game.cheap:
            with one_blas_thread():
                details["trail"] = run_history(
                    self.game.sizes,
                    self.transcript.asks,
                    self.transcript.numbers,
                    self.transcript.values,
                    final,
                )
        training = self.game.training
        if training is not None and training.deterministic is None:
            same, probed = self.probes.concluded(), len(self.probes.pools)
            details["probes"] = {"same under another seed": same, "trainings": probed}
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
            "failures": dict(Counter(causes)),
        }

    def errors(self, estimate: Estimate, begin: Begin) -> dict[str, Any]:
        """Standard errors by source of this estimate; none where nothing is trained or tested."""
        training = self.game.training
        if training is None:
            return {}
        if training.deterministic is None:
            training = replace(training, deterministic=self.probes.concluded())
        scores = self._scores_again if self.executor is None else self._scores
        with one_blas_thread():
            carrier = Carrier(
                begin,
                self.plan,
                self.game.sizes,
                training,
                self.transcript,
                estimate,
                scores,
                self.folded.influence(estimate),
            )
            errors, self.influence = carrier.errors()
        return errors

    def _scores(self) -> Iterator[tuple[int, Scores]]:
        """Scores of all pools by number, block by block.

        Those of a pool that failed are nobody's; any other without scores might be anything.
        """
        self._commit()
        failed = {0, *self.transcript.failures}
        keys = self.transcript.keys[: self.transcript.n_answers]
        nobody = self.store.scores(keys[:1]).get(keys[0])
        for start in range(0, len(keys), AT_ONCE):
            some = keys[start : start + AT_ONCE]
            stored = self.store.scores(some)
            if nobody is None and stored:  # fixed beforehand, so the same on every test set
                rows = max(map(len, stored.values()))
                nobody = np.full(rows, self.transcript.at(slice(1))[0])
            if nobody is None:
                continue
            odd = [len(row) for row in stored.values() if len(row) != len(nobody)]
            if odd:
                raise LedgerUnreadable(
                    f"The ledger {self.store.path} is damaged: of some pool it holds {odd[0]} "
                    f"scores, and {len(nobody)} of others. It was left alone; name another file, "
                    "and what it held is computed again."
                )
            matrix = np.full((len(some), len(nobody)), np.nan)
            for place, key in enumerate(some):
                if key in stored or start + place in failed:
                    matrix[place] = stored.get(key, nobody)
            yield start, Scores(matrix)

    def _scores_again(self) -> Iterator[tuple[int, Scores]]:
        """Scores of pools that cost nothing, asked again."""
        start = 0
        for ask in self.transcript.asks:
            for part in blocks(*self.game.check(ask.queries, ask.draws), self.game.block):
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
        if self.ledger is None and "store" in vars(self):
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
        self.weigh = known_weights(plan, n_players)
        self.sums: FloatArray | None = None
        self.needs_questions = False
        self.end_weights = np.zeros((n_players, 2))

    def add(self, ask: Ask, answers: Answers, some: slice, start: int) -> None:
        """Take in the scores of pools of a round, from this place in it on: some of these answers.

        Round by round, so that a block that is cut elsewhere adds up the same numbers in the same
        order.
        """
        scores = answers.scores
        self.needs_questions = scores is not None and self.weigh is None
        if scores is None or self.weigh is None:
            return
        if self.sums is None:  # nobody and everybody, who are asked first
            self.ends = scores.fold(np.eye(2), some)
            self.sums = np.zeros((len(self.end_weights), self.ends.shape[1]))
        else:
            if start == 0:
                self.weights = self.weigh(np.asarray(ask.queries, dtype=np.bool_))
                self.end_weights += self.weights[:, -2:]
            own = slice(start, start + len(answers.values[some]))
            self.sums += scores.fold(self.weights[:, own], some)

    def influence(self, estimate: Estimate) -> FloatArray | None:
        """Values by test row, shape (rows, I); None where nothing was folded."""
        if self.sums is None:
            return None
        return (self.sums + self.end_weights @ self.ends).T / (estimate.replicates or 1)
