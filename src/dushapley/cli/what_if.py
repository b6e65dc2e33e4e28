"""`what-if`: the same collaboration, changed."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

from typer import Option

import dushapley as ds
from dushapley.cli import options as o
from dushapley.cli.delivery import Pot
from dushapley.cli.job import Job
from dushapley.cli.outputs import refuse_outputs
from dushapley.cli.quote import agree_on_evaluations
from dushapley.errors import InvalidOption, InvalidSettlement
from dushapley.settlement.changes import Change
from dushapley.settlement.money import money
from dushapley.terminal import distinct_names, json_text, output, printable, say, table


def what_if(
    job: Job,
    asked: o.Asked,
    means: o.Means,
    pot: Pot,
    leave: Annotated[str | None, Option(help="This owner leaves.", metavar="OWNER")] = None,
    join: Annotated[
        Path | None,
        Option(exists=True, dir_okay=False, help="A newcomer's file.", metavar="FILE"),
    ] = None,
    merge: Annotated[
        tuple[str, str] | None, Option(help="Two owners act as one.", metavar="A B")
    ] = None,
    copy: Annotated[
        tuple[str, str] | None, Option(help="A adds a copy of B's rows.", metavar="A B")
    ] = None,
    rows: Annotated[
        tuple[str, int] | None,
        Option(help="OWNER brings N more rows (fewer, if negative).", metavar="OWNER N"),
    ] = None,
    json: o.Json = False,
) -> None:
    """What would change if an owner left, joined, merged, copied, or brought more rows."""
    wishes = {ds.Leave: leave, ds.Join: join, ds.Merge: merge, ds.Copy: copy, ds.MoreRows: rows}
    given = [(kind, wish) for kind, wish in wishes.items() if wish is not None]
    if len(given) != 1:
        raise InvalidOption(
            f"Found {len(given)} changes; exactly one is needed: --leave OWNER, --join FILE, "
            "--merge A B, --copy A B, or --rows OWNER N."
        )
    refuse_outputs(means.outputs, [*job.paths, *filter(None, [join])])
    job.refuse_several()
    game = job.game()
    change = make_change(job, game, *given[0])
    how: dict[str, Any] = {
        "method": asked.method, "options": asked.options, "budget": asked.budget_of(game),
        "seed": asked.seed, "ledger": means.usable_ledger_of(game),
    }  # fmt: skip
    quote = ds.quote_change(game, change, **how)
    about = "about " if quote.new < quote.at_most else ""  # a method that learns may ask others
    say(
        f"{quote.known:,} evaluations are paid for; {about}{quote.new:,} new, {quote.at_most:,} at "
        "most"
    )
    agree_on_evaluations(game, quote.new, means)
    answer = ds.what_if(game, change, n_jobs=means.jobs, **how)
    refusal = None
    try:
        paid = None if pot.pot is None else payments(answer, pot)
    except InvalidSettlement as error:
        paid, refusal = None, error  # raised once the answer, which was paid for, is shown
    show(answer, paid, pot.currency, json=json)
    if refusal is not None:
        raise refusal


def make_change(job: Job, game: ds.Game, kind: Callable[..., Change], wish: Any) -> Change:
    """The one change that was asked for."""
    if not isinstance(wish, Path):
        return kind(*wish) if isinstance(wish, tuple) else kind(wish)
    name, table = job.newcomer(wish)
    owners: ds.Owners = game.owners  # type: ignore[attr-defined]
    return ds.Join(name, *owners.align(table, "The newcomer", as_frame=True))


def payments(answer: ds.WhatIf, pot: Pot) -> list[dict[str, str]]:
    """What the same pot would pay everybody in either world."""
    worlds = [pot.shared(v) for v in (answer.before, answer.after)]
    paid = [dict(zip(w.valuation.owners, map(str, w.payments), strict=True)) for w in worlds]
    if isinstance(answer.change, ds.Merge):  # the two are compared with what they had together
        both = [Decimal(paid[0].pop(name)) for name in (answer.change.first, answer.change.second)]
        paid[0][answer.change.name] = str(sum(both))
    names = dict.fromkeys([*paid[1], *paid[0]])
    return [
        {"owner": name, "before": paid[0].get(name, ""), "after": paid[1].get(name, "")}
        for name in names
    ]


def show(
    answer: ds.WhatIf, paid: list[dict[str, str]] | None, currency: str = "", *, json: bool
) -> None:
    """Both worlds on stdout."""
    if json:
        worlds = {
            "question": answer.change.told(),
            "before": answer.before.to_dict(),
            "after": answer.after.to_dict(),
            "scale": answer.scale,
            "found": answer.n_found,
            "payments": paid,
        }
        output(json_text(worlds))
        return
    if paid is None:
        output(answer)
    else:
        output(answer.told(()))
        names = distinct_names([row["owner"] for row in paid], 32)
        rows = [
            [name, *(money(Decimal(row[w])) if row[w] else "-" for w in ("before", "after"))]
            for name, row in zip(names, paid, strict=True)
        ]
        heading = f"payment, {currency}" if currency else "payment"
        output(table((heading, "before", "after"), rows))
        both = {row["owner"]: (row["before"], row["after"]) for row in paid}
        amounts = [Decimal(amount or 0) for amount in both.get(answer.whose or "", ("0", "0"))]
        for sentence in answer.paid_verdict(amounts[0], amounts[1], currency):
            output(printable(f"  {sentence}"))
