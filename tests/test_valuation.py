"""The result: frozen, exact on the way to JSON and back, readable."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import dushapley as ds

finite = st.floats(allow_nan=False, allow_infinity=False, width=64)


def made(values: np.ndarray, errors: np.ndarray | None, names: list[str]) -> ds.Valuation:
    return ds.Valuation(
        owners=tuple(names),
        sizes=np.ones(len(values)),
        values=values,
        std_errors=errors,
        method="auto → permutation",
        n_evaluations=10,
        n_distinct=9,
        n_computed=8,
        u_empty=0.1,
        u_full=0.7,
        seed=3,
        covariance=None if errors is None else np.diag(errors),
        options={"form": "all"},
        notes=("read this",),
        failures={"ValueError": 2},
        details={"trace": [1.5, 2.5]},
    )


def same(one: ds.Valuation, other: ds.Valuation) -> None:
    for item in fields(one):
        a, b = getattr(one, item.name), getattr(other, item.name)
        if isinstance(a, np.ndarray):
            assert a.tobytes() == b.tobytes(), item.name
        else:
            assert a == b, item.name


@given(arrays(np.float64, st.integers(1, 6), elements=finite), st.booleans(), st.data())
def test_round_trip_through_json_text_is_exact(values, with_errors, data) -> None:
    names = data.draw(
        st.lists(st.text(max_size=20), min_size=len(values), max_size=len(values), unique=True)
    )
    errors = np.abs(values) / 3 if with_errors else None
    one = made(values, errors, names)
    same(one, ds.Valuation.from_dict(json.loads(one.to_json())))
    same(one, ds.Valuation.from_dict(one.to_dict()))
    assert one == ds.Valuation.from_dict(one.to_dict())


@pytest.mark.parametrize("method", ["exact", "permutation", "loo", "random", "auto"])
def test_every_method_survives_the_round_trip(method: str) -> None:
    found = ds.value(ds.TableGame(np.random.default_rng(0).normal(size=16)), method)
    read = ds.Valuation.from_dict(json.loads(found.to_json()))
    same(found, read)
    assert found == read


def test_equality_sees_the_last_bit() -> None:
    one = made(np.array([1.0, 2.0]), None, ["a", "b"])
    other = made(np.array([1.0, np.nextafter(2.0, 3.0)]), None, ["a", "b"])
    assert one == made(np.array([1.0, 2.0]), None, ["a", "b"])
    assert one != other
    assert len({one, other}) == 2


def test_shares_of_nothing_are_no_numbers() -> None:
    assert np.isnan(made(np.array([1.0, -1.0]), None, ["a", "b"]).shares).all()


def test_is_frozen() -> None:
    found = ds.value(ds.TableGame([0, 1, 2, 4]), "exact")
    with pytest.raises(FrozenInstanceError):
        found.values = np.zeros(2)
    with pytest.raises(ValueError, match="read-only"):
        found.values[0] = 9


def test_table_is_read_at_a_glance() -> None:
    text = repr(made(np.array([0.25, -0.5]), np.array([0.01, 0.02]), ["small", "bad\nname"]))
    lines = text.splitlines()
    assert lines[0].startswith("Valuation of 2 owners by auto → permutation: 10 evaluations")
    assert "small" in lines[2]
    assert "0.2500" in lines[2]
    assert "0.020" in lines[2]
    assert "bad�name" in lines[3]
    assert "note: read this" in text
    assert "2 utilities failed" in text


def test_a_hundred_owners_fit_a_screen() -> None:
    text = repr(ds.value(ds.SizeGame(np.arange(1, 101), np.sqrt), "permutation", budget=1000))
    assert len(text.splitlines()) < 40
    assert "70 more" in text


def test_frame_has_one_row_per_owner_best_first() -> None:
    frame = made(np.array([1.0, 3.0, 2.0]), np.array([0.1, 0.2, 0.3]), ["a", "b", "c"]).to_frame()
    assert frame["owner"].tolist() == ["b", "c", "a"]
    assert frame["rank"].tolist() == [1, 2, 3]
    assert frame["share"].sum() == pytest.approx(1)
    np.testing.assert_allclose(frame["high"] - frame["value"], 1.96 * frame["std_error"])


def test_plot_has_a_bar_and_an_error_bar_per_owner() -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    ax = made(np.array([1.0, -3.0]), np.array([0.1, 0.2]), ["$x$", "y"]).plot()
    assert len(ax.patches) == 2
    assert [label.get_text() for label in ax.get_yticklabels()] == ["y", r"\$x\$"]
    assert len(ax.collections) == 1
    ax.figure.canvas.draw()
    assert len(made(np.array([1.0]), None, ["a"]).plot().collections) == 0
    plt.close("all")
