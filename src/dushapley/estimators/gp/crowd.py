r"""The Shapley functional of many owners, without enumerating whom they join.

Of so many owners all have strength one in how mixtures differ (`kernel`), so a pool is only what
its weights add up to: two pools S and T differ by :math:`H = 1 - A/\sqrt{x_S x_T}` with
:math:`x_S = \sum_{j \in S} w_j` and :math:`A = \sum_{j \in S \cap T} w_j`. An owner i who joins
R moves :math:`x` by :math:`w_i` and A by :math:`w_i z_{iT}`, whoever it is. So for pools of k
owners the mean covariance with T, given that i is inside,

.. math:: G_k(i, T) = E_{|R|=k-1}\, K(R \cup i, T),

is a function of :math:`w_i` for each :math:`z_{iT} \in \{0, 1\}`; it is averaged over a few dozen
random R at a few weights (`nodes`) and interpolated for all owners at once. Slopes are its
deviations from the mean over owners, as in `functional`. All owners join the same R, so that the
noise of drawing R is common to them and leaves with the mean. The covariance of two values is
alike with two pools R and R': owners i ≠ j move :math:`x, x'` and A, and who is the same in both
adds :math:`w_i` to A. That i may already be in R is ignored, an error of order 1/I.

Cost: (pools R) × (observed pools), where a regression on I owners would need many times I pools.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.polynomial.chebyshev import chebval
from numpy.random import Generator

from dushapley.arrays import BoolArray, FloatArray, IntArray, slices
from dushapley.estimators.gp import kernel
from dushapley.estimators.gp.fit import Posterior
from dushapley.estimators.gp.kernel import Hyper, View, in_order
from dushapley.estimators.subsets import subsets_of

NODES = 5
"""Weights at which covariances are made if owners are alike; one more for each factor of e between
the lightest and the heaviest owner."""
LEAST_DRAWS, MOST_DRAWS = 24, 256
"""Pools R of each size: the more the smaller, as small pools differ more."""
BLOCK = 2**16
"""Entries made at a time."""


@dataclass(frozen=True)
class Crowd:
    """Random pools R that an owner joins.

    Attributes
    ----------
    joined
        Pools R, shape (pools, I).
    grid, stands
        Sizes k of pools with the owner in, and how many of the sizes 1..I−1 each stands for.
    """

    joined: BoolArray
    grid: IntArray
    stands: FloatArray

    @cached_property
    def shares(self) -> FloatArray:
        """What each R counts."""
        place = np.searchsorted(self.grid, self.joined.sum(axis=1) + 1)
        return self.stands[place] / np.bincount(place)[place]

    def covariance(self, posterior: Posterior, pools: View, rough: bool = False) -> FloatArray:
        """Return ΩK: prior covariance of the values with pools, nuggets left out, (I, pools).

        It is in single precision, whether it may be `rough` or not.
        """
        h, n = posterior.hyper, len(posterior.weights)
        every = posterior.view(np.ones((1, n)))
        made = feature_slopes(posterior, self) + kernel.features(h, every) / n
        steps = h.step * (pools.owners == n) / n
        found = bent_slopes(posterior, self, pools) + kernel.bent(h, every, pools) / n
        return found + made @ kernel.features(h, pools).T + steps


def crowd(n_players: int, sizes: IntArray, stands: FloatArray, often: int, rng: Generator) -> Crowd:
    """Balanced pools R for each size of the grid, `often` times as many as usual."""
    parts = []
    for size in (sizes - 1).tolist():
        draws = 1 if size == 0 else often * max(LEAST_DRAWS, MOST_DRAWS // size)
        order = np.argsort(rng.random((draws, n_players)), axis=1)
        turn = (np.arange(draws) * size)[:, None] % n_players
        fixed = rng.permutation(n_players)
        first = fixed[(turn + np.arange(size)) % n_players]  # owners take turns in small pools
        members = first if size * 4 <= n_players else order[:, :size]
        parts.append(subsets_of(members, n_players))
    return Crowd(np.concatenate(parts), sizes, stands)


def nodes_between(low: FloatArray, high: FloatArray, count: int) -> FloatArray:
    """Logarithms of weights to look at between two, Chebyshev's, shape (nodes, ...)."""
    wide = (high - low) / 2 + 1e-3
    return (low + high) / 2 + np.multiply.outer(np.cos(angles(count)), wide)


def angles(count: int) -> FloatArray:
    """Of Chebyshev's nodes."""
    return np.pi * (2 * np.arange(count) + 1) / (2 * count)


def interpolated(place: FloatArray, nodes: FloatArray, values: FloatArray) -> FloatArray:
    """Polynomials through values (nodes, pools) at Chebyshev's nodes, of all pools or of each.

    Shape (places, pools).
    """
    count = len(nodes)
    angle = angles(count)
    cosines = np.cos(np.multiply.outer(np.arange(count), angle))
    series = 2 / count * cosines @ values
    series[0] /= 2
    high, low = nodes[0], nodes[-1]
    wide = (high - low) / (np.cos(angle[0]) - np.cos(angle[-1]))
    x = (place[:, None] - (high + low) / 2) / wide
    return chebval(x, series, tensor=False)


