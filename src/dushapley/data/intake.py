"""From opened files to tables that fit each other: all owners' and the test set's, read as one."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dushapley.data.files import SourceFile
from dushapley.data.findings import Finding, FindingStream
from dushapley.data.formats.raw import Account, Raw, as_text
from dushapley.data.reading import INTERPRETING, Reading
from dushapley.data.tables import listed, split_by_owner
from dushapley.errors import InvalidOption, InvalidOwners
from dushapley.terminal import DECEPTIVE
from dushapley.validation import suggestion

if TYPE_CHECKING:
    from pandas import DataFrame

    from dushapley.data.tables import Tables

    Frames = dict[SourceFile, DataFrame]

TEST = "test set"
"""Whom findings about the test file name."""


@dataclass(frozen=True)
class Intake:
    """What was read, and what was odd about it.

    Attributes
    ----------
    tables
        One table per owner, in the order of the files (or of the owner column); an owner whose file
        cannot be read is missing, and among the stops.
    test
        The test table, if there is a test file that can be read.
    detected
        How each file was read, by the file's name, where that differs from plain CSV: encoding,
        separator, decimal mark, line of names, formats of dates.
    findings
        All that reading noticed; stops among them are for the caller to refuse.
    """

    tables: Tables
    test: DataFrame | None = None
    detected: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


def take_in(
    files: Sequence[SourceFile],
    *,
    target: str,
    owner: str | None = None,
    test: SourceFile | None = None,
    reading: Reading,
    everybody: bool = True,
) -> Intake:
    """Read all files and put their columns into one type each.

    Parameters
    ----------
    files, test
        The owners' files and the test file, opened.
    target, owner
        Columns that hold what is to be predicted and, unless each file is an owner's, the owner.
    reading
        How to read.
    everybody
        Whether these are all files, so that a key of reading that fits none of them is a mistake.
    """
    given = [*files] if test is None else [*files, test]
    refuse_twins(files if owner is None else ())
    if everybody:
        refuse_other_files(reading, given)
    frames: Frames = {}
    findings: list[Finding] = []
    for file in given:
        name = file.path.name
        whose = TEST if file is test else file.owner if owner is None else name
        try:
            frames[file] = file.table(reading.of(name), whose)
        except InvalidOwners as error:
            message = str(error) if name in str(error) else f"{name}: {error}"
            remedy = None
            if whose != TEST:
                message = f"{message} If accepted, it is left out."
                remedy = "--accept unreadable-file"
            findings.append(Finding("unreadable-file", "stop", message, whose, remedy=remedy))
        findings += file.account.findings
    if everybody and len(frames) == len(given):
        refuse_idle_marks(reading, given)
    if not frames:
        return Intake({}, findings=tuple(findings))
    needed = [target] if owner is None else [target, owner]
    one_name(frames, [*needed, *reading.columns, *reading.drop], findings)
    findings += left_out(frames, reading, needed)
    frames = chosen_columns(frames, reading, needed)
    match_columns(frames, reading, needed, findings)
    detected = {file.path.name: file.account.detected for file in frames if file.account.detected}
    tested = None if test is None else frames.pop(test, None)
    parts = {file.owner: frame for file, frame in frames.items()}
    if owner is not None and frames:
        parts = split_by_owner(together(frames, findings), owner, target)
    tables = merged_owners(parts, reading)
    everything = tables if tested is None else tables | {TEST: tested}
    merge_spellings(everything, reading, target)
    mark_positive(everything, reading, target, findings)
    return Intake(tables, tested, detected, tuple(findings))


def take_in_table(table: DataFrame, *, owner: str, target: str, reading: Reading) -> Intake:
    """The same for one table of all owners, whose text is read only if a key asks for it."""
    from dushapley.data.formats.reader import interpret

    account = Account("the table", "the table")
    if set(reading.changed()) & set(INTERPRETING):
        table = table.copy()
        interpret(table, Raw(None), reading, account)
    for name in (*reading.columns, *reading.drop):
        if name not in table.columns:
            hint = suggestion(name, list(map(str, table.columns)))
            raise InvalidOwners(f"The table has no column {name!r}, which is named.{hint}")
    kept = [name for name in table.columns if name not in reading.drop]
    if reading.columns:
        kept = [name for name in kept if name in (*reading.columns, owner, target)]
    tables = merged_owners(split_by_owner(table[kept], owner, target), reading)
    merge_spellings(tables, reading, target)
    mark_positive(tables, reading, target, account.findings)
    return Intake(tables, findings=tuple(account.findings))


def refuse_twins(files: Sequence[SourceFile]) -> None:
    """Refuse two files that name the same owner."""
    by_owner: dict[str, SourceFile] = {}
    for file in files:
        if other := by_owner.get(file.owner):
            raise InvalidOwners(
                f"{other.path} and {file.path} both name the owner {file.owner!r}; rename one of "
                "them."
            )
        by_owner[file.owner] = file


def refuse_other_files(reading: Reading, files: Sequence[SourceFile]) -> None:
    """Refuse keys of reading for a file that is not among those that are read."""
    names = [file.path.name for file in files]
    for name in reading.files:
        if name not in names:
            raise InvalidOption(
                f"The keys of reading name the file {name!r}, which is not among those that are "
                f"read.{suggestion(name, names)} Files: {listed(names)}."
            )


def refuse_idle_marks(reading: Reading, files: Sequence[SourceFile]) -> None:
    """Refuse a mark of missing values that no cell holds: it is misspelt, or another is meant."""
    accounts = [file.account for file in files]
    asked = [
        (one.name, reading.files.get(one.name, {}).get("missing", ()), one.marks)
        for one in accounts
    ]
    seen = {mark for account in accounts for mark in account.marks}
    for where, marks, found in [("any file", reading.missing, seen), *asked]:
        for mark in marks:
            if mark not in found:
                raise InvalidOwners(f"missing names {mark!r}, which no cell of {where} holds.")


def names_of(tables: Iterable[DataFrame]) -> list[str]:
    """Names of the columns that any of these tables has, in the order in which they appear."""
    return list(dict.fromkeys(name for table in tables for name in table.columns))


def chosen_columns(frames: Frames, reading: Reading, needed: Sequence[str]) -> Frames:
    """Tables without the columns that are to be left out."""
    held = [set(frame.columns) for frame in frames.values()]
    everywhere = set.union(*held)
    for key in ("columns", "drop"):
        for name in getattr(reading, key):
            if name not in everywhere:
                hint = suggestion(name, sorted(everywhere))
                raise InvalidOwners(f"No file has the column {name!r} that {key} names.{hint}")
    wanted = everywhere.difference(reading.drop)
    if reading.columns:
        wanted &= {*reading.columns, *needed}
    if reading.common_columns:
        wanted &= {*set.intersection(*held), *needed}
    chosen = {}
    for file, frame in frames.items():
        kept = [name for name in frame.columns if name in wanted]
        chosen[file] = frame if len(kept) == len(frame.columns) else frame[kept]
    return chosen


def left_out(frames: Frames, reading: Reading, needed: Sequence[str]) -> FindingStream:
    """What nobody's model may use for the sake of those who lack it: it can move every value."""
    for name in names_of(frames.values()) if reading.common_columns else ():
        without = [file for file, frame in frames.items() if name not in frame.columns]
        if without and name not in (*reading.drop, *needed):
            first, more = without[0].account.owner, len(without) - 1
            lack = f"{first!a} and {more} more lack" if more else f"{first!a} lacks"
            message = (
                f"The column {name!a} is left out for everybody, as common-columns asks: {lack} it."
            )
            yield Finding("column-left-out", "note", message, first, name)


