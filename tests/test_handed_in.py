"""What engineers hand in: frames, sparse rows, datasets, weights; as plain fitting has it."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array, csr_matrix
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.ensemble import StackingClassifier, StackingRegressor
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import dushapley as ds
from dushapley.errors import InvalidGame, InvalidOwners, MethodNotApplicable, UtilityFailed
from extras import needs

POOLS = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [0, 1, 1], [1, 1, 1]], dtype=bool)
NAMES = ("north", "south", "west")


def people(n: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "site": rng.choice(NAMES, n),
            "noise": rng.normal(size=n),
            "sex": pd.Categorical(rng.choice(["f", "m", "x"], n)),
            "age": rng.integers(18, 90, n),
            "seen": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 500, n), "D"),
        }
    )
    score = 0.05 * (frame["age"] - 50) + 2.0 * (frame["sex"] == "f") + 0.5 * rng.normal(size=n)
    frame["ill"] = np.where(score > 0.5, "yes", "no")
    return frame


TABLE, TEST = people(240), people(90, 1)
X_TEST, Y_TEST = TEST.drop(columns=["site", "ill"]), TEST["ill"].to_numpy()


def plainly(model, frame=TABLE, X_test=X_TEST, y_test=Y_TEST, target="ill"):
    """Scores of plain fitting on the six pools, each in the order of its game."""
    scores = []
    owners = ds.Owners.from_frame(frame, owner="site", target=target)
    game = ds.DatasetGame(owners, lambda X, y: 0.0)
    for pool in POOLS:
        parts = [frame[frame["site"] == owners.names[j]] for j in game.order if pool[j]]
        pooled = pd.concat(parts, ignore_index=True)
        fitted = model.fit(pooled.drop(columns=["site", target]), pooled[target].to_numpy())
        scores.append(fitted.score(X_test, y_test))
    return np.array(scores)


def days(frame):
    return (frame - pd.Timestamp("2024-01-01")).apply(lambda column: column.dt.days / 365)


def by_name():
    from sklearn.preprocessing import FunctionTransformer

    return make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["sex"]),
        (StandardScaler(), ["age"]),
        (FunctionTransformer(days), ["seen"]),
    )


def by_position():
    return ColumnTransformer([("sex", OneHotEncoder(), [1]), ("age", StandardScaler(), [2])])


@pytest.mark.parametrize("select", [by_name, by_position])
def test_column_transformers_see_the_columns_that_they_name(select) -> None:
    model = make_pipeline(select(), LogisticRegression())
    owners = ds.Owners.from_frame(TABLE, owner="site", target="ill")
    game = ds.ModelGame(owners, model, X_TEST, Y_TEST)
    assert game(POOLS).tolist() == plainly(model).tolist()
    assert game.notes[0] == (
        "The model was handed the tables as they are (encode='none'), since its ColumnTransformer "
        "selects or encodes columns itself."
    )
    backwards = ds.ModelGame(owners, model, X_TEST[X_TEST.columns[::-1]], Y_TEST)
    assert backwards(POOLS).tolist() == game(POOLS).tolist()
    with pytest.raises(InvalidGame, match="Pass X_test as a table"):
        ds.ModelGame(owners, model, X_TEST.to_numpy(), Y_TEST)


def test_tables_of_single_owners_are_tables_too() -> None:
    model = make_pipeline(by_name(), LogisticRegression())
    parts = {name: TABLE[TABLE["site"] == name] for name in NAMES}
    blocks = {
        name: (part.drop(columns=["site", "ill"]), part["ill"]) for name, part in parts.items()
    }
    owners = ds.Owners.from_arrays(blocks)
    game = ds.ModelGame(owners, model, X_TEST, Y_TEST)
    same = ds.Owners.from_frame(TABLE, owner="site", target="ill")
    assert dict(zip(owners.names, owners.hashes, strict=True)) == dict(
        zip(same.names, same.hashes, strict=True)
    )
    assert game([[1, 1, 1]])[0] == plainly(model)[-1]


def test_test_columns_are_matched_by_name() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(120, 3)), columns=["a", "b", "c"])
    y = (X["a"] > 0).astype(int)
    blocks = {str(k): (X.iloc[k:80:2], y.iloc[k:80:2]) for k in range(2)}
    owners = ds.Owners.from_arrays(blocks)
    game = ds.ModelGame(owners, LogisticRegression(), X[["c", "a", "b"]].iloc[80:], y.iloc[80:])
    right = ds.ModelGame(owners, LogisticRegression(), X.iloc[80:], y.iloc[80:])
    assert game([[1, 1]]) == right([[1, 1]]) > 0.9
    assert game.context == right.context
    with pytest.raises(InvalidOwners, match="lacks 'b'"):
        ds.ModelGame(owners, LogisticRegression(), X[["c", "a"]].iloc[80:], y.iloc[80:])


def test_who_encodes_is_decided_by_the_first_step_or_by_the_user() -> None:
    owners = ds.Owners.from_frame(TABLE, owner="site", target="ill")
    tree = DecisionTreeClassifier(max_depth=3)
    pooled = ds.ModelGame(owners, tree, X_TEST, Y_TEST)
    assert "encoded once" in pooled.notes[0]
    search = GridSearchCV(
        make_pipeline(by_name(), tree), {"decisiontreeclassifier__max_depth": [2]}
    )
    assert "encode='none'" in ds.ModelGame(owners, search, X_TEST, Y_TEST).notes[0]
    forced = ds.ModelGame(owners, tree, X_TEST, Y_TEST, encode="none")
    with pytest.raises(UtilityFailed, match="could not convert"):
        forced(POOLS)
    by_hand = ds.ModelGame(owners, make_pipeline(by_name(), tree), X_TEST, Y_TEST, encode="pooled")
    with pytest.raises(UtilityFailed, match="pass encode='none'"):
        by_hand(POOLS)


def test_frames_from_a_ledger_with_workers_and_in_what_ifs(tmp_path) -> None:
    model = make_pipeline(by_name(), LogisticRegression())
    owners = ds.Owners.from_frame(TABLE, owner="site", target="ill")
    game = ds.ModelGame(owners, model, X_TEST, Y_TEST, fingerprint="days")
    first = ds.value(game, "exact", ledger=tmp_path / "l", n_jobs=2)
    again = ds.value(game, "exact", ledger=tmp_path / "l")
    assert again.n_computed == 0
    assert again.values.tolist() == first.values.tolist()
    assert not first.unknown
    # another type of one column is another game
    wide = TABLE.assign(age=TABLE["age"].astype("float32"))
    other = ds.Owners.from_frame(wide, owner="site", target="ill")
    assert other.hashes == owners.hashes
    changed = ds.ModelGame(other, model, X_TEST, Y_TEST, fingerprint="days")
    assert changed.context != game.context
    late = people(40, 2)
    newcomer = ds.Join("east", late.drop(columns=["site", "ill"]), late["ill"].to_numpy())
    answer = ds.what_if(game, newcomer, method="exact", ledger=tmp_path / "l")
    assert answer.n_found == 8
    strange = late.assign(sex="z").drop(columns=["site", "ill"])
    with pytest.raises(InvalidGame, match="categories in column 'sex'"):
        ds.what_if(game, ds.Join("east", strange, late["ill"]), method="exact")
    copied = ds.what_if(game, ds.Copy("north", "south"), method="exact", ledger=tmp_path / "l")
    assert copied.after.n_computed > 0
    _, X, _ = owners.hold_out(0.2)
    assert list(X.columns) == list(X_TEST.columns)
    assert X["sex"].dtype == TABLE["sex"].dtype
    folds = ds.FoldsGame(owners, lambda *split: ds.ModelGame(split[0], model, *split[1:]), 2)
    assert folds([[1, 1, 1]])[0] > 0.8


def texts():
    rng = np.random.default_rng(0)
    topics = {0: ["ball", "goal", "team"], 1: ["vote", "law", "party"]}
    y = rng.integers(0, 2, 120)
    others = np.array([f"word{k}" for k in range(60)])
    return [" ".join([*rng.choice(topics[c], 2), *rng.choice(others, 6)]) for c in y], y


@pytest.mark.parametrize("kind", [csr_array, csr_matrix])
def test_sparse_rows_stay_sparse(kind, tmp_path) -> None:
    words, y = texts()
    X = kind(TfidfVectorizer().fit_transform(words))
    groups = np.array(NAMES)[np.arange(80) % 3]
    owners = ds.Owners.from_arrays(X[:80], y[:80], groups=groups)
    assert all(isinstance(block, kind) for block in owners.X)
    seen = []

    class Watching(LogisticRegression):
        def fit(self, X, y):
            seen.append(type(X))
            return super().fit(X, y)

    game = ds.ModelGame(owners, Watching(), X[80:], y[80:], fingerprint="watching")
    dense = ds.ModelGame(
        ds.Owners.from_arrays(X[:80].toarray(), y[:80], groups=groups),
        LogisticRegression(),
        X[80:].toarray(),
        y[80:],
    )
    assert np.allclose(game(POOLS), dense(POOLS))
    assert set(seen) == {kind}
    # equal rows have equal hashes, stored or not
    for one, other in zip(owners.row_hashes, dense.owners.row_hashes, strict=True):
        assert one.tolist() == other.tolist()
    plain = ds.ModelGame(owners, LogisticRegression(), X[80:], y[80:])
    paid = ds.value(plain, "permutation", budget=20, ledger=tmp_path / "l", n_jobs=2)
    again = ds.value(plain, "permutation", budget=20, ledger=tmp_path / "l")
    assert again.n_computed == 0
    assert paid.values.tolist() == again.values.tolist()
    assert 0.5 < ds.ModelGame(owners, "logistic", X[80:], y[80:])([[1, 1, 1]])[0] <= 1
    _, X_test, y_test = owners.hold_out(0.25)
    assert X_test.shape[0] == len(y_test) == 20
    with pytest.raises(InvalidGame, match="both need to be sparse"):
        ds.ModelGame(owners, LogisticRegression(), X[80:].toarray(), y[80:])
    with pytest.raises(MethodNotApplicable, match="toarray"):
        ds.value(plain, "knn")
    joined = ds.what_if(plain, ds.Join("new", 2 * X[80:90], y[80:90]), method="exact")
    assert len(joined.after.values) == 4


def test_a_cell_that_is_stored_as_zero_changes_nothing() -> None:
    stored = csr_array(([1.0, 0.0], ([0, 1], [0, 1])), shape=(2, 2))
    bare = csr_array(([1.0], ([0], [0])), shape=(2, 2))
    one, other = (ds.Owners.from_arrays({"a": (X, [0, 1])}) for X in (stored, bare))
    assert one.hashes == other.hashes


def test_groups_pairs_and_samples_are_the_same_owners() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(6, 2)), np.array([0, 1, 0, 1, 1, 0])
    named = ds.Owners.from_arrays({"b": (X[:2], y[:2]), "a": (X[2:], y[2:])})
    groups = ds.Owners.from_arrays(X, y, groups=["b", "b", "a", "a", "a", "a"])
    assert (groups.names, groups.hashes) == (named.names, named.hashes)
    pairs = ds.Owners.from_arrays([("b", (X[:2], y[:2])), ("a", (X[2:], y[2:]))])
    assert (pairs.names, pairs.hashes) == (named.names, named.hashes)
    triples = ds.Owners.from_arrays([("b", X[:2], y[:2]), ("a", X[2:], y[2:])])
    assert (triples.names, triples.hashes) == (named.names, named.hashes)
    bare = ds.Owners.from_arrays([(X[:2], y[:2]), (X[2:], y[2:])])
    assert (bare.names, bare.hashes) == (("owner 1", "owner 2"), named.hashes)
    samples = {"b": list(zip(X[:2], y[:2], strict=True)), "a": list(zip(X[2:], y[2:], strict=True))}
    assert ds.Owners.from_arrays(samples).hashes == named.hashes


def test_datasets_of_torch_are_read_once() -> None:
    torch = needs("torch")
    from torch.utils.data import Subset, TensorDataset

    X, y = torch.arange(12.0).reshape(6, 2), torch.tensor([0, 1, 0, 1, 1, 0])
    data = TensorDataset(X, y)
    owners = ds.Owners.from_arrays({"a": Subset(data, [0, 1]), "b": Subset(data, [2, 3, 4, 5])})
    same = ds.Owners.from_arrays({"a": (X[:2], y[:2]), "b": (X[2:], y[2:])})
    assert owners.hashes == same.hashes
    assert owners.X[0].dtype == np.float32
    with pytest.raises(InvalidOwners, match="samples \\(x, y\\) are needed"):
        ds.Owners.from_arrays({"a": TensorDataset(X)})


def test_tables_of_polars_and_pyarrow_are_taken() -> None:
    import pyarrow as pa

    frame = TABLE.drop(columns="sex")
    owners = ds.Owners.from_frame(frame, owner="site", target="ill")
    arrow = ds.Owners.from_frame(pa.Table.from_pandas(frame), owner="site", target="ill")
    assert arrow.hashes == owners.hashes
    pl = needs("polars")
    polar = ds.Owners.from_frame(pl.from_pandas(frame), owner="site", target="ill")
    assert polar.hashes == owners.hashes


@pytest.mark.parametrize("package", ["pandas", "polars", "pyarrow"])
def test_single_columns_of_other_packages_are_targets_and_groups(package: str) -> None:
    made = needs(package)
    column = made.array if package == "pyarrow" else made.Series
    X, y = np.arange(12.0)[:, None], np.array([0, 1] * 6)
    owners = ds.Owners.from_arrays(X, column(y), groups=column(["a", "b", "b"] * 4))
    assert owners.hashes == ds.Owners.from_arrays(X, y, groups=["a", "b", "b"] * 4).hashes
    game = ds.ModelGame(owners, LogisticRegression(), X + 0.5, column(y))
    assert game.y_test.tolist() == y.tolist()


class Batches:
    """As torch's DataLoader has it."""

    dataset = ()


