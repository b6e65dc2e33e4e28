"""Forms of `kernel` beside shapiq's KernelSHAP at small budgets (needs shapiq).

Relative mean squared errors on the stored games (DUSHAPLEY_DATA) and a size game, over the seeds
named on the command line (default 40). Run: python benchmarks/kernel_forms.py [SEEDS]
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import numpy as np
from shapiq.approximator import KernelSHAP

import dushapley as ds
from stored_games import stored_games

BUDGETS = {"6I": lambda n: 6 * n, "2I²": lambda n: 2 * n**2}
FORMS = {
    f"{form}, {weights}": {"form": form, "weights": weights}
    for form in ("paired", "unpaired")
    for weights in ("sizes", "draws")
}


def games() -> list[tuple[str, ds.Game, np.ndarray]]:
    size = ds.SizeGame(np.random.default_rng(0).integers(1, 1000, 12), lambda n: n / (n + 1000))
    stored = [(stored.name, stored.game, stored.exact) for stored in stored_games()]
    return [*stored, ("size-12", size, ds.value(size, "exact").values)]


def theirs(game: ds.Game, budget: int, seed: int, *, paired: bool) -> np.ndarray:
    """Values by shapiq."""
    n = game.n_players
    sampler = KernelSHAP(n, pairing_trick=paired, random_state=seed)
    found = sampler.approximate(budget, lambda z: game(np.atleast_2d(z).astype(bool)))
    return np.array([found.dict_values.get((i,), 0.0) for i in range(n)])


def main(seeds: int) -> None:
    warnings.simplefilter("ignore")
    table = []
    for name, game, exact in games():
        for label, budget in BUDGETS.items():
            asked = budget(game.n_players)
            line: dict[str, object] = {"game": name, "budget": label}
            for form, options in FORMS.items():
                runs = [
                    ds.value(game, "kernel", options=options, budget=asked, seed=s).values
                    for s in range(seeds)
                ]
                line[form] = float(f"{np.mean((np.array(runs) - exact) ** 2) / exact.var():.3g}")
            for form in ("paired", "unpaired"):
                runs = [theirs(game, asked, s, paired=form == "paired") for s in range(seeds)]
                error = np.mean((np.array(runs) - exact) ** 2) / exact.var()
                line[f"shapiq, {form}"] = float(f"{error:.3g}")
            print(*line.values(), flush=True)
            table.append(line)
    store = Path(__file__).parent / "results" / "kernel_forms.json"
    kept = {"seeds": seeds, "relative mean squared errors": table}
    store.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
