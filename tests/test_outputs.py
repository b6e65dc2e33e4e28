"""Outputs never hit inputs, are written whole or not at all, and replace only what is ours."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

import dushapley as ds
from dushapley.cli.main import main
from dushapley.cli.outputs import purpose_of
from dushapley.data.files import SourceFile
from dushapley.data.outputs import write_whole
from dushapley.errors import NotWritten

JOB = ["owners", "--by-file", "--target", "y", "--test", "test.csv", "--model", "naive-bayes"]


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return int(end.value.code or 0)


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def links(folder: Path) -> None:
    (folder / "soft.html").symlink_to("test.csv")
    os.link(folder / "owners" / "north.csv", folder / "hard.json")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--report", "test.csv"], "--report test.csv is the input"),
        (["--report", "owners/../test.csv"], "is the input test.csv"),
        (["--report", "soft.html"], "is the input test.csv"),
        (["--pot", "9", "--settlement", "owners/south.csv"], "is the input owners/south.csv"),
        (["--pot", "9", "--settlement", "hard.json"], "is the input owners/north.csv"),
        (["--ledger", "owners/north.csv"], "is the input owners/north.csv"),
        (["--ledger", "test.csv"], "is the input test.csv"),
        (["--report", "r.x", "--pot", "9", "--settlement", "./r.x"], "both name r.x"),
        (["--report", "r.x", "--pot", "9", "--settlement", "R.x"], "both name r.x"),
        (["--report", "r.x", "--ledger", "r.x"], "both name r.x"),
        (["--report", "notes.txt"], "was not written for this job"),
        (["--pot", "9", "--settlement", "notes.txt"], "add --force"),
        (["--report", "owners"], "is a folder"),
        (["--pot", "9", "--settlement", "owners"], "is a folder"),
        (["--report", "no/r.html"], "there is no folder no"),
        (["--report", "test.csv/r.html"], "there is no folder test.csv"),
        (["--report", "/dev/null"], "is not a plain file"),
        (["--report", "x" * 300], "File name too long"),
        (["--ledger", "l.sqlite", "--no-ledger"], "pass one of them"),
    ],
)
def test_outputs_are_refused_before_any_file_is_read(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    more: list[str],
    said: str,
) -> None:
    monkeypatch.setattr(SourceFile, "read", lambda *_, **__: pytest.fail("files were read"))
    links(folder)
    before = contents(folder)
    assert run("value", *JOB, *more) == 2
    told = capsys.readouterr()
    assert said in told.err
    assert told.err.count("\n") == 1
    assert told.out == ""
    assert contents(folder) == before


def test_force_replaces_other_jobs_files_but_never_inputs(folder: Path) -> None:
    assert run("value", *JOB, "--report", "notes.txt", "--force") == 0
    assert (folder / "notes.txt").read_text().startswith("<!doctype html>")
    assert run("value", *JOB, "--report", "test.csv", "--force") == 2
    assert run("value", *JOB, "--report", "owners", "--force") == 2


def test_the_same_job_replaces_its_files_and_another_does_not(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = ["--pot", "9", "--report", "r.html", "--report-for", "west"]
    assert run("value", *JOB, *written) == 0
    assert run("value", *JOB, *written, "--scoring", "balanced_accuracy") == 0
    before = contents(folder)
    assert purpose_of(folder / "r.html").job == purpose_of(folder / "settlement.json").job
    (folder / "owners" / "north.csv").rename(folder / "owners" / "east.csv")
    for wanted in (["--pot", "9"], ["--report", "r.html"]):
        capsys.readouterr()
        assert run("value", *JOB, *wanted) == 2
        assert "exists and was not written for this job" in capsys.readouterr().err
    assert before.keys() - contents(folder).keys() == {folder / "owners" / "north.csv"}
    own = (folder / "r-for-003-west.html").read_text()
    assert purpose_of(folder / "r.html").job not in own  # its stamp tells nothing of the others
    (folder / "r.html").unlink()
    (folder / "r-for-003-west.html").write_text("letter")
    assert run("value", *JOB, "--report", "r.html", "--report-for", "west") == 2


def test_a_write_that_fails_leaves_what_stood_there(tmp_path: Path) -> None:
    path = tmp_path / "settlement.json"
    path.write_text("old")
    path.chmod(0o640)
    with pytest.raises(NotWritten, match=r"not Unicode.*Rename that file"):
        write_whole(path, '{"owner": "n\udce9"}')
    assert path.read_text() == "old"
    write_whole(path, "new")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o640)
    assert [file.name for file in tmp_path.iterdir()] == ["settlement.json"]
    with pytest.raises(NotWritten, match="could not be written: No such file"):
        write_whole(tmp_path / "no" / "file", "new")


def test_a_full_disk_leaves_what_stood_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "page.html").write_text("old")
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(NotWritten, match="No space left on device"):
        write_whole(tmp_path / "page.html", "new")
    assert contents(tmp_path) == {tmp_path / "page.html": b"old"}


def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "here").symlink_to("there/file")
    write_whole(tmp_path / "here", "new")
    assert (tmp_path / "here").is_symlink()
    assert (tmp_path / "there" / "file").read_text() == "new"


def test_names_that_cannot_be_written_are_refused_before_paying(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    os.rename(folder / "owners" / "north.csv", os.fsencode(folder) + b"/owners/n\xe9.csv")
    monkeypatch.setattr(ds.ModelGame, "evaluate", lambda *_: pytest.fail("it was paid"))
    assert run("value", *JOB, "--pot", "9") == 2
    assert "are not Unicode" in capsys.readouterr().err
    assert not (folder / "settlement.json").exists()


def test_the_ledgers_folder_may_not_be_made(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "notes.txt"))
    assert run("value", *JOB[:-1], "knn") == 2
    told = capsys.readouterr().err
    assert "cannot be made" in told
    assert "--no-ledger" in told


def test_demo_and_statistics_write_over_nothing_of_others(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dushapley.cli.demo.demo_game", lambda *_: pytest.fail("it was played"))
    assert run("demo", "--out", "notes.txt") == 2
    assert run("demo", "--out", "notes.txt/more") == 2
    if sys.platform == "linux":
        assert run("demo", "--out", "/proc/here") == 2  # where even the root user may not write
    assert run("demo", "--write-files", ".") == 2  # test.csv is somebody's
    assert "test.csv exists and was not written by a demo" in capsys.readouterr().err
    (folder / "report.html").write_text("mine")
    assert run("demo", "--out", ".") == 2
    sums = ["statistics", "owners", "--by-file", "--target", "y", "--out"]
    assert run(*sums, "notes.txt") == 2
    assert run(*sums, "sums") == 0
    assert run(*sums, "sums") == 0  # the same owners again
    (folder / "owners" / "north.csv").unlink()
    assert run(*sums, "sums") == 2
    assert "does not hold statistics of 'south'" in capsys.readouterr().err
    assert run(*sums, "sums", "--force") == 0


def test_pictures_of_the_same_job_are_replaced(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = ["compare", *JOB, "--methods", "loo", "--seeds", "1", "--budgets", "20", "--picture"]
    for name in ("p.png", "p.svg", "p.pdf"):
        assert run(*job, name) == 0
        assert run(*job, name) == 0
    (folder / "photo.png").write_bytes(b"\x89PNG")
    assert run(*job, "photo.png") == 2
    assert "add --force" in capsys.readouterr().err


def test_settlements_of_the_library_are_not_the_command_lines(folder: Path) -> None:
    valuation = ds.value(ds.SizeGame([1, 2], w=lambda n: n), "exact")
    (folder / "settlement.json").write_text(ds.settle(valuation, 9).to_json())
    assert run("value", *JOB, "--pot", "9") == 2
    (folder / "settlement.json").write_text(json.dumps({"record": {"inputs": 3}}))
    assert run("value", *JOB, "--pot", "9") == 2