def test_odd_owners_are_refused_in_words() -> None:
    X = np.ones((3, 2))
    cases = [
        (lambda: ds.Owners.from_arrays({"a": (X, [0, np.nan, 1])}), "target is missing.*row 2"),
        (lambda: ds.Owners.from_arrays({"a": (X, ["x", None, "y"])}), "target is missing.*row 2"),
        (lambda: ds.Owners.from_arrays(X, [0, 1, 1]), "pass groups="),
        (lambda: ds.Owners.from_arrays(X), "list of pairs"),
        (lambda: ds.Owners.from_arrays({"a": Batches()}), "found Batches.*pass its .dataset"),
        (lambda: ds.Owners.from_arrays(X, groups=["a"]), "groups has shape"),
        (lambda: ds.Owners.from_arrays(X, groups=["a", None, "b"]), "groups names no owner"),
        (lambda: ds.Owners.from_arrays({"a": (X, [0, 1, 1], [1, -1, 1])}), "not below 0"),
        (lambda: ds.Owners.from_arrays({"a": csr_array(X), "b": X}), "rows of type ndarray"),
        (
            lambda: ds.Owners.from_frame({"a": [1]}, owner="a", target="b"),
            "pandas, polars or pyarrow",
        ),
        (
            lambda: ds.Owners.from_arrays({"a": (csr_array(X), [0, 1, 1])}).statistics(
                "classification"
            ),
            "not sparse",
        ),
    ]
    for attempt, message in cases:
        with pytest.raises(InvalidOwners, match=message):
            attempt()


