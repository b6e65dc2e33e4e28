r"""Centre pools: every owner's marginal around a few random pools, for thousands of owners.

Around a random pool the marginals of all owners are small changes of one model. Where a game knows
them at once (sums, neighbours, Newton steps), a pool tells something about everybody.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

import numpy as np

from dushapley.arrays import BoolArray, FloatArray, IntArray, slices
from dushapley.estimators.calibration import Extremes, Spread, final
from dushapley.estimators.method import Method, Option
from dushapley.estimators.subsets import own_parts, with_neighbours
from dushapley.protocol import Ask, Conversation, Estimate, Problem, ends

SoFar = Callable[[], Estimate | None]
Marginals = Callable[[Problem, BoolArray, SoFar], Generator[Ask, FloatArray, FloatArray]]
"""Asks for every owner's marginal around each of some pools, shape (m, I)."""
OFFSET = 3
"""Owners by which a pool counts as larger in the powers of its size: tiny pools are alike."""
ROUND = 64
"""Centres of a round, where there are as many: half as many strata of sizes, two centres each."""
ALIKE = 8
"""Centres of about equal sizes whose first members are spread over what owners are worth alone."""
FEW = 64
"""Owners up to whom first members are drawn like all others, and sizes share strata."""
POWER = 1.5
"""Of sizes by which centres become rarer, where neither the user nor the game says."""
DEFAULT = 64
"""Centres when no budget is given."""
ENOUGH = 64
"""Centres from which intervals were measured to hold."""
FREEDOM = 8
"""Degrees of freedom of the middle owner's error below which a few centres decide the values."""


def centres(problem: Problem) -> Conversation:
    r"""Every owner's marginal around K random pools, weighted by how rare a pool's size is.

    .. math:: \hat\varphi_i = \frac{\Delta_i(\emptyset) + \Delta_i(\text{all})}{I+1}
              + \frac1K \sum_{k=1}^{K} w_k\,\Delta_i(C_k),
              \qquad \Delta_i(C) = u(C \cup i) - u(C \setminus i)

    with w the inverse of how often a centre's size is drawn (`Sizes`), over I + 1; nobody and
    everybody are centres of every run, for there is but one of each.

    A centre C of uniform size 0..I tells owner i's marginal to C∖i. That pool has every size
    0..I−1 equally often: size s comes from centres of size s without i and of size s + 1 with i,
    with chances (1 − s/I)/(I + 1) and ((s + 1)/I)/(I + 1), which add up to 1/I. So one weight
    serves owners inside and outside, and the estimate is unbiased.

    How many centres of which size: around a pool of s owners another one moves a model by about
    1/s, along a slope of the score that differs between such pools by about 1/√s. So marginals
    are about 1/s, and those of one owner differ between pools by about :math:`s^{-3/2}`. The
    error is least where centres are as frequent as that (Neyman): hence a power of 3/2 for the
    strata (among neighbours 1: their marginals are rare, not small), and 1/s within them, by which
    weighted marginals are alike. Of each stratum there are two centres, and standard errors come
    from the differences of the two. They need no model of the game, but cannot know of pools that
    matter and were not drawn; that first members of pools are spread evenly (`drawn_pools`) makes
    these fewer, and errors a little too wide.

    In the form "efficient" each centre's marginals are shifted by a common number such that they
    add up to u(all) − u(∅): by efficiency the shifts have mean zero, so nothing is biased, and what
    all owners' errors have in common is gone.

    Cost: (K+2)(I+1)+2 evaluations, of which K+2 are trainings and the rest small changes where the
    game knows marginals around a pool; of any other game each is a pool of its own.
    """
    return (yield from by_marginals(problem, pool_by_pool))


