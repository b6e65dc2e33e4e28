"""How the command line behaves: what it prints where, what it calls things, how it ends."""

from __future__ import annotations

import ast
import io
import json
import os
import re
import subprocess
import sys
from inspect import signature
from pathlib import Path

import pandas as pd
import pytest

import dushapley as ds
from dushapley.cli.main import COMMANDS, PANEL_OF, main, ungrouped
from dushapley.cli.options import in_options
from dushapley.games.model.scoring.scorer import full_name

OWNERS = ["owners", "--by-file", "--target", "y"]
JOB = [*OWNERS, "--test", "test.csv"]
NOISY = """
import os
from sklearn.neighbors import KNeighborsClassifier
print("imported")
class Noisy(KNeighborsClassifier):
    def fit(self, X, y):
        print("training")
        os.write(1, b"compiled\\n")
        return super().fit(X, y)
"""
PYTHON = re.compile(
    r"(?<![\w-])[a-z_]+=(?!VALUE)|\b(?:n_jobs|max_seconds|on_failure)\b|\.valuation\b"
    r"|\b(?:None|True|False)\b|\bModelGame\("
)
"""What only a programmer would understand."""
READ = re.compile(r"--read \w+=")
OUT_OF_REACH = (
    "testing.py", "guarantees/", "games/size/", "games/classic.py", "games/rows.py",
    "games/base.py", "games/knn.py", "engine/asktell.py", "games/model/batched/",
    "games/derived.py", "games/callables.py", "cli/", "engine/dialogue.py",
    "data/formats/objects.py", "settlement/interactions.py",
)  # fmt: skip
"""Rooms whose messages no command can meet, or that speak in options already."""

FOR_OTHERS = (
    "--", "This game is made from a bare function", "Found targets or weights apart",
    "learn_from_ledger=True", "The method declares that its questions", "deterministic is ",
    "Whether the utility draws at random", "The utility draws at random",
)  # fmt: skip
"""Messages in options, and those to programmers alone: no command leads to them."""


