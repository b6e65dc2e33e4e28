"""Games: what a pool of owners' data is worth."""

from dushapley.games.base import CallableGame, Game, Outcome, TableGame, as_game
from dushapley.games.checks import digest
from dushapley.games.classic import ClassicGame, airport, glove, voting
from dushapley.games.datasets import DatasetGame, RowsGame
from dushapley.games.folds import FoldsGame
from dushapley.games.formulas import (
    LinearRegressionGame,
    RegressogramGame,
    SizeGame,
    mean_estimation,
)
from dushapley.games.knn import KNNGame
from dushapley.games.models import ModelGame


def __getattr__(name: str) -> object:
    """Models of this library, loaded when asked for: they need scikit-learn."""
    if name == "Regressogram":
        from dushapley.games.regressogram import Regressogram

        return Regressogram
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "CallableGame",
    "ClassicGame",
    "DatasetGame",
    "FoldsGame",
    "Game",
    "KNNGame",
    "LinearRegressionGame",
    "ModelGame",
    "Outcome",
    "RegressogramGame",
    "RowsGame",
    "SizeGame",
    "TableGame",
    "airport",
    "as_game",
    "digest",
    "glove",
    "mean_estimation",
    "voting",
]
