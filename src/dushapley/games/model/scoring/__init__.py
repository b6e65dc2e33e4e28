"""Scores of fitted models: by name and test row by test row, or of any scorer."""
