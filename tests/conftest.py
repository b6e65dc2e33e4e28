"""Shared fixtures: hypothesis without dice, data that may be absent, a small cluster."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, settings

from extras import importable, needs, skip_unless_required

collect_ignore = ["interpreted_kernels.py", "blocked"]
"""What test_fused runs in a process of its own, and what Python loads at its start."""

if threading.current_thread() is threading.main_thread():
    # runners that share the tests out ignore interrupts, and so would the programs tests start
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "fixed", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("fixed")

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run",
]  # fmt: skip
"""How the browser is started: without a sandbox that containers lack, and without a network."""


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Folder of the experiment data, named by DUSHAPLEY_DATA."""
    named = os.environ.get("DUSHAPLEY_DATA")
    if named is None or not Path(named).is_dir():
        skip_unless_required("data", "DUSHAPLEY_DATA names no folder with the experiment data")
    return Path(str(named)).resolve()


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """A Dask cluster in this process: two workers of one thread each."""
    distributed = needs("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as connected,
    ):
        yield connected


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium as the system has it; named by DUSHAPLEY_CHROMIUM where it hides."""
    chromium = os.environ.get("DUSHAPLEY_CHROMIUM") or shutil.which("chromium")
    if not importable("playwright.sync_api"):
        skip_unless_required("browser", "needs the package playwright")
    if chromium is None:
        skip_unless_required("browser", "there is no chromium on the path")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three small owners, a test file and a note of one's own, where we are."""
    rng = np.random.default_rng(0)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("warnings.showwarning", None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "owners").mkdir()

    def table(rows: int) -> pd.DataFrame:
        X = rng.normal(size=(rows, 2))
        return pd.DataFrame(X, columns=list("ab")).assign(y=np.where(X.sum(axis=1) > 0, "p", "n"))

    for name, rows in {"north": 20, "south": 30, "west": 15}.items():
        table(rows).to_csv(tmp_path / "owners" / f"{name}.csv", index=False)
    table(60).to_csv(tmp_path / "test.csv", index=False)
    (tmp_path / "notes.txt").write_text("mine")
    return tmp_path


@pytest.fixture(scope="session", autouse=True)
def written_files_fit_their_schemas() -> Iterator[None]:
    """Hold every valuation, settlement and job that is written here against docs/schemas."""
    import sys

    import dushapley.data.outputs as outputs
    from schemas import refuse_misfits

    write = outputs.write_whole

    def checked(path: str | os.PathLike[str], content: str | bytes) -> Path:
        refuse_misfits(Path(path), content)
        return write(path, content)

    with pytest.MonkeyPatch.context() as patch:
        for name, module in list(sys.modules.items()):
            if name.startswith("dushapley.") and getattr(module, "write_whole", None) is write:
                patch.setattr(module, "write_whole", checked)
        yield
