"""All that a model can say of the held-out rows, trained once; runs then draw from it.

The library's own code scores the answers (`Scorer`), averages repeats (`average`) and carries
errors to values (`error_bars`); what is saved is training the same pools again in every run.
`whole_errors.py` holds the first run of every cell against `dushapley.value` itself.
"""

from __future__ import annotations

from itertools import product, repeat
from typing import Any

import numpy as np

import dushapley as ds
from dushapley.games.base import Answers, Game, Outcome, average
from dushapley.games.model.scoring.scorer import Scorer, best_constant, constant_label
from dushapley.games.policy import Training
from whole_errors_cases import OWN_SCORES, Case, Data

Said = dict[str, np.ndarray]


class Recalled:
    """A trained model as it answered: asked for rows by their numbers."""

    def __init__(self, said: Said, classes: Any) -> None:
        self.said = said
        if classes is not None:
            self.classes_ = classes

    def predict(self, rows: Any) -> Any:
        return self.said["predict"][rows[:, 0]]

    def predict_proba(self, rows: Any) -> Any:
        return self.said["predict_proba"][rows[:, 0]]


class Bank:
    """Every training of every pool of some owners, and what it says of all held-out rows.

    `seeds`: those of every pool but nobody's, instead of all that there are.
    """

    def __init__(
        self, table: Data, owners: ds.Owners, case: Case, seeds: list[list[int]] | None = None
    ) -> None:
        self.table, self.owners, self.case = table, owners, case
        self.classes = np.unique(table.y_held) if table.task == "classification" else None
        n = len(owners)
        self.pools = np.array(list(product((False, True), repeat=n)))
        game = ds.DatasetGame(owners, len)  # never asked: it knows the rows of pools, in order
        trainings = repeat(case.trainings()) if seeds is None else map(case.trainings, seeds)
        self.models = [
            [self._trained(model, *game.pool(game.counts(pool), None)) for model in models]
            for pool, models in zip(self.pools[1:], trainings, strict=False)
        ]

    def _trained(self, model: Any, X: np.ndarray, y: Any) -> Recalled:
        single = self.classes is not None and bool((y == y[0]).all())
        model = constant_label(y[0], self.classes) if single else model.fit(X, y)
        voices = ("predict",) if self.classes is None else ("predict", "predict_proba")
        said = {voice: np.asarray(getattr(model, voice)(self.table.X_held)) for voice in voices}
        return Recalled(said, self.classes)

    def chance(self, run: int) -> np.ndarray:
        """Which trainings a run sees, shape (pools, repeats): as the library seeds them.

        Every pool has seeds of its own, but for the library's models.
        """
        rng, shape = np.random.default_rng([13, run]), (len(self.models), self.case.repeats)
        drawn = rng.integers(0, len(self.models[0]), shape)
        return drawn[:1].repeat(len(drawn), axis=0) if self.case.shared else drawn

    def outcomes(self, metric: str, rows: np.ndarray, starts: np.ndarray) -> list[Outcome]:
        """What all pools are worth on some of the held-out rows, by the library's scoring."""
        scorer = Scorer(
            OWN_SCORES.get(metric, metric), rows[:, None], self.table.y_held[rows], self.classes
        )
        self.shift = scorer.shift
        trained = [
            average([scorer(models[k]) for k in own])
            for models, own in zip(self.models, starts.tolist(), strict=True)
        ]
        return [average([best_constant(scorer)]), *trained]

    def truth(self, metric: str) -> np.ndarray:
        """Values on all held-out rows, averaged over all trainings there are."""
        rows = np.arange(len(self.table.y_held))
        scorer = Scorer(
            OWN_SCORES.get(metric, metric), rows[:, None], self.table.y_held, self.classes
        )
        utilities = [np.mean([scorer.value(model) for model in models]) for models in self.models]
        values = average([best_constant(scorer)]).value, *utilities
        return ds.value(ds.TableGame(by_bits(self.pools, values)), "exact").values

    def valued(self, metric: str, rows: np.ndarray, starts: np.ndarray) -> dict[str, Any]:
        """Values by all coalitions with their errors, by the library's propagation."""
        game = Drawn(self, self.outcomes(metric, rows, starts))
        v = ds.value(game, "exact", progress=False)
        return {"values": v.values, "errors": v.errors}


def by_bits(pools: np.ndarray, values: Any) -> np.ndarray:
    """Utilities of all pools in the order of a table: bit i stands for owner i."""
    table = np.empty(len(pools))
    table[pools @ (1 << np.arange(pools.shape[1]))] = values
    return table


class Drawn(Game):
    """One run of a bank as a game, for methods that do not ask for all pools."""

    block = 1

    def __init__(self, bank: Bank, outcomes: list[Outcome]) -> None:
        self._set_owners(bank.owners.sizes, bank.owners.names)
        repeats = bank.case.repeats
        self.training = Training(repeats=repeats, deterministic=repeats == 1, shift=bank.shift)
        self.known = {
            pool.tobytes(): outcome for pool, outcome in zip(bank.pools, outcomes, strict=True)
        }

    def evaluate(self, queries: Any, draws: Any) -> Any:
        pools = np.asarray(queries, dtype=bool)
        return Answers.of([self.known[pool.tobytes()] for pool in pools])
