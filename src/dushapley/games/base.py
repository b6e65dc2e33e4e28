"""What a game is: a function from pools of data to what they are worth.

A pool is a row of shares, one per owner: 0 leaves the owner out, 1 takes all its rows, anything
between takes that part of them. A coalition is a row of zeros and ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dushapley.arrays import Draws, FloatArray, Fractions, IntArray, Queries, as_floats
from dushapley.errors import FractionsRefused, InvalidGame, InvalidQuery, UtilityFailed
from dushapley.games.many.marginals import Marginals
from dushapley.games.policy import Training, failure_cause, nobody_failed, out_of_memory
from dushapley.hashing import digest, each_row
from dushapley.protocol import Estimate
from dushapley.terminal import printable
from dushapley.validation import check_names, check_sizes, is_partial, pool_name

Wishes = Mapping[str, Any] | None
"""Options of a method other than the defaults."""
MOST_SCORES = 2048
"""Entries kept of a score that is known test row by test row: at most 16 KB a training."""


class Scores:
    """Scores of some pools by test row, or by group of test rows, in a short form.

    A score is the utility plus the influence of the row: the mean over rows is the utility, and
    the error of this mean is that of the test set. Not a number where it is unknown.

    Parameters
    ----------
    coefficients
        Shape (m, K).
    basis
        Shape (rows, K): the scores are ``coefficients @ basis.T``. None: the coefficients are the
        scores themselves.

    Examples
    --------
    >>> import numpy as np
    >>> from dushapley.games import Scores
    >>> Scores(np.array([[1.0, 0.0], [1.0, 1.0]])).fold(np.array([[0.5, 0.5]])).tolist()
    [[1.0, 0.5]]
    """

    def __init__(self, coefficients: FloatArray, basis: FloatArray | None = None) -> None:
        self.coefficients, self.basis = coefficients, basis

    def __len__(self) -> int:
        return len(self.coefficients)

    @property
    def rows(self) -> int:
        """Test rows, or groups of them."""
        return len(self.coefficients.T if self.basis is None else self.basis)

    def matrix(self) -> FloatArray:
        """The scores, shape (m, rows)."""
        return self.coefficients if self.basis is None else self.coefficients @ self.basis.T

    def fold(self, weights: FloatArray, some: slice = slice(None)) -> FloatArray:
        """Sums over some of the pools of weights (k, m) by scores, shape (k, rows)."""
        return Scores(weights @ self.coefficients[some], self.basis).matrix()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one training came to: a row of `Answers`.

    Attributes
    ----------
    value
        The utility; not a number where it failed.
    failure
        Why there is none.
    scores
        By test row, shape (rows,); None where unknown, and for numbers fixed beforehand.
    spread
        Standard deviation between repeated trainings, where there were several.

    Examples
    --------
    >>> from dushapley.games import Outcome
    >>> Outcome(0.5).value
    0.5
    """

    value: float
    failure: str | None = None
    scores: FloatArray | None = None
    spread: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """What some pools came to.

    Attributes
    ----------
    values
        Utilities, shape (m,); of a pool whose training failed not a number, which counts as
        u(nobody).
    scores
        By test row, where they are known. Those of a pool that failed are nobody's.
    failures
        Why a training failed, by its place among the pools.
    spread
        Standard deviation between repeated trainings, shape (m,), where there were several.

    Examples
    --------
    >>> from dushapley.games import Answers, Outcome
    >>> Answers.of([Outcome(0.5), Outcome(float("nan"), "ValueError")]).failures
    {1: 'ValueError'}
    """

    values: FloatArray
    scores: Scores | None = None
    failures: Mapping[int, str] = field(default_factory=dict)
    spread: FloatArray | None = None

    @classmethod
    def of(cls, found: Answers | FloatArray | Sequence[Outcome]) -> Answers:
        """Answers as they are, utilities alone, or outcomes one by one."""
        if isinstance(found, Answers):
            return found
        if isinstance(found, np.ndarray):
            return cls(as_floats(found))
        spreads = [np.nan if o.spread is None else o.spread for o in found]
        rows = max((len(o.scores) for o in found if o.scores is not None), default=0)
        unknown = np.full(rows, np.nan)
        scores = [unknown if o.scores is None else o.scores for o in found]
        return cls(
            np.array([o.value for o in found], dtype=np.float64),
            Scores(np.stack(scores)) if rows else None,
            {place: o.failure for place, o in enumerate(found) if o.failure is not None},
            None if np.isnan(spreads).all() else np.array(spreads),
        )

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Outcome]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, place: int) -> Outcome:
        scores = None if self.scores is None else self.scores.matrix()[place]
        known = scores is not None and not np.isnan(scores).any()
        spread = np.nan if self.spread is None else float(self.spread[place])
        return Outcome(
            float(self.values[place]),
            self.failures.get(place),
            scores if known else None,
            None if np.isnan(spread) else spread,
        )


