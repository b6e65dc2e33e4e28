"""Regressions whose solution is the Shapley value: kernel and leverage sampling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from math import comb

import numpy as np
from numpy.random import Generator

from dushapley.arrays import BoolArray, FloatArray, IntArray, slices
from dushapley.estimators.calibration import Spread, sum_of_cubes
from dushapley.estimators.method import (
    Method,
    Option,
    coalition_bytes,
    refuse_large_plan,
    two_squares,
)
from dushapley.estimators.subsets import distinct_subsets, random_subsets, spread_sizes
from dushapley.protocol import Ask, Conversation, Estimate, Problem

Scores = Callable[[IntArray | slice], FloatArray]
"""What some units of a design add to the values, shape (units, I)."""
Fit = Callable[..., Estimate]
"""Values from a problem, the part of a design that was asked, and the answers to it."""


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
    n = problem.n_players
    borders = problem.options["borders"]
    refuse_large_plan(problem, coalition_bytes(n if borders else max(n, 24)))
    fit = solve_exact_matrix if problem.options["form"] == "unbiased" else solve
    return (yield from regress(problem, kernel_design(problem), fit))


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
    fit = partial(solve, size_intercepts=problem.options["size_intercepts"])
    return (yield from regress(problem, leverage_design(problem), fit))


def regress(problem: Problem, design: Design, fit: Fit) -> Conversation:
    """Ask a design in batches and fit what is known after each."""
    units, width, n = design.masks.shape
    answers = np.empty((0, width))
    so_far: Callable[[], Estimate] | None = None
    for some in slices(units, problem.batch // width):
        batch = yield Ask(design.masks[some].reshape(-1, n), so_far)
        answers = np.concatenate([answers, batch.reshape(-1, width)])
        asked = slice(some.stop)
        known = Design(design.masks[asked], design.stratum[asked], design.mass, design.room)
        so_far = partial(fit, problem, known, answers)
    return fit(problem, design, answers)


def solve(
    problem: Problem, design: Design, answers: FloatArray, *, size_intercepts: bool = False
) -> Estimate:
    """Weighted least squares under Σ values = u(all) − u(∅).

    Centred indicators x = z − s/I remove the constraint: values are total/I plus the coefficients
    of x, which add up to 0. Sums run over parts of the design, so that memory stays bounded.
    """
    n = problem.n_players
    means = _size_means(problem, design, answers) if size_intercepts else None
    normal = np.zeros((n, n))
    right = np.zeros(n)
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
        off = y - x @ slopes
        return (weighted * off[:, :, None]).sum(axis=1) @ inverse

    undetermined = (
        "The sampled coalitions do not determine all values; the smallest ones that fit are shown. "
        "Raise the budget.",
    )
    return estimate(problem, design, slopes, scores, () if rank == n - 1 else undetermined)


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
    mean = problem.total / problem.n_players
    x = masks - sizes[:, :, None] / problem.n_players
    y = answers[units] - problem.empty - sizes * mean
    if means is None:
        return x, y
    return x - means[0][sizes], y - means[1][sizes]


def _size_means(
    problem: Problem, design: Design, answers: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Mean indicators and utilities of the coalitions of each size."""
    n = problem.n_players
    sums = np.zeros((n + 1, n))
    totals, counts = np.zeros((2, n + 1))
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
    return 0.5 - pairs / (n_players * (n_players - 1))


def pseudo_inverse(matrix: FloatArray) -> tuple[FloatArray, int]:
    """Pseudo-inverse of a symmetric matrix that is at least blind to (1, …, 1); and its rank."""
    values, vectors = np.linalg.eigh(matrix)
    keep = values > 1e-10 * max(values[-1], 0.0)
    kept = vectors[:, keep]
    return (kept / values[keep]) @ kept.T, int(keep.sum())


def estimate(
    problem: Problem,
    design: Design,
    slopes: FloatArray,
    scores: Scores,
    notes: tuple[str, ...],
) -> Estimate:
    """Values from slopes that add up to 0; errors from the spread of scores within strata.

    There are none while a stratum drawn from was seen only once. Scores are made stratum by
    stratum, and only their sums are kept.
    """
    n = problem.n_players
    values = slopes - slopes.mean() + problem.total / n
    if notes:
        return Estimate(values, notes=notes)
    total = np.zeros((n, n))
    variances, thirds, freedoms = [np.zeros(n)], [np.zeros(n)], [[np.inf]]
    for level, (seen, room) in enumerate(zip(design.seen, design.room, strict=True)):
        part = 1 - seen / room if room > 0 else 0.0
        if part <= 0 or (seen == 0 and np.isinf(room)):
            continue
        if seen < 2:
            return Estimate(values)
        off = scores(np.flatnonzero(design.stratum == level))
        off = off - off.mean(axis=0)
        covariance = off.T @ off * (part * seen / (seen - 1))
        total += covariance
        variances.append(np.diag(covariance).copy())  # a view would keep all of it
        thirds.append(sum_of_cubes(off) * (part * (2 * part - 1)))
        freedoms.append([seen - 1.0])
    parts = Spread(np.stack(variances), np.stack(thirds), np.array(freedoms))
    return parts.together(axis=0).around(values, total)


