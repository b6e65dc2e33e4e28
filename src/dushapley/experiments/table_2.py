"""Table 2: noisy owners found, valuable owners removed, worthless owners added; 100 owners."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dushapley.batched.recipe import Recipe
from dushapley.engine import value
from dushapley.experiments.cases import TABLES, TableMissing, device_name, gpu
from dushapley.experiments.classifiers import ManyOwnersGame
from dushapley.experiments.data import Table, load
from dushapley.experiments.experiment import (
    Experiment,
    Profile,
    Result,
    Sheet,
    Verdict,
    judge,
    qualified,
)
from dushapley.experiments.neighbours import knn_point_sums
from dushapley.experiments.splits import Split, Spread, draw_sizes, spoil
from dushapley.experiments.trials import du_evaluations
from dushapley.games.nearest import knn_values
from dushapley.questions import FloatArray, IntArray

SETS = ("CIFAR10", "BBC", "IMDB")
TASKS = ("NLD", "DR", "DA")
SHARES = (0.05, 0.15)
METHODS = ("Random", "LOO", "DataShapley", "KNN-Shapley", "DU-Shapley")
"""Methods as the paper names them."""
PUBLISHED: dict[str, dict[str, tuple[float, ...]]] = {
    "CIFAR10": {
        "Random": (0.11, 0.19, 0.61, 0.60, 0.25, 0.41),
        "LOO": (0.13, 0.18, 0.62, 0.60, 0.15, 0.32),
        "DataShapley": (0.13, 0.25, 0.61, 0.59, 0.12, 0.18),
        "KNN-Shapley": (0.14, 0.28, 0.60, 0.57, 0.12, 0.15),
        "DU-Shapley": (0.14, 0.30, 0.61, 0.55, 0.11, 0.14),
    },
    "BBC": {
        "Random": (0.11, 0.19, 0.90, 0.88, 0.68, 0.81),
        "LOO": (0.11, 0.17, 0.90, 0.88, 0.61, 0.77),
        "DataShapley": (0.12, 0.20, 0.89, 0.87, 0.08, 0.12),
        "KNN-Shapley": (0.19, 0.29, 0.88, 0.86, 0.13, 0.12),
        "DU-Shapley": (0.18, 0.34, 0.89, 0.85, 0.07, 0.11),
    },
    "IMDB": {
        "Random": (0.10, 0.16, 0.77, 0.75, 0.62, 0.68),
        "LOO": (0.11, 0.18, 0.77, 0.74, 0.53, 0.59),
        "DataShapley": (0.17, 0.28, 0.75, 0.69, 0.36, 0.33),
        "KNN-Shapley": (0.18, 0.29, 0.76, 0.68, 0.41, 0.37),
        "DU-Shapley": (0.18, 0.32, 0.76, 0.66, 0.33, 0.34),
    },
}
"""NLD 5%, 15% (F1, higher is better), DR 5%, 15%, DA 5%, 15% (accuracy, lower is better)."""

REPETITIONS = {"quick": 2, "full": 3}
COLUMNS = tuple(f"{task} {share:.0%}" for task in TASKS for share in SHARES)
OURS = {
    "Random": "Random",
    "LOO": "LOO (random pool, the paper's)",
    "LOO (all others)": "LOO (all others)",
    "DataShapley": "DataShapley (permutations)",
    "KNN-Shapley": "KNN-Shapley (owner level)",
    "KNN-Shapley (sum of points)": "KNN-Shapley (sum of points)",
    "DU-Shapley": "DU-Shapley",
}
"""Our variants, by short name."""


PERCEPTRON = Recipe(hidden=64, steps=50, learning_rate=0.003, optimizer="adam", batch_size=64)


@dataclass(frozen=True)
class Setting:
    """What one game of the table is made of.

    Attributes
    ----------
    owners, train, valid, test
        Owners, and rows to train on, to value with and to judge on.
    noisy
        Part of the owners whose labels are wrong.
    wrong
        Part of a noisy owner's labels that is wrong.
    sizes
        How unequal the owners are.
    recipe
        The multilayer perceptron and its training.
    """

    owners: int = 100
    train: int = 1000
    valid: int = 300
    test: int = 900
    noisy: float = 0.2
    wrong: float = 1.0
    sizes: Spread = "uniform"
    recipe: Recipe = PERCEPTRON


FULL = Setting()
QUICK = Setting(
    owners=10, train=150, valid=60, test=120,
    recipe=Recipe(hidden=8, steps=10, learning_rate=0.02, optimizer="adam", batch_size=8),
)  # fmt: skip


def run(profile: Profile, seed: int) -> Result:
    """Three noise settings for every data set, repeated; then the choices, varied one by one."""
    parts, missing = known((*SETS, "choices") if profile == "full" else SETS, profile, seed)
    choices = parts.pop("choices", {"scores": []})
    return {
        "owners": (QUICK if profile == "quick" else FULL).owners,
        "repetitions": REPETITIONS[profile],
        "where": sorted({p["where"] for p in parts.values()}),
        "sets": {name: p["scores"] for name, p in parts.items()},
        "missing": missing,
        "choices": choices["scores"],
    }


def known(names: Sequence[str], profile: Profile, seed: int) -> tuple[dict[str, Result], list[str]]:
    """Parts that are stored or can be computed here, and the names of the others.

    Where there is none of a data set, the first error says what to do.
    """
    parts: dict[str, Result] = {}
    missing: dict[str, TableMissing] = {}
    for name in names:
        try:
            parts[name] = part(name, profile, seed)
        except TableMissing as error:
            missing[name] = error
    if not set(parts) & set(SETS):
        raise next(iter(missing.values()))
    return parts, list(missing)


def part(name: str, profile: Profile, seed: int) -> Result:
    """One data set, or the choices; full ones are read where they are stored.

    They take 40,000 trainings a game: a GPU writes them to the folder named by
    ``DUSHAPLEY_TABLES``.
    """
    path = Path(os.environ.get(TABLES, ".")) / f"table-2-{name}-{seed}.json"
    if profile == "full" and TABLES in os.environ and path.is_file():
        return dict(json.loads(path.read_text(encoding="utf-8")))
    if profile == "full" and gpu() is None:
        raise TableMissing(
            f"table-2 trains more than a million networks, and there is neither a GPU nor {path}. "
            "Run `python benchmarks/reproduce_gpu.py table-2 --out FOLDER` on a machine with a GPU "
            f"(minutes), copy FOLDER here and name it: export {TABLES}=FOLDER."
        )
    if name == "choices":
        return {"where": device_name(gpu()), "scores": choices(load("BBC"), seed)}
    setting, table = QUICK if profile == "quick" else FULL, load(name)
    runs = [repetition(table, setting, seed + r) for r in range(REPETITIONS[profile])]
    return {"where": device_name(gpu()), "scores": averaged(runs)}


def repetition(table: Table, setting: Setting, seed: int) -> dict[str, dict[str, float]]:
    """All scores of all methods for one deal of the rows.

    The published shares can be read in two ways for noisy labels: as the part of owners that is
    noisy (scored by two-means clusters), or as the part inspected where 20% are noisy. Removal and
    addition use the second game.
    """
    scores = task_scores(table, setting, seed)
    for share in SHARES:
        noisier = replace(setting, noisy=share)
        rows = deal(table, noisier, seed)
        for method, values in all_values(rows, noisier, seed).items():
            scores[method][f"NLD rate {share:.0%}"] = f1(lower_cluster(values), rows.bad)
    return scores


def task_scores(table: Table, setting: Setting, seed: int) -> dict[str, dict[str, float]]:
    """Inspection, removal and addition in one game."""
    rows = deal(table, setting, seed)
    values = all_values(rows, setting, seed)
    judge_game = ManyOwnersGame(
        rows.owners(), rows.X_judge, rows.y_judge, setting.recipe, gpu(), 1024
    )
    scores: dict[str, dict[str, float]] = {}
    for method, v in values.items():
        order = np.argsort(v, kind="stable")
        scores[method] = {}
        for share in SHARES:
            count = max(1, round(share * len(v)))
            pools = np.ones((2, len(v)), dtype=np.bool_)
            pools[0, order[-count:]] = False
            pools[1] = False
            pools[1, order[:count]] = True
            removed, added = judge_game(pools)
            scores[method][f"NLD {share:.0%}"] = f1(order[:count], rows.bad)
            scores[method][f"DR {share:.0%}"] = float(removed)
            scores[method][f"DA {share:.0%}"] = float(added)
    return scores


@dataclass(frozen=True)
class Dealt(Split):
    """A split with further rows: `X_test` values the owners, `X_judge` judges the values."""

    X_judge: FloatArray
    y_judge: IntArray


def deal(table: Table, setting: Setting, seed: int) -> Dealt:
    """Rows for owners, validation and test; then wrong labels for some owners."""
    rng = np.random.default_rng([seed, round(1000 * setting.noisy)])
    order = rng.permutation(len(table.X))
    cuts = np.cumsum([setting.train, setting.valid, setting.test])
    train, valid, test = order[: cuts[0]], order[cuts[0] : cuts[1]], order[cuts[1] : cuts[2]]
    sizes = draw_sizes(rng, setting.owners, len(train), setting.sizes)
    count = max(1, round(setting.noisy * setting.owners))
    bad = np.sort(rng.choice(setting.owners, count, replace=False))
    y = table.y[train].copy()
    spoil(rng, y, sizes, bad, table, setting.wrong)
    return Dealt(
        table.X[train], y, sizes, table.X[valid], table.y[valid], bad, table.X[test], table.y[test]
    )


def all_values(rows: Dealt, setting: Setting, seed: int) -> dict[str, FloatArray]:
    """Values of all owners by every method; sampling methods have DU-Shapley's evaluations."""
    owners = rows.owners()
    game = ManyOwnersGame(owners, rows.X_test, rows.y_test, setting.recipe, gpu())
    budget = du_evaluations(setting.owners)

    def asked(method: str, options: Mapping[str, Any] | None = None) -> FloatArray:
        limit = budget if method == "permutation" else None
        found = value(game, method, options=options, budget=limit, seed=seed, progress=False)
        return found.values

    return {
        "Random": np.random.default_rng([seed, 99]).random(setting.owners),
        "LOO": asked("loo", {"form": "random"}),
        "LOO (all others)": asked("loo"),
        "DataShapley": asked("permutation"),
        "KNN-Shapley": knn_values(owners, rows.X_test, rows.y_test),
        "KNN-Shapley (sum of points)": knn_point_sums(owners, rows.X_test, rows.y_test),
        "DU-Shapley": asked("du"),
    }


