"""Exact Shapley values by enumeration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import comb

import numpy as np

from dushapley.arrays import Array, BoolArray, FloatArray
from dushapley.estimators.method import Keeps, Method, Option, Options
from dushapley.estimators.semivalues import SEMIVALUE, SHAPLEY, not_shapley, single_weights
from dushapley.protocol import Ask, Conversation, Estimate, Problem

BLOCK_BITS = 16
"""Coalitions are asked 2^16 at a time, so memory stays constant while their number doubles."""


def exact(problem: Problem) -> Conversation:
    r"""Ask all 2^I coalitions, block by block, and add each to every owner's value.

    .. math:: \varphi_i = \frac1I \sum_{S \not\ni i} \binom{I-1}{|S|}^{-1} [u(S \cup i) - u(S)]
              = \sum_{S \ni i} (p_{|S|-1} + p_{|S|})\, u(S) - \sum_S p_{|S|}\, u(S)

    with :math:`p_s = 1/(I\binom{I-1}{s})` (and :math:`p_{I} = 0`). The second form needs one
    matrix product per block and no table of the game. Utilities are taken relative to u(∅), which
    changes no value and spares rounding errors.

    Other weights p give any semivalue: ``semivalue="banzhaf"`` or ``"beta(4,1)"``.

    Cost: 2^I evaluations, constant memory. Guarantee: exact up to rounding.
    """
    semivalue = problem.options["semivalue"]
    lifted = np.zeros(problem.n_players)
    outside, inside = sides(semivalue, problem.n_players)

    def note(block: BoolArray, gains: FloatArray) -> None:
        if gains.min() < 0:
            lifted[:] -= weighed(block, np.minimum(gains, 0), outside, inside)

    found = yield from enumerated(problem, semivalue, note)
    return replace(found, details=below_empty(found.values, lifted), notes=not_shapley(semivalue))


def enumerated(
    problem: Problem, semivalue: str, note: Callable[[BoolArray, FloatArray], None]
) -> Conversation:
    """Ask all coalitions; `note` sees each block of them and what they are worth beyond nobody."""
    n = problem.n_players
    outside, inside = sides(semivalue, n)
    values = np.zeros(n)
    for block in coalitions(n):
        first = int(not block[0].any())
        last = int(block[-1].all())
        answers = yield Ask(block[first : len(block) - last])
        utilities = np.concatenate([[problem.empty] * first, answers, [problem.full] * last])
        gains = utilities - problem.empty
        values += weighed(block, gains, outside, inside)
        note(block, gains)
    return Estimate(values)


def sides(semivalue: str, n_players: int) -> tuple[FloatArray, FloatArray]:
    """Weights of coalitions by their size 0..I, without and with an owner."""
    known = semivalue == SHAPLEY
    single = shapley_weights(n_players) if known else single_weights(semivalue, n_players)
    return np.append(single, 0.0), np.append(0.0, single)


def weighed(
    pools: BoolArray, gains: FloatArray, outside: FloatArray, inside: FloatArray
) -> FloatArray:
    """What coalitions that are worth so much add to the values."""
    size = pools.sum(axis=1)
    return (gains * (inside + outside)[size]) @ pools - gains @ outside[size]


def coalition_weights(pools: BoolArray, options: Options) -> FloatArray:
    """Weights of a round of coalitions, and its share of those of nobody and everybody."""
    n = pools.shape[1]
    outside, inside = sides(options.get("semivalue", SHAPLEY), n)
    size = pools.sum(axis=1)
    share = len(pools) / (2**n - 2)
    weights = np.empty((len(pools) + 2, n))
    np.multiply(pools, (inside + outside)[size][:, None], out=weights[:-2])
    weights[:-2] -= outside[size][:, None]
    weights[-2] = -outside[0] * share
    weights[-1] = inside[-1] * share
    return weights.T


def below_empty(values: FloatArray, lift: FloatArray) -> dict[str, float]:
    """How far pools worse than nobody's decide who is worth what, for `Estimate.details`.

    `lift` is what every value would gain if such pools counted as nobody's; its spread as a part of
    that of the values. Nothing where no such pool moves a value.
    """
    spread = np.ptp(values)
    share = float(np.ptp(lift) / spread) if spread > 0 else 0.0
    return {"below_empty": share} if share > 0 else {}


def coalitions(n_players: int) -> Iterator[BoolArray]:
    """All coalitions in the order of their bits, in blocks of at most 2^16 rows.

    The low owners run through all their coalitions in every block, the high ones through one.
    """
    low = min(n_players, BLOCK_BITS)
    block = np.zeros((2**low, n_players), dtype=np.bool_)
    block[:, :low] = bits(np.arange(2**low), low)
    for high in range(2 ** (n_players - low)):
        block[:, low:] = bits(np.array([high]), n_players - low)
        yield block.copy()


def bits(numbers: Array, width: int) -> BoolArray:
    """Binary digits, lowest first, one row per number."""
    return (numbers[:, None] >> np.arange(width)) & 1 == 1


def non_empty_pools(n_players: int) -> BoolArray:
    """All coalitions but nobody, in the order of their bits."""
    return bits(np.arange(1, 2**n_players), n_players)


def shapley_weights(n_players: int) -> FloatArray:
    """Weight 1/(I·C(I−1,s)) of a coalition of s others, for s = 0..I−1."""
    others = n_players - 1
    return np.array([1 / (n_players * comb(others, s)) for s in range(n_players)])


def all_coalitions(n_players: int, _options: Options) -> int:
    """Cost of enumeration."""
    return int(2**n_players)


BY = Option(
    "formula",
    "'formula' where the game has one, or 'enumeration'",
    choices=("formula", "enumeration"),
)
EVERY_AXIOM: frozenset[Keeps] = frozenset({"efficiency", "symmetry", "null player"})

METHOD = Method(
    name="exact",
    summary="all 2^I coalitions (or the game's own formula): the Shapley values themselves",
    run=exact,
    foreseeable=True,
    weights=coalition_weights,
    least=all_coalitions,
    default=all_coalitions,
    keeps=lambda options: (
        EVERY_AXIOM if options["semivalue"] == SHAPLEY else EVERY_AXIOM - {"efficiency"}
    ),
    options={"by": BY, "semivalue": SEMIVALUE},
    cite="shapley1953",
)