AT_ONCE = 2**22
"""Memberships that are computed with at a time."""


@dataclass(frozen=True)
class Design:
    """Coalitions to ask, in order.

    Attributes
    ----------
    masks
        Shape (units, width, I); width 2 pairs a coalition with its complement.
    stratum
        Shape (units,).
    mass, room
        Shape (strata,): weight of a stratum as a whole, and how many units it has in all (infinite
        where units are drawn with replacement).
    """

    masks: BoolArray
    stratum: IntArray
    mass: FloatArray
    room: FloatArray

    def parts(self) -> list[slice]:
        """Units in parts that are small enough to be computed with."""
        units, width, n = self.masks.shape
        return slices(units, AT_ONCE // (width * n))

    @property
    def seen(self) -> IntArray:
        """Units of each stratum."""
        return np.bincount(self.stratum, minlength=len(self.mass))

    @cached_property
    def weights(self) -> FloatArray:
        """Weight of each unit's coalitions."""
        coalitions = self.seen * self.masks.shape[1]
        return (self.mass / np.maximum(coalitions, 1))[self.stratum]


def levels(n_players: int) -> IntArray:
    """Sizes 1..⌊I/2⌋; each stands for itself and its complement's size."""
    return np.arange(1, n_players // 2 + 1)


def kernel_mass(n_players: int) -> FloatArray:
    """Shapley kernel 1/(s(I−s)) of each level, both sizes together, adding up to 1."""
    sizes = levels(n_players)
    mass = np.where(2 * sizes == n_players, 1.0, 2.0) / (sizes * (n_players - sizes))
    return mass / mass.sum()


def pairs_in(n_players: int, size: int) -> int:
    """How many pairs (coalition of this size, complement) there are."""
    return comb(n_players, size) // (2 if 2 * size == n_players else 1)


def with_complements(masks: BoolArray) -> BoolArray:
    """Pair each coalition with its complement, shape (m, 2, I)."""
    return np.stack([masks, ~masks], axis=1)


def draw_pairs(rng: Generator, n_players: int, size: int, count: int) -> BoolArray:
    """`count` different pairs of one level, uniform without replacement.

    In the middle, where both have the same size, the first owner is always in the first of the
    two, so that no pair is drawn twice.
    """
    if 2 * size < n_players:
        return with_complements(distinct_subsets(rng, n_players, size, count))
    rest = distinct_subsets(rng, n_players - 1, size - 1, count)
    return with_complements(np.insert(rest, 0, True, axis=1))


def kernel_design(problem: Problem) -> Design:
    """Outer sizes whole where the kernel would draw them about as often; the rest by the kernel.

    Draws of a size share its mass, or all draws count alike.
    """
    n = problem.n_players
    form, borders = problem.options["form"], problem.options["borders"]
    width = 1 if form == "unpaired" else 2
    whole = whole_levels(n, problem.budget) if borders else 0
    outer = [draw_pairs(problem.rng, n, s, pairs_in(n, s)) for s in range(1, whole + 1)]
    certain = [block.reshape(-1, width, n) for block in outer]
    units = (problem.budget - sum(block.size // n for block in outer)) // width
    draw = repeated_draws if form == "unbiased" or not borders else distinct_draws
    inner = draw(problem.rng, n, whole, units, width)
    if inner and problem.options["weights"] == "draws":  # how often sizes were drawn weighs them
        drawn, masses, _ = zip(*inner, strict=True)
        inner = [(np.concatenate(drawn), sum(masses), np.inf)]
    lengths = [len(block) for block in certain]
    strata = [*zip(certain, kernel_mass(n), lengths, strict=False), *inner]
    return assembled(problem.rng, strata, sum(lengths))


Stratum = tuple[BoolArray, float, float]
"""Units of a stratum, its mass, and how many units it has in all."""


def assembled(rng: Generator, strata: list[Stratum], first: int = 0) -> Design:
    """A design of these strata in random order, but for the first units."""
    blocks, mass, room = zip(*strata, strict=True)
    stratum = np.repeat(np.arange(len(blocks)), [len(block) for block in blocks])
    order = np.arange(len(stratum))
    rng.shuffle(order[first:])
    masks = np.concatenate(blocks)
    return Design(masks[order], stratum[order], np.array(mass), np.array(room))


def repeated_draws(
    rng: Generator, n_players: int, whole: int, units: int, width: int
) -> list[Stratum]:
    """One stratum of independent draws from the inner levels by the Shapley kernel."""
    mass = kernel_mass(n_players)[whole:]
    if len(mass) == 0:
        return []
    sizes = 1 + whole + rng.choice(len(mass), size=units, p=mass / mass.sum())
    sizes = np.where(rng.random(units) < 0.5, sizes, n_players - sizes)
    masks = random_subsets(rng, sizes, n_players)
    paired = with_complements(masks) if width == 2 else masks[:, None, :]
    return [(paired, mass.sum(), np.inf)]


def distinct_draws(rng: Generator, n: int, whole: int, units: int, width: int) -> list[Stratum]:
    """A stratum for each inner size (or pair of sizes): numbers by the kernel, none drawn twice."""
    if width == 2:
        sizes = levels(n)[whole:].tolist()
        mass = kernel_mass(n)[whole:]
        room = [pairs_in(n, s) for s in sizes]
    else:
        sizes = list(range(whole + 1, n - whole))
        mass = np.array([1 / (s * (n - s)) for s in sizes])
        mass *= kernel_mass(n)[whole:].sum() / mass.sum() if sizes else 1.0
        room = [comb(n, s) for s in sizes]
    counts = spread_sizes(rng, mass, room, units).tolist()
    drawn = [
        draw_pairs(rng, n, s, c) if width == 2 else distinct_subsets(rng, n, s, c)[:, None, :]
        for s, c in zip(sizes, counts, strict=True)
    ]
    return list(zip(drawn, mass.tolist(), map(float, room), strict=True))


def whole_levels(n_players: int, budget: int) -> int:
    """How many outer levels are asked whole: those with fewer coalitions than expected draws."""
    mass = kernel_mass(n_players)
    left = budget
    for level, size in enumerate(levels(n_players).tolist()):
        cost = 2 * pairs_in(n_players, size)
        if left * mass[level] / mass[level:].sum() < cost:
            return level
        left -= cost
    return len(mass)


def leverage_design(problem: Problem) -> Design:
    """As many coalitions of every size, as far as there are so many; pairs, none twice."""
    n = problem.n_players
    counts = equal_counts(problem.rng, n, problem.budget // 2).tolist()
    rows = zip(levels(n).tolist(), counts, kernel_mass(n).tolist(), strict=True)
    strata = [
        (draw_pairs(problem.rng, n, size, count), mass, float(pairs_in(n, size)))
        for size, count, mass in rows
    ]
    return assembled(problem.rng, strata)


def equal_counts(rng: Generator, n_players: int, pairs: int) -> IntArray:
    """Pairs of each level: min(c, C(I,s)) coalitions of every size s, c as large as affordable.

    Whole numbers come from random rounding that keeps the sum.
    """
    sizes = levels(n_players)
    room = np.array([float(pairs_in(n_players, size)) for size in sizes])
    share = np.where(2 * sizes == n_players, 0.5, 1.0)
    target = min(pairs, room.sum())
    order = np.argsort(room / share)
    counts = np.zeros(len(room))
    for position, level in enumerate(order):  # the scarcest first; the others share the rest
        left = target - counts.sum()
        sharing = share[order[position:]].sum()
        counts[level] = min(room[level], left * share[level] / sharing)
    ends = np.floor(np.cumsum(counts).round(9) + rng.random())
    return np.minimum(np.diff(ends, prepend=0.0), room).astype(np.int64)


FORM = Option(
    "paired",
    "'paired' with complements, 'unpaired', or 'unbiased' (paired, exact matrix)",
    choices=("paired", "unpaired", "unbiased"),
)
WEIGHTS = Option(
    "sizes",
    "draws of a size share its weight: 'sizes'; or all count alike: 'draws' (better at 6I)",
    choices=("sizes", "draws"),
)
BORDERS = Option(True, "outermost sizes whole where the budget covers them, no repeats")
KERNEL = Method(
    name="kernel",
    summary="KernelSHAP: additive fit weighted by the Shapley kernel (biased; form unbiased: not)",
    run=kernel,
    foreseeable=True,
    least=lambda n, _options: min(2 * n + 2, 2**n),  # twice as many as unknowns; or all
    default=two_squares,
    keeps=frozenset({"efficiency"}),
    biased=lambda options: options["form"] != "unbiased",
    options={"form": FORM, "weights": WEIGHTS, "borders": BORDERS},
    cite="lundberg2017",
)

INTERCEPTS = Option(False, "fit one constant per coalition size (needs about 3I)")
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
    options={"size_intercepts": INTERCEPTS},
    cite="musco2025",
)
