"""Semivalues: other averages over the sizes of coalitions than Shapley's."""

from __future__ import annotations

import re
from math import comb

import numpy as np

from dushapley.arrays import FloatArray
from dushapley.estimators.method import Option

SHAPLEY = "shapley"
_BETA = re.compile(r"beta\((\d+(?:\.\d+)?),\s*(\d+(?:\.\d+)?)\)")


def not_shapley(name: str) -> tuple[str, ...]:
    """What must be said of values under this name."""
    return (
        ()
        if name == SHAPLEY
        else (
            f"These are {name} values, not Shapley values: they weigh coalition sizes differently "
            "and need not add up to u(all) − u(∅). The standard errors are theirs.",
        )
    )


def is_semivalue(name: str) -> bool:
    """Whether `semivalue_weights` knows this name."""
    if name in (SHAPLEY, "banzhaf"):
        return True
    beta = _BETA.fullmatch(name)
    return beta is not None and all(float(part) > 0 for part in beta.groups())


SEMIVALUE = Option(
    SHAPLEY, "'shapley', 'banzhaf' or 'beta(a,b)' such as 'beta(4,1)'", valid=is_semivalue
)
"""The option that asks for another one."""


def semivalue_weights(name: str, n_players: int) -> FloatArray:
    r"""Weight of joining k others, for k = 0..I−1; they add up to 1.

    "shapley": 1/I. "banzhaf": :math:`\binom{I-1}{k} 2^{1-I}`, every coalition alike. "beta(a,b)"
    (Kwon and Zou 2022): :math:`\binom{I-1}{k} B(k+b, I-1-k+a)/B(a,b)`; beta(1,1) is Shapley's,
    and a larger a looks more at small coalitions.

    Examples
    --------
    >>> from dushapley.estimators.semivalues import semivalue_weights
    >>> semivalue_weights("banzhaf", 3).tolist()
    [0.25, 0.5, 0.25]
    >>> semivalue_weights("beta(4,1)", 3).round(3).tolist()
    [0.667, 0.267, 0.067]
    """
    if name == SHAPLEY:
        return np.full(n_players, 1 / n_players)
    from scipy.special import betaln, gammaln

    others = n_players - 1
    k = np.arange(n_players)
    log_choices = gammaln(others + 1) - gammaln(k + 1) - gammaln(others - k + 1)
    law = chance_of_joining(name)
    if law is None:
        weights = np.exp(log_choices - others * np.log(2))
    else:
        b, a = law
        weights = np.exp(log_choices + betaln(k + b, others - k + a) - betaln(a, b))
    return weights / weights.sum()


def single_weights(name: str, n_players: int) -> FloatArray:
    """Weight of a single coalition of k others, for k = 0..I−1: `semivalue_weights` over C(I−1, k).

    Examples
    --------
    >>> from dushapley.estimators.semivalues import single_weights
    >>> single_weights("banzhaf", 3).tolist()
    [0.25, 0.25, 0.25]
    """
    others = n_players - 1
    shares = semivalue_weights(name, n_players).tolist()
    return np.array([share / comb(others, k) for k, share in enumerate(shares)])


def chance_of_joining(name: str) -> tuple[float, float] | None:
    """A semivalue as the law of the chance t with which everybody else is there.

    Beta(first, second); None for Banzhaf's, where t is one half.
    """
    if name == SHAPLEY:
        return 1.0, 1.0
    beta = _BETA.fullmatch(name)
    return None if beta is None else (float(beta[2]), float(beta[1]))
