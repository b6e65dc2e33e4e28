"""From files and options to a game, and by what method and means it is run.

Options that commands share, in groups; each group checks itself before any file is read.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dushapley.cli import options as o
from dushapley.errors import InvalidOption

if TYPE_CHECKING:
    from dushapley.arrays import Array
    from dushapley.data.files import SourceFile
    from dushapley.data.owners import Owners
    from dushapley.games import FoldsGame, Game, ModelGame
    from dushapley.games.model.catalogue import Choice


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
    test: o.Test = None
    holdout: o.Holdout = None
    cv: o.Cv = None
    task: o.Task = "auto"
    model: o.Model = None
    scoring: o.Scoring = None
    empty: o.Empty = "constant"
    on_failure: o.OnFailure = "raise"
    repeats: o.Repeats = 1
    timeout: o.Timeout = None
    memory: o.Memory = None
    encode: o.Encode = "pooled"
    model_seed: o.ModelSeed = 0

    def __post_init__(self) -> None:
        from dushapley.games.model.catalogue import check_task

        check_task(self.task, "--task")
        if self.from_statistics and (self.test is None or self.owner or self.by_file):
            raise InvalidOption(
                "Statistics files name their owner and hold no rows to keep back: pass --test "
                "FILE, and neither --owner nor --by-file."
            )
        if not self.from_statistics:
            o.refuse_unclear_owners(self.owner, self.by_file)
        given = [x for x in (self.test, self.holdout, self.cv) if x is not None]
        if len(given) != 1:
            raise InvalidOption(
                f"Found {len(given)} ways to test; needed is one: --test FILE (rows of nobody who "
                "is valued), --holdout FRACTION or --cv FOLDS of the owners' rows."
            )

    @cached_property
    def listed(self) -> list[Path]:
        """The files themselves, folders listed."""
        from dushapley.data.files import files_in

        return files_in(self.files)

    @property
    def from_statistics(self) -> bool:
        """Whether the files hold owners' statistics instead of rows."""
        from dushapley.data.files import STATISTICS

        return all(file.name.lower().endswith(STATISTICS) for file in self.listed)

    @cached_property
    def inputs(self) -> Inputs:
        """The files, opened."""
        from dushapley.data.files import SourceFile

        test = None if self.test is None else SourceFile.read(self.test)
        return Inputs([SourceFile.read(path) for path in self.listed], test)

    def game(self) -> ModelGame | FoldsGame:
        """Read the files and set up the game; nothing is trained."""
        return self.game_of(self.inputs)

    def game_of(self, inputs: Inputs) -> ModelGame | FoldsGame:
        """The game of files that were opened before."""
        from dushapley.games import FoldsGame
        from dushapley.games.model.catalogue import choose

        owners = self._owners(inputs.owners)
        choice = choose(owners, self.model, self.task, self.scoring)
        say(
            f"{len(owners)} owners, {int(owners.sizes.sum()):,} rows, "
            f"{len(owners.columns or ())} columns; {choice.task}, {choice.model}, {choice.scoring}"
        )

        def tested(owners: Owners, X_test: Array, y_test: Array) -> ModelGame:
            return self._model_game(choice, owners, X_test, y_test)

        game: ModelGame | FoldsGame
        if self.cv is not None:
            game = FoldsGame(owners, tested, self.cv, seed=self.model_seed)
        elif inputs.test is not None:
            game = tested(owners, *owners.align(inputs.test.table()))
        else:
            assert self.holdout is not None
            game = tested(*owners.hold_out(self.holdout, self.model_seed))
            game.notes = (*game.notes, HELD_OUT)
        say(f"{choice.model}: {model_in_words(game)}")
        return game

    def _owners(self, files: Sequence[SourceFile]) -> Owners:
        from dushapley.data.owners import Owners

        if not self.from_statistics:
            return Owners.from_files(files, target=self.target, owner=self.owner)
        owners = Owners.from_statistics(files)
        if owners.target != self.target:
            raise InvalidOption(
                f"--target is {self.target!r}, but the statistics are of {owners.target!r}."
            )
        return owners

    def _model_game(
        self, choice: Choice, owners: Owners, X_test: Array, y_test: Array
    ) -> ModelGame:
        from dushapley.games import ModelGame

        return ModelGame(
            owners,
            choice.model,
            X_test,
            y_test,
            scoring=choice.scoring,
            task=choice.task,
            empty=o.as_number(self.empty),
            seed=self.model_seed,
            repeats=self.repeats,
            on_failure=self.on_failure,  # type: ignore[arg-type]  # it is checked there
            timeout=self.timeout,
            memory=o.as_bytes(self.memory),
            encode=self.encode,  # type: ignore[arg-type]  # it is checked there
        )

    def record(self) -> dict[str, Any]:
        """The options as plain data; files by their names only."""
        from dataclasses import asdict

        names = [path.name for path in self.files]
        return asdict(self) | {"files": names, "test": self.test and self.test.name}


