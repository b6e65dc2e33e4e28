"""Two valuations of the same owners, one minus the other: what changes in who gets what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dushapley.arrays import FloatArray
from dushapley.errors import InvalidValuation
from dushapley.games.base import grouped
from dushapley.results.uncertainty import half_width, is_clear, sampling_variances, source_errors
from dushapley.terminal import decimals_for, error_text, printable, short_name, table

if TYPE_CHECKING:
    import pandas as pd

    from dushapley.results.valuation import Valuation

BY_ROW = "sampling apart, test rows as they move both, training at most the sum"
AT_MOST = "sampling apart, test set and training at most the sum of both"
"""How errors of the two go together: the second where single test rows are no longer known."""


@dataclass(frozen=True, eq=False)
class Difference:
    """The first valuation minus the second, owner by owner.

    Attributes
    ----------
    first, second
        The two; owners are matched by name, in the order of the first.
    values, std_errors
        Differences and their joint standard errors; NaN where part of an error is unknown.
    shares
        By how much each owner's share of the sum of all values differs.
    meaning
        How the errors of the two were put together.
    """

    first: Valuation
    second: Valuation
    values: FloatArray
    std_errors: FloatArray
    shares: FloatArray
    meaning: str

    @property
    def owners(self) -> tuple[str, ...]:
        """Names, in the order of the first."""
        return self.first.owners

    @property
    def clear(self) -> tuple[str, ...]:
        """Owners whose difference is at least its 95% half-width, and not mere rounding."""
        least = max(self.first.rounding, self.second.rounding)
        pairs = zip(self.owners, self.values.tolist(), self.std_errors.tolist(), strict=True)
        return tuple(name for name, d, e in pairs if abs(d) > least and is_clear(d, e))

    def to_frame(self) -> pd.DataFrame:
        """One row per owner, the largest difference first."""
        import pandas as pd

        place, half, clear = (
            _places(self.first, self.second),
            half_width(self.std_errors),
            self.clear,
        )
        frame = pd.DataFrame(
            {
                "owner": self.owners,
                "first": self.first.values,
                "second": self.second.values[place],
                "difference": self.values,
                "std_error": self.std_errors,
                "low": self.values - half,
                "high": self.values + half,
                "share": self.shares,
                "clear": [name in clear for name in self.owners],
            }
        )
        order = np.argsort(-abs(self.values), kind="stable")
        return frame.iloc[order].reset_index(drop=True)

    def __repr__(self) -> str:
        """A table of the differences and what they amount to."""
        digits = decimals_for(self.values)
        number = "+.3e" if digits < 0 else f"+.{digits}f"
        rows = []
        for row in self.to_frame().to_dict("records"):
            name, difference = short_name(row["owner"]), format(row["difference"], number)
            error, share = row["std_error"], row["share"]
            half = "unknown" if np.isnan(error) else error_text(half_width(error))
            points = "-" if np.isnan(share) else f"{100 * share:+.1f} points"
            rows.append([name, difference, half, points, "clear" if row["clear"] else ""])
        lines = [
            f"{self.first.method} minus {self.second.method}, {len(rows)} owners",
            table(("owner", "difference", "± 95%", "share", ""), rows),
            printable(f"  {self.verdict()}"),
            f"  errors: {self.meaning}",
        ]
        return "\n".join(lines)

    def verdict(self) -> str:
        """What it amounts to, in a sentence."""
        if np.isnan(self.std_errors).any():
            return (
                "Part of the error is unknown, so nothing tells whether this is more than chance."
            )
        if not self.clear:
            return "No owner's value differs by more than its error."
        names, left = ", ".join(map(repr, self.clear[:5])), len(self.clear) - 5
        more = f" and {left} more" if left > 0 else ""
        return f"Beyond their error differ: {names}{more}."


def subtract(first: Valuation, second: Valuation) -> Difference:
    """The difference of two valuations of the same owners."""
    place = _places(first, second)
    sampling = sampling_variances(first) + sampling_variances(second)[place]
    training = source_errors(first, "training") + source_errors(second, "training")[place]
    test_set, meaning = _test_set(first, second, place)
    values, shares = first.values - second.values[place], first.shares - second.shares[place]
    errors = np.sqrt(sampling + training**2 + test_set)
    return Difference(first, second, values, errors, shares, meaning)


def _places(first: Valuation, second: Valuation) -> list[int]:
    """Where the first's owners stand in the second."""
    apart = sorted(set(first.owners) ^ set(second.owners))
    if apart:
        names = ", ".join(map(repr, apart[:5]))
        raise InvalidValuation(
            f"The two valuations have different owners ({names} in one of them only). A "
            "difference needs the same; what_if tells what joining or leaving changes."
        )
    place = {name: number for number, name in enumerate(second.owners)}
    return [place[name] for name in first.owners]


def _test_set(first: Valuation, second: Valuation, place: list[int]) -> tuple[FloatArray, str]:
    """Variance by the test set: row by row where both are known so, else the sum of the errors.

    Never more than that sum: no two errors can make more of each other.
    """
    most = (source_errors(first, "test set") + source_errors(second, "test set")[place]) ** 2
    one, two = first.influence, second.influence
    if one is not None and two is not None and first.fingerprint == second.fingerprint:
        least = min(len(one), len(two))  # by row, or by groups of rows, as the method knows them
        one, two = grouped(one, least), grouped(two, least)
    if one is None or two is None or not len(one) == len(two) >= 2:
        return most, AT_MOST if most.any() else BY_ROW
    moved = one - two[:, place]
    return np.minimum(moved.var(axis=0, ddof=1) / len(moved), most), BY_ROW