def one_name(frames: Frames, wanted: Sequence[str], findings: list[Finding]) -> None:
    """Give columns whose names differ in spelling only one name, where that is without doubt."""
    twins: set[str] = set()
    for frame in frames.values():
        times = Counter(map(folded, frame.columns))
        twins |= {word for word, count in times.items() if count > 1}
    spelling = one_spelling(name for frame in frames.values() for name in frame.columns)
    named = {folded(wish): wish for wish in wanted if wish in spelling}
    for file, frame in frames.items():
        alone = [name for name in frame.columns if folded(name) not in twins]
        new = {name: named.get(folded(name), spelling[name]) for name in alone}
        new = {name: usual for name, usual in new.items() if name != usual}
        if new:
            frames[file] = frame.rename(columns=new)
        for name, usual in new.items():
            message = (
                f"{file.path.name} calls a column {name!a}, where others write {usual!a}: taken as "
                "one, as they differ in spelling only."
            )
            findings.append(
                Finding("column-spelling", "note", message, file.account.owner, usual, value=name)
            )


def match_columns(
    frames: Frames, reading: Reading, needed: Sequence[str], findings: list[Finding]
) -> None:
    """Put columns that some files hold as dates into dates everywhere; tell of percentages."""
    for name in names_of(frames.values()):
        holders = {file: frame for file, frame in frames.items() if name in frame.columns}
        kinds = {file: frame[name].dtype.kind for file, frame in holders.items()}
        if "M" in kinds.values() and name not in needed:
            _serial_dates(name, holders, findings)
        percent = [f for f in holders if name in f.account.detected.get("percent columns", ())]
        plain = [f for f in holders if f not in percent and kinds[f] in "iuf"]
        for file in percent if plain and reading.percent is None else ():
            message = (
                f"Column {name!r} of {file.path.name} has percent signs, where others have none: "
                "12% may be 12 or 0.12."
            )
            findings.append(
                Finding(
                    "percent-sign",
                    "stop",
                    message,
                    file.account.owner,
                    name,
                    remedy="--read percent=points (12) or --read percent=fraction (0.12)",
                )
            )


