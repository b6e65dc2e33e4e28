"""From files and options to a game: what `value`, `quote` and their kin have in common."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dushapley.errors import InvalidOption

if TYPE_CHECKING:
    import numpy as np

    from dushapley.games import FoldsGame, ModelGame
    from dushapley.owners import Owners


@dataclass(frozen=True)
class Job:
    """Whose data, which model, judged how: all that decides what a pool is worth.

    Attributes are the options of the command line by the same names.
    """

    files: Sequence[Path]
    target: str
    owner: str | None = None
    by_file: bool = False
    test: Path | None = None
    holdout: float | None = None
    cv: int | None = None
    task: str = "auto"
    model: str | None = None
    scoring: str | None = None
    empty: str = "constant"
    on_failure: str = "raise"
    repeats: int = 1
    timeout: float | None = None
    encode: str = "pooled"
    model_seed: int = 0

    def __post_init__(self) -> None:
        if (self.owner is None) == (not self.by_file):
            raise InvalidOption("Say whose rows they are: either --owner COLUMN or --by-file.")
        given = [x for x in (self.test, self.holdout, self.cv) if x is not None]
        if len(given) != 1:
            raise InvalidOption(
                f"Found {len(given)} ways to test; needed is one: --test FILE (rows of nobody who "
                "is valued), --holdout FRACTION or --cv FOLDS of the owners' rows."
            )

    def game(self) -> ModelGame | FoldsGame:
        """Read the files and set up the game; nothing is trained."""
        from dushapley.games import FoldsGame
        from dushapley.owners import Owners
        from dushapley.reading import read_table

        owners = Owners.from_files(self.files, target=self.target, owner=self.owner)
        say(
            f"{len(owners)} owners, {int(owners.sizes.sum()):,} rows, {len(owners.columns or ())} "
            "columns"
        )
        if self.test is not None:
            return self.model_game(owners, *owners.align(read_table(self.test)))
        if self.holdout is not None:
            return self.model_game(*owners.hold_out(self.holdout, self.model_seed))
        assert self.cv is not None
        return FoldsGame(owners, self.model_game, self.cv, seed=self.model_seed)

    def model_game(
        self, owners: Owners, X_test: np.ndarray[Any, Any], y_test: np.ndarray[Any, Any]
    ) -> ModelGame:
        """The game of one test set."""
        import numpy as np

        from dushapley.cli.models import DEFAULT, SCORING, guess_task, make_model
        from dushapley.games import ModelGame

        targets = np.concatenate([y for y in owners.y if y is not None])
        task: Any = guess_task(targets) if self.task == "auto" else self.task
        name, scoring = self.model or DEFAULT[task], self.scoring or SCORING[task]
        say(f"{task}: model {name}, scored by {scoring}, {len(y_test):,} test rows")
        return ModelGame(
            owners,
            make_model(name, task, missing=has_holes([*owners.X, X_test])),
            X_test,
            y_test,
            scoring=scoring,
            empty=as_number(self.empty),
            seed=self.model_seed,
            repeats=self.repeats,
            on_failure=self.on_failure,  # type: ignore[arg-type]
            timeout=self.timeout,
            encode=self.encode,  # type: ignore[arg-type]
        )


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
    """Where paid work is kept unless told otherwise: one file per context."""
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    folder = Path(home) / "dushapley"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{context[:24]}.sqlite"


def say(sentence: str) -> None:
    """Tell the person, not the pipe."""
    print(sentence, file=sys.stderr)
