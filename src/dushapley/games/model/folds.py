"""Cross-validation as a game: every row is tested by models that never saw it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Self

import numpy as np

from dushapley.arrays import Array, FloatArray, IntArray, Queries
from dushapley.data.owners import Owners, folds
from dushapley.errors import InvalidGame
from dushapley.games.base import Answers, Game, Outcome, grouped
from dushapley.games.derived import DerivedGame
from dushapley.games.model.game import ModelGame
from dushapley.games.model.scoring.scorer import few
from dushapley.games.policy import Training
from dushapley.games.rows import RowsGame
from dushapley.hashing import digest


class FoldsGame(RowsGame):
    r"""The mean of one `ModelGame` per fold, weighted by the rows tested.

    .. math:: u(S) = \sum_k \frac{n_k}{n} u_k(S)

    where fold k (of :math:`n_k` rows, the same part of every owner's) is the test set of
    :math:`u_k` and the other folds are the owners' data. It needs no test set, but judges by the
    owners' own rows: wrong labels are then also in the test.

    Parameters
    ----------
    owners
        Whose rows are pooled and tested.
    make
        Makes the game of one fold from its owners, X_test and y_test.
    number
        Number of folds; every question costs as many trainings.
    seed
        Of the split.

    Examples
    --------
    >>> import numpy as np, dushapley as ds
    >>> from sklearn.linear_model import Ridge
    >>> X = np.arange(12.0)[:, None]; y = 2 * X.ravel()
    >>> owners = ds.Owners.from_arrays({"a": (X[::2], y[::2]), "b": (X[1::2], y[1::2])})
    >>> game = ds.FoldsGame(owners, lambda *split: ds.ModelGame(split[0], Ridge(), *split[1:],
    ...                                                         scoring="r2"), 3)
    >>> game([[0, 0], [1, 1]]).round(2).tolist()
    [0.0, 1.0]
    """

    block = 1
    training: Training

    def __init__(
        self,
        owners: Owners,
        make: Callable[[Owners, Array, Array], ModelGame],
        number: int = 5,
        *,
        seed: int = 0,
    ) -> None:
        super().__init__(owners)
        self.games = [make(*split) for split in folds(owners, number, seed)]
        for game in self.games:
            game.scorer.least = 2  # the folds together have more of every class
        rows = np.array([len(game.y_test) for game in self.games], dtype=np.float64)
        self.parts = rows / rows.sum()
        first = self.games[0]
        shifts = [game.training.shift or 0.0 for game in self.games]
        each = first.training.limits
        limits = replace(each, trainings=each.trainings * number)
        self.training = replace(first.training, limits=limits, shift=max(self.parts * shifts))
        contents = [game._content for game in self.games]
        nobody = [game.nobody.value for game in self.games]
        self.packages = first.packages
        self._identify(None if None in contents else digest("folds", *contents, *nobody))
        self.notes = (
            f"The test set is the owners' own rows, by {number}-fold cross-validation: wrong "
            "labels are in the test as well.",
            *first.notes,
        )

    def with_owners(self, owners: Owners) -> Self:
        """Refused: the owners' rows are the test set, so that others have another one."""
        raise InvalidGame(
            "Under cross-validation the owners' rows are the test set: other owners are tested "
            "otherwise, and their values cannot be compared. Make a new game of them."
        )

    def evaluate(self, queries: Queries, draws: IntArray | None) -> Answers:
        """Each pool by all folds."""
        found = [game.evaluate(queries, draws) for game in self.games]
        return Answers.of([self._combine(outcomes) for outcomes in zip(*found, strict=True)])

    def reseeded(self, seed: int) -> Game:
        """One fold is enough to see whether training is random; its own seed trains all."""
        first = self.games[0].reseeded(seed)
        return first if seed else OwnSeed(first, self)

    def _combine(self, found: Sequence[Outcome]) -> Outcome:
        """One pool's outcome of all folds; a fold that failed counts as nobody's there."""
        failures = [outcome.failure for outcome in found if outcome.failure is not None]
        pairs = zip(self.games, found, strict=True)
        outcomes = [game.nobody if o.failure is not None else o for game, o in pairs]
        spreads = np.array([outcome.spread or 0.0 for outcome in outcomes])
        return Outcome(
            float(np.array([outcome.value for outcome in outcomes]) @ self.parts),
            failure=failures[0] if failures else None,
            scores=self._scores(outcomes),
            spread=float(np.sqrt(spreads**2 @ self.parts**2))
            if self.training.repeats > 1
            else None,
        )

    def _scores(self, outcomes: Sequence[Outcome]) -> FloatArray | None:
        """Row scores of all folds, written so that their mean is u(S) and its error is right."""
        rows = [outcome.scores for outcome in outcomes if outcome.scores is not None]
        if len(rows) < len(outcomes):
            return None
        if min(map(len, rows)) < 2:  # a row alone in its fold differs from the others' mean only
            return grouped(np.concatenate(rows))
        total = sum(map(len, rows))
        mean = float(sum(part * row.mean() for part, row in zip(self.parts, rows, strict=True)))
        # deviations are too small by √(1 − 1/n) where each fold has its own mean
        away = [few(len(row)) * (row - row.mean()) for row in rows]
        spread = [part * total / len(a) * a for part, a in zip(self.parts, away, strict=True)]
        return grouped(mean + np.concatenate(spread))


class OwnSeed(DerivedGame):
    """What pools are worth by all folds, and what the model of the first of them predicts."""

    def __init__(self, first: Game, folds: FoldsGame) -> None:
        super().__init__(first, np.eye(first.n_players), first.names)
        self.folds = folds

    def evaluate(self, queries: Queries, draws: IntArray | None) -> Answers:
        own, voice = self.base.evaluate(queries, draws)
        others = [game.evaluate(queries, draws)[0] for game in self.folds.games[1:]]
        return Answers.of([self.folds._combine([own, *others]), voice])