def all_nodes(part: FloatArray) -> FloatArray:
    """Nodes between the lightest and the heaviest owner."""
    place = np.log(part)
    count = NODES + int(np.ceil(np.ptp(place)))
    return nodes_between(place.min(), place.max(), count)


def bent(h: Hyper, x: FloatArray, other: FloatArray, shared: FloatArray, n: int) -> FloatArray:
    """Curve, mix and shift between pools by their weights (of all), and those they share.

    In the precision of the weights, as this is where the time goes.
    """
    first = np.log(x)
    second = np.log(other)
    mix = np.minimum(shared / (np.sqrt(x) * np.sqrt(other)) - 1.0, 0.0)
    ride, shift = np.empty((2, *mix.shape), mix.dtype)
    fade = np.log(h.mix) - h.mix_decay * (first + 2 * np.log(n))
    fades = fade, h.mix_decay * second
    kernel.curved_terms(h, mix, (first, second), fades, (ride, shift, mix))
    shift += h.curve
    ride *= shift
    return mix + ride


def bent_slopes(posterior: Posterior, of: Crowd, pools: View) -> FloatArray:
    """Slopes in membership of the covariance of curve, mix and shift with pools, (I, pools).

    An owner in T is looked at among the weights that T has: it is part of what T is. R is taken
    without it, on average, so that nobody is counted twice.
    """
    part = posterior.weights / posterior.weights.sum()
    place = np.log(part)
    member = pools.z > 0.5
    lightest = np.where(member, place, np.inf).min(axis=1)
    heaviest = np.where(member, place, -np.inf).max(axis=1)
    outer = all_nodes(part)
    inner = nodes_between(lightest, heaviest, len(outer))

    def part_of(some: slice) -> FloatArray:
        joined, share = of.joined[some] * part, of.shares[some]
        return _mean_bent(posterior.hyper, joined, share, pools, np.exp(outer), np.exp(inner))

    means = np.zeros((2, len(outer), len(member)))
    parts = list(slices(len(of.joined), BLOCK // len(member)))
    for made in in_order(part_of, parts, means.size):
        means += made
    among = interpolated(place, outer[:, None], means[0])
    found = np.where(member.T, interpolated(place, inner, means[1]), among)
    found -= found.mean(axis=0)
    found /= len(part) - 1
    return found


def _mean_bent(
    h: Hyper,
    joined: FloatArray,
    share: FloatArray,
    pools: View,
    outer: FloatArray,
    inner: FloatArray,
) -> FloatArray:
    """Covariances with T of R joined by owners of some weights, less those of R and an average
    owner: of `outer` weights who are not in T, and `inner` ones who are; (2, nodes, pools).
    """
    n = joined.shape[1]
    x = joined.sum(axis=1)[:, None].astype(np.float32)
    own = np.exp(pools.log_size)
    own = own.astype(np.float32)
    shared = joined.astype(np.float32) @ pools.z.astype(np.float32).T
    shared *= np.float32(n / (n - 1))
    usual = np.float32(1 / n)
    share = share.astype(np.float32)
    found = np.zeros((2, len(outer), len(own)))
    for z, nodes in enumerate((outer, inner)):
        for m, w in enumerate(nodes.astype(np.float32)):
            rest = x * (1 - (w - usual) / (1 - usual))
            known = shared * (1 - z * w / own)
            with_owner = bent(h, rest + w, own, known + z * w, n)
            with_owner -= bent(h, rest + usual, own, known + own * usual, n)
            found[z, m] = share @ with_owner
    return found


def feature_slopes(posterior: Posterior, of: Crowd) -> FloatArray:
    """Slopes of the features of constant, trend, owners and blend, shape (I, features)."""
    h, n = posterior.hyper, len(posterior.weights)
    shares = of.shares
    part = posterior.weights / posterior.weights.sum()
    places = all_nodes(part)
    across = partial(interpolated, np.log(part), places[:, None])
    nodes = np.exp(places)
    x = of.joined @ part
    rests = np.array([x * (1 - (w - 1 / n) / (1 - 1 / n)) for w in nodes])
    joined = rests + nodes[:, None]
    usual = rests + 1 / n
    trend = across(np.log(joined / usual) @ shares[:, None])
    columns = [np.zeros((n, 1)), np.sqrt(h.trend) * trend]
    for size, decay, power in ((h.owners, h.owners_decay, 0), (h.blend, h.blend_decay, 1)):
        fade = (n * joined) ** -decay * joined**-power
        lost = fade - (n * usual) ** -decay * usual**-power
        found = across((shares * lost) @ of.joined) * part**power
        own = across((fade @ shares * nodes**power)[:, None])
        found[np.diag_indices(n)] = own[:, 0]
        columns.append(np.sqrt(size) * found * posterior.strength)
    slopes = np.concatenate(columns, axis=1)
    return (slopes - slopes.mean(axis=0)) / (n - 1)
