"""From a valuation to what people are handed: table, settlement, pages; and `verify`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dushapley.cli import options as o
from dushapley.cli.job import Job, say
from dushapley.cli.running import refuse_workers
from dushapley.errors import InvalidOption, InvalidSettlement

if TYPE_CHECKING:
    from dushapley.games import Game
    from dushapley.results.valuation import Valuation
    from dushapley.settlement.settlement import Settlement

SETTLEMENT = Path("settlement.json")
"""Where a settlement is written unless told otherwise."""


@dataclass(frozen=True)
class Pot:
    """Money to be shared, and by which rule. Attributes are options by the same names."""

    pot: o.Pot = None
    currency: o.Currency = ""
    negative: o.Negative = "clip"
    floor: o.Floor = None

    def __post_init__(self) -> None:
        from dushapley.settlement.money import (
            check_currency,
            check_decimals,
            check_floor,
            check_pot,
        )

        if self.pot is None and (self.currency, self.negative, self.floor) != ("", "clip", None):
            raise InvalidOption(
                "--currency, --negative and --floor say how a pot is shared; pass --pot AMOUNT "
                "with them."
            )
        try:
            check_floor(self.floor, self.negative)
            if self.pot is not None:
                check_pot(self.pot, check_decimals(None, check_currency(self.currency)))
        except InvalidSettlement as error:
            raise InvalidOption(str(error)) from error

    def shared(self, result: Valuation, record: dict[str, Any] | None = None) -> Settlement:
        """The pot, shared by the values."""
        from dushapley.settlement.settlement import settle

        assert self.pot is not None
        return settle(
            result, self.pot, currency=self.currency, negative=self.negative, floor=self.floor,
            record=record,
        )  # fmt: skip


@dataclass(frozen=True)
class Delivery(Pot):
    """What is wanted of a result besides the table. Attributes are options by the same names."""

    settlement: o.Settlement = SETTLEMENT
    report: o.Report = None
    report_for: o.ReportFor = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.report_for and self.report is None:
            raise InvalidOption("--report-for needs --report FILE, beside which the pages go.")
        if self.pot is None and self.settlement != SETTLEMENT:
            raise InvalidOption("--settlement is where a shared pot goes; pass --pot AMOUNT too.")
        refuse_no_folder(self.report)
        refuse_no_folder(None if self.pot is None else self.settlement)

    def refuse_strangers(self, game: Game) -> None:
        """Refuse pages for people who own nothing here, before any training."""
        for name in self.report_for or ():
            if name not in game.names:
                raise InvalidOption(
                    f"--report-for {name!r}: there is no such owner. Owners: "
                    f"{', '.join(map(repr, game.names[:20]))}."
                )

    def hand_over(
        self,
        result: Valuation,
        job: Job,
        game: Game,
        inputs: list[Any],
        command: str,
        *,
        json: bool,
    ) -> None:
        """Data on stdout, files where they were asked for."""
        from dushapley.report import owner_page, report, summarize, text_table

        record = {"command": command, "job": job_record(job), "inputs": inputs}
        settled = self._settle(result, record)
        if json:
            print(result.to_json())
        else:
            print(text_table(result, summarize(result, settled), settled))
        if self.report is None:
            return
        model = about(job, game)
        self._write(self.report, report(result, settled, about=model | {"command": command}))
        for name in self.report_for or ():
            path = self.report.with_name(page_name(self.report, game.names.index(name), name))
            self._write(path, owner_page(result, name, settled, about=model))

    def _settle(self, result: Valuation, record: dict[str, Any]) -> Settlement | None:
        if self.pot is None:
            return None
        if not result.complete:
            say("Not settled: the run was stopped early.")
            return None
        settled = self.shared(result, record)
        self._write(self.settlement, settled.to_json())
        return settled

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text, encoding="utf-8")
        say(f"written: {path}")


def refuse_no_folder(path: Path | None) -> None:
    """Refuse a file to write in a folder that does not exist, before any training."""
    if path is not None and not path.absolute().parent.is_dir():
        raise InvalidOption(f"There is no folder {path.parent} to write {path.name} into.")


def page_name(report: Path, position: int, owner: str) -> str:
    """A file name that no owner's name can lead astray."""
    plain = re.sub(r"[^A-Za-z0-9]+", "-", owner)[:40].strip("-")
    return f"{report.stem}-for-{position + 1:03d}{'-' * bool(plain)}{plain}.html"


