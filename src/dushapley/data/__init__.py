"""Whose rows: owners, the files and tables they come from, and what may stand for their rows."""