ROWS = np.random.default_rng(0).normal(size=(150, 3))
SIGNS = (ROWS[:, 0] + 0.3 * ROWS[:, 1] > 0).astype(int)
GROUPS = np.array(NAMES)[np.arange(100) % 3]


def signs(model, y=SIGNS, **how) -> ds.ModelGame:
    owners = ds.Owners.from_arrays(ROWS[:100], y[:100], groups=GROUPS)
    return ds.ModelGame(owners, model, ROWS[100:], y[100:], **how)


def fitted_plainly(game: ds.ModelGame, model, y=SIGNS):
    rows = [np.flatnonzero(game.names[j] == GROUPS) for j in range(3)]
    scores = []
    for pool in POOLS:
        taken = np.concatenate([rows[j] for j in game.order if pool[j]])
        scores.append(model.fit(ROWS[taken], y[taken]).score(ROWS[100:], y[100:]))
    return scores


def test_stacked_models_are_taken() -> None:
    stack = StackingClassifier(
        [("tree", DecisionTreeClassifier(max_depth=2, random_state=0))], cv=2
    )
    game = signs(stack)
    assert game(POOLS).tolist() == fitted_plainly(game, stack)
    assert signs(make_pipeline(StandardScaler(), stack), scoring="roc_auc")(POOLS[-1:])[0] > 0.8
    numbers = ROWS @ [1.0, 2.0, 0.0]
    model = StackingRegressor([("ridge", Ridge())], cv=2)
    regression = signs(model, numbers)
    assert regression.scoring == "r2"
    assert np.allclose(regression(POOLS), fitted_plainly(regression, model, numbers))
    with pytest.raises(InvalidGame, match=r"has no predict\(\)"):
        signs(make_pipeline(StandardScaler()))


