"""What a method declares about itself, and how its options are checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from dushapley.errors import InvalidOption
from dushapley.protocol import Conversation, Problem
from dushapley.validation import is_whole

Keeps = Literal["efficiency", "symmetry", "null player"]
Needs = Literal["coalitions", "fractions", "rows", "formula"]


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
    adaptive
        Whether it chooses its questions by the answers and states no weights, so that errors of
        training and test set cannot be carried through to its values.
    foreseeable
        Whether its questions depend on the problem and the seed alone, neither on answers nor on
        u(∅) and u(all): then they are asked ahead, and no worker waits for another.
    estimates_errors
        Whether it has standard errors once the budget is large enough.
    cite
        Key of the paper it comes from.
    """

    name: str
    summary: str
    run: Callable[[Problem], Conversation]
    least: Callable[[int, Mapping[str, Any]], int]
    default: Callable[[int, Mapping[str, Any]], int]
    keeps: frozenset[Keeps] | Callable[[Mapping[str, Any]], frozenset[Keeps]] = frozenset()
    biased: bool | Callable[[Mapping[str, Any]], bool] = False
    needs: Needs | Callable[[Mapping[str, Any]], Needs] = "coalitions"
    options: Mapping[str, Option] = field(default_factory=dict)
    adaptive: bool = False
    foreseeable: bool = False
    estimates_errors: bool = True
    cite: str = ""

    def complete(self, options: Mapping[str, Any] | None) -> dict[str, Any]:
        """Check the user's options and fill in the defaults."""
        given = dict(options or {})
        unknown = [name for name in given if name not in self.options]
        if unknown:
            known = ", ".join(f"{n} ({o.meaning})" for n, o in self.options.items()) or "none"
            raise InvalidOption(
                f"{self.name} has no option {unknown[0]!r}; the options it takes: {known}."
            )
        return {
            name: option.parse(self.name, name, given[name]) if name in given else option.default
            for name, option in self.options.items()
        }

    def need(self, options: Mapping[str, Any]) -> Needs:
        """What the method asks of a game under these (complete) options."""
        return self.needs(options) if callable(self.needs) else self.needs

    def kept(self, options: Mapping[str, Any]) -> frozenset[Keeps]:
        """Axioms obeyed exactly under these (complete) options."""
        return self.keeps(options) if callable(self.keeps) else self.keeps

    def is_biased(self, options: Mapping[str, Any]) -> bool:
        """Whether the method is biased under these (complete) options."""
        return self.biased(options) if callable(self.biased) else self.biased


def two_squares(n_players: int, _options: Mapping[str, Any]) -> int:
    """Default budget of the sampling methods: 2I², what DU-Shapley costs (at least 4)."""
    return max(4, 2 * n_players**2)
