"""Many owners: values carried by whom they join, long lists of pools by blocks."""

from __future__ import annotations

import numpy as np
import pytest

import dushapley as ds
from dushapley.estimators.gp import functional, kernel, study
from dushapley.estimators.gp.crowd import Crowd
from dushapley.estimators.gp.fit import Observed, Posterior


def posterior_of_many(n: int, wide: float) -> Posterior:
    """A process after a pilot of a learning curve over owners of unequal sizes."""
    rng = np.random.default_rng(0)
    sizes, quality = np.exp(rng.uniform(0, wide, n)), rng.uniform(0.2, 1.0, n)
    pools = study.pilot(n, 2 * n, rng)
    rows = pools @ sizes
    answers = rows / (rows + sizes.mean()) * (0.5 + 0.5 * (pools @ (sizes * quality)) / rows)
    theta = kernel.prior(n)[0].copy()
    theta[-n:] += 0.5 * rng.standard_normal(n)
    return Posterior(Observed(pools, answers, kernel.log_relative_sizes(sizes)), theta)


def values(posterior: Posterior, of: functional.Carrier) -> np.ndarray:
    b = functional.covariance_with_answers(posterior, of)
    return functional.linear_map(posterior, b) @ posterior.observed.answers


@pytest.mark.parametrize("wide", [0.0, 4.0])
def test_whom_owners_join_carries_the_values_that_pools_carry(wide: float) -> None:
    n, rng = 80, np.random.default_rng(1)
    posterior = posterior_of_many(n, wide)
    joined = functional.carrier(n, 2**12, rng)
    assert isinstance(joined, Crowd)
    found = values(posterior, joined)
    right = values(posterior, functional.functional(n, 2**15, rng))
    assert np.mean((found - right) ** 2) < 0.004 * np.var(right)
    assert found.sum() == pytest.approx(right.sum(), abs=1e-5)


def test_long_lists_of_pools_are_made_by_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    posterior = posterior_of_many(30, 2.0)
    h, seen = posterior.hyper, posterior.seen
    whole = kernel.covariance(h, seen, seen)
    monkeypatch.setattr(kernel, "BLOCK", 500)
    assert kernel.covariance(h, seen, seen) == pytest.approx(whole, abs=1e-12)
    assert np.tril(kernel.lower_covariance(h, seen)) == pytest.approx(np.tril(whole), abs=1e-12)
    white = np.random.default_rng(0).random((7, len(whole)))
    after = kernel.covariance_after(h, seen, white)
    monkeypatch.setattr(kernel, "LONG", 11)
    monkeypatch.setattr(kernel, "MANY_ENTRIES", 1)
    assert kernel.covariance(h, seen, seen) == pytest.approx(whole, abs=1e-12)
    assert kernel.covariance_after(h, seen, white) == pytest.approx(after, abs=1e-12)
    assert after == pytest.approx(whole - white.T @ white, abs=1e-12)


def test_values_that_wild_small_pools_decide_have_wide_intervals_and_a_note() -> None:
    rng = np.random.default_rng(4)
    n, poor = 60, rng.exponential(1.0, 60) ** 3
    many = [rng.normal(size=n) for _ in range(2)]

    def utility(z: np.ndarray) -> np.ndarray:
        size = np.maximum(z.sum(axis=1), 1)
        tail = (z @ poor) * (1 + np.abs(np.sin(z @ many[0]) * np.cos(z @ many[1])))
        return np.where(z.any(axis=1), 0.6 - tail / size**4, 0.0)

    found = ds.value(ds.CallableGame(utility, n, cheap=True), "gp", budget=4 * n)
    tame = ds.CallableGame(lambda z: np.maximum(utility(z), 0.0), n, cheap=True)
    assert any("worse than nobody's data decide" in note for note in found.notes)
    assert not ds.value(tame, "gp", budget=4 * n).notes
