"""What is odd in the owners' files: everything at once, before anything is trained or paid.

`check` reads files and examines them; `examine` examines what was read before. Each finding has a
code (`codes`) and a severity: a *stop* would move money in silence and can be told for sure, a
*note* may be real.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Unpack

from dushapley.data.check import columns, copies, extremes, populations, spelling
from dushapley.data.check.collection import Findings
from dushapley.data.check.survey import Survey
from dushapley.data.files import PathLike, SourceFile, opened
from dushapley.data.findings import Finding
from dushapley.data.intake import TEST, Intake, take_in
from dushapley.data.reading import Keys, Reading
from dushapley.errors import InvalidOption

__all__ = ["Findings", "accepted_tables", "check", "examine"]

CHECKS: tuple[Callable[[Survey], Iterator[Finding]], ...] = (
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
    extremes.infinite_values,
    extremes.extreme_values,
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
    files: PathLike | Iterable[PathLike | SourceFile],
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
        Files, or a folder of them.
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
    tested = test if test is None or isinstance(test, SourceFile) else SourceFile.read(test)
    how = Reading.from_keys(reading)
    found, skipped = opened(files)
    intake = take_in(found, target=target, owner=owner, test=tested, reading=how)
    return examine(replace(intake, findings=(*skipped, *intake.findings)), target, accept)


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
    tables = dict(intake.tables) | ({} if intake.test is None else {TEST: intake.test})
    findings = Findings(
        tuple(ordered),
        sizes={name: len(table) for name, table in tables.items()},
        cells={
            name: {
                str(column): (survey.kinds[name][str(column)], float(gone))
                for column, gone in table.isna().mean().items()
            }
            for name, table in tables.items()
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
        tables = {n: t[~columns.lacks_target(t, target)] for n, t in tables.items()}
        test = None if test is None else test[~columns.lacks_target(test, target)]
    return replace(intake, tables=tables, test=test)
