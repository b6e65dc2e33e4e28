"""From files and options to a game: what `value`, `quote` and their kin have in common."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dushapley.cli import options as o
from dushapley.errors import InvalidOption

if TYPE_CHECKING:
    import numpy as np

    from dushapley.data.owners import Owners
    from dushapley.games import FoldsGame, ModelGame


HELD_OUT = (
    "The test set was held out of the owners' own rows: wrong labels are in the test as well."
)


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
        if self.from_statistics and (self.test is None or self.owner or self.by_file):
            raise InvalidOption(
                "Statistics files name their owner and hold no rows to keep back: pass --test "
                "FILE, and neither --owner nor --by-file."
            )
        if not self.from_statistics and (self.owner is None) == (not self.by_file):
            raise InvalidOption("Say whose rows they are: either --owner COLUMN or --by-file.")
        given = [x for x in (self.test, self.holdout, self.cv) if x is not None]
        if len(given) != 1:
            raise InvalidOption(
                f"Found {len(given)} ways to test; needed is one: --test FILE (rows of nobody who "
                "is valued), --holdout FRACTION or --cv FOLDS of the owners' rows."
            )

    @property
    def from_statistics(self) -> bool:
        """Whether the files hold owners' statistics instead of rows."""
        from dushapley.data.files import STATISTICS, files_in

        return all(file.name.lower().endswith(STATISTICS) for file in files_in(self.files))

    def owners(self) -> Owners:
        """Read the files."""
        from dushapley.data.files import files_in
        from dushapley.data.owners import Owners

        if not self.from_statistics:
            return Owners.from_files(self.files, target=self.target, owner=self.owner)
        owners = Owners.from_statistics(files_in(self.files))
        if owners.target != self.target:
            raise InvalidOption(
                f"--target is {self.target!r}, but the statistics are of {owners.target!r}."
            )
        return owners

    def game(self) -> ModelGame | FoldsGame:
        """Read the files and set up the game; nothing is trained."""
        from dushapley.data.files import read_table
        from dushapley.games import FoldsGame

        owners = self.owners()
        say(
            f"{len(owners)} owners, {int(owners.sizes.sum()):,} rows, "
            f"{len(owners.columns or ())} columns; {', '.join(self.choices(owners))}"
        )
        if self.cv is not None:
            folds = FoldsGame(owners, self.model_game, self.cv, seed=self.model_seed)
            self.tell_model(folds.games[0])
            return folds
        if self.test is not None:
            game = self.model_game(owners, *owners.align(read_table(self.test)))
        else:
            assert self.holdout is not None
            game = self.model_game(*owners.hold_out(self.holdout, self.model_seed))
            game.notes = (*game.notes, HELD_OUT)
        self.tell_model(game)
        return game

    def tell_model(self, game: ModelGame) -> None:
        """Which model it is, with what stands around it, and how pools are trained."""
        from dushapley.games.model.catalogue import told
        from dushapley.games.model.encoding import is_mixed

        encodes_itself = game.encoding is None and is_mixed(game.owners)
        model = game.model.steps[-1][1] if encodes_itself else game.model
        way = "each pool fitted by itself" if game.path is None else game.path.name
        say(f"{self.choices(game.owners)[1]}: {told(model)}; {way}")

    def choices(self, owners: Owners) -> tuple[str, str, str]:
        """Task, model and score, guessed where they were not given."""
        import numpy as np

        from dushapley.games.model.catalogue import DEFAULT, SCORING, SUMMED, guess_task

        task: Any = self.task
        if task == "auto" and owners.reduced is not None:
            task = owners.reduced[0].kind
        elif task == "auto":
            task = guess_task(np.concatenate(owners.labels()))
        if task not in DEFAULT:
            raise InvalidOption(f"--task is {task!r}; choose auto, classification or regression.")
        default = DEFAULT if owners.reduced is None else SUMMED
        return task, self.model or default[task], self.scoring or SCORING[task]

    def model_game(
        self, owners: Owners, X_test: np.ndarray[Any, Any], y_test: np.ndarray[Any, Any]
    ) -> ModelGame:
        """The game of one test set."""
        from dushapley.games import ModelGame
        from dushapley.games.model.catalogue import make_model, trained_together

        task, name, scoring = self.choices(owners)
        encode, columns = self.encoding(owners, X_test)
        model = trained_together(name, columns, owners.sizes)
        if model is None:
            model = make_model(name, task, missing=has_holes([*owners.X, X_test]))
        return ModelGame(
            owners,
            model,
            X_test,
            y_test,
            scoring=scoring,
            empty=as_number(self.empty),
            seed=self.model_seed,
            repeats=self.repeats,
            on_failure=self.on_failure,  # type: ignore[arg-type]  # it is checked there
            timeout=self.timeout,
            memory=as_bytes(self.memory),
            encode=encode,
        )

    def encoding(
        self, owners: Owners, X_test: np.ndarray[Any, Any]
    ) -> tuple[Any, np.ndarray[Any, Any]]:
        """How text becomes numbers, and the test columns as the model will see them."""
        import numpy as np

        from dushapley.games.model.encoding import Encoding, is_mixed

        if self.encode != "pooled" or not is_mixed(owners):
            return self.encode, X_test
        fitted = Encoding(owners)
        return fitted, fitted(np.asarray(X_test, dtype=object))


def has_holes(blocks: Sequence[np.ndarray[Any, Any]]) -> bool:
    """Whether some number is missing (missing text is a category of its own)."""
    import numpy as np

    numbers = [b for b in blocks if b.dtype.kind == "f"]
    cells = (cell for b in blocks if b.dtype.kind == "O" for cell in b.flat)
    return any(bool(np.isnan(b).any()) for b in numbers) or any(
        isinstance(cell, float) and cell != cell for cell in cells
    )


def as_number(text: str) -> Any:
    """A number where it is one, else the word."""
    try:
        return float(text)
    except ValueError:
        return text


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


def as_whole(text: str) -> Any:
    """A whole number where it is one, else a number, else the word."""
    try:
        return int(text)
    except ValueError:
        return as_number(text)


def default_ledger(context: str) -> Path:
    """Where paid work is kept unless told otherwise: one file per context and format."""
    from dushapley.engine.ledger import FORMAT

    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    folder = Path(home) / "dushapley"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{context[:24]}-{FORMAT.rsplit('/', 1)[1]}.sqlite"


def say(sentence: str) -> None:
    """Tell the person, not the pipe."""
    print(sentence, file=sys.stderr)
