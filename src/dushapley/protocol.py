"""What estimators say and hear: `Ask`, `Estimate`, its `Guarantee`, and the `Problem` given.

An estimator is a generator. It yields `Ask` objects (pools whose worth it wants to know), receives
one value per pool, and returns an `Estimate`::

    def estimator(problem: Problem) -> Conversation:
        values = yield Ask(queries, so_far)
        ...
        return Estimate(values)

It sees no data, no model, no disk and no process, so it is mathematics that can be tested against
a table of numbers and driven by anybody who can answer questions.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field

import numpy as np

from dushapley.arrays import (
    AnyDict,
    AnyMapping,
    BoolArray,
    FloatArray,
    Fractions,
    IntArray,
    Queries,
)

LARGE_ROUND = 1024
"""Pools to which rounds grow in long runs."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What an estimator believes, so far or finally.

    Attributes
    ----------
    values
        One number per owner.
    std_errors
        Standard errors, calibrated so that the normal 95% interval holds, or None when the
        estimator cannot know them: a single replicate, a deterministic formula.
    covariance
        Covariance of the errors between owners, where known.
    replicates
        How many independent repetitions the standard errors rest on, where that is a number.
    notes
        Sentences the user must read.
    details
        Further results of the method, plain JSON types only.
    weights
        Where the estimate is a linear function of the answers: shape (I, answers), one column per
        value received so far in the order it was asked, ∅ and the grand coalition first. It lets
        other errors (of the test set, say) be carried through without another question.
    guarantee
        A proven bound on the error of each value, where there is one, plain JSON types only; see
        `Guarantee.to_dict`.
    scores
        Where a formula's values are means over test rows: those of single rows, shape (rows, I).

    Examples
    --------
    >>> import numpy as np
    >>> from dushapley import Estimate
    >>> Estimate(np.array([0.5, 0.5]), notes=("halves",)).notes
    ('halves',)
    """

    values: FloatArray
    std_errors: FloatArray | None = None
    covariance: FloatArray | None = None
    replicates: int | None = None
    notes: tuple[str, ...] = ()
    details: AnyMapping = field(default_factory=dict)
    weights: FloatArray | None = None
    guarantee: AnyMapping | None = None
    scores: FloatArray | None = None


def ends(n_players: int) -> BoolArray:
    """The empty and the grand coalition, which every run asks first."""
    return np.repeat([[False], [True]], n_players, axis=1)


@dataclass(frozen=True, slots=True)
class Ask:
    """A batch of pools whose utilities an estimator wants to know.

    Parameters
    ----------
    queries
        Shape (m, I): booleans for whole owners, or the share 0..1 of each owner's rows.
    so_far
        The estimate before the answers, if there is one: shown live, judged for precision, kept
        when the run is stopped. Or a function that makes it, for methods whose estimates take
        longer than their questions: it is called before the next answers are sent, if at all.
    draws
        Shape (m,): which random draw of rows each pool uses. Pools with the same draw id hold the
        same rows of every owner who gives the same count. Needed for true fractions of games with
        rows, ignored elsewhere.

    Examples
    --------
    >>> import numpy as np
    >>> from dushapley import Ask
    >>> Ask(np.array([[True, False], [True, True]])).queries.shape
    (2, 2)
    """

    queries: Queries
    so_far: Estimate | Callable[[], Estimate | None] | None = None
    draws: IntArray | None = None

    def estimate(self) -> Estimate | None:
        """The estimate before the answers, made now if it has to be."""
        return self.so_far() if callable(self.so_far) else self.so_far


Conversation = Generator[Ask, FloatArray, Estimate]
"""An estimator at work: yields questions, is sent values, returns its estimate."""


@dataclass(frozen=True)
class Problem:
    """All that an estimator may know.

    Attributes
    ----------
    n_players
        Number of owners I, at least 2 (with a single owner there is nothing to estimate).
    sizes
        Rows of each owner; ones where the game does not know.
    fractions
        What the game makes of true fractions: "exact", "rows" or "none".
    budget
        How many pools may still be asked; ∅ and the grand coalition are already paid.
    empty, full
        u(∅) and u(all owners).
    options
        The method's own options, checked and complete.
    rng
        The only source of randomness.
    batch
        Roughly how many pools make a round: many for games that cost nothing, few where people
        wait for a live estimate. Sums are taken round by round, so it is fixed by the game, never
        by workers or by the ledger; how many rounds are asked at a time changes no bit.
    known
        Pools whose worth was paid before and that a method may ask first, for nothing: `budget`
        counts them. Shape (m, I), never nobody or everybody; empty unless the user wants it.

    Examples
    --------
    A method sees this and nothing else; here one that pays everybody the same:

    >>> import numpy as np
    >>> from dushapley import Ask, Estimate
    >>> def equal(problem):
    ...     yield Ask(np.eye(problem.n_players, dtype=bool))
    ...     share = (problem.full - problem.empty) / problem.n_players
    ...     return Estimate(np.full(problem.n_players, share))
    """

    n_players: int
    sizes: FloatArray
    fractions: Fractions
    budget: int
    empty: float
    full: float
    options: AnyMapping
    rng: np.random.Generator
    batch: int = 64
    known: BoolArray | None = None

    def round_after(self, asked: int) -> int:
        """Pools of a round that begins after so many: `batch`, and later a sixteenth of those.

        What is done once a round must not cost more than pools that take microseconds; and it is
        not the budget that decides, so that a larger one asks the same pools first.
        """
        return max(1, self.batch, min(LARGE_ROUND, asked // 16))

    @property
    def total(self) -> float:
        """What there is to share: u(all) − u(∅)."""
        return self.full - self.empty


@dataclass(frozen=True, eq=False)
class Guarantee:
    """A bound on |value − Shapley value|, owner by owner, with its small print.

    Attributes
    ----------
    name
        Which bound.
    bound
        One number per owner; infinite where the bound says nothing.
    statement
        The inequality in words or symbols.
    assumptions
        What must hold for it.
    source
        Where it comes from.
    is_guarantee
        False: as stated, and not to be relied on; `why_not` says why.
    why_not
        A counterexample, or what was only checked numerically.

    Examples
    --------
    >>> import dushapley as ds
    >>> game = ds.SizeGame([100, 200, 400], ds.games.rational(100))
    >>> print(ds.guarantees.certificate(game))
    certificate: ± at most 0.0166
    >>> print(ds.guarantees.theorem2(game, form="stated"))
    Theorem 2 as stated: ± 0.0912, not a guarantee
    """

    name: str
    bound: FloatArray
    statement: str
    assumptions: tuple[str, ...]
    source: str
    is_guarantee: bool
    why_not: str = ""

    def __post_init__(self) -> None:
        bound = np.array(self.bound, dtype=np.float64)
        bound.setflags(write=False)
        object.__setattr__(self, "bound", bound)

    def __str__(self) -> str:
        largest = f"{float(self.bound.max()):.3g}"
        if self.is_guarantee:
            return f"{self.name}: ± at most {largest}"
        return f"{self.name}: ± {largest}, not a guarantee"

    def to_dict(self) -> AnyDict:
        """Plain JSON types, as `Valuation.guarantee` holds them; infinite bounds become None."""
        return {
            "name": self.name,
            "is_guarantee": self.is_guarantee,
            "statement": self.statement,
            "assumptions": list(self.assumptions),
            "source": self.source,
            "why_not": self.why_not,
            "bound": [b if np.isfinite(b) else None for b in self.bound.tolist()],
        }
