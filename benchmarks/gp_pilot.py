"""Would a pilot chosen by the prior serve `gp` better than one drawn at random?

    python benchmarks/gp_pilot.py run held-back gp 0 40 --label "planned pilot"
    python benchmarks/gp_pilot.py odd [SEEDS]         # games unlike those of trained models

The first takes what `gp_complete.py` takes.

Before any answer the process knows how utilities of trained models vary and how many rows owners
have, so the pools after the owners alone can be those that would take most from the variance of the
values. Of ten to fourteen owners of unequal sizes about half of them lack one owner, and few are of
middle size. That serves games like those the prior was made for, at 4I above all.

The odd games have ten equal owners and a learning curve, and something that a prior does not
expect: owners who differ only in pools of about five, or a bonus for any two of four. There a pilot
that never saw a middle size misleads all that follows.
"""

from __future__ import annotations

import sys

import numpy as np

import dushapley as ds
import gp_complete
from dushapley.estimators.exact import bits
from dushapley.estimators.gp import kernel, study
from dushapley.estimators.gp.fit import Observed, Posterior
from dushapley.estimators.gp.functional import covariance_with_answers
from dushapley.estimators.gp.study import Study
from tables import load, markdown, save

OWNERS, BUDGETS = 10, {"6I": 60, "I²": 100}
drawn_batch = Study.next_batch


def planned_batch(self: Study) -> np.ndarray:
    """The batch as it is, but for the pilot, whose random pools the prior chooses instead."""
    pools = drawn_batch(self)
    if self.posterior is not None:
        return pools
    n = self.problem.n_players
    alone = pools[pools.sum(axis=1) == 1]
    asked = np.concatenate([self.pools, alone])
    before = Posterior(Observed(asked, np.zeros(len(asked)), self.log_sizes), kernel.prior(n)[0])
    seen = {pool.tobytes() for pool in asked}
    others = study.most_telling(
        before,
        self.medium,
        covariance_with_answers(before, self.medium),
        study.candidates(n, seen, self.problem.rng),
        len(pools) - len(alone),
    )
    return np.concatenate([alone, others])


def odd_games(seed: int) -> dict[str, ds.TableGame]:
    rng = np.random.default_rng(seed)
    pools = bits(np.arange(2**OWNERS), OWNERS)
    size = pools.sum(axis=1)
    curve = size / (size + 2.0)
    owners = rng.standard_normal(OWNERS)
    middle = np.exp(-0.5 * (size - 5.0) ** 2) * (pools @ (owners - owners.mean()))
    two = pools[:, rng.permutation(OWNERS)[:4]].sum(axis=1) >= 2
    return {
        "owners differ in pools of about five": ds.TableGame(curve + 0.05 * middle),
        "a bonus for two of four owners": ds.TableGame(curve + 0.3 * two),
    }


def odd_run(game: ds.TableGame, budget: int, seed: int) -> tuple[float, float]:
    exact = ds.value(game, "exact", budget=2**OWNERS).values
    v = ds.value(game, "gp", budget=budget, seed=seed)
    assert v.std_errors is not None
    error = v.values - exact
    covered = float((np.abs(error) <= 1.96 * v.std_errors).mean())
    return float(f"{np.mean(error**2) / np.var(exact):.4g}"), covered


def odd(seeds: int) -> None:
    found: dict[str, dict] = {}
    for pilot, batch in (("drawn", drawn_batch), ("planned", planned_batch)):
        Study.next_batch = batch  # type: ignore[method-assign]
        for seed in range(seeds):
            for name, game in odd_games(seed).items():
                for label, budget in BUDGETS.items():
                    runs = found.setdefault(f"{name}, {label}, {pilot}", {"mse": [], "covered": []})
                    mse, covered = odd_run(game, budget, seed)
                    runs["mse"].append(mse)
                    runs["covered"].append(covered)
    save("gp_pilot", found)


def main() -> None:
    if sys.argv[1:2] != ["odd"]:
        Study.next_batch = planned_batch  # type: ignore[method-assign]
        gp_complete.main()
        return
    if len(sys.argv) > 2:
        odd(int(sys.argv[2]))
    lines = [
        [name, f"{np.median(runs['mse']):.4f}", f"{np.mean(runs['covered']):.2f}"]
        for name, runs in load("gp_pilot").items()
    ]
    print(markdown(["game, budget, pilot", "median relative MSE", "coverage"], lines))


if __name__ == "__main__":
    main()
