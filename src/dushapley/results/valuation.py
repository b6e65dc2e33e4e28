"""The result: who contributed how much, how sure that is, and how it was computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dushapley.arrays import AnyDict, AnyMapping, FloatArray, IntArray
from dushapley.data.files import PathLike
from dushapley.data.outputs import write_whole
from dushapley.errors import InvalidValuation, UnknownOwner
from dushapley.guarantees.uniformity import Uniformity, uniformity
from dushapley.results.difference import Difference, subtract
from dushapley.results.display import TITLES, html, plot
from dushapley.results.schema import SOURCES, valuation_fault
from dushapley.results.uncertainty import (
    half_width,
    rank_probabilities,
    root_mean_square,
    with_errors,
)
from dushapley.terminal import decimals_for, distinct_names, error_text, json_text, printable, table
from dushapley.validation import place_of, read_json

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

FORMAT = "dushapley.valuation/1"
LONGER = 8
"""Times as much as other files may hold: a million owners have six numbers each."""
WIDEST_NAME = 40
"""Columns of a name in the terminal."""
_MAPPINGS = ("options", "guarantee", "failures", "errors", "details")
_ARRAYS = ("sizes", "values", "std_errors", "covariance")


class OwnerValue(NamedTuple):
    """What is known of one owner: `Valuation` gives them by name, and one by one.

    `std_error`, `low` and `high` are of all sources of error, NaN where part of it is unknown;
    `share` is of the sum of all values; the best rank is 1.
    """

    name: str
    size: float
    value: float
    std_error: float
    low: float
    high: float
    share: float
    rank: int


@dataclass(frozen=True, eq=False)
class Valuation:
    """Values of all owners, with their errors and their provenance. Frozen; arrays are read-only.

    Attributes
    ----------
    owners, sizes
        Names and rows of the owners.
    values
        The value of each owner, in units of the utility.
    std_errors
        Standard errors of sampling, as the method knows them: their `half_width` is the 95%
        interval around the value that all coalitions would give. None where there is no
        estimate of them (`exact`, closed forms, a single replicate). See `interval_meaning` and
        `total_errors`.
    covariance
        Covariance of the errors between owners, where known.
    method
        What ran; "auto → exact" when a policy chose it.
    options, budget, precision, seed
        What was asked for. `budget` None means the method's default.
    n_evaluations, n_distinct, n_computed
        Pools asked, different ones among them, and those actually computed in this run (the rest
        was found in the ledger). Games that cost nothing are not de-duplicated: n_distinct is None.
    n_trainings
        Trainings that the values rest on, found ones included: repeats and folds of every pool but
        the empty one, and probes for chance (``details["probes"]``). A pool of one class counts,
        though nothing is fitted to it, and one that fails counts with all its repeats, though the
        first failure ends it. 0 where nothing is trained.
    u_empty, u_full
        Utility of no data and of everybody's.
    biased
        Whether the method's mean differs from the Shapley value, so that the standard errors are
        of sampling error only.
    complete
        Whether the plan was carried out; False for a run that was stopped early.
    fingerprint
        Content hash of the game, None where it cannot be known.
    guarantee
        A proven bound on the error, where there is one.
    failures
        Utilities that failed and were replaced by the chosen policy, by cause.
    errors
        Standard errors by source, where something is trained: "sampling", "training" and
        "test set" (None where one is unknown), the names of the "unknown" ones, the "total" with
        its "covariance" between owners (None and absent unless all are known; absent also beyond
        1,000 owners), and which of the known ones is "dominant".
    notes
        Sentences to read before paying anybody.
    details
        Further results of the method, and the "trail" of a paid run (`dushapley.results.history`).
    version
        Version of this library.
    """

    owners: tuple[str, ...]
    sizes: FloatArray
    values: FloatArray
    std_errors: FloatArray | None
    method: str
    n_evaluations: int
    n_distinct: int | None
    n_computed: int
    u_empty: float
    u_full: float
    seed: int
    covariance: FloatArray | None = None
    budget: int | None = None
    precision: float | None = None
    options: AnyMapping = field(default_factory=dict)
    biased: bool = False
    complete: bool = True
    fingerprint: str | None = None
    guarantee: AnyMapping | None = None
    failures: Mapping[str, int] = field(default_factory=dict)
    errors: AnyMapping = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    details: AnyMapping = field(default_factory=dict)
    version: str = ""
    n_trainings: int = 0

    def __post_init__(self) -> None:
        for name in _ARRAYS:
            array = getattr(self, name)
            if array is not None:
                frozen = np.array(array, dtype=np.float64)
                frozen.setflags(write=False)
                object.__setattr__(self, name, frozen)
        for name in _MAPPINGS:
            mapping = getattr(self, name)
            if mapping is not None:
                object.__setattr__(self, name, MappingProxyType(_plain(mapping)))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as plain data, for those who send results between processes."""
        return Valuation.from_dict, (self.to_dict(),)

    def __eq__(self, other: object) -> bool:
        """Equal when every field is, to the last bit."""
        return isinstance(other, Valuation) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.to_json())

    @property
    def influence(self) -> FloatArray | None:
        """Values by test row, shape (rows, I), in the process that made them; not stored."""
        return self.__dict__.get("_influence")

    @property
    def efficiency_gap(self) -> float:
        """Σ values − (u(all) − u(∅)): what the method gives away in excess, or too little of."""
        return float(self.values.sum() - (self.u_full - self.u_empty))

    @property
    def method_asked(self) -> str:
        """The name the user gave."""
        return self.method.split(" → ")[0]

    @property
    def method_run(self) -> str:
        """The method whose values these are."""
        return self.method.split(" → ")[-1]

    @property
    def unknown(self) -> tuple[str, ...]:
        """Sources of error that are there and of unknown size: there is no total then.

        Of "sampling", "training" and "test set"; "bias" where a formula answers another question
        than this game's Shapley value.
        """
        if self.errors:
            parts = (name for name in SOURCES if self.errors.get(name) is None)
            return (*parts, *("bias",) * (self.biased and not self.n_evaluations))
        if self.std_errors is not None or self.is_enumerated:
            return ()
        return ("sampling",) if self.n_evaluations else ("bias",) * self.biased

    @property
    def is_enumerated(self) -> bool:
        """Whether all coalitions count, asked or by a formula, so that sampling has no error."""
        asked = self.n_evaluations if self.method_run == "gp" else self.n_distinct
        return (self.method_run == "exact" or asked == 2 ** len(self)) and not self.biased

    @property
    def total_errors(self) -> FloatArray | None:
        """Standard errors of all sources together; ± in tables and plots is 1.96 of them.

        Sampling, training and test set; None where one of them is `unknown`, and where there is no
        error at all. Games that train nothing have errors of sampling alone.
        """
        if self.unknown:
            return None
        total = self.errors.get("total")
        return self.std_errors if total is None else np.asarray(total, dtype=np.float64)

    @property
    def total_covariance(self) -> FloatArray | None:
        """Covariance between owners of the errors in `total_errors`, where it is known."""
        if self.total_errors is None:
            return None
        if self.errors.get("total") is not None:
            joint = self.errors.get("covariance")
            return None if joint is None else np.asarray(joint, dtype=np.float64)
        if self.covariance is None or self.std_errors is None:
            return None
        return with_errors(self.covariance, self.std_errors)

    @property
    def interval_meaning(self) -> str:
        """What the `half_width` of `total_errors` covers."""
        if self.unknown:
            return f"unknown: {', '.join(self.unknown)}"
        if self.total_errors is None:
            return "no error: all coalitions count"
        bias = ", not for bias" * self.biased
        apart = ", errors of different owners taken as independent" * self.is_apart
        if self.errors:
            return f"95% interval for {', '.join(SOURCES)}{bias}{apart}"
        return f"{'sampling error only' if self.biased else '95% interval'}{apart}"

    @property
    def is_apart(self) -> bool:
        """Whether errors are known, but not how those of two owners go together.

        A method may not know it of sampling, and of more than 1,000 owners errors by source are
        kept without. Differences and ranks then take them as independent.
        """
        errors, joint = self.errors.get("total"), self.errors.get("covariance")
        if errors is None or joint is not None:
            errors, joint = self.std_errors, self.covariance
        return joint is None and errors is not None and len(self) > 1 and bool(np.any(errors))

    @property
    def shares(self) -> FloatArray:
        """Each owner's part of the sum of all values; NaN where they add up to nothing."""
        total = self.values.sum()
        return self.values / (np.nan if abs(total) <= self.rounding else total)

    @property
    def rounding(self) -> float:
        """What arithmetic leaves of a value that should be 0: 1e-12 of the largest number at hand.

        Utilities and values of this size or less count as nothing, whatever their sign.
        """
        return 1e-12 * max(abs(self.u_full), abs(self.u_empty), float(abs(self.values).max()))

    @property
    def order(self) -> IntArray:
        """Positions of the owners, best first; values that differ by rounding stay as named."""
        by_value, group = self._groups()
        return by_value[np.lexsort((by_value, group))]

    @property
    def places(self) -> IntArray:
        """Rank of each owner, the best having 1; owners of equal value have the better one."""
        by_value, group = self._groups()
        ranks = np.empty(len(by_value), dtype=np.int64)
        ranks[by_value] = 1 + np.searchsorted(group, group)
        return ranks

    def _groups(self) -> tuple[IntArray, IntArray]:
        """Positions by value, and which of them are equal up to rounding."""
        by_value = np.argsort(-self.values, kind="stable")
        apart = -np.diff(self.values[by_value]) > self.rounding
        return by_value, np.concatenate([[0], np.cumsum(apart)])

    def uniformity(self, gamma: ArrayLike | None = None) -> Uniformity:
        """How uniform is this collaboration? Theorem 1's law of coalition sizes, see `guarantees`.

        Rests on the owners' sizes alone (and their precisions `gamma`, if given): what DU-Shapley
        takes for granted of them, whatever method these values come from.
        """
        return uniformity(self.sizes, gamma)

    def to_frame(self) -> pd.DataFrame:
        """One row per owner, best first: owner, size, value, std_error, low, high, share, rank.

        Where something is trained, also sampling_error, training_error and test_set_error.
        `std_error` is of all sources together, see `total_errors`; where a part of it is unknown it
        is missing, and a column `unknown` names the part.
        """
        import pandas as pd

        frame = pd.DataFrame({"owner": self.owners, **self._columns()})
        for source in SOURCES:
            if source in self.errors:
                part = self.errors[source]
                frame[f"{source.replace(' ', '_')}_error"] = np.nan if part is None else part
        if self.unknown:
            frame["unknown"] = ", ".join(self.unknown)
        return frame.iloc[self.order].reset_index(drop=True)

    def _columns(self) -> AnyDict:
        """What is known of each owner but its name, in the order of `OwnerValue`."""
        known, values = self.total_errors, self.values
        errors = np.full(len(values), np.nan) if known is None else known
        half = half_width(errors)
        return {
            "size": self.sizes,
            "value": values,
            "std_error": errors,
            "low": values - half,
            "high": values + half,
            "share": self.shares,
            "rank": self.places,
        }

    def _rows(self) -> list[OwnerValue]:
        columns = (column.tolist() for column in self._columns().values())
        return [OwnerValue(*row) for row in zip(self.owners, *columns, strict=True)]

    def to_dict(self) -> AnyDict:
        """Plain JSON types; `from_dict` gives the same bits back, also through JSON text."""
        return {"format": FORMAT} | {f.name: _plain(getattr(self, f.name)) for f in fields(self)}

    @classmethod
    def from_dict(cls, data: AnyMapping) -> Valuation:
        """Read back what `to_dict` wrote."""
        found = data.get("format") if isinstance(data, Mapping) else type(data).__name__
        if found != FORMAT:
            raise InvalidValuation(
                f"Found format {found!r}; it must be {FORMAT!r}, as it was written."
            )
        needed = {f.name for f in fields(cls) if f.default is f.default_factory is MISSING}
        if fault := valuation_fault(data, needed):
            raise InvalidValuation(
                f"The stored valuation cannot be read: {fault}. Use it as it was written, or value "
                "the game again."
            )
        sequences = {name: tuple(data.get(name, ())) for name in ("owners", "notes")}
        return cls(**{k: v for k, v in data.items() if k != "format"} | sequences)

    def to_json(self) -> str:
        """`to_dict` as text, exact to the last bit."""
        return json_text(self.to_dict())

    def save(self, path: PathLike) -> Path:
        """Write everything to a JSON file, whole or not at all; `load` gives the same bits back."""
        return write_whole(path, self.to_json())

    @classmethod
    def load(cls, path: PathLike) -> Valuation:
        """Read what `save` wrote; anything else, or of another version, is refused."""
        return cls.from_dict(
            read_json(path, "valuation", "by Valuation.save", InvalidValuation, LONGER)
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """Bars of the values, largest on top, with 95% error bars where they are known."""
        return plot(self, ax)

    def __len__(self) -> int:
        """Number of owners."""
        return len(self.owners)

    def __iter__(self) -> Iterator[OwnerValue]:
        """Owners one by one, best first."""
        rows = self._rows()
        return (rows[i] for i in self.order.tolist())

    def __contains__(self, name: object) -> bool:
        return name in self.owners

    def __getitem__(self, name: str) -> OwnerValue:
        """What is known of one owner, by name."""
        return self._rows()[place_of(name, self.owners, UnknownOwner)]

    def __sub__(self, other: Valuation) -> Difference:
        """This minus another valuation of the same owners, with joint errors.

        Examples
        --------
        >>> import dushapley as ds
        >>> one, two = (ds.value(ds.TableGame([0, 1, 2, u])) for u in (4, 6))
        >>> (two - one).values.tolist()
        [1.0, 1.0]
        """
        return subtract(self, other) if isinstance(other, Valuation) else NotImplemented

    def ranks(self) -> dict[str, int]:
        """Rank of each owner by name, best first; owners of equal value have the better one."""
        return {one.name: one.rank for one in self}

    def rank_probabilities(self) -> pd.DataFrame:
        """How probable every rank is: a row per owner in the order of the table, a column per rank.

        By joint draws of all values, those behind the ranks of the report and the terminal. Ties go
        to the owner named first.

        Examples
        --------
        >>> import dushapley as ds
        >>> game = ds.CallableGame(lambda z: (z @ [1.0, 2, 4]) ** 0.5, 3, names=["a", "b", "c"])
        >>> ds.value(game, "exact").rank_probabilities().idxmax().to_dict()
        {1: 'c', 2: 'b', 3: 'a'}
        """
        import pandas as pd

        names = pd.Index([self.owners[i] for i in self.order], name="owner")
        ranks = pd.RangeIndex(1, len(self) + 1, name="rank")
        return pd.DataFrame(rank_probabilities(self)[self.order], names, ranks)

    def __repr__(self) -> str:
        """A table that can be read at a glance."""
        return "\n".join([self.headline(), self._table(), *self.footnotes()])

    def _repr_html_(self) -> str:
        """The same table for notebooks; `dushapley.report` makes a whole page."""
        return html(self)

    def headline(self) -> str:
        """One line: how many owners, by which method, at what cost."""
        state = "" if self.complete else " (stopped early)"
        more = self.n_trainings >= self.n_evaluations > 0  # than one for each pool but the empty
        trainings = f"{self.n_trainings} trainings, " if more else ""
        return printable(
            f"Valuation of {len(self.owners)} owners by {self.method}{state}: "
            f"{self.n_evaluations} evaluations, {self.n_computed} computed, {trainings}"
            f"seed {self.seed}"
        )

    def _table(self) -> str:
        order, left_out = self.order, len(self) - 30
        if left_out <= 0:
            return table(TITLES, self.cells(order))
        best, last = self.cells(order[:15]), self.cells(order[-15:])
        return table(TITLES, [*best, [f"... {left_out:,} more ..."], *last])

    def cells(self, positions: IntArray) -> list[list[str]]:
        """What the table shows of the owners at these positions."""
        digits, shares, known = decimals_for(self.values), self.shares, self.total_errors
        number = ".3e" if digits < 0 else f".{digits}f"
        error = "unknown" if self.unknown else "-"
        names = distinct_names([self.owners[i] for i in positions], WIDEST_NAME)
        rows = []
        for i, name in zip(positions, names, strict=True):
            if known is not None:
                error = error_text(half_width(known[i]))
            size, value = f"{self.sizes[i]:.6g}", format(self.values[i], number)
            share = "-" if np.isnan(shares[i]) else f"{shares[i]:.1%}"
            rows.append([name, size, value, error, share])
        return rows

    def footnotes(self) -> list[str]:
        """Lines under a table of the values: ends, what ± means, errors by source, notes."""
        gap = 0 if abs(self.efficiency_gap) <= self.rounding else self.efficiency_gap
        lines = [
            f"  u(nobody) = {self.u_empty:.6g}, u(all) = {self.u_full:.6g}, "
            f"efficiency gap = {gap:.2g}"
        ]
        if self.unknown:
            lines.append(f"  ± {self.interval_meaning}")
        elif self.total_errors is not None:
            lines.append(f"  ± means: {self.interval_meaning}")
        if self.errors:
            sources = ", ".join(map(self._source, SOURCES))
            lines.append(f"  standard errors, root mean square: {sources}")
        if failed := sum(self.failures.values()):
            lines.append(f"  {failed} utilities failed and were replaced: {dict(self.failures)}")
        lines += [f"  note: {note}" for note in self.notes]
        return list(map(printable, lines))

    def _source(self, name: str) -> str:
        error = self.errors.get(name)
        size = "unknown" if error is None else f"{root_mean_square(error):.2g}"
        return f"{name} {size}" + " (dominant)" * (name == self.errors["dominant"])


def _plain(value: Any) -> Any:
    """Arrays, tuples and numpy numbers as lists and Python numbers."""
    if type(value) in (float, int, str):  # by far the most, where owners are many
        return value
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        done = set(map(type, value)) <= {float, int, str, bool, type(None)}
        return list(value) if done else [_plain(item) for item in value]
    return value
