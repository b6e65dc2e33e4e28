"""Small classifiers trained for thousands of pools at once, and the plain ones they must equal."""

from dushapley.batched.arithmetic import Arithmetic, arithmetic
from dushapley.batched.holdings import Holding, holdings
from dushapley.batched.program import Program, Trained
from dushapley.batched.recipe import Recipe
from dushapley.batched.reference import SmallMLP, SoftmaxRegression, safe_rate

__all__ = [
    "Arithmetic",
    "Holding",
    "Program",
    "Recipe",
    "SmallMLP",
    "SoftmaxRegression",
    "Trained",
    "arithmetic",
    "holdings",
    "safe_rate",
]
