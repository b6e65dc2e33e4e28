"""Answering questions that cost something: each different pool is paid once, and kept."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from time import monotonic
from typing import Any

import numpy as np

from dushapley.arrays import FloatArray, IntArray, Queries
from dushapley.engine.dialogue import Ahead
from dushapley.engine.evaluators.free import Evaluator, blas_limit
from dushapley.engine.evaluators.probes import Probes
from dushapley.engine.evaluators.waiting import Waiting, appetite
from dushapley.engine.executors import Executor
from dushapley.engine.executors.base import Block, Feed
from dushapley.engine.history import run_history
from dushapley.engine.ledger import Ledger, members_of, roster_of
from dushapley.engine.plan import Plan
from dushapley.engine.progress import Progress
from dushapley.engine.propagation import Transcript, error_bars
from dushapley.engine.scores import Answers, Spool
from dushapley.engine.sheet import Begin
from dushapley.errors import LedgerError, LedgerRefused, ProtocolViolated
from dushapley.games.base import Game, Outcome, Plain
from dushapley.protocol import Ask, Estimate
from dushapley.validation import is_partial, refuse_non_finite

OFTEN = 0.02
"""Seconds between two commits of blocks of values, at least: so much work more a kill may lose.
Pools that are paid one by one are committed one by one."""


@dataclass
class Round:
    """A question of the conversation: its pools by number, and which of them are unpaid."""

    ask: Ask
    numbers: IntArray
    unpaid: IntArray


class PaidEvaluator(Evaluator):
    """Answers questions that cost something: each different pool is looked up and paid once.

    Pools are paid in blocks. An executor that streams is given the next block whenever a worker is
    free, any other as many as it has an appetite for; rounds of the conversation are taken ahead to
    fill them, and told in their order. Another run on the same ledger may pay for the same pools at
    the same time. Both get the same bits, and the ledger keeps them once.

    Parameters
    ----------
    game, executor, ledger
        Whose pools, where they are paid, and where they are kept.
    ahead
        Rounds of the conversation before their turn.
    plan
        How many pools may be asked, and how many are probed.
    may_ask
        Whether a round that begins after so many pools may be taken before its turn.
    probes
        Trainings that were made before the run began; None: none.
    """

    def __init__(
        self,
        game: Game,
        executor: Executor,
        ledger: Ledger | None,
        ahead: Ahead,
        plan: Plan,
        may_ask: Callable[[int], bool] = lambda _: True,
        probes: Probes | None = None,
    ) -> None:
        super().__init__(game)
        self.executor, self.ahead, self.may_ask = executor, ahead, may_ask
        self.budget = plan.budget
        self.ledger = ledger
        self.store: Ledger | Spool = Spool() if ledger is None else ledger
        self.answers = Answers(self.store)
        self.transcript = Transcript(plan.budget)
        self.deterministic = game.deterministic
        self.probes = Probes(game, plan.probes, ledger) if probes is None else probes
        self.rounds: deque[Round] = deque()
        self.waiting = Waiting(game.block)
        self.out: dict[int, tuple[list[bytes], Queries, int | None]] = {}
        self.results: Iterator[tuple[int, Sequence[Outcome]]] = iter(())
        self.n_blocks = 0
        self.bar = Progress(0, show=False)
        self.pending: list[tuple[list[bytes], Queries, FloatArray]] = []
        self.committed = monotonic()

    def answer(self, ask: Ask, bar: Progress) -> FloatArray:
        self.bar = bar
        while not self.rounds and self._take():
            pass
        first = self.rounds.popleft() if self.rounds else None
        if first is None or not np.array_equal(first.ask.queries, ask.queries):
            raise ProtocolViolated(
                "The method declares that its questions depend on no answer, and asked others than "
                "were foreseen. Declare it without foreseeable=True."
            )
        unpaid = first.unpaid
        while len(unpaid := self.answers.unknown(unpaid)):
            while not self.answers.is_known(unpaid[-1]):  # most often, all others come before it
                self._receive()
        self.transcript.add(ask, first.numbers)
        return self.answers.at(first.numbers)

    def take(self) -> Block | None:
        """The next block to pay, taking rounds ahead to fill it; None: there is none for now."""
        if (probe := self.probes.take()) is not None:
            key, query, kind = probe
            self.out[self.n_blocks] = [key], query, kind
            self.n_blocks += 1
            return query, None, kind
        while not self.waiting.is_full and self.may_ask(self.ahead.n_taken) and self._take():
            pass
        if not len(self.waiting):
            return None
        keys, block = self.waiting.cut()
        self.out[self.n_blocks] = keys, block[0], None
        self.n_blocks += 1
        return block

    def _take(self) -> bool:
        """Take the next round: number its pools, look up those not met before, queue the rest."""
        ask = self.ahead.take()
        if ask is None:
            return False
        queries, draws = self.game.check(ask.queries, ask.draws)
        keys = self.game.keys(queries, draws)
        numbers, new = self.answers.numbered(keys)
        rows = self._unpaid(keys, queries, numbers, new)
        self.waiting.add(
            [keys[row] for row in rows.tolist()],
            queries[rows],
            None if draws is None else draws[rows],
        )
        self.bar.advance(len(keys) - len(rows), found=True)
        self.rounds.append(Round(ask, numbers, self.answers.unknown(numbers)))
        return True

    def _unpaid(
        self, keys: list[bytes], queries: Queries, numbers: IntArray, new: IntArray
    ) -> IntArray:
        """Rows of new pools that neither the ledger knows nor a probe trains."""
        if self.probes.outcomes or self.probes.firsts:
            for row in new.tolist():
                if (known := self.probes.outcomes.pop(keys[row], None)) is not None:
                    self._keep([keys[row]], queries[[row]], [known])
            new = np.array([row for row in new if keys[row] not in self.probes.firsts], dtype=int)
        new = new[np.isnan(self.answers.at(numbers[new]))]
        if self.ledger is None:
            return new
        self._look_up([keys[row] for row in new.tolist()])
        return new[np.isnan(self.answers.at(numbers[new]))]

    def _receive(self) -> None:
        """Take in the next block that is paid, having handed out more if none is out."""
        done = next(self.results, None)
        if done is None:
            self.n_blocks = 0
            self.results = self.executor.run(self.game, self._handed_out())
            done = next(self.results, None)
        if done is None:
            raise ProtocolViolated("A round waits for answers, and there is nothing to pay.")
        position, outcomes = done
        keys, queries, probe = self.out.pop(position)
        if probe is not None:
            self._learn_probe(keys[0], queries, probe, outcomes)
            return
        self._keep(keys, queries, outcomes)
        self.bar.advance(len(outcomes))

    def _learn_probe(
        self, key: bytes, query: Queries, probe: int, outcomes: Sequence[Outcome]
    ) -> None:
        """Keep a probe at once; the pool's own training answers the method, should it ask."""
        self.probes.learn(key, query, probe, outcomes)
        if probe == 0 and key in self.answers:
            own = self.probes.outcomes.pop(key, None)
            if not len(self.answers.unknown(self.answers.numbers([key]))):
                return  # the ledger knew it, without what its model predicts
            if own is None:  # it failed, which the policy decides about
                self.waiting.add([key], query, None)
            else:
                self._keep([key], query, [own])
                self.bar.advance(1)

    def settle(self) -> None:
        """Wait for the probes, and conclude from them whether training is left to chance."""
        while self.probes.is_open:
            self._receive()
        if self.deterministic is None:
            self.deterministic = self.probes.concluded()

    def _handed_out(self) -> Feed | list[Block]:
        """Blocks for the executor: this, of which it takes one after the other, or its fill."""
        if getattr(self.executor, "streams", False):
            return self
        fill = -(-appetite(self.game, self.executor) // self.game.block)
        return list(islice(iter(self.take, None), fill))

    @property
    def left(self) -> int:
        """Blocks that may still be asked for, about."""
        asked = self.budget - self.ahead.n_taken + len(self.waiting)
        return -(-asked // self.game.block)

    def account(self, final: Estimate, plan: Plan, begin: Begin) -> dict[str, Any]:
        """The same with failures, errors by source, and what was noted on the way."""
        with blas_limit(self.game):
            trail = run_history(self.game.sizes, self.transcript, self.answers.values, final)
        beside = sum(key not in self.answers for key in self.probes.trained)
        again = sum(key in self.answers for key in self.probes.lost)
        trained = self.answers.n_known - 1 + beside + again  # nobody's is not
        probed = {"probes": self.probes.account()} if self.game.deterministic is None else {}
        return {
            "n_computed": self.n_computed,
            "n_distinct": self.answers.n_known,
            "n_trainings": trained * self.game.limits.trainings + self.probes.n_reseeded,
            "details": {**final.details, "trail": trail} | probed,
            "errors": self.errors(final, plan, begin),
            "failures": dict(sorted(self.answers.causes.items())),  # workers finish in any order
        }

    def errors(self, estimate: Estimate, plan: Plan, begin: Begin) -> dict[str, Any]:
        with blas_limit(self.game):
            errors, self.influence = error_bars(
                begin,
                self.transcript,
                self.answers,
                estimate,
                sizes=self.game.sizes,
                repeats=self.game.repeats,
                deterministic=bool(self.deterministic),
                judged=self.game.judged,
                shift=self.game.shift,
                enumerated=plan.enumerates(self.game.n_players),
                semivalue=plan.semivalue,
            )
        return errors

    def finish(self) -> None:
        """Take leave of the executor, which knows that all is done only when it is asked again."""
        self.settle()
        self.may_ask = lambda _: False
        if not self.out and not len(self.waiting):
            deque(self.results, maxlen=0)
        self.results = iter(())
        self._commit()

    def close(self) -> None:
        self.results = iter(())  # ends what an executor still waits for
        self._commit()  # however the run ends, what was paid is kept
        if self.ledger is None:
            self.store.close()

    @cached_property
    def roster(self) -> bytes:
        """Whose pools are kept."""
        return roster_of(self.game)

    def _look_up(self, keys: list[bytes]) -> None:
        """Learn what the ledger knows of pools that have no value yet."""
        stored = {} if self.ledger is None else self.ledger.read(keys)
        for key, outcome in stored.items():
            recalled = self.game.recall(outcome)
            if recalled is outcome:
                self.answers.learn([(key, outcome)])
            elif recalled is not None:
                self.answers.replace(key, recalled)

    def _keep(self, keys: list[bytes], queries: Queries, outcomes: Sequence[Outcome]) -> None:
        """Commit a paid block to the ledger, and remember what it came to."""
        if isinstance(outcomes, Plain):
            self._keep_values(keys, queries, outcomes.values)
            return
        values = np.array([outcome.value for outcome in outcomes], dtype=np.float64)
        refuse_non_finite(queries, values, self.game.names)
        paid = list(zip(keys, outcomes, strict=True))
        if self.ledger is None:
            self.store.write(paid)
        else:
            self.ledger.write(paid, members_of(self.roster, keys, queries))
        self.answers.learn(paid)
        self.n_computed += len(paid)

    def _keep_values(self, keys: list[bytes], queries: Queries, values: FloatArray) -> None:
        """The same of pools that came to values and nothing else."""
        refuse_non_finite(queries, values, self.game.names)
        self.answers.learn_values(keys, values)
        self.n_computed += len(keys)
        if self.ledger is not None:
            self.pending.append((keys, queries, values))
            if self.game.block == 1 or monotonic() - self.committed > OFTEN:
                self._commit()

    def _commit(self) -> None:
        """Commit the values that wait for it: in one piece, or as many blocks as there is room."""
        if not self.pending:
            return
        try:
            self._write(self.pending)
        except LedgerError:
            for block in self.pending:
                self._write([block])
        self.pending.clear()
        self.committed = monotonic()

    def _write(self, blocks: Sequence[tuple[list[bytes], Queries, FloatArray]]) -> None:
        assert self.ledger is not None
        keys = [key for some, _, _ in blocks for key in some]
        queries, values = (
            np.concatenate(part) for part in zip(*[block[1:] for block in blocks], strict=True)
        )
        whole = queries[~is_partial(queries)] == 1
        self.ledger.write_values(keys, values, (self.roster, whole) if len(whole) else None)


def refuse_nameless(game: Game, ledger: str | os.PathLike[str] | None) -> None:
    """Refuse to keep what could be mistaken for another game's."""
    if ledger is not None and game.context is None:
        raise LedgerRefused(
            "This game is made from a bare function, whose content cannot be compared, so a "
            "ledger could mix up two games. Give the game a fingerprint= that names its content."
        )
