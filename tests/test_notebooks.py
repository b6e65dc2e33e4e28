"""What notebooks show: tables with bars, in which names stay text."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgba

import dushapley as ds
from dushapley.engine.progress import Progress, Watch
from dushapley.errors import InvalidGame, InvalidOption
from dushapley.protocol import Estimate

HOSTILE = "<script>alert(1)</script>"


def test_values_and_owners_show_as_tables_with_bars() -> None:
    game = ds.CallableGame(
        lambda z: z @ [4.0, -1.0], 2, names=["north", HOSTILE], fingerprint="notebook"
    )
    owners = ds.Owners.from_arrays({"north": ([[1.0], [2.0]], [0, 1]), HOSTILE: ([[3.0]], [1])})
    for shown in (ds.value(game, "exact")._repr_html_(), owners._repr_html_()):
        assert "linear-gradient" in shown
        assert "<script" not in shown
    assert "3 rows" in owners._repr_html_()


def test_progress_is_a_bar_below_the_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[dict[str, str]] = []

    class Cell:
        def update(self, words: dict[str, str], *, raw: bool) -> None:
            assert raw
            shown.append(words)

    def display(words: dict[str, str], *, raw: bool, display_id: bool) -> Cell:
        assert raw
        assert display_id
        shown.append(words)
        return Cell()

    kernel = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object()))
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    monkeypatch.setattr("dushapley.engine.progress.FRAME", -1.0)
    game = ds.CallableGame(lambda z: z.sum(axis=1), 4, block=1)
    ds.value(game, "permutation", budget=40)
    assert "<progress value='0' max='40'>" in shown[0]["text/html"]
    assert "38/40 evaluations" in shown[-1]["text/plain"]
    assert len(shown) > 5
    with Progress(40) as bar:
        bar.show_leaders(Estimate(np.ones(1), np.ones(1)), [HOSTILE], Watch())
    assert "&lt;script" in shown[-1]["text/html"]
    assert "<script" in shown[-1]["text/plain"]
    told = len(shown)
    ds.value(game, "permutation", budget=40, progress=False)
    assert len(shown) == told


@pytest.mark.parametrize(("style", "ink"), [("default", "black"), ("dark_background", "white")])
def test_plots_take_their_ink_from_the_style(style: str, ink: str) -> None:
    import matplotlib.pyplot as plt

    v = ds.value(ds.SizeGame([1, 2, 3], w=lambda n: n / (n + 1)), "permutation", budget=60)
    with plt.style.context(style):
        ax = v.plot()
    (zero,) = [line for line in ax.lines if list(line.get_xdata()) == [0, 0]]
    assert zero.get_color() == ink
    (bars,) = [c for c in ax.containers if hasattr(c, "has_xerr")]
    assert bars.lines[2][0].get_color().tolist()[0] == list(to_rgba(ink))
    plt.close(ax.figure)


def test_a_table_in_memory_is_checked_like_files() -> None:
    rows = pd.DataFrame({"a": range(40), "y": ["yes", "no"] * 20, "site": ["n"] * 20 + ["s"] * 20})
    rows.loc[rows.site == "s", "y"] = rows.y.str.title()
    found = ds.check(rows, owner="site", target="y")
    assert {(stop.code, stop.owner) for stop in found.stops} == {("label-spelling", "s")}
    assert not ds.check(rows, owner="site", target="y", merge="labels").stops
    for odd in ({"by_file": True}, {"owner": "site", "test": "test.csv"}):
        with pytest.raises(InvalidOption, match="A table in memory"):
            ds.check(rows, target="y", **odd)


def test_what_names_no_file_is_not_checked(tmp_path: Path) -> None:
    rows = pd.DataFrame({"a": range(4), "y": [0, 1] * 2, "site": ["n", "n", "s", "s"]})
    rows.to_csv(tmp_path / "rows.csv", index=False)
    owners = ds.Owners.from_frame(rows, owner="site", target="y")
    for odd in (owners, {"n": rows}, [rows, rows], 5, rows.to_numpy()):
        with pytest.raises(InvalidOption, match=r"Found \w+; check takes names of files"):
            ds.check(odd, owner="site", target="y")
    with pytest.raises(InvalidOption, match="Found DataFrame"):
        ds.check(tmp_path / "rows.csv", owner="site", target="y", test=rows)


def test_findings_show_as_a_table(tmp_path: Path) -> None:
    rows = pd.DataFrame({"a": range(20), "y": [0, 1] * 10, "site": ["n", "s"] * 10})
    rows.assign(a=[*range(19), "oh"]).to_csv(tmp_path / "rows.csv", index=False)
    found = ds.check(tmp_path / "rows.csv", owner="site", target="y")
    assert "<td>stop</td>" in found._repr_html_()


class Utility:
    """A stand-in for other libraries' utilities: worth of the indices it is called with."""

    def __call__(self, sample: Any) -> float:
        indices: Sequence[int] = getattr(sample, "subset", sample)
        return float(len(indices)) ** 0.5


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_utility_of_index_sets_is_a_game(wrapped: bool) -> None:
    sample = (lambda indices: SimpleNamespace(idx=None, subset=indices)) if wrapped else None
    game = ds.games.from_utility(Utility(), {"a": [0, 5], "b": [2], "c": [3]}, sample=sample)
    assert game.sizes is not None
    assert game.sizes.tolist() == [2, 1, 1]
    expected = ds.CallableGame(lambda z: (z @ [2.0, 1.0, 1.0]) ** 0.5, 3)
    np.testing.assert_allclose(
        ds.value(game, "exact").values, ds.value(expected, "exact").values, atol=1e-12
    )


def test_pydvl_utilities_get_pydvl_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def sample(idx: int | None, subset: Any) -> SimpleNamespace:
        made.append(idx)
        return SimpleNamespace(idx=idx, subset=subset)

    types = SimpleNamespace(Sample=sample)
    monkeypatch.setattr(
        "dushapley.games.callables.import_module", {"pydvl.valuation.types": types}.__getitem__
    )
    theirs = type("ModelUtility", (Utility,), {"__module__": "pydvl.valuation.utility"})
    v = ds.value(ds.games.from_utility(theirs(), 4), "exact")
    np.testing.assert_allclose(v.values, 0.5)
    assert set(made) == {None}


@pytest.mark.parametrize(
    ("owners", "told"),
    [
        ({"a": [0, 1], "b": [1]}, "Index 1 belongs to two owners"),
        ({"a": ["x"]}, "whole numbers"),
        ({}, "no owners"),
        (0, "a number of owners"),
    ],
)
def test_owners_of_indices_are_checked(owners: Any, told: str) -> None:
    with pytest.raises(InvalidGame, match=told):
        ds.games.from_utility(Utility(), owners)


class HuggingFaceLike:
    """A stand-in for `datasets.Dataset`: a table, and the names of its classes apart."""

    def __init__(self) -> None:
        self.features = {"label": SimpleNamespace(names=["cat", "dog"])}

    def to_pandas(self) -> pd.DataFrame:
        rng = np.random.default_rng(0)
        label = np.arange(40) % 2
        x = label + rng.normal(size=40)
        return pd.DataFrame({"x": x, "label": label, "site": ["n", "s", "w", "e"] * 10})


def test_a_hugging_face_dataset_becomes_owners() -> None:
    owners = ds.Owners.from_frame(HuggingFaceLike(), owner="site", target="label")
    assert owners.names == ("n", "s", "w", "e")
    assert set(np.concatenate([y for y in owners.y if y is not None])) <= {"cat", "dog"}
