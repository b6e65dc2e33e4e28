"""Reference estimators: one pool, float64, the obvious way. The fast paths are tested against them.

They are ordinary scikit-learn classifiers and can be used wherever those can. A network of your own
(`TorchModel`) is one, too; it is trained as a stack of one (see `stacked`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from dushapley.arrays import Array, FloatArray, IntArray
from dushapley.errors import InvalidOption
from dushapley.games.model.batched.recipe import Optimizer, Recipe, Steps, softmax
from dushapley.validation import check_choice, is_number

CLASSES, NUMBERS = "classification", "regression"
LOSSES = {"cross_entropy": CLASSES, "mse": NUMBERS, "mae": NUMBERS, "huber": NUMBERS}
"""Losses of networks by name, and the task of each."""


class _GradientModel(BaseEstimator):  # type: ignore[misc]
    """A model that is trained by a recipe; its parameters are those of the recipe, and more."""

    def __init__(
        self,
        steps: int = 20,
        learning_rate: float = 0.5,
        optimizer: Optimizer = "sgd",
        momentum: float = 0.9,
        batch_size: int | None = None,
        l2: float = 0.0,
        random_state: int | None = None,
        classes: ArrayLike | None = None,
        center: ArrayLike | None = None,
        scale: ArrayLike | None = None,
    ) -> None:
        self.steps = steps
        self.learning_rate = learning_rate
        self.optimizer = optimizer
        self.momentum = momentum
        self.batch_size = batch_size
        self.l2 = l2
        self.random_state = random_state
        self.classes = classes
        self.center = center
        self.scale = scale

    def recipe(self) -> Recipe:
        """How this model is trained, checked."""
        shared = self.get_params(deep=False).keys() & {field.name for field in fields(Recipe)}
        return Recipe(seed=self.random_state or 0, **{name: getattr(self, name) for name in shared})


class _GradientClassifier(ClassifierMixin, _GradientModel):  # type: ignore[misc]
    """Reference classifiers: training, step by step, and prediction."""

    def scaled(self, X: ArrayLike) -> FloatArray:
        """Rows as the model sees them: (x − `center`)/`scale`, missing numbers at the centre."""
        rows = np.asarray(X, dtype=np.float64)
        if self.center is not None:
            rows = rows - np.asarray(self.center)
            rows[np.isnan(rows)] = 0.0
        return rows if self.scale is None else rows / np.asarray(self.scale)

    def _checked(self, X: ArrayLike, **more: Any) -> Any:
        holes = "allow-nan" if self.center is not None else True
        return validate_data(self, X, dtype=np.float64, ensure_all_finite=holes, **more)

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train on rows X and labels y; a class that y lacks gets no probability."""
        rows, labels = self._checked(X, y=y)
        recipe = self.recipe()
        self.classes_, codes = coded(np.asarray(labels), self.classes)
        self.present_ = np.bincount(codes, minlength=len(self.classes_)) > 0
        rows = with_intercept(self.scaled(rows))
        targets = np.eye(len(self.classes_))[codes]
        self.weights_ = recipe.initial_weights(rows.shape[1] - 1, list(self.classes_))
        steps = Steps(recipe, self.weights_)
        for batch in batches(recipe, len(rows)):
            steps.take(gradients(self.weights_, rows[batch], targets[batch], self.present_))
        return self

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Probability of each of `classes_`, one row per row of X."""
        check_is_fitted(self)
        rows = with_intercept(self.scaled(self._checked(X, reset=False)))
        return softmax(logits(self.weights_, rows)[-1], self.present_)

    def predict(self, X: ArrayLike) -> Array:
        """The most probable class; the first among equals."""
        masked = np.where(self.present_, self.predict_proba(X), -1.0)
        return self.classes_[masked.argmax(axis=1)]


class SoftmaxRegression(_GradientClassifier):
    r"""Logistic (two classes) or softmax regression after a fixed number of gradient steps.

    From zero weights W, one row per class, each step descends the mean cross-entropy:

    .. math:: G = \tfrac1n (P - Y)^\top X + \lambda W, \quad P = \mathrm{softmax}(X W^\top)

    with rows `X` (an intercept column added), one-hot labels Y and λ = `l2`. Classes that the
    labels lack take no part. The step with momentum μ is Nesterov's:
    :math:`V \leftarrow \mu V + G,\; W \leftarrow W - \eta (G + \mu V)`, η = `learning_rate`.

    Parameters
    ----------
    steps, learning_rate, optimizer, momentum, batch_size, l2
        See `Recipe`. The default rate suits standardised and one-hot columns; `safe_rate` finds
        one for other data.
    random_state
        Seed of whatever is drawn; None is 0.
    classes
        All classes there may be; None: those of the labels.
    center, scale
        Subtracted from the columns, and what they are then divided by: fixed beforehand, so that
        every pool is trained on the same scale. With a centre, missing numbers stand at it.

    Examples
    --------
    >>> from dushapley.games import SoftmaxRegression
    >>> SoftmaxRegression().fit([[-2.0], [-1.0], [1.0]], ["no", "no", "yes"]).predict([[3.0]])
    array(['yes'], dtype='<U3')
    """


class SmallMLP(_GradientClassifier):
    r"""One hidden layer of rectified units under a softmax, after a fixed number of steps.

    :math:`P = \mathrm{softmax}(W_2 \max(0, W_1 x) + b)`; x carries an intercept. Initial weights
    are drawn by `random_state`, so every pool starts from the same network.

    Parameters
    ----------
    hidden
        Number of hidden units.
    steps, learning_rate, optimizer, momentum, batch_size, l2, random_state, classes, center, scale
        As in `SoftmaxRegression`.

    Examples
    --------
    >>> from dushapley.games import SmallMLP
    >>> X, y = [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], [0, 1, 1, 0]
    >>> SmallMLP(hidden=16, steps=200, learning_rate=0.05).fit(X, y).predict(X).tolist()
    [0, 1, 1, 0]
    """

    def __init__(
        self,
        hidden: int = 64,
        steps: int = 100,
        learning_rate: float = 0.001,
        optimizer: Optimizer = "adam",
        momentum: float = 0.9,
        batch_size: int | None = 64,
        l2: float = 0.0,
        random_state: int | None = None,
        classes: ArrayLike | None = None,
        center: ArrayLike | None = None,
        scale: ArrayLike | None = None,
    ) -> None:
        self.hidden = hidden
        super().__init__(
            steps, learning_rate, optimizer, momentum, batch_size, l2, random_state, classes,
            center, scale,
        )  # fmt: skip


class TorchModel(_GradientModel):
    r"""A network of your own, trained on hundreds of pools at once.

    Every pool starts from the same initial weights θ₀ (`make` under the seed) and takes `steps`
    steps on mini-batches of its own rows:

    .. math:: \theta \leftarrow \theta - \eta\, \mathrm{step}\Big(\nabla_\theta \tfrac1b
              \sum_{r \in \text{batch}} \ell(f_\theta(x_r), y_r) + \lambda\theta\Big)

    with ℓ = `loss`, b = `batch_size`, η = `learning_rate`, λ = `weight_decay`. In a `ModelGame`
    the weights of many pools are stacked and trained together (`torch.func.vmap`), on the GPU
    where there is one. Networks that cannot be stacked (dropout, batch normalisation with running
    statistics, whatever `vmap` refuses) are trained one by one, and the result says why.

    Parameters
    ----------
    make
        Function without arguments that returns a new `torch.nn.Module`. It is given rows as
        (batch, columns) float32 and answers (batch, classes) or, for regression, (batch,) or
        (batch, 1). Write it in a module of its own, so that a ledger can compare it.
    loss
        "cross_entropy", "mse", "mae", "huber", or a function of (answers, targets) to the mean
        loss of a batch; targets are whole numbers 0..C−1 for classification.
    task
        "classification" or "regression"; needed for a loss of your own.
    optimizer, steps, batch_size, learning_rate, momentum
        As in `SoftmaxRegression`; `batch_size` rows are drawn with replacement at each step.
    weight_decay
        Penalty on all weights.
    random_state
        Seed of initial weights and batches; None is 0 (a game's seed takes its place).
    classes
        All classes there may be; None: those of the labels.
    device
        "cpu" or "cuda"; None: the GPU where there is one.

    Notes
    -----
    Cost: `steps` · `batch_size` rows a training, whatever the size of the pool.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from dushapley.games import TorchModel
    >>> def make():
    ...     return torch.nn.Sequential(
    ...         torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    >>> X = np.random.default_rng(0).normal(size=(200, 2)); y = X[:, 0] * X[:, 1] > 0
    >>> TorchModel(make, steps=300, learning_rate=0.03).fit(X, y).predict([[1, 1], [-2, 1]])
    array([ True, False])
    """

    def __init__(
        self,
        make: Callable[[], Any],
        loss: str | Callable[[Any, Any], Any] = "cross_entropy",
        *,
        task: str | None = None,
        optimizer: Optimizer = "adam",
        steps: int = 200,
        batch_size: int = 64,
        learning_rate: float = 0.001,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        random_state: int | None = None,
        classes: ArrayLike | None = None,
        device: str | None = None,
    ) -> None:
        self.make = make
        self.loss = loss
        self.task = task
        self.weight_decay = weight_decay
        self.device = device
        super().__init__(
            steps, learning_rate, optimizer, momentum, batch_size,
            random_state=random_state, classes=classes,
        )  # fmt: skip

    @property
    def kind(self) -> str:
        """What it is for: "classification" or "regression"."""
        if self.task is not None:
            check_choice(self.task, "task", (CLASSES, NUMBERS), InvalidOption)
            return self.task
        if isinstance(self.loss, str):
            check_choice(self.loss, "loss", tuple(LOSSES), InvalidOption)
            return LOSSES[self.loss]
        raise InvalidOption(
            "A loss of your own does not say what it is for. Pass task='classification' or "
            "task='regression' with it."
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "classifier" if self.kind == CLASSES else "regressor"
        return tags

    def recipe(self) -> Recipe:
        """How the network is trained, checked."""
        if not callable(self.make):
            raise InvalidOption(
                f"make is a {type(self.make).__name__}; it must be a function without arguments "
                "that returns a new torch.nn.Module, for example a class or `lambda: Net(10)`."
            )
        if self.batch_size is None or not (is_number(self.weight_decay) and self.weight_decay >= 0):
            raise InvalidOption(
                f"Found batch_size={self.batch_size!r}, weight_decay={self.weight_decay!r}; a "
                "network needs a whole number of rows a step, and a penalty of 0 or more."
            )
        return super().recipe()

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train on rows X and targets y; a class that y lacks gets no probability."""
        from dushapley.games.model.batched.stacked import Stack

        rows, wanted = validate_data(self, X, y, dtype=np.float32, y_numeric=self.kind == NUMBERS)
        present = np.ones((1, 1), dtype=np.bool_)
        if self.kind == CLASSES:
            self.classes_, wanted = coded(wanted, self.classes)
            present = np.isin(np.arange(len(self.classes_)), wanted)[None]
        self.stack_ = Stack(self, rows, wanted, most=1)
        positions = self.recipe().batch_positions(np.array([len(rows)]))
        self.trained_ = self.stack_.train(positions, present)
        return self

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Probability of each of `classes_`, one row per row of X."""
        check_is_fitted(self, "trained_")
        rows = validate_data(self, X, dtype=np.float32, reset=False)
        return next(self.stack_.responses(self.trained_, rows))

    def predict(self, X: ArrayLike) -> Array:
        """The most probable class, the first among equals; or the number answered."""
        response = self.predict_proba(X)
        return response if self.kind == NUMBERS else self.classes_[response.argmax(axis=1)]


def coded(y: Array, classes: ArrayLike | None) -> tuple[Array, IntArray]:
    """All classes (None: those of the labels), and the place of each label among them."""
    known = np.unique(y if classes is None else np.asarray(classes))
    codes = np.searchsorted(known, y).clip(max=len(known) - 1)
    if not bool((known[codes] == y).all()):
        raise InvalidOption(
            f"Labels hold {sorted(set(y.tolist()) - set(known.tolist()))[:5]}, which classes= "
            f"lacks. Name every class in classes=, or leave it out."
        )
    return known, codes


def batches(recipe: Recipe, n_rows: int) -> list[IntArray | slice]:
    """Which rows each step looks at."""
    if recipe.batch_size is None:
        return [slice(None)] * recipe.steps
    return list(recipe.batch_positions(n_rows).reshape(recipe.steps, recipe.batch_size))


def with_intercept(X: FloatArray) -> FloatArray:
    return np.hstack([X, np.ones((len(X), 1))])


def logits(weights: list[FloatArray], X: FloatArray) -> list[FloatArray]:
    """Activations layer by layer, the last being the logits; rows are rows."""
    if len(weights) == 1:
        return [X @ weights[0].T]
    hidden = np.maximum(X @ weights[0].T, 0)
    return [hidden, hidden @ weights[1].T + weights[2].T]


def gradients(
    weights: list[FloatArray], X: FloatArray, targets: FloatArray, present: Array
) -> list[FloatArray]:
    """Slope of the mean cross-entropy in every array of weights."""
    *below, scores = logits(weights, X)
    missed = (softmax(scores, present) - targets) / len(X)
    if not below:
        return [missed.T @ X]
    back = (missed @ weights[1]) * (below[0] > 0)
    return [back.T @ X, missed.T @ below[0], missed.sum(axis=0)[:, None]]


def safe_rate(*blocks: ArrayLike) -> float:
    """A learning rate for `SoftmaxRegression` on such rows X: 2 / (largest eigenvalue of X'X/n).

    The curvature of the mean cross-entropy of two classes is at most half that eigenvalue
    (an intercept column included), so this is the largest step that cannot overshoot.
    """
    parts = [with_intercept(np.asarray(block, dtype=np.float64)) for block in blocks]
    n_rows, n_columns = sum(map(len, parts)), parts[0].shape[1]
    if n_rows < n_columns:  # XX' has the same largest eigenvalue
        parts = [np.concatenate(parts).T]
    squares = np.sum([rows.T @ rows for rows in parts], axis=0)
    return float(2 / np.linalg.eigvalsh(squares / n_rows)[-1])
