"""What people are handed of a valuation: table, settlement, pages."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Annotated

from typer import Option

import dushapley as ds
from dushapley.arrays import AnyDict
from dushapley.cli import options as o
from dushapley.cli.job import Job, JobGame, one_of
from dushapley.cli.outputs import (
    Force,
    Output,
    letter_identity,
    letter_name,
    planned,
    refuse_outputs,
    stamped,
    terms_of,
    write,
)
from dushapley.errors import InvalidOption, InvalidSettlement
from dushapley.report import owner_page, report, summarize, text_table
from dushapley.results.diagnosis import Diagnosis
from dushapley.settlement.interactions import Interactions
from dushapley.settlement.money import agreed_terms, rule_text
from dushapley.terminal import output, say
from dushapley.validation import LARGEST, suggestion

SETTLEMENT = Path("settlement.json")
"""Where a settlement is written unless told otherwise."""


@dataclass(frozen=True)
class Pot:
    """Money to be shared, and by which rule. Attributes are options by the same names."""

    pot: Annotated[
        str | None, Option(help="Share this amount of money, to the cent.", metavar="AMOUNT")
    ] = None
    currency: Annotated[str, Option(help="Its currency, say EUR.")] = ""
    negative: Annotated[
        str,
        Option(
            help="Negative values: clip = paid nothing, charge = pay in (up to a limit), floor = "
            "everybody gets something."
        ),
    ] = "clip"
    floor: Annotated[
        str | None, Option(help="With floor: part of an equal share for everybody [default: 0.1].")
    ] = None
    cap: Annotated[
        str | None,
        Option(
            help="With charge: pay in at most so many times what one's rows alone would bring "
            "[default: 1], or none for no limit.",
            metavar="X",
        ),
    ] = None

    def __post_init__(self) -> None:
        terms = (self.currency, self.negative, self.floor, self.cap)
        if self.pot is None and terms != ("", "clip", None, None):
            raise InvalidOption(
                "--currency, --negative, --floor and --cap say how a pot is shared; pass --pot "
                "AMOUNT with them."
            )
        if self.pot is None:
            return
        try:
            limit = self.agreed()["cap"]
        except InvalidSettlement as error:
            raise InvalidOption(str(error)) from error
        if limit is not None:
            say(f"warning: {rule_text(self.negative, limit)} Agree on that before anybody is paid.")

    def agreed(self) -> AnyDict:
        """Pot and rule, checked and complete."""
        return agreed_terms(
            self.pot,
            currency=self.currency,
            negative=self.negative,
            floor=self.floor,
            cap=self.cap,
        )

    @property
    def terms(self) -> str:
        """Pot and rule, as a settlement of them would say; "" without a pot."""
        return "" if self.pot is None else terms_of(self.agreed())

    def shared(
        self,
        result: ds.Valuation,
        record: AnyDict | None = None,
        diagnosis: Diagnosis | None = None,
    ) -> ds.Settlement:
        """The pot, shared by the values; refused where all data are worth no more than none."""
        same = self.negative == "floor" and Fraction(self.floor or 0) == 1  # whatever the values
        if result.u_full - result.u_empty <= result.rounding and not same:
            raise InvalidSettlement(
                f"The score is {result.u_full:.4g} with everybody's data and {result.u_empty:.4g} "
                "with nobody's: there is no gain to share, so nothing is settled. A column of ids "
                "among the features or labels that owners and test file write differently would do "
                "this: look at the files. To pay everybody the same all the same, pass --negative "
                "floor --floor 1."
            )
        return ds.settle(result, record=record, diagnosis=diagnosis, **self.agreed())

    def known_within(self, amount: float, game: ds.Game) -> Callable[[ds.Estimate], bool]:
        """Whether every payment, as it would be by an estimate, is known to ± this amount."""

        def is_known(so_far: ds.Estimate) -> bool:
            valued = ds.Valuation(
                owners=game.names, sizes=game.sizes, values=so_far.values,
                std_errors=so_far.std_errors, covariance=so_far.covariance, method="", seed=0,
                n_evaluations=2, n_distinct=2, n_computed=2, u_empty=0.0,
                u_full=float(so_far.values.sum()),
            )  # fmt: skip
            try:
                settled = self.shared(valued)
            except InvalidSettlement:  # there is no gain so far
                return False
            ends = zip(settled.low or (), settled.high or (), strict=True)
            return settled.low is not None and max(h - low for low, h in ends) <= 2 * amount

        return is_known


def precision_of(typed: str | None, currency: str | None) -> tuple[float | None, float | None]:
    """A part of the spread of the values, or an amount of the pot; the other is None.

    Up to 1 without a currency it is a part. Without a pot, `currency` is None.

    Examples
    --------
    >>> precision_of("0.05", "EUR"), precision_of("500", "EUR"), precision_of("500 EUR", "EUR")
    ((0.05, None), (None, 500.0), (None, 500.0))
    """
    if typed is None:
        return None, None
    try:
        number, *unit = typed.split()
        amount = float(number)
    except ValueError:
        amount, unit = float("nan"), []
    if amount <= 1 and not unit:
        return amount, None
    if currency is None or " ".join(unit) not in ("", currency) or not 0 < amount < LARGEST:
        raise InvalidOption(
            f"--precision is {typed!r:.60}; it must be a part of the spread of the values, above 0 "
            "and at most 1 (0.05), or with --pot an amount of its currency (500, '500 EUR')."
        )
    return None, amount


@dataclass(frozen=True)
class Delivery(Pot):
    """What is wanted of a result besides the table. Attributes are options by the same names."""

    settlement: o.Settled = SETTLEMENT
    report: o.Report = None
    report_for: Annotated[
        list[str] | None,
        Option(
            help="And one for this owner, silent about the others; may be repeated.",
            metavar="OWNER",
        ),
    ] = None
    why: Annotated[
        bool,
        Option(help="With a pot or a report: measure why, by at most 3 trainings an owner."),
    ] = True
    growth: Annotated[
        bool,
        Option(
            "--growth",
            help="With a pot: measure what a quarter more rows of its own would earn each owner, "
            "by 16 trainings an owner.",
        ),
    ] = False
    pairs: Annotated[
        bool,
        Option(
            "--pairs",
            help="Also every two owners: who is redundant with whom, who needs whom. After exact "
            "or gp the ledger has all it takes.",
        ),
    ] = False
    force: Force = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.growth and self.pot is None:
            raise InvalidOption(
                "--growth is kept in the settlement of a pot; pass --pot AMOUNT too."
            )
        if self.report_for and self.report is None:
            raise InvalidOption("--report-for needs --report FILE, beside which the pages go.")
        if self.pot is None and self.settlement != SETTLEMENT:
            raise InvalidOption("--settlement is where a shared pot goes; pass --pot AMOUNT too.")

    def refuse_outputs(self, job: Job, means: o.Means) -> None:
        """Refuse files that cannot be written, or should not be, before any file is read."""
        files = planned(
            job.identity,
            self.terms,
            settlement=self.settlement if self.pot else None,
            report=self.report,
        )
        refuse_outputs(files + means.outputs, job.paths, force=self.force)

    def refuse_strangers(self, job: Job, game: ds.Game) -> None:
        """Refuse pages for people who own nothing here, before any training."""
        for name in self.report_for or ():
            if name not in game.names:
                hint, names = suggestion(name, game.names), ", ".join(map(repr, game.names[:20]))
                raise InvalidOption(
                    f"--report-for {name!r}: there is no such owner.{hint} Owners: {names}."
                )
        pages = [
            Output(f"--report-for {name!r}", path, letter_identity(name, job.target), self.terms)
            for name, path in self._pages(game)
        ]
        refuse_outputs(pages, [*job.paths, self.report], force=self.force)

    def _pages(self, game: ds.Game) -> list[tuple[str, Path]]:
        """The owners who get pages of their own, and where these go."""
        if self.report is None:
            return []
        stem, asked = f"{self.report.stem}-for", dict.fromkeys(self.report_for or ())
        letters = {name: letter_name(stem, game.names.index(name), name) for name in asked}
        return [(name, self.report.with_name(letter)) for name, letter in letters.items()]

    def hand_over(
        self,
        result: ds.Valuation,
        job: Job,
        game: JobGame,
        command: str,
        *,
        json: bool,
        diagnosis: Diagnosis | None = None,
        growth: AnyDict | None = None,
        interactions: Interactions | None = None,
    ) -> None:
        """Data on stdout, files where they were asked for."""
        facts = about(job, game)
        record = {
            "command": command,
            "job": job.record(),
            "inputs": job.inputs.record(),
            "findings": job.findings.record(),
            "about": facts,
            **({} if growth is None else {"growth": growth}),
        }
        settled, refusal = None, None
        if self.pot is not None and not result.complete:
            say("Not settled: the run was stopped early.")
        try:
            if self.pot is not None and result.complete:
                settled = self.shared(result, record, diagnosis)
        except InvalidSettlement as error:
            refusal = error  # raised once all else is handed over, which was paid for
        if json:
            counted = {} if diagnosis is None else {"trainings to explain": diagnosis.trainings}
            output(replace(result, details={**result.details, **counted}).to_json())
        else:
            output(text_table(result, summarize(result, settled, diagnosis=diagnosis), settled))
        if settled is not None:
            write(self.settlement, settled.to_json())
        if self.report is not None:
            terms = "" if settled is None else self.terms
            page = report(
                result, settled, about=facts | {"command": command}, diagnosis=diagnosis,
                interactions=interactions,
            )  # fmt: skip
            write(self.report, stamped(page, job.identity, terms))
            for name, path in self._pages(game):
                page = owner_page(
                    result, name, settled, about=facts, diagnosis=diagnosis,
                    settlement_file=self.settlement.name,
                )  # fmt: skip
                write(path, stamped(page, letter_identity(name, job.target), terms))
        if settled is not None:
            settlement = shlex.quote(str(self.settlement))
            inputs = shlex.join(map(str, [*job.files, *filter(None, [job.test])]))
            say(
                f"next, letters and payments:\n  dushapley report {settlement} --letters letters "
                "--payments payments.csv\n"
                f"and whoever doubts it:\n  dushapley verify {settlement} {inputs}"
            )
        if refusal is not None:
            raise refusal


def about(job: Job, game: JobGame) -> dict[str, str]:
    """Model, score and what it was measured on, for the page and the record."""
    one = one_of(game)
    model = one.model.steps[-1][1] if hasattr(one.model, "named_steps") else one.model
    rows = f"{len(one.y_test):,} rows"
    tested = f"in {job.cv}-fold cross-validation of the owners’ own rows"
    if job.test is not None:
        tested = f"on {rows} of {job.test.name}"
    elif job.holdout is not None:
        tested = f"on {rows} held out of the owners’ own"
    facts = {"model": type(model).__name__, "score": str(one.scoring), "tested": tested}
    return facts | ({"target": job.target} if job.target else {})
