"""Figure 1, both versions: how uniform the pool of a random coalition is."""

from __future__ import annotations

import numpy as np

from dushapley.arrays import FloatArray
from dushapley.games.size.regression import effective_rows
from dushapley.guarantees.uniformity import distance_to_uniform
from dushapley_paper.experiment import (
    ClaimVerdict,
    Experiment,
    Figure,
    Profile,
    Result,
    Sheet,
    short,
)

OWNERS = (10, 50, 500)
BINS = 50
MOST_AT_ONCE = 20_000_000
"""Entries of the coalition matrix held at a time."""


def run(profile: Profile, seed: int) -> Result:
    """Draw coalitions as the Shapley value does, and compare q(S)/q(I) with the uniform law."""
    quick = profile == "quick"
    draws = {"final": 2_000 if quick else 10_000, "older": 2_000 if quick else 100_000}
    return {
        version: [panel(version, n, count, seed) for n in OWNERS]
        for version, count in draws.items()
    }


def panel(version: str, n_owners: int, draws: int, seed: int) -> Result:
    """One histogram: sizes from 1..100; the final version has γ from 1..10, the older one γ = 1.

    The older version leaves one owner out; the final one draws from all.
    """
    rng = np.random.default_rng([seed, n_owners, version == "final"])
    sizes = rng.integers(1, 101, n_owners).astype(np.float64)
    if version == "final":
        gamma = rng.integers(1, 11, n_owners).astype(np.float64)
    else:
        sizes, gamma = sizes[:-1], np.ones(n_owners - 1)
    shares = pool_shares(rng, sizes, gamma, draws)
    counts, _ = np.histogram(shares, BINS, (0.0, 1.0))
    return {
        "owners": n_owners,
        "draws": draws,
        "density": (counts * BINS / draws).round(4).tolist(),
        "distance": distance_to_uniform(shares),
        "noise": 1.36 / np.sqrt(draws),
    }


def pool_shares(
    rng: np.random.Generator, sizes: FloatArray, gamma: FloatArray, draws: int
) -> FloatArray:
    """q(S)/q(I) for coalitions S: first a size, uniform on 0..m, then who."""
    m = len(sizes)
    whole = effective_rows(sizes[None, :], gamma)[0]
    parts, at_once = [], max(1, MOST_AT_ONCE // m)
    for start in range(0, draws, at_once):
        some = min(at_once, draws - start)
        ranks = rng.permuted(np.tile(np.arange(m), (some, 1)), axis=1)
        inside = ranks < rng.integers(0, m + 1, some)[:, None]
        parts.append(effective_rows(inside * sizes, gamma) / whole)
    return np.concatenate(parts)


def claims(result: Result) -> list[ClaimVerdict]:
    """The law tends to the uniform one as owners grow in number."""
    verdicts = []
    for version, panels in result.items():
        distances = [p["distance"] for p in panels]
        falling = distances[0] > distances[1] > distances[2]
        close = distances[2] <= 2 * panels[2]["noise"] + 1 / panels[2]["owners"]
        verdicts.append(
            ClaimVerdict(
                f"q(S)/q(I) tends to the uniform law (Theorem 1, {version} version's figure)",
                "holds" if falling and close else "holds weaker" if falling else "does not hold",
                "distance to uniform "
                + ", ".join(f"{short(p['distance'])} at I={p['owners']}" for p in panels)
                + f"; sampling noise {short(panels[2]['noise'])}",
            )
        )
    return verdicts


def sheets(result: Result) -> list[Sheet]:
    """Distances to the uniform law."""
    rows = [
        (version, str(p["owners"]), f"{p['draws']:,}", short(p["distance"]), short(p["noise"]))
        for version, panels in result.items()
        for p in panels
    ]
    header = ("version", "I", "draws", "distance to uniform", "95% of noise alone")
    return [
        Sheet("Kolmogorov–Smirnov distance (the paper shows histograms only)", header, tuple(rows))
    ]


def draw(result: Result) -> Figure:
    """Histograms: versions from top to bottom, I = 10, 50, 500 from left to right."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(10, 5), sharex=True, layout="constrained")
    edges = np.arange(BINS) / BINS
    for row, (version, panels) in zip(axes, result.items(), strict=True):
        for ax, p in zip(row, panels, strict=True):
            ax.bar(edges, p["density"], width=1 / BINS, align="edge", color="#2f6fb2")
            ax.axhline(1, color="#222222", linewidth=0.8)
            ax.set_title(f"{version} version, I = {p['owners']}", fontsize=9)
    axes[1][1].set_xlabel("share of all (effective) rows in a random coalition")
    axes[0][0].set_ylabel("density")
    return figure


EXPERIMENT = Experiment(
    name="figure-1",
    title="The pool of a random coalition tends to a uniform share of all rows",
    place="Figure 1 (final and older version), Theorem 1",
    run=run,
    claims=claims,
    sheets=sheets,
    draw=draw,
    settings=(
        "U([100]) and U([10]) are read as whole numbers from 1.",
        "Final version: K uniform on 0..I, all owners; older: one owner left out, γ = 1.",
        "It holds if the distance falls with every step and ends within twice the sampling noise "
        "plus 1/I, the weight of the two smallest pools. Draws are as many as in the paper.",
    ),
)
