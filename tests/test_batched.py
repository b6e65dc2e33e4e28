"""Pools trained together against the plain estimators, and their independence of company."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

import dushapley as ds
from dushapley.errors import InvalidOption
from dushapley.games.model.batched import path
from dushapley.games.model.batched.arithmetic import arithmetic
from dushapley.games.model.batched.path import MEMORY, BatchedPath
from dushapley.games.model.batched.program import Judge, Program
from dushapley.games.model.batched.recipe import Recipe, Steps, memberships
from dushapley.games.model.batched.reference import SmallMLP, SoftmaxRegression, safe_rate
from dushapley.games.rows import blocks
from extras import needs

SIZES = np.array([1, 7, 12, 5, 30, 18])
FEATURES = 5
EVERY = (np.arange(64)[:, None] >> np.arange(6)) & 1 == 1


def rows_of(owner, count, draw):
    if count == SIZES[owner]:
        return slice(None)
    return np.sort(
        np.random.default_rng([owner, count, draw]).choice(SIZES[owner], count, replace=False)
    )


class Pools:
    """Random pools of six owners: nobody, one row, one class, lacking classes, parts of owners."""

    def __init__(self, n_classes, seed=0):
        rng = np.random.default_rng(seed)
        self.n_classes = n_classes
        self.X = [rng.standard_normal((n, FEATURES)) for n in SIZES]
        self.y = [rng.integers(0, n_classes, n) for n in SIZES]
        self.y[3] = np.full(SIZES[3], n_classes - 1)  # one class
        self.y[1] = rng.integers(0, 2, SIZES[1])  # lacks the others
        self.order = rng.permutation(len(SIZES)).tolist()
        shares = rng.random((44, len(SIZES)))
        shares[:24] = shares[:24] > 0.5
        shares[:5] = [[0] * 6, [1, 0, 0, 0, 0, 0], [0, 0, 0, 1, 0, 0], [0, 1, 0, 0, 0, 0], [1] * 6]
        self.counts = np.rint(shares * SIZES).astype(int)
        self.draws = rng.integers(0, 5, len(shares))
        self.X_test = rng.standard_normal((80, FEATURES))
        self.y_test = rng.integers(0, n_classes, 80)

    def judge(self, recipe, numbers):
        program = Program(recipe, self.X, self.y, range(self.n_classes), numbers, self.order)
        return Judge(program, self.X_test, self.y_test)

    def train(self, program, which=slice(None)):
        counts, draws = self.counts[which], self.draws[which]
        held = memberships(counts, SIZES, draws, rows_of, self.order)
        return program.train(len(counts), held)

    def rows(self, pool):
        parts = [
            (j, rows_of(j, self.counts[pool, j], self.draws[pool]))
            for j in self.order
            if self.counts[pool, j]
        ]
        return (
            np.concatenate([self.X[j][r] for j, r in parts]),
            np.concatenate([self.y[j][r] for j, r in parts]),
        )


def reference(recipe, n_classes):
    options = {
        name: getattr(recipe, name)
        for name in ("steps", "learning_rate", "optimizer", "momentum", "batch_size", "l2")
    }
    options |= {"random_state": recipe.seed, "classes": range(n_classes)}
    if recipe.hidden:
        return SmallMLP(hidden=recipe.hidden, **options)
    return SoftmaxRegression(**options)


def weights_of(program, trained, pool):
    """Weights of one pool without the columns that only fill up."""
    first, *others = (program.numbers.to_numpy(w[pool]) for w in trained.weights)
    assert not first[:, FEATURES + 1 :].any()
    return [first[:, : FEATURES + 1], *others]


RECIPES = [
    Recipe(l2=0.01),
    Recipe(momentum=0.0),
    Recipe(optimizer="adam", learning_rate=0.05),
    Recipe(batch_size=16, l2=0.01, seed=3),
    Recipe(batch_size=16, optimizer="adam", learning_rate=0.05),
    Recipe(hidden=8, learning_rate=0.1, l2=0.01),
    Recipe(hidden=8, optimizer="adam", learning_rate=0.01),
    Recipe(hidden=8, optimizer="adam", learning_rate=0.01, batch_size=16, seed=3),
]


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("recipe", RECIPES)
def test_every_pool_equals_the_plain_estimator(recipe, n_classes, backend):
    if backend == "torch":
        needs("torch")
    pools = Pools(n_classes)
    double = pools.judge(recipe, arithmetic("numpy", "float64"))
    single = pools.judge(
        recipe, arithmetic(backend, device="cpu") if backend == "torch" else arithmetic()
    )
    exact, fast = pools.train(double.program), pools.train(single.program)
    accuracy, probabilities = single.accuracy(fast), single.probabilities(fast)
    for pool in np.flatnonzero(pools.counts.any(axis=1)):
        plain = reference(recipe, n_classes).fit(*pools.rows(pool))
        for trained, program, tolerance in (
            (exact, double.program, 1e-9),
            (fast, single.program, 1e-4),
        ):
            found = weights_of(program, trained, pool)
            if program.sign_only:
                if not trained.present[pool].all():
                    continue  # one class: a constant whatever its weights
                wanted = [plain.weights_[0][1:]]
            else:
                wanted = plain.weights_
            for mine, theirs in zip(found, wanted, strict=True):
                np.testing.assert_allclose(mine, theirs, rtol=0, atol=tolerance)
        theirs = plain.predict_proba(pools.X_test)
        np.testing.assert_allclose(probabilities[pool], theirs, rtol=0, atol=1e-4)
        top = np.sort(theirs, axis=1)
        ties = (top[:, -1] - top[:, -2] < 2e-4).mean()
        right = (plain.predict(pools.X_test) == pools.y_test).mean()
        assert abs(accuracy[pool] - right) <= ties


@pytest.mark.parametrize("recipe", [RECIPES[0], RECIPES[3], RECIPES[5], RECIPES[7]])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_no_bit_depends_on_company(recipe, n_classes, backend):
    if backend == "torch":
        needs("torch")
    pools = Pools(n_classes)
    judge = pools.judge(recipe, arithmetic(backend))
    everybody = pools.train(judge.program)
    scores = judge.probabilities(everybody)
    shuffled = np.random.default_rng(1).permutation(len(pools.counts))
    for which in (shuffled, shuffled[:7], [5], [30, 4]):
        trained = pools.train(judge.program, which)
        for some, all_ in zip(trained.weights, everybody.weights, strict=True):
            mine, theirs = (judge.numbers.to_numpy(w) for w in (some, all_))
            np.testing.assert_array_equal(mine, theirs[which])
        np.testing.assert_array_equal(judge.probabilities(trained), scores[which])


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_steps_are_those_of_torch(optimizer):
    torch = needs("torch")
    recipe = Recipe(optimizer=optimizer, learning_rate=0.1, momentum=0.9)
    rng = np.random.default_rng(0)
    mine = rng.standard_normal((3, 4))
    theirs = torch.tensor(mine.copy(), requires_grad=True)
    more = {"momentum": 0.9, "nesterov": True} if optimizer == "sgd" else {}
    other = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[optimizer]([theirs], lr=0.1, **more)
    steps = Steps(recipe, [mine])
    for _ in range(20):
        slope = rng.standard_normal((3, 4))
        theirs.grad = torch.tensor(slope.copy())
        other.step()
        steps.take([slope])
    np.testing.assert_allclose(mine, theirs.detach().numpy(), rtol=1e-12)


def test_rows_cut_into_pieces_give_the_same_model():
    pools = Pools(3)
    whole = pools.judge(Recipe(), arithmetic("numpy", "float64"))
    cut = pools.judge(Recipe(), replace(arithmetic("numpy", "float64"), piece=4, align=8))
    a, b = pools.train(whole.program), pools.train(cut.program)
    np.testing.assert_allclose(b.weights[0][..., : FEATURES + 1], a.weights[0], atol=1e-12)
    np.testing.assert_array_equal(b.weights[0][..., FEATURES + 1 :], 0)


def test_half_precision_stays_near():
    needs("torch")
    pools = Pools(2)
    exact = pools.train(pools.judge(Recipe(), arithmetic("numpy", "float64")).program)
    half = pools.train(pools.judge(Recipe(), arithmetic("torch", "float16", "cpu")).program)
    seen = exact.present.all(axis=1)
    found = half.weights[0].numpy()[:, :, : FEATURES + 1]
    error = np.abs(found - exact.weights[0])[seen].max()
    assert 1e-6 < error < 0.02


def owners_of(n_owners=6, rows=40, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    tilt = rng.standard_normal((n_classes, FEATURES))

    def some(n):
        y = rng.integers(0, n_classes, n)
        return tilt[y] + 1.5 * rng.standard_normal((n, FEATURES)), y

    blocks = {f"owner {j}": some(rows + 3 * j) for j in range(n_owners)}
    return ds.Owners.from_arrays(blocks), *some(200)


@pytest.mark.parametrize("scoring", ["accuracy", "neg_log_loss", "roc_auc"])
def test_game_takes_the_batched_path_and_agrees_with_fitting(scoring):
    owners, X, y = owners_of()
    fast = ds.ModelGame(owners, SoftmaxRegression(), X, y, scoring=scoring)
    plain = ds.ModelGame(owners, SoftmaxRegression(), X, y, scoring=scoring, fast=False)
    assert fast.path is not None
    assert plain.path is None
    assert fast.context != plain.context
    np.testing.assert_allclose(fast(EVERY), plain(EVERY), rtol=0, atol=1e-5)
    mine, theirs = fast.evaluate(EVERY[40:42], None), plain.evaluate(EVERY[40:42], None)
    np.testing.assert_allclose(mine[0].scores, theirs[0].scores, rtol=0, atol=1e-4)


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_hits_counted_on_the_device_are_those_of_single_rows(backend, monkeypatch):
    if backend == "torch":
        needs("torch")
    owners, X, y = owners_of()
    game = ds.ModelGame(owners, SoftmaxRegression(), X[:100], y[:100], backend=backend)
    wanted = game.evaluate(EVERY, None)
    monkeypatch.setattr(BatchedPath, "counts_hits", True)
    found = game.evaluate(EVERY, None)
    np.testing.assert_array_equal(found.values, wanted.values)
    np.testing.assert_array_equal(found.scores.matrix(), wanted.scores.matrix())
    weights = np.random.default_rng(0).normal(size=(6, 64))
    folded = found.scores.fold(weights)
    by_row = folded[:, game.path.judges[0].group]  # each its own, in another order
    np.testing.assert_allclose(by_row, wanted.scores.fold(weights), rtol=0, atol=1e-12)
    game.path.block = 7
    np.testing.assert_array_equal(game.evaluate(EVERY, None).scores.fold(weights), folded)


def test_several_devices_take_turns_and_change_no_bit(monkeypatch):
    owners, X, y = owners_of()
    monkeypatch.setattr(BatchedPath, "counts_hits", True)
    alone = ds.ModelGame(owners, SoftmaxRegression(), X, y).evaluate(EVERY, None)
    monkeypatch.setattr(path, "on_others", lambda numbers: [numbers, numbers])
    game, turns = ds.ModelGame(owners, SoftmaxRegression(), X, y), []
    game.path.block = 15  # five a device
    for program in game.path.programs:
        train = program.train
        monkeypatch.setattr(
            program, "train", lambda n, m, p=program, t=train: (turns.append(p), t(n, m))[1]
        )
    found = game.evaluate(EVERY, None)
    assert [turns.count(program) for program in game.path.programs] == [5, 4, 4]
    np.testing.assert_array_equal(found.values, alone.values)
    weights = np.random.default_rng(0).normal(size=(6, 64))
    np.testing.assert_array_equal(found.scores.fold(weights), alone.scores.fold(weights))


def test_the_path_is_chosen_by_shape_alone():
    small, X, y = owners_of(rows=1, n_owners=2)
    assert ds.ModelGame(small, SoftmaxRegression(), X, y).path is None
    large, X, y = owners_of()
    assert ds.ModelGame(large, SoftmaxRegression(), X, y).path is not None
    assert ds.ModelGame(large, SmallMLP(hidden=2**18), X, y).path is None


def test_jobs_and_a_ledger_left_halfway_change_no_bit(tmp_path):
    owners, X, y = owners_of(n_owners=7)
    game = ds.ModelGame(owners, SmallMLP(hidden=8, steps=10), X, y)
    game.block = 16  # many blocks at once
    once = ds.value(game, "exact", budget=128)
    spread = ds.value(game, "exact", budget=128, n_jobs=2)
    ledger = tmp_path / "paid.sqlite"
    ds.value(game, "loo", ledger=ledger)  # pays for some pools, in other blocks
    resumed = ds.value(game, "exact", budget=128, ledger=ledger)
    assert 0 < resumed.n_computed < 128
    assert once.values.tobytes() == spread.values.tobytes() == resumed.values.tobytes()


def test_repeats_differ_by_seed_and_tell_their_spread():
    owners, X, y = owners_of()
    game = ds.ModelGame(owners, SmallMLP(hidden=8, steps=10), X, y, repeats=3)
    plain = ds.ModelGame(owners, SmallMLP(hidden=8, steps=10), X, y, repeats=3, fast=False)
    pool = np.ones((1, 6), dtype=bool)
    mine, theirs = game.evaluate(pool, None)[0], plain.evaluate(pool, None)[0]
    assert mine.spread == pytest.approx(theirs.spread, abs=1e-9)
    assert mine.spread > 0
    assert game(pool)[0] == pytest.approx(mine.value, abs=1e-12)


@pytest.mark.parametrize("model", [SoftmaxRegression(), SmallMLP(hidden=16, steps=5)])
def test_memory_stays_within_the_limit_for_any_number_of_queries(model, monkeypatch):
    owners, X, y = owners_of(n_owners=10, rows=300)
    game = ds.ModelGame(owners, model, X, y)
    limit = 4 * 2**20
    monkeypatch.setitem(MEMORY, "cpu", limit)
    small = BatchedPath(game)
    rng = np.random.default_rng(0)
    shares = np.where(rng.random((600, 10)) < 0.5, rng.random((600, 10)), 0.0)
    peaks = []

    def values(n):  # as a run asks
        parts = blocks(shares[:n], np.arange(n), small.block)
        return np.concatenate([small.answers(*part).values for part in parts])

    for n in (300, 600):
        tracemalloc.start()
        values(n)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < limit
    assert peaks[1] < 1.2 * peaks[0]
    np.testing.assert_array_equal(values(50), game(shares[:50], np.arange(50)))


def test_a_parameter_out_of_range_is_refused():
    for wrong in (
        {"steps": 0},
        {"optimizer": "newton"},
        {"learning_rate": 0.0},
        {"momentum": 1.0},
        {"batch_size": 0},
    ):
        with pytest.raises(InvalidOption):
            Recipe(**wrong)
    with pytest.raises(InvalidOption, match="choose 'numpy' or 'torch'"):
        arithmetic("cupy")
    with pytest.raises(InvalidOption, match="takes float64, float32"):
        arithmetic("numpy", "tf32")


def test_reference_estimators_are_scikit_learn_estimators():
    _, X, y = owners_of(n_classes=3)
    for model in (SoftmaxRegression(), SmallMLP(hidden=8, learning_rate=0.02)):
        fitted = clone(model).fit(X, np.array(["a", "b", "c"])[y])
        assert fitted.predict_proba(X).sum(axis=1) == pytest.approx(1)
        assert fitted.score(X, np.array(["a", "b", "c"])[y]) > 0.6
    with pytest.raises(InvalidOption, match="classes= lacks"):
        SoftmaxRegression(classes=[0, 1]).fit(X, y)


def test_fixed_scale_puts_holes_at_the_centre():
    X, y = np.array([[1.0], [3.0], [np.nan]]), [0, 1, 1]
    holes = SoftmaxRegression(center=[2.0], scale=[0.5]).fit(X, y)
    filled = SoftmaxRegression().fit([[-2.0], [2.0], [0.0]], y)
    np.testing.assert_array_equal(holes.weights_[0], filled.weights_[0])


def test_safe_rate_never_overshoots():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 4)) * [1, 10, 0.1, 3] + 5
    y = (X @ [1, 0.2, 3, 0.1] + rng.standard_normal(200) > 22).astype(int)
    losses = []
    for steps in range(1, 12):
        model = SoftmaxRegression(steps=steps, learning_rate=safe_rate(X), momentum=0).fit(X, y)
        losses.append(-np.log(model.predict_proba(X)[np.arange(200), y]).mean())
    assert np.all(np.diff(losses) < 0)


@pytest.mark.slow
def test_the_gpu_script_runs_without_a_gpu(tmp_path, data_folder):
    needs("torch")
    root = Path(__file__).parent.parent / "benchmarks"
    table = tmp_path / "adult.npz"
    subprocess.run([sys.executable, root / "prepare_adult.py", table], check=True)
    done = subprocess.run(
        [
            *(sys.executable, root / "gpu_batched.py", "--small"),
            *("--data", table, "--json", tmp_path / "out.json"),
        ],
        check=True,
        capture_output=True,
        text=True,
    )
    assert "| float32 |" in done.stdout
    assert "True |" in done.stdout
