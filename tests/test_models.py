"""ModelGame: what a pool is worth, what failures do, and what a ledger may share."""

from __future__ import annotations

import time

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, get_scorer, log_loss, make_scorer
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import dushapley as ds
from dushapley.errors import InvalidGame, LedgerRefused, SharedRows, UtilityFailed
from dushapley.games.base import MOST_SCORES, grouped
from dushapley.games.model import game as fast

RNG = np.random.default_rng(0)
BETA = np.array([1.0, -1.0, 0.5])


def rows(n, classes=2, rng=RNG):
    X = rng.normal(size=(n, 3))
    score = X @ BETA + 0.5 * rng.normal(size=n)
    return X, np.digitize(score, np.linspace(-1, 1, classes - 1) if classes > 2 else [0.0])


def make_owners(number=3, n=20, classes=2):
    return ds.Owners.from_arrays({f"o{i}": rows(n + 5 * i, classes) for i in range(number)})


OWNERS = make_owners()
X_TEST, Y_TEST = rows(60)
EVERYBODY = np.ones((1, 3), dtype=bool)


def game(model=None, **options):
    chosen = LogisticRegression() if model is None else model
    return ds.ModelGame(OWNERS, chosen, X_TEST, Y_TEST, **options)


def test_utility_is_the_score_of_a_model_trained_on_the_pool():
    X, y = OWNERS.X, OWNERS.y
    played = game()
    order = [j for j in played.order if j != 1]
    fitted = LogisticRegression().fit(
        np.concatenate([X[j] for j in order]), np.concatenate([y[j] for j in order])
    )
    assert played([[1, 0, 1]])[0] == fitted.score(X_TEST, Y_TEST)


@pytest.mark.parametrize(
    "scoring", ["accuracy", "balanced_accuracy", "neg_log_loss", "neg_brier_score", "roc_auc", "f1"]
)
def test_scores_of_classes_agree_with_scikit_learn(scoring):
    played = game(scoring=scoring)
    model = LogisticRegression().fit(*played.pool(played.counts(EVERYBODY)[0], None))
    outcome = played.evaluate(EVERYBODY, None)[0]
    assert outcome.value == pytest.approx(get_scorer(scoring)(model, X_TEST, Y_TEST), abs=1e-12)
    if scoring != "f1":
        assert outcome.scores.mean() == pytest.approx(outcome.value, abs=1e-12)


@pytest.mark.parametrize(
    "scoring",
    [
        "r2",
        "neg_mean_squared_error",
        "neg_mean_absolute_error",
        "neg_root_mean_squared_error",
        "neg_median_absolute_error",
    ],
)
def test_scores_of_numbers_agree_with_scikit_learn(scoring):
    played = game(Ridge(), scoring=scoring)
    model = Ridge().fit(*played.pool(played.counts(EVERYBODY)[0], None))
    outcome = played.evaluate(EVERYBODY, None)[0]
    assert outcome.value == pytest.approx(get_scorer(scoring)(model, X_TEST, Y_TEST), abs=1e-12)


def test_three_classes_by_brier_and_log_loss():
    owners, (X, y) = make_owners(classes=3), rows(80, 3)
    for scoring in ("neg_brier_score", "neg_log_loss", "roc_auc_ovr"):
        played = ds.ModelGame(owners, LogisticRegression(), X, y, scoring=scoring)
        model = LogisticRegression().fit(*played.pool(played.counts(EVERYBODY)[0], None))
        expected = get_scorer(scoring)(model, X, y)
        assert played(EVERYBODY)[0] == pytest.approx(expected, abs=1e-12)


def test_nobody_is_worth_the_best_constant():
    share = Y_TEST.mean()
    assert game().nobody.value == max(share, 1 - share)
    prior = np.tile([1 - share, share], (len(Y_TEST), 1))
    assert game(scoring="neg_log_loss").nobody.value == pytest.approx(-log_loss(Y_TEST, prior))
    assert game(Ridge(), scoring="r2").nobody.value == pytest.approx(0)
    median = game(Ridge(), scoring="neg_mean_absolute_error").nobody.value
    assert median == pytest.approx(-np.abs(Y_TEST - np.median(Y_TEST)).mean())
    assert game(empty="zero")([[0, 0, 0]])[0] == 0
    assert game(empty=-3)([[0, 0, 0]])[0] == -3
    assert ds.value(game(empty=0.25), "exact").u_empty == 0.25


