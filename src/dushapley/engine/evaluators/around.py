"""Answering what the method `centres` asks: every owner's marginal around some pools.

Tasks are some pools and a block of owners, wherever workers are. What a pool is known by comes
first: where it is a sum over owners, every block of owners tells its part, so no worker needs
anybody else's data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dushapley.arrays import BoolArray, FloatArray
from dushapley.engine.evaluators.free import Evaluator
from dushapley.engine.executors import Executor
from dushapley.engine.ledger import Ledger
from dushapley.engine.plan import Plan
from dushapley.engine.progress import Progress
from dushapley.engine.sheet import Begin
from dushapley.errors import UtilityFailed
from dushapley.games.base import Game, Limits, Outcome
from dushapley.games.marginals import Marginals
from dushapley.hashing import digest, sha256
from dushapley.protocol import Ask, Estimate

CENTRES = "centres"


@dataclass(frozen=True)
class Task:
    """Some pools of a round and a block of owners; without states, these are what is wanted."""

    pools: slice
    owners: slice
    states: FloatArray | None

    @property
    def name(self) -> str:
        """What it is within its round."""
        kind = "states" if self.states is None else "gains"
        cuts = (self.pools.start, self.pools.stop, self.owners.start, self.owners.stop)
        return f"{kind} {' '.join(map(str, cuts))}"


class Tasks:
    """Marginals as executors take them: a game whose blocks are tasks, answered by arrays."""

    def __init__(self, game: Game, marginals: Marginals) -> None:
        self.marginals = marginals
        self.n_players, self.block, self.limits = game.n_players, marginals.block, Limits()

    def outcomes(
        self, pools: BoolArray, states: FloatArray | None, start: int, stop: int
    ) -> list[Outcome]:
        """States of pools, or parts of them, or marginals; one outcome a pool."""
        owners = slice(start, stop)
        if states is None:
            found = self.marginals.states(pools, owners)
        else:
            found = self.marginals.gains(pools, states, owners)
        return [Outcome(0.0, scores=row) for row in found]

    def failed(self, pools: BoolArray, error: Exception) -> list[Outcome]:
        """There is no policy for marginals that cannot be computed."""
        raise UtilityFailed(f"Marginals around a pool could not be computed: {error}.") from error


class AroundEvaluator(Evaluator):
    """Asks for marginals task by task, and keeps them task by task.

    Parameters
    ----------
    game, marginals
        Whose owners, and how marginals are told.
    executor
        Where tasks run.
    ledger
        Where answers are kept, if anywhere.
    """

    def __init__(
        self, game: Game, marginals: Marginals, executor: Executor, ledger: Ledger | None
    ) -> None:
        super().__init__(game)
        self.marginals, self.executor, self.ledger = marginals, executor, ledger
        self.tasks: Any = Tasks(game, marginals)
        self.counted = np.zeros(len(marginals.counted))
        self.n_centres = 0
        self.whose = "" if ledger is None else digest(str(game.fingerprint), *game.names)

    def answer(self, ask: Ask, bar: Progress) -> FloatArray:
        if not ask.around:
            return super().answer(ask, bar)
        pools = np.asarray(ask.queries, dtype=np.bool_)
        states, gains = self._states(pools), np.empty(pools.shape)
        for task, found, known in self._answers(pools, self._gains(pools, states)):
            owners = task.owners.stop - task.owners.start
            gains[task.pools, task.owners] = found[:, :owners]
            self.counted += found[:, owners:].sum(axis=0)
            self.n_computed += 0 if known else len(found) * owners
            bar.advance(len(found) * owners, found=known)
        self.n_centres += len(pools)
        self.n_computed += len(pools)
        bar.advance(len(pools), found=True)
        return gains

    def _states(self, pools: BoolArray) -> FloatArray:
        """What each pool is known by: a sum of what blocks of owners tell, or one task a pool."""
        if self.marginals.additive:
            tasks = [Task(slice(0, len(pools)), owners, None) for owners in self._blocks(pools)]
        else:
            everybody = slice(0, pools.shape[1])
            tasks = [Task(slice(k, k + 1), everybody, None) for k in range(len(pools))]
        answers = {task.name: found for task, found, _ in self._answers(pools, tasks)}
        parts = [answers[task.name] for task in tasks]  # always in this order, whoever was first
        return np.sum(parts, axis=0) if self.marginals.additive else np.concatenate(parts)

    def _gains(self, pools: BoolArray, states: FloatArray) -> list[Task]:
        step = len(pools) if self.marginals.additive else 1
        return [
            Task(slice(k, k + step), owners, states[k : k + step])
            for k in range(0, len(pools), step)
            for owners in self._blocks(pools)
        ]

    def _blocks(self, pools: BoolArray) -> list[slice]:
        n_players, block = pools.shape[1], self.marginals.block
        return [slice(a, min(a + block, n_players)) for a in range(0, n_players, block)]

    def _answers(
        self, pools: BoolArray, tasks: Sequence[Task]
    ) -> Iterator[tuple[Task, FloatArray, bool]]:
        """Each task with its answer, and whether that was known; new ones are kept at once."""
        round_ = "" if self.ledger is None else digest(np.packbits(pools, axis=1))
        keys = [sha256(f"{self.marginals.name} {self.whose} {round_} {t.name}") for t in tasks]
        open_ = []
        for key, task in zip(keys, tasks, strict=True):
            stored = {} if self.ledger is None else self.ledger.scores([key])
            if key in stored:
                yield task, _from_bytes(stored[key], task.pools.stop - task.pools.start), True
            else:
                open_.append((key, task))
        blocks = [self._block(pools, task) for _, task in open_]
        for position, outcomes in self.executor.run(self.tasks, blocks) if blocks else ():
            key, task = open_[position]
            found = np.stack([o.scores for o in outcomes if o.scores is not None])
            if self.ledger is not None and not self._is_quick(task):
                self.ledger.write([(key, Outcome(float(len(found)), scores=_as_bytes(found)))])
            yield task, found, False

    def _is_quick(self, task: Task) -> bool:
        """Whether it is sooner done than read: states that are sums."""
        return self.marginals.additive and task.states is None

    def _block(self, pools: BoolArray, task: Task) -> Any:
        inside = pools[task.pools]
        if self.marginals.additive:
            inside = inside[:, task.owners]
        return inside, task.states, task.owners.start, task.owners.stop

    def account(self, final: Estimate, plan: Plan, begin: Begin) -> dict[str, Any]:
        """What was computed: trainings and changes of them, each by its number."""
        told = dict(zip(self.marginals.counted, self.counted.tolist(), strict=True))
        work = {
            "centres": self.n_centres,
            "trainings": self.n_centres,
            "updates": self.n_centres * self.game.n_players,
        }
        return {
            "n_computed": self.n_computed,
            "n_distinct": None,
            "n_trainings": self.n_computed - 1 if self.game.judged else 0,  # nobody's is none
            "details": {**final.details, "marginals": self.marginals.told(work | told)},
            "errors": self.errors(final, plan, begin),
        }

    def errors(self, estimate: Estimate, plan: Plan, begin: Begin) -> dict[str, Any]:
        """Of sampling; that of the test set is not carried through where there is one."""
        sampling = None if estimate.std_errors is None else estimate.std_errors.tolist()
        if not self.game.judged:
            return {}
        nothing = [0.0] * self.game.n_players
        unknown = ["test set"] if sampling is not None else ["sampling", "test set"]
        return {
            "sampling": sampling,
            "training": nothing,
            "test set": None,
            "total": None,
            "unknown": unknown,
            "dominant": None,
        }


def _as_bytes(found: FloatArray) -> FloatArray:
    """Numbers as a ledger keeps them to the last bit: byte by byte."""
    return np.frombuffer(found.tobytes(), dtype=np.uint8).astype(np.float64)


def _from_bytes(stored: FloatArray, rows: int) -> FloatArray:
    numbers = np.frombuffer(stored.astype(np.uint8).tobytes(), dtype=np.float64)
    return numbers.reshape(rows, -1)


def marginals_of(game: Game, plan: Plan) -> Marginals | None:
    """How this run's marginals are told at once, where the plan asks for them and the game can."""
    asked = plan.method.name == CENTRES and plan.formula is None and game.n_players > 1
    return game.marginals() if asked else None


def settled(plan: Plan, marginals: Marginals | None) -> Plan:
    """The plan with sizes of centres as these marginals ask, unless the user has chosen them."""
    if marginals is None or plan.options["power"]:
        return plan
    return replace(plan, options={**plan.options, "power": marginals.power})