def f1(predicted: IntArray, truth: IntArray) -> float:
    """2·hits over the two counts."""
    return 2 * len(np.intersect1d(predicted, truth)) / (len(predicted) + len(truth))


def lower_cluster(values: FloatArray) -> IntArray:
    """Owners below the cut that leaves the smallest squared distance to the two sides' means."""
    order = np.argsort(values, kind="stable")
    v = values[order]
    left = np.arange(1, len(v))
    sums = np.cumsum(v)[:-1]
    explained = sums**2 / left + (v.sum() - sums) ** 2 / (len(v) - left)
    return order[: int(explained.argmax()) + 1]


def averaged(runs: list[dict[str, dict[str, float]]]) -> dict[str, Any]:
    """Mean, standard error and all repetitions of every score."""
    result: dict[str, Any] = {}
    for method in runs[0]:
        result[method] = {}
        for score in runs[0][method]:
            each = np.array([r[method][score] for r in runs])
            se = each.std(ddof=1) / np.sqrt(len(each)) if len(each) > 1 else 0.0
            result[method][score] = {
                "mean": float(each.mean()), "se": float(se), "all": each.tolist()
            }  # fmt: skip
    return result


def choices(table: Table, seed: int) -> list[Result]:
    """What the paper does not state, varied one at a time on the BBC embeddings."""
    variants = {
        "as chosen": FULL,
        "half of a noisy owner's labels wrong": replace(FULL, wrong=0.5),
        "equal owners": replace(FULL, sizes="equal"),
        "2 of 3 rows fewer": replace(FULL, train=334),
        "25 hidden units, rate 0.01": replace(
            FULL, recipe=replace(FULL.recipe, hidden=25, learning_rate=0.01)
        ),
        "200 steps": replace(FULL, recipe=replace(FULL.recipe, steps=200)),
    }
    return [
        {"choice": name, "scores": averaged([task_scores(table, s, seed)])}
        for name, s in variants.items()
    ]


