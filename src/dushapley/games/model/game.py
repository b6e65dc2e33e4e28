"""Any scikit-learn model as a game: what a pool is worth is how well a model trained on it does."""

from __future__ import annotations

import warnings
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from dushapley.arrays import Array, FloatArray, IntArray, Queries
from dushapley.data.owners import Owners, row_sets, rows_of
from dushapley.data.tables import aligned
from dushapley.errors import InvalidGame, SharedRows, UtilityFailed
from dushapley.games.base import Limits, Outcome
from dushapley.games.model.description import Indescribable, describe, package_of
from dushapley.games.model.encoding import Encoding, encoding_pipeline, is_mixed
from dushapley.games.model.paths import FastPath, fast_path
from dushapley.games.model.scoring import Scorer, best_constant, constant_label
from dushapley.games.model.training import (
    Fresh,
    OutOfMemory,
    TimedOut,
    is_deterministic,
    out_of_memory,
    refuse_drifting,
    refuse_impossible_limit,
    refuse_impossible_memory,
    seeded,
    time_limit,
    timed_out,
)
from dushapley.games.rows import RowsGame
from dushapley.hashing import content_hash, digest
from dushapley.validation import check_seed, check_whole, is_number, pool_name

MOST_SCORES = 2048
"""Entries kept of a score that is known test row by test row: at most 16 KB a training."""


