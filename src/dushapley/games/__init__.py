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
