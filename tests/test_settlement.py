"""Money: nothing lost, nothing invented, under every rule."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from io import StringIO
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dushapley as ds
from dushapley.errors import InvalidSettlement
from dushapley.games import Answers, Game, Scores, Training
from dushapley.report import summarize, text_table
from dushapley.results.uncertainty import plausible_values
from dushapley.results.valuation import Valuation
from dushapley.settlement.money import RULES, share_out
from dushapley.settlement.settlement import Settlement, intervals, seal


def valuation(values: list[float], **more: object) -> Valuation:
    n = len(values)
    about = {
        "owners": tuple(f"owner {i}" for i in range(n)),
        "sizes": np.arange(1.0, n + 1),
        "values": np.array(values),
        "std_errors": None,
        "method": "exact",
        "n_evaluations": 2**n,
        "n_distinct": None,
        "n_computed": 2**n,
        "u_empty": 0.0,
        "u_full": float(sum(values)),
        "seed": 0,
    }
    return Valuation(**(about | more))  # type: ignore[arg-type]


numbers = st.floats(-1e6, 1e6, allow_subnormal=True) | st.floats(-1e-300, 1e-300)
pots = st.integers(0, 10**40).map(lambda c: Decimal((0, tuple(map(int, str(c))), -2)))


@given(st.lists(numbers, min_size=1, max_size=40), pots, st.sampled_from(sorted(RULES)))
def test_payments_add_up_to_the_pot(values: list[float], pot: Decimal, rule: str) -> None:
    valued = valuation(values)
    try:
        s = ds.settle(valued, pot, negative=rule)
    except InvalidSettlement:
        kept = [v if rule == "charge" else max(v, 0.0) for v in values]
        # what is rounding alone, forty times at the most, is no gain
        assert sum(map(Fraction, kept)) <= 41 * Fraction(valued.rounding)
        return
    assert sum(map(Fraction, s.payments)) == Fraction(pot)
    assert sum(map(Fraction, s.by_size)) == Fraction(pot)
    assert all(p.as_tuple().exponent == -2 for p in s.payments)
    if rule != "charge":
        assert min(s.payments) >= 0
    assert all(
        Fraction(p) >= -Fraction(size) for p, size in zip(s.payments, s.by_size, strict=True)
    )


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=60), st.integers(0, 10**12))
def test_nobody_is_a_whole_coin_from_its_due(weights: list[int], coins: int) -> None:
    total = sum(weights)
    if total == 0:
        return
    paid = share_out(coins, weights, [str(i) for i in range(len(weights))])
    due = [Fraction(coins * weight, total) for weight in weights]
    assert all(abs(p - d) < 1 for p, d in zip(paid, due, strict=True))


def test_rules_say_what_they_do() -> None:
    v = valuation([3.0, 2.0, -1.0])
    paid = {rule: [str(p) for p in ds.settle(v, 100, negative=rule).payments] for rule in RULES}
    assert paid["clip"] == ["60.00", "40.00", "0.00"]
    assert paid["charge"] == ["75.00", "50.00", "-25.00"]
    # a tenth of an equal share (3.33...) for all, the remaining 90 as under clip
    assert paid["floor"] == ["57.34", "39.33", "3.33"]
    equal = ds.settle(valuation([-1.0, -2.0]), 5, negative="floor", floor=1)
    assert [str(p) for p in equal.payments] == ["2.50", "2.50"]


def test_a_charge_is_capped_and_the_shortfall_is_stated() -> None:
    v = valuation([5.0, 4.0, -8.0], std_errors=np.full(3, 0.01))
    wild = ds.settle(v, 270_000, currency="EUR", negative="charge", cap="none")
    assert [str(p) for p in wild.payments] == ["1350000.00", "1080000.00", "-2160000.00"]
    s = ds.settle(v, 270_000, currency="EUR", negative="charge")
    assert s.cap == "1"
    assert -s.payments[2] == s.by_size[2]
    assert s.payments[0] / s.payments[1] == Decimal("1.25")  # the shortfall is in proportion
    assert s.low is not None
    assert s.high is not None
    assert all(lo <= p <= h for lo, p, h in zip(s.low, s.payments, s.high, strict=True))
    (note,) = s.notes
    assert "1 of 3 owners pay in 135,000.00 EUR" in note  # as half of the rows are its own
    assert "ask for 2,025,000.00 EUR more than the limit" in note
    assert "Nobody pays in more than what its rows alone" in repr(s)
    half = ds.settle(v, 270_000, negative="charge", cap=0.5)
    assert -2 * half.payments[2] == half.by_size[2]
    with pytest.raises(InvalidSettlement, match="charges nobody"):
        ds.settle(v, 10, cap=1)
    with pytest.raises(InvalidSettlement, match="0 to 1000"):
        ds.settle(v, 10, negative="charge", cap="-1")


def test_a_charge_settled_before_there_was_a_cap_still_reads_as_it_was() -> None:
    v = valuation([5.0, 4.0, -8.0])
    data = ds.settle(v, 100, negative="charge", cap="none").to_dict()
    assert "cap" not in data  # the form that older versions wrote
    assert data["rule"] == RULES["charge"]
    assert ds.Settlement.from_dict(data).to_dict() == data
    capped = ds.settle(v, 100, negative="charge").to_dict()
    assert ds.Settlement.from_dict(capped).to_dict() == capped
    for odd in ({"cap": "1e999"}, {"cap": 3}, {"negative": "clip"}):
        with pytest.raises(InvalidSettlement, match="cap"):
            ds.Settlement.from_dict(capped | odd)


def test_a_rounding_tie_goes_by_name_and_not_by_position() -> None:
    v = valuation([1.0, 1.0, 1.0])
    turned = valuation([1.0, 1.0, 1.0], owners=v.owners[::-1])
    one, other = (ds.settle(each, "0.01") for each in (v, turned))
    assert dict(zip(v.owners, one.payments, strict=True)) == dict(
        zip(turned.owners, other.payments, strict=True)
    )


@pytest.mark.parametrize(
    ("pot", "more", "said"),
    [
        ("-1", {}, "not negative"),
        ("1,000", {}, "without separators"),
        ("nan", {}, "not negative"),
        (True, {}, "amount of money"),
        ("0.005", {}, "more decimals"),
        ("100.000", {}, "may be 100.00 or 100000"),
        ("10.5", {"currency": "JPY"}, "more decimals"),
        ("10", {"negative": "forgive"}, "clip, charge, floor"),
        ("10", {"floor": 0.5}, "has no floor"),
        ("10", {"negative": "floor", "floor": 2}, "0 to 1"),
        ("10", {"currency": "E\x00"}, "short name"),
        ("10", {"decimals": -1}, "whole number"),
    ],
)
def test_bad_input_is_refused_with_the_remedy(pot: object, more: dict, said: str) -> None:
    with pytest.raises(InvalidSettlement, match=said):
        ds.settle(valuation([1.0, 2.0]), pot, **more)  # type: ignore[arg-type]


def test_what_cannot_be_settled_is_refused() -> None:
    with pytest.raises(InvalidSettlement, match="none is positive"):
        ds.settle(valuation([-1.0, 0.0]), 10)
    with pytest.raises(InvalidSettlement, match="no gain"):
        ds.settle(valuation([-3.0, 2.0]), 10, negative="charge")
    with pytest.raises(InvalidSettlement, match="stopped early"):
        ds.settle(valuation([1.0, 2.0], complete=False), 10)


def test_intervals_follow_the_joint_law() -> None:
    # perfectly correlated errors leave the shares of two equal owners as they are
    errors = np.array([0.1, 0.1])
    together = np.full((2, 2), 0.01)
    s = ds.settle(valuation([1.0, 1.0], std_errors=errors, covariance=together), 100)
    assert s.low is not None
    assert s.high is not None
    assert s.high[0] - s.low[0] <= Decimal("0.02")
    # independent ones: share = v1/(v1+v2), standard error 0.1·√2/4 = 3.54 of 100
    s = ds.settle(valuation([1.0, 1.0], std_errors=errors), 100)
    assert s.low is not None
    assert s.high is not None
    assert float(s.high[0] - s.low[0]) == pytest.approx(2 * 1.96 * 3.54, rel=0.06)
    assert "independent" in s.interval_meaning


class FreshRows(Game):
    """Two owners and fresh test rows: equal gains but for noise that all pools share."""

    n_players, names, sizes = 2, ("a", "b"), np.ones(2)
    training = Training(shift=0.0)

    def __init__(self, seed: int, rows: int = 200) -> None:
        rng = np.random.default_rng(seed)
        hardness = rng.normal(size=rows)  # of a test row, whoever trained
        own = 0.3 * rng.normal(size=(2, rows))
        alone = [0.6 + hardness + own[0], 0.4 + hardness + own[1]]
        self.scores = np.array([np.zeros(rows), *alone, 1.0 + 2 * hardness + own.sum(axis=0)])

    def evaluate(self, queries: Any, draws: Any) -> Any:
        scores = self.scores[queries.astype(int) @ [1, 2]]
        return Answers(scores.mean(axis=1), Scores(scores))


def test_payment_intervals_hold_over_fresh_test_sets() -> None:
    """Values err together, so that shares err little: 60 is due to a, 40 to b."""
    covered = []
    for seed in range(300):
        v = ds.value(FreshRows(seed), "exact")
        low, high = intervals(v, Decimal(100), 2, "clip", None)
        assert low is not None
        assert high is not None
        covered.append(low[0] <= 60 <= high[0])
    # 300 draws of 95%: standard error 1.26%, three of them
    assert 0.912 < np.mean(covered) < 0.988
    settled = ds.settle(v, 100)
    assert "independent" not in settled.interval_meaning
    apart = ds.settle(replace(v, errors={**v.errors, "covariance": None}), 100)
    assert apart.high is not None
    assert settled.high is not None
    assert apart.high[0] > settled.high[0] + 1  # independent errors know less than is known


@pytest.mark.parametrize("rule", ["clip", "floor"])
def test_a_pot_without_a_gain_is_paid_with_a_warning(rule: str) -> None:
    loss = ds.value(ds.TableGame([0.5, 0.7, 0.1, 0.4]), "exact")  # one helps, together they harm
    s = ds.settle(loss, 100, negative=rule)
    assert sum(s.payments) == 100
    assert "gains nothing" in repr(s)
    table = text_table(loss, summarize(loss, s), s)
    assert "gains nothing" in table
    assert any("gains nothing" in sentence for sentence in summarize(loss, s)["lead"])
    assert ds.settle(ds.value(ds.TableGame([0, 1, 1, 2]), "exact"), 100).notes == ()


def test_a_clipped_owner_may_still_be_owed_something() -> None:
    s = ds.settle(valuation([1.0, -0.01], std_errors=np.array([0.05, 0.05])), 100)
    assert s.payments[1] == 0
    assert s.high is not None
    assert s.high[1] > 5
    assert ds.settle(valuation([1.0, 1.0]), 100).low is None


def test_plausible_values_have_the_stated_law() -> None:
    covariance = np.array([[0.04, -0.03], [-0.03, 0.09]])
    v = valuation([1.0, 2.0], std_errors=np.array([0.2, 0.3]), covariance=covariance)
    drawn = plausible_values(v)
    assert drawn is not None
    assert drawn.mean(axis=0) == pytest.approx([1, 2], abs=4 * 0.3 / np.sqrt(len(drawn)))
    assert np.cov(drawn.T) == pytest.approx(covariance, abs=0.006)


def test_the_file_round_trips_and_is_sealed() -> None:
    v = ds.value(ds.SizeGame([5, 7, 9], w=np.sqrt), "permutation", budget=200)
    s = ds.settle(v, "1234.56", currency="EUR", negative="floor", floor="1/3")
    data = json.loads(s.to_json())
    assert Settlement.from_dict(data).to_dict() == s.to_dict() == data
    assert seal(data) == data["seal"]
    data["valuation"]["seed"] += 1
    assert seal(data) != data["seal"]
    with pytest.raises(InvalidSettlement, match=r"dushapley\.settlement/2"):
        Settlement.from_dict({"format": "other"})
    with pytest.raises(InvalidSettlement, match="lacks"):
        Settlement.from_dict({"format": "dushapley.settlement/2"})
    with pytest.raises(InvalidSettlement, match="Verify it with the version that wrote it"):
        Settlement.from_dict(data | {"format": "dushapley.settlement/1"})


def test_csv_holds_no_formula() -> None:
    names = ("=HYPERLINK(1)", "+1", "-1", "@x", "\tx", "plain, with comma")
    text = ds.settle(valuation([1.0] * 6, owners=names), 6).to_csv()
    for line in text.splitlines()[1:]:
        assert line.lstrip('"')[0] not in "=+-@\t"
    assert '"plain, with comma"' in text


@pytest.mark.parametrize(
    "name",
    [" =1", '"=1', "'=1", "’=1", "＝1", "＋1", "－1", "＠1", "﹦1", "|cmd", "%0", "\r=1", "\x00=1",
     "\u202e=1", "\u200b=1", "\u3000=1"],
)  # fmt: skip
def test_no_disguise_makes_a_formula(name: str) -> None:
    owners = (name, f"Ltd; {name}")
    frame = pd.read_csv(StringIO(ds.settle(valuation([1.0, 1.0], owners=owners), 6).to_csv()))
    for cell in (part for entry in frame["owner"] for part in entry.split(";")):
        assert cell[0] == "'" or cell == "Ltd"
        assert cell.replace("\u3000", " ").isprintable()


@pytest.mark.parametrize(
    ("currency", "decimals"),
    [("EUR", 2), ("jpy", 0), ("PYG", 0), ("KWD", 3), ("IQD", 3), ("CLF", 4), ("RSD", 2), ("", 2),
     ("points", 2)],
)  # fmt: skip
def test_decimals_are_those_of_iso_4217(currency: str, decimals: int) -> None:
    """Babel leaves out coins that shops no longer take; a settlement must not."""
    v = ds.value(ds.TableGame([0, 1, 2, 4]), "exact")
    assert ds.settle(v, 100, currency=currency).decimals == decimals


def test_why_payments_have_no_interval_is_told_as_it_is() -> None:
    def meaning(std_errors: np.ndarray | None) -> str:
        v = ds.Valuation(
            ("a", "b"), np.ones(2), np.array([0.1, 0.1]), std_errors, "gp", u_full=0.2,
            u_empty=0.0, n_evaluations=9, n_distinct=9, n_computed=9, seed=0,
        )  # fmt: skip
        return ds.settle(v, 100, currency="EUR").interval_meaning

    assert "the error of the values is unknown: sampling" in meaning(None)
    assert "nothing at all may have been gained" in meaning(np.array([0.5, 0.5]))
    assert "no interval" not in meaning(np.array([0.01, 0.01]))
