"""Driving `centres` where a game knows every owner's marginal around a pool at once.

The method asks for marginals instead of pools, and a pool counts as I + 1 evaluations. Work is cut
into tasks of some pools and a block of owners, wherever workers are. What a pool is known by comes
first: where it is a sum over owners, every block of owners has its part of it, so no worker needs
anybody else's data. Each task is kept in the ledger, among the scores, so that a kill costs one.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dushapley.arrays import BoolArray, FloatArray, Queries
from dushapley.engine.dialogue import Dialogue
from dushapley.engine.error_bars import Begin, by_source
from dushapley.engine.executors.base import Executor, Listed
from dushapley.engine.ledger import Ledger
from dushapley.engine.plan import Plan
from dushapley.engine.progress import Progress
from dushapley.errors import UtilityFailed
from dushapley.estimators.centres import SoFar, by_marginals
from dushapley.games.base import Answers, Game, Scores
from dushapley.games.many.marginals import Marginals
from dushapley.games.rows import RowsGame
from dushapley.hashing import digest, sha256
from dushapley.protocol import Ask, Estimate, Problem

LARGEST = 1e150
"""Marginals from which on squares are no numbers."""


def with_marginals(game: Game, plan: Plan) -> tuple[Plan, Marginals | None]:
    """A plan of centres with the game's marginals, where the game knows them at once.

    Sizes of centres are those that they ask for, unless the user has chosen some.
    """
    asked = plan.formula is None and game.n_players > 1
    marginals = game.marginals() if asked else None
    if marginals is None:
        return plan, None
    options = {**plan.options, "power": plan.options["power"] or marginals.power}
    run = partial(by_marginals, marginals=at_once, ranked=True)
    return replace(plan, method=replace(plan.method, run=run), options=options), marginals


def at_once(_: Problem, pools: BoolArray, so_far: SoFar) -> Generator[Ask, FloatArray, FloatArray]:
    """Ask for every owner's marginal around pools, shape (pools, I)."""
    return (yield Ask(pools, so_far))


class CentresDialogue(Dialogue):
    """The conversation about marginals: I + 1 evaluations a pool, but for the two ends."""

    def tell(self, values: ArrayLike) -> None:
        if self._talk is None:
            self.each = self.n_players + 1
            super().tell(values)
            return
        gains = np.asarray(values)  # gigabytes, so not copied
        if not (gains.min() > -LARGEST and gains.max() < LARGEST):  # NaN is neither
            centre, owner = np.argwhere(~(np.abs(gains) < LARGEST))[0].tolist()
            raise UtilityFailed(
                f"The marginal of {self.names[owner]!r} around a pool came to "
                f"{gains[centre, owner]}; values need finite numbers below {LARGEST:g}. Mend the "
                "utility, or leave the owner out."
            )
        self.hear(gains)


class BlocksGame(Game):
    """Marginals as executors take them: a game that answers pools for a part of the owners.

    A block of its work has states of pools in the place of draws, and the number of the part in
    that of a seed; its answers have marginals in the place of scores.
    """

    def __init__(self, game: Game, marginals: Marginals) -> None:
        self.sizes, self.names, self.n_players = game.sizes, game.names, game.n_players
        self.known, self.parts = marginals, marginals.parts(game.n_players)
        self.part = self.parts[0]

    def reseeded(self, seed: int) -> Game:
        """The same game for another part of the owners."""
        other = copy(self)
        other.part = self.parts[seed]
        return other

    def evaluate(self, queries: Queries, draws: Any) -> Answers:
        """States of pools, or a part of them; with states, marginals."""
        pools = queries.astype(np.bool_, copy=False)
        if draws is None:
            found = self.known.states(pools, self.part)
        else:
            found = self.known.gains(pools, draws, self.part)
        return Answers(np.zeros(len(pools)), Scores(found))


Task = tuple[int, int]
"""The first of some pools of a round, and the number of a part of the owners."""
Work = tuple[BoolArray, Any, int]
"""Pools, what they are known by (if that is known), and the number of a part of the owners."""


def as_bytes(found: FloatArray) -> Answers:
    """Numbers as a ledger keeps them to the last bit: byte by byte."""
    codes = np.frombuffer(found.tobytes(), dtype=np.uint8)
    return Answers(np.zeros(1), Scores(codes[None].astype(np.float64)))


