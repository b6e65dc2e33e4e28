"""A diagnosis: its trainings paid and kept apart from the budget, and what follows from them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from copy import copy
from typing import Any

import numpy as np

from dushapley.arrays import AnyDict, FloatArray, Names
from dushapley.data.overlap import overlap, row_hashes
from dushapley.data.rows import is_table, take
from dushapley.engine.diagnosis.agreement import mean_part, part
from dushapley.engine.diagnosis.difference import (
    MOST_COLUMN_ROWS,
    UNTOLD,
    as_numbers,
    other_units,
)
from dushapley.engine.diagnosis.measures import (
    Labels,
    Measure,
    camps_of,
    label_shares,
    labels_of_classes,
    labels_of_numbers,
)
from dushapley.engine.diagnosis.probes import (
    MOST_MATRIX,
    WIDEST,
    Probes,
    better_model,
    task_of,
)
from dushapley.engine.diagnosis.reasons import Evidence, few_rows, reasons_for, within_one
from dushapley.engine.executors import make_executor
from dushapley.engine.executors.base import Listed
from dushapley.engine.ledger import Ledger
from dushapley.games.base import Answers, Game, Outcome
from dushapley.games.model.folds import FoldsGame
from dushapley.games.model.game import ModelGame
from dushapley.games.rows import RowsGame
from dushapley.games.size.games import SizeGame
from dushapley.processes import one_blas_thread
from dushapley.results.diagnosis import Column, Diagnosis, Matrix, OwnerDiagnosis, Shared
from dushapley.results.valuation import Valuation

SUMS = (
    "Only sums of your rows were handed over: whether labels, units or rows are unlike the "
    "others', and whether rows are shared, cannot be told from them."
)
NO_ROWS = "This game knows no rows, so that nothing about labels, units or rows can be told."
NO_MODEL = "This game trains no model of ours, so that nothing about labels can be told."
EXACT_OWNERS = 200
"""Owners up to which values by size are exact; above, by DU-Shapley's formula."""


def most_trainings(game: Game) -> int:
    """How many trainings a diagnosis takes at most: never more than three an owner.

    One on all others and one on the owner alone; a forest for every 50 owners; and as many as are
    left for the usual models.
    """
    base = with_rows(game)
    return 0 if base is None or game.n_players < 2 else sum(Probes(base).trainings)


def with_rows(game: Game) -> RowsGame | None:
    """The game of rows that is diagnosed; of cross-validation one over all rows of the owners."""
    if isinstance(game, FoldsGame):
        one = game.games[0]
        rows = game.owners if one.encoding is None else one.encoding.encode(game.owners)
        return RowsGame.with_owners(one, rows)
    return game if isinstance(game, RowsGame) and game.owners.reduced is None else None


def diagnose(
    game: Game,
    valuation: Valuation,
    *,
    n_jobs: int = 1,
    executor: str = "local",
    address: Any = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    until: float = float("inf"),
) -> Diagnosis:
    """Measure why each owner's data is worth what it is.

    For every owner: how a model of all others' rows does on its own, how a model of its rows alone
    does on everybody's, and how well a classifier tells its rows from the others'. Beside these,
    without any training: how common each label is, rows shared with others and the test set,
    columns in other units, what its value would be if only the number of rows counted.

    Parameters
    ----------
    game, valuation
        The game, and what it came to.
    n_jobs, executor, address, ledger
        As in `dushapley.value`; the same ledger, which may be open, keeps what is measured.
    until
        When to give up, by `time.monotonic`.

    Returns
    -------
    Diagnosis
        To be handed to `dushapley.settle` and `dushapley.report`.

    Notes
    -----
    Cost: at most three trainings an owner, those of usual models on at most 2,000 rows included,
    apart from the budget of the values. A training that fails leaves its measurement out and is
    noted; nothing is raised for it.

    Examples
    --------
    >>> import numpy as np, dushapley as ds
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(900, 2)); y = (X.sum(axis=1) > 0).astype(int)
    >>> blocks = {f"site {j}": (X[j::9], y[j::9]) for j in range(8)}
    >>> blocks["site 3"] = (X[3::9], 1 - y[3::9])
    >>> game = ds.ModelGame(ds.Owners.from_arrays(blocks), "logistic", X[8::9], y[8::9])
    >>> d = ds.diagnose(game, ds.value(game, budget=20))
    >>> d.of("site 3").reasons[0].code, d.of("site 4").reasons[0].code
    ('target', 'alike')
    """
    base = with_rows(game)
    with ExitStack() as stack, one_blas_thread():
        paid = ledger if isinstance(ledger, Ledger) else None
        if isinstance(ledger, (str, os.PathLike)) and game.context and not game.cheap:
            paid = stack.enter_context(Ledger(ledger, game.context))
        workers = make_executor(executor, n_jobs, address, until)
        stack.callback(workers.close)
        return _diagnosis(_Measured(base, game, workers, paid), game, valuation)