class Game(ABC):
    """A cooperative game over owners of data: ``game(fractions, draws) -> values``.

    Subclasses set the attributes below and write `evaluate`; shapes, ranges and draws are checked
    here, once. See `dushapley.testing.GameContract` for the tests every game must pass.

    Attributes
    ----------
    n_players
        Number of owners.
    sizes
        Rows of each owner, shape (I,); ones when unknown.
    names
        Names of the owners.
    fingerprint
        A content hash of everything that decides the values, or None when it cannot be known
        (a bare function).
    fractions
        "exact": true fractions are arithmetic. "rows": they are drawn, and need draw ids.
        "none": they are refused.
    cheap
        Vectorised and free: the engine neither de-duplicates nor keeps a ledger.
    block
        How many pools are paid for at a time: the unit of work for workers and of commitment in
        the ledger. Constant, so that it can never depend on what was already known.
    notes
        Sentences about the game that belong beside every result of it.
    training
        Limits, repeats, chance and failures of trainings; None where utilities are arithmetic.

    Examples
    --------
    >>> import numpy as np
    >>> import dushapley as ds
    >>> class Best(ds.Game):
    ...     def __init__(self, worth):
    ...         self.worth = np.asarray(worth)
    ...         self._set_owners(None, None, len(worth))
    ...     def evaluate(self, queries, draws):
    ...         return np.max(queries * self.worth, axis=1)
    >>> ds.value(Best([1.0, 2.0, 4.0]), "exact").values.round(3).tolist()
    [0.333, 0.833, 2.833]
    """

    n_players: int
    sizes: FloatArray
    names: tuple[str, ...]
    fingerprint: str | None = None
    fractions: Fractions = "none"
    cheap: bool = False
    block: int = 64
    notes: tuple[str, ...] = ()
    training: Training | None = None

    def _set_owners(
        self,
        sizes: ArrayLike | None,
        names: Sequence[str] | None = None,
        n_players: int | None = None,
    ) -> None:
        """Check who the owners are; as many as there are sizes where nothing else is said."""
        self.sizes = check_sizes(sizes, n_players)
        self.n_players = len(self.sizes)
        self.names = check_names(names, self.n_players)

    def __repr__(self) -> str:
        """Whose game it is, and of what."""
        if not hasattr(self, "names"):  # not yet made
            return f"{type(self).__name__}()"
        known = zip(self.names[:5], self.sizes.tolist(), strict=False)
        owners = ", ".join(f"{name}: {size:g}" for name, size in known)
        more = ", ..." if self.n_players > 5 else ""
        told = "".join(f"; {part}" for part in self._told())
        return printable(
            f"{type(self).__name__}({self.n_players} owners; rows {owners}{more}{told})"
        )

    def _told(self) -> tuple[str, ...]:
        """What else there is to say of it."""
        return ()

    def __call__(self, fractions: ArrayLike, draws: ArrayLike | None = None) -> FloatArray:
        """Utilities of m pools, shape (m,); those of trainings that fail by the game's policy."""
        answers = Answers.of(self.evaluate(*self.check(np.asarray(fractions), draws)))
        failed = [place for place in answers.failures if np.isnan(answers.values[place])]
        if failed:
            nobody = Answers.of(self.evaluate(np.zeros((1, self.n_players), dtype=np.bool_), None))
            if nobody.failures:
                raise nobody_failed(nobody.failures[0])
            answers.values[failed] = nobody.values
        return answers.values

    @abstractmethod
    def evaluate(self, queries: Queries, draws: Draws) -> Answers | FloatArray:
        """Answers to checked pools, or their utilities alone."""

    def failed(
        self, queries: Queries, error: BaseException, cure: str = "", hint: str = ""
    ) -> Answers:
        """What pools count as whose training failed: an error, or u(nobody), by policy.

        The cause is the error beneath a `UtilityFailed`; a lack of memory is named by its limit.
        """
        policy = self.training or Training()
        beneath = error.__cause__ if isinstance(error, UtilityFailed) else None
        cause = beneath or error
        if isinstance(cause, MemoryError) and policy.limits.memory is not None:
            error = cause = out_of_memory(policy.limits.memory)
        if policy.on_failure == "empty":
            failures = dict.fromkeys(range(len(queries)), failure_cause(cause))
            return Answers(np.full(len(queries), np.nan), failures=failures)
        if isinstance(error, UtilityFailed):
            raise error
        pool, cure = pool_name(queries[0], self.names), cure or "Mend the model or the data"
        raise UtilityFailed(
            f"The utility of {pool} failed with {type(error).__name__}: {error}. {cure}, or pass "
            f"on_failure='empty' to count such pools as u(nobody).{hint}"
        ) from error

    def closed_form(self, method: str, wishes: Wishes = None) -> Estimate | None:
        """Answer of `method` without any question, where it is known.

        `wishes` are its options other than the defaults, of which most formulas know nothing; a
        "semivalue" is told by the law of the chance with which every other owner is there (the
        parameters of a beta law, or None for one half, which is Banzhaf's). The detail "exact" says
        that values are exact though the method's usually are not.
        """
        return None

    def marginals(self) -> Marginals | None:
        """How this game tells every owner's marginal around a pool at once, where it can."""
        return None

    def reseeded(self, seed: int) -> Game:
        """The same pools trained under another seed, each worth a number made of all that its
        model predicts; keys are its own. Asked where `Training.deterministic` is None.
        """
        return self

    def costs(self, evaluations: int | None = None) -> Mapping[str, Any]:
        """Return what evaluations cost beside trainings on this machine, where they do.

        Of so many that are still to come numbers by name, with "seconds" in all; None: of those
        made so far, for the details of a result.
        """
        return {}

    @property
    def context(self) -> str | None:
        """What must be equal for two evaluations of equal pools to be interchangeable."""
        return self.fingerprint

    def keys(self, queries: Queries, draws: Draws) -> list[bytes]:
        """Name each pool for de-duplication and ledger: equal keys have equal values."""
        del draws  # without rows there is nothing to draw
        if self.fractions == "none":
            return each_row(np.packbits(queries.astype(np.bool_), axis=1))
        return each_row(queries + 0.0)  # no negative zeros

    def check(
        self, fractions: np.ndarray[Any, Any], draws: ArrayLike | None
    ) -> tuple[Queries, Draws]:
        """Return pools (booleans or fractions) and draws, or say what is wrong with them."""
        queries = self._check_queries(fractions)
        if draws is None:
            if self.fractions == "rows" and is_partial(queries).any():
                raise InvalidQuery(
                    "A pool holds part of an owner's rows, but no draw ids say which. Pass "
                    "draws=, one integer per pool; pools that share a draw share its rows."
                )
            return queries, None
        ids = np.asarray(draws)
        if ids.shape != queries.shape[:1] or ids.dtype.kind not in "iu":
            raise InvalidQuery(
                f"draws has shape {ids.shape} and type {ids.dtype}; "
                f"pass {len(queries)} integers, one per pool."
            )
        return queries, ids.astype(np.int64)

    def _check_queries(self, queries: np.ndarray[Any, Any]) -> Queries:
        if queries.ndim != 2 or queries.shape[1] != self.n_players:
            raise InvalidQuery(
                f"Pools have shape {queries.shape}; this game of {self.n_players} owners needs "
                f"(m, {self.n_players}). Pass one row per pool, one column per owner."
            )
        if queries.dtype == np.bool_:
            return queries
        shares = queries.astype(np.float64, copy=False)
        if not ((shares >= 0) & (shares <= 1)).all():
            raise InvalidQuery(
                "A share of an owner's rows lies outside 0..1 or is not a number. "
                "Pass fractions between 0 (left out) and 1 (all rows)."
            )
        if self.fractions != "none":
            return shares
        whole = shares == 1
        if not (whole | (shares == 0)).all():
            raise FractionsRefused(
                f"A pool holds part of an owner's rows, but {type(self).__name__} knows whole "
                f"owners only. Use a method that asks for coalitions: exact or permutation, say."
            )
        return whole


