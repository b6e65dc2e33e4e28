"""From files and options to a game: what `value`, `quote` and their kin have in common."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Annotated

from typer import Option

import dushapley as ds
from dushapley.arrays import Array
from dushapley.cli import options as o
from dushapley.cli.data import Data
from dushapley.data.rows import is_table
from dushapley.errors import InvalidOption, SharedRows
from dushapley.games.model.batched.arithmetic import BACKENDS
from dushapley.games.model.catalogue import Choice, check_model_name, check_task, choose, in_words
from dushapley.games.model.encoding import is_mixed
from dushapley.terminal import say
from dushapley.validation import check_choice

HELD_OUT = (
    "The test set was held out of the owners' own rows: wrong labels are in the test as well."
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
    empty: Annotated[str, Option(help="Worth of no data: constant, zero or a number.")] = "constant"
    at_least: Annotated[
        str | None,
        Option(help="empty = a pool worse than no data counts as no data.", metavar="WORD"),
    ] = None
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
        given = [x for x in (self.test, self.holdout, self.cv) if x is not None]
        if len(given) != 1:
            raise InvalidOption(
                f"Found {len(given)} ways to test; exactly one is needed: --test FILE (rows of "
                "nobody who is valued), --holdout FRACTION or --cv FOLDS of the owners' rows."
            )

    def game(self) -> ds.ModelGame | ds.FoldsGame:
        """Read and check the files and set up the game; nothing trains."""
        owners = self._owners
        choice = choose(owners, self.pairs[0][0], self.task, self.pairs[0][1])
        say(
            f"{len(owners)} owners, {int(owners.sizes.sum()):,} rows, "
            f"{len(owners.columns or ())} columns; {choice.task}, {choice.model}, {choice.scoring}"
        )
        game = self._made(choice)
        say(f"{choice.model}: {model_in_words(game)}")
        return game

    @cached_property
    def _owners(self) -> ds.Owners:
        """Read once, and said once what is odd about them."""
        return self.owners()

    @property
    def pairs(self) -> list[tuple[str | None, str | None]]:
        """Models and scores that were named, each with each; the first pays."""
        models, scores = (
            [None] if words is None else [word.strip() for word in words.split(",")]
            for words in (self.model, self.scoring)
        )
        return [(model, scoring) for model in models for scoring in scores]

    def refuse_several(self) -> None:
        """Refuse several models or scores where only one can be meant."""
        if len(self.pairs) > 1:
            raise InvalidOption(
                f"--model and --scoring name {len(self.pairs)} ways to value; only `value` shows "
                "several beside each other. Name one of each."
            )

    def others(self) -> list[tuple[Choice, ds.ModelGame | ds.FoldsGame]]:
        """The same job under every other model and score that was named; nothing trains."""
        found: list[tuple[Choice, ds.ModelGame | ds.FoldsGame]] = []
        for model, scoring in self.pairs[1:]:
            choice = choose(self._owners, model, self.task, scoring)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SharedRows)  # as was said of the first
                found.append((choice, self._made(choice)))
        return found

    def _made(self, choice: Choice) -> ds.ModelGame | ds.FoldsGame:
        owners, tested = self._owners, partial(self._model_game, choice)
        if self.cv is not None:
            return ds.FoldsGame(owners, tested, self.cv, seed=self.model_seed)
        if self.test is not None:
            return tested(owners, *self.test_set(owners))
        assert self.holdout is not None
        game = tested(*owners.hold_out(self.holdout, self.model_seed))
        game.notes = (*game.notes, HELD_OUT)
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
            memory=o.as_bytes(self.memory),
            encode=self.encode,  # type: ignore[arg-type]  # it is checked there
            backend=self.backend,
        )


def one_of(game: ds.ModelGame | ds.FoldsGame) -> ds.ModelGame:
    """A game of one test set: the game itself, or that of its first fold."""
    return game.games[0] if isinstance(game, ds.FoldsGame) else game


def model_in_words(game: ds.ModelGame | ds.FoldsGame) -> str:
    """Which model it is, with what stands around it, and how pools are trained."""
    one = one_of(game)
    encodes_itself = one.encoding is None and is_mixed(one.owners) and not is_table(one.X_test)
    model = one.model.steps[-1][1] if encodes_itself else one.model
    way = "each pool fitted by itself" if one.path is None else one.path.name
    return f"{in_words(model)}; {way}"
