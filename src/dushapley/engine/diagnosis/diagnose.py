"""A diagnosis: its trainings paid and kept apart from the budget, and what follows from them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np

from dushapley.arrays import BoolArray, FloatArray
from dushapley.data.overlap import overlap, row_hashes
from dushapley.data.rows import is_table, take
from dushapley.engine.diagnosis.agreement import mean_part
from dushapley.engine.diagnosis.camps import camps_of, label_shares
from dushapley.engine.diagnosis.difference import (
    MOST_COLUMN_ROWS,
    UNTOLD,
    as_numbers,
    other_units,
)
from dushapley.engine.diagnosis.measures import (
    Labels,
    Measure,
    labels_of_classes,
    labels_of_numbers,
)
from dushapley.engine.diagnosis.models import better_model, tried
from dushapley.engine.diagnosis.probes import MOST_MATRIX, WIDEST, Probes
from dushapley.engine.diagnosis.reasons import Evidence, few_rows, reasons_for, within_one
from dushapley.engine.executors import OutOfTime, make_executor
from dushapley.engine.executors.base import Listed
from dushapley.engine.executors.worker import one_blas_thread
from dushapley.engine.ledger import Ledger
from dushapley.games.base import Answers, Game, Outcome
from dushapley.games.model.folds import FoldsGame
from dushapley.games.model.game import ModelGame
from dushapley.games.rows import RowsGame
from dushapley.games.size.games import SizeGame
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
    if base is None or game.n_players < 2:
        return 0
    probes = Probes(base)
    return sum(_trainings(probes, kind) for kind in range(4) if kind == 2 or probes.model)


def _trainings(probes: Probes, kind: int) -> int:
    """How many trainings all probes of one kind take at most."""
    if kind < 3:
        return len(probes.players[kind])
    folds, others = tried(probes.n_left)
    return folds * (1 + others) if others else 0


def with_rows(game: Game) -> RowsGame | None:
    """The game of rows that is diagnosed; of cross-validation one over all rows of the owners."""
    if isinstance(game, FoldsGame):
        one = game.games[0]
        rows = game.owners if one.encoding is None else one.encoding.encode(game.owners)
        return RowsGame.with_owners(one, rows)
    known = isinstance(game, RowsGame) and game.owners.reduced is None
    return game if known and isinstance(game, RowsGame) else None


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
        found = _Measured(base, game, workers, paid)
        return _diagnosis(found, game, valuation)


class _Measured:
    """All measurements of a game, made in turn; what failed is noted."""

    def __init__(
        self, base: RowsGame | None, game: Game, executor: Any, ledger: Ledger | None
    ) -> None:
        self.base, self.executor, self.ledger = base, executor, ledger
        self.tested = isinstance(base, ModelGame) and not isinstance(game, FoldsGame)
        n = self.n = game.n_players
        self.trainings, self.notes = 0, dict[str, None]()
        self.labels: Labels | None = None
        self.few = few_rows(game.sizes)
        self.alone = np.full((n, 0), np.nan)
        self.usual: list[float] = []
        self.difference = Measure(np.full(n, np.nan), np.full(n, np.nan))
        self.probes = None if base is None or n < 2 else Probes(base)
        self.columns: list[tuple[Column, ...]] = [()] * n
        if base is None or self.probes is None:
            return
        if n > 2:
            self.columns = _columns(base, self.probes)
        left_out = frozenset(i for i, columns in enumerate(self.columns) if columns)
        self.probes = Probes(base, None, left_out)
        if self.probes.model is not None:
            self._labels(self.probes, self.probes.model)
            self.usual = self.ask(3)[0].tolist() if _trainings(self.probes, 3) else []
        self._apart(self.probes)

    def _apart(self, probes: Probes) -> None:
        """How well rows are told apart, by groups of owners."""
        pairs = np.full((self.n, 2), UNTOLD)
        for members, numbers in zip(probes.groups, self.ask(2), strict=True):
            if np.isfinite(numbers).any():
                pairs[members] = numbers[: 2 * len(members)].reshape(-1, 2)
        area, error = np.where(pairs == UNTOLD, np.nan, pairs).T
        self.difference = Measure(area, error, self.few)

    def _labels(self, probes: Probes, model: ModelGame) -> None:
        table = self.ask(0)
        if not table.shape[1]:
            return
        make = labels_of_numbers if model.classes is None else labels_of_classes
        labels = make(table)
        measures = {name: replace(getattr(labels, name), few=self.few)
                    for name in ("disagreement", "wrong")}  # fmt: skip
        self.labels = replace(labels, **measures)
        self.probes = Probes(probes.base, self.labels.tolerance, probes.left_out)
        if model.classes is not None or self.labels.tolerance is not None:
            self.alone = self.ask(1)

    def ask(self, kind: int) -> FloatArray:
        """Numbers of every probe of one kind, one row each; not numbers where there are none."""
        assert self.probes is not None
        players = self.probes.players[kind]
        rows = [self._found(player) for player in players]
        missing = [player for player, row in zip(players, rows, strict=True) if row is None]
        queries = np.eye(self.probes.n_players, dtype=np.bool_)
        blocks = Listed([(queries[[player]], None, None) for player in missing])
        for position, (outcome,) in self.executor.run(self.probes, blocks):
            self._keep(missing[position], outcome)
            rows[players.index(missing[position])] = outcome.scores
        self.trainings += _trainings(self.probes, kind)
        width = max((len(row) for row in rows if row is not None), default=0)
        table = np.full((len(rows), width), np.nan)
        for line, row in zip(table, rows, strict=True):
            line[: 0 if row is None else len(row)] = () if row is None else row
        return table

    def _found(self, player: int) -> FloatArray | None:
        """What the ledger knows of a probe."""
        if self.ledger is None or self.probes is None:
            return None
        first = self.probes.key(player)
        if first not in (known := self.ledger.read([first])):
            return None
        parts = range(-(-int(known[first].value) // WIDEST))
        keys = [self.probes.key(player, k) for k in parts]
        scores = self.ledger.scores(keys)
        return np.concatenate([scores[key] for key in keys]) if len(scores) == len(keys) else None

    def _keep(self, player: int, outcome: Outcome) -> None:
        assert self.probes is not None
        if outcome.scores is None:
            if not (outcome.failure or "").startswith("too few rows"):
                self.notes[f"A measurement failed: {outcome.failure}"] = None
            return
        if self.ledger is None:
            return
        numbers = outcome.scores
        cuts = [numbers[k : k + WIDEST] for k in range(0, len(numbers), WIDEST)]
        for k, cut in reversed(list(enumerate(cuts))):  # the first is looked for, and stands last
            found = Answers.of([Outcome(float(len(numbers)), scores=cut)])
            self.ledger.write([self.probes.key(player, k)], found)


def _diagnosis(found: _Measured, game: Game, valuation: Valuation) -> Diagnosis:
    evidence = _evidence(found, game, valuation)
    base, n = found.base, found.n
    full = len(found.alone.T) == n + 2
    owners = tuple(_owner(found, evidence, i) for i in range(n))
    model = base if isinstance(base, ModelGame) else None
    matrix = None
    if full and model is not None:
        columns = (*game.names, "test set") if found.tested else tuple(game.names)
        cells = [[_number(x) for x in row[1 : 1 + len(columns)]] for row in found.alone.tolist()]
        matrix = Matrix(columns, tuple(map(tuple, cells)))
    task = None
    if model is not None:
        task = "regression" if model.classes is None else "classification"
    notes = [*found.notes]
    if model is not None and found.probes is not None:
        better = better_model(model, found.usual, found.probes.n_left)
        notes += [] if better is None else [better]
    if model is not None and n > MOST_MATRIX:
        notes.append(
            f"Whose model predicts whose labels is kept of up to {MOST_MATRIX} owners, not {n:,}."
        )
    return Diagnosis(task, evidence.target, found.trainings, owners, matrix, (), tuple(notes))


def _evidence(found: _Measured, game: Game, valuation: Valuation) -> Evidence:
    base, n = found.base, found.n
    first, last = _gains(found, game, valuation)
    owners = None if base is None else base.owners
    original = getattr(game, "owners", None)
    untold = "" if owners is not None else NO_ROWS
    if original is not None and original.reduced is not None:
        untold = SUMS
    elif owners is not None and not isinstance(base, ModelGame):
        untold = NO_MODEL
    errors = valuation.total_errors
    return Evidence(
        names=game.names,
        sizes=game.sizes,
        target=None if original is None else original.target,
        classes=getattr(base, "classes", None),
        labels=found.labels,
        difference=found.difference,
        columns=found.columns,
        shared=[()] * n if owners is None else _shared(owners.row_hashes, game.names),
        tested=_tested(found),
        values=valuation.values,
        errors=errors,
        by_size=_by_size(valuation, first, last),
        first_gain=first,
        last_gain=last,
        untold=untold,
        left_out=frozenset() if found.probes is None else found.probes.left_out,
        camps=_camps(found),
        shares=_label_shares(base, found.few),
        agreement=found.alone[:, 1 : n + 1] if found.alone.shape[1] == n + 2 else None,
    )


def _camps(found: _Measured) -> tuple[tuple[int, ...], ...]:
    """Two camps that contradict each other, where there are any."""
    if found.probes is None or found.alone.shape[1] != found.n + 2:
        return ()
    rows = np.array([len(rows) for rows in found.probes.rows], dtype=np.float64)
    return camps_of(found.alone[:, 1 : found.n + 1], rows)


def _label_shares(base: RowsGame | None, few: BoolArray) -> list[Measure]:
    """How common each label is with each owner; nothing of numbers."""
    if not isinstance(base, ModelGame) or base.classes is None:
        return []
    targets = [y for y in base.owners.y if y is not None and y.ndim == 1]
    if len(targets) < base.n_players:
        return []
    return [replace(one, few=few) for one in label_shares(targets, base.classes)]


def _owner(found: _Measured, evidence: Evidence, i: int) -> OwnerDiagnosis:
    labels, difference = found.labels, evidence.difference
    reach = _reach(found)
    measured: dict[str, Any] = {}
    if labels is not None:
        measured |= {
            "disagreement": labels.part(i),
            "usual_disagreement": labels.disagreement.usual(i),
            "wrong": labels.wrong.interval(i, 0.0, 1.0),
            "usual_wrong": within_one(labels.wrong.usual(i)),
        }
    if reach.known[i]:
        measured |= {"reach": reach.interval(i, 0.0, 1.0), "usual_reach": reach.usual(i)}
    return OwnerDiagnosis(
        owner=evidence.names[i],
        reasons=reasons_for(evidence, i),
        difference=difference.interval(i, 0.0, 1.0),
        usual_difference=difference.usual(i),
        columns=evidence.columns[i],
        shared=evidence.shared[i],
        tested=evidence.tested[i],
        by_size=_number(evidence.by_size[i]),
        first_gain=_number(evidence.first_gain[i]),
        last_gain=_number(evidence.last_gain[i]),
        **measured,
    )


def _reach(found: _Measured) -> Measure:
    """How models of single owners do on all others' rows, every owner counting the same."""
    n, nothing = found.n, np.full(found.n, np.nan)
    if found.probes is None or not found.alone.shape[1]:
        return Measure(nothing, nothing)
    if found.alone.shape[1] != n + 2:
        return Measure(found.alone[:, 1], found.alone[:, 2], found.few)
    rows = np.array([len(rows) for rows in found.probes.rows], dtype=np.float64)
    square = found.alone[:, 1 : n + 1]
    pairs = [mean_part(np.delete(square[i], i), np.delete(rows, i)) for i in range(n)]
    means, errors = np.array(pairs).T
    return Measure(means, errors, found.few)


