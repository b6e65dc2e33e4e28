"""What a game is: a function from pools of data to what they are worth.

A pool is a row of shares, one per owner: 0 leaves the owner out, 1 takes all its rows, anything
between takes that part of them. A coalition is a row of zeros and ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from dushapley.arrays import BoolArray, FloatArray, Fractions, IntArray, Queries
from dushapley.errors import FractionsRefused, InvalidGame, InvalidQuery, UtilityFailed
from dushapley.games.marginals import Marginals
from dushapley.hashing import digest
from dushapley.protocol import Estimate
from dushapley.terminal import printable
from dushapley.validation import check_names, check_sizes, is_partial, pool_name


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one paid question came to.

    Attributes
    ----------
    value
        The utility.
    failure
        Why there was none, when a failure policy put `value` in its place.
    scores
        The utility plus the influence of each test row, or of groups of them, in the same order for
        every pool: their mean is the utility, and the error of their mean that of the test set.
        None where unknown, and for numbers fixed beforehand (nobody's, a failure's).
    spread
        Standard deviation between repeated trainings, where there were several.

    Examples
    --------
    >>> from dushapley.games import Outcome
    >>> Outcome(0.5, failure="ValueError").failure
    'ValueError'
    """

    value: float
    failure: str | None = None
    scores: FloatArray | None = None
    spread: float | None = None


class Plain(Sequence[Outcome]):
    """Outcomes that are utilities and nothing else, as one array: most are never looked at singly.

    Examples
    --------
    >>> import numpy as np
    >>> from dushapley.games.base import Plain
    >>> Plain(np.array([0.5, 0.75]))[1].value
    0.75
    """

    __slots__ = ("values",)

    def __init__(self, values: ArrayLike) -> None:
        self.values: FloatArray = np.asarray(values, dtype=np.float64)

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, place: int) -> Outcome: ...

    @overload
    def __getitem__(self, place: slice) -> Plain: ...

    def __getitem__(self, place: int | slice) -> Outcome | Plain:
        if isinstance(place, slice):
            return Plain(self.values[place])
        return Outcome(float(self.values[place]))


@dataclass(frozen=True, slots=True)
class Scored:
    """Utilities of many pools at no cost, and their scores by test row in a short form.

    Attributes
    ----------
    values
        Utilities, shape (m,).
    coefficients
        Shape (m, K).
    basis
        Shape (rows, K): the scores are ``coefficients @ basis.T``. None: the coefficients are the
        scores themselves.
    """

    values: FloatArray
    coefficients: FloatArray
    basis: FloatArray | None

    @property
    def scores(self) -> FloatArray:
        """Scores by test row as in `Outcome`, shape (m, rows)."""
        return self.by_row(self.coefficients)

    def by_row(self, coefficients: FloatArray) -> FloatArray:
        """Any combination of coefficients as the same combination of scores."""
        return coefficients if self.basis is None else coefficients @ self.basis.T


