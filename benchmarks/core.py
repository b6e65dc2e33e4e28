"""Speed and memory of the core, beside peers in the same run.

    python benchmarks/core.py

CPU seconds, best of three; peak memory from a process of its own. shapiq runs if it is installed
(`pip install shapiq`); the bare loop is what one would write without any library.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

import dushapley as ds

RESULTS = Path(__file__).parent / "results" / "core.json"


def curve(n: np.ndarray) -> np.ndarray:
    return 1 - 1000 / (1000 + n)


def size_game(n_players: int) -> ds.SizeGame:
    return ds.SizeGame(np.random.default_rng(0).integers(1, 1001, n_players), curve)


def best_of_three(job: Callable[[], object]) -> float:
    seconds = []
    for _ in range(3):
        start = time.process_time()
        job()
        seconds.append(time.process_time() - start)
    return min(seconds)


def bare_loop(game: ds.SizeGame, budget: int) -> np.ndarray:
    """Permutation sampling as one would write it by hand, one coalition at a time."""
    rng = np.random.default_rng(0)
    walks = (budget - 2) // (game.n_players - 1)
    values = np.zeros(game.n_players)
    for _ in range(walks):
        rows, before = 0.0, 0.0
        for i in rng.permutation(game.n_players):
            rows += game.sizes[i]
            now = curve(rows)
            values[i] += now - before
            before = now
    return values / walks


def with_shapiq(game: ds.SizeGame, budget: int) -> Callable[[], object] | None:
    try:
        from shapiq.approximator import PermutationSamplingSV
    except ImportError:
        return None

    def play(z: np.ndarray) -> np.ndarray:
        return curve(np.atleast_2d(z) @ game.sizes)

    return lambda: PermutationSamplingSV(n=game.n_players, random_state=0).approximate(budget, play)


def permutation_rates() -> list[dict[str, object]]:
    game = size_game(20)
    jobs: list[tuple[str, int, Callable[[], object] | None]] = [
        ("dushapley", 2_000_000, lambda: ds.value(game, "permutation", budget=2_000_000)),
        ("bare loop", 100_000, lambda: bare_loop(game, 100_000)),
        ("shapiq", 20_000, with_shapiq(game, 20_000)),
    ]
    rows: list[dict[str, object]] = []
    for name, budget, job in jobs:
        if job is not None:
            seconds = best_of_three(job)
            rows.append({"who": name, "budget": budget, "queries a second": budget / seconds})
    return rows


EXACT = "exact"


def exact_alone(n_players: int) -> None:
    """Run in a process of its own: print CPU seconds and peak memory."""
    game = size_game(n_players)
    start = time.process_time()
    ds.value(game, "exact", options={"by": "enumeration"})
    seconds = time.process_time() - start
    print(json.dumps({"seconds": seconds, "megabytes": peak_megabytes()}))


def peak_megabytes() -> float:
    """Largest memory of this process since it began (getrusage would count its parent's too)."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def exact_figures() -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for n_players in (16, 20, 24):
        runs = [
            json.loads(
                subprocess.run(
                    [sys.executable, __file__, EXACT, str(n_players)],
                    capture_output=True,
                    check=True,
                    text=True,
                ).stdout
            )
            for _ in range(3)
        ]
        rows.append(
            {
                "who": "dushapley",
                "owners": n_players,
                "seconds": min(run["seconds"] for run in runs),
                "megabytes": min(run["megabytes"] for run in runs),
            }
        )
    peer = shapiq_exact(12)
    return rows if peer is None else [*rows, peer]


def shapiq_exact(n_players: int) -> dict[str, object] | None:
    try:
        from shapiq import ExactComputer
    except ImportError:
        return None
    game = size_game(n_players)

    def job() -> object:
        computer = ExactComputer(
            n_players=n_players, game=lambda z: curve(np.atleast_2d(z) @ game.sizes)
        )
        return computer("SV", order=1)

    return {"who": "shapiq", "owners": n_players, "seconds": best_of_three(job), "megabytes": None}


def peer_version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def main() -> None:
    rates, exact = permutation_rates(), exact_figures()
    print("| permutation, I=20 | budget | queries a second |\n|---|---|---|")
    for row in rates:
        print(f"| {row['who']} | {row['budget']:,} | {row['queries a second']:,.0f} |")
    print("\n| exact by enumeration | owners | CPU seconds | peak MB |\n|---|---|---|---|")
    for row in exact:
        memory = "" if row["megabytes"] is None else f"{row['megabytes']:.0f}"
        print(f"| {row['who']} | {row['owners']} | {row['seconds']:.2f} | {memory} |")
    versions = {name: peer_version(name) for name in ("dushapley", "numpy", "shapiq")}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(
        json.dumps(
            {
                "permutation": rates,
                "exact": exact,
                "versions": versions | {"python": platform.python_version()},
                "machine": f"{platform.machine()}, 2 shared cores",
            },
            indent=1,
        )
        + "\n"
    )


if __name__ == "__main__":
    if sys.argv[1:2] == [EXACT]:
        exact_alone(int(sys.argv[2]))
    else:
        main()
