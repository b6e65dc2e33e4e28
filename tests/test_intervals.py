"""Standard errors are such that ±1.96 of them is a 95% interval: the formula, and that it holds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import dushapley as ds
from dushapley.estimators import calibration, owen
from dushapley.estimators.calibration import Extremes, Moments, Spread
from dushapley.estimators.exact import coalitions
from dushapley.estimators.owen import Drawn, own_membership
from dushapley.testing import covered, run, small_games

RNG = np.random.default_rng


def replicates(sample: np.ndarray, cuts: list[int]) -> Moments:
    moments = Moments(sample.shape[1])
    for part in np.split(sample, cuts):
        moments.add(part)
    return moments


def test_batches_give_the_moments_of_all_samples():
    sample = RNG(0).exponential(size=(300, 4)) + 1e5
    moments = replicates(sample, [1, 2, 150])
    off = sample - sample.mean(axis=0)
    assert np.allclose(moments.sums.third, (off**3).sum(axis=0), rtol=1e-6)
    assert np.allclose(moments.sums.second, (off**2).sum(axis=0), rtol=1e-8)
    assert np.allclose(np.diag(moments.scatter), moments.sums.second)


def test_a_count_of_rare_events_is_known_by_its_skewness():
    """k ones among n: variance k(1−p), and m is k, up to terms in p = k/n."""
    n, k = 4000, 8
    sample = np.zeros((n, 2))
    sample[:k, 0], sample[:, 1] = 1, RNG(0).normal(size=n)
    found = replicates(sample, []).sums.spread()
    assert np.isclose(1 / found.skew[0], k, rtol=0.01)
    assert found.skew[1] < 1e-3
    widened = found.errors[0] / (np.sqrt(k) / n)
    assert np.isclose(widened, 1 + 1 / k, rtol=0.01)


def test_degrees_of_freedom_are_those_of_welch_and_satterthwaite():
    one, other = RNG(1).normal(size=12), 3 * RNG(2).normal(size=7)
    parts = [replicates(x[:, None], []).sums.spread() for x in (one, other)]
    fields = ("variance", "third", "freedom")
    both = Spread(*(np.stack([getattr(p, f) for p in parts]) for f in fields)).together(axis=0)
    welch = stats.ttest_ind(one, other, equal_var=False)
    assert np.isclose(both.freedom[0], welch.df)


def test_the_growth_is_the_second_order_term_of_hall():
    """At z = 1.96 and κ = γ², as for rare events, the bracket is −γ², within two parts in 100."""
    z = calibration.NORMAL
    assert np.isclose((z**2 - 3) / 12 - (z**4 + 2 * z**2 - 3) / 18, -1, atol=0.02)


def test_samples_that_never_change_are_given_the_rule_of_three():
    sample = RNG(0).normal(size=(50, 3))
    sample[:, 1] = 0.25
    found = replicates(sample, [20]).estimate()
    largest = np.ptp(sample, axis=0).max()
    assert np.isclose(1.96 * found.std_errors[1], 3 / 50 * largest, rtol=1e-3)
    assert any("never changed" in note for note in found.notes)
    constant = replicates(np.full((50, 3), 0.25), []).estimate()
    assert not constant.std_errors.any()  # nobody's changed: there is nothing to go by


@pytest.mark.parametrize("scale", [1e-90, 1e-40, 1e40, 1e90])
@pytest.mark.parametrize("name", ["permutation", "orthogonal", "owen", "svarm", "group-testing"])
def test_utilities_of_any_size_are_taken(name, scale):
    """Errors scale with utilities, and no power of them overflows."""
    worth = small_games(6)["table"].values
    here, there = (run(name, ds.TableGame(worth * s), {}, 720, 1) for s in (1.0, scale))
    assert np.allclose(here.std_errors, there.std_errors / scale, rtol=1e-6)


def test_rare_contributions_are_noted():
    sample = np.zeros((100, 2))
    sample[:3, 0], sample[::2, 1] = 1, 1
    notes = replicates(sample, []).estimate().notes
    assert any("For 1 owner the estimate rests on contributions that are rare" in n for n in notes)
    sample[3:9, 0] = 1
    assert replicates(sample, []).estimate().notes == ()


def test_own_membership_has_the_variance_it_is_said_to_have():
    """Over many draws the part by design and the rest add up to the variance of efficient gains."""
    n, count = 5, 4000
    game = small_games(n)["linear regression"]
    rng = RNG(0)
    order = rng.permutation(count)
    chances = (order + rng.random(count)) / count
    masks = rng.random((count, n)) < chances[:, None]
    table = game(owen.with_neighbours(masks)).reshape(count, n + 1)
    gains = np.where(masks, 1, -1) * (table[:, :1] - table[:, 1:])
    drawn = Drawn(chances, order, gains, masks)
    efficient = gains - gains.mean(axis=1, keepdims=True)
    known, smooth = own_membership(drawn, efficient)
    together = known + np.diag(drawn.neighbours(smooth)[0])
    plain = np.diag(drawn.neighbours(efficient)[0])
    assert np.allclose(together, plain, rtol=0.15)
    assert (known > 0.2 * plain).all()
    assert np.allclose(smooth.mean(axis=0), efficient.mean(axis=0), atol=4 * np.sqrt(known))


def test_an_order_is_no_surer_than_the_intervals():
    """Walks that agree by chance: the rule of three's allowance is an error of the order too."""
    found = ds.value(small_games(6)["glove"], "permutation", budget=102, seed=0)
    still = np.diag(found.covariance) == 0
    others = ~still
    others[0] = False  # the one who has the left glove
    assert still.any()
    assert others.any()
    chance = ds.probability_greater(found)
    assert (np.abs(chance[np.ix_(others, still)] - 0.75) < 0.25).all()  # more, yet not for sure


