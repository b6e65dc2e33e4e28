"""When a run has done enough: rules that are put together with ``&`` and ``|``.

A rule looks at what is known after a batch of evaluations (`Standing`) and says whether that will
do. Errors are those of all known sources, as everywhere; where one is unknown, no rule about them
is ever met.

>>> import dushapley as ds
>>> ds.stop.Values(0.05) & ds.stop.Ranking(0.95, top=3) | ds.stop.Seconds(3600)
((Values(0.05) & Ranking(0.95, top=3)) | Seconds(3600))
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from dushapley.arrays import FloatArray
from dushapley.errors import InvalidOption
from dushapley.results.uncertainty import (
    INTERVAL_DRAWS,
    MIDDLE_95,
    half_width,
    joint_draws,
    known_to,
    ranks_of,
)
from dushapley.validation import is_number, is_whole

ENOUGH_REPLICATES = 30
"""Below this many replicates a standard error is too uncertain to stop a run."""


@dataclass(frozen=True)
class Standing:
    """What is known at a point of a run.

    Attributes
    ----------
    values
        The values so far.
    sampling, total
        Standard errors by sampling, and of all sources; None where unknown.
    covariance
        Of the total errors between owners, where known.
    rest
        Standard error that more evaluations cannot remove (training, test set), the largest.
    unknown
        Whether the error of training or test set cannot be told.
    replicates
        Independent repetitions that the errors rest on, where that is a number.
    evaluations, seconds
        What it took so far.
    fresh
        Whether errors of training and test set were looked at just now: only then may they decide.
    """

    values: FloatArray
    sampling: FloatArray | None
    total: FloatArray | None
    covariance: FloatArray | None
    rest: float
    unknown: bool
    replicates: int | None
    evaluations: int
    seconds: float
    fresh: bool

    @property
    def known(self) -> FloatArray | None:
        """Total errors that a decision may rest on; None where there are none."""
        few = self.replicates is not None and self.replicates < ENOUGH_REPLICATES
        return self.total if self.fresh and not few else None

    def draws(self) -> FloatArray | None:
        """Values as they may be, shape (draws, I); None where nothing can be decided."""
        if self.known is None or not self.known.any():
            return None
        return joint_draws(self.values, self.known, self.covariance, most=INTERVAL_DRAWS)


class Stop(ABC):
    """A rule that ends a run; ``a & b`` needs both, ``a | b`` either."""

    @abstractmethod
    def is_met(self, now: Standing) -> bool:
        """Whether the run may end."""

    def is_hopeless(self, now: Standing) -> bool:
        """Whether no further evaluation could make it met."""
        return False

    def ends(self, now: Standing) -> bool:
        """Whether the run is to end here: it has what it was to find, or never will."""
        return self.is_met(now) or (now.fresh and self.is_hopeless(now))

    def __and__(self, other: Stop) -> Stop:
        return Both(self, _rule(other))

    def __or__(self, other: Stop) -> Stop:
        return Either(self, _rule(other))


@dataclass(frozen=True, repr=False)
class Both(Stop):
    """Met when both are."""

    one: Stop
    other: Stop

    def is_met(self, now: Standing) -> bool:
        return self.one.is_met(now) and self.other.is_met(now)

    def is_hopeless(self, now: Standing) -> bool:
        return self.one.is_hopeless(now) or self.other.is_hopeless(now)

    def __repr__(self) -> str:
        return f"({self.one!r} & {self.other!r})"


@dataclass(frozen=True, repr=False)
class Either(Stop):
    """Met when one of the two is."""

    one: Stop
    other: Stop

    def is_met(self, now: Standing) -> bool:
        return self.one.is_met(now) or self.other.is_met(now)

    def is_hopeless(self, now: Standing) -> bool:
        return self.one.is_hopeless(now) and self.other.is_hopeless(now)

    def __repr__(self) -> str:
        return f"({self.one!r} | {self.other!r})"


@dataclass(frozen=True, repr=False)
class Values(Stop):
    """Every value is known to ± this part of the spread of the values, as with `precision=`."""

    precision: float

    def __post_init__(self) -> None:
        _check_part(self, self.precision, "part of the spread of values, say 0.05")

    def is_met(self, now: Standing) -> bool:
        if now.known is None:
            return False
        widest = half_width(float(now.known.max()))
        return 0 < widest <= self.precision * float(np.ptp(now.values))  # 0: nothing varied yet

    def is_hopeless(self, now: Standing) -> bool:
        """Whether the rest alone exceeds the wish, or is unknown.

        An early estimate tells the rest roughly: then it has to exceed the wish twice.
        """
        if now.sampling is None or now.unknown:
            return now.unknown
        limit = self.precision * float(np.ptp(now.values))
        sure = now.rest >= float(now.sampling.max()) or half_width(now.rest) > 2 * limit
        return half_width(now.rest) > limit and sure

    def __repr__(self) -> str:
        return f"Values({_shortest(self.precision)})"


@dataclass(frozen=True, repr=False)
class Payments(Stop):
    """Payments are known to ± this part of themselves, all together.

    Of a pot that is shared in proportion to the values, negative ones getting nothing: half-widths
    of the 95% intervals of all payments, added up, over the pot. A settlement tells the same
    number: "payments known to ±8%".
    """

    precision: float

    def __post_init__(self) -> None:
        _check_part(self, self.precision, "part of the payments, say 0.1")

    def is_met(self, now: Standing) -> bool:
        drawn = now.draws()
        if drawn is None:
            return False
        paid, maybe = (_shares(values) for values in (now.values[None], drawn))
        low, high = np.quantile(maybe, MIDDLE_95, axis=0)
        parts = known_to(paid[0], (high - low) / 2)
        return parts is not None and parts[0] <= self.precision

    def is_hopeless(self, now: Standing) -> bool:
        return now.unknown

    def __repr__(self) -> str:
        return f"Payments({_shortest(self.precision)})"


@dataclass(frozen=True, repr=False)
class Ranking(Stop):
    """The order is right with this probability: of all owners, or who the `top` ones are.

    By joint draws of all values, as `rank_probabilities`.
    """

    probability: float = 0.95
    top: int | None = None

    def __post_init__(self) -> None:
        if not is_number(self.probability, above=0) or not self.probability < 1:
            raise InvalidOption(
                f"Ranking was given {self.probability!r}; it needs a probability between 0 and 1, "
                "say 0.95."
            )
        if self.top is not None and not is_whole(self.top, least=1):
            raise InvalidOption(f"top is {self.top!r}; it needs to be a whole number from 1 on.")

    def is_met(self, now: Standing) -> bool:
        drawn = now.draws()
        if drawn is None:
            return False
        believed, maybe = ranks_of(now.values[None]), ranks_of(drawn)
        if self.top is None:
            right = maybe == believed
        else:
            right = (maybe < self.top) == (believed < self.top)
        return float(right.all(axis=1).mean()) >= self.probability

    def is_hopeless(self, now: Standing) -> bool:
        return now.unknown

    def __repr__(self) -> str:
        top = "" if self.top is None else f", top={self.top}"
        return f"Ranking({_shortest(self.probability)}{top})"


@dataclass(frozen=True, repr=False)
class Seconds(Stop):
    """So many seconds have passed; looked at between batches, once there is an estimate.

    Unlike `max_seconds`, which raises `Stopped` in the middle of one.
    """

    seconds: float

    def __post_init__(self) -> None:
        if not is_number(self.seconds, above=0):
            raise InvalidOption(f"Seconds was given {self.seconds!r}; it needs a positive number.")

    def is_met(self, now: Standing) -> bool:
        return now.seconds >= self.seconds

    def __repr__(self) -> str:
        return f"Seconds({_shortest(self.seconds)})"


@dataclass(frozen=True, repr=False)
class Replay(Stop):
    """What a stored run was ended by, where it may have been the clock, which nobody can ask again.

    Another run ends after as many evaluations at the latest, and earlier where the rest of the
    rule says so. Whether it was met is as recorded, wherever that depends on the clock.

    Attributes
    ----------
    text, met
        As they were recorded.
    evaluations
        How many the stored run made.
    rule
        The rule itself; None where it is not one of this version.
    """

    text: str
    met: bool
    evaluations: int
    rule: Stop | None = None

    def is_met(self, now: Standing) -> bool:
        late = now.evaluations >= self.evaluations
        if self.rule is None:
            return self.met and late
        if not late:
            return self.rule.is_met(replace(now, seconds=0.0))
        possible = [self.rule.is_met(replace(now, seconds=seconds)) for seconds in (0.0, inf)]
        return self.met if self.met in possible else possible[0]

    def ends(self, now: Standing) -> bool:
        late = now.evaluations >= self.evaluations
        return late or (self.rule is not None and self.rule.ends(replace(now, seconds=0.0)))

    def __repr__(self) -> str:
        return self.text


LEAVES = (Values, Payments, Ranking, Seconds)
RULES: dict[str, Callable[..., Stop]] = {kind.__name__: kind for kind in LEAVES}
LONGEST_RULE = 1000
"""Letters of a rule that is read."""
_LEAF = re.compile(rf"({'|'.join(RULES)})\(([0-9.e+-]{{1,30}})(?:, top=([0-9]{{1,9}}))?\)")


def read_rule(text: str) -> Stop | None:
    """A rule from what its `repr` wrote, and from nothing else; None where it is not one.

    Examples
    --------
    >>> read_rule("(Values(0.05) | Seconds(600))")
    (Values(0.05) | Seconds(600))
    >>> read_rule("print(1)") is None
    True
    """
    try:
        if len(text) > LONGEST_RULE:
            return None
        rule, _ = _read(text)
    except (ValueError, TypeError, RecursionError, InvalidOption):
        return None
    return rule if repr(rule) == text else None


def _read(text: str) -> tuple[Stop, str]:
    """The rule at the beginning of a text, and what follows it."""
    if text.startswith("("):
        one, rest = _read(text[1:])
        other, after = _read(rest[3:])
        return (one & other if rest.startswith(" & ") else one | other), after[1:]
    leaf = _LEAF.match(text)
    if leaf is None:
        raise ValueError("this is not a rule")
    top = {} if leaf[3] is None else {"top": int(leaf[3])}
    return RULES[leaf[1]](float(leaf[2]), **top), text[leaf.end() :]


def looks_at_clock(rule: Stop) -> bool:
    """Whether it ends runs by the time they take."""
    if isinstance(rule, (Both, Either)):
        return looks_at_clock(rule.one) or looks_at_clock(rule.other)
    return isinstance(rule, Seconds)


def check_stop(stop: object, precision: float | None) -> Stop | None:
    """The rule of a run: as given, or by the precision alone."""
    if stop is None:
        return None if precision is None else Values(precision)
    if precision is not None:
        raise InvalidOption(
            f"Both precision={precision!r} and stop= were given. Put the precision into the rule: "
            f"stop=ds.stop.Values({precision!r}) & ..."
        )
    return _rule(stop)


def _rule(thing: object) -> Stop:
    if isinstance(thing, Stop):
        return thing
    raise InvalidOption(
        f"Found {type(thing).__name__} {thing!r:.60} where a rule for stopping was needed. Make "
        "one of ds.stop.Values(0.05), Payments(0.1), Ranking(0.95, top=3), Seconds(60); with & "
        "and | they go together."
    )


def _check_part(rule: Stop, part: object, meaning: str) -> None:
    if not is_number(part, above=0, most=1):
        raise InvalidOption(
            f"{type(rule).__name__} was given {part!r}; it needs a {meaning}, above 0 and at most "
            "1."
        )


def _shares(values: FloatArray) -> FloatArray:
    """Parts of a pot by values, row by row; equal ones where nobody is worth anything."""
    worth = np.maximum(values, 0.0)
    total = worth.sum(axis=1, keepdims=True)
    return np.where(total > 0, worth / np.where(total > 0, total, 1.0), 1 / values.shape[1])


def _shortest(number: float) -> str:
    """A number as short as it can be read back."""
    return short if float(short := f"{number:g}") == number else repr(float(number))
