"""Values from one federated training (GTG-Shapley, MR) and `auto`'s, against retrained truth.

    DUSHAPLEY_DATA=... python benchmarks/federated_peers.py [--splits 0 1 2] [--store]

Adult, 8 owners whose rows differ: sorted along a random direction with noise and cut into parts of
different sizes; two have wrong labels, a tenth and a third of them. The game is the federation's
own: federated averaging of logistic regression, 10 rounds of 5 local steps, accuracy on 4,000 rows;
nobody's data is worth what the untrained model scores. Truth: all 2^8 pools retrained.

MR (multi-round reconstruction): the updates that owners sent in the one training of everybody are
put together to models of all 2^8 pools in every round, and each round's exact Shapley values are
added up. GTG-Shapley does the same with permutations that are guided (everybody comes first equally
often) and truncated within rounds and between them, until values settle. Both are written after the
papers that proposed them. `auto` asks the federation to train 6I = 48 pools.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from math import factorial
from pathlib import Path

import numpy as np

import dushapley as ds
from dushapley.federated import Federation, InProcess, Owner, Policy
from dushapley.federated.game import Pools
from dushapley_paper.data import load

RESULTS = Path(__file__).parent / "results" / "federated_peers.json"
OWNERS, ROUNDS, LOCAL = 8, 10, 5
EVERYBODY = 2**OWNERS - 1


def one(X, y):
    return ds.Owners.from_arrays({"rows": (X, y)})


def federation(split: int):
    """Owners whose rows differ, and test rows."""
    table = load("adult")
    rng = np.random.default_rng(split)
    order = rng.permutation(len(table.y))
    test, rest = order[:4000], order[4000 : 4000 + 6000]
    direction = rng.normal(size=table.X.shape[1])
    key = table.X[rest] @ direction + rng.normal(size=len(rest)) * 0.5 * np.linalg.norm(direction)
    rest = rest[np.argsort(key)]
    cuts = (np.cumsum(rng.dirichlet(np.full(OWNERS, 3.0)))[:-1] * len(rest)).astype(int)
    owners = []
    for k, part in enumerate(np.split(rest, cuts)):
        labels = table.y[part].copy()
        if k in (2, 5):
            wrong = rng.random(len(labels)) < (0.1 if k == 2 else 0.33)
            labels[wrong] = 1 - labels[wrong]
        owners.append(Owner(f"owner {k}", one(table.X[part], labels), Policy(least_rows=1)))
    return owners, one(table.X[test], table.y[test])


def game_of(owners, test, empty):
    return ds.FederatedGame(
        Federation(InProcess(owners)),
        level="models",
        test=test,
        steps=ROUNDS,
        local_steps=LOCAL,
        empty=empty,
    )


def members(pool: int) -> list[int]:
    return [i for i in range(OWNERS) if pool >> i & 1]


def shapley(values: np.ndarray) -> np.ndarray:
    """Exact values of a table of 2^I utilities."""
    weights = [factorial(s) * factorial(OWNERS - s - 1) / factorial(OWNERS) for s in range(OWNERS)]
    found = np.zeros(OWNERS)
    for pool in range(2**OWNERS):
        for i in range(OWNERS):
            if not pool >> i & 1:
                gain = values[pool | 1 << i] - values[pool]
                found[i] += weights[len(members(pool))] * gain
    return found


class Recorded:
    """One training of everybody: the model before every round, and what each owner sent."""

    def __init__(self, game: ds.FederatedGame) -> None:
        self.game, self.n_scored = game, 0
        counts = game.sizes.astype(np.int64)[None]
        pools = Pools(game, counts, np.zeros(1, np.int64))
        before = np.zeros((1, len(game.classes), game.agreement.width + 1))
        self.models, self.sent = [before[0]], []
        ask = pools._ask

        def noted(kind, about, weights):
            answers = ask(kind, about, weights)
            self.sent.append([answers[name][0] for name in game.names])
            return answers

        pools._ask = noted
        for round_ in range(ROUNDS):
            about = {"recipe": asdict(game.local), "training_round": round_}
            before = pools._summed("steps", about, before, counts / counts.sum())
            self.models.append(before[0])
        self.parts = counts[0]

    def score(self, weights: np.ndarray) -> float:
        self.n_scored += 1
        every = np.ones(len(self.game.classes), bool)
        return self.game.scorer.value(self.game.classifier(weights, every))

    def of_pool(self, round_: int, pool: int) -> float:
        """Score of the model that these owners' updates of this round make."""
        if pool == 0:
            return self.score(self.models[round_])
        inside = members(pool)
        return self.score(
            np.average([self.sent[round_][i] for i in inside], axis=0, weights=self.parts[inside])
        )


