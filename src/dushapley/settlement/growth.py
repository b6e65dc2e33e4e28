"""What more rows of an owner's kind would add to its value, measured.

Nobody has those rows, so everybody is cut to the part f = 1/(1 + `MORE`) of its rows; then an owner
that brings all of its own brings `MORE` more, relatively. Averaged over pools S of the others as
they stand before it in random orders, with D_i^f such a part of owner i's rows D_i,

.. math:: Δ_i = E_S [u(S^f ∪ D_i) − u(S^f ∪ D_i^f)]

is the change of its Shapley value at that scale. Both pools hold the same rows of the others. Cost:
2 `REPLICATES` I evaluations, by the same engine as values: counted, kept, in workers.
"""

from __future__ import annotations

import numpy as np

from dushapley.arrays import AnyDict, AnyMapping
from dushapley.data.files import PathLike
from dushapley.engine.value import Run
from dushapley.estimators.calibration import Moments, final
from dushapley.estimators.method import Method
from dushapley.games import Game
from dushapley.protocol import Ask, Conversation, Problem

MORE = 0.25
"""How many more rows, as a part of an owner's own."""
REPLICATES = 8
"""Random orders in which the owners join; every second one is the reverse of the one before."""


def growth_method(problem: Problem) -> Conversation:
    """Ask pairs of pools that differ by a fifth of one owner's rows."""
    n, part = problem.n_players, 1 / (1 + MORE)
    moments, order = Moments(n), problem.rng.permutation(n)
    for replicate in range(REPLICATES):
        order = order[::-1] if replicate % 2 else problem.rng.permutation(n)
        place = np.argsort(order)
        less = part * (place[None, :] <= place[:, None])  # row i: those before i, and i itself
        more = np.maximum(less, np.eye(n))
        draws = problem.rng.integers(2**62, size=n)
        answers = yield Ask(
            np.concatenate([more, less]), moments.estimate(), draws=np.tile(draws, 2)
        )
        moments.add((answers[:n] - answers[n:])[None, :])
    return final(moments.estimate())


def growth_cost(n_players: int, _options: AnyMapping | None = None) -> int:
    """Evaluations, nobody's and everybody's included."""
    return 2 * REPLICATES * n_players + 2


METHOD = Method(
    name="growth",
    summary="what a quarter more rows of its own would add to each owner's value",
    run=growth_method,
    least=growth_cost,
    default=growth_cost,
    biased=True,  # it is of a smaller collaboration
    needs="fractions",
)


def measure_growth(
    game: Game,
    *,
    seed: int = 0,
    n_jobs: int = 1,
    ledger: PathLike | None = None,
) -> AnyDict:
    """What more rows would add to each owner's value, for the record of a settlement.

    Returns
    -------
    dict
        "more" (part of an owner's rows), "seed", "evaluations", "trainings", and for each owner
        "values" and "std_errors" (of all known sources; None where one is unknown).

    Examples
    --------
    >>> import dushapley as ds
    >>> game = ds.SizeGame([100, 300], w=lambda n: n / (n + 100))
    >>> measured = measure_growth(game)
    >>> measured["evaluations"], [round(v, 3) for v in measured["values"]]
    (34, [0.033, 0.037])
    """
    with Run(game, METHOD, seed=seed, n_jobs=n_jobs, ledger=ledger) as run:
        found = run.pay()
    errors = found.total_errors
    return {
        "more": MORE,
        "seed": seed,
        "evaluations": found.n_evaluations,
        "trainings": found.n_trainings,
        "values": found.values.tolist(),
        "std_errors": None if errors is None else errors.tolist(),
    }