class _Measured:
    """All measurements of a game, made in turn; what failed is noted.

    Attributes
    ----------
    alone
        Scores of models of single owners' rows on the test set.
    square
        How often they predict the labels of each owner, and last of the test set.
    reach
        How they do on all others' rows, every owner counting the same.
    """

    def __init__(
        self, base: RowsGame | None, game: Game, executor: Any, ledger: Ledger | None
    ) -> None:
        self.base, self.executor, self.ledger = base, executor, ledger
        self.model = base if isinstance(base, ModelGame) else None
        self.tested = self.model is not None and not isinstance(game, FoldsGame)
        n = self.n = game.n_players
        self.trainings, self.notes = 0, dict[str, None]()
        self.labels: Labels | None = None
        self.alone: FloatArray | None = None
        self.square: FloatArray | None = None
        self.few, unknown = few_rows(game.sizes), np.full(n, np.nan)
        self.reach = self.difference = Measure(unknown, unknown, self.few)
        self.columns: list[tuple[Column, ...]] = [()] * n
        self.probes = None if base is None or n < 2 else Probes(base)
        if base is None or self.probes is None:
            return
        if n > 2:
            self.columns = _columns(base, self.probes)
        self.probes.left_out = frozenset(i for i, columns in enumerate(self.columns) if columns)
        if self.model is not None:
            self._labels(self.probes, self.model)
            self._usual(self.probes, self.model)
        self._apart(self.probes)

    def _labels(self, probes: Probes, model: ModelGame) -> None:
        """How models of all others do on each owner's rows, and models of single owners."""
        table = self.ask(probes, 0)
        if not table.shape[1]:
            return
        make = labels_of_numbers if model.classes is None else labels_of_classes
        self.labels = make(table, self.few)
        if model.classes is None and self.labels.tolerance is None:
            return
        judging = copy(probes)
        judging.tolerance = self.labels.tolerance
        alone = self.ask(judging, 1)
        if not alone.shape[1]:
            return
        self.alone, reach = alone[:, 0], alone[:, 1:3]
        if alone.shape[1] == self.n + 2:
            self.square, rows = alone[:, 1:], probes.n_rows
            reach = np.array(
                [
                    mean_part(np.delete(row[:-1], i), np.delete(rows, i))
                    for i, row in enumerate(self.square)
                ]
            )
        means, errors = reach.T
        self.reach = Measure(means, errors, self.few)

    def _usual(self, probes: Probes, model: ModelGame) -> None:
        """Whether another of the usual models would do better."""
        if probes.trainings[3]:
            note = better_model(model, self.ask(probes, 3)[0].tolist(), probes.n_left)
            if note is not None:
                self.notes[note] = None

    def _apart(self, probes: Probes) -> None:
        """How well rows are told apart, by groups of owners."""
        pairs = np.full((self.n, 2), UNTOLD)
        for members, numbers in zip(probes.groups, self.ask(probes, 2), strict=True):
            if np.isfinite(numbers).any():
                pairs[members] = numbers[: 2 * len(members)].reshape(-1, 2)
        pairs[pairs == UNTOLD] = np.nan
        area, error = pairs.T
        self.difference = Measure(area, error, self.few)

    def ask(self, probes: Probes, kind: int) -> FloatArray:
        """Numbers of every probe of one kind, one row each; not numbers where there are none."""
        found = {player: self._found(probes, player) for player in probes.players[kind]}
        missing = [player for player, numbers in found.items() if numbers is None]
        queries = np.eye(probes.n_players, dtype=np.bool_)
        blocks = Listed([(queries[[player]], None, None) for player in missing])
        for position, (outcome,) in self.executor.run(probes, blocks):
            player = missing[position]
            found[player] = outcome.scores
            self._keep(probes, player, outcome)
        self.trainings += probes.trainings[kind]
        rows = [np.empty(0) if numbers is None else numbers for numbers in found.values()]
        table = np.full((len(rows), max(map(len, rows))), np.nan)
        for line, numbers in zip(table, rows, strict=True):
            line[: len(numbers)] = numbers
        return table

    def _found(self, probes: Probes, player: int) -> FloatArray | None:
        """What the ledger knows of a probe."""
        if self.ledger is None:
            return None
        first = probes.key(player)
        known = self.ledger.read([first]).get(first)
        if known is None:
            return None
        parts = range(-(-int(known.value) // WIDEST))
        keys = [probes.key(player, k) for k in parts]
        scores = self.ledger.scores(keys)
        return np.concatenate([scores[key] for key in keys]) if len(scores) == len(keys) else None

    def _keep(self, probes: Probes, player: int, outcome: Outcome) -> None:
        """Note a failure, or store numbers a part at a time."""
        if outcome.scores is None:
            if not (outcome.failure or "").startswith("too few rows"):
                self.notes[f"A measurement failed: {outcome.failure}"] = None
        elif self.ledger is not None:
            size = len(outcome.scores)
            for k in reversed(range(-(-size // WIDEST))):  # the first is looked for, so stands last
                numbers = outcome.scores[k * WIDEST : (k + 1) * WIDEST]
                part = Outcome(float(size), scores=numbers)
                self.ledger.write([probes.key(player, k)], Answers.of([part]))


def _diagnosis(found: _Measured, game: Game, valuation: Valuation) -> Diagnosis:
    evidence = _evidence(found, game, valuation)
    matrix, task = None, None if found.model is None else task_of(found.model)
    if found.square is not None:
        columns = (*game.names, "test set") if found.tested else game.names
        shown = found.square[:, : len(columns)].tolist()
        matrix = Matrix(columns, tuple(tuple(map(_number, row)) for row in shown))
    if found.model is not None and found.n > MOST_MATRIX:
        found.notes[
            f"Whose model predicts whose labels is kept of up to {MOST_MATRIX} owners, not "
            f"{found.n:,}."
        ] = None
    owners = tuple(_owner(found, evidence, i) for i in range(found.n))
    return Diagnosis(task, evidence.target, found.trainings, owners, matrix, (), tuple(found.notes))


def _evidence(found: _Measured, game: Game, valuation: Valuation) -> Evidence:
    model, n = found.model, found.n
    first, last = _gains(found, game, valuation)
    owners = None if found.base is None else found.base.owners
    original = getattr(game, "owners", None)
    untold = "" if owners is not None else NO_ROWS
    if original is not None and original.reduced is not None:
        untold = SUMS
    elif owners is not None and model is None:
        untold = NO_MODEL
    classes = None if model is None else model.classes
    agreement = None if found.square is None else found.square[:, :n]
    camps: tuple[tuple[int, ...], ...] = ()
    if found.probes is not None and agreement is not None:
        camps = camps_of(agreement, found.probes.n_rows)
    tested: list[int | None] = [None] * n  # not where the test set was made of the owners' own
    if found.tested and model is not None:
        test = row_hashes(model.X_test, model.y_test)
        tested = [len(np.intersect1d(test, rows)) for rows in model.owners.row_hashes]
    shared: list[tuple[Shared, ...]] = [()] * n
    shares: list[Measure] = []
    if owners is not None:
        shared = _shared(owners.row_hashes, game.names)
        shares = label_shares(owners.y, classes, found.few)
    return Evidence(
        names=game.names,
        sizes=game.sizes,
        target=None if original is None else original.target,
        classes=classes,
        labels=found.labels,
        difference=found.difference,
        columns=found.columns,
        shared=shared,
        tested=tested,
        values=valuation.values,
        errors=valuation.total_errors,
        by_size=_by_size(valuation, first, last),
        first_gain=first,
        last_gain=last,
        untold=untold,
        left_out=frozenset() if found.probes is None else found.probes.left_out,
        camps=camps,
        shares=shares,
        agreement=agreement,
    )


def _owner(found: _Measured, evidence: Evidence, i: int) -> OwnerDiagnosis:
    labels, difference, reach = found.labels, found.difference, found.reach
    measured: AnyDict = {}
    if labels is not None:
        off, wrong = labels.disagreement, labels.wrong
        measured = {
            "disagreement": part(off.values[i], labels.rows[i]),
            "usual_disagreement": off.usual(i),
            "wrong": wrong.interval(i),
            "usual_wrong": within_one(wrong.usual(i)),
        }
    if reach.known[i]:
        measured |= {"reach": reach.interval(i), "usual_reach": reach.usual(i)}
    return OwnerDiagnosis(
        owner=evidence.names[i],
        reasons=reasons_for(evidence, i),
        difference=difference.interval(i),
        usual_difference=difference.usual(i),
        columns=evidence.columns[i],
        shared=evidence.shared[i],
        tested=evidence.tested[i],
        by_size=_number(evidence.by_size[i]),
        first_gain=_number(evidence.first_gain[i]),
        last_gain=_number(evidence.last_gain[i]),
        **measured,
    )


def _gains(found: _Measured, game: Game, valuation: Valuation) -> tuple[FloatArray, FloatArray]:
    """What each adds to nobody's and to all others' data."""
    n = found.n
    whole = found.probes is not None and not found.probes.left_out
    if whole and found.tested and found.labels is not None and found.alone is not None:
        alone, without = found.alone, found.labels.score
    elif game.cheap and n <= EXACT_OWNERS:
        eye = np.eye(n, dtype=np.bool_)
        alone, without = game(eye), game(~eye)
    else:
        trail, unknown = valuation.details.get("trail") or {}, [None] * n
        alone = np.array(trail.get("alone") or unknown, dtype=np.float64)
        without = np.array(trail.get("without") or unknown, dtype=np.float64)
    return alone - valuation.u_empty, valuation.u_full - without


def _by_size(valuation: Valuation, first: FloatArray, last: FloatArray) -> FloatArray:
    """Values if only the number of rows counted: along the curve n/(n + b) that fits the gains."""
    sizes, gain = valuation.sizes, valuation.u_full - valuation.u_empty
    known = np.isfinite(first) & np.isfinite(last)
    total, untold = float(sizes.sum()), np.full(len(sizes), np.nan)
    if not known.any() or total <= 0 or len(sizes) < 2:
        return untold
    rows = np.concatenate([sizes[known], total - sizes[known]])
    worth = np.concatenate([first[known], gain - last[known]])

    def curve(b: float) -> Any:
        return lambda n: gain * (total + b) / total * n / (n + b)

    def missed(b: float) -> float:
        return float(np.abs(curve(b)(rows) - worth).sum())

    half = min(total * np.logspace(-4, 1.5, 60), key=missed)
    solved = SizeGame(sizes, curve(float(half))).closed_form(
        "exact" if len(sizes) <= EXACT_OWNERS else "du"
    )
    return untold if solved is None else solved.values


def _columns(base: RowsGame, probes: Probes) -> list[tuple[Column, ...]]:
    """Columns of each owner that look written in other units."""
    X, n = base.owners.X, base.n_players
    each = max(20, MOST_COLUMN_ROWS // n)
    blocks = [as_numbers(take(X[k], probes.rows[k][:each])) for k in range(n)]
    encoding = getattr(base, "encoding", None)
    names = list(base.owners.columns or ()) if encoding is None else list(encoding.outputs)
    if is_table(X[0]):
        names = [str(name) for name in X[0].columns]
    width = blocks[0].shape[1]
    if len(names) != width:
        names = [f"column {j + 1}" for j in range(width)]
    return [other_units(own, blocks[:i] + blocks[i + 1 :], names) for i, own in enumerate(blocks)]


def _shared(hashes: Sequence[Any], names: Names) -> list[tuple[Shared, ...]]:
    """With whom each owner shares more rows than chance explains."""
    found = overlap(hashes)
    lists: list[list[Shared]] = [[] for _ in names]
    for k in np.flatnonzero(found.striking & (found.one != found.other)):
        other, rows = names[int(found.other[k])], int(found.rows[k])
        shared = Shared(other, rows, float(found.chance[k]))
        lists[int(found.one[k])].append(shared)
    return [tuple(sorted(some, key=lambda one: -one.rows)) for some in lists]


def _number(x: float) -> float | None:
    return float(x) if np.isfinite(x) else None