def mr(recorded: Recorded) -> np.ndarray:
    total = np.zeros(OWNERS)
    for round_ in range(ROUNDS):
        total += shapley(np.array([recorded.of_pool(round_, s) for s in range(2**OWNERS)]))
    return total


def gtg(recorded: Recorded, seed: int, *, between=0.001, within=0.001, most=50, settled=0.01):
    rng = np.random.default_rng(seed)
    total = np.zeros(OWNERS)
    for round_ in range(ROUNDS):
        known: dict[int, float] = {}

        def worth(pool: int, round_=round_, known=known) -> float:
            if pool not in known:
                known[pool] = recorded.of_pool(round_, pool)
            return known[pool]

        if abs(worth(EVERYBODY) - worth(0)) <= between:
            continue
        drawn: list[np.ndarray] = []
        means: list[np.ndarray] = []
        while len(drawn) < most * OWNERS:
            for first in range(OWNERS):  # guided: everybody comes first equally often
                others = rng.permutation([i for i in range(OWNERS) if i != first])
                gains, pool, before = np.zeros(OWNERS), 0, worth(0)
                for i in (first, *others.tolist()):
                    if abs(worth(EVERYBODY) - before) >= within:
                        pool |= 1 << int(i)
                        now = worth(pool)
                        gains[i], before = now - before, now
                    else:
                        pool |= 1 << int(i)
                drawn.append(gains)
            means.append(np.mean(drawn, axis=0))
            if len(means) > 4:
                moved = np.abs(means[-1] - means[-5]) / (np.abs(means[-1]) + 1e-12)
                if moved.mean() < settled:
                    break
        total += means[-1]
    return total


def run(split: int) -> list[dict]:
    owners, test = federation(split)
    probe = game_of(owners, test, 0.0)
    shape = (len(probe.classes), probe.agreement.width + 1)
    untrained = probe.scorer.value(probe.classifier(np.zeros(shape), np.ones(shape[0], bool)))
    game = game_of(owners, test, untrained)
    truth = ds.value(game, "exact")
    spread = float(np.var(truth.values))
    rows = []

    def add(name, values, account, joined, scored):
        took = {k: account[k] - joined[k] for k in ("rounds", "messages", "bytes")}
        error = float(np.mean((values - truth.values) ** 2))
        ranks = np.corrcoef(np.argsort(np.argsort(values)), np.argsort(np.argsort(truth.values)))
        rows.append(
            {"split": split, "method": name, "mse": error, "relative_mse": error / spread,
             "rank_correlation": float(ranks[0, 1]), "pools_scored": scored, **took}
        )  # fmt: skip

    for name, find in (("MR", mr), ("GTG-Shapley", lambda r: gtg(r, split))):
        again = game_of(owners, test, untrained)
        joined = again.federation.account()
        recorded = Recorded(again)
        add(name, find(recorded), again.federation.account(), joined, recorded.n_scored)
    again = game_of(owners, test, untrained)
    joined = again.federation.account()
    v = ds.value(again, "auto", seed=split)
    add(f"{v.method}, {v.n_evaluations} trainings", v.values, again.federation.account(), joined,
        v.n_evaluations)  # fmt: skip
    return rows


def table(rows: list[dict]) -> str:
    lines = ["| method | MSE | relative MSE | ranks | rounds | messages | MB | scored |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    for name in dict.fromkeys(row["method"] for row in rows):
        some = [row for row in rows if row["method"] == name]
        mean = {
            k: np.mean([row[k] for row in some]) for k in some[0] if k not in ("method", "split")
        }
        lines.append(
            f"| {name} | {mean['mse']:.2e} | {mean['relative_mse']:.3f} | "
            f"{mean['rank_correlation']:.2f} | {mean['rounds']:.0f} | {mean['messages']:.0f} | "
            f"{mean['bytes'] / 1e6:.2f} | {mean['pools_scored']:.0f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--splits", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--store", action="store_true", help="beside those of other splits")
    given = parser.parse_args()
    found = [row for split in given.splits for row in run(split)]
    if given.store:
        before = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
        found = [row for row in before if row["split"] not in given.splits] + found
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    print(table(found))
