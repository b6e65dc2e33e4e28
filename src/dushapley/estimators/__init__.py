"""Estimators: generators of questions, one family a file."""

from dushapley.estimators.method import Method, Option
from dushapley.estimators.registry import REGISTRY, find, methods

__all__ = ["REGISTRY", "Method", "Option", "find", "methods"]
