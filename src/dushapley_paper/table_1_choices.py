"""What Table 1 leaves open, varied one thing at a time on two games of ten owners."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dushapley.games.model.batched.recipe import Recipe
from dushapley_paper.accuracy import EMPTY, PAPERS, advantage, errors_of, outcome
from dushapley_paper.boosting import Boosting
from dushapley_paper.cases import Case, utilities
from dushapley_paper.experiment import Dependence, Result, short

AS_CHOSEN = "as chosen"
ROWS = {"adult": 2000, "make-regression": 400}
"""Rows of the varied games: fewer than table-1's, so that each takes seconds."""
WORDS = {"won": "below both", "level": "level", "lost": "above one of them"}


def variants(seed: int) -> Mapping[str, tuple[str, Case]]:
    """Cases by name, each with what is left open."""
    logistic = Case("adult", 10, "iid", seed, most_rows=ROWS["adult"])
    trees = Case("make-regression", 10, "iid", seed, most_rows=ROWS["make-regression"])
    slow, small = Recipe(steps=20, learning_rate=0.1), Recipe(steps=20, batch_size=64, momentum=0.0)
    return {
        "logistic regression as chosen": (AS_CHOSEN, logistic),
        "another split": ("split", replace(logistic, seed=seed + 1)),
        "a third split": ("split", replace(logistic, seed=seed + 2)),
        "learning rate 0.1 instead of 0.5": ("learning rate", replace(logistic, recipe=slow)),
        "mini-batches of 64, no momentum": ("batch size", replace(logistic, recipe=small)),
        "sizes uniform over all ways to share": ("sizes", replace(logistic, sizes="dirichlet")),
        "equal sizes": ("sizes", replace(logistic, sizes="equal")),
        "trees as chosen": (AS_CHOSEN, trees),
        "another split (trees)": ("split", replace(trees, seed=seed + 1)),
        "rate 0.3 instead of 0.1": ("learning rate", replace(trees, boosting=Boosting(rate=0.3))),
        "depth 5 instead of 3": ("depth of trees", replace(trees, boosting=Boosting(depth=5))),
        "sizes uniform over all ways to share (trees)": (
            "sizes",
            replace(trees, sizes="dirichlet"),
        ),
        "equal sizes (trees)": ("sizes", replace(trees, sizes="equal")),
    }


def choices(seed: int, sampled: int) -> list[Result]:
    """Errors of every variant under both conventions for u(∅)."""
    found = []
    for name, (left_open, case) in variants(seed).items():
        table = utilities(case)
        both = {empty: errors_of(table, empty, sampled) for empty in EMPTY}
        found.append({"choice": name, "of": left_open, "data": case.data, **both})
    return found


def dependence(result: Result) -> list[Dependence]:
    """Whether DU-Shapley stays below both Monte Carlo methods."""
    return [
        Dependence(
            f"{'nothing else changed' if v['of'] == AS_CHOSEN else v['of']} "
            f"({ROWS[v['data']]:,} rows of {v['data']}, I = 10)",
            v["choice"],
            tuple(f"{meaning}: {in_words(v, empty)}" for empty, meaning in EMPTY.items()),
        )
        for v in result["choices"]
    ]


def in_words(variant: Result, empty: str) -> str:
    """In words and in the rivals' error over DU-Shapley's."""
    errors = variant[empty]
    said = WORDS[outcome(errors, "DU-Shapley", PAPERS)]
    return f"{said} ({short(advantage(errors, 'DU-Shapley', PAPERS))}×)"
