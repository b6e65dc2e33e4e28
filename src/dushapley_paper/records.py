"""Running experiments by name, and keeping what they found."""

from __future__ import annotations

import json
import platform
import time
from pathlib import Path
from typing import Any

from dushapley.errors import InvalidOption
from dushapley.hashing import versions
from dushapley_paper import (
    figure_1,
    figure_2,
    older_bias,
    older_table,
    older_toy,
    svarm_figure,
    synthetic_figure,
    table_1,
    table_2,
)
from dushapley_paper.data import check
from dushapley_paper.experiment import Experiment, Profile

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        figure_1.EXPERIMENT,
        table_1.EXPERIMENT,
        figure_2.EXPERIMENT,
        table_2.EXPERIMENT,
        svarm_figure.EXPERIMENT,
        synthetic_figure.EXPERIMENT,
        older_toy.EXPERIMENT,
        older_bias.EXPERIMENT,
        older_table.EXPERIMENT,
    )
}
"""All figures and tables by name, in the order of the paper."""
Record = dict[str, Any]
LIBRARIES = ("dushapley", "numpy", "scipy", "scikit-learn", "torch")


class UnknownExperiment(InvalidOption):
    """No figure or table has this name."""


def find_experiment(name: str) -> Experiment:
    """The experiment of this name, or the names there are."""
    if name not in EXPERIMENTS:
        raise UnknownExperiment(
            f"There is no experiment {name!r}. Choose one of: {', '.join(EXPERIMENTS)}, or all."
        )
    return EXPERIMENTS[name]


def find_profile(name: str) -> Profile:
    """The profile of this name."""
    profiles: dict[str, Profile] = {"quick": "quick", "full": "full"}
    if name not in profiles:
        raise UnknownExperiment(f"There is no profile {name!r}. Choose quick or full.")
    return profiles[name]


def reproduce(name: str, profile: Profile = "quick", seed: int = 0) -> Record:
    """Run an experiment; the record holds its result, and how and where it was found.

    Examples
    --------
    >>> from dushapley_paper import reproduce
    >>> record = reproduce("figure-1", "quick")
    >>> record["name"], record["profile"], record["seed"]
    ('figure-1', 'quick', 0)
    """
    experiment = find_experiment(name)
    check(experiment.needs)
    begun = time.perf_counter()
    result = experiment.run(profile, seed)
    return {
        "name": name,
        "profile": profile,
        "seed": seed,
        "seconds": round(time.perf_counter() - begun, 1),
        "machine": f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}",
        "versions": versions(LIBRARIES),
        "result": result,
    }


def save(record: Record, folder: Path) -> Path:
    """Store a record as JSON, numbers in six significant figures."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{record['name']}.json"
    text = json.dumps(rounded(record), indent=1, ensure_ascii=False, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def read(folder: Path) -> list[Record]:
    """All stored records, in the order of the experiments."""
    paths = (folder / f"{name}.json" for name in EXPERIMENTS)
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.is_file()]


def rounded(value: Any) -> Any:
    """The same with floats in six significant figures, so that files stay small."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(item) for item in value]
    return value
