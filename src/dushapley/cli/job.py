"""From files and options to a game: what `value`, `quote`, `check` and their kin have in common."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

import dushapley as ds
from dushapley.arrays import AnyDict, Array, Names
from dushapley.cli import options as o
from dushapley.cli.outputs import identity
from dushapley.data.check import Findings, accepted_tables, examine
from dushapley.data.check.collection import refuse_unknown
from dushapley.data.files import STATISTICS, Listing, SourceFile, listing, owner_name
from dushapley.data.findings import Finding
from dushapley.data.intake import Intake, take_in
from dushapley.data.reading import MAX_ROWS, Reading
from dushapley.data.rows import is_table
from dushapley.errors import InvalidOption, SharedRows
from dushapley.games.model.batched.arithmetic import BACKENDS
from dushapley.games.model.catalogue import Choice, check_model_name, check_task, choose, in_words
from dushapley.games.model.encoding import is_mixed
from dushapley.terminal import say
from dushapley.validation import check_choice

if TYPE_CHECKING:
    import pandas as pd

JobGame = ds.ModelGame | ds.FoldsGame
"""What a job is made into."""
Others = list[tuple[Choice, JobGame]]
"""Other models and scores that were named, with their games."""


@dataclass(frozen=True)
class Inputs:
    """The files of a job, opened: each is read once, for its hash and for its table."""

    owners: Sequence[SourceFile]
    test: SourceFile | None

    def record(self) -> list[AnyDict]:
        """Name, role and hash of every file."""
        tested = [] if self.test is None else [self.test.record("test")]
        return [file.record() for file in self.owners] + tested


@dataclass(frozen=True)
class Data:
    """Files, whose rows they hold, and how they are read.

    Attributes are the options of the command line by the same names.
    """

    files: o.Files
    target: o.Target
    owner: o.Owner = None
    by_file: o.ByFile = False
    test: o.Test = None
    read: o.Read = None
    accept: o.Accept = None
    expect: o.Expect = None
    max_rows: o.MaxRows = MAX_ROWS
    max_bytes: o.MaxBytes = "4GB"

    def __post_init__(self) -> None:
        if not self.from_statistics:
            o.refuse_unclear_owners(self.owner, self.by_file)
        o.refuse_not_unicode(self.paths)
        for code in self.accept or ():
            refuse_unknown(code)
        assert self.reading is not None  # refused here, if at all

    @cached_property
    def reading(self) -> Reading:
        """How the files are to be read."""
        most = o.as_bytes(self.max_bytes, "--max-bytes")
        asked = Reading.from_pairs(self.read or ())
        there, files = {path.name for path in self.paths}, dict(asked.files)
        for name in asked.files:  # an owner who is gone is told as such, not as one misspelt
            if name not in there and owner_name(Path(name)) in (self.expect or ()):
                del files[name]
        return replace(asked, max_rows=self.max_rows, max_bytes=most, files=files)

    @cached_property
    def listing(self) -> Listing:
        """The files themselves, folders listed, and what was left out of them."""
        return listing(self.files)

    @property
    def from_statistics(self) -> bool:
        """Whether the files hold owners' statistics instead of rows."""
        return all(file.name.lower().endswith(STATISTICS) for file in self.listing.files)

    @cached_property
    def inputs(self) -> Inputs:
        """The files, opened."""
        most = self.reading.max_bytes
        test = None if self.test is None else SourceFile.read(self.test, most)
        return Inputs([SourceFile.read(path, most) for path in self.listing.files], test)

    @property
    def paths(self) -> list[Path]:
        """All files that are read."""
        return [*self.listing.files, *filter(None, [self.test])]

    @property
    def identity(self) -> str:
        """What makes another job the same one: roles and names of its files, and its columns."""
        files = [{"name": path.name, "role": "owners"} for path in self.listing.files]
        tested = [] if self.test is None else [{"name": self.test.name, "role": "test"}]
        return identity({"inputs": files + tested, "job": asdict(self)})

    @cached_property
    def intake(self) -> Intake:
        """The tables, with what was noticed on the way."""
        intake = take_in(
            self.inputs.owners, target=self.target, owner=self.owner, test=self.inputs.test,
            reading=self.reading,
        )  # fmt: skip
        changed = () if self.expect is None else changed_owners(self.expect, intake)
        return replace(intake, findings=(*self.listing.skipped, *changed, *intake.findings))

    @cached_property
    def findings(self) -> Findings:
        """All that is odd in the files; nothing where owners handed over statistics."""
        if self.from_statistics:
            return Findings(())
        return examine(self.intake, self.target, self.accept or ())

    @cached_property
    def owners(self) -> ds.Owners:
        """The owners, once nothing stops the run; notes are said aloud."""
        if self.from_statistics:
            owners = ds.Owners.from_statistics(self.inputs.owners)
            if owners.target == self.target:
                return owners
            raise InvalidOption(
                f"--target is {self.target!r}, but the statistics are of {owners.target!r}."
            )
        new = self.findings.not_told_by_games()
        if new.notes:  # also where something stops the run: all is told at once
            say(new.told(new.notes, "note"))
        self.findings.refuse_stops()
        owners = ds.Owners.from_tables(self._accepted.tables, target=self.target)
        return replace(owners, notes=new.sentences())

    @cached_property
    def _accepted(self) -> Intake:
        return accepted_tables(self.intake, self.findings)

    def test_set(self, owners: ds.Owners) -> tuple[Any, Any]:
        """Features and targets of the test file."""
        test = self.inputs.test
        table = test.table() if test and self.from_statistics else self._accepted.test
        assert table is not None
        return owners.align(table, as_frame=True)

    def newcomer(self, path: Path) -> tuple[str, pd.DataFrame]:
        """Name and table of an owner who joins, read as the other files are."""
        file = SourceFile.read(path, self.reading.max_bytes)
        taken = take_in([file], target=self.target, reading=self.reading, everybody=False)
        everybody = {**self._accepted.tables, **taken.tables}
        joined = replace(taken, tables=everybody, test=self._accepted.test)
        findings = examine(joined, self.target, self.accept or ()).of(file.owner)
        findings.refuse_stops()
        if findings.notes:
            say(findings.told(findings.notes, "note"))
        return file.owner, accepted_tables(joined, findings).tables[file.owner]

    def record(self) -> AnyDict:
        """The options as plain data; files by their names only."""
        return asdict(self) | {
            "files": [path.name for path in self.files],
            "test": self.test and self.test.name,
        }


