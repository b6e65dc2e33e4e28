"""The owner's side of a federation: rows that answer questions, under the owner's own policy.

No row leaves. What does leave is decided here, by the policy, and written to a log before it goes.
How questions arrive (see `transport`) is no concern of this module.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dushapley.arrays import Array, IntArray
from dushapley.data.owners import Owners
from dushapley.data.summaries import classification_statistics, regression_statistics
from dushapley.errors import DUShapleyError, FederationFailed, InvalidOwners
from dushapley.federated.messages import Message, check_array
from dushapley.federated.policy import Log, Policy
from dushapley.federated.schema import Agreement, Table
from dushapley.federated.steps import Rows, held_back_groups
from dushapley.games.model.batched.recipe import Recipe
from dushapley.games.rows import drawn_rows
from dushapley.hashing import content_hash, package_version, random_numbers

LEVEL_OF = {"sums": "sums", "classes": "gradients", "gradients": "gradients", "steps": "models"}
"""The level of the policy that a question belongs to; the others come before any level."""


class Refusal(Exception):
    """The policy does not allow an answer; the text says why."""


class NotJoined(Exception):
    """The owner was started again and must be told first what was agreed."""


@dataclass
class Joined:
    """What was agreed with one coordinator: the rows as numbers, and those held back."""

    X: Array
    y: Array
    content: str
    rows: Rows | None
    held: Rows | None


class Owner:
    """One owner of a federation: it answers questions about rows that stay with it.

    Parameters
    ----------
    name
        What the others call it.
    data
        Its rows: a `Table`, or `dushapley.Owners` (whose rows are then all its).
    policy
        What it answers.
    log
        Where it notes all that leaves.
    changed
        Asked before every answer: whether the files have changed since they were read.
    notes
        What the owner's own intake check found odd, in sentences for the coordinator, which must
        quote nothing of the rows.

    Examples
    --------
    >>> import dushapley as ds
    >>> from dushapley.federated import Message, Owner, Policy
    >>> rows = ds.Owners.from_arrays({"north": ([[1.0], [2.0], [3.0]], ["a", "b", "a"])})
    >>> north = Owner("north", rows, Policy(least_rows=2))
    >>> answer = Message.decode(north.answer(Message("schema", {"run": "r", "round": 1}).encode()))
    >>> answer.about["rows"], answer.about["target"]["labels"]
    (3, ['a', 'b'])
    """

    def __init__(
        self,
        name: str,
        data: Owners | Table,
        policy: Policy | None = None,
        log: Log | None = None,
        *,
        changed: Callable[[], bool] = lambda: False,
        notes: tuple[str, ...] = (),
    ) -> None:
        self.name, self.policy = name, Policy() if policy is None else policy
        self.log = Log() if log is None else log
        self.changed, self.notes = changed, notes
        table = Table.of(data).only(self.policy.columns)
        kept, held = _held_back(len(table), self.policy.hold_back)
        self.table, self.held_back = table.rows(kept), table.rows(held)
        size, least = len(self.table), self.policy.least_rows
        if size < least:
            raise InvalidOwners(
                f"{name} has {size:,} rows to train on, and its policy answers of at least "
                f"{least:,}. Bring more rows, or lower least_rows."
            )
        self.joined: dict[str, Joined] = {}
        self._answers: dict[str, Callable[[Message], Message]] = {
            "schema": self._schema,
            "agree": self._agree,
            "sums": self._sums,
            "classes": self._classes,
            "gradients": self._gradients,
            "steps": self._steps,
            "scores": self._scores,
        }

    def answer(self, content: bytes) -> bytes:
        """The answer to a question, both as bytes: always one, if only that there is none."""
        question, secret = Message("unknown"), ""
        try:
            question = Message.decode(content)
            self._refuse(question)
            reply = self._answers[question.kind](question)
        except Refusal as refusal:
            reply = Message("refused", {"reason": str(refusal)})
        except NotJoined:
            reply = Message("fault", {"reason": f"{self.name} was started again", "rejoin": True})
        except DUShapleyError as error:
            reply = Message("fault", {"reason": str(error)})
        except Exception as error:  # whatever a question does to us, the next is answered
            reason = f"the question {question.kind!r} does not make sense to {self.name}"
            reply = Message("fault", {"reason": f"{reason} ({type(error).__name__})"})
            secret = f" [{error}]"  # which may quote a cell, and is for the owner alone
        echo = {key: question.about.get(key) for key in ("run", "round")}
        sent = Message(reply.kind, {**reply.about, **echo, "owner": self.name}, reply.arrays)
        written = sent.encode()
        try:
            self.log.add(echo, sent.kind, _words(sent) + secret, len(written))
        except OSError as error:
            reason = f"{self.name} cannot write its log ({error.strerror}), so nothing leaves it"
            return Message("fault", {"reason": reason, **echo, "owner": self.name}).encode()
        return written

    def _refuse(self, question: Message) -> None:
        """Refuse what the policy does not allow, and questions about rows that have changed."""
        if question.kind not in self._answers:
            raise FederationFailed(f"{self.name} knows no question {question.kind!r}")
        policy, about = self.policy, question.about
        level = LEVEL_OF.get(question.kind)
        if question.kind == "classes":
            level = str(about.get("level"))
        if level is not None and level not in policy.levels:
            raise Refusal(f"{self.name} does not answer {level}: its policy allows {policy.words}")
        most = policy.most_questions
        if most is not None and self.log.questions >= most:
            raise Refusal(f"{self.name} has answered all {most:,} questions")
        most, rounds = policy.most_rounds, self.log.rounds
        new = (about.get("run"), about.get("round")) not in rounds
        if most is not None and new and len(rounds) >= most:
            raise Refusal(f"{self.name} has taken part in all {most:,} rounds")
        if self.changed():
            raise FederationFailed(
                f"the files of {self.name} have changed since it joined; start its owner again, "
                "and then the coordinator"
            )

    def _schema(self, question: Message) -> Message:
        told = self.table.schema(self.policy.least_rows) | {
            "name": self.name,
            "levels": list(self.policy.levels),
            "policy": self.policy.words,
            "held_back": len(self.held_back),
            "notes": list(self.notes),
            "version": package_version("dushapley"),
        }
        return Message("schema", told)

    def _agree(self, question: Message) -> Message:
        agreement = Agreement(**question.about["agreement"])
        X, y = agreement.encode(self.table, self.name)
        rows = held = None
        if agreement.classes is not None:
            classes = np.array(list(agreement.classes))
            rows = Rows(X, y, classes)
            if len(self.held_back):
                held = Rows(*agreement.encode(self.held_back, self.name), classes)
        joined = Joined(X, y, content_hash(X, y), rows, held)
        self.joined = {agreement.name: joined}  # of one federation at a time
        return Message("agree", {"content": joined.content, "rows": len(joined.y)})

    def _known(self, question: Message) -> Joined:
        """What was agreed, of which the question has the name."""
        name = question.about["agreement"]
        if name not in self.joined:
            raise NotJoined
        joined = self.joined[name]
        if question.about["content"] != joined.content:
            raise FederationFailed(
                f"the rows of {self.name} are others than when it joined; start the coordinator "
                "again"
            )
        return joined

    def _sums(self, question: Message) -> Message:
        joined = self._known(question)
        makers = {"regression": regression_statistics, "classification": classification_statistics}
        made = makers[question.about["statistics"]](self.name, joined.X, joined.y)
        arrays = dict(made.arrays)
        classes = arrays.pop("classes", None)
        about = {
            "labels": [] if classes is None else classes.tolist(),
            "n_rows": made.n_rows,
            "n_features": made.n_features,
        }
        return Message("sums", about, arrays)

    def _block(self, question: Message) -> tuple[Rows, list[IntArray | slice]]:
        """The rows of each pool of a block."""
        joined, about = self._known(question), question.about
        if joined.rows is None:
            raise FederationFailed(f"{self.name} was asked for classes of a target of numbers")
        counts = check_array(question.arrays, "counts", "i", (int(about["pools"]),))
        draws = check_array(question.arrays, "draws", "i", counts.shape)
        least = self.policy.least_rows
        few = counts[counts < least]
        if len(few):
            raise Refusal(
                f"{self.name} was asked for {int(few[0])} of its rows, and its policy answers of "
                f"at least {least:,}"
            )
        name = f"{joined.content} {int(about['rank'])}"
        pairs = zip(counts.tolist(), draws.tolist(), strict=True)
        return joined.rows, [drawn_rows(draw, name, n, len(joined.y)) for n, draw in pairs]

    def _weights(self, question: Message, rows: Rows) -> tuple[Array, Array]:
        """Weights and classes of every pool."""
        pools, classes = int(question.about["pools"]), rows.targets.shape[1]
        shape = (pools, classes, rows.X.shape[1])
        present = check_array(question.arrays, "present", "b", (pools, classes))
        return check_array(question.arrays, "weights", "f", shape), present

    def _classes(self, question: Message) -> Message:
        rows, pools = self._block(question)
        return Message("classes", {}, {"seen": np.array([rows.seen(which) for which in pools])})

    def _gradients(self, question: Message) -> Message:
        rows, pools = self._block(question)
        block = zip(*self._weights(question, rows), pools, strict=True)
        found = np.array([rows.slopes(w, which, present) for w, present, which in block])
        return Message("gradients", {}, {"slopes": found})

    def _steps(self, question: Message) -> Message:
        rows, pools = self._block(question)
        recipe, round_ = Recipe(**question.about["recipe"]), int(question.about["training_round"])
        block = zip(*self._weights(question, rows), pools, strict=True)
        found = np.array([rows.stepped(w, r, p, recipe, round_) for w, p, r in block])
        return Message("steps", {}, {"weights": found})

    def _scores(self, question: Message) -> Message:
        held = self._known(question).held
        if held is None:
            raise FederationFailed(f"{self.name} holds no rows back (hold_back of its policy)")
        size, least = len(self.held_back), self.policy.least_rows
        if size < least:
            raise Refusal(
                f"{self.name} holds {size:,} rows back, and its policy answers of at least "
                f"{least:,}"
            )
        groups = held_back_groups(size, least)
        block = zip(*self._weights(question, held), strict=True)
        right = np.array([held.right(w, present, groups) for w, present in block])
        sizes = np.array([len(group) for group in groups], dtype=np.int64)
        frequencies = held.targets.sum(axis=0).astype(np.int64)
        return Message("scores", {}, {"right": right, "rows": sizes, "labels": frequencies})


def _held_back(n_rows: int, part: float) -> tuple[IntArray, IntArray]:
    """Rows to train on and rows to score by, both in their order; the same in every process."""
    order = np.argsort(random_numbers("held back", n_rows), kind="stable")
    count = round(part * n_rows)
    return np.sort(order[count:]), np.sort(order[:count])


def _words(answer: Message) -> str:
    """What leaves, for the owner's log."""
    if answer.kind in ("refused", "fault"):
        return f"no answer: {answer.about['reason']}"
    pools = len(next(iter(answer.arrays.values()), ()))
    words = {
        "schema": "names and kinds of columns, categories, labels, rows, means and spreads",
        "agree": "number of rows and their fingerprint",
        "sums": "sums: counts, means, squares and products of columns",
        "classes": f"which classes its part of {pools} pools has",
        "gradients": f"sums of gradients over its rows in {pools} pools",
        "steps": f"models trained on its rows for {pools} pools",
        "scores": f"counts of held-back rows that {pools} models predict rightly",
    }
    return words[answer.kind]
