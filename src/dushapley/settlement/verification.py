"""Does a settlement hold? Computed again, from its inputs to the last cent."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from dushapley.arrays import AnyDict, AnyMapping, BoolArray
from dushapley.data.files import PathLike, SourceFile
from dushapley.data.findings import CODES
from dushapley.engine.diagnosis import diagnose
from dushapley.engine.plan import choose_plan
from dushapley.engine.value import Run
from dushapley.errors import InvalidCall, InvalidSettlement
from dushapley.estimators.registry import AUTO
from dushapley.games import Game, as_game
from dushapley.results.valuation import Valuation
from dushapley.settlement.comparison import (
    TOLERANCE,
    Slack,
    first_difference,
    rounding_of,
)
from dushapley.settlement.money import amount_of, money
from dushapley.settlement.settlement import Settlement, seal, settle, versions_here
from dushapley.settlement.stored import BOUNDS, read_stored, refuse_unreadable
from dushapley.terminal import table
from dushapley.validation import is_whole, spoken

MOST_EVALUATIONS = 200_000
"""Evaluations that are computed again without being agreed to."""
UNUSED = 10_000
"""Evaluations that a settlement may grant its method without saying that they were made."""
STATES = {True: "passed", False: "FAILED", None: "not made"}
AS_IT_WENT = {
    "n_computed": "how many evaluations were computed, not found, at the time",
    "n_trainings": "how many trainings the run took at the time",
}
"""What of a valuation nobody can compute again, and what it says."""
FOLDER_CODES = ("file-skipped", "owners-changed", "unreadable-file")
FILE_CODES = [*FOLDER_CODES, *(name for name, code in CODES.items() if code.of_file)]
OF_FILES = re.compile(rf"\[({'|'.join(FILE_CODES)})\]$")
"""Notes on how files were found and read, by their codes: other folders may give fewer."""
ENDED = "the run was ended at {:,} evaluations, as recorded; its own test of when to is not"
TERMS = "terms"
"""What every verdict shows, and none can judge."""


@dataclass(frozen=True)
class Finding:
    """One check: its name, whether it holds (None: it was not made), and why (not)."""

    name: str
    holds: bool | None
    reason: str


@dataclass(frozen=True)
class Verdict:
    """All findings, and whether none of them failed.

    Examples
    --------
    >>> import dushapley as ds
    >>> game = ds.CallableGame(lambda z: z @ [4.0, 3.0, 2.0], 3, names=["north", "south", "west"],
    ...                        fingerprint="example")
    >>> ds.verify(ds.settle(ds.value(game, "exact"), 900, currency="EUR"), game).holds
    True
    """

    findings: tuple[Finding, ...]

    @property
    def holds(self) -> bool:
        """Whether the settlement stands as it is written."""
        return all(finding.holds is not False for finding in self.findings)

    def __bool__(self) -> bool:
        return self.holds

    def __repr__(self) -> str:
        """The verdict first, with what it does not speak of, then every check."""
        unseen = ", ".join(f.name for f in self.findings if f.holds is None and f.name != TERMS)
        head = "The settlement holds." if self.holds else "The settlement does NOT hold."
        if self.holds and unseen:
            head = f"The settlement holds, as far as it was looked at; not looked at: {unseen}."
        rows = [(STATES[f.holds], f"{f.name}: {f.reason}") for f in self.findings]
        return "\n".join([head, table((), rows, left=(0, 1))])


@spoken
def verify(
    settlement: Settlement | AnyMapping | PathLike,
    game: Any,
    *,
    inputs: Iterable[AnyMapping] | None = None,
    ledger: PathLike | None = None,
    n_jobs: int = 1,
    most_evaluations: int | None = None,
) -> Verdict:
    """Compute a settlement again and say whether it holds, and if not, why.

    Checked are the seal (nothing was edited), the arithmetic from values to payments, the hashes
    of the input files; and if these hold, the fingerprint of the game, the values with all that
    the run says of them (errors, guarantee, details) and its notes. Every check is named: passed,
    failed, or not made and why. Whoever forges a file can seal it again: the seal says only that
    nobody changed it unwittingly. The terms (pot, rule, method, budget, seed) are shown, for
    nothing but the agreement can say whether they are right.

    Parameters
    ----------
    settlement
        A settlement, its dictionary, or the file it was written to.
    game
        The game, made again from the inputs.
    inputs
        Hashes of the files as they are now, see `file_hashes`; None where there are no files.
    ledger
        Paid evaluations to take on trust. None trains everything again: the answer then rests on
        the inputs alone.
    n_jobs
        Workers.
    most_evaluations
        Evaluations that may be asked for; a settlement that wants more is refused before anything
        is paid. None: up to 200,000, and at most twice what it says were made (or 10,000).

    Examples
    --------
    >>> import dushapley as ds
    >>> game = ds.TableGame([0, 1, 2, 4])
    >>> stored = ds.settle(ds.value(game, "exact"), 100).to_dict()
    >>> ds.verify(stored, game).holds
    True
    >>> stored["payments"][0]["payment"] = "99.00"
    >>> ds.verify(stored, game).holds
    False
    """
    data = as_stored(settlement)
    game = as_game(game)
    return verdict_on(
        data,
        inputs,
        lambda: value_findings(
            data, game, ledger=ledger, n_jobs=n_jobs, most_evaluations=most_evaluations
        ),
    )


def verdict_on(
    data: AnyMapping,
    inputs: Iterable[AnyMapping] | None,
    of_values: Callable[[], list[Finding]],
    of_record: Mapping[str, Finding | None] | None = None,
) -> Verdict:
    """All findings; those of the values cost trainings, and are made only if the others hold.

    `of_record` holds what the caller found of entries of the record that are not known here, or
    None for those that `of_values` speaks of.
    """
    stored, of_record = Settlement.from_dict(data), of_record or {}
    findings = [_seal(data), _arithmetic(data, stored), _inputs(stored, inputs), _versions(stored)]
    findings += filter(None, of_record.values())
    if rest := ", ".join(sorted(set(stored.record) - {"inputs", "versions", *of_record})):
        findings.append(Finding("record", None, f"not looked at: {rest:.500}"))
    failed = [finding.name for finding in findings if finding.holds is False]
    if failed:
        why = f"{' and '.join(failed)} failed, so there is nothing to compute again"
        left = [Finding(name, None, why) for name in ("game", "values", "notes")]
    else:
        left = of_values()
    return Verdict((*findings, *left, _terms(stored)))


def offline_findings(data: AnyMapping) -> list[Finding]:
    """What a file tells of itself, without its inputs: its seal, and payments that follow."""
    return [_seal(data), _arithmetic(data, Settlement.from_dict(data))]


def _terms(stored: Settlement) -> Finding:
    """What was agreed, or ought to have been: no computation can say whether it is right."""
    v = stored.valuation
    limits = {"floor": stored.floor, "cap": stored.cap}
    chosen = {"budget": v.budget, "precision": v.precision, "seed": v.seed}
    options = f" with {dict(v.options)}" if v.options else ""
    terms = [
        money(stored.pot, stored.currency),
        f"rule {stored.negative!r}",
        *(f"with {name} {part}" for name, part in limits.items() if part),
        f"method {v.method_asked!r}{options}",
        *(f"{name} {number}" for name, number in chosen.items() if number is not None),
    ]
    if (at := stopped_at(v)) is not None:
        terms.append(f"a run with a test of when to end, which ended at {at:,} evaluations")
    if "learned" in v.details:
        terms.append("a run that began with pools which a ledger held")
    left = "; ".join(f"{name}, {meaning}" for name, meaning in AS_IT_WENT.items())
    return Finding(
        TERMS,
        None,
        f"compare with what was agreed: {', '.join(terms)}. Nothing can check {left}",
    )


def as_stored(settlement: Settlement | AnyMapping | PathLike) -> Any:
    """The settlement as plain data."""
    if isinstance(settlement, Settlement):
        return settlement.to_dict()
    if isinstance(settlement, Mapping):
        refuse_unreadable(settlement)
        return settlement
    if not isinstance(settlement, (str, os.PathLike)):
        raise InvalidCall(
            f"Found {type(settlement).__name__} {settlement!r:.60} where a settlement was needed. "
            "Pass what ds.settle gave, its dictionary, or the file it was written to."
        )
    return read_stored(settlement)


def file_hashes(files: Iterable[PathLike], role: str = "owners") -> list[Any]:
    """Name, role and SHA-256 of each file, for the record of a settlement."""
    return [SourceFile.read(file).record(role) for file in files]


def _seal(data: AnyMapping) -> Finding:
    same = seal(data) == data.get("seal")
    return Finding(
        "seal",
        same,
        "the file is as it was written"
        if same
        else "something in the file was changed after it was written",
    )


def _arithmetic(data: AnyMapping, stored: Settlement) -> Finding:
    """Whether payments follow from the values; the ends of intervals, but for rounding.

    They come from drawn values, where another machine may round the other way.
    """
    v, terms = stored.valuation, stored.terms
    try:
        again = settle(v, record=stored.record, diagnosis=stored.diagnosis, **terms).to_dict()
    except InvalidSettlement as error:
        return Finding("payments", False, str(error))
    difference = first_difference(
        _amounts(data), _amounts(again), slack=_coin_slack(stored), owners=v.owners
    )
    odd = difference and f"do not follow from the values: {difference}"
    return Finding("payments", not odd, odd or "follow from the values and add up to the pot")


def _amounts(data: AnyMapping) -> AnyDict:
    """All of it but the seal, with the ends of intervals as amounts."""
    lines = [
        line | {name: line[name] and Decimal(line[name]) for name in BOUNDS}
        for line in data["payments"]
    ]
    return {**data, "payments": lines, "seal": None}


def _inputs(stored: Settlement, inputs: Iterable[AnyMapping] | None) -> Finding:
    settled, now = _hashes(stored.record.get("inputs", ())), _hashes(inputs or ())
    for label in settled:
        if label not in now:
            return Finding("inputs", False, f"{label} is missing, but was part of the settlement")
        if now[label] != settled[label]:
            here, there = (
                " and ".join(f"{one:.16}…" for one in all_[label]) for all_ in (now, settled)
            )
            return Finding(
                "inputs",
                False,
                f"{label} has changed: its SHA-256 is {here}, that of the settlement {there}",
            )
    extra = [label for label in now if label not in settled]
    if extra:
        return Finding("inputs", False, f"{extra[0]} is not an input of this settlement")
    if not settled:
        return Finding("inputs", None, "no files were recorded")
    count = sum(map(len, settled.values()))
    return Finding("inputs", True, f"all {count} files are as they were{_read_as(stored)}")


def _read_as(stored: Settlement) -> str:
    """How files were read by what the settlement says of them, not by what is found in them."""
    ways: dict[str, list[str]] = {}
    for entry in stored.record.get("inputs", ()):
        if read := entry.get("read"):
            way = ", ".join(f"{key} {item!r}" for key, item in sorted(read.items()))
            ways.setdefault(way, []).append(repr(entry["name"]))
    told = (f"; with {way}, as recorded: {', '.join(names)}" for way, names in ways.items())
    return f"{''.join(told):.2000}"


def _hashes(entries: Iterable[AnyMapping]) -> dict[str, list[str]]:
    """Hashes by file; files in different folders may have one name."""
    found: dict[str, list[str]] = {}
    for entry in entries:
        found.setdefault(_label(entry), []).append(entry["sha256"])
    return {label: sorted(hashes) for label, hashes in found.items()}


def _label(entry: AnyMapping) -> str:
    kind = {"owners": "", "test": "test "}.get(entry["role"], f"{entry['role']!r} ")
    return f"{kind}file {entry['name']!r}"


def value_findings(
    data: AnyMapping,
    game: Any,
    *,
    ledger: PathLike | None,
    n_jobs: int,
    most_evaluations: int | None,
) -> list[Finding]:
    """What takes the game: its fingerprint, and the values computed again."""
    stored = Valuation.from_dict(data["valuation"])
    played = as_game(game, len(stored.owners))
    content = _game(played.fingerprint, stored.fingerprint)
    if content.holds is False:
        return [
            content,
            *(Finding(name, None, "this is another game") for name in ("values", "notes")),
        ]
    refuse_endless(stored, played, most_evaluations)
    with Run(played, ledger=ledger, n_jobs=n_jobs, **asked(stored)) as run:
        again = run.pay()
        why = [_diagnosis(data["diagnosis"], run, again, stored)] if "diagnosis" in data else []
    how = f"{again.n_computed:,} evaluations computed again"
    if ledger is not None:
        how += f", {(again.n_distinct or 0) - again.n_computed:,} taken from the ledger on trust"
    # worded by the version of this library, or as it went at the time
    one, two = (_without(v.to_dict(), "notes", "version", *AS_IT_WENT) for v in (stored, again))
    difference = first_difference(one, two, (), TOLERANCE, rounding_of(again), stored.owners)
    difference = difference or _payments_move(Settlement.from_dict(data), again)
    same = "to the last bit" if one == two else f"but for rounding, {TOLERANCE:g}"
    values = Finding("values", difference is None, f"{difference or f'the same {same}'} ({how})")
    at = stopped_at(stored)
    ended = [] if at is None else [Finding("stop", None, ENDED.format(at))]
    # a note left out, which was to be read before paying, is as false as a number changed
    notes = same_notes("notes", stored.notes, again.notes, stored.version)
    return [content, values, notes, *ended, *why]


def _without(data: AnyMapping, *left: str) -> AnyDict:
    return {name: item for name, item in data.items() if name not in left}


def asked(stored: Valuation) -> AnyDict:
    """What the run was asked for."""
    return {
        "method": stored.method_asked,
        "options": None if stored.method_asked == AUTO else dict(stored.options),
        "budget": stored.budget,
        "precision": stored.precision,
        "seed": stored.seed,
        "known": learned_pools(stored),
        "ends_at": stopped_at(stored),
    }


def stopped_at(stored: Valuation) -> int | None:
    """Evaluations at which a run with a test of its own ended; None where it had none."""
    at = stored.details.get("stopped_at")
    if at is not None and not is_whole(at, least=0):
        raise InvalidSettlement("What ended its run is not recorded as it was written.")
    return at


def learned_pools(stored: Valuation) -> BoolArray | None:
    """The pools that the run began with, if it learned from a ledger."""
    learned = stored.details.get("learned")
    if learned is None:
        return None
    n = len(stored.owners)
    try:
        members = learned["members"]
        packed = np.frombuffer(bytes.fromhex("".join(members)), dtype=np.uint8)
        pools = packed.reshape(len(members), -(-n // 8))
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidSettlement(
            f"The pools that its run began with cannot be read ({error}). Use the settlement as "
            "it was written."
        ) from error
    return np.unpackbits(pools, axis=1, count=n).astype(np.bool_)


def refuse_endless(stored: Valuation, game: Game, most: int | None) -> int:
    """Refuse more evaluations than were agreed to, before any is paid; how many it may take."""
    wanted, stated = asked(stored), stored.n_evaluations
    plan = choose_plan(game, wanted["method"], wanted["options"], stored.budget)
    known, end = wanted["known"], wanted["ends_at"]
    needed = plan.budget + (0 if known is None else len(known))
    needed = needed if end is None else min(needed, end)
    allowed = min(MOST_EVALUATIONS, max(UNUSED, 2 * stated)) if most is None else most
    if needed > allowed:
        raise InvalidSettlement(
            f"To compute this settlement again, up to {needed:,} evaluations may be needed; "
            f"it says that {stated:,} were made. Agree with most_evaluations={needed} "
            "(--yes) if that is what it is worth."
        )
    return needed


def _diagnosis(stored: AnyMapping, run: Run, again: Valuation, valued: Valuation) -> Finding:
    """Whether the reasons are those that are measured again, number by number and word by word."""
    try:
        found = diagnose(run.game, again, ledger=run.paid, n_jobs=run.n_jobs).to_dict()
    except Exception as error:  # it need not be measurable here to have been so there
        return Finding("diagnosis", None, f"could not be measured: {type(error).__name__}: {error}")
    if stored["format"] != found["format"]:
        return Finding("diagnosis", None, f"measured as {stored['format']}, here {found['format']}")
    # values under other models are not computed again
    one, other = (_without(reasons, "alternatives") for reasons in (stored, found))
    difference = first_difference(
        one, other, (), TOLERANCE, rounding_of(again, reasons=True), valued.owners
    )
    if difference and valued.version != again.version:
        return Finding(
            "diagnosis",
            None,
            f"measured by version {valued.version!r}, and this is {again.version!r}: {difference}",
        )
    if difference:
        return Finding("diagnosis", False, difference)
    how = f"the same to {TOLERANCE:g}, by {found['trainings']:,} trainings"
    if stored["alternatives"]:
        how += "; values under other models were not computed again"
    return Finding("diagnosis", None if stored["alternatives"] else True, how)


def _payments_move(stored: Settlement, again: Valuation) -> str | None:
    """A difference that rounding explains must not move money: rules divide by small sums too."""
    try:
        paid = settle(again, **stored.terms).payments
    except InvalidSettlement as error:
        return str(error)
    return first_difference(
        stored.payments, paid, ("payments",), slack=_coin_slack(stored), owners=again.owners
    )


def _coin_slack(stored: Settlement) -> Slack:
    """By how much the rounding of another machine may move a payment."""
    slack = float(max(stored.pot * Decimal("1e-6"), amount_of(1, stored.decimals)))
    return lambda _: slack


def same_notes(name: str, stored: Sequence[str], again: Sequence[str], version: str) -> Finding:
    """Whether none is left out, and none added but on how files lay in their folders."""
    if sorted(stored) == sorted(again):
        return Finding(name, True, f"all {len(again)} are there, as they are found again")

    def quoted(notes: Sequence[str]) -> str:
        return " ".join(map(repr, notes)) or "nothing"

    if version != (here := versions_here()["dushapley"]):  # which words things in another way
        return Finding(
            name,
            None,
            f"they are of version {version!r}, and this is {here!r}: compare yourself. Here: "
            f"{quoted(again)}",
        )
    missing = [note for note in again if note not in stored]
    added = [note for note in stored if note not in again]
    if missing or not added or not all(map(OF_FILES.search, added)):  # none: one stands twice
        return Finding(name, False, f"left out: {quoted(missing)}; added: {quoted(added)}")
    return Finding(name, None, f"not found again in these files: {quoted(added)}")


def _game(now: str | None, settled: str | None) -> Finding:
    if now != settled:
        return Finding(
            "game",
            False,
            "data, model, score or seed of the game differ from those of the settlement",
        )
    if now is None:
        return Finding("game", None, "it is a bare function, whose content cannot be compared")
    return Finding("game", True, "data, model, score and seed are those of the settlement")


def _versions(stored: Settlement) -> Finding:
    """Other versions are not a fault, but the first suspect where something differs."""
    made_by, now = stored.valuation.version, versions_here()
    then = dict(stored.record.get("versions", {}))
    recorded = then.setdefault("dushapley", made_by)
    if recorded != made_by:
        return Finding(
            "versions",
            False,
            f"two versions of dushapley are named: the values are of {made_by!r}, the record of "
            f"{recorded!r}",
        )
    pairs = [(name, version, now.get(name, "none")) for name, version in then.items()]
    other = [f"{name} {before} → {here}" for name, before, here in pairs if before != here]
    lost = [name for name in now if name not in then]
    told = [f"differ: {', '.join(other)}"] if other else []
    told += [f"not recorded, and here: {', '.join(lost)}"] if lost else []
    return Finding("versions", True, "; ".join(told) or "the same")
