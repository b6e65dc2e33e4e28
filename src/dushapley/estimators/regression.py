"""Regressions whose solution is the Shapley value: kernel and leverage sampling."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from dushapley.arrays import FloatArray, IntArray
from dushapley.estimators.calibration import Spread, sum_of_cubes
from dushapley.estimators.design import Design, kernel_design, levels, leverage_design
from dushapley.estimators.method import (
    Method,
    Option,
    coalition_bytes,
    refuse_large_plan,
    two_squares,
)
from dushapley.estimators.moments import final
from dushapley.protocol import Ask, Conversation, Estimate, Problem

Scores = Callable[[IntArray | slice], FloatArray]
"""What some units of a design add to the values, shape (units, I)."""
UNDETERMINED = (
    "The sampled coalitions do not determine all values; the smallest ones that fit are shown. "
    "Raise the budget."
)


def kernel(problem: Problem) -> Conversation:
    r"""KernelSHAP: the best additive fit to the game, sampled by the Shapley kernel.

    .. math:: \varphi = \arg\min_v \sum_{∅ \ne S \ne I} \mu(S)\,
              [u(S) - u(∅) - \textstyle\sum_{i \in S} v_i]^2,\quad
              \sum_i v_i = u(\text{all}) - u(∅)

    with :math:`\mu(S) \propto 1/(s(I-s)\binom{I}{s})`, s = |S|. The sum is estimated from
    coalitions drawn by μ. With ``borders=True`` the outermost sizes are asked whole where draws
    would cover them anyway, and no coalition is drawn twice (the unbiased form needs independent
    draws and may repeat one); with ``borders=False`` all draws are independent.

    ``form="paired"``: each coalition with its complement. ``form="unpaired"``: without. Both are
    biased of the order 1/budget, since the matrix of the regression is sampled too.
    ``form="unbiased"`` (paired): the matrix is exact,
    :math:`\varphi = \bar v + \frac1\lambda E_\mu[(z_S - s/I)(u(S) - u(∅))]` with
    :math:`\bar v = (u(\text{all}) - u(∅))/I`, :math:`z_S` the indicator of S and
    :math:`\lambda = \frac12 - E_\mu[s(s-1)]/(I(I-1))`.

    ``weights="sizes"``: the draws of a size share its part of the kernel, which pays from about I²
    evaluations on. ``weights="draws"``: every draw counts alike, as in shapiq's KernelSHAP; a tenth
    more accurate at 6I. Of few evaluations take ``form="unbiased"`` where owners are much alike,
    and ``form="unpaired", weights="draws"`` where some owners' data are bad
    (`benchmarks/kernel_forms.py`).

    Cost: the whole budget. Adds up exactly. Standard errors: sandwich formula, from the spread of
    the draws. Lundberg and Lee (2017); Covert and Lee (2021).
    """
    form = problem.options["form"]
    borders = problem.options["borders"]
    n = problem.n_players
    refuse_large_plan(problem, coalition_bytes(n if borders else max(n, 24)))
    repeats = form == "unbiased" or not borders
    design = kernel_design(
        problem,
        paired=form != "unpaired",
        borders=borders,
        repeats=repeats,
        by_size=problem.options["weights"] == "sizes",
    )
    return (yield from regress(problem, design, exact_matrix=form == "unbiased"))


def leverage(problem: Problem) -> Conversation:
    r"""Leverage SHAP: the same regression, with equally many coalitions of every size.

    The leverage of a coalition in the regression of `kernel` is :math:`1/\binom{I}{s}`, so
    coalitions are drawn with chances :math:`\min(1, c/\binom{I}{s})`, c as the budget allows,
    without replacement and with their complements, and weighed by :math:`\mu` over that chance.

    ``size_intercepts=True`` also fits one constant for each size: the curvature of the game in
    the size of coalitions, common to all owners, then no longer counts as noise. It is consistent,
    since :math:`\sum_{|S|=s} (z_S - s/I) = 0`, and needs about 3I evaluations.

    Cost: the whole budget. Biased of the order 1/budget; adds up exactly. Standard errors:
    sandwich formula by size, with the correction for finite populations. Musco and Witter (2025).
    """
    refuse_large_plan(problem, coalition_bytes(problem.n_players))
    design = leverage_design(problem)
    intercepts = problem.options["size_intercepts"]
    return (yield from regress(problem, design, size_intercepts=intercepts))


def regress(
    problem: Problem,
    design: Design,
    *,
    exact_matrix: bool = False,
    size_intercepts: bool = False,
) -> Conversation:
    """Ask a design in batches and fit what is known after each."""
    units, width, n = design.masks.shape
    answers = np.empty((0, width))
    so_far: Callable[[], Estimate] | None = None
    at_once = max(1, problem.batch // width)
    for start in range(0, units, at_once):
        some = design.masks[start : start + at_once]
        batch = yield Ask(some.reshape(-1, n), so_far)
        answers = np.concatenate([answers, batch.reshape(-1, width)])
        part = design.first(len(answers))
        if exact_matrix:
            so_far = partial(solve_exact_matrix, problem, part, answers)
        else:
            so_far = partial(solve, problem, part, answers, size_intercepts=size_intercepts)
    return final(None if so_far is None else so_far())


def solve(
    problem: Problem, design: Design, answers: FloatArray, *, size_intercepts: bool
) -> Estimate:
    """Weighted least squares under Σ values = u(all) − u(∅).

    Centred indicators x = z − s/I remove the constraint: values are total/I plus the coefficients
    of x, which add up to 0. Sums run over parts of the design, so that memory stays bounded.
    """
    n = problem.n_players
    means = _size_means(problem, design, answers) if size_intercepts else None
    normal, right = np.zeros((n, n)), np.zeros(n)
    for part in design.parts():
        x, y = _centred(problem, design, answers, part, means)
        rows = (x * design.weights[part, None, None]).reshape(-1, n)
        normal += rows.T @ x.reshape(-1, n)
        right += rows.T @ y.ravel()
    inverse, rank = pseudo_inverse(normal)
    slopes = inverse @ right

    def scores(units: IntArray | slice) -> FloatArray:
        x, y = _centred(problem, design, answers, units, means)
        weighted = x * design.weights[units, None, None]
        return (weighted * (y - x @ slopes)[:, :, None]).sum(axis=1) @ inverse

    notes = () if rank == n - 1 else (UNDETERMINED,)
    return estimate(problem, design, slopes, scores, notes)


def _centred(
    problem: Problem,
    design: Design,
    answers: FloatArray,
    units: IntArray | slice,
    means: tuple[FloatArray, FloatArray] | None,
) -> tuple[FloatArray, FloatArray]:
    """Indicators and utilities of some units, less what the constraint, or the size, explains."""
    masks = design.masks[units]
    sizes = masks.sum(axis=2)
    x = masks - sizes[:, :, None] / problem.n_players
    y = answers[units] - problem.empty - sizes * (problem.total / problem.n_players)
    return (x, y) if means is None else (x - means[0][sizes], y - means[1][sizes])


def _size_means(
    problem: Problem, design: Design, answers: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Mean indicators and utilities of the coalitions of each size."""
    n = problem.n_players
    sums, totals, counts = np.zeros((n + 1, n)), np.zeros(n + 1), np.zeros(n + 1)
    for part in design.parts():
        x, y = _centred(problem, design, answers, part, None)
        labels = design.masks[part].sum(axis=2).ravel()
        one_hot = (labels[:, None] == np.arange(n + 1)).astype(np.float64)
        sums += one_hot.T @ x.reshape(-1, n)
        totals += one_hot.T @ y.ravel()
        counts += one_hot.sum(axis=0)
    many = np.maximum(counts, 1)
    return sums / many[:, None], totals / many


