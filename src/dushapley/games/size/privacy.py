"""Local privacy of labels as precision, both ways: (ε, δ) to γ and back.

An owner who clips its labels to an interval of length Δ and adds normal noise of standard deviation
s to each protects every *label* by (ε, δ)-local differential privacy, where δ is the least with

    δ = Φ(Δ/2s − εs/Δ) − e^ε Φ(−Δ/2s − εs/Δ)

(Balle and Wang 2018, exact for all ε). Features are shared as they are: nothing protects them.
"""

from __future__ import annotations

import numpy as np

from dushapley.errors import InvalidOption
from dushapley.validation import refuse


def leak(epsilon: float, noise: float, width: float) -> float:
    """The least δ at which normal noise of this standard deviation protects a label by ε."""
    from scipy.special import log_ndtr

    a, b = width / (2 * noise), epsilon * noise / width
    return float(np.exp(log_ndtr(a - b)) - np.exp(epsilon + log_ndtr(-a - b)))


def noise_for(epsilon: float, delta: float, width: float) -> float:
    """Standard deviation that a label of such a range needs for (ε, δ)."""
    from scipy.optimize import brentq

    _check(epsilon=epsilon, delta=delta, width=width)
    log_noise = brentq(
        lambda s: leak(epsilon, float(np.exp(s)) * width, width) - delta, -12.0, 40.0, xtol=1e-13
    )
    return float(np.exp(log_noise)) * width


def gamma_from_privacy(
    epsilon: float, delta: float, *, width: float, label_noise: float = 1.0, scale: float = 1.0
) -> float:
    """Precision γ of an owner whose labels are protected by (ε, δ), for `LinearRegressionGame`.

    Parameters
    ----------
    epsilon, delta
        What is promised for every single label.
    width
        Length Δ of the interval that labels are clipped to; clipping must be rare for γ to hold.
    label_noise
        Standard deviation of the noise that labels have without any protection.
    scale
        Scale σ of the features: γ = σ/√(label_noise² + s²).

    Examples
    --------
    >>> from dushapley.games import epsilon_from_gamma, gamma_from_privacy
    >>> gamma = gamma_from_privacy(2.0, 1e-5, width=6.0)
    >>> round(gamma, 4), round(epsilon_from_gamma(gamma, 1e-5, width=6.0), 4)
    (0.0833, 2.0)
    """
    _check(label_noise=label_noise, scale=scale)
    return float(scale / np.hypot(label_noise, noise_for(epsilon, delta, width)))


def epsilon_from_gamma(
    gamma: float, delta: float, *, width: float, label_noise: float = 1.0, scale: float = 1.0
) -> float:
    """The ε that a precision amounts to: infinite where no noise was added to the labels.

    Examples
    --------
    >>> from dushapley.games import epsilon_from_gamma, gamma_from_privacy
    >>> gamma = gamma_from_privacy(2.0, 1e-5, width=1.0)
    >>> round(epsilon_from_gamma(gamma, 1e-5, width=1.0), 6)
    2.0
    """
    from scipy.optimize import brentq

    _check(gamma=gamma, delta=delta, width=width, label_noise=label_noise, scale=scale)
    total = scale / gamma
    if total <= label_noise * (1 + 1e-12):
        return float("inf")
    noise = float(np.sqrt(total**2 - label_noise**2))
    if leak(0.0, noise, width) <= delta:
        return 0.0
    high = 1.0
    while leak(high, noise, width) > delta:
        high *= 2
    return float(brentq(lambda e: leak(e, noise, width) - delta, 0.0, high, xtol=1e-12))


def _check(**numbers: float) -> None:
    for name, number in numbers.items():
        fine = np.isfinite(number) and number > 0 and (name != "delta" or number < 1)
        needs = "between 0 and 1" if name == "delta" else "finite and positive"
        refuse(InvalidOption, (not fine, f"{name} is {number!r}; it needs to be {needs}."))
