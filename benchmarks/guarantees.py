"""Speed of closed forms, tightness of every bound, and where the paper's stated form breaks.

python benchmarks/guarantees.py [speed] [tightness] [violations]

Tables on stdout, figures in benchmarks/results/guarantees.json.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import dushapley as ds
from dushapley import guarantees as gu
from dushapley.games import rational
from dushapley.games.size import closed_forms as du_closed
from dushapley.games.size import exact as size_values
from size_vectors import KINDS, enumerated, trials

RESULTS = Path(__file__).parent / "results" / "guarantees.json"
FORMS = ("certificate", "repaired", "lemma", "stated")


def cpu(function: Callable[[], object], repeats: int = 3) -> float:
    """CPU seconds, best of three."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def table(title: str, header: list[str], rows: list[list[object]]) -> None:
    print(f"\n### {title}\n\n| {' | '.join(header)} |\n|{'---|' * len(header)}")
    for row in rows:
        print("| " + " | ".join(f"{x:.4g}" if isinstance(x, float) else str(x) for x in row) + " |")


def convolved(sizes: np.ndarray, owner: int, w: Callable, nodes: int) -> float:
    """The value of one owner by a bare loop: the law of the others, owner by owner."""
    t, weight = np.polynomial.legendre.leggauss(nodes)
    y, value = np.arange(sizes.sum() + 1), 0.0
    added = w(y + sizes[owner]) - w(y)
    for node, part in zip((1 + t) / 2, weight / 2, strict=True):
        law, reach = np.zeros(len(y)), 1
        law[0] = 1.0
        for size in np.delete(sizes, owner):
            new = law[:reach] * node
            law[:reach] *= 1 - node
            law[size : size + reach] += new
            reach += size
        value += part * float(law @ added)
    return value


def speed() -> list[list[object]]:
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 1001, 1000)
    w = rational(10_000.0)
    game = ds.SizeGame(sizes, w)
    exact = ds.value(game, "exact").values
    seconds = cpu(lambda: ds.value(game, "exact"))
    start = time.process_time()
    one = convolved(sizes, 0, w, 64)
    loop = time.process_time() - start
    off = abs(exact[0] / one - 1)
    rows: list[list[object]] = [
        ["exact, 1,000 owners, sizes to 1,000", seconds, f"{off:.1e} (one owner, bare loop)"],
        ["bare loop of convolutions, one owner, 64 nodes", loop, "reference"],
    ]
    border = size_values.MIDDLE_BEGINS
    size_values.MIDDLE_BEGINS = 120.0
    other = ds.value(game, "exact").values
    size_values.MIDDLE_BEGINS = border
    rows[0][2] = f"{rows[0][2]}; {np.abs(other / exact - 1).max():.1e} (all, other border)"
    budget = 999 * 2000 + 2
    start = time.process_time()
    sampled = ds.value(game, "permutation", budget=budget).values
    spent = time.process_time() - start
    rows.append(
        ["permutation sampling, 2,000 walks", spent, f"{np.abs(sampled / exact - 1).max():.1e}"]
    )

    twenty = ds.SizeGame(sizes[:18], rational(500.0))
    every = ds.value(twenty, "exact", options={"by": "enumeration"}).values
    gap = np.abs(ds.value(twenty, "exact").values - every).max()
    rows.append(
        ["exact, 18 owners, formula", cpu(lambda: ds.value(twenty, "exact")), f"{gap:.1e} abs."]
    )
    seconds = cpu(lambda: ds.value(twenty, "exact", options={"by": "enumeration"}))
    rows.append(["exact, 18 owners, enumeration", seconds, "reference"])

    many = rng.integers(1, 1001, 1_000_000).astype(float)
    curve = rational(1e6)
    values, error = du_closed.du_values(many, curve)
    million = ds.SizeGame(many, curve)
    rows.append(
        [
            "du, 1,000,000 owners, values",
            cpu(lambda: du_closed.du_values(many, curve)),
            f"{error / values.min():.1e} checked numerically",
        ]
    )
    rows.append(["du, 1,000,000 owners, ds.value", cpu(lambda: ds.value(million, "du")), "same"])
    own = np.unique(many)[:10]
    shares = np.linspace(0, 1, len(many))
    start = time.process_time()
    others, each = many.sum() - own, np.full(len(many), 1 / len(many))
    direct = du_closed.weighted_sum(own, others, curve, shares, each)
    loop = (time.process_time() - start) * len(np.unique(many)) / len(own)
    ruled = np.array([values[np.flatnonzero(many == size)[0]] for size in own])
    rows.append(
        [
            "bare sum over all k (10 of 1,000 sizes timed, ×100)",
            loop,
            f"{np.abs(direct / ruled - 1).max():.1e} off",
        ]
    )
    return rows


