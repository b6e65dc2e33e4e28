"""How curved a learning curve is: κ, and assumption H1 of the paper."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dushapley.arrays import FloatArray
from dushapley.errors import AssumptionFails
from dushapley.games.size.curves import Curve, LearningCurve, as_curve, finite_curve

RATIO = 1.002
"""Step of the grid on which κ is taken; a proven κ is at most its square too large."""
STEP = 1e-3
"""Relative step of second differences where no second derivative is supplied."""
GROWING = 1e-3
"""Part by which n²|w''| may grow between `MIDWAY` and `FAR` and still be called level."""
MIDWAY, FAR = 1e20, 1e40
"""Multiples of all rows between which growth is looked for: a curve may bend long after them."""
FINER = (1e-4, 1e-5, 1e-6)
"""Relative steps at which a curve that oscillates bends more than at `STEP`."""


@dataclass(frozen=True)
class Kappa:
    """κ = sup n²|w''(n)| over [low, high]; `proven` if an upper bound, not only looked for."""

    value: float
    low: float
    high: float
    proven: bool


def kappa(w: Curve, high: float, low: float | None = None) -> Kappa:
    r"""Smallest κ with :math:`|w''(n)| \le \kappa/n^2` for n in [low, high].

    The proof of Theorem 2 uses κ only between the smallest owner and everybody's rows together.

    Parameters
    ----------
    w
        A curve. Proven for a `LearningCurve` with second derivative, declared completely monotone:
        there |w''| falls, so that between grid points a < b it is at most b²|w''(a)|. Otherwise the
        largest value on a grid, from second differences where there is no derivative.
    high, low
        Ends of the range; `low` defaults to a millionth of `high`.

    Examples
    --------
    >>> import dushapley as ds
    >>> round(ds.guarantees.kappa(ds.games.rational(50), high=5000).value, 3)  # 8/27
    0.297
    """
    curve = as_curve(w, None, None)
    start = high * 1e-6 if low is None else low
    if not 0 < start <= high < np.inf:
        raise AssumptionFails(f"κ was asked on [{start}, {high}]; it needs 0 < low ≤ high.")
    n = np.geomspace(start, high, int(np.log(high / start) / np.log(RATIO)) + 2)
    bend = np.abs(curvature(curve, n))
    if curve.shape == "completely monotone" and curve.second_derivative is not None:
        return Kappa(float(np.max(n[1:] ** 2 * bend[:-1])), start, high, True)
    return Kappa(float(np.max(n**2 * bend)), start, high, False)


def curvature(curve: LearningCurve, n: FloatArray) -> FloatArray:
    """Second derivative where supplied, else second differences of w."""
    if curve.second_derivative is not None:
        return finite_curve(curve.second_derivative, n)
    h = STEP * n
    right, here, left = (finite_curve(curve, n + shift) for shift in (h, 0 * h, -h))
    return np.asarray((right - 2 * here + left) / h**2)


def check_h1(w: Curve, high: float) -> None:
    """Refuse a curve that violates H1: increasing, twice differentiable, n²|w''(n)| bounded.

    Looks at the curve between 0 and `high` (all rows there are) and at its growth beyond.

    Raises
    ------
    AssumptionFails
        With the first violation found.

    Examples
    --------
    The paper's running example d/(d+1−n) has a pole, and increasing powers bend too much:

    >>> import dushapley as ds
    >>> ds.guarantees.check_h1(lambda n: n**0.5, high=1000)
    Traceback (most recent call last):
    ...
    dushapley.errors.AssumptionFails: H1 fails: n²|w''(n)| grows without end (like n^0.50). ...
    """
    curve = as_curve(w, None, None)
    n = np.unique(
        np.concatenate([np.linspace(0, high, 2001), np.geomspace(high * 1e-6, high, 999)])
    )
    with np.errstate(all="ignore"):
        level = np.asarray(curve(n), dtype=np.float64)
    bad = ~np.isfinite(level)
    if bad.any():
        raise AssumptionFails(f"H1 fails: w({n[bad][0]:g}) is {level[bad][0]}. {INSTEAD}")
    room = 1e-12 * float(np.abs(level).max())
    falls = np.flatnonzero(np.diff(level) < -room)
    if len(falls):
        a, b = n[falls[0]], n[falls[0] + 1]
        raise AssumptionFails(
            f"H1 fails: w is not increasing, it falls from {level[falls[0]]:.4g} to "
            f"{level[falls[0] + 1]:.4g} between {a:g} and {b:g} rows (a pole?). {INSTEAD}"
        )
    with np.errstate(over="ignore", under="ignore"):  # powers of numbers that far out
        _refuse_growth(curve, high, float(np.abs(level).max()))


INSTEAD = "Theorem 2 says nothing of this curve; exact values or the certificate may still do."


def _refuse_growth(curve: LearningCurve, high: float, scale: float) -> None:
    """n²|w''| far out, where even a logarithm's growth shows, and at ever finer steps nearby."""
    n = high * np.geomspace(MIDWAY, FAR, 21)
    bend = n**2 * np.abs(curvature(curve, n))
    noise = 1e-8 * max(scale, float(np.abs(finite_curve(curve, n)).max()))
    if bend[-1] > noise and bend[-1] > (1 + GROWING) * bend[0] + noise:
        slope = float(np.log(bend[-1] / max(bend[-4], noise)) / np.log(n[-1] / n[-4]))
        how = f"like n^{slope:.2f}" if slope > 0.005 else "slowly"
        raise AssumptionFails(f"H1 fails: n²|w''(n)| grows without end ({how}). {INSTEAD}")
    near = high * np.geomspace(1, 1e4, 399)
    coarse = float(np.max(relative_bend(curve, near, STEP)))
    level = float(np.abs(finite_curve(curve, 2 * near[-1:]))[0]) + scale
    for step in FINER:
        room = 64 * float(np.finfo(float).eps) * level / step**2
        if np.max(relative_bend(curve, near, step)) > 10 * coarse + room:
            raise AssumptionFails(
                "H1 fails: the closer one looks, the more w bends (does it oscillate, or have a "
                f"kink?). {INSTEAD}"
            )


def relative_bend(curve: LearningCurve, n: FloatArray, step: float) -> FloatArray:
    """n²|w''| from second differences of this relative step, whatever derivative is supplied."""
    right, here, left = (finite_curve(curve, n * (1 + s)) for s in (step, 0.0, -step))
    return np.asarray(np.abs(right - 2 * here + left) / step**2)
