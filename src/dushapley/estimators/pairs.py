r"""Interactions of two owners: what they are worth together beyond what each is worth alone.

.. math:: I_{ij} = \sum_{T \subseteq N \setminus \{i,j\}} q_{|T|}\,
          [u(T \cup ij) - u(T \cup i) - u(T \cup j) + u(T)]

with :math:`q_t = 1/((I-1)\binom{I-2}{t})` for the Shapley interaction index (Grabisch and Roubens
1999) and :math:`q_t = 2^{2-I}` for Banzhaf's. Below 0 two owners are redundant, above 0 they need
each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dushapley.arrays import BoolArray, FloatArray, Queries
from dushapley.estimators.exact import (
    EVERY_AXIOM,
    all_coalitions,
    enumerated,
    shapley_weights,
)
from dushapley.estimators.gp import studied
from dushapley.estimators.method import Method
from dushapley.estimators.semivalues import SHAPLEY
from dushapley.protocol import Conversation, Problem

INDICES = ("shapley", "banzhaf")
"""The two indices, in the order of their details."""


def by_size(index: str, n_players: int) -> FloatArray:
    """Weights of a coalition by its size 0..I with both, one and none of two owners in it.

    Shape (3, I+1); the utility counts with +, − and +.
    """
    others = n_players - 2
    alike = np.full(n_players - 1, 0.5**others)
    q = shapley_weights(n_players - 1) if index == "shapley" else alike
    return np.stack([np.pad(q, (held, 2 - held)) for held in (2, 1, 0)])


def pair_sums(pools: Queries, utilities: FloatArray, index: str) -> FloatArray:
    """What these coalitions add to the interactions of all pairs, shape (I, I).

    The weight of a coalition in a pair is a product of memberships, so one matrix product is
    enough: γ + (z_i + z_j)(−β − γ) + z_i z_j (α + 2β + γ), for weights α, β, γ of `by_size`.
    """
    z = pools.astype(np.float64)
    both, one, none = by_size(index, pools.shape[1])[:, pools.sum(axis=1)]
    single = (utilities * (-one - none)) @ z
    together = utilities * (both + 2 * one + none)
    joint = (z * together[:, None]).T @ z
    return (utilities @ none) + single[:, None] + single[None, :] + joint


def exact_pairs(problem: Problem) -> Conversation:
    """All 2^I coalitions: every interaction exactly, and the Shapley values beside them."""
    n = problem.n_players
    found = {index: np.zeros((n, n)) for index in INDICES}

    def note(block: BoolArray, gains: FloatArray) -> None:
        for index in INDICES:
            found[index] += pair_sums(block, gains, index)

    estimate = yield from enumerated(problem, SHAPLEY, note)
    errors = np.zeros(n)  # of sampling
    return replace(estimate, std_errors=errors, details={"interactions": matrices(found)})


def matrices(found: Mapping[str, FloatArray]) -> dict[str, Any]:
    """Symmetric matrices without a diagonal, as plain lists."""
    plain = {}
    for name, matrix in found.items():
        even = (matrix + matrix.T) / 2
        np.fill_diagonal(even, 0.0)
        plain[name] = even.tolist()
    return plain


def gp_pairs(problem: Problem) -> Conversation:
    """The questions of `gp`, and what its Gaussian process then believes of every pair.

    Cost: the budget, by default 2I² evaluations; all 2^I if it allows them, and the interactions
    are then exact. Interactions are linear in the utilities, so that they have a posterior mean and
    variance as values have.
    """
    if problem.budget >= 2**problem.n_players - 2:
        estimate = yield from exact_pairs(problem)
        note = f"gp asked all {2**problem.n_players:,} coalitions, so the interactions are exact."
        return replace(estimate, notes=(note,))
    from dushapley.estimators.gp.study import Study
    from dushapley.estimators.gp.targets import pair_details

    study = Study(problem)
    estimate = yield from studied(study)
    interactions, notes = pair_details(study)
    details = {**estimate.details, "interactions": interactions}
    return replace(estimate, notes=(*estimate.notes, *notes), details=details)


EXACT_PAIRS = Method(
    name="exact interactions",
    summary="all 2^I coalitions: the interactions themselves",
    run=exact_pairs,
    least=all_coalitions,
    default=all_coalitions,
    keeps=EVERY_AXIOM,
    cite="grabisch1999",
)
GP_PAIRS = Method(
    name="gp interactions",
    summary="interactions as the Gaussian process of gp believes them",
    run=gp_pairs,
    least=lambda n, _options: 2 * n + 2,
    default=lambda n, _options: 2 * n**2,
    keeps=frozenset({"efficiency"}),
    cite="grabisch1999",
)
