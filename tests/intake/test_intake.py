"""Files as people have them: nothing lost, nothing misread, and never a silent change."""

from __future__ import annotations

import re
import shlex
import warnings
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from family import CASES, Case, Folder

import dushapley as ds
from dushapley.data.findings import CODES
from dushapley.errors import SharedRows, UnresolvedFindings

Content = dict[str, dict[str, list[Any]]]


def job_of(folder: Folder, options: list[str]) -> Any:
    """The job with these words on the command line."""
    pairs = list(zip(options[::2], options[1::2], strict=True))
    read, accept = ([v for name, v in pairs if name == key] for key in ("--read", "--accept"))
    return folder.job(read, accept)


def content(job: Any) -> Content:
    """What is trained and tested on, to the last bit: every owner's columns, and the test set's.

    Values follow from this alone, and comparing it is quicker than training.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SharedRows)
        owners = job.owners
    X_test, y_test = job.test_set(owners)
    held = {name: (X, y) for name, X, y in zip(owners.names, owners.X, owners.y, strict=True)}
    held["test set"] = X_test, y_test
    return {name: columns(owners, X, y) for name, (X, y) in held.items()}


def columns(owners: ds.Owners, X: Any, y: Any) -> dict[str, list[Any]]:
    assert owners.columns is not None
    cells = np.asarray(X, dtype=object)
    table = {name: [str(cell) for cell in cells[:, k]] for k, name in enumerate(owners.columns)}
    return table | {str(owners.target): y.tolist()}


def option_in(remedy: str) -> list[str]:
    """The first option that a remedy names, as a shell would take it."""
    found = re.search(r"--(?:read|accept) (?:[^\s']*'[^']*'|[^\s']+)", remedy)
    assert found, remedy
    return shlex.split(found[0].rstrip("."))


@cache
def clean_content() -> Content:
    with TemporaryDirectory() as place:
        folder = Folder.at(Path(place) / "clean")
        folder.write()
        job = folder.job()
        assert not len(job.findings), job.findings
        return content(job)


def expected(case: Case, path: Path) -> Content | None:
    """What must come out, if it is known."""
    if case.like is None:
        return clean_content() if case.same else None
    folder = Folder.at(path)
    case.like(folder)
    folder.write()
    return content(folder.job())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_irregularity(case: Case, tmp_path: Path) -> None:
    folder = Folder.at(tmp_path / "odd")
    case.change(folder)
    folder.write()
    job = folder.job()
    findings = job.findings
    wanted = {"code": case.code, "owner": case.owner, "column": case.column, "row": case.row,
              "value": case.value}  # fmt: skip
    wanted = {name: value for name, value in wanted.items() if value is not None}
    hits = [f for f in findings if all(getattr(f, k) == v for k, v in wanted.items())]
    assert hits or not wanted, f"{wanted} is not among\n{findings.to_frame().to_string()}"
    assert {f.code for f in findings} <= set(CODES)
    options: list[str] = []
    if case.stop:
        assert [f.severity for f in hits] == ["stop"] * len(hits)
        with pytest.raises(UnresolvedFindings, match=re.escape(hits[0].message)):
            job.game()
        resolvable = case.same or case.like
        assert resolvable or hits[0].remedy is None
        for stop in findings.stops if resolvable else ():
            options += option_in(stop.remedy or "")
    else:
        assert not findings.stops, findings
    if not case.stop or options:
        truth = expected(case, tmp_path / "like")
        got = content(job_of(folder, options) if options else job)
        assert truth is None or got == truth
