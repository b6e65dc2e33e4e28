"""Ray, through the same door as Dask; skipped aloud where it is not installed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dushapley as ds
from dushapley import errors
from faults import Faulty, faulty_game, sleepy_game

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    found = pytest.importorskip("ray", reason="executor='ray' needs the extra 'ray'")
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


def test_a_models_own_error_comes_home_from_ray(ray: Any, tmp_path: Any) -> None:
    model = Faulty(("raise",), once=str(tmp_path))  # a second try would go well
    with pytest.raises(errors.UtilityFailed, match="does not feel like it"):
        ds.value(faulty_game(4, model), "exact", executor="ray")
    with pytest.raises(ds.Stopped, match="Time is up"):
        ds.value(sleepy_game(30.0), "exact", executor="ray", max_seconds=2)