def test_a_metric_in_the_place_of_a_scorer_is_refused_with_the_way_to_make_one():
    with pytest.raises(InvalidGame, match=r"\(model, X, y\).*make_scorer"):
        game(scoring=accuracy_score)
    made = game(scoring=make_scorer(accuracy_score))
    assert ds.value(made, "exact").values.tolist() == ds.value(game(), "exact").values.tolist()


def test_a_constant_that_cannot_be_scored_asks_for_a_number():
    def refuses(model, X, y):
        raise RuntimeError("no constants here")

    with pytest.raises(InvalidGame, match=r"no constants here.*Pass empty= with a number"):
        game(scoring=refuses)
    assert game(scoring=refuses, empty=0.5).nobody.value == 0.5
    with pytest.raises(InvalidGame, match="Every constant prediction scores nan"):
        game(scoring=lambda model, X, y: float("nan"))


def test_one_class_is_a_constant_and_missing_classes_have_probability_zero():
    owners = ds.Owners.from_arrays(
        {"one": ([[0.0], [1.0]], [2, 2]), "two": ([[0.0], [3.0]], [0, 1])}
    )
    X, y = [[0.1], [2.9], [1.1]], [0, 1, 2]
    played = ds.ModelGame(owners, LogisticRegression(), X, y)
    assert played([[1, 0]])[0] == pytest.approx(1 / 3)
    likely = ds.ModelGame(owners, LogisticRegression(), X, y, scoring="neg_log_loss")
    scores = likely.evaluate(np.array([[False, True]]), None)[0].scores
    assert scores[2] == np.log(np.finfo(float).eps)
    assert (scores[:2] > -1).all()
    ovr = ds.ModelGame(owners, LogisticRegression(), X, y, scoring="roc_auc_ovr")
    assert ovr([[0, 1]])[0] == pytest.approx(1.0, abs=0.35)
    assert ovr([[1, 0]])[0] == 0.5


class Moody(ClassifierMixin, BaseEstimator):
    """Fails, or dawdles, on pools of a certain size."""

    def __init__(self, fails_at=(), slow_at=(), nan_at=()):
        self.fails_at = fails_at
        self.slow_at = slow_at
        self.nan_at = nan_at

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.rows = len(X)
        if len(X) in self.fails_at:
            raise ValueError("too moody\nto go on")
        if len(X) in self.slow_at:
            end = time.perf_counter() + 600
            while time.perf_counter() < end:
                pass
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


def test_a_failed_fit_names_owners_and_cause():
    with pytest.raises(UtilityFailed, match=r"pool of 'o1' failed with ValueError: too moody"):
        ds.value(game(Moody(fails_at=(25,))), "exact")


def test_failures_counted_as_nobody_are_in_the_result(tmp_path):
    played = game(Moody(fails_at=(25, 45)), on_failure="empty")
    result = ds.value(played, "exact", ledger=tmp_path / "l.sqlite")
    assert result.failures == {"ValueError: too moody": 2}
    assert played([[0, 1, 0]])[0] == played.nobody.value
    again = ds.value(played, "exact", ledger=tmp_path / "l.sqlite")
    assert (again.failures, again.n_computed) == (result.failures, 0)
    assert "2 utilities failed" in repr(result)


def test_stored_failures_follow_todays_policy(tmp_path):
    model = Moody(fails_at=(25,))
    ds.value(game(model, on_failure="empty"), "exact", ledger=tmp_path / "l.sqlite")
    other = ds.value(
        game(model, on_failure="empty", empty=0.0), "exact", ledger=tmp_path / "l.sqlite"
    )
    assert other.n_computed == 1  # nobody's worth is another, and so is that of failures
    assert ds.value(game(model, on_failure="empty", empty=0.0), "exact").values == pytest.approx(
        other.values
    )
    with pytest.raises(UtilityFailed, match="too moody"):
        ds.value(game(model), "exact", ledger=tmp_path / "l.sqlite")


