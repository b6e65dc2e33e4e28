"""Any scikit-learn model as a game: what a pool is worth is how well a model trained on it does."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from dushapley.arrays import Array, IntArray, Queries, Rows
from dushapley.data.formats.objects import as_table
from dushapley.data.overlap import copied_rows, tested_rows
from dushapley.data.owners import Owners
from dushapley.data.rows import is_table, joined, take
from dushapley.errors import InvalidGame, SharedRows
from dushapley.games.base import Answers, Game, Outcome, Scores, average
from dushapley.games.derived import DerivedGame
from dushapley.games.many.marginals import Marginals
from dushapley.games.many.newton import newton_marginals
from dushapley.games.model.additive.path import AdditivePath, additive_path
from dushapley.games.model.batched.arithmetic import BACKENDS
from dushapley.games.model.batched.path import BatchedPath, NetworkPath, gradient_path
from dushapley.games.model.encoding import Encoding, prepare
from dushapley.games.model.identity import Indescribable, describe, packages_of
from dushapley.games.model.scoring.abilities import refuse_unable, weight_option
from dushapley.games.model.scoring.scorer import (
    Score,
    Scorer,
    best_constant,
    constant_label,
    is_own_function,
    own,
)
from dushapley.games.model.training import (
    Fresh,
    fresh,
    known_chance,
    refuse_drifting,
    train,
    voice_of,
)
from dushapley.games.policy import Training, agreed, failure_cause
from dushapley.games.rows import RowsGame
from dushapley.hashing import content_hash, digest, sha256, versions, whole_number
from dushapley.validation import (
    check_choice,
    check_seed,
    is_number,
    is_whole,
)

MOST_REPEATS = 1000
"""Trainings averaged for every pool; each has a model of its own, made beforehand."""

LIFTED = (
    'Pools whose model is worse than none count as nobody\'s (at_least="empty"): nobody would '
    "deploy such a model."
)
FastPath = AdditivePath | BatchedPath | NetworkPath
MAKERS: list[Callable[[ModelGame], FastPath | None]] = [additive_path, gradient_path]
"""Makers of fast paths, which answer the pools of a game by other arithmetic than fitting the model
pool by pool: sums of sufficient statistics, many small models in one batch, an accelerator. The
first that takes the game has it; the path's `name` is part of the ledger's key."""


class ModelGame(RowsGame):
    r"""u(S) = the score, on a test set, of a model trained on the rows of pool S.

    Parameters
    ----------
    owners
        Whose rows are pooled; they need targets.
    model
        A scikit-learn estimator or pipeline, unfitted; or one of `dushapley.models()` by name (or
        a dotted path), which is then made as the command line makes it: columns scaled where the
        model needs that, and holes filled by column means; it is the same model at any size.
        Before every training, each `random_state` left open, nested ones too, and the global
        generators (Python's, numpy's, torch's) are set from `seed`, the pool's content and the
        repeat. One that is an integer stays, unless trainings are repeated.
    X_test, y_test
        The test set, which belongs to nobody who is valued.
    scoring
        A score of scikit-learn by name (see `dushapley.scores()`), or ``f(model, X, y) ->
        number``; higher is better. None: the model's own `score` (accuracy of most classifiers, r2
        of most regressors); for a model by name what suits the task, "accuracy" or "r2".
    task
        For a model by name: "classification", "regression", or "auto": text and up to 20
        different whole numbers as targets are classes.
    empty
        u(∅). "constant": the score of the best constant prediction on the test set, which needs
        nobody's data; under a model's own score that of the model itself, trained and tested on
        test rows that are all alike. Or "zero", or a number.
    at_least
        "empty": u(S) = max(u(S), u(∅)), since nobody deploys a model that is worse than none.
        Otherwise, under scores without a lower end (r2, minus an error), a few wild pools may
        decide the values.
    seed
        Of the models; the estimator's seed is `value`'s.
    repeats
        Trainings averaged for every pool; their spread is reported as training noise. With one,
        its size is unknown unless training is free of chance.
    deterministic
        Whether another seed would train the same model. None: known for models of scikit-learn
        that take no seed, and for this library's own; of others the grand coalition and a few
        small pools are trained under a second seed, as many as a tenth of the budget pays for
        (`exact`, and a method without a budget that needs all of its default, have them beside it).
        True or False: you say so, and nothing is probed.
    on_failure
        "raise" `UtilityFailed` when a training fails, or count it as u(∅) with "empty"; the
        count is in the result.
    timeout
        Seconds a single training may take; longer is a failure.
    memory
        Bytes that trainings may take beyond the data itself; more is a failure. With `timeout`
        or `memory`, `value` trains in processes of their own, which it can end.
    encode
        How tables reach the model. "none": as they are, with names, types and categories. Else as
        arrays of numbers, text and dates by one encoding fitted on the pooled rows of all owners
        ("pooled", or one made before), or afresh in every "training". None: "none" if the model's
        first step selects or encodes columns itself (`ColumnTransformer`, `OneHotEncoder`, a
        function or transformer of one's own), else "pooled"; the notes say which.
    backend
        Arithmetic of the fast paths (sums over rows, many small models in one batch): "numpy"
        (float64), or "torch" (on a GPU where there is one: TF32 there, float32 on a CPU),
        "torch:float16", "torch:float32" or "torch:float64". Part of the ledger's key; a note says
        what coarse numbers cost.
    fast
        Whether fast paths may be used; False fits every pool by the model itself.
    fingerprint
        Names the content of a model or scorer that cannot be described (a function written in
        the script itself), needed for a ledger then; or the version of a package that a model uses
        without requiring it, of which an upgrade would go unnoticed.

    Notes
    -----
    A pool of one class only is scored as the constant predictor it is, without training. A model
    that never saw some class gives it probability zero. Cost: `repeats` trainings a question.

    Examples
    --------
    >>> import numpy as np, dushapley as ds
    >>> from sklearn.linear_model import Ridge
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 2)); y = X @ [1.0, 2.0] + rng.normal(size=60)
    >>> owners = ds.Owners.from_arrays({"a": (X[:10], y[:10]), "b": (X[10:30], y[10:30])})
    >>> game = ds.ModelGame(owners, Ridge(), X[30:], y[30:], scoring="r2")
    >>> game([[0, 0], [1, 1]]).round(2).tolist()
    [0.0, 0.78]
    >>> ds.ModelGame(owners, "ridge", X[30:], y[30:])([[0, 0], [1, 1]]).round(2).tolist()
    [0.0, 0.78]
    """

    X_test: Rows
    y_test: Array
    path: FastPath | None
    training: Training
    block = 1  # without a fast path: pools one by one, each fitted by the model itself

    def __init__(
        self,
        owners: Owners,
        model: Any,
        X_test: Any,
        y_test: ArrayLike,
        *,
        scoring: Any = None,
        task: Literal["auto", "classification", "regression"] = "auto",
        empty: float | Literal["constant", "zero"] = "constant",
        at_least: Literal["empty"] | None = None,
        seed: int = 0,
        repeats: int = 1,
        deterministic: bool | None = None,
        on_failure: Literal["raise", "empty"] = "raise",
        timeout: float | None = None,
        memory: int | None = None,
        encode: Literal["none", "pooled", "training"] | Encoding | None = None,
        backend: str = "numpy",
        fast: bool = True,
        fingerprint: str | None = None,
    ) -> None:
        if is_whole(repeats, MOST_REPEATS + 1):
            raise InvalidGame(
                f"repeats is {repeats:,}; at most {MOST_REPEATS:,} trainings a pool are averaged."
            )
        check_choice("empty" if at_least is None else at_least, "at_least", ("empty",))
        check_choice(backend, "backend", BACKENDS)
        check_choice(deterministic, "deterministic", (True, False, None))
        check_choice(fast, "fast", (True, False))
        training = agreed(on_failure, timeout, memory, repeats)
        owners, self.model, self.scoring, X_test, y_test, classes, self.encoding, told = prepare(
            owners, model, X_test, y_test, scoring=scoring, task=task, encode=encode
        )
        super().__init__(owners)
        self.X_test, self.y_test, self.classes = X_test, y_test, classes
        self.seed, self.backend, self.at_least = check_seed(seed, InvalidGame), backend, at_least
        refuse_drifting(self.model)
        self.scorer = Scorer(self.scoring, X_test, y_test, classes)
        refuse_unable(self.scorer, self.model)
        self.weight_option = weight_option(self.model, weighted=self.owners.weights is not None)
        self.training = replace(training, shift=self.scorer.shift)
        self._makers = [self._maker(repeat) for repeat in range(training.repeats)]
        self.nobody = empty_outcome(empty, self.scorer, self._makers[0])
        self._take_path(fast=fast)
        known = known_chance(self.model)
        said = known if deterministic is None else deterministic
        if deterministic is None and said and is_own_function(self.scoring):
            said = None  # it may draw as well
        self.training = replace(self.training, deterministic=True if self.cheap else said)
        stated = (
            "That training draws nothing at random was stated by who made the game, and not "
            "measured: its standard error of 0 rests on that."
        )
        unproven = deterministic and not self.cheap and not known
        self.notes = (*told, *self._notes(), *([stated] if unproven else []))
        arithmetic = backend.partition(":")[0] if self.path is not None else "numpy"
        made_of = packages_of(self.model, self.scoring, sys.modules.get(arithmetic))
        self.packages = made_of | versions([] if self.encoding is None else ["skrub", "pandas"])
        self._identify(self._describe(fingerprint), on_failure, self.nobody.value)

    def _told(self) -> tuple[str, ...]:
        label = " ".join(repr(self.model).split())
        return f"{label[:80]} by {self.scoring!s}", f"{len(self.y_test):,} test rows"

    def _take_path(self, *, fast: bool) -> None:
        """Take the first fast path that there is: it says how many pools at a time, and of what.

        All of them are arithmetic on arrays of rows that weigh the same. None: each pool is fitted
        by itself.
        """
        plain = self.owners.weights is None and isinstance(self.X_test, np.ndarray)
        paths = (maker(self) for maker in MAKERS if fast and plain)
        self.path = next((path for path in paths if path is not None), None)
        if self.path is not None:
            self.block, self.cheap = self.path.block, self.path.cheap
            self.fractions = self.path.fractions
        elif self.owners.reduced is not None:
            raise InvalidGame(
                f"The owners handed over statistics of {self.owners.reduced[0].kind} instead of "
                f"rows, but {type(self.model).__name__} scored by {self.scoring!r} cannot be "
                "trained from them. Choose a model made of sums (ridge, LDA, naive Bayes), or ask "
                "for the rows."
            )

    def with_owners(self, owners: Owners) -> Self:
        """The same model, test set, encoding and classes over other owners.

        Nothing that decides a training changes, so pools known before keep their values.
        """
        other = super().with_owners(owners)
        if self.classes is not None:
            new = np.setdiff1d(np.concatenate(owners.labels()), self.classes)
            if len(new):
                raise InvalidGame(
                    f"The class {new.tolist()[0]!r} was in nobody's data when the game was made, "
                    "so its scores cannot be compared. Make a new game of all owners."
                )
        other._take_path(fast=self.path is not None)
        if (other.path and other.path.name) != (self.path and self.path.name):
            raise InvalidGame(
                "With these owners the models would be trained by other arithmetic, so that what "
                "was paid could not be reused. Make a new game of all owners."
            )
        other._identify(self._content, self.training.on_failure, self.nobody.value)
        return other

    def _maker(self, repeat: int) -> Fresh:
        return fresh(self.model, self.seed, repeat, repeated=self.training.repeats > 1)

    @property
    def is_endless(self) -> bool:
        """Whether a bad model's score has no lower end, so that a few pools may decide all."""
        name = self.scoring if isinstance(self.scoring, str) else ""
        return (
            name.startswith(("r2", "explained_variance", "d2_", "neg_"))
            and name != "neg_brier_score"
        )

    def prepared(self, X: Rows) -> Rows:
        """A newcomer's rows, encoded as everybody's were; tables in everybody's types."""
        first = self.owners.X[0]
        if not is_table(first):
            if self.encoding is not None:
                return self.encoding(X)
            return X.astype(first.dtype) if {first.dtype.kind, X.dtype.kind} == {"f"} else X
        ordered = as_table(X)[list(first.columns)]
        for name, kind in first.dtypes.items():
            known = getattr(kind, "categories", None)
            if known is not None and not ordered[name].dropna().isin(known).all():
                raise InvalidGame(
                    f"The newcomer has categories in column {name!r} that nobody had when the game "
                    "was made. Make a new game of all owners."
                )
        return ordered.astype(first.dtypes.to_dict()).reset_index(drop=True)

    @property
    def templates(self) -> list[Any]:
        """The unfitted model of each repeat, all its seeds in place."""
        return [make.template for make in self._makers]

    def evaluate(self, queries: Queries, draws: IntArray | None) -> Answers:
        """Train and score every pool; failures raise or are named, as `on_failure` says."""
        if self.path is not None:
            return self._lifted(self.path.answers(queries, draws))
        found = []
        for query, (counts, draw) in zip(queries, self.each(queries, draws), strict=True):
            try:
                trained = self._train(counts, draw, self._makers) if counts.any() else []
                found.append(average([score for score, _ in trained]) if trained else self.nobody)
            except (Exception, SystemExit) as error:
                found.append(self.fail(query, error))
        return self._lifted(Answers.of(found))

    def _lifted(self, found: Answers) -> Answers:
        """Nobody's utility and scores instead of lower ones, where these count at least."""
        nobody, low = self.nobody, found.values < self.nobody.value
        if self.at_least is None or not low.any():
            return found
        values, scores = np.where(low, nobody.value, found.values), found.scores
        if scores is not None:
            coefficients = scores.coefficients.copy()
            if isinstance(self.path, AdditivePath):
                coefficients[low] = self.path.nobody[0]
            else:
                coefficients[low] = nobody.value if nobody.scores is None else nobody.scores
            scores = Scores(coefficients, scores.basis)
        return replace(found, values=values, scores=scores)

    def marginals(self) -> Marginals | None:
        if isinstance(self.path, AdditivePath):
            return self.path.marginals()
        return newton_marginals(self)

    def reseeded(self, seed: int) -> Game:
        return Reseeded(self, seed)

    def _train(
        self,
        counts: IntArray,
        draw: int | None,
        makers: list[Fresh],
        *,
        first: int = 0,
        listen: bool = False,
    ) -> list[tuple[Score, list[Array]]]:
        """Trainings on one pool, the repeats from `first` on; `listen`: with all predictions."""
        X, y = self.pool(counts, draw)
        assert y is not None
        if self.classes is not None and y.ndim == 1 and bool((y == y[0]).all()):
            return [(self.scorer(constant_label(y[0], self.classes)), [])] * len(makers)
        name = self._key(counts.tolist(), draw).hex()
        weights = self.weights(counts, draw)
        options = {} if weights is None else {self.weight_option: weights}
        return [
            train(
                make,
                (X, y) if len(makers) == 1 else (X.copy(), y.copy()),  # models may write into it
                self.scorer,
                seed=whole_number(f"{self.seed} {repeat} {name}", 4),
                seconds=self.training.limits.timeout,
                tables=(self.X_test, X) if listen else (),
                options=options,
            )
            for repeat, make in enumerate(makers, first)
        ]

    def fail(self, query: Array, error: BaseException) -> Outcome:
        """What a pool counts as whose training failed."""
        arrays = self.owners.columns is not None and not is_table(self.X_test)
        empty = self._empty_in(query) if isinstance(error, ValueError) else ""
        hint = (
            " The model was handed arrays of numbers; if it selects or encodes columns itself, "
            "pass encode='none', and it gets the tables."
        )
        return self.failed(query[None], error, empty, hint if arrays else "")[0]

    def _empty_in(self, query: Array) -> str:
        """Which columns have no value in a pool: many models do not take them."""
        from dushapley.games.model.wrappers import empty_columns

        X = joined([self.owners.X[j] for j in np.flatnonzero(query)])
        empty = np.flatnonzero(empty_columns(X))
        if not len(empty):
            return ""
        names = self.owners.columns if self.encoding is None else self.encoding.outputs
        listed = list(map(repr, names)) if names else [str(k + 1) for k in range(X.shape[1])]
        some = ", ".join(listed[k] for k in empty[:3].tolist()) + ", ..." * (len(empty) > 3)
        return (
            f"Of its {'columns' if len(empty) > 1 else 'column'} {some} every cell is missing, "
            "which may be why: leave such columns out, or fill them in the pipeline by a "
            "SimpleImputer that keeps empty features"
        )

    def _key(self, counts: list[int], draw: int | None) -> bytes:
        """As in all games with rows; nobody's pool is known by what it was agreed to be worth."""
        if not any(counts):
            return digest("nobody", self.nobody.value).encode()
        return super()._key(counts, draw)

    def _notes(self) -> tuple[str, ...]:
        """What one must know to read the values; warns of rows that the test set shares."""
        notes = [] if self.path is None else [self.path.note]
        if self.at_least is not None:
            notes.append(LIFTED)
        if self.encoding is not None:
            notes.append("Text and dates were encoded once, on the pooled rows of all owners.")
        if self.classes is not None and self.y_test.ndim == 1:
            unseen = self.y_test[~np.isin(self.y_test, np.concatenate(self.owners.labels()))]
            if len(unseen):
                notes.append(
                    f"{len(unseen)} of {len(self.y_test)} test rows have a class that no owner has "
                    f"({unseen.tolist()[0]!r}, say), which no model here can predict: is it spelt "
                    "as the owners spell it?"
                )
        notes += [*self.owners.notes, *copied_rows(self.owners)]
        for note in tested_rows(self.owners, self.X_test, self.y_test):
            notes.append(note)
            warnings.warn(note, SharedRows, stacklevel=3)
        return tuple(notes)

    def _describe(self, fingerprint: str | None) -> str | None:
        """What must be equal for trainings on equal pools to be interchangeable."""
        try:
            model = describe([self.model, self.scoring])
        except Indescribable:
            if fingerprint is None:
                return None
            model = "given"
        tested = self.X_test, self.y_test, self.classes
        columns = take(self.owners.X[0], slice(0))  # names, types and categories
        return digest(
            "model game",
            model,
            fingerprint,
            *(content_hash(part, None) for part in tested if part is not None),
            None if self.encoding is None else self.encoding.name,
            self.seed,
            self.training.repeats,
            *(("fit", None) if self.path is None else (self.backend, self.path.name)),
            *([] if self.at_least is None else ["at least", self.at_least, self.nobody.value]),
            *([content_hash(columns, None)] if is_table(columns) else []),
            *(["seeds by pool"] if any(make.open_seeds for make in self._makers) else []),
        )


