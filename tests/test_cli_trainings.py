"""The command line names one model and one path, and values statistics files as it does rows."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from dushapley.cli.main import main


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as stopped:
        main([str(a) for a in arguments])
    told = capsys.readouterr()
    assert not stopped.value.code, told.err
    return told


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((260, 3)), columns=["a", "b", "c"])
    X["price"] = X["a"] + 2 * X["b"] + rng.standard_normal(260)
    X["kind"] = np.where(X["price"] > 0, "dear", "cheap")
    X["site"] = rng.choice(["n", "s", "w"], 260)
    for target, other in (("price", "kind"), ("kind", "price")):
        table = X.drop(columns=other)
        table[:200].to_csv(tmp_path / f"{target}.csv", index=False)
        table[200:].drop(columns="site").to_csv(tmp_path / f"{target}-test.csv", index=False)
    return tmp_path


@pytest.mark.parametrize(
    ("target", "model"), [("price", "ridge"), ("kind", "lda"), ("kind", "naive-bayes")]
)
def test_statistics_files_are_valued_as_the_rows(files, capsys, target, model):
    rows, test = files / f"{target}.csv", files / f"{target}-test.csv"
    common = ("--target", target, "--test", test, "--model", model, "--method", "exact", "--json")
    from_rows = run(capsys, "value", rows, "--owner", "site", *common)
    made = run(
        capsys, "statistics", rows, "--owner", "site", "--target", target, "--out", files / "s"
    )
    handed = made.out.split()
    assert len(handed) == 3
    assert "give the rows away" in made.err
    from_sums = run(capsys, "value", *handed, *common)
    assert json.loads(from_rows.out)["values"] == json.loads(from_sums.out)["values"]
    assert run(capsys, "value", files / "s", *common).out == from_sums.out  # the folder of them
    assert "no ledger" in from_sums.err
    assert "additive" in from_rows.err


def test_statistics_need_a_test_file_and_their_own_target(files, capsys):
    run(
        capsys,
        "statistics",
        files / "price.csv",
        "--owner",
        "site",
        "--target",
        "price",
        "--out",
        files,
    )
    sums = sorted(files.glob("owner-*.npz"))
    for wrong, told in (
        (("--target", "price", "--holdout", "0.2"), "hold no rows"),
        (("--target", "kind", "--test", files / "kind-test.csv"), "statistics are of 'price'"),
    ):
        with pytest.raises(SystemExit) as stopped:
            main([str(a) for a in ("value", *sums, *wrong)])
        assert stopped.value.code == 2
        assert told in capsys.readouterr().err


def test_a_name_is_one_model_and_one_path(files, capsys):
    rows, test = files / "kind.csv", files / "kind-test.csv"
    job = ("value", rows, "--owner", "site", "--target", "kind", "--test", test)
    job = (*job, "--method", "exact", "--no-ledger", "--json", "--model")
    alone = run(capsys, *job, "logistic")
    assert "logistic: LogisticRegression(" in alone.err
    assert "each pool fitted by itself" in alone.err
    once, twice = run(capsys, *job, "softmax"), run(capsys, *job, "softmax", "--jobs", "2")
    assert "softmax: softmax regression, 200 steps" in once.err
    assert "many pools together, numpy float64" in once.err
    assert once.out == twice.out


def test_an_owner_at_home_hands_over_its_own_sums(files, capsys, tmp_path):
    rows = pd.read_csv(files / "price.csv")
    for site, table in rows.groupby("site"):
        own = tmp_path / f"{site}.csv"
        table.drop(columns="site").to_csv(own, index=False)
        made = run(
            capsys, "statistics", own, "--by-file", "--target", "price", "--out", tmp_path / "s"
        )
        assert made.out.split() == [str(tmp_path / "s" / f"{site}.npz")]
        assert "of 1 owner." in made.err
    common = ("--target", "price", "--test", files / "price-test.csv", "--model", "ridge", "--json")
    together = run(capsys, "value", files / "price.csv", "--owner", "site", *common)
    apart = run(capsys, "value", tmp_path / "s", *common)
    assert by_name(apart) == pytest.approx(by_name(together), rel=1e-12)


def by_name(told):
    found = json.loads(told.out)
    return dict(zip(found["owners"], found["values"], strict=True))
