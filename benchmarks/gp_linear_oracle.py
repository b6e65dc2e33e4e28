"""How near is `gp` to an oracle that knows the covariance of its very kind of game?

    python benchmarks/gp_linear_oracle.py [GAMES] [PROCESSES]

Of each kind of game (data, model, score, kind of owners; ten owners of fixed sizes) GAMES tables
are made, each from other rows. An oracle has seen all of them but two hundred: it knows their mean
and their covariance, picks pools greedily under it, and predicts the rest by the linear map of the
answers that is best under it (kriging). It is also told the scale of every game. `gp` is told
nothing but the owners' sizes, and learns the game from its own answers, as any estimator must.

A covariance from so many tables is itself uncertain, above all at 2I², so the oracle may blend it
with the mean of those that `gp` fits to games of the kind; the blend is chosen on a hundred of the
games left out, and both are measured on the other hundred. Being linear, the oracle is no bound for
estimators that adapt to a game, as `gp` does: where games of a kind differ much, it loses.
"""

from __future__ import annotations

import hashlib
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np

import dushapley as ds
from complete_games import FOLDER, dealt, utilities
from dushapley.estimators.exact import bits
from dushapley.estimators.gp import kernel, study
from dushapley.estimators.gp.fit import Observed, fit
from dushapley.estimators.gp.functional import exact_weights
from tables import load, markdown, save

OWNERS, LEFT_OUT, FITTED = 10, 100, 16
"""Owners of a game, games that choose the blend and as many that are measured, processes fitted."""
KINDS = (
    "housing/ridge/r2/iid", "housing/ridge/r2/shifted", "year/ridge/rmse/mislabelled",
    "year/descent/r2/iid", "imdb/bayes/accuracy/iid", "bank/bayes/logloss/skewed",
    "year/boosting/r2/iid", "adult/logistic/accuracy/mislabelled", "cifar/logistic/logloss/iid",
)  # fmt: skip
BUDGETS = {"6I": 6 * OWNERS, "2I²": 2 * OWNERS**2}
BLENDS = (0.0, 0.5, 0.8, 0.95, 0.99, 1.0)
"""Part of the oracle's covariance that comes from tables, the rest from fitted processes."""
POOLS = bits(np.arange(1, 2**OWNERS), OWNERS)
WEIGHTS = exact_weights(POOLS)


def sizes() -> np.ndarray:
    share = np.exp(np.linspace(0, 2, OWNERS))
    return np.rint(share / share.sum() * 700).astype(int)


def one_game(kind: str, seed: int) -> np.ndarray:
    """All utilities of a game of the kind; who is where in the order of the rows is drawn."""
    of, model, score, owners = kind.split("/")
    rng = np.random.default_rng([seed, *hashlib.sha256(kind.encode()).digest()[:8]])
    order = rng.permutation(OWNERS)
    rows = dealt(of, owners, OWNERS, rng, sizes()[order])
    rows = replace(rows, owner=np.repeat(order, sizes()[order]))
    return utilities(rows, model, score, rng)


def games(kind: str, count: int, pool: ProcessPoolExecutor) -> np.ndarray:
    path = FOLDER / f"oracle-{kind.replace('/', '-')}-{count}.npy"
    if not path.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        np.save(path, np.array(list(pool.map(partial(one_game, kind), range(count), chunksize=10))))
    return np.load(path)


def values(u: np.ndarray) -> np.ndarray:
    return u[..., 1:] @ WEIGHTS - u[..., :1] / OWNERS


def relative_mse(found: np.ndarray, u: np.ndarray) -> float:
    exact = values(u)
    return float(np.mean((found - exact) ** 2) / np.var(exact))


