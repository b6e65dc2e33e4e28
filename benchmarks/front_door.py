"""The speed of the benchmark is the speed of the user: adult through `ds.value`, on one GPU.

    python benchmarks/front_door.py [--small] [--json FILE]

Twenty owners of adult as in `gpu_batched.py`, whose bare program is timed in the same run. Every
time is wall-clock after a warm-up: plan, trainings, values, their errors by source, and the result.
`--small` is the same at a size that any CPU can run, where pools are not trained in bulk.
"""

from __future__ import annotations

import argparse
import cProfile
import io
import json
import platform
import pstats
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import dushapley as ds
import gpu_batched
from dushapley.games import SoftmaxRegression
from dushapley.games.model.batched.arithmetic import arithmetic

ROOT = Path(__file__).resolve().parent.parent
ON_GPU = {"tf32": "torch", "float16": "torch:float16"}


def game_of(data: gpu_batched.Adult, backend: str) -> ds.ModelGame:
    blocks = {f"owner {j:02}": (X, y) for j, (X, y) in enumerate(zip(data.X, data.y, strict=True))}
    owners = ds.Owners.from_arrays(blocks)
    return ds.ModelGame(owners, SoftmaxRegression(), data.X_test, data.y_test, backend=backend)


def timed(run: Callable[[], Any], repeats: int = 2) -> tuple[float, Any]:
    """Seconds of the fastest of some runs, and what it gave."""
    best: tuple[float, Any] | None = None
    for _ in range(repeats):
        start = gpu_batched.wait()
        found = run()
        seconds = gpu_batched.wait() - start
        if best is None or seconds < best[0]:
            best = seconds, found
    assert best is not None
    return best


def with_ledger(game: ds.ModelGame, n: int) -> Callable[[], ds.Valuation]:
    def run() -> ds.Valuation:
        with tempfile.TemporaryDirectory() as folder:
            return ds.value(game, "exact", budget=n, ledger=Path(folder) / "paid.sqlite")

    return run


def measured(data: gpu_batched.Adult, precision: str, backend: str, args: Any) -> dict[str, Any]:
    """All lines of one precision; one that fails is stored as what it said."""
    n = 2**data.n_owners
    numbers = arithmetic("torch", None if precision == "float32" else precision)
    runs = [gpu_batched.every_coalition(data, numbers, min(args.block, n)) for _ in range(3)]
    truth = gpu_batched.shapley(runs[0][1], data.n_owners) + 0.0
    game = game_of(data, backend)
    row: dict[str, Any] = {"precision": precision, "bare": min(seconds for seconds, _ in runs)}
    found: dict[str, Any] = {}

    def line(name: str, run: Callable[[], Any], repeats: int = 2) -> None:
        try:
            run() if repeats > 1 else None  # builds the kernels
            row[name], found[name] = timed(run, repeats)
        except Exception:
            row[name] = traceback.format_exc()[-1500:]
        print(f"{precision} {name}: {row[name]}", flush=True)

    line("exact", lambda: ds.value(game, "exact", budget=n))
    line("permutation", lambda: ds.value(game, "permutation", budget=args.walks))
    line("gp", lambda: ds.value(game, "gp", budget=args.gp))
    line("exact_with_ledger", with_ledger(game, n), 1)
    if args.parts:
        by_parts("permutation", lambda: ds.value(game, "permutation", budget=args.walks))
        by_parts("gp", lambda: ds.value(game, "gp", budget=args.gp))
        by_parts("exact_with_ledger", with_ledger(game, n))
    row |= {"permutation_evaluations": args.walks, "gp_evaluations": args.gp}
    if "exact" in found and "permutation" in found:
        values, walks = found["exact"], found["permutation"]
        off = abs((walks.values - values.values) / walks.std_errors).max()
        row |= {
            "exact_adds": row["exact"] - row["bare"],
            "largest_difference_of_values": float(
                abs(np.sort(values.values) - np.sort(truth)).max() / truth.std()
            ),
            "errors_of_the_test_set": values.errors["test set"][:3],
            "permutation_is_off_by_std_errors": float(off),
        }
        line("same_bits_in_other_blocks", lambda: same_bits(game, values, walks, args), 1)
        row["same_bits_in_other_blocks"] = found.get("same_bits_in_other_blocks")
    return row


def by_parts(name: str, run: Callable[[], Any]) -> None:
    """Where the time of a line goes, by the functions in which most is spent."""
    profile = cProfile.Profile()
    profile.runcall(run)
    text = io.StringIO()
    pstats.Stats(profile, stream=text).sort_stats("tottime").print_stats(14)
    print(f"{name}\n{text.getvalue()[-2600:]}", flush=True)


def same_bits(game: ds.ModelGame, values: Any, walks: Any, args: Any) -> bool:
    """Whether blocks cut elsewhere give the same valuations, errors included."""
    assert game.path is not None
    usual, game.path.block = game.path.block, max(1, game.path.block // 3 - 7)
    game.block = game.path.block
    try:
        again = ds.value(game, "exact", budget=2**game.n_players)
        other = ds.value(game, "permutation", budget=args.walks)
    finally:
        game.path.block = game.block = usual
    return bool(again == values and other == walks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=ROOT / "benchmarks/data/adult_onehot.npz")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--parts", action="store_true", help="show where the time goes, too")
    parser.add_argument("--owners", type=int, default=20)
    parser.add_argument("--block", type=int, default=2**18)
    parser.add_argument("--walks", type=int, default=200_000)
    parser.add_argument("--gp", type=int, default=800)
    parser.add_argument("--json", type=Path, default=ROOT / "benchmarks/results/front_door.json")
    args = parser.parse_args()
    if args.small:
        args.owners, args.block, args.walks, args.gp = 5, 32, 200, 20
    data = gpu_batched.Adult(args.data, args.owners, 3000 if args.small else None)
    on_gpu = torch.cuda.is_available()
    kinds = ON_GPU if on_gpu else {"float32": "torch"}
    found: dict[str, Any] = {
        "machine": torch.cuda.get_device_name() if on_gpu else platform.machine(),
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        "date": time.strftime("%Y-%m-%d"),
        "owners": args.owners,
        "rows": [],
    }
    for precision, backend in kinds.items():
        row = measured(data, precision, backend, args)
        print(json.dumps(row, indent=1), flush=True)
        found["rows"].append(row)
        args.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