class ModelGame(RowsGame):
    r"""u(S) = the score, on a test set, of a model trained on the rows of pool S.

    Parameters
    ----------
    owners
        Whose rows are pooled; they need targets.
    model
        A scikit-learn estimator or pipeline, unfitted. Every `random_state` left open, nested
        ones too, is derived from `seed` and the repeat, and is the same for every pool.
    X_test, y_test
        The test set, which belongs to nobody who is valued.
    scoring
        A score of scikit-learn by name, or ``f(model, X, y) -> number``; higher is better.
    empty
        u(∅). "constant": the score of the best constant prediction on the test set, which needs
        nobody's data. Or "zero", or a number.
    seed
        Of the models; the estimator's seed is `value`'s.
    repeats
        Trainings averaged for every pool; their spread is reported as training noise.
    on_failure
        "raise" `UtilityFailed` when a training fails, or count it as u(∅) with "empty"; the
        count is in the result.
    timeout
        Seconds a single training may take; longer is a failure.
    memory
        Bytes that trainings may take beyond the data itself; more is a failure. With `timeout`
        or `memory`, `value` trains in processes of their own, which it can end.
    encode
        How tables with text or dates become numbers: by one encoding fitted on the pooled rows
        of all owners ("pooled", or one made before), or afresh in every "training".
    backend
        Arithmetic of the fast paths (see `dushapley.games.model.paths`); part of the ledger's key.
    fast
        Whether fast paths may be used; False fits every pool by the model itself.
    fingerprint
        Names the content of a model or scorer that cannot be described (a function written in
        the script itself); needed for a ledger then.

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
    """

    block = 1
    X_test: Array
    y_test: Array

    def __init__(
        self,
        owners: Owners,
        model: Any,
        X_test: ArrayLike,
        y_test: ArrayLike,
        *,
        scoring: Any = "accuracy",
        empty: float | Literal["constant", "zero"] = "constant",
        seed: int = 0,
        repeats: int = 1,
        on_failure: Literal["raise", "empty"] = "raise",
        timeout: float | None = None,
        memory: int | None = None,
        encode: Literal["pooled", "training"] | Encoding = "pooled",
        backend: Literal["numpy", "torch"] = "numpy",
        fast: bool = True,
        fingerprint: str | None = None,
    ) -> None:
        self.encoding, owners, model = prepare(owners, model, encode)
        super().__init__(owners)
        _check_choice("on_failure", on_failure, ("raise", "empty"))
        _check_choice("backend", backend, ("numpy", "torch"))
        refuse_impossible_limit(timeout)
        refuse_impossible_memory(memory)
        self.model, self.scoring, self.seed = model, scoring, check_seed(seed, InvalidGame)
        self.repeats = check_whole(repeats, "repeats")
        self.on_failure, self.timeout, self.backend = on_failure, timeout, backend
        self.limits = Limits(timeout, memory, self.repeats)
        self.X_test, self.y_test = check_test_set(owners, X_test, y_test, self.encoding)
        self.classes = classes_of(model, owners, self.y_test)
        refuse_drifting(model, self.repeats)
        self.deterministic = is_deterministic(model)
        self.scorer = Scorer(scoring, self.X_test, self.y_test, self.classes)
        self.scorer.refuse_unable(model)
        self.nobody = self._empty_outcome(empty)
        self._makers = [Fresh(seeded(model, self.seed, r)) for r in range(self.repeats)]
        self.path: FastPath | None = fast_path(self) if fast else None
        if self.path is not None:
            self.block, self.cheap = self.path.block, self.path.cheap
            self.fractions = self.path.fractions
        elif owners.reduced is not None:
            raise InvalidGame(
                f"The owners handed over statistics of {owners.reduced[0].kind} instead of rows, "
                f"but {type(model).__name__} scored by {scoring!r} cannot be trained from them. "
                "Choose a model made of sums (ridge, LDA, naive Bayes), or ask for the rows."
            )
        self.notes = self._notes()
        self._context = self._describe(fingerprint)
        if self._context is not None:
            self.fingerprint = digest(
                self._context, on_failure, self.nobody.value, *sorted(owners.hashes)
            )

    def with_owners(self, owners: Owners) -> Self:
        """The same model, test set, encoding and classes over other owners.

        Nothing that decides a training changes, so pools known before keep their values.
        """
        other = super().with_owners(owners)
        if self.classes is not None:
            labels = np.unique(np.concatenate([y for y in owners.y if y is not None]))
            new = labels[~np.isin(labels, self.classes)]
            if len(new):
                raise InvalidGame(
                    f"The class {new.tolist()[0]!r} was in nobody's data when the game was made, "
                    "so its scores cannot be compared. Make a new game of all owners."
                )
        other.path = None if self.path is None else fast_path(other)
        if (other.path and other.path.name) != (self.path and self.path.name):
            raise InvalidGame(
                "With these owners the models would be trained by other arithmetic, so that what "
                "was paid could not be reused. Make a new game of all owners."
            )
        if self._context is not None:
            other.fingerprint = digest(
                self._context, self.on_failure, self.nobody.value, *sorted(owners.hashes)
            )
        return other

    def prepared(self, X: Array) -> Array:
        """A newcomer's rows, encoded as everybody's were."""
        return X if self.encoding is None else self.encoding(X)

    @property
    def context(self) -> str | None:
        return self._context

    @property
    def templates(self) -> list[Any]:
        """The unfitted model of each repeat, all its seeds in place."""
        return [make.template for make in self._makers]

    def evaluate(self, queries: Queries, draws: IntArray | None) -> FloatArray:
        if self.path is not None:
            return self.path.values(queries, draws)
        return np.array([outcome.value for outcome in self.outcomes(queries, draws)])

    def outcomes(self, queries: Queries, draws: IntArray | None) -> list[Outcome]:
        """Train and score every pool; failures raise or count as u(∅), as `on_failure` says."""
        if self.path is not None:
            return self.path.outcomes(queries, draws)
        counts = self.counts(queries)
        ids = [None] * len(counts) if draws is None else draws.tolist()
        rows = zip(queries, counts, ids, strict=True)
        return [self.outcome(query, count, draw) for query, count, draw in rows]

    def outcome(self, query: Array, counts: IntArray, draw: int | None) -> Outcome:
        """Train on one pool; fast paths hand over here what they do not take."""
        if not counts.any():
            return self.nobody
        X, y = self.pool(counts, draw)
        try:
            return self._train(X, y)
        except MemoryError as error:
            known = self.limits.memory
            return self._failed(query, error if known is None else out_of_memory(known))
        except (Exception, SystemExit) as error:
            return self._failed(query, error)

    def failed(self, queries: Queries, error: Exception) -> list[Outcome]:
        return [self._failed(query, error) for query in queries]

    def _train(self, X: Array, y: Array | None) -> Outcome:
        assert y is not None
        if self.classes is not None and bool((y == y[0]).all()):
            return average([self.scorer(constant_label(y[0], self.classes))] * self.repeats)
        scored = []
        for make in self._makers:
            own = (X, y) if self.repeats == 1 else (X.copy(), y.copy())  # models may write into it
            with time_limit(self.timeout):
                scored.append(self.scorer(make().fit(*own)))
        return average(scored)

    def _failed(self, query: Array, error: BaseException) -> Outcome:
        cause = f"{type(error).__name__}: {error}"
        if self.on_failure == "raise":
            raise UtilityFailed(
                f"Training on {pool_name(query, self.names)} failed with {cause}. Mend the model "
                "or the data, or pass on_failure='empty' (--on-failure empty) to count such pools "
                f"as u(nobody) = {self.nobody.value:.6g}."
            ) from error
        return Outcome(self.nobody.value, failure_cause(error), self.nobody.scores)

    def recall(self, outcome: Outcome) -> Outcome | None:
        """What a stored outcome is today: failures follow today's policy and time limit."""
        if outcome.failure is None:
            return outcome
        if self.on_failure == "raise" or self._another_limit(outcome.failure):
            return None
        return Outcome(self.nobody.value, outcome.failure, self.nobody.scores)

    def _another_limit(self, failure: str) -> bool:
        """Whether a stored failure is of a limit that is no longer today's."""
        today = [
            None if self.timeout is None else failure_cause(timed_out(self.timeout)),
            None
            if self.limits.memory is None
            else failure_cause(out_of_memory(self.limits.memory)),
        ]
        return failure.startswith((TimedOut.__name__, OutOfMemory.__name__)) and (
            failure not in today
        )

    def _key(self, counts: list[int], draw: int | None) -> bytes:
        """As in all games with rows; nobody's pool is known by what it was agreed to be worth."""
        if not any(counts):
            return digest("nobody", self.nobody.value).encode()
        return super()._key(counts, draw)

    def _empty_outcome(self, empty: Any) -> Outcome:
        if empty == "constant":
            return average([best_constant(self.scorer)])
        if empty == "zero":
            return Outcome(0.0)
        if not is_number(empty) or not np.isfinite(empty):
            raise InvalidGame(
                f"empty is {empty!r}; it is 'constant', 'zero' or a number, which must be finite."
            )
        return Outcome(float(empty))

    def _notes(self) -> tuple[str, ...]:
        """What must be known to read the values; rows also in the test set are warned of."""
        notes = [] if self.path is None else [self.path.note]
        if self.path is not None and self.path.cheap:
            notes.append(
                "Scores of single test rows are not kept on this path, so what another test set "
                "would have said is not part of the errors; fast=False keeps them."
            )
        if self.encoding is not None:
            notes.append("Text and dates were encoded once, on the pooled rows of all owners.")
        notes += unseen_classes(self.owners, self.y_test, self.classes)
        tested = rows_of(self.X_test, self.y_test)
        seen = len(tested & set().union(*row_sets(self.owners)))
        if seen:
            notes.append(
                f"{seen} rows of the test set, targets included, stand in the owners' data as "
                "well: scores on them flatter whoever holds them."
            )
            warnings.warn(notes[-1], SharedRows, stacklevel=3)
        return tuple(notes)

    def _describe(self, fingerprint: str | None) -> str | None:
        """What must be equal for trainings on equal pools to be interchangeable."""
        try:
            told = describe([self.model, self.scoring])
        except Indescribable:
            if fingerprint is None:
                return None
            told = "given"
        return digest(
            "model game",
            told,
            fingerprint,
            package_of(self.model),
            content_hash(self.X_test, None),
            content_hash(self.y_test, None),
            *([] if self.classes is None else [content_hash(self.classes, None)]),
            None if self.encoding is None else self.encoding.name,
            self.seed,
            self.repeats,
            self.backend if self.path is not None else "fit",
            None if self.path is None else self.path.name,
            self.block,
        )


