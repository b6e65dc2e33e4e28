"""Does a settlement hold? Computed again, from its inputs to the last cent."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from math import isclose
from pathlib import Path
from typing import Any

from dushapley.data.files import SourceFile
from dushapley.engine.value import value
from dushapley.errors import InvalidSettlement
from dushapley.estimators.registry import AUTO
from dushapley.games import as_game
from dushapley.results.valuation import Valuation
from dushapley.settlement.money import amount_of
from dushapley.settlement.settlement import Settlement, seal, settle, versions_here
from dushapley.terminal import table

TOLERANCE = 1e-9
"""Relative difference of values that another machine's arithmetic may explain."""
BOUNDS = ("low", "high")
STATES = {True: "passed", False: "FAILED", None: "not made"}
RECOMPUTED = (
    "owners", "sizes", "values", "std_errors", "covariance", "errors", "u_empty", "u_full",
    "method", "options", "n_evaluations", "biased", "fingerprint", "failures",
)  # fmt: skip
"""What of a valuation must come out the same; the rest is how it was obtained."""


@dataclass(frozen=True)
class Finding:
    """One check: its name, whether it holds (None: it was not made), and why (not)."""

    name: str
    holds: bool | None
    reason: str


@dataclass(frozen=True)
class Verdict:
    """All findings, and whether none of them failed."""

    findings: tuple[Finding, ...]

    @property
    def holds(self) -> bool:
        """Whether the settlement stands as it is written."""
        return all(finding.holds is not False for finding in self.findings)

    def __bool__(self) -> bool:
        return self.holds

    def __repr__(self) -> str:
        """The verdict first, then every check."""
        head = "The settlement holds." if self.holds else "The settlement does NOT hold."
        rows = [(STATES[f.holds], f"{f.name}: {f.reason}") for f in self.findings]
        return "\n".join([head, table((), rows, left=(0, 1))])


def verify(
    settlement: Settlement | Mapping[str, Any] | str | os.PathLike[str],
    game: Any,
    *,
    inputs: Iterable[Mapping[str, Any]] | None = None,
    ledger: str | os.PathLike[str] | None = None,
    n_jobs: int = 1,
) -> Verdict:
    """Compute a settlement again and say whether it holds, and if not, why.

    Checked are the seal (nothing was edited), the arithmetic from values to payments, the hashes
    of the input files; and if these hold, the fingerprint of the game and the values themselves.
    Every check is named: passed, failed, or not made and why.

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
    return verdict_on(
        data, inputs, lambda: value_findings(data, game, ledger=ledger, n_jobs=n_jobs)
    )


def verdict_on(
    data: Mapping[str, Any],
    inputs: Iterable[Mapping[str, Any]] | None,
    of_values: Callable[[], list[Finding]],
) -> Verdict:
    """All findings; those of the values cost trainings, and are made only if the others hold."""
    stored = Settlement.from_dict(data)
    findings = [_seal(data), _arithmetic(data, stored), _inputs(stored, inputs), _versions(stored)]
    failed = [finding.name for finding in findings if finding.holds is False]
    if not failed:
        return Verdict((*findings, *of_values()))
    why = f"{' and '.join(failed)} failed, so there is nothing to compute again"
    return Verdict((*findings, Finding("game", None, why), Finding("values", None, why)))


def as_stored(settlement: Settlement | Mapping[str, Any] | str | os.PathLike[str]) -> Any:
    """The settlement as plain data."""
    if isinstance(settlement, Settlement):
        return settlement.to_dict()
    if isinstance(settlement, Mapping):
        return settlement
    try:
        return json.loads(Path(settlement).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidSettlement(
            f"{os.fspath(settlement)} is not a readable settlement ({error}). Pass the JSON file "
            "that was written when the pot was shared."
        ) from error


def file_hashes(files: Iterable[str | os.PathLike[str]], role: str = "owners") -> list[Any]:
    """Name, role and SHA-256 of each file, for the record of a settlement."""
    return [SourceFile.read(file).record(role) for file in files]


def first_difference(one: Any, other: Any, where: str = "", tolerance: float = 0.0) -> str | None:
    """Where two plain structures differ first, in words; None if they are the same."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        keys = sorted({*one, *other}, key=str)
        parts = [(one.get(key), other.get(key), f"{where}.{key}".lstrip(".")) for key in keys]
    elif isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        if len(one) != len(other):
            return f"{where} has {len(one)} entries, computed again {len(other)}"
        parts = [(a, b, f"{where}[{i}]") for i, (a, b) in enumerate(zip(one, other, strict=True))]
    else:
        numbers = isinstance(one, float) and isinstance(other, float)
        same = one == other or (
            numbers and isclose(one, other, rel_tol=tolerance, abs_tol=tolerance)
        )
        return None if same else f"{where} is {one!r}, computed again {other!r}"
    return next(filter(None, (first_difference(*part, tolerance) for part in parts)), None)


