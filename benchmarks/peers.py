"""Beside shapiq: error at equal budgets over 50 paired seeds, then evaluations per second.

Errors on the size game of `estimators.py` (ten draws of n, five seeds each). "p worse" is the
probability of a difference at least as bad if both are equal (paired one-sided t-test, log errors).
Speed at I=20 and budget 100,000 on the same game, in CPU seconds: ours best of three, shapiq once
where it takes more than ten seconds.
`more` repeats the kernel forms, where 50 pairs cannot show differences of a tenth, on thirty fresh
draws of n with eight seeds each; its p is that of the mean over seeds, game by game.
Run: python benchmarks/peers.py [error] [speed] [more]
"""

from __future__ import annotations

import sys
import time
import warnings
from importlib.metadata import version

import numpy as np
from scipy import stats
from shapiq.approximator import (
    SVARM,
    KernelSHAP,
    OwenSamplingSV,
    PermutationSamplingSV,
    UnbiasedKernelSHAP,
)

import dushapley as ds
from dushapley.engine.compare import label
from estimators import COLUMNS, DRAWS, RUNS, size_game
from tables import best_cpu_seconds, markdown, save, short

# ours, options, shapiq's name, how to make it, whether the algorithm is the same
PAIRS = [
    (
        "permutation",
        {},
        "PermutationSamplingSV",
        lambda n, s: PermutationSamplingSV(n, random_state=s),
        True,
    ),
    (
        "kernel",
        {},
        "KernelSHAP, paired",
        lambda n, s: KernelSHAP(n, pairing_trick=True, random_state=s),
        True,
    ),
    (
        "kernel",
        {"form": "unpaired"},
        "KernelSHAP",
        lambda n, s: KernelSHAP(n, pairing_trick=False, random_state=s),
        True,
    ),
    (
        "kernel",
        {"form": "unbiased"},
        "UnbiasedKernelSHAP, paired",
        lambda n, s: UnbiasedKernelSHAP(n, pairing_trick=True, random_state=s),
        True,
    ),
    (
        "leverage",
        {},
        "KernelSHAP, leverage weights, paired",
        lambda n, s: KernelSHAP(
            n, pairing_trick=True, sampling_weights=np.ones(n + 1), random_state=s
        ),
        True,
    ),
    (
        "stratified-svarm",
        {"form": "+"},
        "SVARM",
        lambda n, s: SVARM(n, max_order=1, index="SV", random_state=s),
        True,
    ),
    (
        "stratified-svarm",
        {},
        "SVARM, paired",
        lambda n, s: SVARM(n, max_order=1, index="SV", pairing_trick=True, random_state=s),
        False,
    ),
    (
        "owen",
        {"form": "per-owner"},
        "OwenSamplingSV(10)",
        lambda n, s: OwenSamplingSV(n, n_anchor_points=10, random_state=s),
        False,
    ),
]


class Counted:
    """A shapiq game around one of ours, counting the coalitions it is asked."""

    def __init__(self, game: ds.Game) -> None:
        self.game, self.n_players, self.asked = game, game.n_players, 0

    def __call__(self, coalitions: np.ndarray) -> np.ndarray:
        coalitions = np.atleast_2d(coalitions).astype(bool)
        self.asked += len(coalitions)
        return self.game.evaluate(coalitions, None)


def theirs(make, game: ds.Game, budget: int, seed: int) -> np.ndarray:
    """Values by shapiq."""
    n = game.n_players
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = make(n, seed).approximate(budget, Counted(game))
    return np.array([found.dict_values.get((i,), 0.0) for i in range(n)])


def paired_errors(method, options, make, n: int, budget: int, draws: range, runs: int):
    """Errors of ours and of shapiq's, shape (draws, runs, 2)."""
    pairs = []
    for draw in draws:
        game, exact = size_game(n, draw)
        for seed in range(draw * runs, (draw + 1) * runs):
            ours = ds.value(game, method, options=options, budget=budget, seed=seed).values
            peer = theirs(make, game, budget, seed)
            pairs.append([np.mean((v - exact) ** 2) / np.mean(exact**2) for v in (ours, peer)])
    return np.array(pairs).reshape(len(draws), runs, 2)


def compare_errors(pairs=PAIRS, draws=range(DRAWS), runs=RUNS, by_game=False) -> list[dict]:
    results = []
    for method, options, name, make, same in pairs:
        for n, budget in COLUMNS:
            found = paired_errors(method, options, make, n, budget, draws, runs)
            off = np.log(found[..., 0]) - np.log(found[..., 1])
            tested = off.mean(axis=1) if by_game else off.ravel()
            # permutation walks are identical: nothing to test
            alike = np.allclose(off, 0)
            p = 0.5 if alike else stats.ttest_1samp(tested, 0, alternative="greater")[1]
            a, b = found.reshape(-1, 2).mean(axis=0).tolist()
            results.append(
                {"ours": label(method, options), "shapiq": name, "same algorithm": same}
                | {"owners": n, "budget": budget, "error": a, "shapiq error": b}
                | {"p worse": float(p)}
            )
    return results


def show_errors(found: list[dict]) -> None:
    rows = [
        [
            *(r["ours"], r["shapiq"], "yes" if r["same algorithm"] else "no"),
            *(str(r["owners"]), str(r["budget"]), short(r["error"]), short(r["shapiq error"])),
            f"{r['p worse']:.2g}",
        ]
        for r in found
    ]
    header = ["ours", "shapiq", "same algorithm", "I", "budget", "our error", "shapiq error"]
    print(markdown([*header, "p worse"], rows), flush=True)


def compare_speed(budget: int = 100_000) -> list[dict]:
    game, _ = size_game(20, 0)
    results = []
    for method, options, name, make, same in PAIRS:
        asked = ds.value(game, method, options=options, budget=budget).n_evaluations
        mine = best_cpu_seconds(
            lambda m=method, o=options: ds.value(game, m, options=o, budget=budget)
        )
        counted = Counted(game)
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            make(20, 0).approximate(budget, counted)
        peer = time.process_time() - start
        if peer < 10:
            peer = min(peer, best_cpu_seconds(lambda k=make: theirs(k, game, budget, 0), 2))
        ours, others = asked / mine, counted.asked / peer
        results.append(
            {"ours": label(method, options), "shapiq": name, "same algorithm": same}
            | {"per second": ours, "shapiq per second": others, "ratio": ours / others}
        )
        print(results[-1], file=sys.stderr, flush=True)
    return results


def main() -> None:
    wanted = sys.argv[1:] or ["error", "speed"]
    print(f"shapiq {version('shapiq')}\n")
    if "error" in wanted:
        found = compare_errors()
        show_errors(found)
        save("peers_error", found)
    if "more" in wanted:
        found = compare_errors(PAIRS[1:4], range(DRAWS, DRAWS + 30), 8, by_game=True)
        show_errors(found)
        save("peers_more", found)
    if "speed" in wanted:
        found = compare_speed()
        rows = [
            [
                *(r["ours"], r["shapiq"]),
                *(f"{r[key]:,.0f}" for key in ("per second", "shapiq per second")),
                f"{r['ratio']:.0f}×",
            ]
            for r in found
        ]
        header = ["ours", "shapiq", "our evaluations/s", "shapiq evaluations/s", "ratio"]
        print("\n" + markdown(header, rows))
        save("peers_speed", found)


if __name__ == "__main__":
    main()
