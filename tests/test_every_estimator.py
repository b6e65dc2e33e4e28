"""The table of all models: a part of it measured again, and nothing in it that is wrong."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
FAST = (
    "BernoulliNB",
    "ClassifierChain",
    "DecisionTreeClassifier",
    "GaussianNB",
    "KNeighborsClassifier",
    "LogisticRegression",
    "RadiusNeighborsClassifier",
    "IsotonicRegression",
    "MultiTaskLasso",
    "PLSRegression",
    "PoissonRegressor",
    "Ridge",
    "ColumnTransformer by name",
    "ColumnTransformer by place",
    "boosting on categories by type",
    "sparse text",
    "raw text",
)


@pytest.fixture(scope="module")
def script():
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import every_estimator
    finally:
        sys.path.remove(str(BENCHMARKS))
    return every_estimator


def test_models_work_as_by_plain_fitting_or_say_why_not(script) -> None:
    cases = script.cases()
    found = {name: script.judged(cases[name]) for name in FAST}
    assert {name for name, it in found.items() if it["verdict"] == "refused"} == {
        "RadiusNeighborsClassifier",
        "IsotonicRegression",
    }
    assert {it["verdict"] for it in found.values()} == {"works", "refused"}, found


def test_the_table_has_nothing_wrong_and_is_the_one_that_was_measured(script) -> None:
    results = json.loads(script.RESULTS.read_text(encoding="utf-8"))
    assert {it["verdict"] for it in results.values()} == {"works", "refused"}
    assert set(FAST) <= set(results)
    page = script.PAGE.read_text(encoding="utf-8")
    assert script.on_page(page, results) == page
