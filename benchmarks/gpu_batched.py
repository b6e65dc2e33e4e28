"""Trainings by the million on one GPU: every coalition of adult, and a small MLP 20,000 times.

    python benchmarks/prepare_adult.py                    (once, where the data is)
    python benchmarks/gpu_batched.py [--small] [--json FILE]

Needs NumPy and torch only; the package need not be installed. `--small` is the same program at a
size that any CPU can run. Every time is wall-clock after a warm-up, uploads and scoring included.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
import types
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import comb
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).resolve().parent.parent
if "dushapley" not in sys.modules:  # the package's rooms without its front door and dependencies
    rooms = ["dushapley", "games", "model", "batched"]
    for depth in range(1, len(rooms) + 1):
        name = ".".join(rooms[:depth])
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = [str(ROOT.joinpath("src", *rooms[:depth]))]

from dushapley.games.model.batched import program  # noqa: E402
from dushapley.games.model.batched.arithmetic import Arithmetic, arithmetic  # noqa: E402
from dushapley.games.model.batched.program import Judge, Program, Trained  # noqa: E402
from dushapley.games.model.batched.recipe import Membership, Recipe, memberships  # noqa: E402


def adult(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    with np.load(path, allow_pickle=False) as file:
        X = np.hstack([file["numeric"], file["dummies"].astype(np.float32)])
        y, n = file["y"].astype(np.int64), int(file["n_train"])
    return X[:n], y[:n], X[n:], y[n:]


def wait() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


class Adult:
    """Twenty owners of adult, equal in size, one in five with half of its labels flipped."""

    def __init__(self, path: Path, n_owners: int, n_rows: int | None) -> None:
        X, y, self.X_test, self.y_test = adult(path)
        rng = np.random.default_rng(1)
        blocks = np.array_split(np.arange(len(X))[:n_rows], n_owners)
        self.X = [X[b] for b in blocks]
        self.y = [y[b] for b in blocks]
        for j in range(0, n_owners, 5):
            flip = rng.random(len(self.y[j])) < 0.5
            self.y[j] = np.where(flip, 1 - self.y[j], self.y[j])
        self.sizes = np.array([len(b) for b in blocks])
        self.n_owners = n_owners

    def judge(self, numbers: Arithmetic) -> Judge:
        order = list(range(self.n_owners))
        trainer = Program(Recipe(), self.X, self.y, [0, 1], numbers, order)
        return Judge(trainer, self.X_test, self.y_test)

    def held(self, coalitions: np.ndarray) -> list[Membership]:
        counts = np.empty((self.n_owners, len(coalitions)), dtype=np.int32)
        for j, size in enumerate(self.sizes):
            counts[j] = ((coalitions >> j) & 1) * size
        return memberships(counts.T, self.sizes, None, never, list(range(self.n_owners)))

    def utilities(self, judge: Judge, coalitions: np.ndarray, block: int) -> np.ndarray:
        hits = []
        for start in range(0, len(coalitions), block):
            part = coalitions[start : start + block]
            hits.append(judge.hits(judge.program.train(len(part), self.held(part))))
        return np.concatenate([judge.numbers.to_numpy(h) for h in hits]) / judge.n_rows


def never(*_: object) -> slice:
    raise AssertionError("coalitions hold whole owners")


def shapley(utilities: np.ndarray, n: int) -> np.ndarray:
    """Exact Shapley values of a table of all 2^n utilities, bit i of the index = owner i."""
    index = np.arange(len(utilities))
    size = sum(((index >> i) & 1).astype(np.int8) for i in range(n))
    outside = np.array([1 / (n * comb(n - 1, s)) for s in range(n)] + [0.0])
    inside = np.append(0.0, outside[:-1])
    both = utilities * (inside + outside)[size]
    with_i = [both.reshape(-1, 2, 2**i)[:, 1].sum() for i in range(n)]
    return np.array(with_i) - utilities @ outside[size]


def every_coalition(data: Adult, numbers: Arithmetic, block: int) -> tuple[float, np.ndarray]:
    """Seconds for all 2^I trainings and the exact values, and the utilities."""
    judge = data.judge(numbers)
    everything = np.arange(2**data.n_owners)
    data.utilities(judge, everything[-min(block, len(everything)) :], block)  # warm-up
    start = wait()
    utilities = data.utilities(judge, everything, block)
    shapley(utilities, data.n_owners)
    return wait() - start, utilities


def same_bits(data: Adult, numbers: Arithmetic, n_pools: int) -> bool:
    """Whether weights are equal to the last bit in other company and in another place."""
    trainer = data.judge(numbers).program
    rng = np.random.default_rng(2)
    pools = rng.integers(1, 2**data.n_owners, n_pools)
    order = rng.permutation(n_pools)
    one = trainer.train(n_pools, data.held(pools)).weights[0]
    two = trainer.train(n_pools, data.held(pools[order])).weights[0]
    few = trainer.train(n_pools // 3, data.held(pools[: n_pools // 3])).weights[0]
    one, two, few = (numbers.to_numpy(w) for w in (one, two, few))
    return bool(np.array_equal(one[order], two) and np.array_equal(one[: len(few)], few))


def ways(args: argparse.Namespace, device: str) -> list[tuple[str, int, str]]:
    """Precision, tile and way: by the tensor program, or by fused kernels where there are any."""
    if device == "cpu":
        return [("float32", tile, f"program, tile {tile}") for tile in args.tiles]
    by_program = [
        (precision, tile, f"program, tile {tile}")
        for precision in ("float32", "tf32", "float16")
        for tile in args.tiles
    ]
    return by_program + [(precision, 8192, "fused") for precision in ("tf32", "float16")]


@contextmanager
def going_by(way: str) -> Iterator[None]:
    """Take the fused kernels, or leave them aside."""
    usual = program.fused_step
    program.fused_step = usual if way == "fused" else lambda *_: None
    try:
        yield
    finally:
        program.fused_step = usual


def report_adult(args: argparse.Namespace, device: str) -> list[dict[str, object]]:
    data = Adult(args.data, args.owners, 4000 if args.small else None)
    n = 2**args.owners
    double = replace(arithmetic("torch", "float64", device))
    seconds, truth = every_coalition(data, double, min(args.block, n))
    values = shapley(truth, args.owners)
    sample = np.random.default_rng(3).integers(0, n, 96)
    judge = data.judge(arithmetic("numpy", "float64"))
    on_cpu = data.utilities(judge, sample, 96)
    print(
        f"float64 on the device against NumPy float64, 96 pools: largest difference in accuracy "
        f"{abs(truth[sample] - on_cpu).max():.2e}",
        flush=True,
    )
    rows: list[dict[str, object]] = [
        {"precision": "float64", "way": "program", "seconds": seconds, "value_error": 0.0}
    ]
    print(
        "| precision | way | s for 2^I trainings + exact values | trainings/s | largest error of "
        "a value, % of their sd | pools whose accuracy differs | same bits in any company |"
    )
    print("|---|---|---|---|---|---|---|", flush=True)
    for precision, tile, way in ways(args, device):
        try:
            numbers = replace(arithmetic("torch", precision, device), tile=tile)
            with going_by(way):
                best = min(
                    (
                        every_coalition(data, numbers, min(args.block, n))
                        for _ in range(args.repeats)
                    ),
                    key=lambda found: found[0],
                )
                bits = same_bits(data, numbers, min(3 * tile // 2, n))
        except RuntimeError as problem:
            print(f"| {precision} | {way} | {str(problem)[:300]!r} |", flush=True)
            continue
        found = shapley(best[1], args.owners)
        error = 100 * abs(found - values).max() / values.std()
        differ = float((best[1] != truth).mean())
        print(
            f"| {precision} | {way} | {best[0]:.2f} | {n / best[0]:,.0f} | {error:.4f} | "
            f"{differ:.2%} | {bits} |",
            flush=True,
        )
        rows.append(
            {
                "precision": precision,
                "way": way,
                "seconds": best[0],
                "value_error_percent_of_sd": error,
                "pools_differing": differ,
                "same_bits": bits,
            }
        )
    print(
        f"(float64: {seconds:.2f} s; values from {values.min():.5f} to {values.max():.5f}, "
        f"sd {values.std():.5f}; block of {args.block} pools)",
        flush=True,
    )
    return rows


class Network:
    """Synthetic rows of ten classes, 100 owners, and the pools that DU-Shapley asks for."""

    def __init__(self, n_pools: int, n_rows: int, recipe: Recipe) -> None:
        rng = np.random.default_rng(4)
        centres = rng.normal(0, 0.12, (10, 512))
        self.y = rng.integers(0, 10, n_rows)
        self.X = (centres[self.y] + rng.standard_normal((n_rows, 512))).astype(np.float32)
        self.y_test = rng.integers(0, 10, 2000)
        self.X_test = (centres[self.y_test] + rng.standard_normal((2000, 512))).astype(np.float32)
        self.recipe = recipe
        start = time.perf_counter()
        counts = np.rint(np.linspace(0.02, 1, n_pools) * n_rows).astype(np.int64)
        positions = recipe.batch_positions(counts).astype(np.int32)
        for pool in range(n_pools):
            drawn = rng.permutation(n_rows)[: counts[pool]].astype(np.int32)
            positions[pool] = drawn[positions[pool]]
        self.rows, self.counts = positions, counts
        self.drawing = time.perf_counter() - start

    def judge(self, numbers: Arithmetic) -> Judge:
        trainer = Program(self.recipe, [self.X], [self.y], range(10), numbers, [0])
        return Judge(trainer, self.X_test, self.y_test)

    def accuracies(self, judge: Judge, pools: slice) -> np.ndarray:
        rows, counts = self.rows[pools], self.counts[pools]
        present = np.ones((len(rows), 10), dtype=bool)
        hits, size = [], judge.numbers.batch_tile
        with judge.numbers.in_force():
            for start in range(0, len(rows), size):
                part = slice(start, start + size)
                weights = judge.program.train_rows(rows[part], present[part], counts[part])
                hits.append(judge.hits(Trained(weights, present[part], counts[part])))
        return np.concatenate([judge.numbers.to_numpy(h) for h in hits]) / judge.n_rows


def report_network(args: argparse.Namespace, device: str) -> list[dict[str, object]]:
    n_pools = 12 if args.small else 20_000
    recipe = Recipe(hidden=64, steps=100, learning_rate=0.001, optimizer="adam", batch_size=64)
    data = Network(n_pools, 10_000, recipe)
    few = slice(0, n_pools, max(1, n_pools // 12))
    exact = data.accuracies(data.judge(arithmetic("numpy", "float64")), few)
    print(
        f"\nMLP 512-64-10, 100 Adam steps of 64 rows, {n_pools:,} trainings and their accuracies "
        f"(rows of the pools drawn beforehand on the CPU in {data.drawing:.1f} s)"
    )
    print("| precision | tile | s | trainings/s | largest difference in accuracy from float64 |")
    print("|---|---|---|---|---|", flush=True)
    rows: list[dict[str, object]] = []
    for precision in ("float32", "tf32", "float16") if device != "cpu" else ("float32",):
        for tile in args.batch_tiles:
            try:
                numbers = replace(arithmetic("torch", precision, device), batch_tile=tile, tile=256)
                judge = data.judge(numbers)
                data.accuracies(judge, slice(0, tile))  # warm-up
                times = []
                for _ in range(args.repeats):
                    start = wait()
                    found = data.accuracies(judge, slice(None))
                    times.append(wait() - start)
            except RuntimeError as problem:
                print(f"| {precision} | {tile} | {str(problem)[:300]!r} |", flush=True)
                continue
            worst = float(abs(found[few] - exact).max())
            print(
                f"| {precision} | {tile} | {min(times):.2f} | {n_pools / min(times):,.0f} | "
                f"{worst:.4f} |",
                flush=True,
            )
            rows.append(
                {
                    "precision": precision,
                    "tile": tile,
                    "seconds": min(times),
                    "accuracy_difference": worst,
                }
            )
    print(f"(accuracies from {found.min():.3f} to {found.max():.3f})")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=ROOT / "benchmarks/data/adult_onehot.npz")
    parser.add_argument("--small", action="store_true", help="a size for any CPU")
    parser.add_argument("--owners", type=int, default=20)
    parser.add_argument("--block", type=int, default=2**18, help="pools trained at a time")
    parser.add_argument("--tiles", type=int, nargs="+", default=[8192, 16384])
    parser.add_argument("--batch-tiles", type=int, nargs="+", default=[512, 2048, 5000])
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--json", type=Path, default=ROOT / "benchmarks/results/gpu_batched.json")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if args.small:
        args.owners, args.block, args.tiles, args.batch_tiles = 6, 32, [32], [32]
    where = torch.cuda.get_device_name() if device == "cuda" else platform.machine()
    versions = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "cuda": torch.version.cuda,
    }
    print(
        f"{where}, {versions}\nadult, {args.owners} owners, all {2**args.owners:,} coalitions, "
        "20 full-batch steps of logistic regression",
        flush=True,
    )
    found = {
        "machine": where,
        "versions": versions,
        "adult": report_adult(args, device),
        "network": report_network(args, device),
    }
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