def _serial_dates(name: str, holders: Frames, findings: list[Finding]) -> None:
    from dushapley.data.dates import as_dates

    for file, frame in holders.items():
        days = frame[name]
        moments = as_dates(days) if days.dtype.kind in "iuf" else None
        if moments is None:
            continue
        frame[name] = moments
        number, day = f"{days.dropna().iloc[0]:g}", moments.dropna().iloc[0]
        message = (
            f"Column {name!r} of {file.path.name} counts days as spreadsheets do, where others "
            f"have dates: {number} is read as {day:%Y-%m-%d}."
        )
        findings.append(
            Finding("serial-dates", "note", message, file.account.owner, name, value=number)
        )


def together(frames: Frames, findings: list[Finding]) -> DataFrame:
    """All files as one table; columns that not all have are told, and left out."""
    import pandas as pd

    first, *others = frames
    names, common = frames[first].columns, set(frames[first].columns)
    for file in others:
        own = frames[file].columns
        common &= set(own)
        for code, words, odd in (
            ("lacking-column", "lacks", [name for name in names if name not in own]),
            ("extra-column", "has, in addition,", [name for name in own if name not in names]),
        ):
            if odd:
                message = (
                    f"{file.path.name} {words} {listed(odd)}, compared with {first.path.name}; "
                    "all files need the same columns."
                )
                owner, remedy = file.account.owner, "--read common-columns=yes"
                findings.append(Finding(code, "stop", message, owner, odd[0], remedy=remedy))
    if not others:
        return frames[first]
    kept = [name for name in names if name in common]
    return pd.concat([frame[kept] for frame in frames.values()], ignore_index=True)


def whose(name: str) -> str:
    """An owner, or the test set, at the beginning of a sentence."""
    return "The test set" if name == TEST else f"Owner {name!r}"