def changed_owners(expected: Names, intake: Intake) -> tuple[Finding, ...]:
    """Owners whom a job file expects and who are gone, and those whom it does not know."""
    told = {finding.owner for finding in intake.findings if finding.code == "unreadable-file"}
    gone = [name for name in expected if name not in intake.tables and name not in told]
    new = [name for name in intake.tables if name not in expected]
    words = dict.fromkeys(gone, "is expected, and not among the files")
    words |= dict.fromkeys(new, "is among the files, and not expected")
    return tuple(
        Finding(
            "owners-changed",
            "stop",
            f"Owner {name!r} {said}: the owners are not those that were agreed on. Look for the "
            "file, or write the job again.",
            owner=name,
            remedy="--accept owners-changed",
        )
        for name, said in words.items()
    )


@dataclass(frozen=True)
class Job(Data):
    """Whose data, which model, judged how: all that decides what a pool is worth.

    Attributes are the options of the command line by the same names.
    """

    holdout: Annotated[
        float | None,
        Option(help="Instead: keep back this part of every owner's rows.", metavar="F"),
    ] = None
    cv: Annotated[
        int | None, Option(help="Instead: cross-validate in so many folds.", metavar="K")
    ] = None
    task: o.Task = "auto"
    model: Annotated[
        str | None,
        Option(
            help=f"{', '.join(ds.models())}, or a dotted path "
            "[default: logistic for classes, ridge for numbers]. `value` takes several, with "
            "commas between: the first pays, the others are shown beside it.",
            metavar="NAME",
            show_default=False,
        ),
    ] = None
    scoring: Annotated[
        str | None,
        Option(
            help="A score of scikit-learn [default: accuracy for classes, r2 for numbers]; "
            "`value` takes several, as of models.",
            metavar="NAME",
            show_default=False,
        ),
    ] = None
    empty: o.Empty = "constant"
    at_least: o.AtLeast = None
    on_failure: Annotated[
        str, Option(help="If a training fails: raise, or empty = count it as no data.")
    ] = "raise"
    repeats: Annotated[int, Option(help="Trainings averaged per pool.", min=1)] = 1
    timeout: Annotated[float | None, Option(help="Seconds a training may take.")] = None
    memory: Annotated[
        str | None,
        Option(help="Memory a training may take beyond the data, like 500MB.", metavar="SIZE"),
    ] = None
    encode: Annotated[
        str | None,
        Option(help="Text and dates to numbers: pooled = once, or training; none = by the model."),
    ] = None
    backend: Annotated[
        str,
        Option(
            help="Arithmetic of models trained together: numpy, torch (a GPU where there is one), "
            "torch:float16, torch:float32 or torch:float64."
        ),
    ] = "numpy"
    model_seed: Annotated[int, Option(help="Seed of models and of hold-out.", min=0)] = 0

    def __post_init__(self) -> None:
        check_task(self.task, "--task")
        check_choice(self.backend, "--backend", BACKENDS, InvalidOption)
        if self.from_statistics and (self.test is None or self.owner or self.by_file):
            raise InvalidOption(
                "Statistics files name their owner and hold no rows to keep back: pass --test "
                "FILE, and neither --owner nor --by-file."
            )
        for name, _ in self.pairs:
            check_model_name(name)
        super().__post_init__()
        if self.holdout is not None and not 0 < self.holdout < 1:
            raise InvalidOption(
                f"--holdout is {self.holdout:g}; it takes a part of the rows between 0 and 1, say "
                "0.2."
            )
        if self.cv is not None and self.cv < 2:
            raise InvalidOption(f"--cv is {self.cv}; it takes at least 2 folds, say 5.")
        given = sum(x is not None for x in (self.test, self.holdout, self.cv))
        if given != 1:
            raise InvalidOption(
                f"Found {given} ways to test; exactly one is needed: --test FILE (rows of "
                "nobody who is valued), --holdout FRACTION or --cv FOLDS of the owners' rows."
            )

    def game(self) -> JobGame:
        """Read and check the files and set up the game; nothing trains."""
        owners = self.owners
        model, scoring = self.pairs[0]
        choice = choose(owners, model, self.task, scoring)
        rows, columns = int(owners.sizes.sum()), len(owners.columns or ())
        say(
            f"{len(owners)} owners, {rows:,} rows, {columns} columns; "
            f"{choice.task}, {choice.model}, {choice.scoring}"
        )
        game = self._made(choice)
        say(f"{choice.model}: {model_in_words(game)}")
        return game

    @property
    def pairs(self) -> list[tuple[str | None, str | None]]:
        """Models and scores that were named, each with each; the first pays."""
        return list(product(_words(self.model), _words(self.scoring)))

    def refuse_several(self) -> None:
        """Refuse several models or scores where only one can be meant."""
        if len(self.pairs) > 1:
            raise InvalidOption(
                f"--model and --scoring name {len(self.pairs)} ways to value; only `value` shows "
                "several beside each other. Name one of each."
            )

    def others(self) -> Others:
        """The same job under every other model and score that was named; nothing trains."""
        choices = (choose(self.owners, name, self.task, score) for name, score in self.pairs[1:])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SharedRows)  # as was said of the first
            return [(choice, self._made(choice)) for choice in choices]

    def _made(self, choice: Choice) -> JobGame:
        owners, tested = self.owners, partial(self._model_game, choice)
        if self.cv is not None:
            return ds.FoldsGame(owners, tested, self.cv, seed=self.model_seed)
        if self.test is not None:
            return tested(owners, *self.test_set(owners))
        assert self.holdout is not None
        game = tested(*owners.hold_out(self.holdout, self.model_seed))
        game.notes = (
            *game.notes,
            "The test set was held out of the owners' own rows: wrong labels are in the test as "
            "well.",
        )
        return game

    def _model_game(
        self, choice: Choice, owners: ds.Owners, X_test: Array, y_test: Array
    ) -> ds.ModelGame:
        return ds.ModelGame(
            owners,
            choice.model,
            X_test,
            y_test,
            scoring=choice.scoring,
            task=choice.task,
            empty=o.as_number(self.empty, float),
            at_least=self.at_least,  # type: ignore[arg-type]  # it is checked there
            seed=self.model_seed,
            repeats=self.repeats,
            on_failure=self.on_failure,  # type: ignore[arg-type]  # it is checked there
            timeout=self.timeout,
            memory=None if self.memory is None else o.as_bytes(self.memory, "--memory"),
            encode=self.encode,  # type: ignore[arg-type]  # it is checked there
            backend=self.backend,
        )


def _words(typed: str | None) -> list[str] | list[None]:
    """What was typed with commas between; None where nothing was."""
    return [None] if typed is None else [word.strip() for word in typed.split(",")]


def one_of(game: JobGame) -> ds.ModelGame:
    """A game of one test set: the game itself, or that of its first fold."""
    return game.games[0] if isinstance(game, ds.FoldsGame) else game


def model_in_words(game: JobGame) -> str:
    """Which model it is, with what stands around it, and how pools are trained."""
    one = one_of(game)
    encodes_itself = one.encoding is None and is_mixed(one.owners) and not is_table(one.X_test)
    model = one.model.steps[-1][1] if encodes_itself else one.model
    way = "each pool fitted by itself" if one.path is None else one.path.name
    return f"{in_words(model)}; {way}"