def average(scored: list[tuple[float, FloatArray | None]]) -> Outcome:
    """Mean of repeated trainings, their rows and their spread."""
    values = np.array([value for value, _ in scored])
    rows = [row for _, row in scored if row is not None]
    mean = float(values.mean()) if len(values) > 1 else scored[0][0]
    if not np.isfinite(mean):
        raise ArithmeticError(f"the score is {mean}")
    return Outcome(
        mean,
        scores=grouped(np.mean(rows, axis=0) if len(rows) > 1 else rows[0]) if rows else None,
        spread=float(values.std(ddof=1)) if len(values) > 1 else None,
    )


def grouped(rows: FloatArray) -> FloatArray:
    """Scores of test rows, or of at most `MOST_SCORES` random groups of them.

    A group's entry is m + (n_g·G/n)(m_g − m), m the mean, m_g and n_g mean and rows of the group:
    same mean as the rows, and the mean's standard error is still that of independent entries.
    """
    if len(rows) <= MOST_SCORES:
        return rows
    group = np.random.default_rng(0).permutation(len(rows)) % MOST_SCORES
    mean = rows.mean()
    sums = np.bincount(group, rows - mean, minlength=MOST_SCORES)
    return np.asarray(mean + sums * (MOST_SCORES / len(rows)))


