"""The paper, reproduced: one module per figure or table, published beside found."""

from dushapley_paper.data import DataMissing
from dushapley_paper.experiment import ClaimVerdict, Experiment, Sheet
from dushapley_paper.records import EXPERIMENTS, reproduce

__all__ = ["EXPERIMENTS", "ClaimVerdict", "DataMissing", "Experiment", "Sheet", "reproduce"]