def fitted_covariance(u: np.ndarray) -> np.ndarray:
    """Covariance of all pools by the process fitted to a fifth of them, in units of the table."""
    asked = np.random.default_rng(0).permutation(len(POOLS))[: len(POOLS) // 5]
    asked = np.union1d(asked, np.flatnonzero(POOLS.sum(axis=1) == 1))
    observed = Observed(POOLS[asked], u[1:][asked], kernel.log_relative_sizes(sizes() * 1.0))
    theta = fit(observed, None, 60)
    hyper = kernel.natural(theta, OWNERS)
    weights = kernel.owner_weights(theta, observed.log_sizes)
    seen = kernel.view(POOLS, weights, kernel.strengths(theta, OWNERS))
    found = kernel.covariance(hyper, seen, seen) + np.diag(kernel.nugget(hyper, seen.owners))
    return found * (observed.scale / u[1:].std()) ** 2


def by_oracle(
    mean: np.ndarray, unseen: np.ndarray, budget: int, covariance: np.ndarray
) -> list[float]:
    """Relative MSE of each unseen game by the best linear map at pools chosen greedily."""
    jitter = np.full(len(POOLS), 1e-9 * float(np.diag(covariance).mean()))
    with_values = WEIGHTS.T @ covariance
    large = 1e6  # the greedy choice takes no variance for less than 1e-8
    asked = study.greedy(large * with_values, large * covariance, large * jitter, budget - 1)
    among = covariance[np.ix_(asked, asked)] + np.diag(jitter[asked])
    gain = np.linalg.solve(among, covariance[asked]).T
    found = []
    for u in unseen:
        scale = u[1:].std()
        believed = mean + gain @ (u[1:][asked] / scale - mean[asked])
        believed[asked] = u[1:][asked] / scale
        found.append(relative_mse(values(np.append(u[0], believed * scale)), u))
    return found


def by_gp(budget: int, task: tuple[int, np.ndarray]) -> float:
    seed, u = task
    return relative_mse(
        ds.value(ds.TableGame(u, sizes()), "gp", budget=budget, seed=seed).values, u
    )


def measured(kind: str, count: int, pool: ProcessPoolExecutor) -> dict:
    u = games(kind, count, pool)
    known, others, unseen = u[: -2 * LEFT_OUT], u[-2 * LEFT_OUT : -LEFT_OUT], u[-LEFT_OUT:]
    tables = known[:, 1:] / known[:, 1:].std(axis=1, keepdims=True)
    mean, spread = tables.mean(axis=0), np.cov(tables, rowvar=False)
    fitted = np.mean(list(pool.map(fitted_covariance, known[:FITTED])), axis=0)
    covariances = {part: part * spread + (1 - part) * fitted for part in BLENDS}
    found = {}
    for name, budget in BUDGETS.items():
        own = list(pool.map(partial(by_gp, budget), enumerate(unseen)))
        tried = pool.map(partial(by_oracle, mean, others, budget), covariances.values())
        logs = [np.log(errors).mean() for errors in tried]
        part = BLENDS[int(np.argmin(logs))]
        oracle = by_oracle(mean, unseen, budget, covariances[part])
        apart = np.log(oracle) - np.log(own)
        found[name] = {
            "gp": float(f"{np.exp(np.log(own).mean()):.4g}"),
            "oracle": float(f"{np.exp(np.log(oracle).mean()):.4g}"),
            "ratio": round(float(np.exp(apart.mean())), 3),
            "error": round(float(np.exp(apart.mean()) * apart.std(ddof=1) / len(apart) ** 0.5), 3),
            "ratio of means": round(float(np.mean(oracle) / np.mean(own)), 3),
            "from tables": part,
        }
    return found


def main() -> None:
    if len(sys.argv) > 1:
        count, processes = int(sys.argv[1]), int((sys.argv[2:] or ["1"])[0])
        with ProcessPoolExecutor(processes) as pool:
            for kind in KINDS:
                made = load("gp_linear_oracle") | {kind: measured(kind, count, pool)}
                save("gp_linear_oracle", made | {"games": count})
                print(kind, made[kind], flush=True)
    found = load("gp_linear_oracle")
    kinds = [kind for kind in KINDS if kind in found]
    shown = ("gp", "oracle", "ratio")
    lines = [[kind, *(f"{found[kind][b][k]}" for b in BUDGETS for k in shown)] for kind in kinds]
    means = [np.exp(np.mean([np.log(found[kind][b]["ratio"]) for kind in kinds])) for b in BUDGETS]
    lines.append(["geometric mean", *(c for m in means for c in ("", "", f"{m:.2f}"))])
    head = [f"{b}, {what}" for b in BUDGETS for what in ("gp", "oracle", "oracle / gp")]
    print(markdown(["kind", *head], lines))


if __name__ == "__main__":
    main()
