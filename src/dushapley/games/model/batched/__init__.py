"""Small classifiers trained for thousands of pools at once, and the plain ones they must equal."""

from dushapley.games.model.batched.arithmetic import Arithmetic, arithmetic
from dushapley.games.model.batched.membership import Membership, memberships
from dushapley.games.model.batched.program import Program, Trained
from dushapley.games.model.batched.recipe import Recipe
from dushapley.games.model.batched.reference import SmallMLP, SoftmaxRegression, safe_rate

__all__ = [
    "Arithmetic",
    "Membership",
    "Program",
    "Recipe",
    "SmallMLP",
    "SoftmaxRegression",
    "Trained",
    "arithmetic",
    "memberships",
    "safe_rate",
]
