"""Owner-level KNN-Shapley: time per test point, and how far summed point values are from it.

The bare loop counts subsets of owners with Python integers, row by row, as the formula is written.
Run: python benchmarks/knn.py
"""

from __future__ import annotations

from math import comb

import numpy as np

import dushapley as ds
from dushapley.games.knn import knn_values
from tables import best_cpu_seconds, markdown, save


def random_owners(seed: int, n_owners: int, rows: int) -> tuple[ds.Owners, np.ndarray, np.ndarray]:
    """Owners of equally many random rows of two classes, and 64 test points."""
    rng = np.random.default_rng(seed)
    each = rows // n_owners
    blocks = {
        str(i): (rng.normal(size=(each, 8)), rng.integers(0, 2, each)) for i in range(n_owners)
    }
    return ds.Owners.from_arrays(blocks), rng.normal(size=(64, 8)), rng.integers(0, 2, 64)


def bare_loop(owners: ds.Owners, point: np.ndarray, label: int, k: int) -> np.ndarray:
    """One test point, one row at a time."""
    n_owners = len(owners)
    rows = [
        (x, y, j) for j in range(n_owners) for x, y in zip(owners.X[j], owners.y[j], strict=True)
    ]
    rows.sort(key=lambda row: float(((row[0] - point) ** 2).sum()))
    nearer = [0] * n_owners
    values = np.zeros(n_owners)
    for _, y, own in rows:
        if nearer[own] < k and y == label:
            cap = k - 1 - nearer[own]
            others = [m for m in range(n_owners) if m != own and nearer[m]]
            active = [m for m in others if nearer[m] <= cap]
            n = 1 + len(others)
            counts = subsets([nearer[m] for m in active], k)
            for (r, t), number in counts.items():
                if t <= cap:
                    values[own] += number / (n * comb(n - 1, r))
                    for m in set(others) - set(active):
                        values[m] -= number / (n * comb(n - 1, r + 1))
            for m in active:
                rest = subsets([nearer[o] for o in active if o != m], k)
                for (r, t), number in rest.items():
                    if cap - nearer[m] < t <= cap:
                        values[m] -= number / (n * comb(n - 1, r + 1))
        nearer[own] += 1
    return values / k


def subsets(weights: list[int], k: int) -> dict[tuple[int, int], int]:
    """How many subsets there are of each size and total weight below k."""
    counts = {(0, 0): 1}
    for weight in weights:
        for (r, t), number in list(counts.items()):
            if t + weight < k:
                key = (r + 1, t + weight)
                counts[key] = counts.get(key, 0) + number
    return counts


def summed_points(owners: ds.Owners, X: np.ndarray, y: np.ndarray, k: int) -> np.ndarray:
    """Every row its own owner; values added up by owner."""
    rows = {
        f"{j} {r}": (owners.X[j][r : r + 1], owners.y[j][r : r + 1])
        for j in range(len(owners))
        for r in range(len(owners.X[j]))
    }
    points = knn_values(ds.Owners.from_arrays(rows), X, y, k)
    return np.add.reduceat(points, np.cumsum([0, *owners.sizes[:-1].astype(int)]))


def main() -> None:
    timing, stored = [], {}
    for n_owners, rows, k in [(20, 1000, 10), (20, 1000, 5), (50, 1000, 10)]:
        owners, X, y = random_owners(0, n_owners, rows)
        ours = best_cpu_seconds(lambda o=owners, a=X, b=y, k=k: knn_values(o, a, b, k)) / len(X)
        loop = best_cpu_seconds(lambda o=owners, a=X, b=y, k=k: bare_loop(o, a[0], b[0], k), 1)
        same = np.abs(knn_values(owners, X[:1], y[:1], k) - bare_loop(owners, X[0], y[0], k)).max()
        timing.append(
            [f"{n_owners}", f"{rows:,}", f"{k}", f"{1e3 * ours:.2f}", f"{1e3 * loop:.0f}"]
        )
        timing[-1].append(f"{same:.0e}")
        stored[f"{n_owners} owners, {rows} rows, K={k}"] = {"ms": 1e3 * ours, "loop_ms": 1e3 * loop}
    header = ["owners", "rows", "K", "ms a test point", "bare loop, ms", "largest difference"]
    print(markdown(header, timing))
    gaps = []
    for seed in range(50):
        owners, X, y = random_owners(seed, 5, 50)
        exact = knn_values(owners, X[:1], y[:1], 5)
        summed = summed_points(owners, X[:1], y[:1], 5)
        gaps.append((np.abs(exact - summed).max(), np.corrcoef(exact, summed)[0, 1], exact.sum()))
    largest, correlation, total = np.mean(gaps, axis=0)
    print(
        f"\nSumming point values over owners (5 owners, 50 rows, K=5, 50 games of one test point): "
        f"largest error {largest:.3f} on average, of values that add up to {total:.2f}; "
        f"correlation {correlation:.2f}."
    )
    stored["summed points"] = {"largest error": largest, "correlation": correlation}
    save("knn", stored)


if __name__ == "__main__":
    main()
