"""Options that several commands share, one by one and in groups, and how their words are read.

A group checks itself when it is made: before any file is read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

import dushapley as ds
from dushapley.arrays import AnyDict, AnyMapping, Names
from dushapley.cli.outputs import Output
from dushapley.engine.executors import check_executor
from dushapley.engine.ledger import FORMAT, Ledger
from dushapley.engine.plan import MOST_FREE, probe_pools
from dushapley.errors import InvalidOption
from dushapley.estimators.method import Method
from dushapley.estimators.registry import AUTO, FALLBACK, find
from dushapley.games.base import Game
from dushapley.terminal import say
from dushapley.validation import check_budget

Files = Annotated[
    list[Path],
    Argument(
        exists=True,
        metavar="FILES",
        help="Tables (CSV, Excel, Parquet, ODS, JSON lines, SQLite), or a folder of them; or "
        "owners' statistics (.npz).",
    ),
]
Target = Annotated[str, Option(help="Column to predict.", metavar="COL")]
Owner = Annotated[
    str | None, Option(help="Column that says whose row it is.", metavar="COL", show_default=False)
]
Test = Annotated[
    Path | None,
    Option(
        exists=True,
        dir_okay=False,
        help="Test rows, which belong to nobody who is valued.",
        metavar="FILE",
    ),
]
Accept = Annotated[
    list[str] | None,
    Option(help="Go on in spite of a stop, by its code; may be repeated.", metavar="CODE"),
]
ByFile = Annotated[bool, Option("--by-file", help="One file per owner.")]
Task = Annotated[str, Option(help="auto, classification or regression.")]
Read = Annotated[
    list[str] | None,
    Option(
        help="How to read the files, like drop=id, sep=; or Bonn.csv:sep=; (docs/files.md lists "
        "the keys); may be repeated.",
        metavar="KEY=VALUE",
    ),
]
Expect = Annotated[
    list[str] | None,
    Option(
        help="Owner who must be there, and no others; may be repeated. A job file says it.",
        metavar="NAME",
    ),
]
MaxRows = Annotated[int, Option(help="Most rows read of one file.", min=1)]
MaxBytes = Annotated[
    str, Option(help="Most bytes read of one file, unpacked, like 500MB.", metavar="SIZE")
]
Empty = Annotated[str, Option(help="Worth of no data: constant, zero or a number.")]
AtLeast = Annotated[
    str | None,
    Option(help="empty = a pool worse than no data counts as no data.", metavar="WORD"),
]
Settled = Annotated[
    Path, Option(help="Where the settlement goes, if there is a pot.", metavar="FILE")
]
Report = Annotated[Path | None, Option(help="Write a page to read in a browser.", metavar="FILE")]
Seed = Annotated[int, Option(help="Seed of the method.", min=0)]
Jobs = Annotated[int, Option(help="Workers; -1 for all processors.")]
Json = Annotated[bool, Option("--json", help="JSON on stdout, exact to the last bit.")]
Debug = Annotated[bool, Option("--debug", help="Show tracebacks.")]


GENEROUS = 300
"""Evaluations of `auto` where nobody gives a budget, of up to 50 owners."""


def generous_budget(game: Game, method: str | Method) -> int | None:
    """The budget where a person waits for the result: the larger of 6I and 300.

    At most all coalitions and the probes beside them. A count and never a clock, so that every
    machine settles alike. None: the method's default, for other methods than `auto` and `gp`, games
    of which `auto` asks every coalition for nothing, and from 50 owners on.
    """
    everything, usual = 2**game.n_players, 6 * game.n_players
    free = method == AUTO and game.cheap and game.n_players <= MOST_FREE
    if method not in (AUTO, FALLBACK) or free or usual >= GENEROUS:
        return None
    return GENEROUS if everything > GENEROUS else everything + len(probe_pools(game))


@dataclass(frozen=True)
class Asked:
    """Which method is asked, and how much. Attributes are options by the same names."""

    method: Annotated[str, Option(help="See `dushapley methods`.")] = "auto"
    option: Annotated[
        list[str] | None,
        Option(
            "--option", help="Option of the method, name=value; may be repeated.", metavar="K=V"
        ),
    ] = None
    budget: Annotated[
        int | None,
        Option(
            help="Most evaluations; each is a training, or --repeats and the folds of --cv more.",
            show_default="the larger of 300 and 6 an owner, at most all coalitions and probes",
        ),
    ] = None
    seed: Seed = 0

    def __post_init__(self) -> None:
        refuse_unknown(self.method)
        check_budget(self.budget)
        method_options(self.option or [])

    def budget_of(self, game: ds.Game) -> int | None:
        """What was given, or what a person would choose who waits for the result."""
        return generous_budget(game, self.method) if self.budget is None else self.budget

    @property
    def options(self) -> AnyMapping:
        """The method's own options, by name."""
        return method_options(self.option or [])