@pytest.mark.slow
def test_a_training_that_takes_too_long_is_a_counted_failure(tmp_path):
    ledger = tmp_path / "l.sqlite"
    policy = {"on_failure": "empty", "deterministic": True}  # or probes would wait as well
    played = game(Moody(slow_at=(25,)), timeout=4.0, **policy)
    result = ds.value(played, "exact", ledger=ledger)
    assert result.failures == {"TimedOut: no result within 4 s": 1}
    longer = game(Moody(slow_at=(25,)), timeout=4.1, **policy)
    again = ds.value(longer, "exact", ledger=ledger)
    assert again.n_computed == 1
    assert again.failures == {"TimedOut: no result within 4.1 s": 1}
    with pytest.raises(UtilityFailed, match=r"TimedOut: no result within 0\.2 s"):
        game(Moody(slow_at=(25,)), timeout=0.2)([[0, 1, 0]])


def test_scores_that_are_no_numbers_are_failures():
    def nan_above_half(model, X, y):
        return float("nan") if hasattr(model, "coef_") else 0.5

    with pytest.raises(UtilityFailed, match="the score is nan"):
        game(scoring=nan_above_half)(EVERYBODY)
    counted = game(scoring=nan_above_half, on_failure="empty")
    result = ds.value(counted, "exact", progress=False)  # pools that are trained twice too
    assert result.failures == {"ArithmeticError: the score is nan": 7}


TRAINED: list = []
"""Models trained since the list was cleared, by themselves."""


class RememberedForest(RandomForestClassifier):
    def fit(self, X, y):
        TRAINED.append(super().fit(X, y))
        return self


class RememberedBag(BaggingClassifier):
    def fit(self, X, y):
        TRAINED.append(super().fit(X, y))
        return self


def trained_by(played):
    """The models that a game trains on everybody's rows."""
    TRAINED.clear()
    played(EVERYBODY)
    return list(TRAINED)


def test_open_seeds_come_from_the_game_and_nested_ones_too():
    nested = make_pipeline(
        StandardScaler(), RememberedBag(DecisionTreeClassifier(max_features=1), n_estimators=3)
    )
    a, b = game(nested, seed=1), game(nested, seed=1)
    assert a(EVERYBODY)[0] == b(EVERYBODY)[0]
    assert a.context == b.context != game(nested, seed=2).context
    values = {
        game(nested, seed=s, scoring="neg_brier_score")(EVERYBODY).tobytes() for s in range(4)
    }
    assert len(values) > 1
    assert nested.get_params()["rememberedbag__random_state"] is None  # the user's own is not
    (trained,) = trained_by(a)
    assert trained.random_state is not None
    assert trained.estimator.random_state is not None
    (trained,) = trained_by(game(RememberedForest(3, random_state=7)))
    assert trained.random_state == 7


