"""Forms of `kernel` beside shapiq's KernelSHAP at small budgets (needs shapiq).

Relative mean squared errors on the stored games (DUSHAPLEY_DATA) and a size game, over the seeds
named on the command line (default 240), each with its standard error: forty seeds cannot show a
difference of a quarter. "behind" is by how many standard errors of the difference the best form of
ours is worse than the best of shapiq's. Where that is between −3 and 3 at 6I, the best form of each
is run again on 1,600 fresh seeds ("close"), since the best of several is flattered by its choice.
Run: python benchmarks/kernel_forms.py [SEEDS], or `close` to run close races of the stored table.
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

STORE = Path(__file__).parent / "results" / "kernel_forms.json"
BUDGETS = {"6I": lambda n: 6 * n, "2I²": lambda n: 2 * n**2}
FORMS = {
    f"{form}, {weights}": {"form": form, "weights": weights}
    for form in ("paired", "unpaired")
    for weights in ("sizes", "draws")
} | {"unbiased": {"form": "unbiased"}}


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


def measured(runs: list[np.ndarray], exact: np.ndarray) -> tuple[float, float]:
    """Mean over seeds of the relative squared error, and its standard error."""
    errors = ((np.array(runs) - exact) ** 2).mean(axis=1) / exact.var()
    return float(errors.mean()), float(errors.std(ddof=1) / len(errors) ** 0.5)


def ours(game: ds.Game, asked: int, form: str, seeds: range) -> list[np.ndarray]:
    """Values by one of our forms."""
    options = FORMS[form]
    return [ds.value(game, "kernel", options=options, budget=asked, seed=s).values for s in seeds]


def compared(game: ds.Game, exact: np.ndarray, asked: int, seeds: int) -> dict[str, object]:
    """All forms of both at one budget, as "mean ± standard error"."""
    own = {form: measured(ours(game, asked, form, range(seeds)), exact) for form in FORMS}
    others = {}
    for form in ("paired", "unpaired"):
        runs = [theirs(game, asked, s, paired=form == "paired") for s in range(seeds)]
        others[f"shapiq, {form}"] = measured(runs, exact)
    best, peer = (min(some, key=lambda name: some[name]) for some in (own, others))
    line = {name: f"{mean:.3g} ± {one:.1g}" for name, (mean, one) in (own | others).items()}
    return line | {"best": best, "theirs": peer, "behind": behind(own[best], others[peer])}


def behind(one: tuple[float, float], other: tuple[float, float]) -> float:
    """By how many standard errors of the difference the first is worse."""
    return round((one[0] - other[0]) / (one[1] ** 2 + other[1] ** 2) ** 0.5, 1)


def close_races() -> None:
    """Run the best forms of close races again, on seeds that did not choose them."""
    kept, fresh = json.loads(STORE.read_text("utf-8")), range(10_000, 11_600)
    for name, game, exact in games():
        for line in kept["relative mean squared errors"]:
            if (line["game"], line["budget"]) != (name, "6I") or abs(line["behind"]) > 3:
                continue
            asked, paired = 6 * game.n_players, line["theirs"] == "shapiq, paired"
            one = measured(ours(game, asked, line["best"], fresh), exact)
            other = measured([theirs(game, asked, s, paired=paired) for s in fresh], exact)
            told = [f"{mean:.3g} ± {spread:.1g}" for mean, spread in (one, other)]
            line["close"] = {"ours": told[0], "shapiq": told[1], "behind": behind(one, other)}
            print(name, line["close"], flush=True)
    STORE.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main(seeds: int) -> None:
    """All games at both budgets; lines that are stored for as many seeds are not run again."""
    kept = json.loads(STORE.read_text("utf-8")) if STORE.exists() else {}
    table = kept["relative mean squared errors"] if kept.get("seeds") == seeds else []
    known = {(line["game"], line["budget"]) for line in table}
    for label, budget in BUDGETS.items():
        for name, game, exact in games():
            if (name, label) in known:
                continue
            line = compared(game, exact, budget(game.n_players), seeds)
            table.append({"game": name, "budget": label} | line)
            print(*table[-1].values(), sep=" | ", flush=True)
            kept = {"seeds": seeds, "relative mean squared errors": table}
            text = json.dumps(kept, indent=1, ensure_ascii=False)
            STORE.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if sys.argv[1:2] != ["close"]:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 240)
    close_races()
