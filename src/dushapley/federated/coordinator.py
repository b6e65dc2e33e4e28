"""The coordinator's side: asks all owners a round at a time, and believes no answer unchecked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from secrets import token_hex
from time import monotonic, sleep
from typing import Any

from dushapley.errors import FederationFailed
from dushapley.federated.messages import Message
from dushapley.federated.policy import LEVELS
from dushapley.federated.schema import Agreement, agree
from dushapley.federated.transport import Transport
from dushapley.results import schema as rules
from dushapley.validation import check_whole, is_number, is_whole


class Refused(FederationFailed):
    """An owner's policy does not allow an answer."""


Check = Callable[[str, Message], Any]
"""(owner, its answer) -> what it came to; raises `FederationFailed` with what is wrong."""
LOOK_AGAIN = 0.5
"""Seconds between two looks for owners that are not there yet."""


@dataclass
class Traffic:
    """What passed between the coordinator and one owner.

    Attributes
    ----------
    sent, received
        Bytes to the owner and from it.
    messages
        Questions sent.
    repeated
        Of those, how many were asked before and not answered in time.
    answered
        Answers by kind; refusals are "refused".
    """

    sent: int = 0
    received: int = 0
    messages: int = 0
    repeated: int = 0
    answered: Counter[str] = field(default_factory=Counter)

    def record(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "messages": self.messages,
            "repeated": self.repeated,
            "bytes_sent": self.sent,
            "bytes_received": self.received,
            "answered": dict(sorted(self.answered.items())),
        }


@dataclass
class Member:
    """An owner that has joined: where it is, what it told, and what its rows are known by."""

    name: str
    address: str
    schema: Mapping[str, Any]
    content: str = ""
    rows: int = 0
    traffic: Traffic = field(default_factory=Traffic)


