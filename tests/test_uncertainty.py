"""Orders and ranks are as sure as all known errors together, and every door says the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr
from sklearn.linear_model import LogisticRegression

import dushapley as ds
from dushapley.games import Answers, Game, Scores, Training
from dushapley.report import summarize, text_table
from dushapley.report.wording import percent
from dushapley.results.uncertainty import rank_probabilities, rank_ranges

RNG = np.random.default_rng(7)
X = RNG.normal(size=(400, 3))
Y = (X @ [1.0, -1.0, 0.3] + RNG.normal(size=400) > 0).astype(int)


@pytest.fixture(scope="module")
def exact() -> ds.Valuation:
    """All coalitions of four owners: no sampling error, but 60 test rows."""
    owners = ds.Owners.from_arrays(
        {name: (X[k : 70 + 70 * k : 4], Y[k : 70 + 70 * k : 4]) for k, name in enumerate("abcd")}
    )
    return ds.value(ds.ModelGame(owners, LogisticRegression(), X[340:], Y[340:]), "exact")


def doors(v: ds.Valuation) -> tuple[list[Any], list[Any]]:
    """How sure each owner's rank is, best first: by Python and by the report's summary."""
    order = np.argsort(-v.values, kind="stable")
    python = rank_probabilities(v)[order, np.arange(len(order))].tolist()
    return python, [row["rank_range"]["sure"] for row in summarize(v)["rows"]]


def test_ranks_of_an_exact_valuation_are_as_sure_as_its_test_set(exact: ds.Valuation) -> None:
    assert exact.std_errors is None
    python, page = doors(exact)
    assert python == page
    assert max(python) < 1
    table = text_table(exact, summarize(exact))
    assert all(percent(sure, 0) in table for sure in python)


def test_an_order_is_as_sure_as_the_total_covariance(exact: ds.Valuation) -> None:
    joint = np.array(exact.errors["covariance"])
    error = np.sqrt(joint[0, 0] + joint[1, 1] - 2 * joint[0, 1])
    chance = ds.probability_greater(exact)
    assert chance[0, 1] == pytest.approx(ndtr((exact.values[0] - exact.values[1]) / error))
    ranks = rank_probabilities(exact)  # on average: how many others are worth more
    assert ranks @ np.arange(4) == pytest.approx(chance.sum(axis=0) - 0.5, abs=0.05)


def test_ranges_hold_the_ranks_by_the_same_draws(exact: ds.Valuation) -> None:
    ranges, chances = rank_ranges(exact), rank_probabilities(exact)
    assert ranges is not None
    for owner, (low, high) in enumerate(zip(ranges.low, ranges.high, strict=True)):
        assert chances[owner, low - 1 : high].sum() >= 0.95
        assert chances[owner, : low - 1].sum() <= 0.026
        assert chances[owner, high:].sum() <= 0.026


class Twins(Game):
    """Two owners of equal worth, scored on fresh test rows."""

    n_players, names, sizes = 2, ("a", "b"), np.ones(2)
    training = Training(deterministic=True, shift=0.0)

    def __init__(self, seed: int) -> None:
        gains = np.random.default_rng(seed).normal(1.0, 1.0, size=(2, 100))
        self.scores = np.array([np.zeros(100), *gains, gains.sum(axis=0)])

    def evaluate(self, queries: Any, draws: Any) -> Any:
        scores = self.scores[queries.astype(int) @ [1, 2]]
        return Answers(scores.mean(axis=1), Scores(scores))


def test_orders_of_equals_are_seldom_called_sure() -> None:
    """Over fresh test sets, as often as they should: 5% of 300, three standard errors of 1.26%."""
    sure = [ds.probability_greater(ds.value(Twins(s), "exact"))[0, 1] for s in range(300)]
    outside = np.mean([not 0.025 < chance < 0.975 for chance in sure])
    assert 0.012 < outside < 0.088


def test_errors_without_a_covariance_are_independent_at_every_door() -> None:
    game = ds.SizeGame([10, 12, 14, 16, 40], w=np.sqrt)
    v = replace(ds.value(game, "svarm", budget=100), covariance=None)
    assert v.std_errors is not None
    assert "independent" in v.interval_meaning
    python, page = doors(v)
    assert python == page
    error = np.hypot(v.std_errors[0], v.std_errors[4])
    expected = ndtr((v.values[0] - v.values[4]) / error)
    assert ds.probability_greater(v)[0, 4] == pytest.approx(expected)


def test_exact_values_have_one_order_and_no_error_is_no_rank() -> None:
    game = ds.SizeGame([10, 12, 14], w=np.sqrt)
    assert rank_probabilities(ds.value(game, "exact")).max(axis=1).tolist() == [1.0] * 3
    blind = ds.value(game, "loo")
    for v in (ds.value(game, "exact"), blind):  # a page claims no certainty without an error
        assert [row["rank_range"] for row in summarize(v)["rows"]] == [None] * 3
    for ask in (rank_probabilities, ds.probability_greater):
        with pytest.raises(ds.DUShapleyError, match="unknown: sampling"):
            ask(blind)


def test_as_many_questions_as_coalitions_are_not_all_coalitions() -> None:
    v = ds.value(ds.CallableGame(lambda z: (z @ [1.0, 2, 4]) ** 2, 3), "svarm", budget=8)
    assert v.std_errors is None
    with pytest.raises(ds.DUShapleyError, match="unknown: sampling"):
        rank_probabilities(v)


def test_a_what_if_without_errors_is_not_called_clear() -> None:
    owners = ds.Owners.from_arrays({n: (X[k:300:5], Y[k:300:5]) for k, n in enumerate("abc")})
    game = ds.ModelGame(owners, LogisticRegression(), X[340:], Y[340:])
    answer = ds.what_if(game, ds.Copy("a", "b"), method="loo")
    assert np.isnan(answer.to_frame()["std_error"]).all()
    assert "is unknown: sampling" in answer.verdict()[0]
