"""`dushapley compare`: methods side by side on files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import dushapley as ds
from dushapley.cli.main import main
from dushapley.cli.quote import doubt, summary


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for name, rows in [("a", 9), ("b", 14), ("c", 20), ("d", 7), ("test", 40)]:
        x = rng.normal(size=(rows, 2))
        label = (x[:, 0] + 0.5 * rng.normal(size=rows) > 0).astype(int)
        lines = [f"{u:.4f},{v:.4f},{t}" for (u, v), t in zip(x, label, strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["u,v,label", *lines]) + "\n")
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], folder: Path, *more: str) -> tuple[int, str, str]:
    files = [str(folder / f"{name}.csv") for name in "abcd"]
    words = [
        "compare",
        *files,
        "--by-file",
        "--target",
        "label",
        "--test",
        str(folder / "test.csv"),
    ]
    with pytest.raises(SystemExit) as ended:
        main([*words, "--model", "knn", "--no-ledger", *more])
    captured = capsys.readouterr()
    return int(ended.value.code or 0), captured.out, captured.err


def test_methods_stand_side_by_side(capsys, folder: Path) -> None:
    picture = folder / "errors.png"
    code, out, err = run(
        capsys, folder, "--methods", "permutation,loo,du-second-order", "--budgets", "8,14",
        "--seeds", "2", "--picture", str(picture),
    )  # fmt: skip
    assert code == 0, err
    lines = out.splitlines()
    assert lines[0].split()[:2] == ["method", "budget"]
    assert [line.split()[0] for line in lines[1:3]] == ["permutation", "permutation"]
    assert any("asks no questions" in line for line in lines)  # a refusal is a row
    assert picture.stat().st_size > 1000
    assert lines[1].count("±") == 1  # a mean over two seeds has a standard error
    assert "standard error" in lines[-1]


def test_equal_reference_values_show_plain_errors() -> None:
    """Relative to a spread of 0 there is no error; such runs are not taken for refusals."""
    game = ds.CallableGame(lambda z: z.sum(axis=1) ** 2, 4, cheap=True)
    lines = summary(ds.compare(game, ["owen", "knn"], budgets=[40], seeds=range(3))).splitlines()
    assert "MSE" in lines[0]
    assert "±" in lines[1]
    assert "needs the owners' rows" in lines[2]
    assert "All reference values are equal" in lines[-2]


def test_json_holds_every_run(capsys, folder: Path) -> None:
    code, out, err = run(
        capsys, folder, "--methods", "permutation", "--budgets", "8", "--seeds", "3", "--json"
    )
    assert code == 0, err
    rows = json.loads(out)
    assert [row["seed"] for row in rows] == [0, 1, 2]
    assert all(row["n_evaluations"] <= 8 for row in rows)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--budgets", "a few"], "whole numbers with commas"),
        (["--methods", "permutatoin"], "Did you mean 'permutation'"),
    ],
)
def test_mistakes_are_met_before_any_training(capsys, folder: Path, more, message) -> None:
    code, out, err = run(capsys, folder, *more)
    assert code == 2
    assert out == ""
    assert message in err


def test_a_budget_named_twice_is_run_once() -> None:
    game = ds.SizeGame([1, 2, 4, 8], w=lambda n: n / (n + 3))
    frame = ds.compare(game, ["permutation"], budgets=[14, 14], seeds=[0, 1, 1])
    assert frame["seed"].tolist() == [0, 1]


def test_a_reference_that_errs_says_so(capsys, folder: Path) -> None:
    """Errors are measured against it, and cannot be told below its own."""
    game = ds.SizeGame([1, 2, 4], w=lambda n: n / (n + 3))
    assert "relative MSE of about" in doubt(ds.value(game, "permutation", budget=14))
    assert "not known" in doubt(ds.value(game, "loo"))
    assert doubt(ds.value(game, "exact")) == ""
