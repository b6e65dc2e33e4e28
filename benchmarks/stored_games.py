"""Complete utility tables of trained models, read from the folder named by DUSHAPLEY_DATA."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import dushapley as ds


@dataclass(frozen=True)
class StoredGame:
    """A table of all 2^I utilities, its exact values, and DU-Shapley replicates on its data."""

    name: str
    game: ds.TableGame
    exact: np.ndarray
    du: np.ndarray

    def relative_mse(self, values: np.ndarray) -> float:
        """MSE over the variance of the exact values: 1 means paying everyone the same."""
        return float(np.mean((values - self.exact) ** 2) / np.var(self.exact))


def stored_games() -> list[StoredGame]:
    """All games of the folder, in the order of their names."""
    folder = os.environ.get("DUSHAPLEY_DATA")
    paths = sorted(Path(folder or ".").glob("games/*.npz"))
    if not paths:
        sys.exit(
            "No stored games found. Set DUSHAPLEY_DATA to the folder that holds games/*.npz "
            "(each with u: 2^I utilities, sizes: rows per owner, du: DU-Shapley replicates)."
        )
    found = []
    for path in paths:
        with np.load(path) as file:
            game = ds.TableGame(file["u"], file["sizes"])
            exact = ds.value(game, "exact", budget=2**game.n_players).values
            found.append(StoredGame(path.stem, game, exact, file["du"]))
    return found