def best_of(scores: Mapping[str, Any], column: str) -> tuple[str, ...]:
    """Methods of the paper that are best in a column, within one standard error of the best."""
    sign = 1 if column.startswith("NLD") else -1
    means = {m: sign * scores[m][column]["mean"] for m in METHODS}
    top = max(means, key=lambda m: means[m])
    slack = scores[top][column]["se"]
    return tuple(m for m in METHODS if means[m] >= means[top] - slack)


def claims(result: Result) -> list[Verdict]:
    """Competitive with the baselines; similar to or better than DataShapley."""
    cells = [(name, column) for name in result["sets"] for column in COLUMNS]
    best = [cell for cell in cells if "DU-Shapley" in best_of(result["sets"][cell[0]], cell[1])]
    lost = [f"{n} {c}" for n, c in cells if (n, c) not in best]
    competitive = Verdict(
        "DU-Shapley is competitive with the baselines (section 4.3): best, or within a "
        "standard error of the best",
        judge(len(best), len(cells), enough=0.6, some=0.3),
        f"in {len(best)} of {len(cells)} columns (published: best in {published_best()} of 18)"
        + (f"; not in {', '.join(lost)}" if lost else ""),
    )
    rivals = [against(result, name, cells) for name in ("DataShapley", "KNN-Shapley", "Random")]
    return [qualified(verdict, result["missing"]) for verdict in (competitive, *rivals)]


