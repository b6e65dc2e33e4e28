"""The library's messages in the words of the command line.

The library names its keywords (``n_jobs=1``), since that is what a programmer would type; at a
terminal the same sentence names options (``--jobs 1``). One table translates, where messages are
printed; a test reads every message of the library and finds no keyword left.
"""

from __future__ import annotations

import re

SAME = (
    "address", "at_least", "backend", "budget", "by_file", "columns", "context", "cv", "empty",
    "encode", "executor", "floor", "holdout", "learn_from_ledger", "ledger", "level", "max_seconds",
    "memory", "method", "model", "negative", "on_failure", "owner", "pot", "precision", "reference",
    "repeats", "scoring", "seed", "target", "task", "test", "timeout",
)  # fmt: skip
"""Keywords whose options have the same name."""
OPTIONS = {name: f"--{name.replace('_', '-')}" for name in SAME} | {
    "n_jobs": "--jobs",
    "options": "--option",
    "fraction": "--holdout",
    "n_folds": "--cv",
}
_NAMES = "|".join(OPTIONS)
_GIVEN = re.compile(rf"(?<![\w'\"=.-])({_NAMES})=(?:'([^']*)'|\"([^\"]*)\"|([\w.+-]*\w)|\.\.\.)?")
_JUDGED = re.compile(rf"^({_NAMES}) is ")
_PYTHON = re.compile(
    r"\bModelGame\(([^()]*)\)|\b\w+=\S+ \((--[^()]+)\)"
    r"|,? or None(?: for no limit)?(?=[.;,])| \(\.valuation\)"
)


def in_options(message: str) -> str:
    """A message that names options where it named keywords.

    Examples
    --------
    >>> in_options("n_jobs is 0; it must be a number of workers, or -1 for all.")
    '--jobs is 0; it must be a number of workers, or -1 for all.'
    >>> in_options("Take n_jobs=1, or ModelGame(memory=..., on_failure='empty').")
    'Take --jobs 1, or --memory, --on-failure empty.'
    """
    plain = _PYTHON.sub(lambda found: found[1] or found[2] or "", message)
    judged = _JUDGED.sub(lambda found: f"{OPTIONS[found[1]]} is ", plain)
    return _GIVEN.sub(_option, judged)


def _option(found: re.Match[str]) -> str:
    given = next(filter(None, found.groups()[1:]), "")
    return f"{OPTIONS[found[1]]} {'' if given == 'True' else given}".rstrip()
