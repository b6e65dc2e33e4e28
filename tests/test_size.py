"""The library stays as small as its limits say, and a question crosses few files."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression

import dushapley as ds
from dushapley.estimators import Method

HOUSE = Path(ds.__file__).parent
MOST_IN_A_QUESTION, MOST_IN_A_RUN = 14, 40
"""Files of the library that take part: from a question to its answer, and in a run of `gp`."""


def test_nothing_is_larger_than_its_limit() -> None:
    script = HOUSE.parents[1] / "tools" / "size.py"
    if not script.exists():
        pytest.skip("tools/size.py belongs to the repository, not to the package")
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


@contextmanager
def traced(seen: set[str]) -> Iterator[None]:
    """Note the files of the library whose functions are called meanwhile."""

    def note(frame: FrameType, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and HOUSE in path.parents:
            seen.add(path.relative_to(HOUSE).as_posix())

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)


def trained_game() -> ds.ModelGame:
    X, y = load_breast_cancer(return_X_y=True)
    owners = ds.Owners.from_arrays({f"site {j}": (X[j:400:6], y[j:400:6]) for j in range(6)})
    model = LogisticRegression(solver="liblinear", max_iter=50)
    return ds.ModelGame(owners, model, X[400:], y[400:], deterministic=True)


def test_a_question_crosses_few_files(tmp_path: Path) -> None:
    """From the second question of a method to one fit by scikit-learn, the ledger, and back."""
    seen: set[str] = set()

    def asks_twice(problem: Any) -> Any:
        alone = np.eye(problem.n_players, dtype=np.bool_)
        yield ds.Ask(alone[:1])
        with traced(seen):
            yield ds.Ask(alone[1:2])
        return ds.Estimate(np.zeros(problem.n_players))

    method = Method("twice", "two questions", asks_twice, least=lambda *_: 4, default=lambda *_: 4)
    ds.value(trained_game(), method, ledger=tmp_path / "paid.sqlite")
    assert len(seen) <= MOST_IN_A_QUESTION, sorted(seen)


def test_a_run_of_gp_crosses_few_files(tmp_path: Path) -> None:
    seen: set[str] = set()
    game = trained_game()
    with traced(seen):
        ds.value(game, "gp", budget=40, ledger=tmp_path / "paid.sqlite")
    assert len(seen) <= MOST_IN_A_RUN, sorted(seen)