def solve_exact_matrix(problem: Problem, design: Design, answers: FloatArray) -> Estimate:
    """The unbiased form: only the right-hand side of the regression is sampled."""
    eigenvalue = kernel_eigenvalue(problem.n_players)

    def scores(units: IntArray | slice) -> FloatArray:
        masks = design.masks[units]
        x = masks - masks.mean(axis=2, keepdims=True)
        y = (answers[units] - problem.empty) * design.weights[units, None]
        return (x * y[:, :, None]).sum(axis=1) / eigenvalue

    slopes = np.sum([scores(part).sum(axis=0) for part in design.parts()], axis=0)
    return estimate(problem, design, slopes, scores, ())


def kernel_eigenvalue(n_players: int) -> float:
    """λ = ½ − E[s(s−1)]/(I(I−1)) under the Shapley kernel."""
    sizes = np.arange(1, n_players)
    mass = 1 / (sizes * (n_players - sizes))
    pairs = (mass * sizes * (sizes - 1)).sum() / mass.sum()
    return float(0.5 - pairs / (n_players * (n_players - 1)))


def pseudo_inverse(matrix: FloatArray) -> tuple[FloatArray, int]:
    """Pseudo-inverse of a symmetric matrix that is at least blind to (1, …, 1); and its rank."""
    values, vectors = np.linalg.eigh(matrix)
    keep = values > 1e-10 * max(float(values[-1]), 0.0)
    return (vectors[:, keep] / values[keep]) @ vectors[:, keep].T, int(keep.sum())