class Federation:
    """All owners of one valuation, asked in rounds.

    Parameters
    ----------
    transport
        How they are reached.
    n_owners
        How many are waited for; None: all that can be reached now.
    patience
        Seconds in which an answer must come.
    attempts
        How often a question is asked that is not answered in time.
    join_within
        Seconds in which all owners must be there; None: `patience` times `attempts`.
    tell
        Is told of every round how long it took, and for whom it waits.

    Attributes
    ----------
    members
        The owners by name, in the order of their names.
    rounds
        Rounds so far; every message has the number of its round.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        n_owners: int | None = None,
        patience: float = 60.0,
        attempts: int = 3,
        join_within: float | None = None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        if not is_number(patience, above=0) or not is_whole(attempts, 1):
            raise FederationFailed(
                f"patience is {patience!r} and attempts {attempts!r}; a federation needs a "
                "positive number of seconds, and at least one attempt."
            )
        self.transport, self.patience, self.attempts = transport, patience, attempts
        self.run, self.tell = token_hex(8), tell
        self.rounds, self.seconds = 0, 0.0
        self.agreement: Agreement | None = None
        self.members: dict[str, Member] = {}
        self._stale: Counter[str] = Counter()  # answers to other rounds, in this one
        self._strange: set[str] = set()  # addresses of nobody here: left, or come too late
        within = patience * attempts if join_within is None else join_within
        self._gather(None if n_owners is None else check_whole(n_owners, "n_owners"), within)

    def _gather(self, wanted: int | None, within: float) -> None:
        """Wait until all owners are there, and hear what each has."""
        until = monotonic() + within
        while True:
            self._meet(until)
            if self.members and (wanted is None or len(self.members) >= wanted):
                break
            if monotonic() > until:
                came = ", ".join(self.members) or "nobody"
                raise FederationFailed(
                    f"{len(self.members)} of {wanted or 'some'} owners joined within {within:g} s "
                    f"({came}). Start the others (`dushapley federate owner`), and the coordinator "
                    "again."
                )
            sleep(LOOK_AGAIN)
        self.members = dict(sorted(self.members.items()))

    def _meet(self, until: float, replaceable: Collection[str] = ()) -> None:
        """Ask addresses that are not known yet who they are.

        Only those who are waited for may come back under another address.
        """
        known = {member.address for member in self.members.values()} | self._strange
        new = [address for address in self.transport.addresses() if address not in known]
        if not new:
            return
        self.rounds = max(self.rounds, 1)  # joining is the first round, whenever it happens
        question = Message("schema", {"run": self.run, "round": 1}).encode()
        wait = min(self.patience, max(until - monotonic(), 1.0))
        replies = self.transport.exchange(dict.fromkeys(new, question), wait)
        for address in new:
            if address in replies:
                self._welcome(address, question, replies[address], replaceable)

    def _welcome(
        self, address: str, question: bytes, reply: bytes, replaceable: Collection[str]
    ) -> None:
        answer = Message.decode(reply)
        name = answer.about.get("owner")
        if self.agreement is not None and name not in replaceable:
            if name not in self.members:
                self._strange.add(address)
                self.tell(f"{name} has come after the start and takes no part")
            return
        if answer.kind != "schema" or not isinstance(name, str) or not 0 < len(name) <= 200:
            reason = answer.about.get("reason", f"it answered {answer.kind!r}")
            raise FederationFailed(f"An owner cannot join: {reason}.")
        fault = schema_fault(answer.about)
        if fault is not None:
            raise FederationFailed(f"{name} cannot join: its schema is wrong ({fault}).")
        member = self.members.setdefault(name, Member(name, address, answer.about))
        if member.address != address:  # started again, or another of the same name
            if name not in replaceable and self._is_there(member.address, question):
                raise FederationFailed(
                    f"Two owners call themselves {name!r}. Start one of them by another --name."
                )
            self._strange.add(member.address)
            member.address = address
            member.schema = answer.about if self.agreement is None else member.schema
        self._count(member, question, reply, "schema")

    def _is_there(self, address: str, question: bytes) -> bool:
        """Whether an owner that has joined still answers: it may have been started again."""
        there = address in self.transport.addresses()
        return there and address in self.transport.exchange({address: question}, self.patience)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the owners, in order."""
        return tuple(self.members)

    def refuse_level(self, level: str) -> None:
        """Refuse what some owner does not answer, before anything is trained."""
        assert level in LEVELS
        against = [m for m in self.members.values() if level not in m.schema["levels"]]
        if against:
            told = "; ".join(f"{m.name} allows {m.schema['policy']}" for m in against)
            raise FederationFailed(
                f"The level {level!r} is not what all owners answer: {told}. Choose a level that "
                "all allow, or ask them."
            )

    def agree(
        self, *, scaled: bool, columns: Sequence[str] | None = None, labels: Sequence[Any] = ()
    ) -> tuple[Agreement, tuple[str, ...]]:
        """Agree with all owners how rows become numbers; and notes about what differs."""
        schemas = {name: member.schema for name, member in self.members.items()}
        self.agreement, notes = agree(schemas, scaled=scaled, columns=columns, labels=labels)
        told = {"agreement": self.agreement.record()}

        def joined(name: str, answer: Message) -> None:
            content, rows = answer.about.get("content"), answer.about.get("rows")
            if not isinstance(content, str) or not is_whole(rows, 1, 2**53):
                raise FederationFailed("it lacks the fingerprint of its rows")
            self.members[name].content, self.members[name].rows = content, rows

        self.ask({name: Message("agree", told) for name in self.members}, joined)
        own = [f"{n}: {note}" for n, m in self.members.items() for note in m.schema["notes"]]
        return self.agreement, (*notes, *own)

    def ask(self, questions: Mapping[str, Message], check: Check) -> dict[str, Any]:
        """One round: a question to each of these owners, and what their answers came to.

        In the order of owners' names, whoever answered first.
        """
        self.rounds += 1
        self._stale.clear()
        started = monotonic()
        waiting = {name: self._addressed(name, q) for name, q in questions.items()}
        found: dict[str, Any] = {}
        attempt, again = 0, False
        while attempt < self.attempts:
            for name, answer in self._answers(waiting, again=again):
                found[name] = self._checked(name, questions[name].kind, answer, check)
                del waiting[name]
            if not waiting:
                self.seconds += monotonic() - started
                self.tell(f"round {self.rounds}: all answered, {monotonic() - started:.0f} s")
                return {name: found[name] for name in sorted(found)}
            again = True
            self.tell(f"round {self.rounds}: {' and '.join(sorted(waiting))} must be asked again")
            attempt += not self._look_for(waiting)
        raise FederationFailed(
            f"{' and '.join(sorted(waiting))} did not answer round {self.rounds} within "
            f"{self.patience:g} s, asked {self.attempts} times. See to its computer and start its "
            "owner again, then run the same again: what was paid is in the ledger."
        )

    def _addressed(self, name: str, question: Message) -> bytes:
        """A question with what makes its answer checkable: run, round, agreement, content."""
        member, made = self.members[name], self.agreement
        known = {"run": self.run, "round": self.rounds}
        if question.kind != "agree" and made is not None:
            known |= {"agreement": made.name, "content": member.content}
        return Message(question.kind, {**question.about, **known}, question.arrays).encode()

    def _answers(self, waiting: dict[str, bytes], *, again: bool) -> Iterator[tuple[str, Message]]:
        """Answers of this round that came in time; owners started anew are told the agreement."""
        sent = {self.members[name].address: (name, q) for name, q in waiting.items()}
        for name in waiting:
            self.members[name].traffic.repeated += again
        replies = self.transport.exchange({a: q for a, (_, q) in sent.items()}, self.patience)
        for address, (name, question) in sent.items():
            if address not in replies:
                self.members[name].traffic.messages += 1
                self.members[name].traffic.sent += len(question)
                continue
            answer = self._read(name, replies[address])
            self._count(self.members[name], question, replies[address], answer.kind)
            if answer.kind == "fault" and answer.about.get("rejoin") is True:
                self._rejoin(name)
            elif self._is_current(name, answer):
                yield name, answer

    def _read(self, name: str, reply: bytes) -> Message:
        try:
            return Message.decode(reply)
        except FederationFailed as fault:
            raise self._wrong(name, "any", str(fault).rstrip(".")) from None

    def _is_current(self, name: str, answer: Message) -> bool:
        """Whether an answer is one to this round's question; one of an earlier round is dropped."""
        about = answer.about
        if about.get("owner") != name:
            raise self._wrong(name, answer.kind, f"it comes from {about.get('owner')!r}")
        if about.get("run") == self.run and about.get("round") == self.rounds:
            return True
        self.members[name].traffic.answered["stale"] += 1
        self._stale[name] += 1
        if self._stale[name] == self.attempts:
            raise self._wrong(
                name, answer.kind, f"it belongs to round {about.get('round')}, not {self.rounds}"
            )
        return False

    def _checked(self, name: str, kind: str, answer: Message, check: Check) -> Any:
        if answer.kind == "refused":
            raise Refused(
                f"{name} refused round {self.rounds} ({kind}): {answer.about.get('reason')}."
            )
        if answer.kind == "fault":
            raise FederationFailed(
                f"{name} could not answer round {self.rounds} ({kind}): "
                f"{answer.about.get('reason')}."
            )
        if answer.kind != kind:
            raise self._wrong(name, kind, f"it answers {answer.kind!r}")
        try:
            return check(name, answer)
        except FederationFailed as fault:
            raise self._wrong(name, kind, str(fault)) from None

    def _wrong(self, name: str, kind: str, fault: str) -> FederationFailed:
        return FederationFailed(
            f"The answer of {name} to round {self.rounds} ({kind}) cannot be used: {fault}. "
            "Nothing of this round was; what was paid before is in the ledger."
        )

    def _look_for(self, waiting: Mapping[str, bytes]) -> bool:
        """Find owners that have not answered under addresses that are new; whether any came."""
        before = {name: self.members[name].address for name in waiting}
        self._meet(monotonic() + self.patience, replaceable=waiting)
        back = [name for name in waiting if self.members[name].address != before[name]]
        for name in back:
            self._rejoin(name)
        return bool(back)

    def _rejoin(self, name: str) -> None:
        """Tell an owner that was started again what was agreed; its rows must be the same."""
        if self.agreement is None:
            return
        member = self.members[name]
        about = {"run": self.run, "round": self.rounds, "agreement": self.agreement.record()}
        question = Message("agree", about).encode()
        replies = self.transport.exchange({member.address: question}, self.patience)
        if member.address not in replies:
            return
        answer = Message.decode(replies[member.address])
        self._count(member, question, replies[member.address], answer.kind)
        if answer.kind != "agree":
            raise FederationFailed(f"{name} cannot join again: {answer.about.get('reason')}.")
        if member.content and answer.about.get("content") != member.content:
            raise FederationFailed(
                f"The rows of {name} have changed since it joined. Start the coordinator again, "
                "which then values the rows as they are now."
            )

    def _count(self, member: Member, question: bytes, reply: bytes, kind: str) -> None:
        member.traffic.messages += 1
        member.traffic.sent += len(question)
        member.traffic.received += len(reply)
        member.traffic.answered[kind] += 1

    def account(self) -> dict[str, Any]:
        """Rounds, messages and bytes so far, in all and by owner."""
        traffic = [member.traffic for member in self.members.values()]
        return {
            "rounds": self.rounds,
            "messages": sum(t.messages for t in traffic),
            "bytes": sum(t.sent + t.received for t in traffic),
            "owners": {name: member.traffic.record() for name, member in self.members.items()},
        }


