"""What a trained game costs beyond training: overhead, workers, and the start of the command line.

Run: python benchmarks/model_games.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.naive_bayes import GaussianNB
from threadpoolctl import threadpool_limits

import dushapley as ds

RESULTS = Path(__file__).parent / "results" / "model_games.json"
HELP = "from dushapley.cli.main import main; main(['--help'])"


class Busy(ClassifierMixin, BaseEstimator):
    """A training of a given time: computing, or only waiting (whatever else the machine does)."""

    def __init__(self, seconds=0.02, waits=False):
        self.seconds = seconds
        self.waits = waits

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        if self.waits:
            time.sleep(self.seconds)
            return self
        end = time.process_time() + self.seconds
        while time.process_time() < end:
            pass
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


def make_game(model, owners=8, rows=60):
    rng = np.random.default_rng(0)
    X = rng.normal(size=((owners + 4) * rows, 10))
    y = (X[:, 0] + rng.normal(size=len(X)) > 0).astype(int)
    blocks = {f"o{i}": (X[i * rows : (i + 1) * rows], y[i * rows : (i + 1) * rows])
              for i in range(owners)}  # fmt: skip
    test = slice(owners * rows, None)
    return ds.ModelGame(ds.Owners.from_arrays(blocks), model, X[test], y[test], fast=False)


def best(function, clock, times=3):
    seconds = []
    for _ in range(times):
        started = clock()
        function()
        seconds.append(clock() - started)
    return min(seconds)


def overhead():
    """CPU µs per training that `value` adds to clone, fit and predict on ready-made pools."""
    game = make_game(GaussianNB())
    masks = (np.arange(1, 256)[:, None] >> np.arange(8)) & 1 == 1
    pools = [game.pool(counts, None) for counts in game.counts(masks)]

    def bare():
        with threadpool_limits(1):
            for X, y in pools:
                float((clone(game.model).fit(X, y).predict(game.X_test) == game.y_test).mean())

    def value():
        ds.value(game, "exact", progress=False)

    clock = time.process_time
    # in turns, so both meet the machine at its best
    runs = [(best(value, clock, 1), best(bare, clock, 1)) for _ in range(5)]
    ours, loop = (min(seconds) for seconds in zip(*runs, strict=True))
    return {"bare loop, µs": loop / 255 * 1e6, "value, µs": ours / 255 * 1e6,
            "overhead, µs": (ours - loop) / 255 * 1e6}  # fmt: skip


def train(model, X, y):
    return model.fit(X, y).predict(X[:5])


def workers(*, waits):
    """Wall seconds of 256 trainings of 20 ms with one and two workers, beside plain joblib."""
    game = make_game(Busy(waits=waits))
    X, y = game.owners.X[0], game.owners.y[0]
    ds.value(game, "exact", n_jobs=2, progress=False)  # workers start
    wall = time.perf_counter
    one = best(lambda: ds.value(game, "exact", n_jobs=1, progress=False), wall)
    two = best(lambda: ds.value(game, "exact", n_jobs=2, progress=False), wall)
    peer = best(
        lambda: Parallel(2)(delayed(train)(Busy(waits=waits), X, y) for _ in range(254)), wall
    )
    return {"n_jobs=1, s": one, "n_jobs=2, s": two, "joblib itself, s": peer, "times": one / two}


def start():
    """CPU seconds of `dushapley --help` beside importing numpy."""

    def cpu(code):
        def run():
            subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=True)

        def children():
            used = os.times()
            return used.children_user + used.children_system

        return best(run, children, times=5)

    numpy, help_ = cpu("import numpy"), cpu(HELP)
    return {"import numpy, s": numpy, "--help, s": help_, "difference, s": help_ - numpy}


def main():
    results = {
        "overhead a training (CPU)": overhead(),
        "256 trainings of 20 ms that compute (wall)": workers(waits=False),
        "256 trainings of 20 ms that wait (wall)": workers(waits=True),
        "command line start (CPU)": start(),
    }
    for title, figures in results.items():
        print(f"\n| {title} | " + " | ".join(figures) + " |")
        print("|---" * (len(figures) + 1) + "|")
        print("| best of several | " + " | ".join(f"{v:.4g}" for v in figures.values()) + " |")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
