"""From opened files to tables that fit each other: all owners' and the test set's, read as one."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dushapley.data.files import SourceFile
from dushapley.data.findings import Finding
from dushapley.data.formats.raw import Account, Raw, as_text
from dushapley.data.reading import INTERPRETING, Reading
from dushapley.data.tables import listed, split_by_owner
from dushapley.errors import InvalidOption, InvalidOwners
from dushapley.terminal import DECEPTIVE
from dushapley.validation import suggestion

if TYPE_CHECKING:
    import pandas as pd

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

    tables: Mapping[str, pd.DataFrame]
    test: pd.DataFrame | None = None
    detected: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


def take_in(
    files: Sequence[SourceFile],
    *,
    target: str,
    owner: str | None = None,
    test: SourceFile | None = None,
    reading: Reading | None = None,
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
        How to read; None detects everything.
    everybody
        Whether these are all files, so that a key of reading that fits none of them is a mistake.
    """
    how = reading or Reading()
    refuse_twins(files if owner is None else ())
    if everybody:
        refuse_other_files(how, [*files, *([] if test is None else [test])])
    frames: dict[SourceFile, pd.DataFrame] = {}
    findings: list[Finding] = []
    for file in [*files, *([] if test is None else [test])]:
        whose = TEST if file is test else None if owner is None else file.path.name
        try:
            frames[file] = file.table(how.of(file.path.name), whose)
        except InvalidOwners as error:
            findings.append(unreadable(file, whose or file.owner, error))
        findings += file.account.findings
    if everybody and not any(finding.code == "unreadable-file" for finding in findings):
        refuse_idle_marks(how, list(frames))
    needed = [name for name in (target, owner) if name is not None]
    findings += one_name(frames, [*needed, *how.columns, *how.drop])
    findings += left_out(frames, how, needed) if how.common_columns else []
    frames = chosen_columns(frames, how, needed)
    findings += matched_columns(frames, how, needed)
    detected = {file.path.name: file.account.detected for file in frames if file.account.detected}
    tested = None if test is None else frames.pop(test, None)
    parts = {file.owner: frame for file, frame in frames.items()}
    if owner is not None and frames:
        parts = split_by_owner(together(frames, findings), owner, target)
    tables = merged_owners(parts, how)
    everything = tables | ({} if tested is None else {TEST: tested})
    merge_spellings(list(everything.values()), how, target)
    findings += mark_positive(everything, how, target)
    return Intake(tables, tested, detected, tuple(findings))


def take_in_table(
    table: pd.DataFrame, *, owner: str, target: str, reading: Reading | None = None
) -> Intake:
    """The same for one table of all owners, whose text is read only if a key asks for it."""
    from dushapley.data.formats.reader import interpret

    how = reading or Reading()
    account = Account("the table", "the table")
    if set(how.changed()) & set(INTERPRETING):
        table = table.copy()
        interpret(table, Raw(None), how, account)
    lacking = [name for name in (*how.columns, *how.drop) if name not in table.columns]
    if lacking:
        hint = suggestion(lacking[0], [str(name) for name in table.columns])
        raise InvalidOwners(f"The table has no column {lacking[0]!r}, which is named.{hint}")
    kept = [
        name
        for name in table.columns
        if name not in how.drop and (not how.columns or name in (*how.columns, owner, target))
    ]
    tables = merged_owners(split_by_owner(table[kept], owner, target), how)
    merge_spellings(list(tables.values()), how, target)
    unmarked = mark_positive(tables, how, target)
    return Intake(tables, None, {}, (*account.findings, *unmarked))


