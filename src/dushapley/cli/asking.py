"""`what-if`: the same collaboration, changed."""

from __future__ import annotations

import json as jsons
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dushapley.cli import options as o
from dushapley.cli.job import Job, method_options, say
from dushapley.errors import InvalidOption

if TYPE_CHECKING:
    from dushapley.changes import Change
    from dushapley.games import Game
    from dushapley.whatif import WhatIf


def what_if(
    files: o.Files,
    target: o.Target,
    owner: o.Owner = None,
    by_file: o.ByFile = False,
    test: o.Test = None,
    holdout: o.Holdout = None,
    cv: o.Cv = None,
    leave: Annotated[str | None, typer.Option(help="This owner leaves.", metavar="OWNER")] = None,
    join: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="A newcomer's file.", metavar="FILE"),
    ] = None,
    merge: Annotated[
        tuple[str, str] | None, typer.Option(help="Two owners act as one.", metavar="A B")
    ] = None,
    copy: Annotated[
        tuple[str, str] | None, typer.Option(help="A adds a copy of B's rows.", metavar="A B")
    ] = None,
    rows: Annotated[
        tuple[str, int] | None,
        typer.Option(help="OWNER brings N more rows (fewer, if negative).", metavar="OWNER N"),
    ] = None,
    task: o.Task = "auto",
    model: o.Model = None,
    scoring: o.Scoring = None,
    empty: o.Empty = "constant",
    on_failure: o.OnFailure = "raise",
    repeats: o.Repeats = 1,
    timeout: o.Timeout = None,
    encode: o.Encode = "pooled",
    model_seed: o.ModelSeed = 0,
    method: o.Method = "auto",
    option: o.MethodOption = None,
    budget: o.Budget = None,
    seed: o.Seed = 0,
    jobs: o.Jobs = 1,
    ledger: o.Ledger = None,
    no_ledger: o.NoLedger = False,
    pot: o.Pot = None,
    currency: o.Currency = "",
    negative: o.Negative = "clip",
    floor: o.Floor = None,
    json: o.Json = False,
    yes: o.Yes = False,
    debug: o.Debug = False,
) -> None:
    """What would change if an owner left, joined, merged, copied, or brought more rows."""
    del debug  # read by main
    from dushapley.cli.valuing import agree_on, kept_at, refuse_unknown
    from dushapley.whatif import quote_change
    from dushapley.whatif import what_if as ask

    given = [x for x in (leave, join, merge, copy, rows) if x is not None]
    if len(given) != 1:
        raise InvalidOption(
            f"Found {len(given)} changes; needed is one: --leave OWNER, --join FILE, --merge A B, "
            "--copy A B, or --rows OWNER N."
        )
    refuse_unknown(method)
    game = Job(
        files, target, owner, by_file, test, holdout, cv, task, model, scoring, empty, on_failure,
        repeats, timeout, None, encode, model_seed,
    ).game()  # fmt: skip
    change = make_change(game, leave, join, merge, copy, rows)
    kept = None if no_ledger else ledger or kept_at(game)
    how: dict[str, Any] = {
        "method": method, "options": method_options(option or []), "budget": budget, "seed": seed,
        "ledger": kept,
    }  # fmt: skip
    quote = quote_change(game, change, **how)
    say(f"{quote.known:,} evaluations are paid for; {quote.new:,} new, {quote.at_most:,} at most")
    agree_on(game, quote.new, jobs, yes=yes)
    answer = ask(game, change, n_jobs=jobs, **how)
    paid = None if pot is None else payments(answer, pot, currency, negative, floor)
    show(answer, paid, json=json)


def make_change(
    game: Game,
    leave: str | None,
    join: Path | None,
    merge: tuple[str, str] | None,
    copy: tuple[str, str] | None,
    rows: tuple[str, int] | None,
) -> Change:
    """The one change that was asked for."""
    import dushapley as ds
    from dushapley.reading import owner_name, read_table

    if leave is not None:
        return ds.Leave(leave)
    if merge is not None:
        return ds.Merge(*merge)
    if copy is not None:
        return ds.Copy(*copy)
    if rows is not None:
        return ds.MoreRows(*rows)
    assert join is not None
    return ds.Join(owner_name(join), *game.owners.align(read_table(join), "The newcomer"))  # type: ignore[attr-defined]


def payments(
    answer: WhatIf, pot: str, currency: str, negative: str, floor: str | None
) -> list[dict[str, str]]:
    """What the same pot would pay everybody in either world."""
    from dushapley.settlement import settle

    worlds = [
        settle(v, pot, currency=currency, negative=negative, floor=floor)
        for v in (answer.before, answer.after)
    ]
    paid = [dict(zip(w.valuation.owners, map(str, w.payments), strict=True)) for w in worlds]
    names = dict.fromkeys([*paid[1], *paid[0]])
    return [
        {"owner": name, "before": paid[0].get(name, ""), "after": paid[1].get(name, "")}
        for name in names
    ]


def show(answer: WhatIf, paid: list[dict[str, str]] | None, *, json: bool) -> None:
    """Both worlds on stdout."""
    if json:
        told = {
            "question": answer.change.told(),
            "before": answer.before.to_dict(),
            "after": answer.after.to_dict(),
            "scale": answer.scale,
            "found": answer.n_found,
            "payments": paid,
        }
        print(jsons.dumps(told, indent=1, ensure_ascii=False, allow_nan=False))
        return
    print(answer)
    if paid is not None:
        print(f"  {'payment':<32} {'before':>14} {'after':>14}")
    for row in paid or ():
        print(f"  {row['owner'][:32]:<32} {row['before'] or '-':>14} {row['after'] or '-':>14}")
