"""Error bars are whole: one total for wishes, displays and ranks, or the word unknown."""

from __future__ import annotations

import re

import numpy as np
import pytest
from rich.cells import cell_len

import dushapley as ds
from dushapley.engine.progress import Progress, Watch
from dushapley.engine.value import Run
from dushapley.errors import Stopped
from dushapley.estimators import calibration
from dushapley.games import Answers, Game, Scores, Training, classic
from dushapley.protocol import Estimate
from dushapley.results import uncertainty


def test_there_is_one_1_96():
    assert calibration.NORMAL == uncertainty.NORMAL_95 == 1.96


def test_stratified_svarm_has_errors_or_says_why_not():
    game = classic.airport(np.arange(1.0, 11))
    results = [ds.value(game, "stratified-svarm", seed=seed) for seed in range(40)]
    blind = [v for v in results if v.std_errors is None]  # it was 12, without a word
    assert len(blind) <= 2
    assert all(any("a larger budget" in note for note in v.notes) for v in blind)
    least = ds.value(ds.games.airport(np.arange(1.0, 8)), "svarm", budget=16)
    assert least.std_errors is not None or any("larger budget" in note for note in least.notes)


@pytest.mark.parametrize("method", ["svarm", "stratified-svarm"])
def test_pairs_of_svarm_are_covered_by_a_covariance(method):
    game = classic.glove(4, 4)
    truth, covered = game.shapley_values, []
    pairs = np.triu_indices(8, 1)
    for seed in range(60):
        v = ds.value(game, method, budget=300, seed=seed)
        joint = v.total_covariance
        own = np.diag(joint)
        error = np.sqrt(np.maximum(own[:, None] + own - 2 * joint, 0))
        off = np.abs((v.values[:, None] - v.values) - (truth[:, None] - truth))
        covered.append((off <= 1.96 * error)[pairs].mean())
        assert not v.is_apart
    assert 0.92 <= np.mean(covered) <= 0.98  # svarm covered .996 when taken as independent


def test_values_that_do_not_add_up_say_so():
    rng = np.random.default_rng(0)
    game = ds.CallableGame(lambda z: np.sin(z @ np.arange(30)), 30, cheap=True)
    v = ds.value(game, "stratified-svarm", budget=300, seed=int(rng.integers(9)))
    assert abs(v.efficiency_gap) > 0.1 * abs(v.u_full - v.u_empty)
    assert any("add up to" in note and "is due" in note for note in v.notes)
    assert not any("is due" in note for note in ds.value(game, "permutation", budget=300).notes)


def test_owen_covers_where_few_shared_coalitions_agree():
    game = classic.glove(20, 20)
    hits = [
        (np.abs(v.values - game.shapley_values) <= 1.96 * v.std_errors).mean()
        for v in (
            ds.value(game, "owen", budget=2 + 41 * t, seed=s) for t in (2, 3) for s in range(40)
        )
    ]
    assert np.mean(hits) >= 0.93  # it was .79: all gains of two or three coalitions agreed


class Judged(Game):
    """Utilities that are means over test rows, whose noise is shared by all pools of an owner."""

    def __init__(self, n_players=6, rows=400, noise=1.0, deterministic=True, stop_after=None):
        self._set_owners(np.arange(1.0, n_players + 1))
        rng = np.random.default_rng(3)
        self.by_owner = self.sizes + noise * rng.normal(size=(rows, n_players))
        self.training = Training(deterministic=deterministic, shift=0.0)
        self.stop_after, self.asked = stop_after, 0

    def evaluate(self, queries, draws):
        self.asked += len(queries)
        if self.stop_after is not None and self.asked > self.stop_after:
            raise KeyboardInterrupt
        sums = queries @ self.by_owner.T
        rows = sums + 0.1 * sums**2
        return Answers(rows.mean(axis=1), Scores(rows))


def part(v, errors):
    return 1.96 * np.max(errors) / np.ptp(v.values)


def test_precision_counts_the_total():
    wish = 0.16
    v = ds.value(Judged(rows=60), "permutation", budget=20_000, precision=wish)
    assert part(v, v.errors["test set"]) > 0.05
    assert v.n_evaluations < 20_000
    assert part(v, v.total_errors) <= wish  # it stopped when sampling alone was
    assert not any("precision" in note for note in v.notes)


@pytest.mark.parametrize("method", ["permutation", "gp"])
def test_a_wish_below_what_evaluations_remove_ends_at_once(method):
    v = ds.value(Judged(10, rows=30, noise=3.0), method, budget=400, precision=0.001)
    assert v.n_evaluations <= 200  # it paid for all of them
    assert v.complete
    note = next(note for note in v.notes if "out of reach" in note)
    assert "more test rows would" in note
    again = ds.value(Judged(10, rows=30, noise=3.0), method, budget=400, precision=0.001)
    assert again.to_json() == v.to_json()


def test_a_wish_that_cannot_be_judged_ends_at_once():
    v = ds.value(Judged(deterministic=False), "permutation", budget=30_000, precision=0.1)
    assert v.n_evaluations <= 200
    assert any("cannot be judged" in note and "repeats=3" in note for note in v.notes)
    for method in ("exact", "gp"):  # which asks all of them where it may
        exact = ds.value(Judged(4, rows=30), method, budget=16, precision=0.0001)
        assert exact.unknown == ()
        assert any("out of reach" in note for note in exact.notes)