@dataclass(frozen=True)
class Asked:
    """Which method is asked, and how much. Attributes are options by the same names."""

    method: o.Method = "auto"
    option: o.MethodOption = None
    budget: o.Budget = None
    seed: o.Seed = 0

    def __post_init__(self) -> None:
        from dushapley.validation import check_budget

        refuse_unknown(self.method)
        check_budget(self.budget)
        o.method_options(self.option or [])

    @property
    def options(self) -> Mapping[str, Any]:
        """The method's own options, by name."""
        return o.method_options(self.option or [])


@dataclass(frozen=True)
class Means:
    """Workers, and where paid work is kept. Attributes are options by the same names."""

    jobs: o.Jobs = 1
    ledger: o.Ledger = None
    no_ledger: o.NoLedger = False
    yes: o.Yes = False

    def __post_init__(self) -> None:
        refuse_workers(self.jobs)

    def ledger_of(self, game: Game) -> Path | None:
        """The file that keeps what is paid for this game; one that cannot is refused."""
        from dushapley.engine.evaluator import refuse_ledger

        path = None if self.no_ledger else self.ledger or announced_ledger(game)
        refuse_ledger(game, path)
        return path

    def usable_ledger_of(self, game: Game) -> Path | None:
        """The same, tried: for those who time trials before they open it."""
        from dushapley.engine.ledger import Ledger

        path = self.ledger_of(game)
        if path is not None:
            assert game.context is not None
            Ledger(path, game.context).close()  # opens, or says why not
        return path


def refuse_workers(jobs: int) -> None:
    """Refuse a number of workers that is none."""
    from dushapley.engine.executors import check_executor

    check_executor("local", jobs, None)


def refuse_unknown(method: str) -> None:
    """Refuse a misspelt method before any file is read."""
    from dushapley.estimators.registry import AUTO, find

    if method != AUTO:
        find(method)


def announced_ledger(game: Game) -> Path | None:
    """The default ledger of this game, told to the person."""
    if game.cheap:
        say("no ledger: this model is made of sums, and an evaluation costs nothing")
        return None
    if game.context is None:
        say("no ledger: the model's content cannot be compared between runs")
        return None
    path = default_ledger(game.context)
    say(f"ledger: {path} (what is paid is kept; run again to go on)")
    return path


def default_ledger(context: str) -> Path:
    """Where paid work is kept unless told otherwise: one file per context and format."""
    from dushapley.engine.ledger import FORMAT

    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    folder = Path(home) / "dushapley"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{context[:24]}-{FORMAT.rsplit('/', 1)[1]}.sqlite"


def one_of(game: ModelGame | FoldsGame) -> ModelGame:
    """A game of one test set: the game itself, or that of its first fold."""
    from dushapley.games import FoldsGame

    return game.games[0] if isinstance(game, FoldsGame) else game


def model_in_words(game: ModelGame | FoldsGame) -> str:
    """Which model it is, with what stands around it, and how pools are trained."""
    from dushapley.games.model.catalogue import in_words
    from dushapley.games.model.encoding import is_mixed

    one = one_of(game)
    encodes_itself = one.encoding is None and is_mixed(one.owners)
    model = one.model.steps[-1][1] if encodes_itself else one.model
    way = "each pool fitted by itself" if one.path is None else one.path.name
    return f"{in_words(model)}; {way}"


def say(sentence: str) -> None:
    """Tell the person, not the pipe."""
    print(sentence, file=sys.stderr)