def estimate(
    problem: Problem,
    design: Design,
    slopes: FloatArray,
    scores: Scores,
    notes: tuple[str, ...],
) -> Estimate:
    """Values from slopes that add up to 0; errors from the spread of scores within strata."""
    values = slopes - slopes.mean() + problem.total / problem.n_players
    parts = within_strata(design, scores)
    if parts is None or notes:
        return Estimate(values, notes=notes)
    covariance, spread = parts
    return spread.around(values, covariance)


def within_strata(design: Design, scores: Scores) -> tuple[FloatArray, Spread] | None:
    """Error of the sum of scores; None while a stratum drawn from was seen only once.

    Scores are made stratum by stratum, and only their sums are kept.
    """
    n = design.masks.shape[2]
    total, variances, thirds, freedoms = np.zeros((n, n)), [], [], []
    for level, seen in enumerate(design.seen):
        part = 1 - seen / design.room[level] if design.room[level] > 0 else 0.0
        if part <= 0 or (seen == 0 and np.isinf(design.room[level])):
            continue
        if seen < 2:
            return None
        off = scores(np.flatnonzero(design.stratum == level))
        off = off - off.mean(axis=0)
        covariance = off.T @ off * (part * seen / (seen - 1))
        total += covariance
        variances.append(np.diag(covariance).copy())  # a view would keep all of it
        thirds.append(sum_of_cubes(off) * (part * (2 * part - 1)))
        freedoms.append([seen - 1.0])
    if not variances:  # every stratum was seen whole
        nothing = np.zeros(n)
        return np.diag(nothing), Spread(nothing, nothing, np.full_like(nothing, np.inf))
    spread = Spread(np.stack(variances), np.stack(thirds), np.array(freedoms)).together(axis=0)
    return total, spread


KERNEL = Method(
    name="kernel",
    summary="KernelSHAP: additive fit weighted by the Shapley kernel (biased; form unbiased: not)",
    run=kernel,
    foreseeable=True,
    least=lambda n, _options: min(2 * n + 2, 2**n),  # twice as many as unknowns; or all
    default=two_squares,
    keeps=frozenset({"efficiency"}),
    biased=lambda options: options["form"] != "unbiased",
    options={
        "form": Option(
            "paired",
            "'paired' with complements, 'unpaired', or 'unbiased' (paired, exact matrix)",
            choices=("paired", "unpaired", "unbiased"),
        ),
        "weights": Option(
            "sizes",
            "draws of a size share its weight: 'sizes'; or all count alike: 'draws' (better at 6I)",
            choices=("sizes", "draws"),
        ),
        "borders": Option(True, "outermost sizes whole where the budget covers them, no repeats"),
    },
    cite="lundberg2017",
)

LEVERAGE = Method(
    name="leverage",
    summary="Leverage SHAP: the same fit from equally many coalitions of every size (biased)",
    run=leverage,
    foreseeable=True,
    # as `kernel`; with intercepts three pairs of every size
    least=lambda n, options: min(
        (6 * len(levels(n)) if options["size_intercepts"] else 2 * n) + 2, 2**n
    ),
    default=two_squares,
    keeps=frozenset({"efficiency"}),
    biased=True,
    options={
        "size_intercepts": Option(False, "fit one constant per coalition size (needs about 3I)"),
    },
    cite="musco2025",
)
