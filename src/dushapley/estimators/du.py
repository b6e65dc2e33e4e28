"""DU-Shapley: a coalition of size k looks like k/(I−1) of everybody's data."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import numpy as np

from dushapley.arrays import FloatArray
from dushapley.errors import MethodNotApplicable
from dushapley.estimators.calibration import Moments, final
from dushapley.estimators.method import Method, Options
from dushapley.estimators.random import two
from dushapley.estimators.semivalues import SEMIVALUE, SHAPLEY, not_shapley, semivalue_weights
from dushapley.protocol import Ask, Conversation, Estimate, Problem

MOST_CELLS = 2**22
"""Pools times owners asked at a time, so that memory stays bounded with a thousand owners."""

BIAS_NOTE = (
    "DU-Shapley draws the other owners' rows from one pool: it is blind to differences in quality "
    "between them and works poorly when some owners are much larger than the rest. No error bar "
    "holds this bias."
)


def du(problem: Problem) -> Conversation:
    r"""Definition 1: how much owner i adds to ever larger samples of the others' pooled rows.

    .. math:: \psi_i = \frac1I \sum_{k=0}^{I-1} [u(D^{(k)} \cup D_i) - u(D^{(k)})]

    where :math:`D^{(k)}` holds :math:`k\mu_{-i}` rows (rounded) drawn uniformly without
    replacement from all rows of the others, :math:`\mu_{-i} = |D_{-i}|/(I-1)`. The ends are not
    draws: :math:`D^{(0)} = ∅` and :math:`D^{(I-1)} = D_{-i}`.

    Where a game takes fractions exactly, the draw is replaced by its plug-in, every other owner
    giving the fraction k/(I−1): the paper's closed form. Where it has rows, the number of rows
    from each owner is drawn (multivariate hypergeometric), independently for each k.

    Cost: 2I(I−1)+2 evaluations for one replicate (4 at I=2), 2I(I−2) for each further one; the
    budget buys as many as fit. Under ``semivalue="banzhaf"`` or ``"beta(a,b)"`` the terms have the
    weights of that semivalue instead of 1/I (`semivalue_weights`). Biased: see Theorem 2 for equal
    distributions, and `notes`. Exact when all owners are of equal size and only the size of a pool
    matters.
    """
    n = problem.n_players
    alone, without = yield from alone_and_without(n)
    scale = term_scale(problem)
    notes = not_shapley(problem.options["semivalue"])
    first = (alone - problem.empty) * scale[0]  # shared by all replicates
    last = (problem.full - without) * scale[-1]
    if n == 2:
        return Estimate((first + last) / 2, notes=notes)
    moments = Moments(n)
    replicates = 1
    if problem.fractions == "rows":
        notes = (BIAS_NOTE, *notes)
        replicates = (problem.budget - 2 * n) // (2 * n * (n - 2))
    while moments.count < replicates:
        gains = yield from middle(problem, moments.estimate())
        moments.add(((first + last + gains) / n)[None, :])
    return replace(
        final(moments.estimate()), weights=answer_weights(problem, replicates), notes=notes
    )


def answer_weights(problem: Problem, replicates: int) -> FloatArray | None:
    """Weight of every answer in every value, in the order asked; None where there are too many."""
    n = problem.n_players
    if n * 2 * n * (n - 2) * replicates > MOST_CELLS:
        return None
    scale = term_scale(problem) / n
    own = np.eye(n)
    ones = np.ones((n, 1))
    first, last = scale[0], scale[-1]
    ends = [-first * ones, last * ones, first * own, -last * own]
    joining = np.kron(own, scale[1:-1] / replicates)
    return np.concatenate([*ends, *[joining, -joining] * replicates], axis=1)


def alone_and_without(n: int) -> Generator[Ask, FloatArray, tuple[FloatArray, FloatArray]]:
    """Ask every owner alone, and everybody but each."""
    own = np.eye(n, dtype=np.bool_)
    answers = yield Ask(own if n == 2 else np.concatenate([own, ~own]))
    # of two owners, all but one *is* the other one alone
    return answers[:n], answers[::-1] if n == 2 else answers[n:]


def middle(problem: Problem, so_far: Estimate | None) -> Generator[Ask, FloatArray, FloatArray]:
    """Sum over k = 1..I−2 of what each owner adds to D^(k), one replicate.

    Owners are asked about in groups, for the sake of memory.
    """
    n = problem.n_players
    at_once = max(1, MOST_CELLS // (2 * n * (n - 2)))
    steps = np.arange(1, n - 1) / (n - 1)
    gains = []
    for start in range(0, n, at_once):
        owners = np.arange(start, min(n, start + at_once))
        others = np.concatenate([pools(problem, int(i), steps) for i in owners])
        with_owner = others.copy()
        with_owner[np.arange(len(others)), np.repeat(owners, n - 2)] = 1.0
        draws = problem.rng.integers(2**62, size=len(others))
        answers = yield Ask(np.concatenate([with_owner, others]), so_far, draws=np.tile(draws, 2))
        added = np.subtract(*answers.reshape(2, len(owners), n - 2))
        gains.append((added * term_scale(problem)[1:-1]).sum(axis=1))
    return np.concatenate(gains)


def term_scale(problem: Problem) -> FloatArray:
    """Weight of joining k others, as a multiple of Shapley's 1/I."""
    n = problem.n_players
    name = problem.options["semivalue"]
    return np.ones(n) if name == SHAPLEY else n * semivalue_weights(name, n)


