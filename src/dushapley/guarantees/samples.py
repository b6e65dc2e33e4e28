r"""Sample sizes of the Monte Carlo rivals, both ways: samples for an error, error for samples.

All hold with probability 1−δ (`delta`) for utilities whose marginals, or whose range, are bounded
by `r`. ``norm="l2"`` bounds the Euclidean norm of all owners' errors (what the cited papers state),
``norm="max"`` the largest one: what a per-owner bias may be compared with. **Careful**: the paper
sets an ℓ2 error beside a per-owner bias, and prints the square of the error at T = I.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from math import ceil, exp, expm1, floor, inf, log, log1p, sqrt
from typing import Literal

from dushapley.errors import InvalidOption

Norm = Literal["l2", "max"]
GroupTesting = Literal["dummy", "pairwise"]
MOST_PSI = 700
"""Above it e^Ψ overflows."""


def permutation_samples(
    epsilon: float, delta: float, n_players: int, r: float = 1.0, *, norm: Norm = "l2"
) -> int:
    r"""Permutations for an error of ε: :math:`T = (2r^2I/\epsilon^2)\ln(2I/\delta)`.

    By Hoeffding's inequality and a union over owners (Jia et al. 2019, section 4.1); without the
    factor I for the largest error. One permutation costs I−1 evaluations.

    Examples
    --------
    >>> import dushapley as ds
    >>> ds.guarantees.permutation_samples(0.1, 0.05, n_players=10)
    11983
    """
    _check(n_players, epsilon=epsilon, delta=delta, r=r)
    return ceil(2 * r**2 * _owners(norm, n_players) / epsilon**2 * log(2 * n_players / delta))


def permutation_error(
    samples: int, delta: float, n_players: int, r: float = 1.0, *, norm: Norm = "l2"
) -> float:
    """Error after so many permutations; at T = I it is r·sqrt(2 ln(2I/δ)) in the ℓ2 norm."""
    _check(n_players, samples=samples, delta=delta, r=r)
    return r * sqrt(2 * _owners(norm, n_players) * log(2 * n_players / delta) / samples)


def group_testing_samples(
    epsilon: float,
    delta: float,
    n_players: int,
    r: float = 1.0,
    *,
    form: GroupTesting = "dummy",
    norm: Norm = "l2",
) -> int:
    r"""Coalitions that improved group testing needs, by Bennett's inequality.

    With :math:`h(x) = (1+x)\ln(1+x) - x` and :math:`H_I = \sum_{s \le I} 1/s`,

    - ``form="dummy"``: :math:`H_I \ln(2I/\delta)/h(\epsilon/(2r\sqrt I))`, for differences with the
      dummy player only;
    - ``form="pairwise"``: :math:`H_I \ln(N(N-1)/\delta)/h(\epsilon/(4r\sqrt N))`, N = I+1, for all
      differences.

    Which of the two is "Equation 5" of Wang and Jia (2023), into which the paper plugs DUbias,
    could not be established; both are offered by name.
    """
    _check(n_players, epsilon=epsilon, delta=delta, r=r)
    scale, wanted = _group_testing(form, norm, n_players, delta, r)
    return ceil(wanted / _bennett(epsilon / scale))


def group_testing_error(
    samples: int,
    delta: float,
    n_players: int,
    r: float = 1.0,
    *,
    form: GroupTesting = "dummy",
    norm: Norm = "l2",
) -> float:
    """Error after so many coalitions of improved group testing; see `group_testing_samples`."""
    _check(n_players, samples=samples, delta=delta, r=r)
    scale, wanted = _group_testing(form, norm, n_players, delta, r)
    goal = wanted / samples
    most = goal + 2 * sqrt(goal)  # by Bernstein's inequality, h(x) ≥ x²/(2 + 2x/3)
    return scale * _root(lambda x: _bennett(x) - goal, 0.0, most)


def svarm_failure(
    epsilon: float, samples: int, n_players: int, r_plus: float = 1.0, r_minus: float = 1.0
) -> float:
    r"""Probability with which SVARM may err by ε or more for one owner: its Theorem 4, at most 1.

    .. math:: 2e^{-T/(4H_I^2)} + \frac{4 e^{-\Psi\lfloor T/(4H_I)\rfloor}}{e^\Psi - 1},
              \quad \Psi = 2\epsilon^2/(r^+ + r^-)^2

    T `samples` after the warm-up, :math:`r^\pm` the range of the utility over coalitions with and
    without the owner (Kolpaczki et al. 2024).
    """
    _check(n_players, epsilon=epsilon, samples=samples, r=r_plus + r_minus)
    h = _harmonic(n_players)
    psi = 2 * epsilon**2 / (r_plus + r_minus) ** 2
    rare = 2 * exp(-samples / (4 * h**2))
    if psi <= MOST_PSI:
        rare += 4 * exp(-psi * floor(samples / (4 * h))) / expm1(psi)
    return min(1.0, rare)


def svarm_samples(
    epsilon: float, delta: float, n_players: int, r_plus: float = 1.0, r_minus: float = 1.0
) -> int:
    """Samples after which `svarm_failure` is at most δ."""
    _check(n_players, epsilon=epsilon, delta=delta, r=r_plus + r_minus)

    def enough(samples: int) -> bool:
        return svarm_failure(epsilon, samples, n_players, r_plus, r_minus) <= delta

    high = 1
    while not enough(high):
        high *= 2
    return bisect_left(range(high + 1), True, high // 2 + 1, high, key=enough)


def svarm_error(
    samples: int, delta: float, n_players: int, r_plus: float = 1.0, r_minus: float = 1.0
) -> float:
    """Error that SVARM exceeds with probability δ at most; infinite where samples are too few."""
    _check(n_players, samples=samples, delta=delta, r=r_plus + r_minus)
    if 2 * exp(-samples / (4 * _harmonic(n_players) ** 2)) >= delta:
        return inf
    r = r_plus + r_minus

    def excess(epsilon: float) -> float:
        return svarm_failure(epsilon, samples, n_players, r_plus, r_minus) - delta

    return _root(excess, 1e-150 * r, sqrt(MOST_PSI / 2) * r)


def _group_testing(
    form: GroupTesting, norm: Norm, n_players: int, delta: float, r: float
) -> tuple[float, float]:
    """Scale of ε, and what T·h(ε/scale) must reach."""
    h, n = _harmonic(n_players), n_players + 1
    if form == "dummy":
        return 2 * r * sqrt(_owners(norm, n_players)), h * log(2 * n_players / delta)
    if form == "pairwise":
        return 4 * r * sqrt(_owners(norm, n)), h * log(n * n_players / delta)
    raise InvalidOption(f"form is {form!r}; choose 'dummy' or 'pairwise'.")


def _owners(norm: Norm, n_players: int) -> int:
    if norm not in ("l2", "max"):
        raise InvalidOption(f"norm is {norm!r}; choose 'l2' (all errors) or 'max' (the largest).")
    return n_players if norm == "l2" else 1


def _bennett(x: float) -> float:
    """(1+x)ln(1+x) − x, by its series where it cancels."""
    return x**2 / 2 - x**3 / 6 if x < 1e-4 else (1 + x) * log1p(x) - x


def _harmonic(n: int) -> float:
    return sum(1 / s for s in range(1, n + 1))


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a monotone function crosses 0, to 1e-12 of it."""
    from scipy.optimize import brentq

    return float(brentq(function, low, high, xtol=1e-300, rtol=1e-12, maxiter=1000))


def _check(n_players: int, **numbers: float) -> None:
    if n_players < 2:
        raise InvalidOption(f"n_players is {n_players}; sample sizes are for two owners or more.")
    for name, value in numbers.items():
        if not value > 0 or (name == "delta" and value >= 1):
            wanted = "between 0 and 1" if name == "delta" else "positive"
            raise InvalidOption(f"{name} is {value!r}; it must be {wanted}.")