@dataclass(frozen=True)
class Means:
    """Workers, and where paid work is kept. Attributes are options by the same names."""

    jobs: Jobs = 1
    ledger: Annotated[Path | None, Option(help="File that keeps paid work.", metavar="FILE")] = None
    no_ledger: Annotated[bool, Option("--no-ledger", help="Keep nothing.")] = False
    yes: Annotated[bool, Option("--yes", help="Neither time a trial nor ask before long work.")] = (
        False
    )

    def __post_init__(self) -> None:
        check_executor("local", self.jobs, None)
        if self.no_ledger and self.ledger is not None:
            raise InvalidOption(f"Found --ledger {self.ledger} and --no-ledger; pass one of them.")

    @property
    def outputs(self) -> list[Output]:
        """The files that are written besides a command's own: a ledger that was named."""
        return [] if self.ledger is None else [Output("--ledger", self.ledger, None)]

    def ledger_of(self, game: ds.Game) -> Path | None:
        """The file that keeps what is paid for this game, if there is to be one."""
        if self.no_ledger:
            return None
        if game.cheap:
            say("no ledger: this model is made of sums, and an evaluation costs nothing")
            return None
        if self.ledger is not None and game.context is None:
            raise InvalidOption(
                f"--ledger {self.ledger}: {UNTOLD}, so a ledger could mix up two models. Leave it "
                "out, or name a model without functions written in place."
            )
        if self.ledger is not None:
            return self.ledger
        if game.context is None:
            say(f"no ledger: {UNTOLD}")
            return None
        path = default_ledger(game.context)
        say(f"ledger: {path} (what is paid is kept; run again to go on)")
        return path

    def ledger_beside(self, game: ds.Game, name: str) -> Path | None:
        """Where another model's work is kept: a ledger is of one model and score."""
        if self.no_ledger or game.cheap or game.context is None:
            return None
        if self.ledger is None:
            return default_ledger(game.context)
        return self.ledger.with_name(f"{self.ledger.stem}-{name}{self.ledger.suffix}")

    def usable_ledger_of(self, game: ds.Game) -> Path | None:
        """The same, tried: for those who time trials before they open it."""
        path = self.ledger_of(game)
        if path is not None and game.context is not None:
            Ledger(path, game.context).close()  # opens, or says why not
        return path


UNTOLD = "the model's content cannot be compared between runs"


def refuse_unknown(method: str) -> None:
    """Refuse a misspelt method before any file is read."""
    if method != AUTO:
        find(method)


def default_ledger(context: str) -> Path:
    """Where paid work is kept unless told otherwise: one file per context and format."""
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    folder = Path(home) / "dushapley"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidOption(
            f"The folder of ledgers, {folder}, cannot be made: {error.strerror}. Name another one "
            "in the variable XDG_STATE_HOME, or pass --ledger FILE or --no-ledger."
        ) from error
    return folder / f"{context[:24]}-{FORMAT.rsplit('/', 1)[1]}.sqlite"


def refuse_not_unicode(names: Iterable[object]) -> None:
    """Refuse names that no result could repeat: bytes of a file's name that are not UTF-8."""
    for name in map(str, names):
        if any("\ud800" <= character <= "\udfff" or character == "\0" for character in name):
            raise InvalidOption(
                f"The name {name!a} holds bytes that are not Unicode, so no result could "
                "repeat it. Rename the file."
            )


def refuse_unclear_owners(owner: str | None, by_file: bool) -> None:
    """Refuse files when it is unsaid, or said twice, whose rows they hold."""
    if (owner is None) == (not by_file):
        found = "neither" if owner is None else "both"
        raise InvalidOption(
            f"Found {found} of --owner and --by-file; exactly one says whose rows they are: "
            "--owner COLUMN where a column names the owner of each row, --by-file where every file "
            "is an owner's."
        )


def as_number(text: str, *kinds: type[int | float]) -> Any:
    """A number of the first of these kinds that it is, else the word."""
    for kind in kinds:
        with suppress(ValueError):
            return kind(text)
    return text


def whole_numbers(budgets: str | None) -> list[int]:
    """Budgets with commas between, from the command line."""
    try:
        numbers = [int(part) for part in (budgets or "").split(",") if part.strip()]
    except ValueError as error:
        raise InvalidOption(
            f"--budgets is {budgets!r}; it takes whole numbers with commas between them, like "
            "60,200."
        ) from error
    for number in numbers:
        check_budget(number)
    return numbers


UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9}


def as_bytes(text: str, option: str) -> int:
    """A size like 500MB in bytes."""
    unit = UNITS.get(text[-2:].upper())
    number = as_number(text[:-2], float)
    if unit is None or not isinstance(number, float) or not isfinite(number):
        raise InvalidOption(f"{option} is {text!r}; write it like 500MB or 2GB.")
    return int(number * unit)


def method_options(pairs: Names) -> AnyMapping:
    """`--option name=value` pairs, with numbers, true and false in their own types."""
    options: AnyDict = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise InvalidOption(f"--option {pair!r} is not of the form name=value.")
        options[name] = {"true": True, "false": False}.get(
            text.lower(), as_number(text, int, float)
        )
    return options


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