class OnlyCodes(ClassifierMixin, BaseEstimator):
    """A classifier that takes no labels but 0, 1, 2, ..., as XGBoost's."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        if not np.array_equal(self.classes_, np.arange(len(self.classes_))):
            raise ValueError(f"Invalid classes inferred from unique values of y: {self.classes_}")
        self.tree_ = DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, y)
        return self

    def predict(self, X):
        return self.tree_.predict(X)

    def predict_proba(self, X):
        return self.tree_.predict_proba(X)


@pytest.mark.parametrize("scoring", ["accuracy", "neg_log_loss", "f1_macro"])
def test_labels_are_recoded_where_a_pool_lacks_a_class(scoring) -> None:
    y = np.array(["a", "b", "c"])[np.digitize(ROWS[:, 0], [-0.5, 0.5])]
    thirds = np.where(y[:100] == "b", "west", np.where(np.arange(100) % 2, "north", "south"))
    owners = ds.Owners.from_arrays(ROWS[:100], y[:100], groups=thirds)
    games = [
        ds.ModelGame(owners, model, ROWS[100:], y[100:], scoring=scoring)
        for model in (OnlyCodes(), DecisionTreeClassifier(max_depth=2, random_state=0))
    ]
    assert games[0](POOLS).tolist() == games[1](POOLS).tolist()


class Sums(RegressorMixin, BaseEstimator):
    """A network's manners: targets in, and predictions out, are columns."""

    def fit(self, X, y):
        assert y.ndim == 2
        self.ridge_ = Ridge().fit(X, y)
        return self

    def predict(self, X):
        return self.ridge_.predict(X)