def _seal(data: Mapping[str, Any]) -> Finding:
    if seal(data) == data.get("seal"):
        return Finding("seal", True, "the file is as it was written")
    return Finding("seal", False, "something in the file was changed after it was written")


def _arithmetic(data: Mapping[str, Any], stored: Settlement) -> Finding:
    try:
        again = settle(
            stored.valuation,
            stored.pot,
            currency=stored.currency,
            negative=stored.negative,
            floor=stored.floor,
            decimals=stored.decimals,
            record=stored.record,
        )
    except InvalidSettlement as error:
        return Finding("payments", False, str(error))
    difference = first_difference(_exact_part(data), _exact_part(again.to_dict()))
    difference = difference or _intervals_differ(stored, again)
    if difference:
        return Finding("payments", False, f"do not follow from the values: {difference}")
    return Finding("payments", True, "follow from the values and add up to the pot")


def _exact_part(data: Mapping[str, Any]) -> dict[str, Any]:
    """What must be computed again to the last digit: everything but intervals and seal."""
    lines = [{k: v for k, v in line.items() if k not in BOUNDS} for line in data["payments"]]
    return {**data, "payments": lines, "seal": None}


def _intervals_differ(one: Settlement, other: Settlement) -> str | None:
    """Intervals come from drawn values, where another machine may round the other way."""
    slack = max(one.pot * Decimal("1e-6"), amount_of(1, one.decimals))
    for name in BOUNDS:
        stored, again = getattr(one, name), getattr(other, name)
        if (stored is None) != (again is None):
            return f"payments[0].{name} is known in only one of them"
        for i, (a, b) in enumerate(zip(stored or (), again or (), strict=True)):
            if abs(a - b) > slack:
                return f"payments[{i}].{name} is {str(a)!r}, computed again {str(b)!r}"
    return None


def _inputs(stored: Settlement, inputs: Iterable[Mapping[str, Any]] | None) -> Finding:
    settled, now = (
        {_label(entry): entry["sha256"] for entry in entries}
        for entries in (stored.record.get("inputs", ()), inputs or ())
    )
    for label in settled:
        if label not in now:
            return Finding("inputs", False, f"{label} is missing, but was part of the settlement")
        if now[label] != settled[label]:
            return Finding(
                "inputs",
                False,
                f"{label} has changed: its SHA-256 is {now[label][:16]}…, that of the settlement "
                f"{settled[label][:16]}…",
            )
    extra = [label for label in now if label not in settled]
    if extra:
        return Finding("inputs", False, f"{extra[0]} is not an input of this settlement")
    if not settled:
        return Finding("inputs", None, "no files were recorded")
    return Finding("inputs", True, f"all {len(settled)} files are as they were")


def _label(entry: Mapping[str, Any]) -> str:
    kind = "test file" if entry["role"] == "test" else "file"
    return f"{kind} {entry['name']!r}"


def value_findings(
    data: Mapping[str, Any],
    game: Any,
    *,
    ledger: str | os.PathLike[str] | None = None,
    n_jobs: int = 1,
) -> list[Finding]:
    """What takes the game: its fingerprint, and the values computed again."""
    stored = Valuation.from_dict(data["valuation"])
    played = as_game(game, len(stored.owners))
    content = _game(played.fingerprint, stored.fingerprint)
    if content.holds is False:
        return [content, Finding("values", None, "this is another game")]
    again = value(
        played,
        stored.method_asked,
        options=None if stored.method_asked == AUTO else dict(stored.options),
        budget=stored.budget,
        precision=stored.precision,
        seed=stored.seed,
        ledger=ledger,
        n_jobs=n_jobs,
    )
    one, other = ({k: v.to_dict()[k] for k in RECOMPUTED} for v in (stored, again))
    how = f"{again.n_computed:,} evaluations computed again"
    if ledger is not None:
        how += f", {(again.n_distinct or 0) - again.n_computed:,} taken from the ledger on trust"
    difference = first_difference(one, other, tolerance=TOLERANCE)
    same = "to the last bit" if one == other else f"but for rounding, {TOLERANCE:g}"
    reason = f"{difference or f'the same {same}'} ({how})"
    return [content, Finding("values", difference is None, reason)]


def _game(now: str | None, settled: str | None) -> Finding:
    if now != settled:
        unlike = "data, model, score or seed of the game differ from those of the settlement"
        return Finding("game", False, unlike)
    if now is None:
        return Finding("game", None, "it is a bare function, whose content cannot be compared")
    return Finding("game", True, "data, model, score and seed are those of the settlement")


def _versions(stored: Settlement) -> Finding:
    """Other versions are not a fault, but the first suspect where something differs."""
    then, now = stored.record.get("versions", {}), versions_here()
    other = [f"{n} {then[n]} → {now.get(n, 'none')}" for n in then if then[n] != now.get(n)]
    return Finding("versions", True, "differ: " + ", ".join(other) if other else "the same")