def test_repeats_average_and_report_their_spread():
    model = RememberedForest(3)
    singles = [
        ds.ModelGame(OWNERS, model, X_TEST, Y_TEST, repeats=1, seed=0),
        ds.ModelGame(OWNERS, model, X_TEST, Y_TEST, repeats=4, seed=0),
    ]
    scored = [singles[1].scorer(trained) for trained in trained_by(singles[1])]
    each = [value for value, _ in scored]
    rows = np.array([row for _, row in scored])
    apart = rows - rows.mean(axis=0) - rows.mean(axis=1, keepdims=True) + rows.mean()
    n = rows.shape[1]
    luck = (apart**2).sum() / (3 * (n - 1) * n)  # counted by the test set's error
    outcome = singles[1].evaluate(EVERYBODY, None)[0]
    assert len(each) == 4
    assert outcome.value == pytest.approx(np.mean(each))
    assert outcome.spread == pytest.approx(np.sqrt(np.var(each, ddof=1) - luck))
    assert outcome.spread > 0
    assert singles[0].evaluate(EVERYBODY, None)[0].spread is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": 3}, "has no fit"),
        ({"model": LogisticRegression}, "has no fit"),
        ({"scoring": "acuracy"}, "Did you mean 'accuracy'"),
        ({"scoring": 3}, "There is no score 3"),
        ({"model": Ridge(), "scoring": "accuracy"}, "judges classes, but the model does not"),
        ({"model": LinearSVC(), "scoring": "neg_log_loss"}, "has no predict_proba"),
        ({"empty": "nothing"}, "empty is 'nothing'"),
        ({"empty": float("inf")}, "must be finite"),
        ({"on_failure": "ignore"}, "choose 'raise' or 'empty'"),
        ({"backend": "jax"}, "choose 'numpy' or 'torch'"),
        ({"encode": "never"}, "choose 'none' or 'pooled' or 'training'"),
        ({"seed": -1}, "seed is -1"),
        ({"repeats": 0}, "repeats is 0"),
        ({"timeout": 0}, "timeout is 0"),
        (
            {"model": RandomForestClassifier(random_state=np.random.RandomState(0))},
            "random_state is a RandomState, which changes",
        ),
    ],
)
def test_nonsense_is_refused_before_any_training(options, message):
    with pytest.raises(InvalidGame, match=message):
        game(**options)


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (X_TEST[:, :2], Y_TEST, "rows of shape"),
        (X_TEST, Y_TEST[:-1], "60 rows and 59 targets"),
        (X_TEST[:0], Y_TEST[:0], "0 rows"),
        (X_TEST, np.where(Y_TEST == 1, np.nan, 0.0), "missing or infinite"),
    ],
)
def test_bad_test_sets_are_refused(X, y, message):
    with pytest.raises(InvalidGame, match=message):
        ds.ModelGame(OWNERS, LogisticRegression(), X, y)


def test_scores_that_the_test_set_cannot_carry_are_refused():
    one = np.ones(len(X_TEST), dtype=int)
    with pytest.raises(InvalidGame, match="both classes"):
        ds.ModelGame(OWNERS, LogisticRegression(), X_TEST, one, scoring="roc_auc")
    with pytest.raises(InvalidGame, match="one value only"):
        ds.ModelGame(OWNERS, Ridge(), X_TEST, one, scoring="r2")
    words = np.array(["a"] * len(X_TEST))
    with pytest.raises(InvalidGame, match="needs numbers as targets"):
        ds.ModelGame(OWNERS, Ridge(), X_TEST, words, scoring="r2")
    with pytest.raises(InvalidGame, match="have no targets"):
        ds.ModelGame(ds.Owners.from_arrays({"a": X_TEST}), Ridge(), X_TEST, Y_TEST)


def test_rows_of_owners_in_the_test_set_are_warned_of():
    X, y = np.concatenate([X_TEST, OWNERS.X[0][:4]]), np.concatenate([Y_TEST, OWNERS.y[0][:4]])
    with pytest.warns(SharedRows, match="4 rows of the test set"):
        played = ds.ModelGame(OWNERS, LogisticRegression(), X, y)
    assert "4 rows of the test set" in ds.value(played, "exact").notes[-1]


def test_context_knows_what_matters_and_nothing_else():
    base = game().context
    assert base == game().context == game(empty=0.0).context == game(on_failure="empty").context
    others = [
        game(LogisticRegression(C=2.0)),
        game(make_pipeline(StandardScaler(), LogisticRegression())),
        game(scoring="f1"),
        game(seed=1),
        game(RandomForestClassifier(), repeats=2),
        ds.ModelGame(OWNERS, LogisticRegression(), X_TEST + 1, Y_TEST),
        ds.ModelGame(OWNERS, LogisticRegression(), X_TEST, 1 - Y_TEST),
        game(LogisticRegression(class_weight={0: 1.0, 1: 2.0})),
        game(GaussianNB(priors=np.array([0.4, 0.6]))),
        game(GaussianNB(priors=np.array([0.5, 0.5]))),
    ]
    contexts = [other.context for other in others]
    assert None not in contexts
    assert len({base, *contexts}) == len(others) + 1


