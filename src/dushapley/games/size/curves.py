"""Learning curves that carry their own mathematics.

Any vectorised function can be a curve. One that also declares its shape and its second derivative
lets bounds on DU-Shapley's error be guarantees rather than numerical checks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from dushapley.arrays import EPSILON, FloatArray, as_floats
from dushapley.errors import InvalidGame, UtilityFailed
from dushapley.validation import refuse

Curve = Callable[[FloatArray], ArrayLike]
"""A learning curve: maps numbers of rows to utilities, elementwise."""

Shape = Literal["increasing", "concave", "completely monotone"]
"""What may be declared of a curve; each includes the one before it."""
ORDERS: dict[Shape, int] = {"increasing": 1, "concave": 2, "completely monotone": 6}
"""Differences of a declared curve whose signs are checked, from the first up to this one."""
SCALES = (1e-4, 1e-2, 0.1, 0.3, 1.0, 10.0, 1e3, 1e6)
"""Multiples of all rows up to which they are taken: within the range in use and far out."""


@dataclass(frozen=True)
class LearningCurve:
    r"""A curve w(n) with what is known about it.

    Calling it calls `function`, so it serves wherever a curve does.

    Parameters
    ----------
    function
        Maps an array of row counts to an array of utilities of the same shape.
    second_derivative
        :math:`w''`, vectorised alike.
    shape
        "increasing"; "concave" (and increasing); or "completely monotone": the derivatives of w
        alternate in sign for ever, :math:`w' \ge 0, w'' \le 0, w''' \ge 0, \dots`, as those of
        `rational`, `logarithmic`, `power_law`, `saturating` and `mean_estimation` do.
    name
        Names the content, parameters included, so that a game made of it has a fingerprint.
    elementwise
        The same curve wherever in an array a count stands. False (to be on the safe side) where a
        regressogram's bins may have a curve each, column by column.

    Examples
    --------
    >>> import dushapley as ds
    >>> w = ds.games.rational(100)
    >>> float(w(100.0)), w.shape
    (0.5, 'completely monotone')
    """

    function: Curve
    second_derivative: Curve | None = None
    shape: Shape | None = None
    name: str | None = None
    elementwise: bool = False

    def __post_init__(self) -> None:
        refuse(
            InvalidGame,
            (
                not callable(self.function),
                "w must be a function of the number of rows, vectorised.",
            ),
            (
                self.shape not in (None, *get_args(Shape)),
                f"shape is {self.shape!r}; it is None or one of {get_args(Shape)}.",
            ),
        )

    def __call__(self, n: FloatArray) -> ArrayLike:
        return self.function(n)


def as_curve(w: Curve, second_derivative: Curve | None, shape: Shape | None) -> LearningCurve:
    """A plain function with its declarations, or a curve as it is."""
    refuse(
        InvalidGame,
        (
            isinstance(w, LearningCurve) and (second_derivative, shape) != (None, None),
            "This curve declares its shape and derivative itself; leave them out.",
        ),
    )
    return w if isinstance(w, LearningCurve) else LearningCurve(w, second_derivative, shape)


def contradiction(curve: LearningCurve, shape: Shape, rows: FloatArray) -> str:
    """Describe differences of a curve that a shape does not allow; empty where all are right.

    The r-th differences over evenly spaced points have the sign of the r-th derivative where that
    keeps one sign. So a shape is refuted by one difference of the wrong sign beyond rounding; it is
    not proven by their being right. `rows` are all rows there are, one number per column.

    The coefficients of an r-th difference add up to 2^r in absolute value. Rounding errors go by
    what a curve computes on the way, taken to be at most a few times its size.
    """
    steps = np.linspace(0, 1, 33)[:, None]
    size = np.abs(finite_curve(curve, rows * steps)).max(axis=0)
    for start, scale in [(0.0, s) for s in SCALES] + [(1.0, 2.0), (1.0, 10.0)]:
        n = rows * (start + (scale - start) * steps)
        with np.errstate(all="ignore"):
            level = apply_curve(curve, n)
        finite = np.isfinite(level).all(axis=0)
        reach = np.maximum(size, np.abs(np.where(finite, level, 0.0)).max(axis=0))
        for order in range(1, ORDERS[shape] + 1):
            signed = np.diff(level, order, axis=0) * (-1) ** (order + 1)
            room = 64 * EPSILON * reach * 2.0**order
            wrong = np.flatnonzero((signed.min(axis=0) < -room) & finite)
            if len(wrong):
                low, high = n[[0, -1], wrong[0]]
                return f"differences of order {order} between {low:g} and {high:g} rows"
    return ""


def rational(c: float) -> LearningCurve:
    """w(n) = n/(n + c), the paper's 1 − c/(c + n): half of everything at n = c.

    Examples
    --------
    >>> from dushapley.games import rational
    >>> float(rational(100.0)(100.0))
    0.5
    """
    return _monotone("rational", lambda n: n / (n + c), lambda n: -2 * c / (n + c) ** 3, c=c)


def logarithmic(c: float = 1.0) -> LearningCurve:
    """w(n) = ln(1 + n/c): unbounded, yet n²|w''| ≤ 1.

    Examples
    --------
    >>> from dushapley.games import logarithmic
    >>> round(float(logarithmic(100.0)(100.0)), 4)
    0.6931
    """
    return _monotone(
        "logarithmic", lambda n: np.log1p(np.divide(n, c)), lambda n: -1 / (n + c) ** 2, c=c
    )


def power_law(c: float, p: float) -> LearningCurve:
    """w(n) = 1 − (1 + n/c)^−p: the error of a learner that falls as a power of n.

    Examples
    --------
    >>> from dushapley.games import power_law
    >>> float(power_law(100.0, 0.5)(300.0))
    0.5
    """
    return _monotone(
        "power law",
        lambda n: -np.expm1(-p * np.log1p(np.divide(n, c))),
        lambda n: -p * (p + 1) / c**2 * np.exp(-(p + 2) * np.log1p(np.divide(n, c))),
        c=c,
        p=p,
    )


def saturating(c: float) -> LearningCurve:
    """w(n) = 1 − e^(−n/c).

    Examples
    --------
    >>> from dushapley.games import saturating
    >>> round(float(saturating(100.0)(100.0)), 4)
    0.6321
    """
    return _monotone(
        "saturating",
        lambda n: -np.expm1(-np.divide(n, c)),
        lambda n: -np.exp(-np.divide(n, c)) / c**2,
        c=c,
    )


def mean_estimation(noise: ArrayLike, prior: ArrayLike) -> LearningCurve:
    """Curve of estimating a bin's mean: w(n) = −s²/(n + s²/v).

    Parameters
    ----------
    noise, prior
        Noise variance s² of a label and prior variance v of a bin's mean (numbers, or one per
        bin). With no row the error is the prior variance; each row adds a precision of 1/s².

    Examples
    --------
    >>> from dushapley.games import mean_estimation
    >>> float(mean_estimation(noise=1.0, prior=1.0)(1.0)) > float(mean_estimation(4.0, 1.0)(1.0))
    True
    """
    s2, v = as_floats(noise), as_floats(prior)
    refuse(
        InvalidGame,
        (not ((s2 > 0).all() and (v > 0).all()), "noise and prior variances must be positive."),
    )
    return LearningCurve(
        lambda n: -s2 / (n + s2 / v),
        lambda n: -2 * s2 / (n + s2 / v) ** 3,
        "completely monotone",
        f"mean estimation noise={s2.tolist()!r} prior={v.tolist()!r}",
        elementwise=s2.ndim == v.ndim == 0,
    )


def apply_curve(w: Curve, rows: FloatArray) -> FloatArray:
    """Evaluate a user's curve, and teach what vectorised means when it is not."""
    try:
        values = as_floats(w(rows))
    except TypeError as error:
        raise InvalidGame(
            f"w cannot take an array ({error}). It must be vectorised: np.sqrt, not math.sqrt."
        ) from error
    if values.shape != rows.shape:
        raise InvalidGame(
            f"w returned shape {values.shape} for an input of shape {rows.shape}; it must map an "
            "array of row counts to an array of the same shape."
        )
    return values


def finite_curve(w: Curve, rows: FloatArray) -> FloatArray:
    """Evaluate a curve where a formula needs it, and refuse what is not a number."""
    values = apply_curve(w, rows)
    bad = ~np.isfinite(values)
    if bad.any():
        raise UtilityFailed(
            f"w is {values[bad][0]} at {rows[bad][0]:g} pooled rows. A value needs finite "
            "utilities: give too little data a finite worth."
        )
    return values


def _monotone(
    name: str, function: Curve, second_derivative: Curve, **parameters: float
) -> LearningCurve:
    """A completely monotone curve of these parameters, which must be positive."""
    for letter, value in parameters.items():
        refuse(
            InvalidGame,
            (not 0 < value < np.inf, f"{letter} is {value!r}; it must be finite and positive."),
        )
    content = " ".join(f"{letter}={float(value)!r}" for letter, value in parameters.items())
    return LearningCurve(
        function, second_derivative, "completely monotone", f"{name} {content}", elementwise=True
    )
