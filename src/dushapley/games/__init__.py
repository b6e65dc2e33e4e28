"""Games: what a pool of owners' data is worth."""

from dushapley.games.base import CallableGame, Game, Outcome, TableGame, as_game
from dushapley.games.checks import digest
from dushapley.games.classic import ClassicGame, airport, glove, voting
from dushapley.games.curves import (
    LearningCurve,
    logarithmic,
    mean_estimation,
    power_law,
    rational,
    saturating,
)
from dushapley.games.datasets import DatasetGame, RowsGame
from dushapley.games.derived import DerivedGame
from dushapley.games.folds import FoldsGame
from dushapley.games.formulas import LinearRegressionGame, RegressogramGame, SizeGame
from dushapley.games.knn import KNNGame
from dushapley.games.models import ModelGame
from dushapley.games.ridge import RidgeGame, ridge_minimiser


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
    "DerivedGame",
    "FoldsGame",
    "Game",
    "KNNGame",
    "LearningCurve",
    "LinearRegressionGame",
    "ModelGame",
    "Outcome",
    "RegressogramGame",
    "RidgeGame",
    "RowsGame",
    "SizeGame",
    "TableGame",
    "airport",
    "as_game",
    "digest",
    "glove",
    "logarithmic",
    "mean_estimation",
    "power_law",
    "rational",
    "ridge_minimiser",
    "saturating",
    "voting",
]
