"""Who answers: games that cost nothing are asked, others are paid for."""

from dushapley.engine.evaluators.around import AroundEvaluator, marginals_of, settled
from dushapley.engine.evaluators.bulk import BulkEvaluator, in_bulk, round_of
from dushapley.engine.evaluators.free import Evaluator, ScoringEvaluator, blas_limit
from dushapley.engine.evaluators.paid import PaidEvaluator, refuse_nameless
from dushapley.engine.evaluators.waiting import has_several

__all__ = [
    "AroundEvaluator",
    "BulkEvaluator",
    "Evaluator",
    "PaidEvaluator",
    "ScoringEvaluator",
    "blas_limit",
    "has_several",
    "in_bulk",
    "marginals_of",
    "refuse_nameless",
    "round_of",
    "settled",
]