def is_scored(game: Game) -> bool:
    """True if utilities are scores on a test set, another of which would give others."""
    return game.training is not None and game.training.shift is not None


def average(scored: Sequence[tuple[float, FloatArray | None]]) -> Outcome:
    """Mean of repeated trainings, their rows and their spread: 0 of equal ones, whatever rounding.

    The spread is without what repeats differ in by the luck of these test rows (the interaction of
    an analysis of variance), which the error of the test set counts already.
    """
    values = np.array([value for value, _ in scored])
    rows, repeats = [row for _, row in scored if row is not None], len(values)
    mean = float(values.mean()) if repeats > 1 else scored[0][0]
    if not np.isfinite(mean):
        raise ArithmeticError(f"the score is {mean}")
    by_row = (np.mean(rows, axis=0) if len(rows) > 1 else rows[0]) if rows else None
    variance = float(values.var(ddof=1)) if (values != values[0]).any() else 0.0
    if variance and len(rows) == repeats and rows[0].ndim == 1 and len(rows[0]) > 1:
        away = np.array(rows) - np.mean(rows, axis=0)
        away -= away.mean(axis=1, keepdims=True)
        n = away.shape[1]
        luck = float((away**2).sum()) / ((repeats - 1) * (n - 1) * n)
        variance = max(variance - luck, 1e-4 * variance)  # however lucky the test rows are
    return Outcome(
        mean,
        scores=None if by_row is None else grouped(by_row),
        spread=float(np.sqrt(variance)) if repeats > 1 else None,
    )


