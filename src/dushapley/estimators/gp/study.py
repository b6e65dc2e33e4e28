"""What is known at a point of the run: answers, the process fitted to them, and its verdict."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
from numpy.random import Generator

from dushapley.arrays import BoolArray, FloatArray
from dushapley.estimators.exact import below_empty, non_empty_pools
from dushapley.estimators.gp import check, kernel
from dushapley.estimators.gp.fit import FITTED_ON_THE_WAY, MOST_FITTED, Observed, Posterior, fit
from dushapley.estimators.gp.functional import (
    Carrier,
    carrier,
    covariance_with_answers,
    exact_weights,
    functional,
    linear_map,
    prior_covariance,
    value_covariance,
)
from dushapley.estimators.subsets import random_subsets
from dushapley.protocol import Estimate, Problem

FINE, MEDIUM, COARSE, SAMPLED = 2**16, 2**12, 2**11, 2**15
"""Pools that carry the functional: for the final values; for choosing questions and values on the
way; for covariances, which are quadratic in it; for the final values where those are not all."""
MODEL = "gaussian process"
MOST_LIVE = 200
"""Owners up to which errors are known on the way; of more, they are made at the end."""
ITERATIONS, LAST_ITERATIONS = 30, 80
"""Steps of the fit after each batch, from where the last fit ended, and after the last batch."""
FEW_OWNERS = 50
"""Of more owners the fit takes half as many steps: they cost more, and matter less."""
REFIT, ALWAYS_FITTED = 1.5, 100
"""From so many pools on, the fit is made again when there are so many times as many as at the last
one; up to there after every batch."""
GROWTH, MANY = 4, 400
"""Each batch adds one pool for so many before it; for two, once there are so many, or owners."""
CHECKED, CHECK_POWER = 12, 0.0
"""One pool in so many is asked at random, whatever the process thinks of it, its size k with a
chance in proportion to this power of 1/k."""
MOST_RANDOM = 0.9
"""Part of a batch that is drawn at random, at most."""
DECIDES, WIDER = 0.5, 4.0
"""Part of the spread of the values that pools worse than nobody's make, from which on they decide
them; where few of those that matter are seen, variances are wider by this factor."""
NEARLY_ALL, ONE_OWNER = 0.9, 0.75
"""The same part, from which on nothing else does; and part of the spread of the values that one
owner makes, from which on it stands against all others."""


class Study:
    """Answers so far and what follows from them."""

    def __init__(self, problem: Problem) -> None:
        n = problem.n_players
        self.problem = problem
        self.log_sizes = kernel.log_relative_sizes(problem.sizes)
        self.pools = np.ones((1, n), dtype=np.bool_)
        self.answers = np.array([problem.full])
        self.seen = {self.pools[0].tobytes()}
        self.forecasts: list[check.Forecasts] = []
        self.medium = carrier(n, MEDIUM, problem.rng)
        self.coarse = functional(n, COARSE, problem.rng)
        self.twin = self.coarse if 2**n <= COARSE else functional(n, COARSE, problem.rng)
        self.fitted = 0
        self.random = np.zeros(1, dtype=np.bool_)
        self.sampled_share = 0.0
        self.asked_random = np.empty(0, dtype=np.bool_)

    @property
    def left(self) -> int:
        """Pools that may still be asked."""
        return self.problem.budget - (len(self.pools) - 1)

    @property
    def gains(self) -> FloatArray:
        """What the pools are worth beyond nobody."""
        return self.answers - self.problem.empty

    def next_batch(self) -> BoolArray:
        """The pools to ask now: the pilot; then the most telling ones and a few at random."""
        n, rng = self.problem.n_players, self.problem.rng
        if not self.fitted:
            pools = pilot(n, min(2 * n + n // 2, self.left - max(1, n // 4)), rng)
            if len(self.pools) > 1:  # what it lacks beside pools known before
                new = pools[[pool.tobytes() not in self.seen for pool in pools]]
                alone = int((new.sum(axis=1) == 1).sum())
                pools = new[: max(alone, len(pools) + 1 - len(self.pools), 1)]
            self.asked_random = pools.sum(axis=1) > 1
            return pools
        seen = set(self.seen)
        count = self._batch_size()
        wanted, chances = self._at_random(count)
        drawn = spread_pools(n, wanted, chances, seen, rng)
        pools = candidates(n, seen, rng, max(CANDIDATES, count + count // 4))
        left = count - len(drawn)
        chosen = most_telling(self.posterior, self.medium, self.with_answers, pools, left)
        self.asked_random = np.arange(len(drawn) + len(chosen)) < len(drawn)
        return np.concatenate([drawn, chosen])

    def recall(
        self, pools: BoolArray, answers: FloatArray, random: BoolArray | None = None
    ) -> None:
        """Take in pools that were paid for, and which of them were drawn at random; else none."""
        random = np.zeros(len(pools), dtype=np.bool_) if random is None else random
        self.pools = np.concatenate([self.pools, pools])
        self.answers = np.concatenate([self.answers, answers])
        self.random = np.concatenate([self.random, random])
        self.seen |= {pool.tobytes() for pool in pools}

    def _at_random(self, count: int) -> tuple[int, FloatArray]:
        """How many pools of a batch to draw at random, and the chances of sizes 2..I−1.

        Where the process is believed, a few of all sizes. Otherwise as much of the batch as the
        sampled sizes have of the variance, where their errors are largest.
        """
        n = self.problem.n_players
        least = -(-count // CHECKED)
        sampled = self.verdict.sampled[2:n]
        if not sampled.any():
            return least, by_power(n, CHECK_POWER)
        size = np.arange(2.0, n)
        # root mean square of what the process misses at each number of owners, a little pooled
        missed = self.posterior.leave_one_out() ** 2
        owners = self.pools[self.random].sum(axis=1)
        counts = np.bincount(owners, minlength=n + 1)
        squares = np.bincount(owners, missed[self.random], minlength=n + 1)
        spread = np.sqrt((squares + missed.mean()) / (counts + 1))[2:n]
        chances = sampled * np.maximum(spread, kernel.JITTER) / np.sqrt(size * (n - size))
        part = min(self.sampled_share, MOST_RANDOM)
        wanted = max(least, round(part * count))
        return wanted, chances / chances.sum() + 0.1 / n

    def _batch_size(self) -> int:
        many = len(self.pools) >= MANY or self.problem.n_players > FEW_OWNERS
        count = max(2, (len(self.pools) + 1) // (2 if many else GROWTH))
        return self.left if self.left < 1.5 * count else count

    def learn(self, pools: BoolArray, answers: FloatArray) -> None:
        """Take in a batch: judge the forecasts of it, then fit again."""
        start = None
        if self.fitted:
            random = self.asked_random
            self.forecasts.append(check.forecast(self.posterior, pools, answers, random))
            start = self.posterior.theta
        self.recall(pools, answers, self.asked_random)
        self.posterior: Posterior = self._fitted(start)
        n = self.problem.n_players
        fine = self.medium
        if not self.left and 2**n > MEDIUM:  # no question left to choose
            fine = carrier(n, finest(n), self.problem.rng)
        self.with_answers = covariance_with_answers(self.posterior, fine)
        self.covariance: FloatArray | None = None
        if not self.left or n <= MOST_LIVE:
            if self.fitted == len(self.pools):  # hyper-parameters have moved
                self.prior = prior_covariance(self.posterior, self.coarse, self.twin)
            self.coarsely = covariance_with_answers(self.posterior, self.coarse)
            self.covariance = value_covariance(
                self.posterior, self.coarse, self.twin, None, self.prior, self.coarsely
            )
        claimed = 0.0 if self.covariance is None else np.trace(self.covariance)
        self.verdict = check.judge(self.forecasts, self.posterior, self.random, claimed)

    def _fitted(self, start: FloatArray | None) -> Posterior:
        """The process given all answers, its hyper-parameters fitted again where that is due."""
        observed = Observed(self.pools, self.answers, self.log_sizes)
        count = len(self.pools)
        due = not self.left or count <= ALWAYS_FITTED or count >= REFIT * self.fitted
        if start is not None and not due:
            return Posterior(observed, start)
        steps = ITERATIONS if self.left else LAST_ITERATIONS
        if len(self.log_sizes) > FEW_OWNERS:
            steps //= 2
        most = FITTED_ON_THE_WAY if self.left else MOST_FITTED
        if count > most:  # the fit sees part of them, and hardly moves
            steps //= 3
        self.fitted = count
        return Posterior(observed, fit(observed, start, steps, most))

    def estimate(self) -> Estimate:
        """Values by the process, corrected at sizes at which it is not believed.

        Before the first forecasts nothing speaks for the error bars, so there are none.
        """
        alike = check.all_alike(self.answers)
        return self.checked(self._alike() if alike else self._by_process())

    def checked(self, estimate: Estimate) -> Estimate:
        """The estimate, with error bars if there were forecasts to check them by."""
        return estimate if self.forecasts else replace(estimate, std_errors=None, covariance=None)

    def _by_process(self) -> Estimate:
        weights = linear_map(self.posterior, self.with_answers)
        # values add up to what everybody is worth, also where the map was made in single precision
        weights += (self.pools.all(axis=1) - weights.sum(axis=0)) / len(weights)
        if self.covariance is None:
            return self._finish(MODEL, weights, None)
        sampled = self.verdict.sampled
        covariance = self.covariance * self.verdict.widening
        notes: tuple[str, ...] = ()
        corrected = np.zeros(len(weights))
        if sampled.any():
            slopes, errors = self._correction()
            weights = weights + slopes
            corrected = slopes @ self.gains
            believed = value_covariance(self.posterior, self.coarse, self.twin, ~sampled)
            covariance = believed * self.verdict.widening + errors
            self.sampled_share = np.trace(errors) / np.trace(covariance)
            count = int(sampled[self.pools[self.random].sum(axis=1)].sum())
            notes = (
                "gp does not trust its Gaussian process at pools of "
                f"{check.sizes_in_words(sampled)} owners: what it missed there may tell owners "
                f"apart. That part of the values is corrected by the {count} pools drawn at "
                "random there, as far as they say more than chance, and the intervals follow "
                "them. More budget narrows them.",
            )
        covariance = positive(covariance * self.posterior.observed.scale**2)
        carried = np.eye(len(weights)) * self._carrier_variance(corrected)
        model = MODEL + (", corrected by samples" if sampled.any() else "")
        return self._finish(model, weights, covariance + carried, *notes)

    def _correction(self) -> tuple[FloatArray, FloatArray]:
        """What the process missed at the sampled sizes, as a map of the answers, and its errors."""
        posterior = self.posterior
        sampled = self.verdict.sampled
        missed = posterior.leave_one_out()
        slopes = check.slope_map(self.pools, self.random, sampled)
        each = check.variances(self.pools.sum(axis=1), missed, len(slopes), self.random)
        part = check.believable(slopes, missed, each)
        more = check.unseen(self.pools, sampled, float(np.ptp(posterior.observed.targets)))
        left = ((1 - part) * (slopes @ missed)) ** 2
        weighed = slopes * each * self.verdict.widening
        errors = weighed @ slopes.T + np.diag(left + more)
        scaled = slopes * (part * posterior.alone)
        linear = posterior.unwhiten(posterior.whiten(scaled.T)).T
        return linear - linear.mean(axis=1, keepdims=True), errors

    def _carrier_variance(self, corrected: FloatArray) -> float:
        """Error variance of a value from carrying the functional on a sample of pools.

        Two samples of P and C pools differ by a variance of σ²/P + σ²/C, of which σ²/P is ours.
        """
        n = self.problem.n_players
        points = MEDIUM if self.left else finest(n)
        if 2**n <= max(points, MEDIUM):
            return 0.0
        posterior = self.posterior  # a linear map of centred answers needs no map
        gap = (self.with_answers - self.coarsely) @ posterior.alpha * posterior.observed.scale
        gap += corrected
        return (gap**2).mean() * COARSE / (COARSE + points)

    def _alike(self) -> Estimate:
        n = self.problem.n_players
        weights = np.zeros((n, len(self.answers)))
        weights[:, 0] = 1 / n
        sizes = check.strata(n) >= 0
        variance = check.unseen(self.pools, sizes, float(np.ptp(self.answers)))
        return self._finish(
            "constant",
            weights,
            np.eye(n) * variance,
            "All pools that were asked are worth the same, so everybody is given the same value. "
            "Errors of 0 say that nothing else was seen, not that nothing else can happen.",
        )

    def _finish(
        self, model: str, weights: FloatArray, covariance: FloatArray | None, *notes: str
    ) -> Estimate:
        n = len(weights)
        values = weights @ self.gains
        details = {"model": model, **asdict(self.verdict)}
        details |= below_empty(values, weights @ np.maximum(-self.gains, 0.0))
        below = details.get("below_empty", 0.0)
        apart = np.square(values - values.mean())
        # few of those pools are seen of many owners; where they decide nearly everything (a score
        # without a lower end); and where one owner spoils whatever pool it joins
        one_against_all = apart.max() >= ONE_OWNER * apart.sum()
        few_seen = n > FEW_OWNERS or below >= NEARLY_ALL or one_against_all
        if covariance is not None and below >= DECIDES and few_seen:
            covariance = covariance * WIDER
            notes += (
                "Small pools that are worse than nobody's data decide these values, and few of "
                "them were asked: the intervals of gp are twice as wide for it. More budget "
                "narrows them; counting such pools as nobody's data would make the values "
                "steadier.",
            )
        details["sampled"] = np.flatnonzero(self.verdict.sampled).tolist()
        return Estimate(
            values,
            std_errors=None if covariance is None else np.sqrt(np.diag(covariance)),
            covariance=covariance,
            notes=notes,
            details=details,
            weights=np.concatenate([np.full((n, 1), -1 / n), weights], axis=1),
        )


def finest(n_players: int) -> int:
    """Pools that carry the final values: all, or so many that drawing them adds next to nothing."""
    return FINE if 2**n_players <= FINE else SAMPLED


def positive(covariance: FloatArray) -> FloatArray:
    """The nearest covariance: sampled ones can miss by a little, and errors are never negative."""
    values, vectors = np.linalg.eigh(covariance)
    return (vectors * np.maximum(values, 0.0)) @ vectors.T


CANDIDATES = 1000
"""Unseen pools that compete for being asked."""
SKETCH = 64
"""Of more owners than this, so many random combinations of their values stand for all."""
AT_ONCE = 64
"""Choices after which covariances between candidates are brought up to date."""
GOLDEN = (5**0.5 - 1) / 2


def pilot(n_players: int, count: int, rng: Generator) -> BoolArray:
    """`count` pools: every owner alone, then balanced random pools with sizes ∝ 1/k."""
    alone = np.eye(n_players, dtype=np.bool_)
    seen = {pool.tobytes() for pool in (*alone, alone.any(axis=0))}
    chances = by_power(n_players, 1.0)
    return np.concatenate([alone, spread_pools(n_players, count - n_players, chances, seen, rng)])


def by_power(n_players: int, power: float) -> FloatArray:
    """Chances of sizes 2..I−1 in proportion to k^−power."""
    return np.arange(2.0, n_players) ** -power


def spread_pools(
    n_players: int, count: int, chances: FloatArray, seen: set[bytes], rng: Generator
) -> BoolArray:
    """Up to `count` unseen random pools of 2..I−1 owners, sizes by chances, owners taking turns.

    `seen` is added to. Sizes follow the golden-ratio sequence, so that any beginning of the list
    is spread; an owner who has been in fewer pools goes first, ties at random.
    """
    sizes = np.arange(2, n_players)
    chance = np.cumsum(chances)
    turns = np.zeros(n_players)
    place = rng.random()
    found: list[BoolArray] = []
    for _ in range(20 * count):
        if len(found) == count:
            break
        place = (place + GOLDEN) % 1.0
        size = int(sizes[np.searchsorted(chance, place * chance[-1], side="right")])
        pool = np.zeros(n_players, dtype=np.bool_)
        pool[np.argsort(turns + rng.random(n_players), kind="stable")[:size]] = True
        if pool.tobytes() not in seen:
            seen.add(pool.tobytes())
            turns += pool
            found.append(pool)
    return np.array(found, dtype=np.bool_).reshape(-1, n_players)


def candidates(
    n_players: int, seen: set[bytes], rng: Generator, least: int = CANDIDATES
) -> BoolArray:
    """Unseen pools worth considering: all if they are few, else all but one, pairs and others."""
    if 2**n_players - len(seen) <= least:
        pools = non_empty_pools(n_players)
    else:
        alone = np.eye(n_players, dtype=np.bool_)
        first, second = np.triu_indices(n_players, 1)
        some = rng.permutation(len(first))[: least // 3]
        pairs = alone[first[some]] | alone[second[some]]
        others = drawn_pools(n_players, least - len(pairs), by_power(n_players, 1.0), rng)
        pools = np.concatenate([alone, ~alone, pairs, others])
    unseen = {pool.tobytes(): place for place, pool in reversed(list(enumerate(pools)))}
    return pools[sorted(place for key, place in unseen.items() if key not in seen)]


def drawn_pools(n_players: int, count: int, chances: FloatArray, rng: Generator) -> BoolArray:
    """Random pools of 2..I−1 owners, sizes spread by chances; some may be equal."""
    chance = np.cumsum(chances)
    place = (rng.random() + GOLDEN * np.arange(1, count + 1)) % 1.0
    size = 2 + np.searchsorted(chance, place * chance[-1], side="right")
    return random_subsets(rng, size, n_players)


def most_telling(
    posterior: Posterior,
    of: Carrier,
    with_answers: FloatArray,
    pools: BoolArray,
    count: int,
) -> BoolArray:
    """The `count` pools that together take most from the variance of the values, greedily.

    `with_answers` is the covariance of the values with the observed pools, see `functional`.
    """
    seen = posterior.view(pools)
    nugget = kernel.nugget(posterior.hyper, seen.owners)
    white = posterior.whiten(posterior.cross(seen).T)
    own = posterior.whiten(with_answers.T)
    between = kernel.covariance_after(posterior.hyper, seen, white)
    with_values = of.covariance(posterior, seen, rough=True) - own.T @ white
    with_values += exact_weights(pools).T * nugget
    if len(with_values) > SKETCH:  # sums of squares over owners, by as many random combinations
        mixed = np.random.default_rng(0).standard_normal((SKETCH, len(with_values)))
        with_values = mixed @ with_values
    return pools[greedy(with_values, between, nugget, min(count, len(pools)))]


def greedy(
    with_values: FloatArray, between: FloatArray, nugget: FloatArray, count: int
) -> list[int]:
    """Indices of the best pools; `with_values` (I, pools) and `between` are used up.

    Covariances between candidates are brought up to date every so many choices, by a product.
    """
    variance = np.diag(between) + nugget
    columns = np.zeros((len(nugget), AT_ONCE))
    chosen: list[int] = []
    for step in range(count):
        place = step % AT_ONCE
        if step and not place:
            between -= columns @ columns.T
        gain = np.einsum("ic,ic->c", with_values, with_values)
        gain /= np.maximum(variance, kernel.JITTER)
        gain[chosen] = -1.0
        best = int(np.argmax(gain))
        chosen.append(best)
        done = columns[:, :place]
        column = between[best] - done @ done[best]
        column[best] += nugget[best]
        column /= np.sqrt(max(variance[best], kernel.JITTER))
        columns[:, place] = column
        variance = variance - column**2
        with_values -= np.multiply.outer(with_values[:, best] / column[best], column)
    return chosen
