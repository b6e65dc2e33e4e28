"""Figures of docs/guarantees.md and docs/privacy.md, written to docs/images/.

python benchmarks/guarantee_figures.py [bounds] [theorem1] [convergence] [privacy]
"""

from __future__ import annotations

import sys
from itertools import product
from math import comb
from pathlib import Path

import matplotlib as mpl
import numpy as np

import dushapley as ds
from dushapley import guarantees as gu
from dushapley.games import mean_estimation, rational

mpl.use("Agg")
mpl.rcParams |= {
    "svg.hashsalt": "dushapley",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "font.size": 9,
    "legend.frameon": False,
}
import matplotlib.pyplot as plt  # noqa: E402

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"


def save(figure: plt.Figure, name: str) -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    figure.savefig(IMAGES / f"{name}.svg", metadata={"Date": None})
    plt.close(figure)


def paper_game(rng: np.random.Generator, n: int) -> ds.SizeGame:
    """The paper's setting: n_i ~ U[100], w(n) = 1 − 10^k/(10^k + n)."""
    sizes = rng.integers(1, 101, n)
    return ds.SizeGame(sizes, rational(10 ** (np.floor(np.log10(sizes.sum())) - 1)))


def draw_bounds() -> None:
    """True error of DU-Shapley against all bounds, I from 5 to 1,000."""
    owners = [5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000]
    rows: dict[str, list[float]] = {}
    for n in owners:
        found: dict[str, list[float]] = {}
        rng = np.random.default_rng(n)
        for _ in range(5 if n <= 100 else 2):
            game = paper_game(rng, n)
            exact = ds.value(game, "exact").values
            second = np.abs(ds.value(game, "du-second-order").values - exact)
            for name, values in {
                "true error of du": np.abs(ds.value(game, "du").values - exact),
                "true error of du-second-order": np.maximum(second, 1e-17),
                "certificate (proven)": gu.certificate(game).bound,
                "Theorem 2 as stated (false)": gu.theorem2(game, "stated").bound,
                "Theorem 2, its lemma's form": gu.theorem2(game, "lemma").bound,
                "Theorem 2 repaired (proven)": gu.theorem2(game, "repaired").bound,
                "older bound, ρ = 1": gu.older_bound(game).bound,
                "Monte Carlo at T = I, largest error": gu.permutation_error(n, 0.05, n, norm="max"),
                "mean value of an owner": exact,
            }.items():
                found.setdefault(name, []).append(float(np.mean(values)))
        for name, values in found.items():
            rows.setdefault(name, []).append(float(np.mean(values)))
    figure, ax = plt.subplots(figsize=(7.2, 4.6), layout="constrained")
    for name, values in rows.items():
        style = "-" if "true" in name or "proven" in name else "--"
        style = ":" if "value" in name or "Monte" in name else style
        ax.plot(
            owners, values, style, label=name, linewidth=2.2 if name == "true error of du" else 1.2
        )
    ax.set(
        xscale="log", yscale="log", xlabel="owners I", ylabel="mean over owners", ylim=(1e-10, None)
    )
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)
    save(figure, "du-error-bounds")


def draw_theorem1() -> None:
    """Both versions' Figure 1: the law of q(S)/q(all), I = 10, 50, 500."""
    figure, axes = plt.subplots(
        2, 3, figsize=(7.2, 4), sharex=True, sharey=True, layout="constrained"
    )
    for column, n in enumerate((10, 50, 500)):
        rng = np.random.default_rng(n)
        sizes = rng.integers(1, 101, n)
        gamma = rng.integers(1, 11, n)
        laws = {
            "γ ~ U[10]": gu.uniformity(sizes, gamma, draws=10_000),
            "sizes only, one owner left out": gu.uniformity(sizes, draws=100_000, left_out=n - 1),
        }
        for row, (name, law) in enumerate(laws.items()):
            ax = axes[row, column]
            ax.hist(
                np.clip(law.fractions, 0, 1), bins=40, range=(0, 1), density=True, color="#2f6fb2"
            )
            ax.axhline(1, color="#b2532f", linewidth=1)
            ax.set_title(f"I = {n}: distance {law.distance:.3f}", fontsize=9)
            if column == 0:
                ax.set_ylabel(name, fontsize=8)
            ax.set_ylim(0, 2.5)
    figure.supxlabel("q(S)/q(all)", fontsize=9)
    save(figure, "theorem-1")


