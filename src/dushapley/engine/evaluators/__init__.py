"""Who answers: games that cost nothing are asked, others are paid for."""

from dushapley.engine.evaluators.bulk import BulkEvaluator, in_bulk
from dushapley.engine.evaluators.free import Evaluator, ScoringEvaluator, blas_limit
from dushapley.engine.evaluators.paid import PaidEvaluator, refuse_ledger
from dushapley.engine.evaluators.waiting import has_several

__all__ = [
    "BulkEvaluator",
    "Evaluator",
    "PaidEvaluator",
    "ScoringEvaluator",
    "blas_limit",
    "has_several",
    "in_bulk",
    "refuse_ledger",
]
