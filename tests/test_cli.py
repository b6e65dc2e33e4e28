"""The command line: data on stdout, talk on stderr, exit codes, and the first settlement."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dushapley as ds
from dushapley.cli import job as jobs
from dushapley.cli import quote as consent
from dushapley.cli.demo import HOSPITALS, MISLABELLED, demo_game, demo_tables, leave_files
from dushapley.cli.main import COMMANDS, main
from dushapley.cli.options import generous_budget, method_options
from dushapley.engine import plan as pricing
from dushapley.errors import InvalidOption
from dushapley.games.model.catalogue import MODELS, guess_task, has_holes, make_model
from extras import needs


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("warnings.showwarning", None)  # put back after main has set its own


@pytest.fixture
def folder(tmp_path):
    """Three small owners and a test file."""
    rng = np.random.default_rng(0)

    def rows(n):
        X = rng.normal(size=(n, 2))
        return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": (X.sum(axis=1) > 0).astype(int)})

    (tmp_path / "owners").mkdir()
    for name, n in (("one", 12), ("two", 15), ("<b>=1+1", 18)):
        rows(n).to_csv(tmp_path / "owners" / f"{name}.csv", index=False)
    rows(40).to_csv(tmp_path / "test.csv", index=False)
    return tmp_path


def run(capsys, *arguments):
    """Exit code, stdout and stderr of one command."""
    with pytest.raises(SystemExit) as ended:
        main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return ended.value.code, out, err


def value(capsys, folder, *more, test=True):
    tested = ["--test", folder / "test.csv"] if test else []
    return run(capsys, "value", folder / "owners", "--by-file", "--target", "y", *tested, *more)


def test_files_become_a_table_and_an_exact_json(capsys, folder):
    code, out, err = value(capsys, folder)
    assert code == 0
    assert "Valuation of 3 owners by auto → exact" in out
    assert "<b>=1+1" in out
    assert "classification, logistic, accuracy" in err
    assert str(folder / "state" / "dushapley") in err
    code, out, err = value(capsys, folder, "--json")
    back = ds.Valuation.from_dict(json.loads(out))
    assert back.to_json() + "\n" == out
    assert back.n_computed == 0  # the ledger kept everything
    assert back.owners == ("<b>=1+1", "one", "two")


def test_json_equals_the_library_call(capsys, folder):
    _, out, _ = value(capsys, folder, "--json", "--no-ledger", "--model", "ridge")
    owners = ds.Owners.from_files(folder / "owners", target="y")
    model = make_model("ridge", "classification", missing=False)
    test = owners.align(pd.read_csv(folder / "test.csv"))
    expected = ds.value(ds.ModelGame(owners, model, *test), budget=8)
    assert out == expected.to_json() + "\n"


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        (["--method", "exat"], 2, "Did you mean 'exact'"),
        (["--option", "form"], 2, "not of the form name=value"),
        (["--method", "exact", "--option", "by=magic"], 2, "it takes 'formula', 'enumeration'"),
        (["--budget", "1"], 2, "at least 2"),
        (["--model", "logistik"], 2, "Did you mean 'logistic'"),
        (["--model", "sklearn.svm.Nix"], 2, "cannot be imported"),
        (["--model", "logistic", "--task", "regression"], 2, "not a model for regression"),
        (["--task", "guessing"], 2, "--task is 'guessing'"),
        (["--holdout", "0.5"], 2, "Found 2 ways to test"),
        (["--owner", "a"], 2, "Found both of --owner and --by-file"),
        (["--executor", "cloud"], 2, "executor is 'cloud'"),
        (["--jobs", "0"], 2, "--jobs is 0"),
        (["--seed", "x"], 2, "Invalid value for '--seed'"),
        (["--bogus"], 2, "No such option"),
        (["--scoring", "accurac"], 2, "Did you mean 'accuracy'"),
        (["--empty", "some"], 2, "empty is 'some'"),
        (["--target", "nix"], 2, "no target column 'nix'"),
        (["--model", "sklearn.linear_model.Ridge", "--scoring", "accuracy"], 2, "judges classes"),
    ],
)
def test_mistakes_end_in_a_sentence(capsys, folder, more, code, message):
    found, out, err = value(capsys, folder, *more)
    assert found == code
    assert message in err
    assert "Traceback" not in err
    assert out == ""


@pytest.mark.parametrize(
    "more",
    [
        ["--jobs", "0"],
        ["--jobs", "-2"],
        ["--precision", "-1"],
        ["--precision", "nan"],
        ["--precision", "95"],
        ["--max-seconds", "0"],
        ["--budget", "0"],
        ["--timeout", "-1"],
        ["--timeout", "inf"],
        ["--memory", "nanMB"],
        ["--memory", "0MB"],
        ["--empty", "inf"],
        ["--executor", "cloud"],
        ["--address", "here"],
        ["--option", "form=paper"],
        ["--method", "permutation", "--budget", "3"],
        ["--pot", "-1"],
        ["--ledger", "nowhere/paid.sqlite"],
        ["--ledger", "test.csv"],
    ],
)
def test_impossible_wishes_are_refused_before_any_training(capsys, folder, monkeypatch, more):
    def trains(*_):
        pytest.fail("a model was trained")

    monkeypatch.setattr(ds.ModelGame, "evaluate", trains)
    code, out, err = value(capsys, folder, *more)
    assert code == 2
    assert out == ""
    assert err.splitlines()[-1].startswith("error: ")
    assert "; " in err or ". " in err  # what is needed, or what to do


@pytest.mark.parametrize(
    ("command", "more"),
    [
        ("quote", ["--jobs", "0"]),
        ("compare", ["--jobs", "0"]),
        ("compare", ["--budgets", "0"]),
        ("compare", ["--picture", "nowhere/a.png"]),
        ("compare", ["--picture", "a.nix"]),
        ("what-if", ["--leave", "one", "--jobs", "0"]),
        ("what-if", ["--leave", "one", "--pot", "-1"]),
        ("what-if", ["--leave", "one", "--currency", "EUR"]),
    ],
)
def test_so_do_the_other_commands(capsys, folder, monkeypatch, command, more):
    def trains(*_):
        pytest.fail("a model was trained")

    monkeypatch.setattr(ds.ModelGame, "evaluate", trains)
    job = [folder / "owners", "--by-file", "--target", "y", "--test", folder / "test.csv"]
    code, out, err = run(capsys, command, *job, *more)
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith("error: ")


def test_hold_out_that_leaves_too_little_is_refused(capsys, folder):
    code, _, err = value(capsys, folder, "--holdout", "0.99", test=False)
    assert code == 2
    assert "leaves owner '<b>=1+1' 1 of its 18 rows" in err
    assert "Hold out less" in err


def test_dotted_models_have_their_holes_filled_as_named_ones(capsys, folder):
    table = pd.read_csv(folder / "owners" / "one.csv")
    table.loc[3, "a"] = np.nan
    table.to_csv(folder / "owners" / "one.csv", index=False)
    found = {}
    for name in ("naive-bayes", "sklearn.naive_bayes.GaussianNB"):
        code, out, err = value(capsys, folder, "--model", name, "--json")
        assert code == 0, err
        assert "after SimpleImputer" in err
        found[name] = json.loads(out)["values"]
    assert found["naive-bayes"] == found["sklearn.naive_bayes.GaussianNB"]
    able = "sklearn.ensemble.HistGradientBoostingClassifier"
    assert "SimpleImputer" not in value(capsys, folder, "--model", able)[2]  # it takes holes


def test_folds_tell_their_model_once(capsys, folder):
    _, _, err = value(capsys, folder, "--cv", "3", "--method", "loo", test=False)
    assert err.count("logistic: LogisticRegression") == 1


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("os.system", "it must be a class of scikit-learn estimators"),
        ("os.abort", "it must be a class"),  # and it was not called, or we would not be here
        ("builtins.dict", "it must be a class"),
        ("math.pi", "it must be a class"),
        ("sklearn.preprocessing.StandardScaler", "it must be a class"),
        ("textwrap.dedent", "cannot be made without arguments"),
        ("getpass.getuser", "it must make an estimator"),
        ("sklearn..svm", "There is no model"),
        (".svm.SVC", "There is no model"),
    ],
)
def test_what_is_no_estimator_is_refused(capsys, folder, path, message):
    code, _, err = value(capsys, folder, "--model", path)
    assert (code, message in err) == (2, True), err


def test_debug_shows_where(capsys, folder):
    with pytest.raises(ds.DUShapleyError):
        main(
            [
                "value",
                str(folder / "owners"),
                "--by-file",
                "--target",
                "nix",
                "--cv",
                "2",
                "--debug",
            ]
        )


def test_unexpected_errors_are_short_without_debug(capsys, folder, monkeypatch):
    def breaks(self):
        raise MemoryError("no room")

    monkeypatch.setattr(jobs.Job, "game", breaks)
    code, _, err = value(capsys, folder)
    assert (code, "MemoryError: no room" in err, "--debug" in err) == (1, True, True)


def test_hold_out_folds_owner_column_and_dotted_models(capsys, folder):
    code, out, _ = value(capsys, folder, "--holdout", "0.3", test=False)
    assert code == 0
    assert "held out of the owners' own rows" in out
    code, out, _ = value(
        capsys, folder, "--cv", "2", "--budget", "4", "--method", "loo", test=False
    )
    assert code == 2  # three owners need five evaluations
    code, out, _ = value(capsys, folder, "--cv", "2", "--method", "loo", test=False)
    assert "2-fold cross-validation" in out
    tables = [
        pd.read_csv(file).assign(site=file.stem) for file in sorted((folder / "owners").iterdir())
    ]
    pd.concat(tables).to_parquet(folder / "all.parquet")
    code, out, _ = run(
        capsys, "value", folder / "all.parquet", "--owner", "site", "--target", "y", "--test",
        folder / "test.csv", "--model", "sklearn.tree.DecisionTreeClassifier", "--json",
    )  # fmt: skip
    assert json.loads(out)["owners"] == ["<b>=1+1", "one", "two"]
    assert json.loads(out)["method"] == "auto → exact"


def test_long_work_needs_yes_without_a_terminal(capsys, folder, monkeypatch):
    monkeypatch.setattr(consent, "ASK_ABOVE", 0.0)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    code, _, err = value(capsys, folder)
    assert (code, "pass --yes" in err) == (2, True)
    assert value(capsys, folder, "--yes")[0] == 0


@pytest.mark.parametrize(
    "wrong",
    [("--address", "tcp://h:1"), ("--executor", "moon"), ("--max-seconds", "0"), ("--jobs", "0")],
)
def test_impossible_runs_are_refused_before_any_training(capsys, folder, monkeypatch, wrong):
    monkeypatch.setattr(pricing, "seconds_each", lambda _: pytest.fail("a trial was paid"))
    code, out, err = value(capsys, folder, *wrong)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")  # no file was read either


def test_who_agreed_before_pays_for_no_trial(capsys, folder, monkeypatch):
    monkeypatch.setattr(pricing, "seconds_each", lambda _: pytest.fail("a trial was paid"))
    code, _, err = value(capsys, folder, "--yes", "--model", "knn")
    assert code == 0
    assert "3 owners, up to 8 evaluations, by auto → exact" in err


def test_long_work_is_asked_about_at_a_terminal(capsys, folder, monkeypatch):
    class Terminal:
        def isatty(self):
            return True

    monkeypatch.setattr(consent, "ASK_ABOVE", 0.0)
    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("typer.confirm", lambda *_, **__: False)
    assert value(capsys, folder)[0] == 1
    monkeypatch.setattr("typer.confirm", lambda *_, **__: True)
    assert value(capsys, folder)[0] == 0


@pytest.mark.slow
def test_time_limit_prints_the_estimate_so_far(capsys, folder):
    code, out, err = value(
        capsys, folder, "--method", "permutation", "--budget", "5000000", "--max-seconds", "0.7",
        "--no-ledger", "--yes", "--model", "knn",
    )  # fmt: skip
    assert "Time is up" in err
    assert code == 0
    assert "(stopped early)" in out


def test_quote_and_methods(capsys, folder):
    code, out, _ = run(
        capsys, "quote", folder / "owners", "--by-file", "--target", "y", "--holdout", "0.3"
    )
    assert code == 0
    assert "exact" in out
    _, out, _ = run(
        capsys, "quote", folder / "owners", "--by-file", "--target", "y", "--cv", "2", "--json"
    )
    rows = {row["method"]: row for row in json.loads(out)}
    assert rows["exact"]["evaluations"] == 8
    assert rows["exact"]["seconds"] > 0
    _, out, _ = run(capsys, "methods")
    assert all(name in out for name in ds.methods())
    _, out, _ = run(capsys, "methods", "--json")
    assert json.loads(out) == ds.methods()


def test_no_ledger_for_models_without_content(capsys, folder, monkeypatch, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from sklearn.pipeline import make_pipeline\n"
        "from sklearn.preprocessing import FunctionTransformer\n"
        "from sklearn.linear_model import LogisticRegression\n"
        "def model():\n"
        "    return make_pipeline(FunctionTransformer(lambda X: X), LogisticRegression())\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    code, _, err = value(capsys, folder, "--model", "mine.model")
    assert (code, "no ledger" in err) == (0, True)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "mlp"])
def test_every_short_name_makes_a_model(name):
    if name == "gbdt":
        needs("lightgbm")
    y = np.array([0, 1] * 10)
    X = np.arange(40.0).reshape(20, 2)
    X[3, 1] = np.nan
    owners = ds.Owners.from_arrays({"all": (X, y)})
    for task in MODELS[name].classes:
        make_model(name, task, missing=True, owners=owners).fit(X, y).predict(X)


def test_a_classifier_is_refused_for_regression():
    with pytest.raises(InvalidOption, match="not a model for regression"):
        make_model("logistic", "regression", missing=False)


def test_tasks_are_guessed_from_targets():
    assert guess_task(np.array(["a", "b"], dtype=object)) == "classification"
    assert guess_task(np.array([0, 1, 2])) == "classification"
    assert guess_task(np.array([0.0, 1.0])) == "classification"
    assert guess_task(np.array([0.5, 1.0])) == "regression"
    assert guess_task(np.arange(50)) == "regression"


def test_options_are_read_in_their_types():
    found = method_options(["a=1", "b=0.5", "c=true", "d=paper", "e=x=y"])
    assert found == {"a": 1, "b": 0.5, "c": True, "d": "paper", "e": "x=y"}


def test_holes_are_found_in_numbers_only():
    assert has_holes([np.array([[1.0, np.nan]])])
    assert not has_holes([np.array([[1.0, None]], dtype=object)])
    assert has_holes([np.array([[np.nan, "x"]], dtype=object)])


def test_help_names_every_command(capsys):
    _, out, err = run(capsys, "--help")
    assert all(name in out + err for name in COMMANDS)


@pytest.mark.parametrize("words", [(), ("federate",)])
def test_without_a_command_the_help_is_all_there_is(capsys, words):
    _, out, err = run(capsys, *words)
    assert "Commands" in out + err
    assert "error" not in err


def test_help_loads_nothing_heavy():
    heavy = "{'sklearn', 'pandas', 'scipy', 'skrub', 'matplotlib', 'joblib'}"
    code = (
        "import sys; from dushapley.cli.main import main\n"
        "try: main(['--help'])\n"
        f"except SystemExit: print(sorted({heavy} & set(sys.modules)), file=sys.stderr)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stderr.strip() == "[]"


def test_demo_files_go_through_value_to_the_same_values(capsys, tmp_path):
    code, out, err = run(capsys, "demo", "--write-files", tmp_path / "files")
    assert code == 0
    lines = out.splitlines()
    assert all(name in lines[i] for name, i in zip(sorted(MISLABELLED), (10, 11), strict=True)) or (
        all(name in lines[i] for name, i in zip(sorted(MISLABELLED), (11, 10), strict=True))
    )
    kept = ds.Valuation.from_dict(
        json.loads((tmp_path / "dushapley-demo/valuation.json").read_text())
    )
    assert (tmp_path / "dushapley-demo" / "valuation.png").stat().st_size > 5000
    assert "--by-file" in err
    hints = [line.strip() for line in err.splitlines() if line.startswith("  dushapley ")]
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    assert len(hints) == 2
    for hint in hints:
        assert hint.replace(str(tmp_path / "files"), "demo") in readme
    _, out, _ = run(
        capsys, "value", tmp_path / "files" / "owners", "--by-file", "--target", "diagnosis",
        "--test", tmp_path / "files" / "test.csv", "--json",
    )  # fmt: skip
    again = ds.Valuation.from_dict(json.loads(out))
    assert again.to_json() + "\n" == out
    assert again.values.tobytes() == kept.values.tobytes()
    assert again.owners == tuple(HOSPITALS)


@pytest.mark.slow
def test_mislabelled_owners_rank_last_for_any_seed():
    for seed in range(4):
        frame = ds.value(demo_game(*demo_tables(seed)), seed=seed).to_frame()
        assert set(frame["owner"].iloc[-2:]) == set(MISLABELLED)


def test_demo_tables_keep_every_row_once(tmp_path):
    tables, test = demo_tables(3)
    assert [len(t) for t in tables.values()] == list(HOSPITALS.values())
    assert sum(map(len, tables.values())) + len(test) == 569
    leave_files(tmp_path, tables, test)
    assert len(list((tmp_path / "owners").iterdir())) == 10


def test_the_default_budget_is_a_count_that_a_person_would_choose(capsys, folder):
    _, out, err = value(capsys, folder, "--model", "mlp", "--no-ledger", "--yes", "--json")
    assert (json.loads(out)["n_evaluations"], json.loads(out)["budget"]) == (8, 8 + 6)
    assert "13 trainings at most" in err
    rng = np.random.default_rng(0)
    for number, budget in ((8, 2**8), (9, 300), (49, 300), (50, None)):
        blocks = {f"o{j}": (rng.normal(size=(6, 2)), np.arange(6) % 2) for j in range(number)}
        game = ds.ModelGame(ds.Owners.from_arrays(blocks), "logistic", np.eye(2), [0, 1])
        assert generous_budget(game, "auto") == budget
        assert generous_budget(game, "permutation") is None
        sums = ds.ModelGame(ds.Owners.from_arrays(blocks), "lda", np.eye(2), [0, 1])
        assert sums.cheap
        assert generous_budget(sums, "auto") == (300 if 20 < number < 50 else None)
    tested = ["--by-file", "--target", "y", "--test", folder / "test.csv"]
    _, out, err = run(capsys, "quote", folder / "owners", *tested)
    assert "why adds up to" in err


def test_a_quote_shows_what_the_usual_budget_of_python_would_save(capsys, tmp_path):
    rng = np.random.default_rng(0)
    for name in "abcdefghijk":
        X = rng.normal(size=(12, 2))
        table = pd.DataFrame(X, columns=["p", "q"]).assign(y=X[:, 0] > 0)
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    tested = ["--by-file", "--target", "y", "--holdout", "0.3"]
    _, out, err = run(capsys, "quote", tmp_path, *tested)
    assert "auto takes 300 evaluations here. --budget 66 (6I, as in Python) would save 234" in err
    _, paid, _ = run(capsys, "value", tmp_path, *tested, "--no-ledger", "--yes", "--json")
    assert json.loads(paid)["n_evaluations"] == 300
    assert [line.split()[1] for line in out.splitlines() if line.startswith("auto")] == [
        "300",
        "66",
    ]
