r"""What another test set would have said, of a scorer of which only the answers are known.

The test rows are put into G groups, the same for every pool, and the scorer is asked again without
each of them (the delete-a-group jackknife). With :math:`u_{(g)}` its answer without group g and n_g
rows in it, the pseudo-value of group g is

.. math:: s_g = u - \frac{G}{n}\,(n - n_g)\,(u_{(g)} - u),

all moved so that their mean is u. The error of their mean is that of u: exactly that of group means
where u is a mean over rows. The model predicts once; the scorer is shown those predictions again.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np

from dushapley.arrays import Array, FloatArray, Rows
from dushapley.data.rows import take

GROUPS = 25
"""Groups of test rows left out in turn: few, since each costs one call of the scorer."""


def pseudo_values(
    scorer: Callable[[Any, Array, Array], float], model: Any, X: Rows, y: Array, value: float
) -> FloatArray | None:
    """Pseudo-values of groups of test rows.

    None where the scorer cannot do without some group, or hangs on one: leaving out others then
    tells nothing of what another test set would say. The scorer is shown a copy of the model whose
    methods answer for parts of the test rows from one answer for all of them; asked for any other
    rows, the model itself answers.
    """
    n = len(y)
    if n < 2 or not np.isfinite(value):
        return None
    groups = min(n, GROUPS)
    member = np.random.default_rng(0).permutation(n) % groups
    shadow, answers = copy(model), dict[str, Any]()

    def answering(name: str) -> Callable[..., Any]:
        def answer(asked: Any, *args: Any, **options: Any) -> Any:
            method = getattr(model, name)
            if asked is not given or args or options:
                return method(asked, *args, **options)
            if name not in answers:
                answers[name] = np.asarray(method(X.copy()))
            return answers[name][rows]

        answer.__name__ = name  # by which scikit-learn tells labels from probabilities
        return answer

    for name in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        if hasattr(model, name):
            setattr(shadow, name, answering(name))
    without = np.empty(groups)
    for group in range(groups):
        rows = np.flatnonzero(member != group)
        given = take(X, rows)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the same as for all rows, which was said
                without[group] = scorer(shadow, given, y[rows])
        except Exception:  # a class without rows, say: what it would have been is unknown
            return None
    size = np.bincount(member)
    moved = (n - size) * (without - value) * (groups / n)
    influence = moved - moved.mean()
    squares = influence**2
    # one group decides the score: beyond 95% of its largest share in the squared influence
    hangs = squares.max() > 0.95 * (1 - 1 / groups) * squares.sum()
    return value - influence if np.isfinite(influence).all() and not hangs else None
