"""Anybody's network as a model: a `torch.nn.Module`, trained by a fixed number of steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from dushapley.arrays import Array, FloatArray
from dushapley.errors import InvalidOption
from dushapley.games.model.batched.recipe import Optimizer, Recipe
from dushapley.validation import check_choice, is_number

LOSSES = {
    "cross_entropy": "classification",
    "mse": "regression",
    "mae": "regression",
    "huber": "regression",
}
"""Losses by name, and what each is for."""


class TorchModel(BaseEstimator):  # type: ignore[misc]
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
        self.optimizer = optimizer
        self.steps = steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.random_state = random_state
        self.classes = classes
        self.device = device

    @property
    def kind(self) -> str:
        """What it is for: "classification" or "regression"."""
        if self.task is not None:
            check_choice(self.task, "task", ("classification", "regression"), InvalidOption)
            return self.task
        if isinstance(self.loss, str):
            check_choice(self.loss, "loss", tuple(LOSSES), InvalidOption)
            return LOSSES[self.loss]
        raise InvalidOption(
            "A loss of your own does not say what it is for. Pass task='classification' or "
            "task='regression' with it."
        )

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, RegressorTags

        tags = super().__sklearn_tags__()
        if self.kind == "classification":
            tags.estimator_type, tags.classifier_tags = "classifier", ClassifierTags()
        else:
            tags.estimator_type, tags.regressor_tags = "regressor", RegressorTags()
        tags.target_tags.required = True
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
        return Recipe(
            steps=self.steps,
            learning_rate=self.learning_rate,
            optimizer=self.optimizer,
            momentum=self.momentum,
            batch_size=self.batch_size,
            seed=self.random_state or 0,
        )

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train on rows X and targets y; a class that y lacks gets no probability."""
        from dushapley.games.model.batched.stacked import Stack

        rows, wanted = validate_data(self, X, y, dtype=np.float32, y_numeric=self.kind != CLASSES)
        present = None
        if self.kind == CLASSES:
            known = np.unique(wanted if self.classes is None else np.asarray(self.classes))
            codes = np.searchsorted(known, wanted)
            self.classes_, wanted = known, codes
            present = np.isin(np.arange(len(known)), codes)[None]
        stack = Stack(self, rows, wanted, most=1)
        positions = self.recipe().batch_positions(np.array([len(rows)]))
        self.trained_ = stack.train(positions, present)
        return self

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Probability of each of `classes_`, one row per row of X."""
        if self.kind != CLASSES:
            raise AttributeError("A network for regression has no predict_proba.")
        return np.asarray(self._respond(X))

    def predict(self, X: ArrayLike) -> Array:
        """The most probable class, the first among equals; or the number answered."""
        response = self._respond(X)
        if self.kind != CLASSES:
            return response
        return np.asarray(self.classes_[response.argmax(axis=1)])

    def _respond(self, X: ArrayLike) -> FloatArray:
        check_is_fitted(self, "trained_")
        rows = validate_data(self, X, dtype=np.float32, reset=False)
        return next(iter(self.trained_.responses(rows)))


CLASSES = "classification"
