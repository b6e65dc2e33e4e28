"""All figures and tables by name, in the order of the paper."""

from __future__ import annotations

from dushapley.experiments import (
    figure_1,
    older_toy,
    synthetic_figure,
    table_1,
    table_2,
)
from dushapley.experiments.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        figure_1.EXPERIMENT,
        table_1.EXPERIMENT,
        table_2.EXPERIMENT,
        synthetic_figure.EXPERIMENT,
        older_toy.EXPERIMENT,
    )
}