def schema_fault(told: Mapping[str, Any]) -> str | None:
    """What is wrong with what an owner told of its table; None: nothing."""
    number = rules.fields(
        {
            "kind": rules.choice("number"),
            "count": rules.whole(),
            "mean": rules.number(),
            "square": rules.number(least=0),
        }
    )
    text = rules.fields(
        {
            "kind": rules.choice("text"),
            "categories": rules.listed(rules.text(1000), most=100_000),
            "rare": rules.whole(),
        }
    )

    def column(thing: object, where: str) -> str | None:
        wordy = isinstance(thing, Mapping) and thing.get("kind") == "text"
        return (text if wordy else number)(thing, where)

    label = rules.rule(lambda x: isinstance(x, (str, bool, int, float)), "a label")
    target = {
        "name": rules.text(1000),
        "kind": rules.choice("numbers", "classes"),
        "labels": rules.listed(label, most=1000),
    }
    checked = {
        "rows": rules.whole(1),
        "columns": rules.mapped(column),
        "target": rules.fields(target),
        "levels": rules.listed(rules.choice(*LEVELS), most=len(LEVELS)),
        "policy": rules.text(10_000),
        "held_back": rules.whole(),
        "notes": rules.listed(rules.text(), most=1000),
    }
    return rules.first(check(told.get(name), name) for name, check in checked.items())