def messages(module: Path) -> list[str]:
    """Sentences in the code of a module that somebody may be told: all but docstrings."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    told: list[str] = []

    def visit(node: ast.AST) -> None:
        text = sentence(node)
        if text is None:
            for child in ast.iter_child_nodes(node):
                if not isinstance(child, ast.Expr) or isinstance(child.value, ast.Call | ast.Yield):
                    visit(child)
        elif text.count(" ") > 3:
            told.append(text)

    visit(tree)
    return told


def sentence(node: ast.AST) -> str | None:
    """The text of a string, with something in place of what is put into it."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(str(p.value) if isinstance(p, ast.Constant) else "'x'" for p in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = [sentence(node.left), sentence(node.right)]
        return None if parts == [None, None] else "".join(part or "" for part in parts)
    return None


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]):
    """A command: its exit code, stdout and stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        return int(end.value.code or 0), *capsys.readouterr()

    return run


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["--jobs", "2"], ["--timeout", "60"]])
def test_json_stays_json_when_a_model_prints(folder: Path, more: list[str]) -> None:
    (folder / "noisy.py").write_text(NOISY)
    paths = os.pathsep.join([str(Path(ds.__file__).parents[1]), str(folder)])
    command = ["value", *JOB, "--model", "noisy.Noisy", "--method", "loo", "--no-ledger", "--json"]
    ended = subprocess.run(
        [sys.executable, "-m", "dushapley", *command, *more],
        capture_output=True,
        check=True,
        env=os.environ | {"PYTHONPATH": paths},
    )
    assert json.loads(ended.stdout)["owners"] == ["north", "south", "west"]
    for word in (b"imported", b"training", b"compiled"):
        assert word in ended.stderr


def test_results_are_printed_by_one_function() -> None:
    """So that nothing else reaches stdout."""
    for module in (Path(ds.__file__).parent / "cli").glob("*.py"):
        assert not re.search(r"(?<![.\w])print\(", module.read_text(encoding="utf-8")), module


def test_version_and_help(cli) -> None:
    code, out, _ = cli("--version")
    assert (code, out) == (0, f"dushapley {ds.__version__}\n")
    code, out, _ = cli("value", "--help")
    assert code == 0
    assert out.index("dushapley value owners") < out.index("Whose data")
    for title in ("How a pool is tested", "What is trained", "Sharing money", "What is written"):
        assert title in out


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_80_columns(cli, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 80)
    _, out, _ = cli(command, "--help")
    assert max(map(len, out.splitlines())) <= 80
    assert "…" not in out


def test_every_option_of_value_has_its_group() -> None:
    options = set(signature(ungrouped(COMMANDS["value"])).parameters) - {"context"}
    assert options <= PANEL_OF.keys()


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("rmse", "neg_root_mean_squared_error"),
        ("MAE", "neg_mean_absolute_error"),
        ("mse", "neg_mean_squared_error"),
        ("auc", "roc_auc"),
        ("log-loss", "neg_log_loss"),
    ],
)
def test_scores_have_short_names(short: str, full: str) -> None:
    assert full_name(short) == full
    assert full_name(full) == full
    assert full_name(None) is None


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--scoring", "rsme"], "Did you mean 'rmse'"),
        (["--scoring", "Accuracy"], "Did you mean 'accuracy'"),
        (["--holdout", "2"], "holdout"),
        (["--holdout", "-1"], "holdout"),
        (["--cv", "1"], "cv"),
        (["--cv", "99"], "folds"),
        (["--targt", "y"], "--target"),
        (["--seed", "x"], "Invalid value for '--seed': it takes a whole number."),
        (["--repeats", "0"], "it takes at least 1."),
        (["--report", "r.html", "--report-for", "Wset"], "Did you mean 'west'"),
        (["--model", "sklearn.svm.SVCC"], "Did you mean 'SVC'"),
        (["--model", "sklearn.swm.SVC"], "cannot be imported"),
        (["--jobs", "0"], "--jobs is 0"),
        (["--max-seconds", "0"], "--max-seconds is 0"),
        (["--timeout", "0"], "--timeout is 0"),
        (["--on-failure", "x"], "--on-failure is 'x'"),
        (["--address", "here"], "--executor dask"),
        (["--model", "sklearn.svm.SVC", "--scoring", "neg_log_loss"], "--scoring neg_log_loss"),
        (["--memory", "0MB"], "--memory"),
    ],
)
def test_wrong_usage_ends_in_one_sentence_of_options(
    folder: Path, cli, more: list[str], said: str
) -> None:
    ways = {"--holdout", "--cv"} & set(more)
    code, out, err = cli("value", *(OWNERS if ways else JOB), *more)
    told = err.splitlines()[-1]
    assert (code, out) == (2, "")
    assert told.startswith("error: ")
    assert said in told
    assert not PYTHON.search(told), told


def test_every_message_is_said_in_options() -> None:
    """What the library says in keywords, the command line says in options."""
    left = []
    for module in sorted(Path(ds.__file__).parent.rglob("*.py")):
        room = module.relative_to(Path(ds.__file__).parent).as_posix()
        if not room.startswith(OUT_OF_REACH):
            told = [in_options(m) for m in messages(module) if not m.startswith(FOR_OTHERS)]
            left += [f"{room}: {m}" for m in told if PYTHON.search(READ.sub("", m))]
    assert left == []


def test_names_in_messages_are_left_alone() -> None:
    assert in_options("There is no owner 'seed=5'.") == "There is no owner 'seed=5'."
    assert in_options("The owner budget is off.") == "The owner budget is off."


def test_a_time_limit_needs_no_yes(folder: Path, cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dushapley.cli.quote.ASK_ABOVE", 0.0)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    job = ["value", *JOB, "--model", "knn", "--no-ledger"]
    assert cli(*job, "--max-seconds", "60")[0] == 0
    code, _, err = cli(*job)
    assert (code, "--max-seconds" in err) == (2, True)


def test_a_ledger_for_sums_is_a_note(folder: Path, cli) -> None:
    code, _, err = cli("value", *JOB, "--model", "naive-bayes", "--ledger", "paid.sqlite")
    assert code == 0
    assert "no ledger: this model is made of sums" in err
    assert not (folder / "paid.sqlite").exists()


def test_compare_where_nothing_runs(folder: Path, cli) -> None:
    compare = ["compare", *JOB, "--model", "knn", "--methods"]
    code, out, err = cli(*compare, "permutation", "--budgets", "2,3")
    assert (code, out) == (2, "")
    assert "Nothing would run" in err
    code, _, err = cli(*compare, ",")
    assert (code, "names no method" in err) == (2, True)


@pytest.mark.filterwarnings("default::dushapley.errors.SharedRows")
def test_a_newcomer_with_test_rows_is_warned_of(folder: Path, cli) -> None:
    pd.read_csv("test.csv").head(7).to_csv("late.csv", index=False)
    how = ["--model", "naive-bayes", "--join", "late.csv"]
    code, _, err = cli("what-if", *JOB, *how)
    assert code == 0
    assert "7 rows of the test set, targets included, are in the data of 'late' as well" in err


def test_no_gain_is_not_shared(folder: Path, cli) -> None:
    table = pd.read_csv("test.csv")
    table["y"] = table["y"].map({"p": "n", "n": "p"})  # all that was learnt is wrong
    table.to_csv("test.csv", index=False)
    code, out, err = cli("value", *JOB, "--pot", "100", "--report", "r.html")
    assert code == 2
    assert "there is no gain to share" in err
    assert "Valuation of 3 owners" in out  # it was paid for
    assert (folder / "r.html").exists()
    assert not (folder / "settlement.json").exists()
    same = ["--pot", "90", "--negative", "floor", "--floor", "1"]
    assert cli("value", *JOB, *same)[0] == 0
    paid = json.loads((folder / "settlement.json").read_text())["payments"]
    assert {line["payment"] for line in paid} == {"30.00"}
    code, out, err = cli("what-if", *JOB, "--leave", "west", "--pot", "100")
    assert (code, "no gain to share" in err, "'west' leaves" in out) == (2, True, True)


def test_verify_says_which_file_is_missing_or_renamed(folder: Path, cli) -> None:
    job = [*JOB, "--model", "naive-bayes"]
    assert cli("value", *job, "--pot", "100")[0] == 0
    assert cli("verify", "settlement.json", "owners", "test.csv")[0] == 0
    code, out, err = cli("verify", "settlement.json", "owners")
    assert (code, out) == (2, "")
    assert "The test file 'test.csv' of the settlement was not passed" in err
    (folder / "test.csv").rename(folder / "probe.csv")
    code, out, err = cli("verify", "settlement.json", "owners", "probe.csv")
    assert (code, out) == (2, "")
    assert "probe.csv has its content: rename it back" in err
    (folder / "probe.csv").rename(folder / "test.csv")
    (folder / "owners" / "east.csv").write_text("a,b,y\n1,2,p\n")
    code, out, err = cli("verify", "settlement.json", "owners", "test.csv")
    assert (code, out) == (2, "")
    assert "east.csv is not an input of this settlement" in err


def test_interrupts_before_the_run_say_something(
    folder: Path, cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dushapley.cli.job.choose", interrupted)
    code, out, err = cli("value", *JOB)
    assert (code, out) == (130, "")
    assert err.startswith("Stopped.")
