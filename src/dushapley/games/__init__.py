"""Games: what a pool of owners' data is worth."""

from importlib import import_module

from dushapley.games.base import Answers, Game, Outcome, Scores, TableGame
from dushapley.games.callables import CallableGame, as_game, from_utility
from dushapley.games.classic import ClassicGame, airport, glove, voting
from dushapley.games.derived import DerivedGame
from dushapley.games.knn import KNNGame
from dushapley.games.many.streamed import StreamedGame
from dushapley.games.model.folds import FoldsGame
from dushapley.games.model.game import ModelGame
from dushapley.games.policy import Training
from dushapley.games.rows import DatasetGame, RowsGame
from dushapley.games.size.curves import (
    LearningCurve,
    logarithmic,
    mean_estimation,
    power_law,
    rational,
    saturating,
)
from dushapley.games.size.games import RegressogramGame, SizeGame
from dushapley.games.size.regression import (
    LinearRegressionGame,
    epsilon_from_gamma,
    gamma_from_privacy,
)
from dushapley.hashing import digest

_MODELS = {
    "Regressogram": "dushapley.games.model.regressogram",
    "SmallMLP": "dushapley.games.model.batched.reference",
    "SoftmaxRegression": "dushapley.games.model.batched.reference",
    "TorchModel": "dushapley.games.model.batched.reference",
}


def __getattr__(name: str) -> object:
    """Models of this library, loaded when asked for: they need scikit-learn."""
    if name in _MODELS:
        return getattr(import_module(_MODELS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Answers",
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
    "Regressogram",
    "RegressogramGame",
    "RowsGame",
    "Scores",
    "SizeGame",
    "SmallMLP",
    "SoftmaxRegression",
    "StreamedGame",
    "TableGame",
    "TorchModel",
    "Training",
    "airport",
    "as_game",
    "digest",
    "epsilon_from_gamma",
    "from_utility",
    "gamma_from_privacy",
    "glove",
    "logarithmic",
    "mean_estimation",
    "power_law",
    "rational",
    "saturating",
    "voting",
]