@dataclass(frozen=True, slots=True)
class Limits:
    """What a training may take at most.

    Attributes
    ----------
    timeout
        Seconds of one training.
    memory
        Bytes that trainings may take beyond the data itself.
    trainings
        Trainings that one question costs.
    """

    timeout: float | None = None
    memory: int | None = None
    trainings: int = 1

    @property
    def any(self) -> bool:
        """Whether there is any limit."""
        return self.timeout is not None or self.memory is not None

    def seconds(self, questions: int) -> float:
        """Seconds that so many questions may take."""
        assert self.timeout is not None
        return self.timeout * self.trainings * questions


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
    fills
        Whether blocks are worth filling even if nobody else waits: what a block costs hardly
        depends on how many pools are in it.
    notes
        Sentences about the game that belong beside every result of it.
    limits
        The most that a training may take; the executor sees to it.
    repeats
        Trainings of each pool, of which its utility is the mean.
    deterministic
        Whether training has no error, since another seed would train the same models, or nothing
        is trained. None: unknown; the engine probes a few pools (see `outcomes`).
    judged
        Whether utilities are scores of trained models, which training and test set make uncertain,
        whether or not it is known how much. Formulas and tables are what they are.
    exact_by
        Methods whose closed form gives this game's Shapley values, whatever they give of others.
    shift
        How far one test row may move a utility; 0 where unknown.
    at_least
        "empty" where pools worse than nobody's data count as nobody's.

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

    fractions: Fractions = "none"
    cheap: bool = False
    block: int = 64
    fills: bool = False
    n_players: int
    sizes: FloatArray
    names: tuple[str, ...]
    fingerprint: str | None = None
    notes: tuple[str, ...] = ()
    limits: Limits = Limits()
    repeats: int = 1
    deterministic: bool | None = True
    judged: bool = False
    exact_by: tuple[str, ...] = ("exact",)
    shift: float = 0.0
    at_least: str | None = None

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
        """Utilities of m pools, shape (m,)."""
        return self.evaluate(*self.check(np.asarray(fractions), draws))

    @abstractmethod
    def evaluate(self, queries: Queries, draws: IntArray | None) -> FloatArray:
        """Utilities of checked pools."""

    def outcomes(
        self, queries: Queries, draws: IntArray | None, probe: int | None = None
    ) -> Sequence[Outcome]:
        """Like `evaluate`, with what a paying engine also wants to keep of each question.

        `probe` is asked of one pool where `deterministic` is None. 0: its outcome, and a second
        one whose value is a number made of all that the trained model predicts. 1: that number
        alone, of a model trained under another seed. Where a training fails: nothing, or the
        outcome alone that the policy gives it; where nothing is trained, the outcome alone.
        """
        return Plain(self.evaluate(queries, draws))

    def scored(self, queries: Queries, draws: IntArray | None) -> Scored | None:
        """Like `evaluate`, with scores by test row, where they cost nothing either."""
        return None

    def failed(self, queries: Queries, error: Exception) -> Sequence[Outcome]:
        """What pools count as whose computation was ended from outside: by policy, or an error."""
        raise UtilityFailed(
            f"The utility of {pool_name(queries[0], self.names)} could not be computed: {error}."
        ) from error

    def recall(self, outcome: Outcome) -> Outcome | None:
        """What an outcome found in the ledger is today; None: no longer good, to be paid again.

        It comes without its scores, which stay on disk until error bars are made; where another
        outcome is returned, its scores count instead of those.
        """
        return outcome

    def closed_form(self, method: str) -> Estimate | None:
        """Answer of `method` without any question, where the game knows one."""
        return None

    def marginals(self) -> Marginals | None:
        """How this game tells every owner's marginal around a pool at once, where it can."""
        return None

    def semivalue_form(self, chance: tuple[float, float] | None) -> Estimate | None:
        """Another semivalue without any question, where the game knows it.

        `chance` has the parameters of the beta law of the chance with which every other owner is
        there; None: it is one half (Banzhaf's).
        """
        return None

    def account(self) -> Mapping[str, Any]:
        """What the game itself has to tell of a run, for the details of its result."""
        return {}

    @property
    def probe_pools(self) -> BoolArray:
        """Pools to train under two seeds where `deterministic` is None, shape (at most 7, I).

        The grand coalition, the four smallest owners alone and two pairs of them: a seed that
        breaks ties, as in trees, shows in small pools first; one that splits off rows for early
        stopping in large ones.
        """
        if self.deterministic is not None or self.repeats > 1:
            return np.zeros((0, self.n_players), dtype=np.bool_)
        few = np.argsort(self.sizes, kind="stable")[:4].tolist()
        pairs = [few[:2], few[-2:]] if len(few) > 2 else []
        members = [[*range(self.n_players)], *([j] for j in few), *pairs]
        pools = np.zeros((len(members), self.n_players), dtype=np.bool_)
        for pool, some in zip(pools, members, strict=True):
            pool[some] = True
        return pools[: 1 if self.n_players == 1 else None]

    @property
    def context(self) -> str | None:
        """What must be equal for two evaluations of equal pools to be interchangeable."""
        return self.fingerprint

    def keys(self, queries: Queries, draws: IntArray | None) -> list[bytes]:
        """Name each pool for de-duplication and ledger: equal keys have equal values."""
        del draws  # without rows there is nothing to draw
        if self.fractions == "none":
            return _each_row(np.packbits(queries.astype(np.bool_), axis=1))
        return _each_row(queries + 0.0)  # no negative zeros

    def check(
        self, fractions: np.ndarray[Any, Any], draws: ArrayLike | None
    ) -> tuple[Queries, IntArray | None]:
        """Return pools (booleans or fractions) and draws, or say what is wrong with them."""
        queries = self._check_queries(fractions)
        return queries, self._check_draws(queries, draws)

    def _check_queries(self, queries: np.ndarray[Any, Any]) -> Queries:
        if queries.ndim != 2 or queries.shape[1] != self.n_players:
            raise InvalidQuery(
                f"Pools have shape {queries.shape}; this game of {self.n_players} owners needs "
                f"(m, {self.n_players}). Pass one row per pool, one column per owner."
            )
        if queries.dtype == np.bool_:
            return queries
        shares = queries.astype(np.float64, copy=False)
        if not bool(((shares >= 0) & (shares <= 1)).all()):
            raise InvalidQuery(
                "A share of an owner's rows lies outside 0..1 or is not a number. "
                "Pass fractions between 0 (left out) and 1 (all rows)."
            )
        if self.fractions != "none":
            return shares
        whole = shares == 1
        if not bool((whole | (shares == 0)).all()):
            raise FractionsRefused(
                f"A pool holds part of an owner's rows, but {type(self).__name__} knows whole "
                f"owners only. Use a method that asks for coalitions: exact or permutation, say."
            )
        return whole

    def _check_draws(self, queries: Queries, draws: ArrayLike | None) -> IntArray | None:
        if draws is None:
            if self.fractions == "rows" and is_partial(queries).any():
                raise InvalidQuery(
                    "A pool holds part of an owner's rows, but no draw ids say which. Pass "
                    "draws=, one integer per pool; pools that share a draw share its rows."
                )
            return None
        ids = np.asarray(draws)
        if ids.shape != queries.shape[:1] or ids.dtype.kind not in "iu":
            raise InvalidQuery(
                f"draws has shape {ids.shape} and type {ids.dtype}; "
                f"pass {len(queries)} integers, one per pool."
            )
        return ids.astype(np.int64)


def _each_row(matrix: np.ndarray[Any, Any]) -> list[bytes]:
    """Bytes of every row."""
    width = matrix.shape[1] * matrix.itemsize
    names: list[bytes] = np.ascontiguousarray(matrix).view(f"V{width}").ravel().tolist()
    return names


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
        self._bits = 1 << np.arange(n_players)

    def evaluate(self, queries: Queries, draws: IntArray | None) -> FloatArray:
        return self.values[queries @ self._bits]
