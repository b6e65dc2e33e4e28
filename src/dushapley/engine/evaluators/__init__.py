"""Who answers: games that cost nothing are asked, others are paid for."""

from dushapley.engine.evaluators.free import Evaluator, ScoringEvaluator, blas_limit
from dushapley.engine.evaluators.paid import PaidEvaluator, refuse_ledger

__all__ = ["Evaluator", "PaidEvaluator", "ScoringEvaluator", "blas_limit", "refuse_ledger"]
