"""`what-if`: the same collaboration, changed."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

from typer import Option

import dushapley as ds
from dushapley.arrays import AnyDict
from dushapley.cli import options as o
from dushapley.cli.delivery import Pot
from dushapley.cli.job import Job
from dushapley.cli.outputs import refuse_outputs
from dushapley.cli.quote import agree_on_evaluations
from dushapley.errors import InvalidOption
from dushapley.settlement.changes import Change
from dushapley.settlement.money import money
from dushapley.terminal import distinct_names, json_text, output, printable, say, table

Leaving = Annotated[str | None, Option(help="This owner leaves.", metavar="OWNER")]
Joining = Annotated[
    Path | None,
    Option(exists=True, dir_okay=False, help="A newcomer's file.", metavar="FILE"),
]
Merging = Annotated[tuple[str, str] | None, Option(help="Two owners act as one.", metavar="A B")]
Copying = Annotated[
    tuple[str, str] | None, Option(help="A adds a copy of B's rows.", metavar="A B")
]
MoreRows = Annotated[
    tuple[str, int] | None,
    Option(help="OWNER brings N more rows (fewer, if negative).", metavar="OWNER N"),
]


def what_if(
    job: Job,
    asked: o.Asked,
    means: o.Means,
    pot: Pot,
    leave: Leaving = None,
    join: Joining = None,
    merge: Merging = None,
    copy: Copying = None,
    rows: MoreRows = None,
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
    refuse_outputs(means.outputs, [*job.paths, join])
    job.refuse_several()
    game = job.game()
    change = make_change(job, game, *given[0])
    how: AnyDict = {
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
    paid = None
    try:
        if pot.pot is not None:
            paid = payments(answer, pot)
    finally:  # the answer was paid for
        show(answer, paid, pot.currency, json=json)


def make_change(job: Job, game: ds.Game, kind: Callable[..., Change], wish: Any) -> Change:
    """The one change that was asked for."""
    if not isinstance(wish, Path):
        return kind(*wish) if isinstance(wish, tuple) else kind(wish)
    name, table = job.newcomer(wish)
    rows = game.owners.align(table, "The newcomer", as_frame=True)  # type: ignore[attr-defined]
    return ds.Join(name, *rows)


def payments(answer: ds.WhatIf, pot: Pot) -> list[dict[str, str]]:
    """What the same pot would pay everybody in either world."""
    worlds = [pot.shared(v) for v in (answer.before, answer.after)]
    before, after = (
        dict(zip(w.valuation.owners, map(str, w.payments), strict=True)) for w in worlds
    )
    change = answer.change
    if isinstance(change, ds.Merge):  # the two are compared with what they had together
        both = Decimal(before.pop(change.first)) + Decimal(before.pop(change.second))
        before[change.name] = str(both)
    names = dict.fromkeys([*after, *before])
    return [
        {"owner": name, "before": before.get(name, ""), "after": after.get(name, "")}
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
        pairs = [(row["before"], row["after"]) for row in paid]
        told = [[money(Decimal(amount)) if amount else "-" for amount in pair] for pair in pairs]
        rows = [[name, *cells] for name, cells in zip(names, told, strict=True)]
        heading = f"payment, {currency}" if currency else "payment"
        output(table((heading, "before", "after"), rows))
        mine = next((row for row in paid if row["owner"] == answer.whose), {})
        before, after = (Decimal(mine.get(world) or 0) for world in ("before", "after"))
        for sentence in answer.paid_verdict(before, after, currency):
            output(printable(f"  {sentence}"))