def _gains(found: _Measured, game: Game, valuation: Valuation) -> tuple[FloatArray, FloatArray]:
    """What each adds to nobody's and to all others' data."""
    n = found.n
    whole = found.probes is not None and not found.probes.left_out
    if whole and found.tested and found.labels is not None and found.alone.shape[1]:
        alone, without = found.alone[:, 0], found.labels.score
    elif game.cheap and n <= EXACT_OWNERS:
        eye = np.eye(n, dtype=np.bool_)
        alone, without = game(eye), game(~eye)
    else:
        trail = valuation.details.get("trail") or {}
        ends = (trail.get(name) or [None] * n for name in ("alone", "without"))
        alone, without = (np.array([np.nan if x is None else x for x in end]) for end in ends)
    return alone - valuation.u_empty, valuation.u_full - without


def _by_size(valuation: Valuation, first: FloatArray, last: FloatArray) -> FloatArray:
    """Values if only the number of rows counted: along the curve n/(n + b) that fits the gains."""
    sizes, gain = valuation.sizes, valuation.u_full - valuation.u_empty
    known = np.isfinite(first) & np.isfinite(last)
    total = float(sizes.sum())
    if not known.any() or total <= 0 or len(sizes) < 2:
        return np.full(len(sizes), np.nan)
    rows = np.concatenate([sizes[known], total - sizes[known]])
    worth = np.concatenate([first[known], gain - last[known]])

    def curve(b: float) -> Any:
        return lambda n: gain * (total + b) / total * n / (n + b)

    halves = total * np.logspace(-4, 1.5, 60)
    b = min(halves, key=lambda half: float(np.abs(curve(half)(rows) - worth).sum()))
    by_size = SizeGame(sizes, curve(float(b)))
    solved = by_size.closed_form("exact" if len(sizes) <= EXACT_OWNERS else "du")
    return np.full(len(sizes), np.nan) if solved is None else solved.values