def pools(problem: Problem, owner: int, shares: FloatArray) -> FloatArray:
    """Such shares of all rows but one owner's, as fractions of each owner's rows.

    Of games with rows they are drawn without replacement: multivariate hypergeometric.
    """
    if problem.fractions == "exact":
        return shares[:, None] * (np.arange(problem.n_players) != owner)
    sizes = problem.sizes.astype(np.int64)
    sizes[owner] = 0
    total = int(sizes.sum())
    drawn = problem.rng.multivariate_hypergeometric
    counts = [drawn(sizes, round(share * total), method="marginals") for share in shares]
    return np.array(counts) / np.maximum(sizes, 1)


def du_second_order(problem: Problem) -> Conversation:
    r"""DU-Shapley corrected for the spread of the sizes it averages over.

    DU-Shapley takes :math:`g(k\mu)` for :math:`E[g(Y_k)]`, where :math:`g(n) = w(n+n_i) - w(n)` and
    :math:`Y_k` is the size of k random others. Here k ≤ 3 and k ≥ I−4 are exact, and between them
    g is averaged over two points with the mean, variance and third moment of :math:`Y_k`: the
    leading bias, ½g''(kμ)·Var, and the next term are gone, with no derivative needed.

    Cost: no evaluation; it is computed by games that know sizes and curve (`SizeGame`,
    `RegressogramGame`) and refused elsewhere. Guarantee: for a curve declared completely monotone
    it is a lower bound of the Shapley value, and the valuation carries the upper one.
    """
    raise MethodNotApplicable(
        f"du-second-order asks no questions: for these {problem.n_players} owners it needs a "
        "game's own formula."
    )
    yield  # a generator by type: games answer for it


def one_replicate(n_players: int, _options: Options) -> int:
    """Distinct evaluations of one replicate: 2I(I−1)+2, and 4 for two owners."""
    return 4 if n_players == 2 else 2 * n_players * (n_players - 1) + 2


METHOD = Method(
    name="du",
    summary="DU-Shapley: what each owner adds to growing samples of the others' pooled rows",
    run=du,
    foreseeable=True,
    least=one_replicate,
    default=one_replicate,
    biased=True,
    needs="fractions",
    options={"semivalue": SEMIVALUE},
    cite="garrido2024",
)

PLUS_PLUS = replace(
    METHOD,
    name="du++",
    summary="DU-Shapley++ of the older version: equal to du, whose ends are already exact",
)

SECOND_ORDER = Method(
    name="du-second-order",
    summary="DU-Shapley less its bias, by sizes and curve of a game; no standard errors",
    run=du_second_order,
    least=two,
    default=two,
    biased=True,
    needs="formula",
    cite="garrido2024",
)
