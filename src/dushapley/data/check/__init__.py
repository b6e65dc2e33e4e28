"""What is odd in the owners' files: everything at once, before anything is trained or paid.

`check` reads files and examines them; `examine` examines what was read before. Each finding has a
code (`codes`) and a severity: a *stop* would move money in silence and can be told for sure, a
*note* may be real.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Unpack

from dushapley.data.check import columns, copies, populations, spelling
from dushapley.data.check.collection import Findings
from dushapley.data.check.survey import Survey, lacks_target
from dushapley.data.files import PathLike, SourceFile, opened
from dushapley.data.findings import FindingStream
from dushapley.data.formats.objects import as_table
from dushapley.data.intake import Intake, take_in, take_in_table
from dushapley.data.reading import Keys, Reading
from dushapley.data.rows import is_table
from dushapley.errors import InvalidOption

__all__ = ["Findings", "accepted_tables", "check", "examine"]

CHECKS: tuple[Callable[[Survey], FindingStream], ...] = (
    spelling.owner_spelling,
    columns.differing_columns,
    columns.no_rows,
    columns.missing_targets,
    columns.mixed_types,
    spelling.label_spelling,
    spelling.test_labels,
    spelling.foreign_labels,
    spelling.rare_labels,
    spelling.category_spelling,
    populations.infinite_values,
    populations.extreme_values,
    columns.giveaway_columns,
    columns.id_columns,
    columns.constant_columns,
    columns.missing_values,
    populations.small_owners,
    populations.one_class,
    populations.own_categories,
    populations.shifted_units,
    populations.inverted_target,
    copies.copies,
)


def check(
    files: Any,
    *,
    target: str,
    owner: str | None = None,
    by_file: bool = False,
    test: PathLike | SourceFile | None = None,
    accept: Iterable[str] = (),
    **reading: Unpack[Keys],
) -> Findings:
    """All that is odd in the owners' files and the test file, at once.

    Parameters
    ----------
    files
        Files, or a folder of them; or one table of pandas, polars or pyarrow that has all owners'
        rows, without a test file.
    target
        Name of the column that is to be predicted.
    owner, by_file
        The column that says whose row it is, or True: one file per owner.
    test
        The test file, if there is one.
    accept
        Codes of stops that are to be notes.
    **reading
        How to read, see `dushapley.data.reading.Reading`.

    Examples
    --------
    >>> import pandas as pd, tempfile, dushapley as ds
    >>> table = pd.DataFrame({"age": range(30, 60), "ill": ["yes", "no"] * 15})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table.to_csv(f"{folder}/Bonn.csv", index=False)
    ...     table.replace("yes", "Yes").to_csv(f"{folder}/Kiel.csv", index=False)
    ...     findings = ds.check(folder, by_file=True, target="ill")
    >>> findings.stops[0].code, findings.stops[0].owner, findings.stops[0].remedy
    ('label-spelling', 'Kiel', '--read merge=labels')
    """
    if (owner is None) != by_file:
        raise InvalidOption("Say whose rows they are: either owner=COLUMN or by_file=True.")
    how = Reading.from_keys(reading)
    if is_table(table := as_table(files)):
        if owner is None or test is not None:
            raise InvalidOption(
                "A table in memory is checked by owner=COLUMN and without test=. Write the rows to "
                "files to check them by_file=True, or together with a test file."
            )
        return examine(
            take_in_table(table, owner=owner, target=target, reading=how), target, accept
        )
    named = named_files(files)
    tested = None if test is None else named_files([test])[0]
    if tested is not None and not isinstance(tested, SourceFile):
        tested = SourceFile.read(tested)
    found, skipped = opened(named)
    intake = take_in(found, target=target, owner=owner, test=tested, reading=how)
    return examine(replace(intake, findings=(*skipped, *intake.findings)), target, accept)


def named_files(given: Any) -> list[PathLike | SourceFile]:
    """Files as they were named; what names no file is refused."""
    several = isinstance(given, Iterable) and not isinstance(given, (str, os.PathLike, Mapping))
    files = list(given) if several else [given]
    for file in files:
        if not isinstance(file, (str, os.PathLike, SourceFile)):
            raise InvalidOption(
                f"Found {type(file).__name__}; check takes names of files, a folder, or one table "
                "with owner=COLUMN. Put tables of several owners into one, with a column that says "
                "whose. Owners were checked when they were made: their notes say what was found."
            )
    return files


def examine(intake: Intake, target: str, accept: Iterable[str] = ()) -> Findings:
    """All that is odd in tables that were read before, with what reading noticed."""
    survey = Survey(intake.tables, target, intake.test)
    found = list(intake.findings)
    told = {(f.owner, f.column) for f in found if f.severity == "stop" and f.column is not None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # columns of which somebody has no value
        for look in CHECKS if survey.names else CHECKS[:3]:
            found += [f for f in look(survey) if (f.owner, f.column) not in told]
    ordered = sorted(found, key=lambda finding: finding.severity != "stop")
    findings = Findings(
        tuple(ordered),
        sizes={name: len(table) for name, table in survey.everybody.items()},
        cells={
            name: {
                str(column): (survey.kinds[name][str(column)], float(gone))
                for column, gone in table.isna().mean().items()
            }
            for name, table in survey.everybody.items()
        },
        target=target,
        detected=intake.detected,
    )
    return findings.accepting(accept)


def accepted_tables(intake: Intake, findings: Findings) -> Intake:
    """The tables without what is left out by what was accepted."""
    tables, test, target = dict(intake.tables), intake.test, findings.target
    if "no-rows" in findings.accepted:
        tables = {name: table for name, table in tables.items() if len(table)}
    if "missing-target" in findings.accepted:
        tables = {n: t[~lacks_target(t, target)] for n, t in tables.items()}
        test = None if test is None else test[~lacks_target(test, target)]
    return replace(intake, tables=tables, test=test)
