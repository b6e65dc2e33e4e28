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
    steps = np.log(high / start) / np.log(RATIO)
    n = np.geomspace(start, high, int(steps) + 2)
    bend = abs(curvature(curve, n))
    proven = curve.shape == "completely monotone" and curve.second_derivative is not None
    at_most = n[1:] ** 2 * bend[:-1] if proven else n**2 * bend
    return Kappa(float(at_most.max()), start, high, proven)


def curvature(curve: LearningCurve, n: FloatArray) -> FloatArray:
    """Second derivative where supplied, else second differences of w."""
    if curve.second_derivative is not None:
        return finite_curve(curve.second_derivative, n)
    return second_differences(curve, n, STEP)


def second_differences(curve: LearningCurve, n: FloatArray, step: float) -> FloatArray:
    """Second derivative from differences of this relative step."""
    h = step * n
    right, here, left = (finite_curve(curve, at) for at in (n + h, n, n - h))
    return (right - 2 * here + left) / h**2


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
    n = np.union1d(np.linspace(0, high, 2001), np.geomspace(high * 1e-6, high, 999))
    with np.errstate(all="ignore"):
        level = np.asarray(curve(n), dtype=np.float64)
    bad = ~np.isfinite(level)
    if bad.any():
        raise AssumptionFails(f"H1 fails: w({n[bad][0]:g}) is {level[bad][0]}. {INSTEAD}")
    scale = float(abs(level).max())
    falls = np.flatnonzero(np.diff(level) < -1e-12 * scale)
    if len(falls):
        ends = slice(falls[0], falls[0] + 2)
        (a, b), (before, after) = n[ends], level[ends]
        raise AssumptionFails(
            f"H1 fails: w is not increasing, it falls from {before:.4g} to {after:.4g} between "
            f"{a:g} and {b:g} rows (a pole?). {INSTEAD}"
        )
    with np.errstate(over="ignore", under="ignore"):  # powers of numbers that far out
        _refuse_growth(curve, high, scale)


INSTEAD = "Theorem 2 says nothing of this curve; exact values or the certificate may still do."


def _refuse_growth(curve: LearningCurve, high: float, scale: float) -> None:
    """n²|w''| far out, where even a logarithm's growth shows, and at ever finer steps nearby."""
    n = high * np.geomspace(MIDWAY, FAR, 21)
    bend = n**2 * abs(curvature(curve, n))
    noise = 1e-8 * max(scale, float(abs(finite_curve(curve, n)).max()))
    first, before, last = bend[0], bend[-4], bend[-1]
    if last > noise and last > (1 + GROWING) * first + noise:
        slope = np.log(last / max(before, noise)) / np.log(n[-1] / n[-4])
        how = f"like n^{slope:.2f}" if slope > 0.005 else "slowly"
        raise AssumptionFails(f"H1 fails: n²|w''(n)| grows without end ({how}). {INSTEAD}")
    near = high * np.geomspace(1, 1e4, 399)
    bends = (abs(second_differences(curve, near, step)) for step in (STEP, *FINER))
    coarse, *finer = (float(np.max(near**2 * bend)) for bend in bends)
    level = float(abs(finite_curve(curve, 2 * near[-1:]))[0]) + scale
    for step, fine in zip(FINER, finer, strict=True):
        room = 64 * float(np.finfo(float).eps) * level / step**2
        if fine > 10 * coarse + room:
            raise AssumptionFails(
                "H1 fails: the closer one looks, the more w bends (does it oscillate, or have a "
                f"kink?). {INSTEAD}"
            )