def published_best() -> int:
    """Columns of the printed table in which no method is better than DU-Shapley."""
    return sum(
        sign * printed["DU-Shapley"][i] >= max(sign * row[i] for row in printed.values())
        for printed in PUBLISHED.values()
        for i, sign in enumerate((1, 1, -1, -1, -1, -1))
    )


def against(result: Result, rival: str, cells: list[tuple[str, str]]) -> Verdict:
    """How often DU-Shapley is better than one rival, repetition by repetition."""
    differences, better = [], 0
    for name, column in cells:
        sign = 1 if column.startswith("NLD") else -1
        scores = result["sets"][name]
        pairs = zip(scores["DU-Shapley"][column]["all"], scores[rival][column]["all"], strict=True)
        gap = np.array([sign * (a - b) for a, b in pairs])
        differences.append(float(gap.mean()))
        se = gap.std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else 0.0
        better += bool(gap.mean() >= -se)
    return Verdict(
        f"DU-Shapley does as well as {rival} or better (section 4.3)",
        judge(better, len(cells), enough=0.9),
        f"not worse by more than a standard error in {better} of {len(cells)} columns; mean "
        f"advantage {np.mean(differences):+.3f}",
    )


def sheets(result: Result) -> list[Sheet]:
    """Published beside found for every data set, the other reading of noise, the choices."""
    found = [task_sheet(name, scores) for name, scores in result["sets"].items()]
    found.append(rate_sheet(result))
    if result["choices"]:
        found.append(choice_sheet(result))
    return found


def task_sheet(name: str, scores: Mapping[str, Any]) -> Sheet:
    """One data set: published → found ± standard error."""
    rows = []
    for method, said in OURS.items():
        printed = PUBLISHED[name].get(method)
        cells = []
        for i, column in enumerate(COLUMNS):
            entry = scores[method][column]
            before = "" if printed is None else f"{printed[i]:.2f} → "
            cells.append(f"{before}{entry['mean']:.2f} ± {entry['se']:.2f}")
        rows.append((said, *cells))
    caption = f"{name}: published → found ± standard error; 20% of owners noisy, share inspected"
    return Sheet(caption, ("method", *COLUMNS), tuple(rows))


def rate_sheet(result: Result) -> Sheet:
    """The other reading of NLD: 5% and 15% of owners are noisy, found by two-means."""
    columns = [(name, f"NLD rate {share:.0%}") for name in result["sets"] for share in SHARES]
    rows = []
    for method, said in OURS.items():
        entries = [result["sets"][name][method][column] for name, column in columns]
        rows.append((said, *(f"{e['mean']:.2f} ± {e['se']:.2f}" for e in entries)))
    header = ("method", *(f"{name} {column.removeprefix('NLD rate ')}" for name, column in columns))
    caption = "Noisy label detection read as noise rate: F1 of the lower of two clusters of values"
    return Sheet(caption, header, tuple(rows))


def choice_sheet(result: Result) -> Sheet:
    """DU-Shapley and DataShapley when one choice changes."""
    rows = []
    for variant in result["choices"]:
        cells = []
        for column in COLUMNS:
            pair = [variant["scores"][m][column]["mean"] for m in ("DU-Shapley", "DataShapley")]
            cells.append(f"{pair[0]:.2f} / {pair[1]:.2f}")
        rows.append((variant["choice"], *cells))
    return Sheet("BBC, DU-Shapley / DataShapley, one repetition", ("choice", *COLUMNS), tuple(rows))


EXPERIMENT = Experiment(
    name="table-2",
    title="Noisy label detection, dataset removal and dataset addition with 100 owners",
    place="Table 2, section 4.3",
    run=run,
    claims=claims,
    sheets=sheets,
    published=PUBLISHED,
    needs=SETS,
    settings=(
        "100 owners share 1,000 rows, sizes in proportion to whole numbers from 1 to 10; 300 rows "
        "value them, 900 judge. One hidden layer of 64, 50 Adam steps of 64 rows, rate 0.003, the "
        "same first weights for every pool.",
        "20% of the owners have all labels wrong; 5% and 15% are shares inspected, removed or "
        "added. The other reading of noisy label detection has a table of its own.",
        "DataShapley is permutation sampling with DU-Shapley's evaluations; LOO in the paper's "
        "form adds an owner to one random pool of the others' rows, its size uniform; KNN-Shapley "
        "(K = 5) is exact at owner level, and as the sum of point values beside it.",
        "Embeddings are other models' than the paper's: orderings and gaps can be compared, digits "
        "cannot.",
    ),
)