class Reseeded(DerivedGame):
    """A game's pools trained under another seed, each worth a number made of all it predicts.

    Under the game's own seed (0) that number comes behind what the pool is worth.
    """

    def __init__(self, game: ModelGame, seed: int) -> None:
        super().__init__(game, np.eye(game.n_players), game.names)
        self.game, self.seed = game, seed
        self.training = replace(game.training, on_failure="empty")  # a probe tells nothing then

    def evaluate(self, queries: Queries, draws: IntArray | None) -> Answers:
        """Answers to one pool."""
        game, seed = self.game, self.seed
        ((counts, draw),) = game.each(queries, draws)
        voice = Outcome(float("nan"), "no model is trained on a single class")
        try:
            makers = [game._maker(seed)]
            ((score, said),) = game._train(counts, draw, makers, first=seed, listen=True)
            own = average([score])
            if said:
                voice = Outcome(voice_of(score[0], said))
        except (Exception, SystemExit) as error:
            own = voice = Outcome(float("nan"), failure_cause(error))
        return Answers.of([voice] if seed else [*game._lifted(Answers.of([own])), voice])

    def keys(self, queries: Queries, draws: IntArray | None) -> list[bytes]:
        """Keys of their own."""
        return [sha256(f"seed {self.seed} ", key) for key in super().keys(queries, draws)]


def empty_outcome(empty: Any, scorer: Scorer, make: Fresh) -> Outcome:
    """What nobody's data is worth."""
    if empty == "constant":
        found = blind_score(scorer, make) if scorer.black_box is own else best_constant(scorer)
        return average([found])
    if empty == "zero":
        return Outcome(0.0)
    if not is_number(empty) or not np.isfinite(empty):
        raise InvalidGame(
            f"empty is {empty!r}; it must be 'constant', 'zero' or a number, which must be finite."
        )
    return Outcome(float(empty))


def blind_score(scorer: Scorer, make: Fresh) -> Score:
    """A model's own score where it can only predict a constant: all rows are the first test row."""
    y, classes = scorer.target.y, scorer.classes
    blind = Scorer(scorer.black_box, take(scorer.X, np.zeros(len(y), dtype=np.int64)), y, classes)
    try:
        return train(make, (blind.X.copy(), y.copy()), blind, seed=0, seconds=None)[0]
    except Exception as error:
        raise InvalidGame(
            f"The model's own score of a constant prediction cannot be had ({type(error).__name__}:"
            f" {error}), so u(nobody) is unknown. Pass empty= with a number, or 'zero', or name a "
            "scoring=."
        ) from error
