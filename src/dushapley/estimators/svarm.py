"""SVARM: every utility serves all owners, with and without, plain or size by size."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from functools import partial
from math import comb, log

import numpy as np

from dushapley.arrays import BoolArray, FloatArray, slices
from dushapley.estimators.calibration import WITH, WITHOUT, Cells, populations
from dushapley.estimators.du import alone_and_without
from dushapley.estimators.method import (
    Method,
    Option,
    Options,
    coalition_bytes,
    refuse_large_plan,
    two_squares,
)
from dushapley.estimators.semivalues import (
    SEMIVALUE,
    SHAPLEY,
    not_shapley,
    semivalue_weights,
)
from dushapley.estimators.subsets import distinct_subsets, random_subsets, spread_sizes
from dushapley.protocol import Ask, Conversation, Estimate, Problem

AT_ONCE = 2**18
"""Sizes drawn at a time."""
LENT = 2
"""Values that a mean of one counts as having, the spread of others' being lent to it."""
SINGLE = (
    "Coalitions of some size were seen once or never for every owner, so that how much they differ "
    "is unknown, and with it the standard errors: a larger budget gives them."
)
"""What must be said where there are no standard errors."""


def svarm(problem: Problem) -> Conversation:
    r"""Value = mean utility of coalitions with an owner − mean utility of those without.

    .. math:: \varphi_i = E_{A \sim w}[u(A \cup i)] - E_{A \sim w}[u(A)]

    for A without i, its size uniform on 0..I−1. One coalition drawn with size chances 1/(s·H_I)
    (H_I the I-th harmonic number) updates the first mean of all its members, one drawn with
    chances 1/((I−s)H_I) the second mean of all others.

    Cost: 2I evaluations of warm-up, one for each mean, then as many pairs as fit, and 2. Unbiased;
    does not add up exactly. Standard errors from the spread within the two means, which are
    independent; a covariance, since owners share coalitions. Kolpaczki et al. (2024), Algorithm 1.
    """
    n = problem.n_players
    refuse_large_plan(problem, coalition_bytes(n))
    cells = Cells(n, 1)
    first = problem.rng.integers(n, size=2 * n)
    own = np.eye(n, dtype=np.bool_)
    drawn = random_subsets(problem.rng, first, n - 1)
    others = np.zeros((2 * n, n), dtype=np.bool_)  # the j-th without owner j mod I
    others[~np.concatenate([own, own])] = drawn.ravel()
    others[:n] |= own  # the first half with it
    answers = yield Ask(others)
    nowhere = np.zeros(n, dtype=np.int64)
    cells.add(own, nowhere, answers[:n], WITH)
    cells.add(own, nowhere, answers[n:], WITHOUT)
    pairs = (problem.budget - 2 * n) // 2
    chances = 1 / np.arange(1, n + 1)
    chances /= chances.sum()
    while pairs > 0:
        some = min(max(1, problem.batch // 2), pairs)
        sizes = 1 + problem.rng.choice(n, size=2 * some, p=chances)
        masks = random_subsets(problem.rng, sizes, n)
        masks[some:] ^= True  # the sizes of those left out have the first half's chances
        answers = yield Ask(masks, partial(svarm_estimate, cells))
        nowhere = np.zeros(some, dtype=np.int64)
        cells.add(masks[:some], nowhere, answers[:some], WITH)
        cells.add(~masks[some:], nowhere, answers[some:], WITHOUT)
        pairs -= some
    return svarm_estimate(cells, last=True)


def svarm_estimate(cells: Cells, *, last: bool = False) -> Estimate:
    """Difference of the two means; errors once means rest on two values."""
    values = cells.mean[WITH, :, 0] - cells.mean[WITHOUT, :, 0]
    replicates = int(cells.count.min())
    if not cells.known().all():
        return Estimate(values, replicates=replicates, notes=(SINGLE,))
    joint = cells.covariance(1.0, last=last)
    return cells.spread(1.0).around(values, joint, max(replicates, LENT))


def stratified_svarm(problem: Problem) -> Conversation:
    r"""SVARM size by size: one mean for every (with or without, owner, size).

    .. math:: \varphi_i = \sum_{k=0}^{I-1} w_k\, (E[u(A \cup i)] - E[u(A)])
              \quad\text{over } |A| = k, \text{ with } w_k = 1/I

    Sizes 0, 1, I−1 and I are asked whole. A coalition A of one of the others updates the mean with
    i of all its members and the mean without i of everybody else.

    ``form="warm-up"``: first one value for every mean, from random partitions; then coalitions
    drawn with replacement. Unbiased. ``form="+"``: no warm-up, coalitions drawn without
    replacement, means not yet seen are left out of the average; biased while there are any, better
    from about 1.5I² evaluations on.

    Other weights w_k give any semivalue from the same questions: ``semivalue="banzhaf"`` or
    ``"beta(4,1)"``. Those are not Shapley values; the result says so.

    Cost: 2I+2 evaluations for the exact sizes, 2Σ⌈I/s⌉ over s = 2..I−2 for the warm-up; the rest
    of the budget is drawn. Does not add up exactly. Standard errors from the spread within means
    (of a mean of one value: as other owners' means of its size have it), and a covariance, since
    owners share coalitions. Kolpaczki et al. (2024), Algorithms 2 and 3.

    Examples
    --------
    >>> import dushapley as ds
    >>> game = ds.games.airport([1, 2, 4, 8, 16])
    >>> v = ds.value(game, "stratified-svarm", budget=200, options={"semivalue": "banzhaf"})
    >>> v.notes[0]
    'These are banzhaf values, not Shapley values: ...'
    """
    n = problem.n_players
    cells = Cells(n, n + 1)
    warm = problem.options["form"] == "warm-up"
    refuse_large_plan(problem, 4.0 if warm else coalition_bytes(n))
    alone, without = yield from alone_and_without(n)
    cells.know(WITHOUT, 0, problem.empty)
    cells.know(WITH, n, problem.full)
    cells.know(WITH, n - 1, (without.sum() - without) / (n - 1))
    cells.know(WITHOUT, 1, (alone.sum() - alone) / (n - 1))
    cells.know(WITH, 1, alone)
    cells.know(WITHOUT, n - 1, without)
    if n >= 4 and warm:
        yield from warm_up(problem, cells)
    left = problem.budget - fixed_cost(n, problem.options)
    for some in drawn(problem, left) if n >= 4 and left > 0 else ():
        answers = yield Ask(some, partial(stratified_estimate, problem, cells))
        cells.add(some, some.sum(axis=1), answers)
    return stratified_estimate(problem, cells, last=True)


def warm_up(problem: Problem, cells: Cells) -> Generator[Ask, FloatArray, None]:
    """One value for every mean: coalitions of size s that cover everybody, and complements."""
    n = problem.n_players
    sizes = np.repeat(np.arange(2, n - 1), 2).tolist()
    covers = [cover(problem.rng, n, size) for size in sizes]
    blocks, owned = zip(*covers, strict=True)
    members = np.concatenate(owned)
    turns = np.arange(len(covers)) % 2
    side = np.repeat(turns, [len(block) for block in blocks])
    masks = np.concatenate(blocks) ^ (side == WITHOUT)[:, None]
    answers = yield Ask(masks, partial(stratified_estimate, problem, cells))
    for which in (WITH, WITHOUT):
        rows = side == which
        cells.add(members[rows], masks[rows].sum(axis=1), answers[rows], which)


def cover(rng: np.random.Generator, n_players: int, size: int) -> tuple[BoolArray, BoolArray]:
    """A random partition into blocks of one size, the last filled up; and who each is meant for."""
    order = rng.permutation(n_players)
    starts = range(0, n_players, size)
    blocks = np.zeros((len(starts), n_players), dtype=np.bool_)
    members = blocks.copy()
    for row, start in enumerate(starts):
        own = order[start : start + size]
        members[row, own] = True
        blocks[row, own] = True
        if start:
            blocks[row, rng.choice(order[:start], size - len(own), replace=False)] = True
    return blocks, members


def drawn(problem: Problem, count: int) -> Iterator[BoolArray]:
    """Coalitions of the sizes that are not exact, in random order, a batch at a time.

    With replacement, only their sizes are drawn beforehand, two bytes each; without, coalitions
    are held as bits.
    """
    n = problem.n_players
    rng, chances = problem.rng, size_chances(n)
    if problem.options["form"] == "warm-up":
        # in parts: one draw of millions would take eight times its bytes
        numbers = [part.stop - part.start for part in slices(count, AT_ONCE)]
        drawn = [2 + rng.choice(len(chances), size=number, p=chances) for number in numbers]
        sizes = np.concatenate([one.astype(np.min_scalar_type(n)) for one in drawn])
        for part in batches(problem, count):
            yield random_subsets(rng, sizes[part].astype(np.int64), n)
        return
    room = [comb(n, size) for size in range(2, n - 1)]
    numbers = spread_sizes(rng, chances, room, count).tolist()
    lists = [distinct_subsets(rng, n, size, number) for size, number in enumerate(numbers, 2)]
    packed = rng.permutation(np.concatenate([np.packbits(masks, axis=1) for masks in lists]))
    for part in batches(problem, len(packed)):
        yield np.unpackbits(packed[part], axis=1, count=n).astype(np.bool_)


def batches(problem: Problem, count: int) -> Iterator[slice]:
    """So many pools, a batch at a time."""
    start = 0
    while start < count:
        stop = start + problem.round_after(start)
        yield slice(start, stop)
        start = stop


def size_chances(n: int) -> FloatArray:
    """Chance of each size 2..I−2: falling as 1/s towards the middle, which gets 1/(I ln I)."""
    sizes = np.arange(2, n - 1)
    chances = 1 / np.minimum(sizes, n - sizes)
    if n % 2 == 0 and n > 4:
        middle = sizes == n // 2
        chances[middle] = 0
        chances *= (1 - 1 / (n * log(n))) / chances.sum()
        chances[middle] = 1 / (n * log(n))
    return chances / chances.sum()


def stratified_estimate(problem: Problem, cells: Cells, *, last: bool = False) -> Estimate:
    """Weighted average over sizes of the means with and without, of those seen so far."""
    n = problem.n_players
    weights = np.zeros((2, 1, n + 1))  # 0 where there is no cell
    by_others = semivalue_weights(problem.options["semivalue"], n)
    weights[WITH, 0, 1:] = weights[WITHOUT, 0, :-1] = by_others
    shares = weights * (cells.exact | (cells.count > 0))
    shares /= shares.sum(axis=2, keepdims=True)
    averages = (shares * cells.mean).sum(axis=2)
    values = averages[WITH] - averages[WITHOUT]
    sampled = (weights > 0) & ~cells.exact
    replicates = int(cells.count[sampled].min()) if sampled.any() else None
    notes = not_shapley(problem.options["semivalue"])
    population = populations(n) if problem.options["form"] == "+" else None
    if bool((~cells.known(population) & (weights > 0)).any()):
        return Estimate(values, replicates=replicates, notes=(*notes, SINGLE))
    spread = cells.spread(shares, population)
    joint = cells.covariance(shares, last=last)
    return spread.around(values, joint, replicates and max(replicates, LENT), notes)


def fixed_cost(n_players: int, options: Options) -> int:
    """Coalitions asked before any is drawn: of one and of all but one owner; and the warm-up.

    The latter gives every sampled mean one value.
    """
    sizes = range(2, n_players - 1) if options["form"] == "warm-up" else ()
    exact = 2 if n_players == 2 else 2 * n_players
    return exact + 2 * sum(-(-n_players // size) for size in sizes)


METHOD = Method(
    name="svarm",
    summary="mean utility with an owner minus without, every coalition serving all (unbiased)",
    run=svarm,
    foreseeable=True,
    least=lambda n, _options: 2 * n + 2,  # warm-up, ∅ and everybody
    default=two_squares,
    cite="kolpaczki2024",
)

FORM = Option(
    "warm-up",
    "'warm-up' (unbiased) or '+' (no repetition, better from 1.5I² on)",
    choices=("warm-up", "+"),
)
STRATIFIED = Method(
    name="stratified-svarm",
    summary="svarm size by size; also Banzhaf and Beta semivalues (unbiased with warm-up)",
    run=stratified_svarm,
    foreseeable=True,
    least=lambda n, options: 2 + fixed_cost(n, options),
    default=two_squares,
    biased=lambda options: options["form"] == "+" or options["semivalue"] != SHAPLEY,
    options={"form": FORM, "semivalue": SEMIVALUE},
    cite="kolpaczki2024",
)
