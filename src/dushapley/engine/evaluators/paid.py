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
from dushapley.errors import LedgerError, LedgerRefused, ProtocolViolated, UtilityFailed
from dushapley.games.base import Game, Outcome, Plain
from dushapley.hashing import sha256
from dushapley.protocol import Ask, Estimate
from dushapley.validation import is_partial, refuse_non_finite

ANOTHER_SEED = sha256("everybody's pool and small ones, trained with another seed")
"""Under which the second training of pools is kept; no pool has this name."""


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
    budget
        Pools that may be asked.
    may_ask
        Whether a round that begins after so many pools may be taken before its turn.
    """

    def __init__(
        self,
        game: Game,
        executor: Executor,
        ledger: Ledger | None,
        ahead: Ahead,
        budget: int,
        may_ask: Callable[[int], bool] = lambda _: True,
    ) -> None:
        super().__init__(game)
        self.executor, self.ahead, self.may_ask = executor, ahead, may_ask
        self.budget = budget
        self.ledger = ledger
        self.store: Ledger | Spool = Spool() if ledger is None else ledger
        self.answers = Answers(self.store)
        self.transcript = Transcript(budget)
        self.deterministic = game.deterministic
        self.tried: dict[bytes, Outcome] = {}
        self.rounds: deque[Round] = deque()
        self.waiting = Waiting(game.block)
        self.out: dict[int, tuple[list[bytes], Queries]] = {}
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
        while not self.waiting.is_full and self.may_ask(self.ahead.n_taken) and self._take():
            pass
        if not len(self.waiting):
            return None
        keys, block = self.waiting.cut()
        self.out[self.n_blocks] = keys, block[0]
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
        if self.deterministic is None and self.game.is_tried:
            self.deterministic = self._train_twice(keys[-1], queries[-1:])  # of the first question
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
        """Rows of new pools that neither the ledger knows nor a trial has trained."""
        new = new[np.isnan(self.answers.at(numbers[new]))]  # everybody's may have been tried
        if self.ledger is None and not self.tried:
            return new
        self._look_up([keys[row] for row in new.tolist()])
        for row in new.tolist():
            if keys[row] in self.tried and not self.answers.is_known(numbers[row]):
                self._keep([keys[row]], queries[[row]], [self.tried.pop(keys[row])])
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
        keys, queries = self.out.pop(position)
        self._keep(keys, queries, outcomes)
        self.bar.advance(len(outcomes))

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
        return {
            "n_computed": self.n_computed,
            "n_distinct": self.answers.n_known,
            "details": {**final.details, "trail": trail} | self._tried(),
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

    def _tried(self) -> dict[str, Any]:
        """What second trainings have shown, if there were any."""
        return {"same under another seed": bool(self.deterministic)} if self.game.is_tried else {}

    def _train_twice(self, key: bytes, everybody: Queries) -> bool:
        """Whether another seed trains the same models: everybody's, and those of small pools.

        False where unknown. Small pools come only after everybody's was the same, and until one is
        not; what they are worth waits in `tried` for whoever asks. Kept as an evaluation of its
        own, so that the answer is the same when a run is resumed.
        """
        stored = {} if self.ledger is None else self.ledger.read([ANOTHER_SEED])
        if ANOTHER_SEED in stored:
            return stored[ANOTHER_SEED].spread == 0
        ((_, outcomes),) = self.executor.run(self.game, [(everybody, None, True)])
        self._look_up([key])
        if len(self.answers.unknown(self.answers.numbers([key]))):
            self._keep([key], everybody, outcomes[:1])
        second = outcomes[1:]  # none where it failed
        for pool in self.game.small_pools if second else ():
            if second[0].spread == 0:
                second = self._try_small(*self.game.check(pool[None], None)) or second
        if self.ledger is not None:
            self.ledger.write([(ANOTHER_SEED, outcome) for outcome in second])
        return any(outcome.spread == 0 for outcome in second)

    def _try_small(self, pool: Queries, draws: IntArray | None) -> Sequence[Outcome]:
        """The second training of a small pool; none where it fails, which need not matter."""
        try:
            ((_, outcomes),) = self.executor.run(self.game, [(pool, draws, True)])
        except UtilityFailed:
            return []
        if outcomes[1:]:
            self.tried[self.game.keys(pool, draws)[0]] = outcomes[0]
        return outcomes[1:]

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


def refuse_ledger(game: Game, ledger: str | os.PathLike[str] | None) -> None:
    """Refuse to keep what costs nothing, or what could be mistaken for another game's."""
    if ledger is None:
        return
    if game.cheap:
        raise LedgerRefused(
            f"{type(game).__name__} costs nothing to evaluate, so there is nothing to keep. "
            + f"{getattr(getattr(game, 'path', None), 'note', '')} Leave ledger= out.".lstrip()
        )
    refuse_nameless(game, ledger)


def refuse_nameless(game: Game, ledger: str | os.PathLike[str] | None) -> None:
    """Refuse to keep what could be mistaken for another game's."""
    if ledger is not None and game.context is None:
        raise LedgerRefused(
            "This game is made from a bare function, whose content cannot be compared, so a "
            "ledger could mix up two games. Give the game a fingerprint= that names its content."
        )
