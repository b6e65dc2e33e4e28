"""Why an owner's data is worth what it is: measured by a few trainings, put into sentences."""

from dushapley.engine.diagnosis.diagnose import diagnose, most_trainings

__all__ = ["diagnose", "most_trainings"]