def test_what_cannot_be_described_needs_a_fingerprint(tmp_path):
    odd = make_pipeline(FunctionTransformer(lambda X: X), LogisticRegression())
    assert game(odd).context is None
    with pytest.raises(LedgerRefused, match="fingerprint="):
        ds.value(game(odd), "exact", ledger=tmp_path / "l.sqlite")
    named = [game(odd, fingerprint=name) for name in ("one", "two")]
    assert named[0].context != named[1].context
    assert ds.value(named[0], "exact", ledger=tmp_path / "l.sqlite").n_computed == 8
    assert game(make_pipeline(FunctionTransformer(np.sinh), LogisticRegression())).context
    assert game(scoring=make_scorer(log_loss)).context is None


def test_an_owner_who_joins_leaves_or_is_renamed_costs_only_what_is_new(tmp_path):
    ledger = tmp_path / "l.sqlite"
    assert ds.value(game(), "exact", ledger=ledger).n_computed == 8
    blocks = dict(zip("abc", zip(OWNERS.X, OWNERS.y, strict=True), strict=True))
    fewer = {name: blocks[name] for name in ("c", "a")}
    after = ds.ModelGame(ds.Owners.from_arrays(fewer), LogisticRegression(), X_TEST, Y_TEST)
    assert ds.value(after, "exact", ledger=ledger).n_computed == 0
    more = ds.Owners.from_arrays({**blocks, "d": rows(9)})
    joined = ds.ModelGame(more, LogisticRegression(), X_TEST, Y_TEST)
    assert ds.value(joined, "exact", ledger=ledger).n_computed == 8


def test_values_depend_neither_on_order_nor_on_names():
    blocks = dict(zip("abc", zip(OWNERS.X, OWNERS.y, strict=True), strict=True))
    turned = ds.Owners.from_arrays({name: blocks[name] for name in "cab"})
    other = ds.ModelGame(turned, LogisticRegression(), X_TEST, Y_TEST)
    pools = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 1]], dtype=bool)
    assert game()(pools).tobytes() == other(pools[:, [2, 0, 1]]).tobytes()


def test_du_draws_rows_of_a_model_game():
    result = ds.value(game(), "du")
    assert result.n_evaluations == 14
    assert np.isfinite(result.values).all()


def test_large_test_sets_are_kept_in_groups_of_the_same_mean_and_error():
    scores = np.random.default_rng(0).normal(size=50_001)
    small = grouped(scores)
    assert len(small) == MOST_SCORES
    assert small.mean() == pytest.approx(scores.mean(), abs=1e-12)
    error = small.std(ddof=1) / np.sqrt(len(small))
    # a standard deviation from 2,048 entries is known to 1.6%; five of these
    assert error == pytest.approx(scores.std() / np.sqrt(len(scores)), rel=0.08)


class Instant:
    """A fast path that knows the answer."""

    name, note, block, fractions, cheap = "instant", "Known at once.", 4, "rows", False

    def __init__(self, played):
        self.played = played

    def answers(self, queries, draws):
        assert len(queries) <= self.block
        return ds.games.Answers(queries.sum(axis=1).astype(float))


def test_fast_paths_are_asked_first_and_are_part_of_the_key(monkeypatch):
    slow = game()
    monkeypatch.setattr(fast, "MAKERS", [lambda played: None, Instant])
    quick = game()
    assert quick.path is not None
    assert quick.block == 4
    assert ds.value(quick, "exact").values.tolist() == [1, 1, 1]
    assert quick.context != slow.context
    assert game(fast=False).context == slow.context


def test_models_that_cannot_be_pickled_are_cloned():
    class Local(LogisticRegression):
        pass

    assert game(Local())(EVERYBODY)[0] == game()(EVERYBODY)[0]


def test_a_class_that_only_the_test_set_has_is_told():
    y = np.where(np.arange(len(Y_TEST)) < 4, 7, Y_TEST)
    odd = ds.ModelGame(OWNERS, LogisticRegression(), X_TEST, y)
    assert any("4 of 60 test rows have a class that no owner has (7, say)" in n for n in odd.notes)
    assert not any("no owner has" in note for note in game().notes)
