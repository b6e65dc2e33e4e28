"""`report`: what people are handed of a settlement; it trains nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date as calendar
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from dushapley.arrays import AnyDict
from dushapley.cli.outputs import (
    Force,
    Output,
    identity,
    letter_identity,
    letter_name,
    planned,
    refuse_no_folder,
    refuse_outputs,
    stamped,
    terms_of,
    write,
)
from dushapley.data.outputs import write_whole
from dushapley.errors import InvalidOption, InvalidSettlement
from dushapley.hashing import digest
from dushapley.report import owner_page, summarize, text_table
from dushapley.report import report as page_of
from dushapley.report.letters import check_shown
from dushapley.report.page import embedded
from dushapley.report.payments import payments_csv, payments_parquet, payments_workbook
from dushapley.settlement.settlement import Settlement
from dushapley.settlement.verification import as_stored, offline_findings
from dushapley.terminal import output, say

TABLES: dict[str, Callable[[Settlement], str | bytes]] = {
    ".csv": payments_csv,
    ".xlsx": payments_workbook,
    ".parquet": payments_parquet,
}


Stored = Annotated[
    Path,
    Argument(exists=True, dir_okay=False, metavar="SETTLEMENT", help="Written by value --pot."),
]
Page = Annotated[Path | None, Option(help="Write the page of all owners.", metavar="FILE")]
Letters = Annotated[
    Path | None, Option(help="Write a letter to each owner into this folder.", metavar="DIR")
]
LettersShow = Annotated[
    str | None,
    Option(
        help="What else letters say: rank, values (of all owners) and growth, with commas.",
        metavar="WHAT",
    ),
]
Payments = Annotated[
    Path | None,
    Option(help="Write the payments as a table: .csv, .xlsx or .parquet.", metavar="FILE"),
]
Title = Annotated[str | None, Option(help="Heading of the page and the letters.", metavar="TEXT")]
Logo = Annotated[
    Path | None, Option(help="A picture above them: PNG, JPEG or GIF.", metavar="FILE")
]
Date = Annotated[str | None, Option(help="Date on them [default: today].", metavar="TEXT")]


def report(
    settlement: Stored,
    page: Page = None,
    letters: Letters = None,
    letters_show: LettersShow = None,
    payments: Payments = None,
    title: Title = None,
    logo: Logo = None,
    date: Date = None,
    force: Force = False,
) -> None:
    """Pages, letters and payments of a settlement, from its file alone.

    Say, a letter to each owner and a table for whoever transfers the money:

        dushapley report settlement.json --letters letters --payments payments.csv
    """
    shown = check_shown([w.strip() for w in (letters_show or "").split(",") if w.strip()])
    if letters_show is not None and letters is None:
        raise InvalidOption("--letters-show says what letters hold; pass --letters DIR with it.")
    if payments is not None and payments.suffix.lower() not in TABLES:
        raise InvalidOption(f"--payments {payments} must end in .csv, .xlsx or .parquet.")
    stored = unbroken(settlement)
    if "growth" in shown and not isinstance(stored.record.get("growth"), Mapping):
        raise InvalidOption(
            "--letters-show growth: the settlement holds no growth, which `value --growth` "
            "measures. Run `value` again with --growth, or leave growth out."
        )
    known = {"inputs", "job"} <= set(stored.record)
    nobody = digest("settlement", *stored.valuation.owners)
    job, terms = identity(stored.record) if known else nobody, terms_of(stored.to_dict())
    outputs = planned(job, terms, page=page, payments=payments)
    target = stored.record.get("job", {}).get("target")
    folder, owners = letters or Path(), stored.valuation.owners
    mailed = {owner: folder / letter_name("letter", k, owner) for k, owner in enumerate(owners)}
    if letters is not None:
        refuse_no_folder("--letters", letters)
        for owner, path in mailed.items():
            if path.exists():
                outputs.append(Output("--letters", path, letter_identity(owner, target), terms))
    refuse_outputs(outputs, [settlement, logo], force=force)
    look: AnyDict = {
        "logo": "" if logo is None else embedded(logo),
        "date": f"{calendar.today():%-d %B %Y}" if date is None else date,
    }
    if title is not None:
        look["title"] = title
    if page is not None:
        write(page, stamped(page_of(stored.valuation, stored, **look), job, terms))
    if letters is not None:
        letters.mkdir(parents=True, exist_ok=True)
        for owner, path in mailed.items():
            mail = owner_page(
                stored.valuation, owner, stored, show=shown, settlement_file=settlement.name, **look
            )
            write_whole(path, stamped(mail, letter_identity(owner, target), terms))
        say(f"written: {len(mailed)} letters in {letters}")
    if payments is not None:
        write(payments, TABLES[payments.suffix.lower()](stored))
    if not (page or letters or payments):
        output(text_table(stored.valuation, summarize(stored.valuation, stored), stored))
        say("nothing was written; --page FILE, --letters DIR and --payments FILE do that.")


def unbroken(path: Path) -> Settlement:
    """The settlement, if nothing in its file was changed and its payments follow from its values.

    Whether the values follow from the rows is for `verify` to say.
    """
    data = as_stored(path)
    failed = [finding for finding in offline_findings(data) if finding.holds is False]
    if failed:
        raise InvalidSettlement(
            f"{path} does not hold: {failed[0].name}: {failed[0].reason}. Nobody should be paid or "
            "written to by it; take the file as it was written."
        )
    return Settlement.from_dict(data)