def test_a_column_of_targets_is_one_target() -> None:
    flat, column = signs(LogisticRegression()), signs(LogisticRegression(), SIGNS[:, None])
    assert flat(POOLS).tolist() == column(POOLS).tolist()
    numbers = ROWS @ [1.0, 2.0, 0.0] + ROWS[:, 2] ** 2
    found = [
        signs(model, y)(POOLS)
        for model, y in (
            (Ridge(), numbers),
            (Ridge(), numbers[:, None]),
            (Sums(), numbers[:, None]),
        )
    ]
    assert found[0].tolist() == found[1].tolist()
    assert np.allclose(found[0], found[2])


def test_several_targets_at_once() -> None:
    both = np.column_stack([SIGNS, (ROWS[:, 1] > 0).astype(int)])
    for model in (KNeighborsClassifier(3), MultiOutputClassifier(LogisticRegression())):
        game = signs(model, both)
        assert game(POOLS).tolist() == fitted_plainly(game, model, both)
        assert np.isfinite(ds.value(game, "exact").values).all()
    numbers = ROWS @ np.array([[1.0, 0.0], [0.5, 1.0], [0.0, 1.0]])
    for model in (Ridge(), DecisionTreeRegressor(random_state=0)):
        game = signs(model, numbers)
        assert np.allclose(game(POOLS), fitted_plainly(game, model, numbers))
        assert game(np.zeros((1, 3)))[0] == pytest.approx(0.0)
    owners = ds.Owners.from_arrays(ROWS[:100], both[:100], groups=GROUPS)
    with pytest.raises(InvalidGame, match="targets of shape"):
        ds.ModelGame(owners, KNeighborsClassifier(3), ROWS[100:], SIGNS[100:])


def test_no_scoring_is_the_models_own_score() -> None:
    counts = np.random.default_rng(0).poisson(np.exp(0.5 * ROWS[:, 0]))
    model = PoissonRegressor()
    game = signs(model, counts)
    assert game(POOLS).tolist() == fitted_plainly(game, model, counts)
    assert game(np.zeros((1, 3)))[0] == pytest.approx(0.0, abs=1e-3)  # no deviance explained
    assert "test set" not in ds.value(game, "exact").unknown
    assert signs(GridSearchCV(LogisticRegression(), {"C": [1]}, scoring="roc_auc")).scoring == (
        "roc_auc"
    )