def sharp(owners: int) -> ds.Game:
    """The paper's curve with its rule for c."""
    sizes = RNG(1).integers(1, 1001, owners)
    scale = 10.0 ** (np.floor(np.log10(sizes.sum())) - 1)
    return ds.SizeGame(sizes, lambda rows: rows / (rows + scale))


HARD = [
    ("owen", {"form": "shared-efficient"}, "sharp", 10),
    ("owen", {"form": "shared-efficient"}, "linear regression", 10),
    ("owen", {"form": "shared-efficient"}, "regressogram", 10),
    ("owen", {"form": "per-owner"}, "voting", 10),
    ("owen", {"form": "per-owner"}, "glove", 6),
    ("owen", {}, "glove", 10),
    ("permutation", {}, "glove", 10),
    ("antithetic", {}, "glove", 10),
    ("permutation", {}, "noisy gloves", 11),
    ("owen", {}, "noisy gloves", 11),
    ("owen", {"form": "per-owner"}, "noisy gloves", 11),
]
"""Where contributions are rare but large, and plain intervals hold too rarely."""


def noisy_gloves(n: int) -> ds.Game:
    """Everybody contributes a little all the time, and most of them a lot very rarely."""
    table = small_games(n)["glove"](np.concatenate(list(coalitions(n))))
    return ds.TableGame(table + 1e-3 * np.random.default_rng(1).normal(size=len(table)))


def part_covered(name: str, options: dict, kind: str, n: int) -> tuple[float, bool]:
    """At 20I² evaluations over 500 runs, and whether most of them are noted as rare."""
    made = {"sharp": sharp, "noisy gloves": noisy_gloves}
    game = made[kind](n) if kind in made else small_games(n)[kind]
    found = [run(name, game, options, 20 * n**2, seed) for seed in range(500)]
    noted = np.mean([any("rare but large, in effect" in m for m in e.notes) for e in found])
    return covered(found, ds.value(game, "exact").values), bool(noted > 0.5)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options", "kind", "n"), HARD)
def test_intervals_hold_where_contributions_are_rare(name, options, kind, n):
    """93 to 97 of 100; more only where results say that they rest on fewer than five events.

    A count with a mean of 2.5 is 0 in 8.2% of runs: intervals no narrower than the plain ones hold
    either in 91.7% or, if they allow for that case, in 99.9%; so there the promise is "at least".
    """
    part, noted = part_covered(name, options, kind, n)
    assert part >= 0.93
    assert noted or part <= 0.97


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options", "kind", "n"), HARD)
def test_plain_intervals_do_not_hold_there(name, options, kind, n, monkeypatch):
    """The negative control: the same runs with Student's t alone."""
    monkeypatch.setattr(Spread, "skew", property(lambda self: np.zeros_like(self.variance)))
    monkeypatch.setattr(Extremes, "unseen", lambda self, _: np.zeros_like(self.low))
    monkeypatch.setattr(owen, "own_membership", lambda _, gains: (0 * gains[0], gains))
    assert part_covered(name, options, kind, n)[0] < 0.93
