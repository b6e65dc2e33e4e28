"""Ray, through the same door as Dask; skipped aloud where it is not installed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

import psutil
import pytest

import dushapley as ds
from dushapley import errors
from dushapley.engine.executors import base, make_executor
from dushapley.engine.executors.base import Listed
from extras import needs
from faults import Faulty, faulty_game, payments, sleepy_game, unimportable_game, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    found = needs("ray")
    paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(paths))  # workers must find `faults`
        found.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        yield found
        found.shutdown()


def test_ray_gives_the_bits_of_this_process(ray: Any) -> None:
    here = ds.value(sleepy_game(), "exact")
    there = ds.value(sleepy_game(), "exact", executor="ray")
    assert there.values.tobytes() == here.values.tobytes()
    assert ray.is_initialized()  # it was lent, and is still the owner's
    with pytest.raises(errors.InvalidOption, match="already connected"):
        ds.value(sleepy_game(), "exact", executor="ray", address="auto")


@pytest.mark.parametrize("address", ["127.0.0.1:9", "ray://127.0.0.1:9"])
def test_a_ray_cluster_that_is_not_there_is_named_at_once(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = needs("ray")
    monkeypatch.setattr(found, "is_initialized", lambda: False)
    monkeypatch.setattr(found, "init", lambda **_: pytest.fail("it would try for many minutes"))
    with pytest.raises(errors.WorkersLost, match=r"No Ray cluster answers at .*127\.0\.0\.1:9"):
        ds.value(sleepy_game(), "exact", executor="ray", address=address)


def test_a_ray_that_cannot_start_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    found = needs("ray")

    def too_slow(**_: Any) -> None:
        raise Exception("The current node timed out during startup.")  # noqa: TRY002 - as Ray does

    monkeypatch.setattr(found, "is_initialized", lambda: False)
    monkeypatch.setattr(found.util, "get_node_ip_address", lambda: "127.0.0.1")
    monkeypatch.setattr(found, "shutdown", lambda: None)
    monkeypatch.setattr(found, "init", too_slow)
    with pytest.raises(errors.WorkersLost, match=r"could not start.*timed out.*Run again"):
        ds.value(sleepy_game(), "exact", executor="ray")


STARTED_HERE = """
import psutil
from dushapley.engine.executors import make_executor
from dushapley.engine.executors.base import Listed
from faults import np, sleepy_game
executor = make_executor("ray", 1)
paid = list(executor.run(sleepy_game(), Listed([(np.ones((1, 7), dtype=bool), None, None)])))
everybody = [psutil.Process(), *psutil.Process().children(recursive=True)]
listening = [c.laddr.ip for p in everybody for c in p.net_connections("inet")
             if c.status == psutil.CONN_LISTEN]
executor.close()
assert len(paid) == 1
print(psutil.Process().pid, *sorted(set(listening)))
"""


def test_a_ray_started_here_is_open_to_nobody_else_and_leaves_nothing(tmp_path: Path) -> None:
    needs("ray")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
    environment |= {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TMPDIR": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-c", STARTED_HERE],
        env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    number, *listening = ran.stdout.split()
    assert {ip.removeprefix("::ffff:") for ip in listening} == {"127.0.0.1"}
    left = [*tmp_path.iterdir(), *Path("/tmp").glob(f"dushapley-*-{number}-*")]
    assert left == []


def test_a_ray_that_would_listen_to_others_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    found = needs("ray")
    monkeypatch.setattr(found, "is_initialized", lambda: False)
    monkeypatch.setattr(found.util, "get_node_ip_address", lambda: "192.0.2.7")
    monkeypatch.setattr(found, "init", lambda **_: pytest.fail("it would listen to others"))
    with pytest.raises(errors.InvalidOption, match="RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0 before"):
        ds.value(sleepy_game(), "exact", executor="ray")


def test_a_ray_cluster_without_processors_is_not_waited_for_forever(
    ray: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "PATIENCE", 0.4)
    monkeypatch.setattr(ray, "cluster_resources", dict)
    with pytest.raises(errors.WorkersLost, match="has had no worker for 1 s"):
        ds.value(sleepy_game(), "exact", executor="ray")


def test_ray_workers_killed_one_after_another(ray: Any, tmp_path: Path) -> None:
    killed: list[int] = []
    log = tmp_path / "paid.log"

    def sabotage() -> None:
        while len(killed) < 3:
            wait_until(lambda: len(payments(log)) >= 8 * (len(killed) + 1))
            for child in psutil.Process().children(recursive=True):
                with suppress(psutil.Error):
                    if (child.cmdline() or [""])[0].startswith("ray::pay"):
                        child.kill()
                        killed.append(child.pid)
                        break

    Thread(target=sabotage, daemon=True).start()
    there = ds.value(sleepy_game(0.2, log), "exact", executor="ray", ledger=tmp_path / "l.sqlite")
    here = ds.value(sleepy_game(), "exact")
    assert len(killed) == 3
    assert there.values.tobytes() == here.values.tobytes()
    assert there.n_computed == here.n_distinct
    assert len(set(payments(log))) == here.n_distinct


def test_a_models_own_error_comes_home_from_ray(ray: Any, tmp_path: Any) -> None:
    model = Faulty(("raise",), once=str(tmp_path))  # a second try would go well
    with pytest.raises(errors.UtilityFailed, match="does not feel like it"):
        ds.value(faulty_game(4, model), "exact", executor="ray")
    with pytest.raises(ds.Stopped, match="Time is up"):
        ds.value(sleepy_game(30.0), "exact", executor="ray", max_seconds=2)


def test_a_ray_cluster_without_the_models_module_is_told_what_it_needs(ray: Any) -> None:
    with pytest.raises(errors.WorkersDiffer, match=r"No module named 'my_models'.*install both"):
        ds.value(unimportable_game(), "exact", executor="ray")


def test_a_crash_on_ray_names_pool_and_cause(ray: Any) -> None:
    from test_chaos import LAST_TWO, TOLD, crashing_game

    executor = make_executor("ray", 2)
    with pytest.raises(errors.WorkersLost, match=TOLD["segfault"]):
        list(executor.run(crashing_game("segfault"), Listed([(LAST_TWO, None, None)])))
