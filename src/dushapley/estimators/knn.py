"""Owner-level KNN-Shapley: a closed form of games with rows, so nothing is ever asked."""

from __future__ import annotations

from dushapley.errors import ProtocolViolated
from dushapley.estimators.method import Method
from dushapley.estimators.random import two
from dushapley.protocol import Conversation, Problem


def knn(_problem: Problem) -> Conversation:
    """Exact values of the K-nearest-neighbour game on the owners' rows, K = 5.

    The game answers by its own formula, see `dushapley.games.knn.knn_values`; a game without
    rows and a test set is refused before anything is paid. For another K, make a `KNNGame`.

    Cost: no evaluation. Of a `KNNGame` these are the Shapley values; of any other game with rows
    they value another model (nearest neighbours) on the same rows, and the result says so.
    Jia et al. (2019), for owners of many rows.
    """
    raise ProtocolViolated("knn asks no questions; only a game with rows can answer it.")


METHOD = Method(
    name="knn",
    summary="exact values of the nearest-neighbour game on the same rows (no evaluations)",
    run=knn,
    least=two,
    default=two,
    biased=True,
    needs="rows",
    cite="jia2019",
)