def bounds(game: ds.SizeGame) -> dict[str, np.ndarray]:
    found = {form: gu.theorem2(game, form).bound for form in FORMS[1:]}
    return {"certificate": gu.certificate(game).bound, **found}


def tightness(draws: int = 20) -> list[list[object]]:
    """The paper's own setting: n_i ~ U[100], w(n) = 1 − 10^k/(10^k + n)."""
    rows: list[list[object]] = []
    for n in (10, 20, 100, 1000):
        rng = np.random.default_rng(n)
        ratios: dict[str, list[float]] = {form: [] for form in FORMS}
        gains = []
        for _ in range(draws if n <= 100 else 3):
            sizes = rng.integers(1, 101, n)
            game = ds.SizeGame(sizes, rational(10 ** (np.floor(np.log10(sizes.sum())) - 1)))
            exact = ds.value(game, "exact").values
            error = np.abs(ds.value(game, "du").values - exact)
            second = ds.value(game, "du-second-order").values - exact
            gains.append((np.mean(error**2), np.mean(second**2)))
            for form, bound in bounds(game).items():
                ratios[form] += (bound / error).tolist()
        first, second_mse = np.mean(gains, axis=0)
        medians = [float(np.median(ratios[form])) for form in FORMS]
        rows.append([n, *medians, float(first / second_mse)])
    return rows


def violations(number: int = 5_500) -> tuple[list[list[object]], list[list[object]]]:
    """Every bound on random and adversarial sizes: how often violated, how tight otherwise."""
    counts = {kind: dict.fromkeys(FORMS, 0) for kind in KINDS}
    ratios: dict[str, list[float]] = {form: [] for form in FORMS}
    worst: list[tuple[float, list[object]]] = []
    for trial in trials(number):
        game = ds.SizeGame(trial.sizes, trial.curve)
        exact = enumerated(trial.sizes, trial.curve)
        du = ds.value(game, "du")
        error = np.abs(du.values - exact)
        stated = {form: gu.theorem2(game, form).bound for form in FORMS[1:]}
        for form, bound in {"certificate": np.array(du.guarantee["bound"]), **stated}.items():
            counts[trial.kind][form] += bool((error > bound).any())
            real = error > 1e-9 * np.abs(exact)
            ratios[form] += (bound[real] / error[real]).tolist()
            if form == "stated" and (error > bound).any():
                i = int(np.argmax(error / bound))
                sizes = " ".join(f"{s:.3g}" for s in np.sort(np.delete(trial.sizes, i)))
                row = [
                    trial.kind,
                    trial.curve.name,
                    sizes,
                    f"{trial.sizes[i]:.3g}",
                    float(error[i]),
                    float(bound[i]),
                ]
                worst.append((float(error[i] / bound[i]), row))
    tried = number // len(KINDS)
    rows = [[kind, tried, *counts[kind].values()] for kind in KINDS]
    rows.append(["all", number, *(sum(c[form] for c in counts.values()) for form in FORMS)])
    quantiles = [["median bound/error", "", *(float(np.median(ratios[f])) for f in FORMS)]]
    worst.sort(key=lambda pair: -pair[0])
    seen, listed = set(), []
    for _, row in worst:
        if row[0] not in seen:
            seen.add(row[0])
            listed.append(row)
    return rows + quantiles, listed


def show_speed() -> dict[str, object]:
    rows = speed()
    table("Speed (CPU seconds, best of three)", ["what", "seconds", "relative error"], rows)
    return {"speed": rows}


def show_tightness() -> dict[str, object]:
    rows = tightness()
    header = ["owners", *(f"{form}/error" for form in FORMS), "MSE of du / du-second-order"]
    table("How tight: median of bound over true error, the paper's setting", header, rows)
    return {"tightness": rows}


def show_violations() -> dict[str, object]:
    rows, worst = violations()
    table("Violations on random and adversarial sizes", ["sizes", "games", *FORMS], rows)
    header = ["sizes", "curve", "others", "owner", "error", "stated bound"]
    table("Worst violations of the stated form, one per kind", header, worst)
    return {"violations": rows, "worst": worst}


SHOWS = {"speed": show_speed, "tightness": show_tightness, "violations": show_violations}


def main(names: list[str]) -> None:
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in names or SHOWS:
        results |= SHOWS[name]()
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
