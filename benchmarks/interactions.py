"""Interactions of every two owners: beside shapiq's exact ones, and from `gp` beside sampling.

`python benchmarks/interactions.py shapiq` compares exact interactions with those of shapiq's
`ExactComputer` on six games (needs shapiq). `python benchmarks/interactions.py gp [SEEDS]` runs
`gp` at 2I² on the stored games (DUSHAPLEY_DATA) beside antithetic sampling of the same index at the
same budget: for the Shapley index the better of two samplers (neighbours in random orders and
their reversals; all pairs at random pools and their complements), for Banzhaf's the second.
Errors are mean squares over the variance of the exact interactions; coverage is that of ±1.96
standard errors over all pairs and seeds. Both keep their tables in results/interactions.json, the
second every seed as well: run again, it goes on with those that are missing (`--anew`: with all).
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

import dushapley as ds
from dushapley.estimators.gp.targets import flipped_twice, joined_pools
from stored_games import stored_games

STORE = Path(__file__).parent / "results" / "interactions.json"
RUNS = "gp at 2I², every run"
INDICES = {"shapley": "SII", "banzhaf": "BII"}


def kept() -> dict[str, Any]:
    """All that is stored."""
    return json.loads(STORE.read_text("utf-8")) if STORE.exists() else {}


def keep(part: str, found: Any) -> None:
    """Write one part of the stored table, leaving the others."""
    parts = kept() | {part: found}
    runs = [json.dumps(line, ensure_ascii=False) for line in parts.pop(RUNS, [])]
    text = json.dumps(parts, indent=1, ensure_ascii=False).removesuffix("\n}")
    if runs:  # a line each
        text += f',\n "{RUNS}": [\n  ' + ",\n  ".join(runs) + "\n ]"
    STORE.write_text(text + "\n}\n", encoding="utf-8")


def rounded(number: Any) -> float:
    """Four digits: more would only fill the file."""
    return float(f"{number:.4g}")


def exact_games() -> dict[str, ds.Game]:
    """Six games of three to ten owners, smooth and jumping."""
    rng = np.random.default_rng(7)
    return {
        "glove": ds.games.glove(3, 2),
        "airport": ds.games.airport([1, 2, 4, 8, 16, 32]),
        "voting": ds.games.voting([5, 4, 3, 2, 1, 1, 1], 9),
        "size": ds.SizeGame(rng.integers(1, 500, 9), lambda n: n / (n + 300)),
        "random": ds.TableGame(rng.normal(size=2**8)),
        "regressogram": ds.RegressogramGame(
            rng.integers(0, 60, (10, 5)), np.full(5, 0.2), lambda n: n / (n + 20)
        ),
    }


def beside_shapiq() -> None:
    """Largest difference of all interactions, game by game."""
    from importlib.metadata import version

    import shapiq

    found = {"shapiq": version("shapiq")}
    for name, game in exact_games().items():
        n = game.n_players
        ours = ds.interactions(game, "exact")
        theirs = shapiq.ExactComputer(
            n_players=n, game=lambda z, g=game: g(np.atleast_2d(z).astype(bool))
        )
        worst = 0.0
        for index, label in INDICES.items():
            values = theirs(label, order=2)
            pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
            away = [abs(getattr(ours, index)[p] - values.dict_values[p]) for p in pairs]
            worst = max(worst, *away)
        found[name] = worst
        print(f"{name:14} {n} owners, largest difference {worst:.1e}")
        assert worst < 1e-10, name
    keep("beside shapiq, largest difference", found)


def by_orders(game: ds.Game, budget: int, rng: np.random.Generator) -> np.ndarray:
    """Second differences of neighbours in random orders and in their reversals; (I, I)."""
    n = game.n_players
    sums, counts = np.zeros((2, n, n))
    walks = (budget - 2) // (2 * (n - 1)) // 2 * 2
    for walk in range(walks):
        order = rng.permutation(n) if walk % 2 == 0 else order[::-1]  # noqa: F821
        prefix = np.tril(np.ones((n + 1, n), dtype=bool), -1)
        other = prefix[:-2].copy()
        other[np.arange(n - 1), np.arange(1, n)] = True
        pools = np.zeros((2 * n, n), dtype=bool)
        pools[:, order] = np.concatenate([prefix, other])
        u = game(pools)
        along, beside = u[: n + 1], u[n + 1 :]
        gain = along[2:] - along[1:-1] - beside + along[:-2]
        for i, j, g in zip(order[:-1], order[1:], gain, strict=True):
            sums[[i, j], [j, i]] += g
            counts[[i, j], [j, i]] += 1
    return np.divide(sums, counts, out=np.full((n, n), sums.sum() / counts.sum()), where=counts > 0)


def by_pools(game: ds.Game, budget: int, rng: np.random.Generator, index: str) -> np.ndarray:
    """Second differences of all pairs at random pools and at their complements; one per pair."""
    n = game.n_players
    bases = max(1, (budget - 2) // (1 + n + n * (n - 1) // 2))
    law = None if index == "banzhaf" else (1.0, 1.0)
    drawn = flipped_twice(joined_pools(n, bases, law, rng))
    empty = game(np.zeros((1, n), dtype=bool))[0]
    return drawn.weights @ (game(drawn.pools) - empty)


def one_run(name: str, seed: int) -> list[dict[str, Any]]:
    """Errors of all on one game with one seed."""
    game = next(stored.game for stored in stored_games() if stored.name == name)
    n = game.n_players
    budget, pairs = 2 * n**2, np.triu_indices(n, 1)
    exact = ds.interactions(game, "exact")
    found = ds.interactions(game, "gp", budget=budget, seed=seed)
    lines = []
    for index in INDICES:
        truth = getattr(exact, index)[pairs]
        off = getattr(found, index)[pairs] - truth
        held = abs(off) <= 1.96 * getattr(found, f"{index}_errors")[pairs]
        rng = np.random.default_rng([seed, 1])
        rivals = [by_pools(game, budget, rng, index)]
        if index == "shapley":
            rivals.append(by_orders(game, budget, rng)[pairs])
        lines.append(
            {
                "game": name,
                "index": index,
                "seed": seed,
                "gp": rounded(np.mean(off**2) / truth.var()),
                "sampling": [rounded(np.mean((r - truth) ** 2) / truth.var()) for r in rivals],
                "held": rounded(np.mean(held)),
                "pairs": len(truth),
            }
        )
    return lines


def beside_sampling(seeds: int, *, anew: bool) -> None:
    """All stored games and seeds, in as many processes as there are."""
    from joblib import Parallel, delayed

    names = [stored.name for stored in stored_games()]
    lines: list[dict[str, Any]] = [] if anew else kept().get(RUNS, [])
    missing = sorted(set(range(seeds)) - {line["seed"] for line in lines})
    with Parallel(n_jobs=int(os.environ.get("JOBS", "-1"))) as workers:
        for seed in missing:  # kept after each, so that a run cut short is worth its time
            runs = workers(delayed(one_run)(name, seed) for name in names)
            lines += [line for run in runs for line in run]
            keep(RUNS, lines)
            tell(names, lines)
    tell(names, lines)


def tell(names: list[str], lines: list[dict[str, Any]]) -> None:
    """Print and keep the table of all runs so far."""
    seeds = len({line["seed"] for line in lines})
    table = []
    for name in names:
        for index in INDICES:
            own = [x for x in lines if (x["game"], x["index"]) == (name, index)]
            sampling = np.mean([x["sampling"] for x in own], axis=0).min()
            table.append(
                {
                    "game": name,
                    "index": index,
                    "gp": float(f"{np.mean([x['gp'] for x in own]):.3g}"),
                    "antithetic sampling": float(f"{sampling:.3g}"),
                    "95% intervals that hold, %": round(100 * np.mean([x["held"] for x in own]), 1),
                }
            )
            print(*table[-1].values())
    weights = [x["pairs"] for x in lines]
    pooled = float(np.average([x["held"] for x in lines], weights=weights))
    print(f"{seeds} seeds; {100 * pooled:.1f}% of all 95% intervals hold")
    better = all(line["gp"] < line["antithetic sampling"] for line in table)
    print("gp is better on every game and index" if better else "gp is NOT better everywhere")
    keep(
        "gp at 2I², relative mean squared error",
        {"seeds": seeds, "intervals that hold, %": round(100 * pooled, 1), "games": table},
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["shapiq"]:
        beside_shapiq()
    elif sys.argv[1:2] == ["gp"]:
        numbers = [int(word) for word in sys.argv[2:] if word.isdigit()]
        beside_sampling(numbers[0] if numbers else 20, anew="--anew" in sys.argv)
    else:
        sys.exit(__doc__)
