"""From files and options to a game: what `value`, `quote` and their kin have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any

from typer import Option

import dushapley as ds
from dushapley.arrays import Array
from dushapley.cli import options as o
from dushapley.cli.outputs import identity
from dushapley.data.files import STATISTICS, SourceFile, files_in
from dushapley.errors import InvalidOption
from dushapley.games.model.catalogue import Choice, check_task, choose, in_words
from dushapley.games.model.encoding import is_mixed
from dushapley.terminal import say

HELD_OUT = (
    "The test set was held out of the owners' own rows: wrong labels are in the test as well."
)


@dataclass(frozen=True)
class Inputs:
    """The files of a job, opened: each is read once, for its hash and for its table."""

    owners: Sequence[SourceFile]
    test: SourceFile | None

    def record(self) -> list[dict[str, str]]:
        """Name, role and hash of every file."""
        tested = [] if self.test is None else [self.test.record("test")]
        return [file.record() for file in self.owners] + tested


@dataclass(frozen=True)
class Job:
    """Whose data, which model, judged how: all that decides what a pool is worth.

    Attributes are the options of the command line by the same names.
    """

    files: o.Files
    target: o.Target
    owner: o.Owner = None
    by_file: o.ByFile = False
    test: Annotated[
        Path | None,
        Option(
            exists=True,
            dir_okay=False,
            help="Test rows, which belong to nobody who is valued.",
            metavar="FILE",
        ),
    ] = None
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
            "[default: logistic for classes, ridge for numbers].",
            metavar="NAME",
            show_default=False,
        ),
    ] = None
    scoring: Annotated[
        str | None,
        Option(
            help="A score of scikit-learn [default: accuracy for classes, r2 for numbers].",
            metavar="NAME",
            show_default=False,
        ),
    ] = None
    empty: Annotated[str, Option(help="Worth of no data: constant, zero or a number.")] = "constant"
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
        str, Option(help="Text and dates to numbers: pooled = once, or training.")
    ] = "pooled"
    model_seed: Annotated[int, Option(help="Seed of models and of hold-out.", min=0)] = 0

    def __post_init__(self) -> None:
        check_task(self.task, "--task")
        if self.from_statistics and (self.test is None or self.owner or self.by_file):
            raise InvalidOption(
                "Statistics files name their owner and hold no rows to keep back: pass --test "
                "FILE, and neither --owner nor --by-file."
            )
        if not self.from_statistics:
            o.refuse_unclear_owners(self.owner, self.by_file)
        o.refuse_not_unicode(self.paths)
        given = [x for x in (self.test, self.holdout, self.cv) if x is not None]
        if len(given) != 1:
            raise InvalidOption(
                f"Found {len(given)} ways to test; exactly one is needed: --test FILE (rows of "
                "nobody who is valued), --holdout FRACTION or --cv FOLDS of the owners' rows."
            )

    @cached_property
    def listed(self) -> list[Path]:
        """The files themselves, folders listed."""
        return files_in(self.files)

    @property
    def from_statistics(self) -> bool:
        """Whether the files hold owners' statistics instead of rows."""
        return all(file.name.lower().endswith(STATISTICS) for file in self.listed)

    @cached_property
    def inputs(self) -> Inputs:
        """The files, opened."""
        test = None if self.test is None else SourceFile.read(self.test)
        return Inputs([SourceFile.read(path) for path in self.listed], test)

    @property
    def identity(self) -> str:
        """What makes another job the same one: roles and names of its files, and its columns."""
        files = [{"name": path.name, "role": "owners"} for path in self.listed]
        tested = [] if self.test is None else [{"name": self.test.name, "role": "test"}]
        return identity({"inputs": files + tested, "job": asdict(self)})

    @property
    def paths(self) -> list[Path]:
        """All files that are read."""
        return [*self.listed, *filter(None, [self.test])]

    def game(self, opened: Inputs | None = None) -> ds.ModelGame | ds.FoldsGame:
        """Read the files, unless they were opened before, and set up the game; nothing trains."""
        inputs = opened or self.inputs
        owners = self._owners(inputs.owners)
        choice = choose(owners, self.model, self.task, self.scoring)
        say(
            f"{len(owners)} owners, {int(owners.sizes.sum()):,} rows, "
            f"{len(owners.columns or ())} columns; {choice.task}, {choice.model}, {choice.scoring}"
        )
        tested = partial(self._model_game, choice)
        game: ds.ModelGame | ds.FoldsGame
        if self.cv is not None:
            game = ds.FoldsGame(owners, tested, self.cv, seed=self.model_seed)
        elif inputs.test is not None:
            game = tested(owners, *owners.align(inputs.test.table()))
        else:
            assert self.holdout is not None
            game = tested(*owners.hold_out(self.holdout, self.model_seed))
            game.notes = (*game.notes, HELD_OUT)
        say(f"{choice.model}: {model_in_words(game)}")
        return game

    def _owners(self, files: Sequence[SourceFile]) -> ds.Owners:
        if not self.from_statistics:
            return ds.Owners.from_files(files, target=self.target, owner=self.owner)
        owners = ds.Owners.from_statistics(files)
        if owners.target != self.target:
            raise InvalidOption(
                f"--target is {self.target!r}, but the statistics are of {owners.target!r}."
            )
        return owners

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
            seed=self.model_seed,
            repeats=self.repeats,
            on_failure=self.on_failure,  # type: ignore[arg-type]  # it is checked there
            timeout=self.timeout,
            memory=o.as_bytes(self.memory),
            encode=self.encode,  # type: ignore[arg-type]  # it is checked there
        )

    def record(self) -> dict[str, Any]:
        """The options as plain data; files by their names only."""
        names = [path.name for path in self.files]
        return asdict(self) | {"files": names, "test": self.test and self.test.name}


def one_of(game: ds.ModelGame | ds.FoldsGame) -> ds.ModelGame:
    """A game of one test set: the game itself, or that of its first fold."""
    return game.games[0] if isinstance(game, ds.FoldsGame) else game


def model_in_words(game: ds.ModelGame | ds.FoldsGame) -> str:
    """Which model it is, with what stands around it, and how pools are trained."""
    one = one_of(game)
    encodes_itself = one.encoding is None and is_mixed(one.owners)
    model = one.model.steps[-1][1] if encodes_itself else one.model
    way = "each pool fitted by itself" if one.path is None else one.path.name
    return f"{in_words(model)}; {way}"