def by_marginals(problem: Problem, marginals: Marginals, *, ranked: bool = False) -> Conversation:
    """Run the method on marginals however they are asked for.

    `ranked` spreads the first members of pools over what owners are worth alone: questions then
    depend on the first answers.
    """
    count = problem.budget // (problem.n_players + 1) - 2
    rounds = max(1, count // ROUND)
    sizes = Sizes(problem.n_players, count // (2 * rounds), problem.options["power"] or POWER)
    known = yield from marginals(problem, ends(problem.n_players), lambda: None)
    tally = Tally(problem, known.sum(axis=0) / (problem.n_players + 1))
    order = np.arange(problem.n_players)
    if ranked and problem.n_players > FEW:
        order = np.argsort(known[0], kind="stable")
    for _ in range(rounds):
        drawn, weights = sizes.draw(problem.rng)
        pools = drawn_pools(problem.rng, drawn, order)
        gains = yield from marginals(problem, pools, tally.estimate)
        tally.add(gains, weights)
    return final(tally.estimate(last=True))


class Sizes:
    r"""Strata of the sizes 1..I−1, and draws of sizes within them with their weights.

    Strata are equal parts of the density g(s) ∝ (s + 3)^−power. Within a stratum sizes are drawn by
    1/(s + 3), whose sums L are known at the strata's edges, so a size has the weight

    .. math:: \frac{H\,(L_h - L_{h-1})\,(s+3)}{I+1}

    in the mean over H strata, whatever part of a size's own interval lies in the stratum.
    """

    def __init__(self, n_players: int, strata: int, power: float) -> None:
        place = np.arange(1.0, n_players) + OFFSET
        self.n_players = n_players
        self.count = 2 * strata or 1
        self.sums = np.concatenate([[0.0], np.cumsum(1 / place)])
        shares = np.concatenate([[0.0], np.cumsum(place**-power)])
        cuts = np.linspace(0, shares[-1], max(1, strata) + 1)
        self.edges = np.interp(cuts, shares, self.sums)

    def draw(self, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
        """Two of each stratum, one after the other, or a single one: sizes and weights."""
        stratum = np.arange(self.count) // 2
        lengths = np.diff(self.edges)
        places = self.edges[stratum] + rng.random(self.count) * lengths[stratum]
        sizes = np.searchsorted(self.sums[1:-1], places, side="right").astype(np.int64) + 1
        weights = len(lengths) * lengths[stratum] * (sizes + OFFSET) / (self.n_players + 1)
        return sizes, weights


def drawn_pools(rng: np.random.Generator, sizes: IntArray, order: IntArray) -> BoolArray:
    """A uniform pool of each size, one a row.

    In tiny pools the worth of each member decides, and a few owners may be worth nothing like the
    rest. So every `ALIKE` pools of about equal sizes have a first member from each of as many
    parts of the `order`, that of what owners are worth alone. Each is uniform by itself. Few owners
    are drawn often enough without, and pools that know nothing of each other have exact errors.
    """
    pools = np.zeros((len(sizes), len(order)), dtype=np.bool_)
    ranked = np.argsort(sizes, kind="stable")
    step = ALIKE if len(order) > FEW else 1
    for group in np.split(ranked, range(step, len(sizes), step)):
        places = (rng.permutation(len(group)) + rng.random(len(group))) / len(group)
        for k, place in zip(group, places, strict=True):
            first = order[int(place * len(order))]
            others = rng.choice(len(order) - 1, sizes[k] - 1, replace=False, shuffle=False)
            pools[k, first] = pools[k, others + (others >= first)] = True
    return pools


def pool_by_pool(
    problem: Problem, pools: BoolArray, so_far: SoFar
) -> Generator[Ask, FloatArray, FloatArray]:
    """Every owner's marginal around every pool: from its worth, and that with one owner changed."""
    parts = []
    for part in slices(len(pools), problem.batch // (problem.n_players + 1)):
        answers = yield Ask(with_neighbours(pools[part]), so_far)
        parts.append(own_parts(pools[part], answers))
    return np.concatenate(parts)


class Tally:
    """Weighted marginals so far: sums over pairs of centres, whatever their number.

    `known` is the part of each value that nobody's and everybody's pool tell. Among few owners,
    strata next to each other are of one size, and two pairs tell one variance.
    """

    def __init__(self, problem: Problem, known: FloatArray) -> None:
        self.known = known
        self.efficient = problem.options["form"] == "efficient"
        self.alike = 2 if problem.n_players <= FEW else 1
        self.due = (problem.total - known.sum()) / problem.n_players
        self.centres = self.pairs = 0
        self.mean, self.second, self.fourth, self.open = np.zeros((4, problem.n_players))
        self.extremes = Extremes(problem.n_players, shared=True)

    def add(self, gains: FloatArray, weights: FloatArray) -> None:
        """Take in a round: marginals of shape (centres, I), two centres of each stratum."""
        for start in range(0, len(gains), 2):
            pair = gains[start : start + 2] * weights[start : start + 2, None]
            if self.efficient:
                pair += self.due - pair.mean(axis=1, keepdims=True)
            self.centres += len(pair)
            self.pairs += 1
            self.mean += (pair.mean(axis=0) - self.mean) / self.pairs
            variance = np.square(pair[0] - pair[-1]) / 4
            self.second += variance
            self.open += variance
            if self.pairs % self.alike == 0:
                self.fourth += np.square(self.open)
                self.open[:] = 0.0
            self.extremes.add(pair)

    def estimate(self, *, last: bool = False) -> Estimate | None:
        """The mean, with standard errors from the second round or the end on."""
        if not self.centres:
            return None
        if self.centres == 1:
            return Estimate(self.known + self.mean, replicates=1, notes=few(1))
        # V = Σ V_h/P² from differences of P pairs, of one degree of freedom each; together, by
        # Welch and Satterthwaite over groups of m pairs that are alike, less the bias of their
        # squares, they have (m + 2)(ΣV_g)²/ΣV_g² − 2
        fourth = self.fourth + np.square(self.open)
        fourth = np.where(fourth > 0, fourth, 1.0)
        freedom = (self.alike + 2) * np.square(self.second) / fourth - 2
        freedom = np.clip(freedom, 1.0, self.pairs)
        variance = self.second / self.pairs**2
        spread = Spread(variance, np.zeros_like(variance), freedom, self.extremes)
        return spread.around(
            self.known + self.mean,
            replicates=self.centres,
            notes=few(self.centres, np.median(spread.freedom)) if last else (),
        )


def few(count: int, freedom: float = np.inf) -> tuple[str, ...]:
    """What to know about intervals that rest on few centres, by their number or in effect."""
    if count < ENOUGH:
        return (
            f"The values rest on {count} centre pool{'s' * (count > 1)}; 95% intervals were "
            f"measured to hold from {ENOUGH} on.",
        )
    if freedom >= FREEDOM:
        return ()
    return (
        f"A few of the {count} centre pools decide these values, so 95% intervals may hold less "
        "often than they say. Where large pools matter most, options={'power': 1.0} draws more of "
        "them; else more centres settle it.",
    )


FORM = Option(
    "efficient",
    "whether marginals are shifted alike so as to add up to the gain",
    choices=("efficient", "plain"),
)
POWERS = Option(
    0.0,
    "of the size by which centres become rarer, up to 3; 0: as the game asks (3/2, among "
    "neighbours 1). The larger, the more centres are small",
    valid=lambda power: 0 <= power <= 3,
)
METHOD = Method(
    name="centres",
    summary="everybody's marginal around a few random pools, for thousands of owners (unbiased)",
    run=centres,
    foreseeable=True,
    # centres beside nobody's and everybody's pool
    least=lambda n, _options: 3 * (n + 1) + 2,
    default=lambda n, _options: (DEFAULT + 2) * (n + 1) + 2,
    keeps=lambda options: frozenset(
        {"efficiency" if options["form"] == "efficient" else "null player"}
    ),
    options={"form": FORM, "power": POWERS},
)
