"""The paper, reproduced: one module per figure or table, published beside found."""

from dushapley.experiments.data import DataMissing
from dushapley.experiments.experiment import Experiment, Sheet, Verdict
from dushapley.experiments.records import reproduce
from dushapley.experiments.registry import EXPERIMENTS

__all__ = ["EXPERIMENTS", "DataMissing", "Experiment", "Sheet", "Verdict", "reproduce"]
