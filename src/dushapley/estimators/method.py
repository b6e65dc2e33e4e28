"""What a method declares about itself, and how its options are checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from dushapley.arrays import BoolArray, FloatArray
from dushapley.errors import InvalidOption
from dushapley.protocol import Conversation, Problem
from dushapley.validation import is_whole

Keeps = Literal["efficiency", "symmetry", "null player"]
Needs = Literal["coalitions", "fractions", "rows", "formula"]
Options = Mapping[str, Any]
"""What `options=` holds: values by the names of a method's options."""
Cost = Callable[[int, Options], int]
"""Evaluations by the number of owners and the options."""


@dataclass(frozen=True)
class Option:
    """One option of a method: its default, and the values it takes.

    `choices` lists the allowed values; without it, any value of the default's type is taken (whole
    numbers count as decimals), provided `valid` holds of it.
    """

    default: Any
    meaning: str
    choices: tuple[Any, ...] = ()
    valid: Callable[[Any], bool] = lambda _: True

    def parse(self, method: str, name: str, value: Any) -> Any:
        """Return the value in the option's own type, or say what is allowed."""
        if self.choices:
            if value in self.choices:
                return value
            allowed = ", ".join(map(repr, self.choices))
        else:
            allowed = f"{type(self.default).__name__}: {self.meaning}"
            wanted = type(self.default)
            if wanted is float and is_whole(value):
                value = float(value)
            if type(value) is wanted and self.valid(value):
                return value
        raise InvalidOption(f"{method} was given {name}={value!r}; it takes {allowed}.")


@dataclass(frozen=True)
class Method:
    """A Shapley estimator: its mathematics and what it declares.

    Attributes
    ----------
    name, summary
        How users call it, and one line on what it does.
    run
        The generator of questions.
    least
        Smallest budget, ∅ and grand coalition included, as a function of the number of owners and
        the options.
    default
        Budget when none is given.
    keeps
        Axioms that every estimate obeys exactly, whatever the budget. A function of the options
        where it depends on them.
    biased
        Whether its mean over seeds differs from the Shapley value at a finite budget, and its
        intervals leave that out: they are then of sampling error only. (`gp` pulls values towards
        a smooth fit, so its mean differs too, but its intervals are meant to hold that error as
        well.) A function of the options where it depends on them.
    needs
        "coalitions": whole owners suffice. "fractions": true fractions of owners. "rows": actual
        rows (closed form only). "formula": a game that knows the method's answer itself. A function
        of the options where it depends on them.
    options
        What `options=` may hold.
    foreseeable
        Whether its questions depend on the problem and the seed alone, neither on answers nor on
        u(∅) and u(all): then they are asked ahead, and no worker waits for another. "first":
        those of its first round alone; "never": they do depend on answers.
    weights
        Where values are means over replicates of sums that the pools tell by themselves: maps the
        pools of a round, shape (m, I), and the options to their whole weights and those of ∅ and
        everybody, shape (I, m + 2), of all its replicates together. Weights of rounds add up.
    cite
        Key of the paper it comes from.
    """

    name: str
    summary: str
    run: Callable[[Problem], Conversation]
    least: Cost
    default: Cost
    keeps: frozenset[Keeps] | Callable[[Options], frozenset[Keeps]] = frozenset()
    biased: bool | Callable[[Options], bool] = False
    needs: Needs | Callable[[Options], Needs] = "coalitions"
    options: Mapping[str, Option] = field(default_factory=dict)
    foreseeable: bool | Literal["first", "never"] = False
    weights: Callable[[BoolArray, Options], FloatArray] | None = None
    cite: str = ""

    def complete(self, options: Options | None) -> dict[str, Any]:
        """Check the user's options and fill in the defaults."""
        if not isinstance(options, Mapping | None):
            raise InvalidOption(
                f"options is {options!r}; pass a mapping of names to values, such as {{'k': 5}}."
            )
        given = dict(options or {})
        unknown = [name for name in given if name not in self.options]
        if unknown:
            known = [f"{name} ({option.meaning})" for name, option in self.options.items()]
            raise InvalidOption(
                f"{self.name} has no option {unknown[0]!r}; the options it takes: "
                f"{', '.join(known) or 'none'}."
            )
        return {
            name: option.parse(self.name, name, given[name]) if name in given else option.default
            for name, option in self.options.items()
        }

    @property
    def is_adaptive(self) -> bool:
        """True if questions depend on answers, so that other errors cannot be carried through."""
        return self.foreseeable == "never"

    def cost_told(self) -> str:
        """What it costs, in words."""
        options = self.complete(None)
        if self.need(options) in ("formula", "rows"):
            return "no evaluations: a formula"
        least = [self.least(n, options) for n in TEN]
        default = [self.default(n, options) for n in TEN]
        return (
            f"at least {_formula(least)} evaluations and {_formula(default)} by default: "
            f"{least[0]:,} and {default[0]:,} for 10 owners"
        )

    def guarantee_told(self) -> str:
        """What holds of its values under the default options, in words."""
        options = self.complete(None)
        usual = "biased, which its intervals leave out" if self.is_biased(options) else "unbiased"
        parts = [PROMISES.get(self.name, usual)]
        if kept := sorted(self.kept(options)):
            parts.append(f"keeps {', '.join(kept)}")
        return "; ".join(parts)

    def need(self, options: Options) -> Needs:
        """What the method asks of a game under these (complete) options."""
        return self.needs(options) if callable(self.needs) else self.needs

    def kept(self, options: Options) -> frozenset[Keeps]:
        """Axioms obeyed exactly under these (complete) options."""
        return self.keeps(options) if callable(self.keeps) else self.keeps

    def is_biased(self, options: Options) -> bool:
        """Whether the method is biased under these (complete) options."""
        return self.biased(options) if callable(self.biased) else self.biased


