"""All figures and tables by name, in the order of the paper."""

from __future__ import annotations

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
from dushapley_paper.experiment import Experiment

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