def _columns(base: RowsGame, probes: Probes) -> list[tuple[Column, ...]]:
    """Columns of each owner that look written in other units."""
    X, n = base.owners.X, base.n_players
    each = max(20, MOST_COLUMN_ROWS // n)
    blocks = [as_numbers(take(X[k], probes.rows[k][:each])) for k in range(n)]
    encoding = getattr(base, "encoding", None)
    names = list(base.owners.columns or ()) if encoding is None else list(encoding.outputs)
    if is_table(X[0]):
        names = [str(name) for name in X[0].columns]
    if len(names) != blocks[0].shape[1]:
        names = [f"column {j + 1}" for j in range(blocks[0].shape[1])]
    return [
        other_units(blocks[i], [block for k, block in enumerate(blocks) if k != i], names)
        for i in range(n)
    ]


def _shared(hashes: Sequence[Any], names: Sequence[str]) -> list[tuple[Shared, ...]]:
    """With whom each owner shares more rows than chance explains."""
    found = overlap(hashes)
    lists: list[list[Shared]] = [[] for _ in names]
    for k in np.flatnonzero(found.striking & (found.one != found.other)):
        other, rows = names[int(found.other[k])], int(found.rows[k])
        lists[int(found.one[k])].append(Shared(other, rows, float(found.chance[k])))
    return [tuple(sorted(shared, key=lambda one: -one.rows)) for shared in lists]


def _tested(found: _Measured) -> list[int | None]:
    """Rows of the test set that each owner holds; not where it was made of the owners' own."""
    base = found.base
    if not found.tested or not isinstance(base, ModelGame):
        return [None] * found.n
    test = np.unique(row_hashes(base.X_test, base.y_test))
    return [len(np.intersect1d(test, rows)) for rows in base.owners.row_hashes]


def _number(x: float) -> float | None:
    return float(x) if np.isfinite(x) else None


__all__ = ["OutOfTime", "diagnose", "most_trainings", "with_rows"]
