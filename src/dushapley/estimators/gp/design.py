r"""Which pools to ask: a pilot that knows nothing, then those that tell most about the values.

The pilot holds every owner alone and pools of random composition with sizes in proportion to 1/k:
small pools are where utilities vary. After it, a pool c is worth asking for what its answer would
take from the summed variance of the values,

.. math:: \sum_i \frac{\mathrm{Cov}(\varphi_i, y_c)^2}{\mathrm{Var}(y_c)},

both under the posterior. Pools are taken greedily; after each, covariances are updated as if it
had been answered (they do not depend on the answer), by one column of a pivoted Cholesky factor.
"""

from __future__ import annotations

import numpy as np

from dushapley.arrays import BoolArray, FloatArray
from dushapley.estimators.exact import bits
from dushapley.estimators.gp import kernel
from dushapley.estimators.gp.crowd import Crowd
from dushapley.estimators.gp.fit import Posterior
from dushapley.estimators.gp.functional import Functional, exact_weights, smooth_covariance

CANDIDATES = 1000
"""Unseen pools that compete for being asked."""
SKETCH = 64
"""Of more owners than this, so many random combinations of their values stand for all."""
AT_ONCE = 64
"""Choices after which covariances between candidates are brought up to date."""
GOLDEN = (5**0.5 - 1) / 2


def pilot_size(n_players: int) -> int:
    """Pools of the pilot, ∅ and the grand coalition included."""
    return 2 * n_players + 2 + n_players // 2


def pilot(n_players: int, count: int, rng: np.random.Generator) -> BoolArray:
    """`count` pools: every owner alone, then balanced random pools with sizes ∝ 1/k."""
    alone = np.eye(n_players, dtype=np.bool_)
    seen = {row.tobytes() for row in alone} | {np.ones(n_players, dtype=np.bool_).tobytes()}
    chances = by_power(n_players, 1.0)
    return np.concatenate([alone, spread_pools(n_players, count - n_players, chances, seen, rng)])


def by_power(n_players: int, power: float) -> FloatArray:
    """Chances of sizes 2..I−1 in proportion to k^−power."""
    return np.asarray(np.arange(2.0, n_players) ** -power)


def spread_pools(
    n_players: int, count: int, chances: FloatArray, seen: set[bytes], rng: np.random.Generator
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
    n_players: int, seen: set[bytes], rng: np.random.Generator, least: int = CANDIDATES
) -> BoolArray:
    """Unseen pools worth considering: all if they are few, else all but one, pairs and others."""
    if 2**n_players - len(seen) <= least:
        pools = bits(np.arange(1, 2**n_players), n_players)
    else:
        alone = np.eye(n_players, dtype=np.bool_)
        first, second = np.triu_indices(n_players, 1)
        some = rng.permutation(len(first))[: least // 3]
        pairs = alone[first[some]] | alone[second[some]]
        others = drawn_pools(n_players, least - len(pairs), by_power(n_players, 1.0), rng)
        pools = np.concatenate([alone, ~alone, pairs, others])
    unseen = {pool.tobytes(): place for place, pool in reversed(list(enumerate(pools)))}
    return pools[sorted(place for key, place in unseen.items() if key not in seen)]


def drawn_pools(
    n_players: int, count: int, chances: FloatArray, rng: np.random.Generator
) -> BoolArray:
    """Random pools of 2..I−1 owners, sizes spread by chances; some may be equal."""
    chance = np.cumsum(chances)
    place = (rng.random() + GOLDEN * np.arange(1, count + 1)) % 1.0
    size = 2 + np.searchsorted(chance, place * chance[-1], side="right")
    order = np.argsort(rng.random((count, n_players)), axis=1)
    pools = np.zeros((count, n_players), dtype=np.bool_)
    np.put_along_axis(pools, order, np.arange(n_players) < size[:, None], axis=1)
    return pools


def most_telling(
    posterior: Posterior,
    of: Functional | Crowd,
    with_answers: FloatArray,
    pools: BoolArray,
    count: int,
) -> BoolArray:
    """The `count` pools that together take most from the variance of the values, greedily.

    `with_answers` is the covariance of the values with the observed pools, see `functional`.
    """
    seen = posterior.view(pools)
    nugget = kernel.nugget(posterior.hyper, seen.z)
    white = posterior.whiten(posterior.cross(seen).T)
    own = posterior.whiten(with_answers.T)
    between = kernel.covariance_after(posterior.hyper, seen, white)
    with_values = smooth_covariance(posterior, of, seen, rough=True) - own.T @ white
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
        column = between[best] - columns[:, :place] @ columns[best, :place]
        column[best] += nugget[best]
        column /= np.sqrt(max(variance[best], kernel.JITTER))
        columns[:, place] = column
        variance = variance - column**2
        with_values -= np.multiply.outer(with_values[:, best] / column[best], column)
    return chosen