class CentresDriver:
    """Answers with marginals, task by task, and keeps them task by task.

    Parameters
    ----------
    game, marginals
        Whose owners, and how marginals are known.
    executor
        Where tasks run.
    ledger
        Where answers are kept, if anywhere.
    bar
        Shows how far it is.
    """

    influence = None

    def __init__(
        self,
        game: Game,
        marginals: Marginals,
        executor: Executor,
        ledger: Ledger | None,
        bar: Progress,
    ) -> None:
        self.game, self.marginals, self.bar = game, marginals, bar
        self.executor, self.ledger = executor, ledger
        self.blocks = BlocksGame(game, marginals)
        contents = game.owners.hashes if isinstance(game, RowsGame) else game.names
        self.content = digest(marginals.name, str(game.fingerprint), *contents)
        self.counted = np.zeros(len(marginals.counted))
        self.n_centres = self.n_computed = 0

    def answer(self, ask: Ask) -> FloatArray:
        """Utilities of nobody and everybody, who are asked first; then marginals around pools."""
        pools = np.asarray(ask.queries, dtype=np.bool_)
        self.n_computed += len(pools)
        self.bar.advance(len(pools), found=True)
        if self.n_computed == len(pools):
            return self.game(pools)
        self.n_centres += len(pools)
        gains, step = np.empty(pools.shape), len(pools) if self.marginals.additive else 1
        for (first, number), found, known in self._marginals(pools, step):
            owners = self.blocks.parts[number]
            n = owners.stop - owners.start
            gains[first : first + step, owners] = found[:, :n]
            self.counted += found[:, n:].sum(axis=0)
            self.n_computed += 0 if known else step * n
            self.bar.advance(step * n, found=known)
        return gains

    def _marginals(self, pools: BoolArray, step: int) -> Iterator[tuple[Task, FloatArray, bool]]:
        """Marginals by task, and whether the ledger knew them; new ones are kept at once."""
        round_, numbers = digest(np.packbits(pools, axis=1)), range(len(self.blocks.parts))
        open_ = []
        for task in product(range(0, len(pools), step), numbers):
            key = sha256(f"{self.content} {round_} {task}")
            stored = {} if self.ledger is None else self.ledger.scores([key])
            if key in stored:
                yield task, stored[key].astype(np.uint8).view(np.float64).reshape(step, -1), True
            else:
                open_.append((task, key))
        for position, found in self._computed(self._work(pools, step, [task for task, _ in open_])):
            task, key = open_[position]
            if self.ledger is not None:
                self.ledger.write([key], as_bytes(found))
            yield task, found, False

    def _work(self, pools: BoolArray, step: int, tasks: list[Task]) -> list[Work]:
        """What executors are to do for each task; sums over owners are made before."""
        if not self.marginals.additive:
            nothing = np.zeros((step, 0))
            return [(pools[first : first + step], nothing, number) for first, number in tasks]
        parts = [pools[:, part] for part in self.blocks.parts]
        sums = dict(self._computed([(part, None, number) for number, part in enumerate(parts)]))
        states = np.sum([sums[number] for number in range(len(sums))], axis=0)
        return [(parts[number], states, number) for _, number in tasks]

    def _computed(self, blocks: list[Work]) -> Iterator[tuple[int, FloatArray]]:
        """What blocks of work came to, by their position: all that is asked of an executor."""
        results = self.executor.run(self.blocks, Listed(blocks)) if blocks else ()
        for position, answers in results:
            scores = Answers.of(answers).scores
            assert scores is not None
            yield position, scores.matrix()

    def errors(self, estimate: Estimate, begin: Begin) -> dict[str, Any]:
        """Those of sampling; of a test set they are unknown, as marginals have no test rows."""
        if self.game.training is None:
            return {}
        return by_source(estimate, {"test set": None}, enumerated=False)

    def account(self, final: Estimate, begin: Begin) -> dict[str, Any]:
        """What was computed: trainings and changes of them, each by its number."""
        counted = dict(zip(self.marginals.counted, self.counted.tolist(), strict=True))
        work = {
            "centres": self.n_centres,
            "trainings": self.n_centres,
            "updates": self.n_centres * self.game.n_players,
        }
        trained = self.game.training is not None
        return {
            "n_computed": self.n_computed,
            "n_distinct": None,
            "n_trainings": self.n_computed - 1 if trained else 0,  # nobody's is none
            "details": {**final.details, "marginals": self.marginals.account(work | counted)},
            "errors": self.errors(final, begin),
        }

    def settle(self) -> None:
        """Wait for nothing: all is done when it is answered."""

    finish = close = settle