TEN = (10, 13, 17)
"""Numbers of owners by which a formula is recognised."""
USUAL = {
    "6I": (0, 6, 0),
    "2I²": (2, 0, 0),
    "2I²−2I+2": (2, -2, 2),
    "2I+2": (0, 2, 2),
    "2I": (0, 2, 0),
    "66I+68": (0, 66, 68),
    "3I+5": (0, 3, 5),
    "I+3": (0, 1, 3),
    "I+2": (0, 1, 2),
    "I+1": (0, 1, 1),
    "3": (0, 0, 3),
    "2": (0, 0, 2),
}
"""Costs as sums of I², I and 1, so many times each."""
PROMISES = {
    "exact": "exact up to rounding",
    "gp": "no proof: its intervals are meant to hold the error of smoothing too, which forecasts "
    "check on every run",
}
"""What is promised by methods that neither word fits."""


def _formula(costs: list[int]) -> str:
    """A cost as a formula in I where it is one of the usual, else its number for 10 owners."""
    if costs == [2**n for n in TEN]:
        return "2^I"
    for name, (squares, owners, fixed) in USUAL.items():
        if costs == [squares * n**2 + owners * n + fixed for n in TEN]:
            return name
    return f"about {costs[0]:,}"


MOST_PLANNED = 2**32
"""Bytes that a method may hold before it asks its first question."""


def two_squares(n_players: int, _options: Options) -> int:
    """Default budget of the sampling methods: 2I², what DU-Shapley costs (at least 4)."""
    return max(4, 2 * n_players**2)


def refuse_large_plan(problem: Problem, bytes_each: float) -> None:
    """Raise `MemoryError` where all coalitions are chosen before any is asked, and too many.

    Parameters
    ----------
    problem
        Has the budget.
    bytes_each
        Memory that a coalition of the budget takes until it is asked.
    """
    if bytes_each * problem.budget > MOST_PLANNED:
        raise MemoryError


def coalition_bytes(n_players: int) -> float:
    """Return the bytes of a coalition that is chosen beforehand; few owners have few of them."""
    return 0.0 if n_players < 24 else 4.0 * n_players
