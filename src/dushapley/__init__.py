"""Fair values for whole datasets: exact Shapley, DU-Shapley and everything it is compared with.

One flow: owners → game → estimator ⇄ engine → valuation.

>>> import dushapley as ds
>>> game = ds.SizeGame([100, 200, 400], w=lambda n: n / (n + 100))
>>> ds.value(game, "du").values.round(3).tolist()
[0.189, 0.271, 0.39]
"""

from importlib.metadata import version

from dushapley import estimators, games, guarantees
from dushapley.compare import compare, plot_comparison
from dushapley.conversation import AskTell
from dushapley.engine import value
from dushapley.errors import DUShapleyError, Stopped
from dushapley.estimators import methods
from dushapley.games import (
    CallableGame,
    DatasetGame,
    FoldsGame,
    Game,
    KNNGame,
    LinearRegressionGame,
    ModelGame,
    RegressogramGame,
    SizeGame,
    TableGame,
)
from dushapley.ledger import Ledger
from dushapley.owners import Owners
from dushapley.questions import Ask, Estimate, Problem
from dushapley.ranking import probability_greater, rank_probabilities
from dushapley.valuation import Valuation

__version__ = version("dushapley")

__all__ = [
    "Ask",
    "AskTell",
    "CallableGame",
    "DUShapleyError",
    "DatasetGame",
    "Estimate",
    "FoldsGame",
    "Game",
    "KNNGame",
    "Ledger",
    "LinearRegressionGame",
    "ModelGame",
    "Owners",
    "Problem",
    "RegressogramGame",
    "SizeGame",
    "Stopped",
    "TableGame",
    "Valuation",
    "__version__",
    "compare",
    "estimators",
    "games",
    "guarantees",
    "methods",
    "plot_comparison",
    "probability_greater",
    "rank_probabilities",
    "value",
]