def grouped(rows: FloatArray, most: int = MOST_SCORES) -> FloatArray:
    """Scores of test rows, or of at most `most` random groups of them; columns are kept apart.

    A group's entry is m + (n_g·G/n)(m_g − m), m the mean, m_g and n_g mean and rows of the group:
    same mean as the rows, and the mean's standard error is still that of independent entries.
    """
    if len(rows) <= most:
        return rows
    order, starts = _groups(len(rows), most)
    mean = rows.mean(axis=0)
    sums = np.add.reduceat((rows - mean)[order], starts, axis=0)
    return mean + sums * (most / len(rows))


@lru_cache(maxsize=8)
def _groups(rows: int, groups: int) -> tuple[IntArray, IntArray]:
    """Rows in the order of their random groups, the same for all pools, and where groups begin."""
    group = np.random.default_rng(0).permutation(rows) % groups
    order = np.argsort(group, kind="stable")
    return order, np.searchsorted(group[order], np.arange(groups))


class TableGame(Game):
    """A game given by all of its 2^I utilities; bit i of the index means owner i is in.

    Examples
    --------
    >>> import dushapley as ds
    >>> ds.TableGame([0, 1, 2, 4])([[1, 0], [1, 1]]).tolist()
    [1.0, 4.0]
    """

    cheap = True

    def __init__(
        self,
        values: ArrayLike,
        sizes: ArrayLike | None = None,
        *,
        names: Sequence[str] | None = None,
    ) -> None:
        table = np.array(values, dtype=np.float64)
        n_players = table.size.bit_length() - 1
        if table.ndim != 1 or table.size != 2**n_players or n_players < 1:
            raise InvalidGame(
                f"The table has shape {table.shape}; it needs 2^I numbers in one row "
                "(2, 4, 8, ...), the first for the empty coalition."
            )
        table.setflags(write=False)
        self.values = table
        self._set_owners(sizes, names, n_players)
        self.fingerprint = digest("table", table, self.sizes, *self.names)

    def evaluate(self, queries: Queries, draws: Draws) -> FloatArray:
        return self.values[queries @ (1 << np.arange(self.n_players))]