def failure_cause(error: BaseException) -> str:
    """A failure in one line that is equal for equal causes."""
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]


def prepare(owners: Owners, model: Any, encode: Any) -> tuple[Encoding | None, Owners, Any]:
    """Owners and model that understand each other, whatever the tables hold."""
    if not isinstance(encode, Encoding):
        _check_choice("encode", encode, ("pooled", "training"))
    if not is_mixed(owners):
        return None, owners, model
    if encode == "training":
        assert owners.columns is not None
        return None, owners, encoding_pipeline(model, owners.columns)
    encoding = encode if isinstance(encode, Encoding) else Encoding(owners)
    return encoding, encoding.encode(owners), model


def check_test_set(
    owners: Owners, X_test: Any, y_test: ArrayLike, encoding: Encoding | None
) -> tuple[Array, Array]:
    """The test set as arrays that fit the owners' rows."""
    if owners.y[0] is None:
        raise InvalidGame("The owners have no targets; a model needs them: pass {name: (X, y)}.")
    if owners.columns is not None and hasattr(X_test, "columns"):
        X_test = aligned(X_test, owners.columns, "The test table")
    X = np.array(X_test) if encoding is None else encoding(np.asarray(X_test, dtype=object))
    y = np.array(y_test)
    for array in (X, y):  # one test set for all trainings, and the caller's stays as it was
        array.setflags(write=False)
    if X.shape[1:] != owners.X[0].shape[1:]:
        raise InvalidGame(
            f"The test set has rows of shape {X.shape[1:]}, the owners' have "
            f"{owners.X[0].shape[1:]}; both need the same columns."
        )
    if len(X) == 0 or len(X) != len(y):
        raise InvalidGame(
            f"The test set has {len(X)} rows and {len(y)} targets; needed is one each."
        )
    if y.dtype.kind == "f" and not bool(np.isfinite(y).all()):
        raise InvalidGame("The test set has targets that are missing or infinite; drop those rows.")
    return X, y


def classes_of(model: Any, owners: Owners, y_test: Array) -> Array | None:
    """All labels that owners or test set hold, where the model is a classifier."""
    from sklearn.base import is_classifier

    for needed in ("fit", "predict", "get_params", "set_params"):
        if isinstance(model, type) or not callable(getattr(model, needed, None)):
            raise InvalidGame(
                f"Found {model!r} as the model, which has no {needed}(). Pass an unfitted "
                "scikit-learn estimator or pipeline, for example LogisticRegression()."
            )
    if not is_classifier(model):
        return None
    return np.unique(np.concatenate([y_test, *owners.labels()]))


def unseen_classes(owners: Owners, y_test: Array, classes: Array | None) -> list[str]:
    """A note where the test set holds labels that nobody has: no model can predict them."""
    if classes is None:
        return []
    unseen = ~np.isin(y_test, np.unique(np.concatenate(owners.labels())))
    if not unseen.any():
        return []
    return [
        f"{int(unseen.sum())} of {len(y_test)} test rows have a class that no owner has "
        f"({y_test[unseen].tolist()[0]!r}, say), which no model here can predict: is it spelt as "
        "the owners spell it?"
    ]


def _check_choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InvalidGame(f"{name} is {value!r}; choose {' or '.join(map(repr, allowed))}.")