def test_the_live_display_shows_the_total():
    told: list[str] = []

    class Bar:
        def update(self, _task, description):
            told.append(description)

    bar, estimate = Progress(10, show=False), Estimate(np.array([1.0, 2]), np.array([0.1, 0.1]))
    bar._bar, bar._task = Bar(), 0
    watch = Watch(errors=lambda _: {"training": [0.0, 0.0], "test set": [0.3, 0.4]})
    assert watch.look(10, estimate)
    assert not watch.look(12, estimate)
    bar.show_leaders(estimate, ["a", "b"], watch)
    watch.unknown = ("training",)
    bar.show_leaders(estimate, ["a", "b"], watch)
    assert told == ["b 2±0.8, a 1±0.6", "b 2± unknown, a 1± unknown"]


def test_a_narrow_terminal_keeps_the_time_left_and_a_resume_counts_what_is_paid(monkeypatch):
    from io import StringIO

    import rich.console

    screen = rich.console.Console(file=StringIO(), width=80, force_terminal=True, color_system=None)
    monkeypatch.setattr(rich.console, "Console", lambda **_: screen)
    names = ["Universitätsklinikum Nord", "北京大学第一医院北京大学第一医院", "Lyon"]
    estimate = Estimate(np.array([1.0, 2, 3]), np.full(3, 0.1))
    with Progress(100, show=True) as bar:
        bar.advance(90, found=True)
        task = bar._bar.tasks[0]
        assert (task.completed, task.fields["left"]) == (90, "-:--:--")
        bar._began -= 50.0
        bar.advance(5)  # 10 s each, and five are left
        assert (task.completed, task.fields["left"]) == (95, "0:00:50")
        bar.show_leaders(estimate, names, Watch())
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "\n", screen.file.getvalue()).splitlines()
    last = [line for line in lines if "evaluations" in line][-1]
    assert "95/100 evaluations, " in last
    assert "0:00:50 left" in last
    assert "Lyon 3" in last
    assert max(map(cell_len, lines)) <= 80


def test_a_stopped_run_holds_no_conversation_again(monkeypatch):
    held = []
    converse = Run.converse
    monkeypatch.setattr(Run, "converse", lambda run: held.append(1) or converse(run))
    with pytest.raises(Stopped) as stopped:
        ds.value(Judged(stop_after=60), "stratified-svarm", budget=5000)
    assert len(held) == 1  # it was 101
    v = stopped.value.valuation
    assert v.unknown == ("test set",)
    assert v.total_errors is None
    for method in ("permutation", "gp"):  # whose weights are known
        with pytest.raises(Stopped) as stopped:
            ds.value(Judged(8, stop_after=60), method, budget=200)
        assert stopped.value.valuation.total_errors is not None


def shown(values, std_errors, **fields):
    n = len(values)
    owners = tuple(f"o{i}" for i in range(n))
    known = {"n_evaluations": 9, "n_distinct": 9, "n_computed": 9, "u_empty": 0.0, "seed": 0}
    return ds.Valuation(
        owners, np.ones(n), values, std_errors, "gp", u_full=float(np.sum(values)), **known | fields
    )


def test_certainty_is_in_words_of_money_and_one_bad_owner_does_not_help_it():
    values, errors = np.array([1.0, 1, 0.5, -9]), np.array([0.1, 0.1, 0.15, 0.1])
    v = shown(values, errors, covariance=np.diag(errors**2))
    check = next(c for c in ds.report.summarize(v)["checks"] if c["name"] == "Error")
    assert check["state"] == "look"  # ±2% of the spread was ticked
    assert check["text"].startswith("Values are known to ±27% (the smallest to ±59%)")
    paid = ds.settle(v, 100, currency="EUR")
    assert "payments known to ±" in repr(paid)
    assert "(the smallest to ±" in ds.report.text_table(v, ds.report.summarize(v, paid), paid)
    check = next(c for c in ds.report.summarize(v, paid)["checks"] if c["name"] == "Error")
    assert check["text"].startswith("Payments known to ±")


def test_an_unknown_part_stands_in_the_numbers_place():
    errors = {"sampling": [0.1, 0.1], "training": [0.0, 0.0], "test set": None, "total": None,
              "dominant": "sampling", "unknown": ["test set"]}  # fmt: skip
    v = shown(np.array([2.0, 1.0]), np.array([0.1, 0.1]), errors=errors)
    assert "± unknown: test set" in repr(v)
    assert "unknown" in repr(v).splitlines()[2]
    assert v.to_frame()["std_error"].isna().all()
    assert v.to_frame()["unknown"].tolist() == ["test set"] * 2
    summary = ds.report.summarize(v)
    assert [row["error_text"] for row in summary["rows"]] == ["unknown"] * 2
    assert [row["rank_range"] for row in summary["rows"]] == [None] * 2
    check = next(c for c in summary["checks"] if c["name"] == "Error")
    assert check["state"] == "unknown"
    assert "unknown: test set" in ds.report.text_table(v, summary)
    assert "± unknown" in ds.report.report(v)
    assert "± unknown" in ds.report.owner_page(v, "o1")
    assert "unknown: test set" in repr(ds.settle(v, 10))
    blind = ds.report.summarize(ds.value(classic.airport([1, 2, 4]), "loo"))["checks"][0]
    assert "larger budget" not in blind["text"]


def test_errors_have_their_own_decimals_and_ties_one_rank():
    v = shown(np.array([5.0, 3.0, 3.0 + 1e-15, 1.0]), np.full(4, 1e-5))
    assert "0.000020" in repr(v)
    assert v.places.tolist() == [1, 2, 2, 4]
    assert v.order.tolist() == [0, 1, 2, 3]
    assert v.to_frame()["rank"].tolist() == [1, 2, 2, 4]
    assert [row["rank"] for row in ds.report.summarize(v)["rows"]] == [1, 2, 2, 4]