def refuse_twins(files: Sequence[SourceFile]) -> None:
    """Refuse two files that name the same owner."""
    by_owner: dict[str, SourceFile] = {}
    for file in files:
        if file.owner in by_owner:
            raise InvalidOwners(
                f"{by_owner[file.owner].path} and {file.path} both name the owner {file.owner!r}; "
                "rename one of them."
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
    seen = {mark for account in accounts for mark in account.marks}
    for mark in reading.missing:
        if mark not in seen:
            raise InvalidOwners(f"missing names {mark!r}, which no cell of any file holds.")
    for account in accounts:
        for mark in reading.files.get(account.name, {}).get("missing", ()):
            if mark not in account.marks:
                raise InvalidOwners(
                    f"missing names {mark!r}, which no cell of {account.name} holds."
                )


def unreadable(file: SourceFile, whose: str, error: InvalidOwners) -> Finding:
    """The finding about a file that holds no table."""
    name = file.path.name
    message = str(error) if name in str(error) else f"{name}: {error}"
    if whose == TEST:
        return Finding("unreadable-file", "stop", message, whose)
    message = f"{message} If accepted, it is left out."
    return Finding("unreadable-file", "stop", message, whose, remedy="--accept unreadable-file")


Frames = dict[SourceFile, "pd.DataFrame"]


def chosen_columns(frames: Frames, reading: Reading, needed: Sequence[str]) -> Frames:
    """Tables without the columns that are to be left out."""
    everywhere = {str(name) for frame in frames.values() for name in frame.columns}
    for key in ("columns", "drop"):
        for name in getattr(reading, key):
            if name not in everywhere and frames:
                hint = suggestion(name, sorted(everywhere))
                raise InvalidOwners(f"No file has the column {name!r} that {key} names.{hint}")
    common = (
        set.intersection(*(set(frame.columns) for frame in frames.values())) if frames else set()
    )
    chosen = {}
    for file, frame in frames.items():
        kept = [name for name in frame.columns if name not in reading.drop]
        if reading.columns:
            kept = [name for name in kept if name in (*reading.columns, *needed)]
        if reading.common_columns:
            kept = [name for name in kept if name in common or name in needed]
        chosen[file] = frame if len(kept) == len(frame.columns) else frame[kept]
    return chosen


def left_out(frames: Frames, reading: Reading, needed: Sequence[str]) -> list[Finding]:
    """What nobody's model may use for the sake of those who lack it: it can move every value."""
    findings = []
    for name in dict.fromkeys(str(name) for frame in frames.values() for name in frame.columns):
        without = [file for file, frame in frames.items() if name not in frame.columns]
        if without and name not in (*reading.drop, *needed):
            first, more = without[0].account.owner, len(without) - 1
            lack = f"{first!a} and {more} more lack" if more else f"{first!a} lacks"
            findings.append(
                Finding(
                    "column-left-out",
                    "note",
                    f"The column {name!a} is left out for everybody, as common-columns asks: "
                    f"{lack} it.",
                    first,
                    name,
                )
            )
    return findings


def one_name(frames: Frames, wanted: Sequence[str]) -> list[Finding]:
    """Give columns whose names differ in spelling only one name, where that is without doubt."""
    names = [[str(name) for name in frame.columns] for frame in frames.values()]
    twins = {k for own in names for k, n in Counter(map(folded, own)).items() if n > 1}
    spelling = one_spelling(name for own in names for name in own)
    named = {folded(wish): wish for wish in wanted if wish in spelling}
    findings = []
    for file, frame in frames.items():
        alone = (n for n in map(str, frame.columns) if folded(n) not in twins)
        new = {n: s for n in alone if (s := named.get(folded(n), spelling[n])) != n}
        if new:
            frames[file] = frame.rename(columns=new)
        findings += [
            Finding(
                "column-spelling",
                "note",
                f"{file.path.name} calls a column {name!a}, where others write "
                f"{usual!a}: taken as one, as they differ in spelling only.",
                file.account.owner,
                usual,
                value=name,
            )
            for name, usual in new.items()
        ]
    return findings


def matched_columns(frames: Frames, reading: Reading, needed: Sequence[str]) -> list[Finding]:
    """Put columns that some files hold as dates into dates everywhere; tell of percentages."""
    findings: list[Finding] = []
    names = dict.fromkeys(name for frame in frames.values() for name in frame.columns)
    for name in names:
        holders = {file: frame for file, frame in frames.items() if name in frame.columns}
        kinds = {file: frame[name].dtype.kind for file, frame in holders.items()}
        if "M" in kinds.values() and name not in needed:
            findings += _serial_dates(name, holders, kinds)
        percent = [f for f in holders if name in f.account.detected.get("percent columns", ())]
        plain = [f for f in holders if f not in percent and kinds[f] in "iuf"]
        if percent and plain and reading.percent is None:
            findings += [_percent(name, file) for file in percent]
    return findings


def _serial_dates(name: str, holders: Frames, kinds: Mapping[SourceFile, str]) -> list[Finding]:
    from dushapley.data.dates import as_dates

    findings = []
    for file, frame in holders.items():
        moments = as_dates(frame[name]) if kinds[file] in "iuf" else None
        if moments is None:
            continue
        first = frame[name].dropna().iloc[0]
        frame[name] = moments
        findings.append(
            Finding(
                "serial-dates",
                "note",
                f"Column {name!r} of {file.path.name} counts days as spreadsheets do, where others "
                f"have dates: {first:g} is read as {moments.dropna().iloc[0]:%Y-%m-%d}.",
                file.account.owner,
                name,
                value=f"{first:g}",
            )
        )
    return findings


def _percent(name: str, file: SourceFile) -> Finding:
    return Finding(
        "percent-sign",
        "stop",
        f"Column {name!r} of {file.path.name} has percent signs, where others have none: 12% may "
        "be 12 or 0.12.",
        file.account.owner,
        name,
        remedy="--read percent=points (12) or --read percent=fraction (0.12)",
    )


def together(frames: Frames, findings: list[Finding]) -> pd.DataFrame:
    """All files as one table; columns that not all have are told, and left out."""
    import pandas as pd

    tables = list(frames.values())
    common = [n for n in tables[0].columns if all(n in table.columns for table in tables)]
    first = next(iter(frames)).path.name
    for file, table in frames.items():
        lacks = [name for name in tables[0].columns if name not in table.columns]
        extra = [name for name in table.columns if name not in tables[0].columns]
        for code, words, names in (
            ("lacking-column", "lacks", lacks),
            ("extra-column", "has, in addition,", extra),
        ):
            if names:
                message = (
                    f"{file.path.name} {words} {listed(names)}, compared with {first}; all files "
                    "need the same columns."
                )
                remedy = "--read common-columns=yes"
                owner = file.account.owner
                findings.append(Finding(code, "stop", message, owner, names[0], remedy=remedy))
    if len(tables) == 1:
        return tables[0]
    return pd.concat([table[common] for table in tables], ignore_index=True)


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


def one_spelling(words: Iterable[str]) -> dict[str, str]:
    """For each spelling the one of its kind used most, or first in the alphabet."""
    counts = Counter(words)
    best: dict[str, str] = {}
    for word in sorted(counts, key=lambda word: (-counts[word], word)):
        best.setdefault(folded(word), word)
    return {word: best[folded(word)] for word in counts}


def merged_owners(tables: dict[str, pd.DataFrame], reading: Reading) -> dict[str, pd.DataFrame]:
    """Tables of owners whose names differ only in spelling, as one, if that is asked for."""
    import pandas as pd

    if "owners" not in reading.merge:
        return tables
    rows = [name for name, table in tables.items() for _ in range(max(len(table), 1))]
    names = one_spelling(rows)
    parts: dict[str, list[pd.DataFrame]] = {}
    for name, table in tables.items():
        parts.setdefault(names[name].strip(), []).append(table)
    return {name: p[0] if len(p) == 1 else pd.concat(p) for name, p in parts.items()}


def merge_spellings(tables: Sequence[pd.DataFrame], reading: Reading, target: str) -> None:
    """One spelling for labels and categories that differ only in case, spaces or Unicode form."""
    merged = [target] * ("labels" in reading.merge)
    if "categories" in reading.merge:
        merged += dict.fromkeys(str(c) for table in tables for c in table.columns if c != target)
    for column in merged:
        texts = [t for t in tables if column in t.columns and t[column].dtype.kind == "O"]
        words = (w for t in texts for w in t[column].dropna() if isinstance(w, str))
        spelling = one_spelling(words)
        for table in texts:
            table[column] = table[column].map(lambda w, s=spelling: s.get(w, w), na_action="ignore")


def mark_positive(
    tables: Mapping[str, pd.DataFrame], reading: Reading, target: str
) -> list[Finding]:
    """The target as 1 for the labels that count as positive and 0 for all others.

    Those who have none of these labels, but others than the rest, are told: they would be all 0.
    """
    if not reading.positive:
        return []
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
    lacking = [label for key, label in wanted.items() if key not in seen]
    if lacking and seen:
        raise InvalidOwners(
            f"positive names the label {lacking[0]!r}, which no row has in {target!r}."
            f"{suggestion(lacking[0], sorted(seen))} Labels: {listed(sorted(seen))}."
        )
    if len(seen - set(wanted)) <= 1:
        return []  # one label that is not positive is the negative one, whoever has it
    known = {label for labels in own.values() if labels & set(wanted) for label in labels}
    return [
        Finding(
            "label-foreign",
            "stop",
            f"{'The test set' if name == TEST else f'Owner {name!r}'} has no label in {target!r} "
            f"that counts as positive, but {listed(sorted(labels))}: all its rows would count as "
            "0.",
            name,
            target,
            value=min(labels),
            remedy=f"--read positive={','.join(reading.positive)},LABEL (with its own that counts "
            "as 1), or --accept label-foreign",
        )
        for name, labels in own.items()
        if labels - known and not labels & set(wanted)
    ]