def test_weights_reach_models_that_take_them(tmp_path) -> None:
    weights = np.linspace(0.1, 3.0, 100)
    owners = ds.Owners.from_arrays(ROWS[:100], SIGNS[:100], groups=GROUPS, sample_weight=weights)
    tree = DecisionTreeClassifier(max_depth=1, random_state=0)
    game = ds.ModelGame(owners, tree, ROWS[100:], SIGNS[100:])
    rows = [np.flatnonzero(name == GROUPS) for name in owners.names]
    for pool in POOLS:
        taken = np.concatenate([rows[j] for j in game.order if pool[j]])
        plain = tree.fit(ROWS[taken], SIGNS[taken], sample_weight=weights[taken])
        assert game([pool])[0] == plain.score(ROWS[100:], SIGNS[100:])
    piped = make_pipeline(StandardScaler(), tree)
    assert ds.ModelGame(owners, piped, ROWS[100:], SIGNS[100:])([[1, 1, 1]])[0] > 0.7
    assert signs(tree).owners.hashes != owners.hashes
    with pytest.raises(InvalidGame, match="KNeighborsClassifier takes no sample_weight"):
        ds.ModelGame(owners, KNeighborsClassifier(), ROWS[100:], SIGNS[100:])
    table = pd.DataFrame(ROWS[:100], columns=list("abc")).assign(who=GROUPS, y=SIGNS[:100])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        framed = ds.Owners.from_frame(table.assign(w=weights), owner="who", target="y", weight="w")
    assert framed.hashes == owners.hashes
    assert list(framed.columns) == list("abc")
    ds.value(game, "exact", ledger=tmp_path / "l")
    assert ds.value(game, "exact", ledger=tmp_path / "l").n_computed == 0


def test_games_refuse_what_are_not_owners() -> None:
    data = {"a": (ROWS, SIGNS)}
    for make in (
        lambda: ds.ModelGame(data, LogisticRegression(), ROWS, SIGNS),
        lambda: ds.KNNGame(data, ROWS, SIGNS),
        lambda: ds.FoldsGame(data, lambda *split: None),
        lambda: ds.DatasetGame(data, lambda X, y: 0.0),
    ):
        with pytest.raises(InvalidGame, match=r"Owners\.from_arrays"):
            make()
    for model in (LogisticRegression, None, 7):
        with pytest.raises(InvalidGame, match=r"as the model, which has no \w+\(\)"):
            signs(model)
    owners = ds.Owners.from_arrays(ROWS, SIGNS, groups=np.resize(NAMES, len(ROWS)))
    with pytest.raises(InvalidGame, match="rows of features are needed"):
        ds.ModelGame(owners, LogisticRegression(), None, SIGNS)


def test_other_owners_have_other_neighbours() -> None:
    owners = ds.Owners.from_arrays(ROWS[:100], SIGNS[:100], groups=GROUPS)
    fewer = ds.Owners.from_arrays(ROWS[:100], 1 - SIGNS[:100], groups=GROUPS)
    game = ds.KNNGame(owners, ROWS[100:], SIGNS[100:])
    assert game.with_owners(fewer)([[1, 1, 1]])[0] == pytest.approx(1 - game([[1, 1, 1]])[0])
    folds = ds.FoldsGame(
        owners, lambda *split: ds.ModelGame(split[0], LogisticRegression(), *split[1:]), 2
    )
    with pytest.raises(InvalidGame, match="the owners' rows are the test set"):
        folds.with_owners(fewer)


@pytest.mark.slow
def test_frames_sparse_rows_and_weights_travel_to_a_cluster() -> None:
    """Dask with processes of its own: rows are packed, sent, and the bits are those of here."""
    distributed = needs("distributed")
    pipeline = make_pipeline(
        ColumnTransformer(
            [("scaled", StandardScaler(), ["age"]), ("sex", OneHotEncoder(), ["sex"])]
        ),
        LogisticRegression(),
    )
    frames = ds.Owners.from_frame(TABLE, owner="site", target="ill")
    words, y = texts()
    X = TfidfVectorizer().fit_transform(words)
    groups = np.array(NAMES)[np.arange(80) % 3]
    weights = np.linspace(1, 2, 80)
    sparse = ds.Owners.from_arrays(X[:80], y[:80], groups=groups)
    weighed = ds.Owners.from_arrays(X[:80], y[:80], groups=groups, sample_weight=weights)
    games = [
        ds.ModelGame(frames, pipeline, X_TEST, Y_TEST),
        ds.ModelGame(sparse, LogisticRegression(), X[80:], y[80:]),
        ds.ModelGame(weighed, LogisticRegression(), X[80:], y[80:]),
    ]
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster, set_as_default=False),
    ):
        for game in games:
            here = ds.value(game, "exact")
            there = ds.value(game, "exact", executor="dask", address=cluster.scheduler_address)
            assert there.values.tobytes() == here.values.tobytes()
            assert there.n_computed == here.n_computed == 8