def folded(text: str) -> str:
    """Reduce a spelling to what remains without case, spaces around and between, and Unicode form.

    Examples
    --------
    >>> folded(" Yes") == folded("yes"), folded("MÃ¼nchen") == folded("München")
    (True, True)
    """
    with suppress(UnicodeError):
        text = text.encode("cp1252").decode("utf-8")  # text that was decoded wrongly once
    plain = unicodedata.normalize("NFKC", text).casefold()
    seen = "".join(c for c in plain if unicodedata.category(c) not in DECEPTIVE or c.isspace())
    return " ".join(seen.split())


def one_spelling(words: Iterable[str] | Mapping[str, int]) -> dict[str, str]:
    """For each spelling the one of its kind used most, or first in the alphabet.

    Words may be counted already.
    """
    counts = Counter(words)
    best: dict[str, str] = {}
    for word in sorted(counts, key=lambda word: (-counts[word], word)):
        best.setdefault(folded(word), word)
    return {word: best[folded(word)] for word in counts}


def merged_owners(tables: dict[str, DataFrame], reading: Reading) -> dict[str, DataFrame]:
    """Tables of owners whose names differ only in spelling, as one, if that is asked for."""
    import pandas as pd

    if "owners" not in reading.merge:
        return tables
    names = one_spelling({name: max(len(table), 1) for name, table in tables.items()})
    parts: dict[str, list[DataFrame]] = {}
    for name, table in tables.items():
        parts.setdefault(names[name].strip(), []).append(table)
    return {name: own[0] if len(own) == 1 else pd.concat(own) for name, own in parts.items()}


def merge_spellings(tables: Tables, reading: Reading, target: str) -> None:
    """One spelling for labels and categories that differ only in case, spaces or Unicode form."""
    for column in names_of(tables.values()):
        what = "labels" if column == target else "categories"
        if what not in reading.merge:
            continue
        texts = [t for t in tables.values() if column in t.columns and t[column].dtype.kind == "O"]
        words = (w for table in texts for w in table[column].dropna() if isinstance(w, str))
        spelling = one_spelling(words)
        for table in texts:
            table[column] = table[column].map(lambda w, s=spelling: s.get(w, w), na_action="ignore")


def mark_positive(tables: Tables, reading: Reading, target: str, findings: list[Finding]) -> None:
    """The target as 1 for the labels that count as positive and 0 for all others.

    Those who have none of these labels, but others than the rest, are told: they would be all 0.
    """
    if not reading.positive:
        return
    wanted = {folded(label): label for label in reading.positive}
    seen: set[str] = set()
    own: dict[str, set[str]] = {}
    for name, table in tables.items():
        if target in table.columns:
            labels = table[target].map(lambda x: folded(as_text(x)), na_action="ignore")
            own[name] = set(labels.dropna())
            seen |= own[name]
            marked = labels.isin(list(wanted)).astype("int64")
            table[target] = marked if labels.notna().all() else marked.where(labels.notna())
    for key, label in wanted.items():
        if seen and key not in seen:
            all_labels = sorted(seen)
            raise InvalidOwners(
                f"positive names the label {label!r}, which no row has in {target!r}."
                f"{suggestion(label, all_labels)} Labels: {listed(all_labels)}."
            )
    if len(seen.difference(wanted)) <= 1:
        return  # one label that is not positive is the negative one, whoever has it
    lacking = {name: held for name, held in own.items() if held.isdisjoint(wanted)}
    known = {label for name, held in own.items() if name not in lacking for label in held}
    positive = ",".join(reading.positive)
    remedy = (
        f"--read positive={positive},LABEL (with its own that counts as 1), or --accept "
        "label-foreign"
    )
    for name, held in lacking.items():
        if not held <= known:
            message = (
                f"{whose(name)} has no label in {target!r} that counts as positive, but "
                f"{listed(sorted(held))}: all its rows would count as 0."
            )
            findings.append(
                Finding("label-foreign", "stop", message, name, target, None, min(held), remedy)
            )
