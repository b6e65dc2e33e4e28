"""A federation as an ordinary game: what a pool is worth when no row moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, Literal, NoReturn

import numpy as np

from dushapley.arrays import (
    AnyDict,
    AnyMapping,
    Array,
    BoolArray,
    FloatArray,
    IntArray,
    Names,
    Queries,
)
from dushapley.data.owners import Owners
from dushapley.errors import FederationFailed, InvalidGame
from dushapley.federated.coordinator import Federation, Refused
from dushapley.federated.messages import Arrays, Message, check_array
from dushapley.federated.policy import LEVELS
from dushapley.federated.schema import Table
from dushapley.federated.sums import summed_owners
from dushapley.federated.traffic import bytes_each, in_words
from dushapley.federated.transport import Transport
from dushapley.games.base import Answers, Outcome, average
from dushapley.games.model.batched.recipe import Optimizer, Recipe, Steps
from dushapley.games.model.batched.reference import SoftmaxRegression
from dushapley.games.model.catalogue import in_words as described
from dushapley.games.model.game import LIFTED, ModelGame
from dushapley.games.model.scoring.scorer import Scorer, best_constant
from dushapley.games.policy import Training
from dushapley.games.rows import RowsGame, blocks
from dushapley.hashing import content_hash, digest
from dushapley.protocol import Estimate
from dushapley.terminal import json_text
from dushapley.validation import check_choice, check_whole

MOST_BLOCK, BLOCK_NUMBERS = 256, 2**21
"""Pools that one message carries, and numbers (16 MB of weights)."""
USUAL = {"regression": "ridge", "classification": "lda"}
"""Models that are made of sums, by task."""


class FederatedGame(RowsGame):
    """u(S) = the score of a model trained on the rows of S, which stay with their owners.

    An ordinary game: estimators, ledger, precision, settlement and report work as with any other.
    One message an owner and round carries all pools of a block, hundreds of them.

    Parameters
    ----------
    federation
        The owners: a `Federation`, or a transport to them.
    level
        What leaves an owner. "sums": once, the sums that additive models are trained from (`model`
        "ridge", "lda" or "naive-bayes"); all pools are then arithmetic here. "gradients": in every
        step, sums of gradients over its rows, by which softmax regression is trained as it would
        be on pooled rows (the recipe of `dushapley.games.SoftmaxRegression`, in float64). "models":
        federated averaging: in each of `steps` rounds owners take `local_steps` steps of their own,
        and models are averaged by rows.
    test
        The coordinator's own test set, rows of nobody: a `Table`, or Owners of one. None: rows that
        owners hold back (`hold_back` of their policies) score models where they are, by accuracy;
        owners tell counts only.
    scoring
        A score of scikit-learn by name; None: what suits the task.
    model
        For "sums": a model by name. The other levels train softmax regression.
    steps, learning_rate, optimizer, momentum, l2
        See `dushapley.games.model.batched.recipe.Recipe`; `steps` are gradient steps, or rounds of
        "models".
    local_steps, local_batch
        Of "models": steps that an owner takes in a round, and rows of a mini-batch (None: all).
    columns
        Features to use; None: all, which every owner must have.
    empty
        u(∅): "constant", the best constant prediction on the test set; or a number.
    at_least
        "empty": pools whose model is worse than none count as nobody's data.
    on_refusal
        "raise", or count pools as nobody's data for which an owner refuses an answer ("empty").
    seed
        Of mini-batches.
    block
        Pools that one message carries at most; each block that is done is kept in the ledger.

    Examples
    --------
    >>> import numpy as np, dushapley as ds
    >>> from dushapley.federated import InProcess, Owner
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(90, 2)); y = (X @ [1.0, 2.0] > 0).astype(int)
    >>> def rows(a, b): return ds.Owners.from_arrays({"rows": (X[a:b], y[a:b])})
    >>> here = InProcess([Owner("north", rows(0, 20)), Owner("south", rows(20, 50))])
    >>> game = ds.FederatedGame(here, level="gradients", test=rows(50, 90), steps=5)
    >>> v = ds.value(game)
    >>> v.owners, v.values.round(2).tolist(), v.details["federation"]["rounds"]
    (('north', 'south'), [0.2, 0.23], 7)
    """

    def __new__(cls, *_: Any, level: str, **__: Any) -> FederatedGame:
        """Make a game of sums where these are what leaves an owner."""
        return super().__new__(SumsGame if level == "sums" else cls)

    def __init__(
        self,
        federation: Federation | Transport,
        *,
        level: Literal["sums", "gradients", "models"],
        test: Owners | Table | None = None,
        scoring: str | None = None,
        model: str | None = None,
        steps: int = 20,
        learning_rate: float = 0.5,
        optimizer: Optimizer = "sgd",
        momentum: float = 0.9,
        l2: float = 0.0,
        local_steps: int = 5,
        local_batch: int | None = None,
        columns: Names | None = None,
        empty: float | Literal["constant", "zero"] = "constant",
        at_least: Literal["empty"] | None = None,
        on_refusal: Literal["raise", "empty"] = "raise",
        seed: int = 0,
        block: int = MOST_BLOCK,
    ) -> None:
        check_choice(level, "level", LEVELS)
        check_choice("empty" if at_least is None else at_least, "at_least", ("empty",))
        check_choice(on_refusal, "on_refusal", ("raise", "empty"))
        refuse_misfit(level, test, scoring, model)
        asked = federation if isinstance(federation, Federation) else Federation(federation)
        asked.refuse_level(level)
        self.federation, self.level, self.on_refusal = asked, level, on_refusal
        self.at_least = at_least
        self.recipe = Recipe(
            steps=steps, learning_rate=learning_rate, optimizer=optimizer, momentum=momentum,
            l2=l2, seed=seed,
        )  # fmt: skip
        self.local = replace(
            self.recipe, steps=check_whole(local_steps, "local_steps"), batch_size=local_batch
        )
        self._most = check_whole(block, "block")
        table = None if test is None else Table.of(test)
        labels = () if table is None else table.schema(1)["target"]["labels"]
        self.agreement, self.said = asked.agree(
            scaled=level != "sums", columns=columns, labels=labels
        )
        self._know_owners()
        tested = None if table is None else self.agreement.encode(table, "The test file")
        self.tested = self._held_back() if tested is None else {"coordinator": len(tested[1])}
        self._identify(self._set_up(tested, model, scoring, empty))

    def _know_owners(self) -> None:
        """Set the owners as `RowsGame` knows them: by content, rank and size."""
        names, members = self.federation.names, self.federation.members.values()
        X, y = np.empty((0, self.agreement.width)), np.empty(0)
        contents = tuple(member.content for member in members)
        super().__init__(Owners(names, (X,) * len(names), (y,) * len(names), contents))
        self._set_owners([float(member.rows) for member in members], names)

    def _set_up(
        self, tested: tuple[FloatArray, Array] | None, model: str | None, scoring: Any, empty: Any
    ) -> str:
        """Set up training and scoring, and return a digest of all that decides a value."""
        if self.agreement.classes is None:
            raise InvalidGame(
                f"The target {self.agreement.target!r} is a number, but level={self.level!r} "
                "trains classes. Choose level='sums' with model='ridge'."
            )
        self.classes = np.array(list(self.agreement.classes))
        self.scoring, self.trained = scoring or "accuracy", f"SoftmaxRegression by {self.level}"
        self.model_notes: tuple[str, ...] = () if self.at_least is None else (LIFTED,)
        width = len(self.classes) * (self.agreement.width + 1)
        self.block = min(max(BLOCK_NUMBERS // width, 1), self._most)
        self.X_test, self.y_test = tested or (None, None)
        self.scorer = None if tested is None else Scorer(self.scoring, *tested, self.classes)
        members = self.federation.members
        labels = [np.array(m.schema["target"]["labels"]) for m in members.values()]
        self.has = np.array([np.isin(self.classes, known) for known in labels])
        self.nobody = self._empty(empty)
        shift = 0.0 if self.scorer is None else self.scorer.shift
        self.training = Training(deterministic=True, on_failure=self.on_refusal, shift=shift)
        local = asdict(self.local) if self.level == "models" else {}
        recipe = json_text([self.level, asdict(self.recipe), local, self.scoring])
        held = [f"{name} {member.content}" for name, member in members.items()]
        judged = held if tested is None else [content_hash(*tested)]
        least = [] if self.at_least is None else ["at least", self.at_least]
        named = recipe, self.agreement.name, self.nobody.value
        return digest("federated game", *named, *least, *judged)

    def _empty(self, empty: Any) -> Outcome:
        """What nobody's data is worth."""
        if empty == "zero":
            return Outcome(0.0)
        if isinstance(empty, (int, float)):
            return Outcome(float(empty))
        if self.scorer is not None:
            return average([best_constant(self.scorer)])
        weights = np.zeros((1, len(self.classes), self.agreement.width + 1))
        answers = self._score_there(weights, np.ones(weights.shape[:2], np.bool_))
        frequencies = np.sum([answer["labels"] for answer in answers], axis=0)
        return Outcome(float(frequencies.max() / frequencies.sum()))

    def _held_back(self) -> dict[str, int]:
        """Rows that each owner holds back."""
        held = {
            name: int(member.schema["held_back"])
            for name, member in self.federation.members.items()
        }
        if not any(held.values()):
            raise InvalidGame(
                "There is no test set: no test= was given, and no owner holds rows back. Pass "
                "test= with rows of nobody, or have owners say hold_back = 0.2 in their policies."
            )
        return {name: rows for name, rows in held.items() if rows}

    @property
    def notes(self) -> tuple[str, ...]:  # type: ignore[override]  # it grows with every round
        """What one must know to read the values, and what it has cost the owners so far."""
        told = {
            "sums": "No row moved: each owner sent sums over its rows, once.",
            "gradients": "No row moved: in every step each owner sent sums of gradients over its "
            "rows, and models are those of training on pooled rows.",
            "models": "No row moved: models were trained by federated averaging, each owner "
            f"taking {self.local.steps} steps a round on its own rows.",
        }
        rows = ", ".join(f"{name} {count:,}" for name, count in self.tested.items())
        there = f"Models were scored where owners hold rows back, by counts alone: {rows} rows."
        tested = () if "coordinator" in self.tested else (there,)
        return (
            *self.model_notes,
            told[self.level],
            *tested,
            in_words(self.federation.account()),
            *self.said,
        )

    def costs(self, evaluations: int | None = None) -> AnyMapping:
        """Return rounds, messages and bytes of so many evaluations, or what there were so far."""
        if evaluations is not None:
            return self._price(evaluations)
        asked = self.federation
        about = {
            "level": self.level,
            "test_rows": dict(self.tested),
            "policies": {name: member.schema["policy"] for name, member in asked.members.items()},
        }
        return {"federation": about | asked.account()}

    def _price(self, evaluations: int) -> Mapping[str, float]:
        steps = self.recipe.steps
        rounds = -(-evaluations // self.block) * (steps + (self.scorer is None))
        each = bytes_each(evaluations, len(self.classes), self.agreement.width + 1) * steps
        asked = self.federation
        seconds = asked.seconds / max(asked.rounds, 1) * steps / self.block
        return {
            "rounds": rounds,
            "messages": rounds * self.n_players,
            "bytes": each * self.n_players,
            "bytes_per_owner": each,
            "seconds": evaluations * seconds,
        }

    def closed_form(self, method: str, wishes: AnyMapping | None = None) -> Estimate | None:
        return None

    def evaluate(self, queries: Queries, draws: IntArray | None) -> Answers:
        """Train and score pools together, a block at a time."""
        paid = [self._paid(*part) for part in blocks(queries, draws, self.block)]
        return Answers.of([outcome for part in paid for outcome in part])

    def _paid(self, queries: Queries, draws: IntArray | None) -> list[Outcome]:
        try:
            return self._trained(queries, draws)
        except Refused as refusal:
            if self.on_refusal == "raise":
                raise
            if len(queries) == 1:
                return [Outcome(float("nan"), f"refused: {refusal}")]
        return [self._paid(*part)[0] for part in blocks(queries, draws, 1)]

    def _trained(self, queries: Queries, draws: IntArray | None) -> list[Outcome]:
        counts = self.counts(queries)
        filled = np.flatnonzero(counts.any(axis=1))
        outcomes = [self.nobody] * len(queries)
        if not len(filled):
            return outcomes
        ids = np.zeros(len(queries), dtype=np.int64) if draws is None else draws
        pools = Pools(self, counts[filled], ids[filled])
        scores = self._judged(pools.weights(), pools.present)
        for row, outcome in zip(filled.tolist(), scores, strict=True):
            low = self.at_least is not None and outcome.value < self.nobody.value
            outcomes[row] = self.nobody if low else outcome
        return outcomes

    def _judged(self, weights: FloatArray, present: BoolArray) -> list[Outcome]:
        """Outcomes of trained pools, by the test set here or by held-back rows there."""
        if self.scorer is not None:
            return [
                average([self.scorer(model)]) for model in map(self.classifier, weights, present)
            ]
        answers = self._score_there(weights, present)
        rows = np.concatenate([answer["rows"] for answer in answers])
        right = np.concatenate([answer["right"] for answer in answers], axis=1)
        return [_counted(pool, rows) for pool in right]

    def classifier(self, weights: FloatArray, present: BoolArray) -> SoftmaxRegression:
        """A fitted classifier of these weights."""
        model = SoftmaxRegression(classes=self.classes)
        model.weights_, model.present_, model.classes_ = [weights], present, self.classes
        model.n_features_in_ = self.agreement.width
        return model

    def _score_there(self, weights: FloatArray, present: BoolArray) -> list[Arrays]:
        """Counts of held-back rows that each model gets right, owner by owner."""
        question = Message(
            "scores", {"pools": len(weights)}, {"weights": weights, "present": present}
        )

        def check(name: str, answer: Message) -> Arrays:
            groups = len(answer.arrays.get("rows", ()))
            rows = check_array(answer.arrays, "rows", "i", (groups,))
            right = check_array(answer.arrays, "right", "i", (len(weights), groups))
            labels = check_array(answer.arrays, "labels", "i", (len(self.classes),))
            scored, held = int(rows.sum()), self.tested[name]
            if scored != held or labels.sum() != held:
                raise FederationFailed(f"it scored {scored} rows, and held back {held}")
            if (right < 0).any() or (right > rows).any() or (rows < 1).any():
                raise FederationFailed("it counts more rows as right than there are")
            return {"rows": rows, "right": right, "labels": labels}

        return list(self.federation.ask(dict.fromkeys(self.tested, question), check).values())

    def with_owners(self, owners: Owners) -> NoReturn:
        raise InvalidGame(
            "A federation is made of those who joined it. Start a coordinator with the owners that "
            "are to be valued."
        )

    def __getstate__(self) -> NoReturn:
        raise InvalidGame(
            "A federation is asked from the process that coordinates it, and each owner computes "
            "for itself. Leave out n_jobs= and executor=."
        )


class SumsGame(FederatedGame):
    """Pools trained here, from the sums that each owner sends once."""

    def _set_up(
        self, tested: tuple[FloatArray, Array] | None, model: str | None, scoring: Any, empty: Any
    ) -> str:
        assert tested is not None
        task: Any = "regression" if self.agreement.classes is None else "classification"
        self.inner = ModelGame(
            summed_owners(self.federation, self.agreement), model or USUAL[task], *tested,
            scoring=scoring, task=task, empty=empty, at_least=self.at_least,
        )  # fmt: skip
        self.cheap, self.fractions, self.block = True, self.inner.fractions, self.inner.block
        self.training, self.scoring = self.inner.training, self.inner.scoring
        self.model_notes, self.trained = self.inner.notes, described(self.inner.model)
        return digest("federated sums", str(self.inner.context))

    def _price(self, evaluations: int) -> Mapping[str, float]:
        return dict.fromkeys(("rounds", "messages", "bytes", "bytes_per_owner", "seconds"), 0)

    def closed_form(self, method: str, wishes: AnyMapping | None = None) -> Estimate | None:
        return self.inner.closed_form(method, wishes)

    def keys(self, queries: Queries, draws: IntArray | None) -> list[bytes]:
        return self.inner.keys(queries, draws)

    def evaluate(self, queries: Queries, draws: IntArray | None) -> Answers:
        return self.inner.evaluate(queries, draws)


class Pools:
    """A block of pools on its way to trained weights.

    Parameters
    ----------
    game
        Whose owners are asked.
    counts, draws
        Rows taken of each owner, shape (m, I), and draw ids, shape (m,).
    """

    def __init__(self, game: FederatedGame, counts: IntArray, draws: IntArray) -> None:
        self.game, self.counts, self.draws = game, counts, draws
        holding = ((j, np.flatnonzero(counts[:, j])) for j in game.order)
        self.members = [(j, pools) for j, pools in holding if len(pools)]
        whole = counts == game.sizes
        self.present = np.asarray((whole @ game.has.astype(np.int64)) > 0)
        if (~whole & (counts > 0)).any():  # only its owner knows which classes some rows have
            answers = self._ask("classes", {"level": game.level}, None)
            for j, pools in self.members:
                self.present[pools] |= answers[game.names[j]]

    def weights(self) -> FloatArray:
        """Train by the game's recipe; shape (m, C, d+1)."""
        game, rows = self.game, self.counts.sum(axis=1)
        weights = np.zeros((len(rows), len(game.classes), game.agreement.width + 1))
        if game.level == "models":
            for round_ in range(game.recipe.steps):
                about = {"recipe": asdict(game.local), "training_round": round_}
                weights = self._summed("steps", about, weights, self.counts / rows[:, None])
            return weights
        steps = [Steps(game.recipe, [pool]) for pool in weights]
        for _ in range(game.recipe.steps):
            slopes = self._summed("gradients", {}, weights, np.ones(self.counts.shape))
            for step, slope, n in zip(steps, slopes, rows, strict=True):
                step.take([slope / n])
        return weights

    def _summed(
        self, kind: str, about: AnyDict, weights: FloatArray, parts: FloatArray
    ) -> FloatArray:
        """Add up answers over owners, in the order of content, each times its entry of `parts`."""
        answers = self._ask(kind, about, weights)
        total = np.zeros_like(weights)
        for j, pools in self.members:
            total[pools] += parts[pools, j, None, None] * answers[self.game.names[j]]
        return total

    def _ask(self, kind: str, about: AnyDict, weights: FloatArray | None) -> AnyDict:
        """One round: each owner is asked about the pools that it is in."""
        answered = {
            "gradients": ("slopes", "f"),
            "steps": ("weights", "f"),
            "classes": ("seen", "b"),
        }
        shapes, questions = {}, {}
        for j, pools in self.members:
            name = self.game.names[j]
            arrays = {"counts": self.counts[pools, j], "draws": self.draws[pools]}
            shapes[name] = (len(pools), len(self.game.classes))
            if weights is not None:
                arrays |= {"weights": weights[pools], "present": self.present[pools]}
                shapes[name] = arrays["weights"].shape
            told = {**about, "pools": len(pools), "rank": self.game.ranks[j]}
            questions[name] = Message(kind, told, arrays)

        def check(name: str, answer: Message) -> Array:
            return check_array(answer.arrays, *answered[kind], shapes[name])

        return self.game.federation.ask(questions, check)


def _counted(right: IntArray, rows: IntArray) -> Outcome:
    """The accuracy over all held-back rows, and its influence by group (see `grouped`)."""
    n, groups = rows.sum(), len(rows)
    mean = float(right.sum() / n)
    if groups < 2:
        return Outcome(mean)
    scores = mean + (rows * groups / n) * (right / rows - mean)
    return Outcome(mean, scores=scores)


def refuse_misfit(level: str, test: object, scoring: str | None, model: str | None) -> None:
    """Refuse what does not go together, before anybody is asked."""
    if level == "sums" and test is None:
        raise InvalidGame(
            "level='sums' trains models here, so that owners could not score them. Pass test= "
            "with rows of nobody, or choose level='gradients'."
        )
    if level != "sums" and model is not None:
        raise InvalidGame(
            f"model={model!r} was given, but level={level!r} trains softmax regression. Leave it "
            "out, or choose level='sums'."
        )
    if test is None and scoring not in (None, "accuracy"):
        raise InvalidGame(
            f"scoring={scoring!r} was given, but rows that owners hold back are scored by counts "
            "alone, which is accuracy. Leave it out, or pass test=."
        )