def about(job: Job, game: Any) -> dict[str, str]:
    """Model and score, for the page."""
    one = game.games[0] if hasattr(game, "games") else game
    model = one.model.steps[-1][1] if hasattr(one.model, "steps") else one.model
    tested = (
        f"{job.cv}-fold cross-validation of the owners’ own rows"
        if job.cv is not None
        else f"{len(one.y_test):,} test rows"
    )
    return {"model": type(model).__name__, "score": f"{one.scoring}, {tested}"}


def job_record(job: Job) -> dict[str, Any]:
    """The job as plain data; files by their names only."""
    fields = asdict(job)
    fields["files"] = [path.name for path in job.files]
    fields["test"] = None if job.test is None else job.test.name
    return fields


def hashes(owners: Sequence[Path], test: Path | None) -> list[Any]:
    """Hashes of all files that a job reads."""
    from dushapley.data.files import files_in
    from dushapley.settlement.verification import file_hashes

    return [*file_hashes(files_in(owners)), *file_hashes([] if test is None else [test], "test")]


def verify(
    settlement: Annotated[Path, typer.Argument(exists=True, dir_okay=False, metavar="SETTLEMENT")],
    files: Annotated[
        list[Path], typer.Argument(exists=True, help="All files it was made from, test file too.")
    ],
    ledger: Annotated[
        Path | None,
        typer.Option(help="Take paid evaluations from this file on trust.", metavar="FILE"),
    ] = None,
    from_ledger: Annotated[
        bool, typer.Option("--from-ledger", help="Trust the ledger that `value` keeps by default.")
    ] = False,
    model: Annotated[
        str | None,
        typer.Option(
            help="Agree to import this model, where it has no short name.", metavar="NAME"
        ),
    ] = None,
    jobs: o.Jobs = 1,
) -> None:
    """Compute a settlement again and say whether it holds: exit code 0 if so, else 1."""
    refuse_workers(jobs)
    from dushapley.cli.job import default_ledger
    from dushapley.data.files import files_in
    from dushapley.settlement.verification import Finding, as_stored, value_findings, verdict_on

    data = as_stored(settlement)
    record = recorded(data)
    owners, test = told_apart(files_in(files), record["inputs"])

    def of_values() -> list[Finding]:
        game = recorded_job(record, owners, test, model).game()
        kept = default_ledger(game.context) if from_ledger and game.context else ledger
        kept = None if game.cheap else kept  # nothing was paid for, so nothing was kept
        return value_findings(data, game, ledger=kept, n_jobs=jobs)

    verdict = verdict_on(data, hashes(owners, test), of_values)
    print(verdict)
    raise typer.Exit(0 if verdict.holds else 1)


def recorded(data: Any) -> dict[str, Any]:
    """Provenance of a settlement that the command line made."""
    from dushapley.errors import InvalidSettlement

    record = data.get("record") if isinstance(data, dict) else None
    if not isinstance(record, dict) or not {"job", "inputs"} <= set(record):
        raise InvalidSettlement(
            "The settlement does not record the command it was made by. If it was made in Python, "
            "verify it there: dushapley.verify(settlement, game)."
        )
    return record


def recorded_job(
    record: dict[str, Any], owners: Sequence[Path], test: Path | None, agreed_model: str | None
) -> Job:
    """The job that a settlement was made by, on these files."""
    from dushapley.games.model.catalogue import NAMES

    named = record["job"].get("model")
    if named is not None and named not in NAMES and named != agreed_model:
        raise InvalidOption(
            f"The settlement names the model {named!r}, which is code to be imported. Pass "
            f"--model {named} if you trust it."
        )
    return Job(**(record["job"] | {"files": owners, "test": test}))


def told_apart(files: Sequence[Path], inputs: Sequence[Any]) -> tuple[list[Path], Path | None]:
    """Owners' files in their recorded order, and the test file."""
    from dushapley.settlement.verification import file_hashes

    names = [entry["name"] for entry in inputs if entry["role"] != "test"]
    tests = {entry["name"]: entry["sha256"] for entry in inputs if entry["role"] == "test"}
    test = None
    for path in files:
        alone = path.name in tests and path.name not in names
        if alone or (path.name in tests and file_hashes([path])[0]["sha256"] == tests[path.name]):
            test = path
    owners = [path for path in files if path != test]
    place = {name: k for k, name in enumerate(names)}
    return sorted(owners, key=lambda path: place.get(path.name, len(place))), test
