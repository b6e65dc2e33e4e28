"""A federation in this process: what is asked, what is answered, and what is made of it."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from sklearn.metrics import log_loss

import dushapley as ds
from dushapley.errors import FederationFailed, InvalidGame, InvalidOption, MethodNotApplicable
from dushapley.federated import Federation, InProcess, Log, Message, Owner, Policy, Table
from dushapley.games import SoftmaxRegression

DATA = {"breast cancer": load_breast_cancer, "wine": load_wine, "iris": load_iris}
SHARES = (0.35, 0.25, 0.2, 0.12, 0.08)


def split(load, owners=5, test=0.4):
    """Rows of each owner, and the test rows."""
    X, y = load(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    n = round(len(y) * test)
    tested, rest = order[:n], order[n:]
    cuts = (np.cumsum(SHARES[:owners]) / sum(SHARES[:owners]) * len(rest)).astype(int)[:-1]
    parts = np.split(rest, cuts)
    rows = {f"owner {k}": (X[p], y[p]) for k, p in enumerate(parts)}
    return rows, (X[tested], y[tested])


def one(X, y):
    return ds.Owners.from_arrays({"rows": (X, y)})


def joined(rows, policy=None, **faulty):
    """A federation of these owners."""
    policy = policy or Policy(least_rows=1)
    return [faulty.get(name, Owner)(name, one(X, y), policy) for name, (X, y) in rows.items()]


def encoded(game, rows, test):
    """The same rows on pooled tables, turned into numbers as was agreed."""
    made = {name: game.agreement.encode(Table.of(one(X, y)), name) for name, (X, y) in rows.items()}
    return ds.Owners.from_arrays(made), game.agreement.encode(Table.of(one(*test)), "test")


@pytest.mark.parametrize("model", ["lda", "naive-bayes"])
@pytest.mark.parametrize("name", DATA)
def test_sums_give_the_bits_of_pooled_rows(name, model):
    rows, test = split(DATA[name])
    central = ds.ModelGame(ds.Owners.from_arrays(rows), model, *test, scoring="accuracy")
    game = ds.FederatedGame(InProcess(joined(rows)), level="sums", model=model, test=one(*test))
    ours, theirs = ds.value(game), ds.value(central)
    assert ours.values.tolist() == theirs.values.tolist()
    assert ours.errors["test set"] == theirs.errors["test set"]
    assert game.fractions == "none"
    with pytest.raises(MethodNotApplicable, match=r"given sums .* whole owners: exact"):
        ds.value(game, "du")
    with pytest.raises(ds.errors.InvalidChange, match=r"given sums .* \(Leave, Merge\)"):
        ds.what_if(game, ds.MoreRows(game.names[0], 5))


def test_sums_of_numbers_give_the_bits_of_pooled_rows():
    rows, test = split(load_diabetes)
    central = ds.ModelGame(ds.Owners.from_arrays(rows), "ridge", *test)
    game = ds.FederatedGame(InProcess(joined(rows)), level="sums", test=one(*test))
    assert ds.value(game).values.tolist() == ds.value(central).values.tolist()


@pytest.mark.parametrize("name", DATA)
def test_gradients_train_what_pooled_rows_train(name):
    rows, test = split(DATA[name])
    federation = Federation(InProcess(joined(rows)))
    game = ds.FederatedGame(federation, level="gradients", test=one(*test), scoring="neg_log_loss")
    owners, (X, y) = encoded(game, rows, test)
    central = ds.ModelGame(
        owners, SoftmaxRegression(classes=game.classes), X, y, scoring="neg_log_loss", fast=False
    )
    pools = np.array([[1, 1, 1, 1, 1], [1, 0, 1, 0, 0], [0, 0, 0, 0, 1], [0, 0, 0, 0, 0]])
    assert np.abs(game(pools) - central(pools)).max() < 1e-9
    fractions, draws = np.full((2, 5), [[0.5], [0.3]]), [3, 4]
    assert np.abs(game(fractions, draws) - central(fractions, draws)).max() < 1e-9


@pytest.mark.parametrize("name", DATA)
def test_gradients_give_the_weights_of_pooled_rows(name):
    from dushapley.federated.game import Pools

    rows, test = split(DATA[name])
    game = ds.FederatedGame(InProcess(joined(rows)), level="gradients", test=one(*test), l2=0.01)
    owners, (X, y) = encoded(game, rows, test)
    weights = Pools(game, game.sizes.astype(int)[None], np.zeros(1, int)).weights()[0]
    pooled = np.concatenate(owners.X), np.concatenate(owners.y)
    central = SoftmaxRegression(l2=0.01).fit(*pooled)
    assert np.abs(weights - central.weights_[0]).max() < 1e-9
    ours = game.classifier(weights, np.ones(len(game.classes), bool)).predict_proba(X)
    assert abs(log_loss(y, ours) - log_loss(y, central.predict_proba(X))) < 1e-9


def averaged(rows, test, transport=InProcess, **more):
    options = {"steps": 4, "local_steps": 3, "local_batch": 16, "seed": 5, **more}
    return ds.FederatedGame(transport(joined(rows)), level="models", test=one(*test), **options)


def test_averaging_is_the_same_in_any_order_and_company():
    rows, test = split(load_breast_cancer)
    first = ds.value(averaged(rows, test), "permutation", budget=40)
    mixed = dict(reversed(rows.items()))
    again = ds.value(averaged(mixed, test), "permutation", budget=40)
    assert first.values.tolist() == again.values.tolist()
    game = averaged(rows, test)
    pools = np.array(list(np.ndindex(2, 2, 2, 2, 2)))
    together, alone = game(pools), np.concatenate([game(pool[None]) for pool in pools])
    assert together.tolist() == alone.tolist()
    assert (
        ds.value(averaged(rows, test, seed=6), budget=40).values.tolist() != first.values.tolist()
    )


def test_one_message_an_owner_and_round_carries_all_pools():
    rows, test = split(load_iris)
    game = averaged(rows, test)
    v = ds.value(game, "exact")
    told = v.details["federation"]
    assert v.n_evaluations == 32
    assert told["rounds"] == 2 + 4  # who is there, what is agreed, four rounds of averaging
    assert told["messages"] == 5 * told["rounds"]
    assert told["owners"]["owner 0"]["answered"] == {"agree": 1, "schema": 1, "steps": 4}
    assert (
        sum(t["bytes_sent"] + t["bytes_received"] for t in told["owners"].values())
        == (told["bytes"])
    )
    assert any("6 rounds, 30 messages" in note for note in v.notes)


def test_a_quote_states_rounds_messages_and_bytes():
    rows, test = split(load_iris)
    game = averaged(rows, test)
    quote = ds.quote(game).set_index("method")
    assert quote["rounds"]["exact"] == 4
    assert quote["messages"]["exact"] == 20
    before = game.federation.account()["bytes"]
    ds.value(game, "exact")
    took = game.federation.account()["bytes"] - before
    assert quote["bytes"]["exact"] == pytest.approx(took, rel=0.25)
    assert quote["bytes_per_owner"]["exact"] * 5 == pytest.approx(quote["bytes"]["exact"], abs=5)


def test_a_killed_coordinator_goes_on_from_its_ledger(tmp_path):
    rows, test = split(load_breast_cancer)
    whole = ds.value(averaged(rows, test), budget=24, method="permutation")

    class Dies(InProcess):
        left = 12

        def exchange(self, questions, seconds):
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
            return super().exchange(questions, seconds)

    ledger = tmp_path / "ledger.sqlite"
    game = averaged(rows, test, Dies, block=4)
    with pytest.raises(ds.Stopped):
        ds.value(game, "permutation", budget=24, ledger=ledger)
    resumed = ds.value(averaged(rows, test), "permutation", budget=24, ledger=ledger)
    assert 0 < resumed.n_computed < whole.n_computed
    assert resumed.values.tolist() == whole.values.tolist()


def test_rows_that_owners_hold_back_score_models_there():
    rows, _ = split(load_breast_cancer, test=0.01)
    policies = {name: Policy(hold_back=0.3 if k else 0.0) for k, name in enumerate(rows)}
    owners = [Owner(name, one(X, y), policies[name]) for name, (X, y) in rows.items()]
    game = ds.FederatedGame(InProcess(owners), level="gradients", steps=10)
    v = ds.value(game)
    held = {owner.name: len(owner.held_back) for owner in owners[1:]}
    assert v.details["federation"]["test_rows"] == held
    assert v.errors["test set"] is not None
    # the same on pooled rows, tested on all that was held back
    kept = {o.name: game.agreement.encode(o.table, o.name) for o in owners}
    tested = [game.agreement.encode(o.held_back, o.name) for o in owners[1:]]
    X, y = (np.concatenate(part) for part in zip(*tested, strict=True))
    central = ds.ModelGame(
        ds.Owners.from_arrays(kept), SoftmaxRegression(steps=10), X, y, scoring="accuracy",
        fast=False,
    )  # fmt: skip
    pools = np.array(list(np.ndindex(2, 2, 2, 2, 2)))
    assert np.abs(game(pools) - central(pools)).max() < 1e-9
    with pytest.raises(InvalidGame, match="counts"):
        ds.FederatedGame(InProcess(owners), level="gradients", scoring="neg_log_loss")


def test_columns_that_differ_are_told_at_once_by_owner():
    import pandas as pd

    def owner(name, **columns):
        table = pd.DataFrame({"age": np.arange(20.0), "ward": ["a", "b"] * 10} | columns)
        return Owner(name, Table.from_frame(table, target="ill"))

    labels = ["yes", "no"] * 10
    good, usual = owner("Bonn", ill=labels), owner("Essen", ill=labels)
    cases = {
        "lacks": owner("Kiel", ill=labels, extra=np.arange(20.0)),
        "has numbers, the others text": owner("Kiel", ill=labels, ward=np.arange(20.0)),
        "writes 'Yes'": owner("Kiel", ill=["Yes", "no"] * 10),
        "Essen writes text, the others numbers": owner("Kiel", ill=[0, 1] * 10),
    }
    for words, other in cases.items():
        with pytest.raises(FederationFailed, match=words) as told:
            ds.FederatedGame(InProcess([good, usual, other]), level="gradients")
        assert "Kiel" in str(told.value) or "Bonn" in str(told.value)
    both = ds.FederatedGame(
        InProcess([owner("Bonn", ill=labels), cases["lacks"]]), level="models", columns=["age"],
        test=Table.from_frame(
            pd.DataFrame({"age": [1.0, 2.0], "ill": ["no", "yes"]}), target="ill"
        ),
    )  # fmt: skip
    assert list(both.agreement.columns) == ["age"]


def test_text_and_holes_become_numbers_as_agreed():
    import pandas as pd

    def table(first, wards):
        n = len(wards)
        return pd.DataFrame(
            {"age": [first, *range(30, 29 + n)], "ward": wards, "ill": ["no", "yes"] * (n // 2)}
        )

    made = {"A": table(np.nan, ["x", "y"] * 10), "B": table(50.0, ["x", "z"] * 9 + [None, "rare"])}
    owners = [
        Owner(name, Table.from_frame(frame, target="ill"), Policy(least_rows=5))
        for name, frame in made.items()
    ]
    test = Table.from_frame(made["A"], target="ill")
    game = ds.FederatedGame(InProcess(owners), level="gradients", test=test)
    assert game.agreement.categories == {"ward": ["x", "y", "z"]}  # one row is nobody's category
    X, _ = game.agreement.encode(owners[1].table, "B")
    assert X.shape == (20, 4)
    assert X[-2:, 1:].tolist() == [[0, 0, 0], [0, 0, 0]]
    assert game.agreement.encode(owners[0].table, "A")[0][0, 0] == 0.0  # at the centre


def test_a_policy_is_the_owners_own(tmp_path):
    rows, test = split(load_iris)
    path = tmp_path / "policy.toml"
    path.write_text('levels = ["sums"]\nleast_rows = 2\nmost_questions = 3\n')
    policy = Policy.read(path)
    owners = joined(rows, policy)
    with pytest.raises(FederationFailed, match="owner 0 allows sums, of at least 2 rows"):
        ds.FederatedGame(InProcess(owners), level="models", test=one(*test))
    log = tmp_path / "log.jsonl"
    first, *others = rows
    owners = [
        Owner(first, one(*rows[first]), policy, Log(log)),
        *joined({name: rows[name] for name in others}),
    ]
    ds.FederatedGame(InProcess(owners), level="sums", test=one(*test))
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["answer"] for line in lines] == ["schema", "agree", "sums"]
    assert all(line["bytes"] > 100 and line["words"] for line in lines)
    owners[0] = Owner(first, one(*rows[first]), policy, Log(log))  # a restart resets nothing
    with pytest.raises(FederationFailed, match="all 3 questions"):
        ds.FederatedGame(InProcess(owners), level="sums", test=one(*test))
    for text, words in (
        ("levles = []", "levels"),
        ("least_rows = 0", "least_rows"),
        ('levels = "sums"', "a list"),
        ("hold_back = 2", "hold_back"),
        ("levels = [", "TOML"),
    ):
        path.write_text(text)
        with pytest.raises(InvalidOption, match=words):
            Policy.read(path)


def test_small_parts_are_refused_and_counted():
    rows, test = split(load_breast_cancer)
    policy = Policy(least_rows=15)
    game = ds.FederatedGame(
        InProcess(joined(rows, policy)), level="models", test=one(*test), on_refusal="empty"
    )
    pools = np.array([[1, 1, 1, 1, 1], [0.01, 1, 1, 1, 1]])
    found = game.evaluate(pools, np.array([1, 1]))
    assert found[0].failure is None
    assert "owner 0 refused" in found[1].failure
    assert game.costs()["federation"]["owners"]["owner 0"]["answered"]["refused"] == 2
    assert game(pools, np.array([1, 1]))[1] == game.nobody.value
    strict = ds.FederatedGame(InProcess(joined(rows, policy)), level="models", test=one(*test))
    with pytest.raises(FederationFailed, match="answers of at least 15"):
        strict(pools, np.array([1, 1]))
    with pytest.raises(ds.errors.InvalidOwners, match="least_rows"):
        joined({"small": (np.ones((3, 2)), [0, 1, 0])}, policy)


class Lying(Owner):
    """An owner whose answers to steps are changed on their way."""

    change = staticmethod(lambda message: message)

    def answer(self, content):
        reply = Message.decode(super().answer(content))
        return self.change(reply).encode() if reply.kind == "steps" else reply.encode()


def arrays(change):
    return lambda m: replace(m, arrays={k: change(a.copy()) for k, a in m.arrays.items()})


def about(**more):
    return lambda m: replace(m, about={**m.about, **more})


FAULTS = {
    "missing or infinite": arrays(lambda a: a * np.nan),
    "shape": arrays(lambda a: a[:, :, 1:]),
    "type int64": arrays(lambda a: a.astype(int)),
    "lacks the array": lambda m: replace(m, arrays={}),
    "belongs to round 1,? not": about(round=1),
    "comes from 'somebody'": about(owner="somebody"),
    "answers 'sums'": lambda m: replace(m, kind="sums"),
}


@pytest.mark.parametrize("words", FAULTS)
def test_an_answer_that_cannot_be_right_is_a_sentence(words):
    rows, test = split(load_iris)
    lying = type("Lying", (Lying,), {"change": staticmethod(FAULTS[words])})
    federation = Federation(InProcess(joined(rows, **{"owner 2": lying})), patience=0.1)
    game = ds.FederatedGame(federation, level="models", test=one(*test), steps=2)
    with pytest.raises(FederationFailed, match=words) as told:
        ds.value(game)
    assert "owner 2" in str(told.value)


def test_bytes_of_any_kind_are_a_sentence():
    good = Message("steps", {"round": 1}, {"a": np.ones((2, 3)), "b": np.array([True])}).encode()
    rng = np.random.default_rng(0)
    for _ in range(2000):
        bad = bytearray(good)
        for place in rng.integers(len(bad), size=rng.integers(1, 4)):
            bad[place] = rng.integers(256)
        bad = bytes(bad[: rng.integers(len(bad) + 1)]) if rng.random() < 0.3 else bytes(bad)
        try:
            Message.decode(bad)
        except FederationFailed:
            continue
    with pytest.raises(FederationFailed, match="same version"):
        Message.decode(good + b"x")
    rows, _ = split(load_iris)
    (owner, *_) = joined(rows)
    assert Message.decode(owner.answer(b"nonsense")).kind == "fault"
    odd = Message("steps", {"run": 1, "round": "x", "agreement": [], "pools": {}}).encode()
    assert Message.decode(owner.answer(odd)).kind == "fault"


class Unsteady(InProcess):
    """Owners that are silent, leave, and come back under another address."""

    def __init__(self, owners, silent=(), gone=(), back=None):
        super().__init__(owners)
        self.silent, self.gone, self.back, self.asked = set(silent), gone, back, 0

    def exchange(self, questions, seconds):
        self.asked += 1
        if self.asked in self.gone:
            del self.owners["here-1"]
            if self.back is not None:
                self.owners["here-9"] = self.back
        found = super().exchange(questions, seconds)
        return {a: r for a, r in found.items() if (self.asked, a) not in self.silent}


def test_a_late_owner_is_asked_again_and_a_silent_one_is_named():
    rows, test = split(load_iris)
    whole = ds.value(averaged(rows, test))
    late = lambda owners: Unsteady(owners, silent={(4, "here-3")})  # noqa: E731
    v = ds.value(averaged(rows, test, late))
    assert v.values.tolist() == whole.values.tolist()
    assert v.details["federation"]["owners"]["owner 3"]["repeated"] == 1
    mute = lambda owners: Unsteady(owners, silent={(k, "here-3") for k in range(4, 99)})  # noqa: E731
    with pytest.raises(FederationFailed, match=r"owner 3 did not answer round 4 .* asked 3 times"):
        ds.value(averaged(rows, test, mute))


def test_an_owner_that_is_started_again_goes_on_with_the_same_rows():
    rows, test = split(load_iris)
    whole = ds.value(averaged(rows, test))
    anew = joined(rows)[1]
    back = lambda owners: Unsteady(owners, gone={4}, back=anew)  # noqa: E731
    v = ds.value(averaged(rows, test, back))
    assert v.values.tolist() == whole.values.tolist()
    X, y = rows["owner 1"]
    other = joined({"owner 1": (X[::-1], y[::-1])})[0]
    changed = lambda owners: Unsteady(owners, gone={4}, back=other)  # noqa: E731
    with pytest.raises(FederationFailed, match="rows of owner 1 have changed since it joined"):
        ds.value(averaged(rows, test, changed))
    forgetful = joined(rows)
    game = ds.FederatedGame(
        InProcess(forgetful), level="models", test=one(*test), steps=4, local_steps=3,
        local_batch=16, seed=5,
    )  # fmt: skip
    forgetful[1].joined = {}  # the same address, another process
    assert ds.value(game).values.tolist() == whole.values.tolist()


class Busy(InProcess):
    """Whose owners and their addresses change when a round begins."""

    def __init__(self, owners, at, change):
        super().__init__(owners)
        self.at, self.change, self.asked = at, change, 0

    def exchange(self, questions, seconds):
        self.asked += 1
        if self.asked == self.at:
            self.change(self.owners)
        return super().exchange(questions, seconds)


def test_who_comes_after_the_start_takes_no_part_and_ends_nothing():
    rows, test = split(load_iris)
    whole = ds.value(averaged(rows, test))
    late, mute = joined({"late": rows["owner 4"], "mute": rows["owner 4"]})
    mute.policy = Policy(least_rows=1, most_rounds=1)
    mute.log.rounds.add(("another", 1))  # it refuses even to say who it is

    def change(owners):
        owners["here-9"] = owners.pop("here-1")  # is missed, and so everybody new is asked
        owners["here-8"] = owners["here-2"]  # started again, and not missed yet
        owners["here-7"], owners["here-6"] = late, mute

    v = ds.value(averaged(rows, test, lambda owners: Busy(owners, 4, change)))
    assert v.values.tolist() == whole.values.tolist()
    assert list(v.details["federation"]["owners"]) == [f"owner {k}" for k in range(5)]


def test_an_owner_may_be_started_again_while_others_are_waited_for():
    rows, _ = split(load_iris, owners=3)
    *first, last = joined(rows)
    anew = joined({"owner 1": [part[:-1] for part in rows["owner 1"]]})[0]

    class Joining(InProcess):
        looks = 0

        def addresses(self):
            self.looks += 1
            if self.looks == 2:
                del self.owners["here-1"]
                self.owners |= {"here-8": anew, "here-9": last}
            return super().addresses()

    made = Federation(Joining(first), n_owners=3)
    assert made.names == ("owner 0", "owner 1", "owner 2")
    assert made.members["owner 1"].schema["rows"] == len(anew.table)
    assert made.members["owner 1"].traffic.messages == 2


def test_an_owners_log_says_what_the_settlement_says_of_it():
    rows, test = split(load_iris, owners=3)
    game = averaged(rows, test)
    told = ds.value(game).details["federation"]["owners"]
    for owner in game.federation.transport.owners.values():
        of_it = told[owner.name]
        assert of_it["answered"] == owner.log.kinds
        assert of_it["bytes_received"] == sum(line["bytes"] for line in owner.log.lines)


def test_what_cannot_be_logged_does_not_leave(tmp_path):
    rows, test = split(load_iris, owners=3)
    game = averaged(rows, test)
    game.federation.transport.owners["here-1"].log.path = tmp_path / "no folder" / "log.jsonl"
    with pytest.raises(FederationFailed, match="owner 1 cannot write its log"):
        ds.value(game)


def test_files_that_change_under_an_owner_stop_it():
    rows, test = split(load_iris)
    game = averaged(rows, test)
    owner = game.federation.transport.owners["here-2"]
    owner.changed = lambda: True
    with pytest.raises(FederationFailed, match="files of owner 2 have changed since it joined"):
        ds.value(game)


def test_owners_must_have_names_of_their_own_and_all_must_come():
    rows, _ = split(load_iris)
    twice = [*joined(rows), *joined({"owner 1": rows["owner 1"]})]
    with pytest.raises(FederationFailed, match="Two owners call themselves 'owner 1'"):
        Federation(InProcess(twice))
    with pytest.raises(FederationFailed, match="5 of 6 owners joined"):
        Federation(InProcess(joined(rows)), n_owners=6, join_within=0.1)


def test_what_does_not_go_together_is_refused():
    rows, test = split(load_iris)
    here = InProcess(joined(rows))
    cases = [
        ({"level": "sums"}, "test="),
        ({"level": "models", "model": "ridge", "test": one(*test)}, "softmax"),
        ({"level": "everything", "test": one(*test)}, "level"),
        ({"level": "models"}, "no owner holds rows back"),
    ]
    for options, words in cases:
        with pytest.raises((InvalidGame, FederationFailed), match=words):
            ds.FederatedGame(here, **options)
    game = averaged(rows, test, block=4)
    with pytest.raises(InvalidGame, match="n_jobs="):
        ds.value(game, n_jobs=2)
