"""Options that several commands share, written once, and how their words are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from dushapley.errors import InvalidOption

Files = Annotated[
    list[Path],
    Argument(
        exists=True,
        help="CSV or Parquet files, or a folder of them; or owners' statistics (.npz).",
    ),
]
Target = Annotated[str, Option(help="Column to predict.", metavar="COL")]
Owner = Annotated[
    str | None, Option(help="Column that says whose row it is.", metavar="COL", show_default=False)
]
ByFile = Annotated[bool, Option("--by-file", help="One file per owner.")]
Test = Annotated[
    Path | None,
    Option(exists=True, dir_okay=False, help="Test rows, of nobody who is valued.", metavar="FILE"),
]
Holdout = Annotated[
    float | None, Option(help="Instead: keep back this part of every owner's rows.", metavar="F")
]
Cv = Annotated[int | None, Option(help="Instead: cross-validate in so many folds.", metavar="K")]
Task = Annotated[str, Option(help="auto, classification or regression.")]
Model = Annotated[
    str | None,
    Option(
        help="logistic, ridge, lda, naive-bayes, gradient-boosting, gbdt, random-forest, knn, "
        "mlp, or a dotted path "
        "[default: logistic for classes, ridge for numbers].",
        metavar="NAME",
        show_default=False,
    ),
]
Scoring = Annotated[
    str | None,
    Option(
        help="A score of scikit-learn [default: accuracy for classes, r2 for numbers].",
        metavar="NAME",
        show_default=False,
    ),
]
Empty = Annotated[str, Option(help="Worth of no data: constant, zero or a number.")]
OnFailure = Annotated[str, Option(help="A training that fails: raise, or empty = as no data.")]
Repeats = Annotated[int, Option(help="Trainings averaged per pool.", min=1)]
Timeout = Annotated[float | None, Option(help="Seconds a training may take.")]
Memory = Annotated[
    str | None,
    Option(help="Memory a training may take beyond the data, like 500MB.", metavar="SIZE"),
]
Encode = Annotated[str, Option(help="Text and dates to numbers: pooled = once, or training.")]
ModelSeed = Annotated[int, Option(help="Seed of models and of hold-out.", min=0)]
Method = Annotated[str, Option(help="See `dushapley methods`.")]
MethodOption = Annotated[
    list[str] | None,
    Option("--option", help="Option of the method, name=value; may be repeated.", metavar="K=V"),
]
Budget = Annotated[int | None, Option(help="Most evaluations (trainings) to ask for.")]
Seed = Annotated[int, Option(help="Seed of the method.", min=0)]
Jobs = Annotated[int, Option(help="Workers; -1 for all processors.")]
Precision = Annotated[
    float | None, Option(help="Stop when 95% intervals are this part of the spread.")
]
Ledger = Annotated[Path | None, Option(help="File that keeps paid work.", metavar="FILE")]
NoLedger = Annotated[bool, Option("--no-ledger", help="Keep nothing.")]
Yes = Annotated[bool, Option("--yes", help="Do not time trials and ask before long work.")]
Pot = Annotated[
    str | None, Option(help="Share this amount of money, to the cent.", metavar="AMOUNT")
]
Currency = Annotated[str, Option(help="Its currency, say EUR.")]
Negative = Annotated[
    str,
    Option(
        help="Negative values: clip = paid nothing, charge = pay in, floor = everybody gets "
        "something."
    ),
]
Floor = Annotated[
    str | None, Option(help="With floor: part of an equal share for everybody [default: 0.1].")
]
Settlement = Annotated[
    Path, Option(help="Where the settlement goes, if there is a pot.", metavar="FILE")
]
Report = Annotated[Path | None, Option(help="Write a page to read in a browser.", metavar="FILE")]
ReportFor = Annotated[
    list[str] | None,
    Option(help="And one for this owner, silent on the others; repeat.", metavar="OWNER"),
]
Executor = Annotated[str, Option(help="Where the work runs: local, dask or ray.")]
Address = Annotated[
    str | None,
    Option(help="Of the Dask or Ray cluster, like tcp://host:8786.", metavar="A"),
]
MaxSeconds = Annotated[
    float | None, Option(help="Stop after so many seconds, with the estimate so far.")
]
Json = Annotated[bool, Option("--json", help="JSON on stdout, exact to the last bit.")]
Debug = Annotated[bool, Option("--debug", help="Show tracebacks.")]


def refuse_unclear_owners(owner: str | None, by_file: bool) -> None:
    """Refuse files of which it is not said, or said twice, whose rows they hold."""
    if (owner is None) == (not by_file):
        raise InvalidOption("Say whose rows they are: either --owner COLUMN or --by-file.")


def as_number(text: str) -> Any:
    """A number where it is one, else the word."""
    try:
        return float(text)
    except ValueError:
        return text


def as_whole(text: str) -> Any:
    """A whole number where it is one, else a number, else the word."""
    try:
        return int(text)
    except ValueError:
        return as_number(text)


def as_bytes(text: str | None) -> int | None:
    """A size like 500MB in bytes."""
    if text is None:
        return None
    units = {"KB": 10**3, "MB": 10**6, "GB": 10**9}
    number = as_number(text[:-2])
    known = text[-2:].upper() in units and isinstance(number, float) and isfinite(number)
    if not known:
        raise InvalidOption(f"--memory is {text!r}; write it like 500MB or 2GB.")
    return int(number * units[text[-2:].upper()])


def method_options(pairs: Sequence[str]) -> Mapping[str, Any]:
    """`--option name=value` pairs, with numbers, true and false in their own types."""
    options: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise InvalidOption(f"--option {pair!r} is not of the form name=value.")
        options[name] = {"true": True, "false": False}.get(text.lower(), as_whole(text))
    return options
