"""Fair values for whole datasets: exact Shapley, DU-Shapley and everything it is compared with.

One flow, and its rooms: owners (`data`) → `games` → `estimators` ⇄ `engine` → `results` →
`settlement`, `report`; `guarantees` knows bounds, `cli` is the command line. Each room imports only
from earlier ones. Text for terminals has a module low down (`terminal`), because values,
settlements and commands all print tables; errors are carried through to values in
`engine.error_bars`, because that replays conversations, and read off in `results.uncertainty`.
docs/architecture.md draws it.

>>> import dushapley as ds
>>> game = ds.SizeGame([100, 200, 400], w=lambda n: n / (n + 100))
>>> ds.value(game, "du").values.round(3).tolist()
[0.189, 0.271, 0.39]
"""

from typing import TYPE_CHECKING

from dushapley import estimators, games, guarantees, report
from dushapley.data.check import check
from dushapley.data.owners import Owners
from dushapley.engine.asktell import AskTell
from dushapley.engine.compare import compare, quote
from dushapley.engine.diagnosis import diagnose
from dushapley.engine.ledger import Ledger
from dushapley.engine.value import value
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
    StreamedGame,
    TableGame,
)
from dushapley.games.model.catalogue import models, scores
from dushapley.hashing import package_version
from dushapley.protocol import Ask, Estimate, Problem
from dushapley.results.citations import bibtex
from dushapley.results.display import plot_comparison
from dushapley.results.uncertainty import probability_greater
from dushapley.results.valuation import Valuation
from dushapley.settlement.changes import Copy, Join, Leave, Merge, MoreRows
from dushapley.settlement.interactions import Interactions, interactions
from dushapley.settlement.settlement import Settlement, settle
from dushapley.settlement.verification import Verdict, verify
from dushapley.settlement.whatif import WhatIf, quote_change, what_if

if TYPE_CHECKING:
    from dushapley.federated import FederatedGame

__version__ = package_version("dushapley")


def __getattr__(name: str) -> object:
    """Federations, loaded when asked for: they need scikit-learn."""
    if name == "FederatedGame":
        from dushapley.federated import FederatedGame

        return FederatedGame
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Ask",
    "AskTell",
    "CallableGame",
    "Copy",
    "DUShapleyError",
    "DatasetGame",
    "Estimate",
    "FederatedGame",
    "FoldsGame",
    "Game",
    "Interactions",
    "Join",
    "KNNGame",
    "Leave",
    "Ledger",
    "LinearRegressionGame",
    "Merge",
    "ModelGame",
    "MoreRows",
    "Owners",
    "Problem",
    "RegressogramGame",
    "Settlement",
    "SizeGame",
    "Stopped",
    "StreamedGame",
    "TableGame",
    "Valuation",
    "Verdict",
    "WhatIf",
    "__version__",
    "bibtex",
    "check",
    "compare",
    "diagnose",
    "estimators",
    "games",
    "guarantees",
    "interactions",
    "methods",
    "models",
    "plot_comparison",
    "probability_greater",
    "quote",
    "quote_change",
    "report",
    "scores",
    "settle",
    "value",
    "verify",
    "what_if",
]
