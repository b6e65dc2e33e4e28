"""The fused kernels on a GPU: speed and error of adult, every shape, and the sanitizer.

    python benchmarks/fused.py [--tiny] [--json FILE]

Adult as in `gpu_batched.py`: all coalitions of 20 owners, values included, beside float64 on the
same device, with what the kernels reach of the card's arithmetic and memory. Then shapes up to the
widest that the kernels take, beside the tensor program in strict float32, and sums by test row
beside scores that were written out. `--tiny` is that second part alone, as the sanitizer runs it.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import torch

import gpu_batched
from dushapley.games.model.batched.arithmetic import arithmetic
from dushapley.games.model.batched.program import Judge, Program
from dushapley.games.model.batched.recipe import Recipe, memberships

ROOT = Path(__file__).resolve().parent.parent
SHAPES = [(5, 2), (105, 2), (200, 2), (255, 2), (105, 3), (105, 10), (200, 16)]
"""Columns and classes."""


def roofline(data: gpu_batched.Adult, precision: str, block: int) -> dict[str, float]:
    """Useful operations and bytes of the trainings, and how fast both are done."""
    program = data.judge(arithmetic("torch", precision)).program
    n, steps, width = 2**data.n_owners, program.recipe.steps, program.n_features + 1
    parts = [data.held(np.arange(a, min(n, a + block))) for a in range(0, n, block)]
    program.train(block, parts[0])
    start = gpu_batched.wait()
    for part in parts:
        program.train(min(block, n), part)
    seconds = gpu_batched.wait() - start
    held = int(data.sizes.sum()) / 2
    # weights and slopes: read and written by the optimizer, and by the kernel of every owner held
    item = 2 if precision == "float16" else 4
    moved = n * program.width * steps * (4 * 6 + data.n_owners / 2 * (item + 8))
    return {
        "training_seconds": seconds,
        "useful_operations": 4.0 * held * width * steps * n,
        "useful_teraflops": 4e-12 * held * width * steps * n / seconds,
        "padded_teraflops": 4e-12 * held * program.fused.depth * steps * n / seconds,
        "terabytes": moved / 1e12,
        "terabytes_per_second": moved / 1e12 / seconds,
    }


def best_product() -> dict[str, float]:
    """TFLOP/s of a large matrix product on this card, by the numbers it reads."""
    reached = {}
    for name, kind in (("float16", torch.float16), ("tf32", torch.float32)):
        a = torch.randn(8192, 8192, device="cuda", dtype=kind)
        with arithmetic("torch", name).in_force():
            a @ a
            start = gpu_batched.wait()
            for _ in range(10):
                a @ a
            reached[name] = 10 * 2 * 8192**3 / (gpu_batched.wait() - start) / 1e12
    return reached


def adult(args: argparse.Namespace) -> dict[str, Any]:
    data, n = gpu_batched.Adult(args.data, args.owners, None), 2**args.owners
    double, truth = gpu_batched.every_coalition(data, arithmetic("torch", "float64"), args.block)
    values = gpu_batched.shapley(truth, args.owners)
    rows = []
    for precision in ("float16", "tf32"):
        numbers = arithmetic("torch", precision)
        runs = [gpu_batched.every_coalition(data, numbers, args.block) for _ in range(4)]
        found = gpu_batched.shapley(runs[0][1], args.owners)
        row = {
            "precision": precision,
            "seconds": min(seconds for seconds, _ in runs),
            "largest_error_percent_of_sd": 100 * float(abs(found - values).max() / values.std()),
            "same_bits_in_any_company": gpu_batched.same_bits(data, numbers, min(9000, n)),
            **roofline(data, precision, args.block),
        }
        print(json.dumps(row), flush=True)
        rows.append(row)
    return {"float64_seconds": double, "rows": rows, "large_product_teraflops": best_product()}


def first_rows(_owner: int, count: int, _draw: int | None) -> slice:
    return slice(0, count)


def judge(columns: int, n_classes: int, precision: str, *, fused: bool) -> tuple[Judge, Any]:
    """A judge of three owners, and forty pools that it has trained, part of their rows taken."""
    rng = np.random.default_rng(columns)
    sizes = np.array([333, 70, 129])
    centres = rng.normal(size=(n_classes, columns))
    codes = [rng.integers(0, n_classes, n) for n in (*sizes, 777)]
    *X, test = [centres[c] / 3 + rng.normal(size=(len(c), columns)) for c in codes]
    numbers = arithmetic("torch", precision)
    with gpu_batched.going_by("fused" if fused else "program"):
        program = Program(Recipe(), X, codes[:3], list(range(n_classes)), numbers, [2, 0, 1])
    share = np.random.default_rng(1).choice([0, 0.4, 1.0], (40, 3))
    counts = np.floor(share * sizes).astype(np.int64)
    held = memberships(counts, sizes, np.arange(40), first_rows, [2, 0, 1])
    made = Judge(program, test, codes[3])
    return made, program.train(40, held)


def shape(columns: int, n_classes: int, precision: str) -> dict[str, Any]:
    """The kernels beside the tensor program in float32, and sums by row beside scores."""
    kernel, trained = judge(columns, n_classes, precision, fused=True)
    program, reference = judge(columns, n_classes, "float32", fused=False)
    row: dict[str, Any] = {"columns": columns, "classes": n_classes, "precision": precision}
    row["fused"] = kernel.program.fused is not None
    difference = abs(kernel.accuracy(trained) - program.accuracy(reference))
    row["largest_difference_of_accuracy"] = float(difference.max())
    if n_classes == 2:
        weights = np.random.default_rng(2).normal(size=(33, 37))
        counted = [part[2:39] for part in kernel.counted(trained)]
        sums = kernel.weighed(counted, torch.asarray(weights).cuda()).cpu()
        wanted = weights @ kernel.correct(trained)[2:39]
        row["largest_difference_of_sums"] = float(abs(sums.numpy() - wanted).max())
    return row


def shapes() -> list[dict[str, Any]]:
    rows = []
    for columns, n_classes in SHAPES:
        for precision in ("float16", "tf32"):
            try:
                row = shape(columns, n_classes, precision)
            except Exception:
                row = {"columns": columns, "classes": n_classes, "precision": precision}
                row["failed"] = traceback.format_exc()[-600:]
            print(json.dumps(row), flush=True)
            rows.append(row)
    return rows


def sanitized() -> str:
    """What compute-sanitizer says of the small shapes; where it is installed."""
    places = [*Path("/usr/local").glob("cuda*/bin/compute-sanitizer"), Path("/nowhere")]
    tool = shutil.which("compute-sanitizer") or str(places[0])
    if not Path(tool).exists():
        return "compute-sanitizer is not installed"
    command = [tool, "--error-exitcode", "9", sys.executable, __file__, "--tiny"]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    except subprocess.TimeoutExpired as late:
        return f"not done after 100 s: {str(late.stdout)[-300:]}"
    return f"exit code {run.returncode}: {run.stdout[-400:]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=ROOT / "benchmarks/data/adult_onehot.npz")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--owners", type=int, default=20)
    parser.add_argument("--block", type=int, default=2**18)
    parser.add_argument("--json", type=Path, default=ROOT / "benchmarks/results/fused.json")
    args = parser.parse_args()
    if args.tiny:
        shapes()
        return
    found: dict[str, Any] = {
        "machine": torch.cuda.get_device_name(),
        "versions": {"torch": torch.__version__, "cuda": torch.version.cuda},
        "date": time.strftime("%Y-%m-%d"),
    }
    for name, part in (
        ("shapes", shapes),
        ("adult", lambda: adult(args)),
        ("sanitizer", sanitized),
    ):
        found[name] = part()
        print(name, found[name], flush=True)
        args.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
