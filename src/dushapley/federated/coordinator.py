"""The coordinator's side: asks all owners a round at a time, and believes no answer unchecked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from secrets import token_hex
from time import monotonic, sleep
from typing import Any

from dushapley.arrays import AnyDict, AnyMapping, Names
from dushapley.errors import FederationFailed
from dushapley.federated.messages import Message
from dushapley.federated.policy import LEVELS
from dushapley.federated.schema import Agreement, agree
from dushapley.federated.transport import Contents, Transport
from dushapley.results.schema import (
    choice,
    fields,
    first,
    listed,
    mapped,
    number,
    rule,
    text,
    whole,
)
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


@dataclass
class Member:
    """An owner that has joined: where it is, what it told, and what its rows are known by."""

    name: str
    address: str
    schema: AnyMapping
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
        self._meet(until)
        while len(self.members) < (wanted or 1):
            if monotonic() > until:
                came = ", ".join(self.members) or "nobody"
                raise FederationFailed(
                    f"{len(self.members)} of {wanted or 'some'} owners joined within {within:g} s "
                    f"({came}). Start the others (`dushapley federate owner`), and the coordinator "
                    "again."
                )
            sleep(LOOK_AGAIN)
            self._meet(until)
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
        known = member.address
        if known != address:  # started again; or another of the same name, if the first answers
            there = name not in replaceable and known in self.transport.addresses()
            if there and known in self.transport.exchange({known: question}, self.patience):
                raise FederationFailed(
                    f"Two owners call themselves {name!r}. Start one of them by another --name."
                )
            self._strange.add(known)
            member.address = address
            member.schema = answer.about if self.agreement is None else member.schema
        self._count(member, question, reply, "schema")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the owners, in order."""
        return tuple(self.members)

    def refuse_level(self, level: str) -> None:
        """Refuse what some owner does not answer, before anything is trained."""
        against = [m for m in self.members.values() if level not in m.schema["levels"]]
        if against:
            told = "; ".join(f"{m.name} allows {m.schema['policy']}" for m in against)
            raise FederationFailed(
                f"The level {level!r} is not what all owners answer: {told}. Choose a level that "
                "all allow, or ask them."
            )

    def agree(
        self, *, scaled: bool, columns: Names | None = None, labels: Sequence[Any] = ()
    ) -> tuple[Agreement, tuple[str, ...]]:
        """Agree with all owners how rows become numbers; and notes about what differs."""
        schemas = {name: member.schema for name, member in self.members.items()}
        self.agreement, notes = agree(schemas, scaled=scaled, columns=columns, labels=labels)
        told = {"agreement": asdict(self.agreement)}

        def joined(name: str, answer: Message) -> None:
            content, rows = answer.about.get("content"), answer.about.get("rows")
            if not isinstance(content, str) or not is_whole(rows, 1, 2**53):
                raise FederationFailed("it lacks the fingerprint of its rows")
            member = self.members[name]
            member.content, member.rows = content, rows

        self.ask({name: Message("agree", told) for name in self.members}, joined)
        own = [
            f"{member.name}: {note}"
            for member in self.members.values()
            for note in member.schema["notes"]
        ]
        return self.agreement, (*notes, *own)

    def ask(self, questions: Mapping[str, Message], check: Check) -> AnyDict:
        """One round: a question to each of these owners, and what their answers came to.

        In the order of owners' names, whoever answered first.
        """
        self.rounds += 1
        self._stale.clear()
        started = monotonic()
        waiting = {name: self._addressed(name, q) for name, q in questions.items()}
        found: AnyDict = {}
        attempt, again = 0, False
        while attempt < self.attempts:
            for name, answer in self._answers(waiting, again=again):
                found[name] = self._checked(name, questions[name].kind, answer, check)
                del waiting[name]
            if not waiting:
                took = monotonic() - started
                self.seconds += took
                self.tell(f"round {self.rounds}: all answered, {took:.0f} s")
                return dict(sorted(found.items()))
            again = True
            self.tell(f"round {self.rounds}: {' and '.join(sorted(waiting))} must be asked again")
            attempt += not self._look_for(waiting)
        silent = " and ".join(sorted(waiting))
        raise FederationFailed(
            f"{silent} did not answer round {self.rounds} within {self.patience:g} s, asked "
            f"{self.attempts} times. See to its computer and start its owner again, then run the "
            "same again: what was paid is in the ledger."
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
        asked = [self.members[name] for name in waiting]
        sent = {member.address: waiting[member.name] for member in asked}
        for member in asked:
            member.traffic.repeated += again
        replies = self.transport.exchange(sent, self.patience)
        for member, question in zip(asked, sent.values(), strict=True):
            name, reply = member.name, replies.get(member.address)
            if reply is None:
                member.traffic.messages += 1
                member.traffic.sent += len(question)
                continue
            try:
                answer = Message.decode(reply)
            except FederationFailed as fault:
                raise self._wrong(name, "any", str(fault).rstrip(".")) from None
            self._count(member, question, reply, answer.kind)
            if answer.kind == "fault" and answer.about.get("rejoin") is True:
                self._rejoin(name)
            elif self._is_current(name, answer):
                yield name, answer

    def _is_current(self, name: str, answer: Message) -> bool:
        """Whether an answer is one to this round's question; one of an earlier round is dropped."""
        owner, run, number = (answer.about.get(key) for key in ("owner", "run", "round"))
        if owner != name:
            raise self._wrong(name, answer.kind, f"it comes from {owner!r}")
        if run == self.run and number == self.rounds:
            return True
        self.members[name].traffic.answered["stale"] += 1
        self._stale[name] += 1
        if self._stale[name] == self.attempts:
            raise self._wrong(name, answer.kind, f"it belongs to round {number}, not {self.rounds}")
        return False

    def _checked(self, name: str, kind: str, answer: Message, check: Check) -> Any:
        asked, reason = f"round {self.rounds} ({kind})", answer.about.get("reason")
        if answer.kind == "refused":
            raise Refused(f"{name} refused {asked}: {reason}.")
        if answer.kind == "fault":
            raise FederationFailed(f"{name} could not answer {asked}: {reason}.")
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

    def _look_for(self, waiting: Contents) -> bool:
        """Find owners that have not answered under addresses that are new; whether any came."""
        before = {member.address for member in self.members.values()}
        self._meet(monotonic() + self.patience, replaceable=waiting)
        back = [name for name in waiting if self.members[name].address not in before]
        for name in back:
            self._rejoin(name)
        return bool(back)

    def _rejoin(self, name: str) -> None:
        """Tell an owner that was started again what was agreed; its rows must be the same."""
        assert self.agreement is not None
        member = self.members[name]
        question = self._addressed(name, Message("agree", {"agreement": asdict(self.agreement)}))
        replies = self.transport.exchange({member.address: question}, self.patience)
        if (reply := replies.get(member.address)) is None:
            return
        answer = Message.decode(reply)
        self._count(member, question, reply, answer.kind)
        if answer.kind != "agree":
            raise FederationFailed(f"{name} cannot join again: {answer.about.get('reason')}.")
        if member.content and answer.about.get("content") != member.content:
            raise FederationFailed(
                f"The rows of {name} have changed since it joined. Start the coordinator again, "
                "which then values the rows as they are now."
            )

    def _count(self, member: Member, question: bytes, reply: bytes, kind: str) -> None:
        traffic = member.traffic
        traffic.messages += 1
        traffic.sent += len(question)
        traffic.received += len(reply)
        traffic.answered[kind] += 1

    def account(self) -> AnyDict:
        """Rounds, messages and bytes so far, in all and by owner."""
        owners, messages, size = {}, 0, 0
        for name, member in self.members.items():
            passed = member.traffic
            messages += passed.messages
            size += passed.sent + passed.received
            owners[name] = {
                "messages": passed.messages,
                "repeated": passed.repeated,
                "bytes_sent": passed.sent,
                "bytes_received": passed.received,
                "answered": dict(sorted(passed.answered.items())),
            }
        return {"rounds": self.rounds, "messages": messages, "bytes": size, "owners": owners}


def schema_fault(told: AnyMapping) -> str | None:
    """What is wrong with what an owner told of its table; None: nothing."""
    numbers = fields(
        {
            "kind": choice("number"),
            "count": whole(),
            "mean": number(),
            "square": number(least=0),
        }
    )
    words = fields(
        {
            "kind": choice("text"),
            "categories": listed(text(1000), most=100_000),
            "rare": whole(),
        }
    )

    def column(thing: object, where: str) -> str | None:
        wordy = isinstance(thing, Mapping) and thing.get("kind") == "text"
        return (words if wordy else numbers)(thing, where)

    label = rule(lambda x: isinstance(x, (str, bool, int, float)), "a label")
    checked = {
        "rows": whole(1),
        "columns": mapped(column),
        "target": fields(
            {
                "name": text(1000),
                "kind": choice("numbers", "classes"),
                "labels": listed(label, most=1000),
            }
        ),
        "levels": listed(choice(*LEVELS), most=len(LEVELS)),
        "policy": text(10_000),
        "held_back": whole(),
        "notes": listed(text(), most=1000),
    }
    return first(check(told.get(name), name) for name, check in checked.items())