def typed_values(game: ds.Game, each: int, kinds: int) -> np.ndarray:
    """Exact values where owners are of a few kinds, `each` of every kind, in turn.

    A coalition is worth what its numbers of each kind are worth, so (each + 1)^kinds pools suffice.
    """
    n = game.n_players
    states = np.array(list(product(range(each + 1), repeat=kinds)))
    rank = np.arange(n) // kinds
    pools = rank[None, :] < states[:, np.arange(n) % kinds]
    u = game(pools).reshape([each + 1] * kinds)
    values = np.zeros(kinds)
    for kind in range(kinds):
        room = [each - (k == kind) for k in range(kinds)]
        for state in product(*(range(r + 1) for r in room)):
            joined = list(state)
            joined[kind] += 1
            ways = np.prod([float(comb(r, s)) for r, s in zip(room, state, strict=True)])
            weight = ways / (n * comb(n - 1, sum(state)))
            values[kind] += weight * (u[tuple(joined)] - u[state])
    return values[np.arange(n) % kinds]


def draw_convergence() -> None:
    """Corollary 1 in the three use-cases: absolute error vanishes, relative error need not."""
    cases: dict[str, list[tuple[int, float, float]]] = {}
    for n in (6, 12, 24, 48, 96, 192, 384):
        rng = np.random.default_rng(n)
        sizes = rng.integers(1, 101, n)
        counts = rng.multinomial(20, np.full(8, 1 / 8), size=n) * rng.integers(1, 4, (n, 1))
        games = {
            "1 regressogram": ds.RegressogramGame(
                counts, np.full(8, 1 / 8), mean_estimation(4.0, 1.0)
            ),
            "2 homogeneous": ds.SizeGame(sizes, rational(1000.0)),
        }
        for name, game in games.items():
            cases.setdefault(name, []).append(errors(game, ds.value(game, "exact").values))
        if n <= 48:
            kinds = np.tile([[20, 1.0], [60, 0.5], [35, 2.0]], (n // 3, 1))
            game3 = ds.LinearRegressionGame(kinds[:, 0], kinds[:, 1], d=10)
            cases.setdefault("3 linear regression", []).append(
                errors(game3, typed_values(game3, n // 3, 3))
            )
    figure, axes = plt.subplots(1, 2, figsize=(7.2, 3), layout="constrained")
    for name, rows in cases.items():
        n, absolute, relative = zip(*rows, strict=True)
        axes[0].plot(n, absolute, "o-", label=name, markersize=3)
        axes[1].plot(n, relative, "o-", label=name, markersize=3)
    axes[0].set(xscale="log", yscale="log", xlabel="owners I", title="mean |du − Shapley value|")
    axes[1].set(xscale="log", yscale="log", xlabel="owners I", title="the same over the mean value")
    axes[0].legend(fontsize=8)
    save(figure, "convergence")


def errors(game: ds.Game, exact: np.ndarray) -> tuple[int, float, float]:
    off = float(np.mean(np.abs(ds.value(game, "du").values - exact)))
    return game.n_players, off, off / float(np.mean(np.abs(exact)))


def draw_privacy() -> None:
    """The worked example of docs/privacy.md."""
    sizes, d = np.array([60, 40, 80, 50, 70, 30]), 8
    noise = np.geomspace(0.25, 8, 25)
    figure, axes = plt.subplots(1, 2, figsize=(7.2, 3), layout="constrained", sharex=True)
    for form, ax in zip(("fixed-point", "paper"), axes, strict=True):
        values = []
        for eps in noise:
            gamma = np.ones(6)
            gamma[0] = 1 / eps
            values.append(
                ds.value(ds.LinearRegressionGame(sizes, gamma, d, form=form), "exact").values
            )
        found = np.array(values)
        ax.plot(
            noise, found[:, 0], color="#2f6fb2", linewidth=2, label="the owner itself (60 rows)"
        )
        ax.plot(noise, found[:, 1:].mean(axis=1), "--", color="#b2532f", label="mean of the others")
        ax.axvline(1, color="#999999", linewidth=0.8)
        ax.axhline(0, color="#222222", linewidth=0.8)
        ax.set(xscale="log", title=form, xlabel="noise ε of the owner (others: 1)")
        ax.set_xticks([0.25, 0.5, 1, 2, 4, 8], ["¼", "½", "1", "2", "4", "8"])
        ax.minorticks_off()
    axes[0].set_ylabel("Shapley value")
    axes[1].legend(loc="center", fontsize=8, frameon=True, framealpha=1, edgecolor="none")
    save(figure, "privacy")


FIGURES = {
    "privacy": draw_privacy,
    "theorem1": draw_theorem1,
    "convergence": draw_convergence,
    "bounds": draw_bounds,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or FIGURES:
        FIGURES[name]()
