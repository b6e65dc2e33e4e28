"""Kinds of games on which `gp` was overconfident, rebuilt from other data: does it cover now?

    python benchmarks/gp_awkward.py [SEEDS] [place | jumps | stairs ...]

Without kinds, all of them; without SEEDS, the stored results are shown.

Ridge under r2 with 60, 100 and 200 owners by place, one in seven with shuffled targets (songs by
year); two utilities that jump; staircases of several steps, 12 owners of unequal sizes, four games
of each at 6I, I² and 2I². A toxic owner and log loss are among the complete games
(`gp_complete.py`). Exact values by place come from slopes at thirty sizes, by all pools of the size
or 8,192 of them: sampling permutations would be noisier than `gp`, as few small pools decide.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import product
from math import floor

import numpy as np

import dushapley as ds
from complete_games import year
from dushapley.estimators.gp.functional import functional
from tables import load, markdown, save

Runs = Iterator[tuple[str, dict]]


def by_place(n: int) -> ds.Game:
    """Ridge on songs; owners are neighbourhoods in two of the features."""
    X, y = year()
    rng = np.random.default_rng(n)
    X = np.clip((X - X.mean(axis=0)) / X.std(axis=0), -5, 5)
    y = (y - y.mean()) / y.std()
    order = rng.permutation(len(y))
    test, rest = order[:1500], order[1500 : 1500 + 24 * n]
    strip = np.argsort(np.argsort(X[rest, 0])) * int(n**0.5) // len(rest)
    rest = rest[np.lexsort((X[rest, 1], strip))]
    owner = np.arange(len(rest)) * n // len(rest)
    target = y[rest].copy()
    for j in range(0, n, 7):
        target[owner == j] = rng.permutation(y[rest])[: (owner == j).sum()]
    rows = np.c_[X[rest], np.ones(len(rest))]
    check = np.c_[X[test], np.ones(len(test))]
    d = rows.shape[1]
    gram = np.zeros((n, d, d))
    moment = np.zeros((n, d))
    np.add.at(gram, owner, rows[:, :, None] * rows[:, None, :])
    np.add.at(moment, owner, rows * target[:, None])
    square, cross = check.T @ check / len(test), check.T @ y[test] / len(test)
    whole, mean = float((y[test] ** 2).mean()), float(y[test].var())

    def utility(pools: np.ndarray) -> np.ndarray:
        found = np.zeros(len(pools))
        for start in range(0, len(pools), 4096):
            z = pools[start : start + 4096].astype(float)
            sums = (z @ gram.reshape(n, -1)).reshape(-1, d, d) + 0.1 * np.eye(d)
            w = np.linalg.solve(sums, (z @ moment)[:, :, None])[:, :, 0]
            loss = whole - 2 * w @ cross + np.einsum("ij,jk,ik->i", w, square, w)
            found[start : start + 4096] = 1 - loss / mean
        return np.where(pools.any(axis=1), found, 0.0)

    return ds.CallableGame(utility, n, np.bincount(owner), cheap=True)


def jumps(n: int) -> tuple[ds.Game, np.ndarray]:
    """⌊3·share⌋/3 of ten owners, or ⌊Σz/2⌋ of forty, and the exact values."""
    if n == 40:
        game = ds.CallableGame(lambda z: np.floor(z.sum(axis=1) / 2), n, cheap=True)
        return game, np.full(n, floor(n / 2) / n)
    share = np.random.default_rng(3).dirichlet(np.full(n, 2.0))
    game = ds.CallableGame(
        lambda z: np.floor(3 * (z @ share) + 1e-9) / 3, n, share * 1000, cheap=True
    )
    return game, ds.value(game, "exact", budget=2**n).values


def staircase(steps: int, seed: int, n: int = 12) -> ds.Game:
    """⌊s·share⌋/s of owners of unequal sizes."""
    sizes = np.random.default_rng(100 * steps + seed).integers(20, 200, n).astype(float)
    part = sizes / sizes.sum()
    return ds.CallableGame(
        lambda z: np.floor(steps * (z @ part) + 1e-12) / steps, n, sizes, cheap=True
    )


def by_slopes(game: ds.Game) -> np.ndarray:
    """Values from slopes in membership at about thirty sizes, interpolated between them."""
    carrier = functional(game.n_players, 2**18, np.random.default_rng(7))
    return carrier.weights @ game(carrier.pools)


def judged(game: ds.Game, exact: np.ndarray, seed: int, budget: int) -> dict:
    v = ds.value(game, "gp", budget=budget, seed=seed)
    assert v.std_errors is not None
    half = 1.96 * v.std_errors
    return {
        "relative_mse": float(f"{np.mean((v.values - exact) ** 2) / exact.var():.3g}")
        if exact.var() > 1e-20
        else None,
        "coverage": float((np.abs(v.values - exact) <= half + 1e-12).mean()),
        "half-width / spread": float(f"{1.96 * v.std_errors.mean() / np.ptp(v.values):.3g}"),
        "note": bool(v.notes),
        "sampled sizes": len(v.details.get("sampled", [])),
    }


def measure_jumps(seeds: int) -> Runs:
    for n in (10, 40):
        game, exact = jumps(n)
        for seed in range(seeds):
            yield f"jumps, {n} owners, 6I, seed {seed}", judged(game, exact, seed, 6 * n)


def measure_place(seeds: int) -> Runs:
    for n in (60, 100, 200):
        game = by_place(n)
        exact = by_slopes(game)
        for seed in range(max(1, seeds // 2)):
            key = f"ridge r2 by place, {n} owners, 6I, seed {seed}"
            yield key, judged(game, exact, seed, 6 * n)


def measure_stairs(seeds: int) -> Runs:
    for steps, made in product((4, 5, 6, 8, 12, 20), range(4)):
        game = staircase(steps, made)
        n = game.n_players
        exact = ds.value(game, "exact").values
        budgets = {"6I": 6 * n, "I²": n * n, "2I²": 2 * n * n}
        for (name, budget), seed in product(budgets.items(), range(seeds)):
            key = f"staircase of {steps} steps, {n} owners, {name}, seed {made}.{seed}"
            yield key, judged(game, exact, seed, budget)


KINDS: dict[str, Callable[[int], Runs]] = {
    "jumps": measure_jumps,
    "place": measure_place,
    "stairs": measure_stairs,
}


def main() -> None:
    found = load("gp_awkward")
    for kind in sys.argv[2:] or (KINDS if len(sys.argv) > 1 else ()):
        for key, run in KINDS[kind](int(sys.argv[1])):
            found[key] = run
            save("gp_awkward", found)
    kinds = dict.fromkeys(key.rsplit(", seed", 1)[0] for key in found)
    lines = []
    for kind in kinds:
        runs = [run for key, run in found.items() if key.rsplit(", seed", 1)[0] == kind]
        lines.append([
            kind, str(len(runs)), f"{np.mean([r['coverage'] for r in runs]):.2f}",
            f"{np.mean([r['half-width / spread'] for r in runs]):.2f}",
            "–" if runs[0]["relative_mse"] is None
            else f"{np.mean([r['relative_mse'] for r in runs]):.2g}",
            f"{sum(r['note'] for r in runs)} of {len(runs)}",
        ])  # fmt: skip
    head = ["game", "runs", "coverage", "half-width / spread", "relative MSE", "with a note"]
    print(markdown(head, lines))


if __name__ == "__main__":
    main()
