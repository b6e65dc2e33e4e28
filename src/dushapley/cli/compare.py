"""`compare`: what the other methods would have said, for the same number of trainings."""

from __future__ import annotations

import json as jsons
from collections.abc import Sequence
from io import BytesIO
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

import dushapley as ds
from dushapley.cli import options as o
from dushapley.cli.job import Job
from dushapley.cli.outputs import Force, Output, refuse_outputs, stamp, write
from dushapley.cli.quote import agree_on_evaluations
from dushapley.engine.plan import choose_plan
from dushapley.errors import BudgetTooSmall, InvalidOption, InvalidValuation, MethodNotApplicable
from dushapley.estimators.registry import AUTO, find
from dushapley.terminal import columns, output, say, table

if TYPE_CHECKING:
    import pandas as pd


USUAL = "gp, stratified-svarm, leverage, permutation, du, random"
PICTURES = (".png", ".svg", ".pdf")


def compare(
    job: Job,
    means: o.Means,
    methods: Annotated[
        str,
        Option(
            help=f"Methods by name, separated by commas [default: {USUAL}].",
            metavar="NAME,NAME",
            show_default=False,
        ),
    ] = USUAL,
    budgets: Annotated[
        str | None,
        Option(help="Evaluations, separated by commas [default: 6I, I², 2I²].", metavar="N,N"),
    ] = None,
    seeds: Annotated[int, Option(help="Runs of every method at every budget.", min=1)] = 5,
    reference: Annotated[
        Path | None,
        Option(
            exists=True,
            dir_okay=False,
            metavar="FILE",
            help="JSON of a valuation to compare with, instead of the exact values "
            "(2^I trainings).",
        ),
    ] = None,
    picture: Annotated[
        Path | None, Option(help="Draw error against budget into this file.", metavar="FILE")
    ] = None,
    force: Force = False,
    json: o.Json = False,
) -> None:
    """Methods side by side at equal budgets; each pays for itself, the ledger only saves time."""
    names = [name.strip() for name in methods.split(",") if name.strip()]
    chosen = o.whole_numbers(budgets)
    for name in names:
        o.refuse_unknown(name)
    refuse_unable_to_draw(picture)
    drawn = [] if picture is None else [Output("--picture", picture, job.identity)]
    refuse_outputs([*drawn, *means.outputs], [*job.paths, *filter(None, [reference])], force=force)
    job.refuse_several()
    game = job.game()
    n = game.n_players
    grid = list(dict.fromkeys(chosen or [6 * n, n**2, 2 * n**2]))
    refuse_nothing_to_run(game, names, grid)
    known = None if reference is None else valuation_in(reference, game.names)
    ledger = means.usable_ledger_of(game)
    paying = [n for n in names if ledger is None or known is not None or asks_shares(n)]
    trainings = len(paying) * seeds * sum(grid) + (2**n if known is None else 0)
    agree_on_evaluations(game, trainings, means)
    values = None if known is None else known.values
    frame = ds.compare(game, names, grid, range(seeds), values, n_jobs=means.jobs, ledger=ledger)
    output(frame.to_json(orient="records", indent=1) if json else summary(frame))
    if known is not None and (caveat := doubt(known)):
        say(caveat)
    if picture is not None:
        draw(frame, picture, job.identity)


def refuse_nothing_to_run(game: ds.Game, names: Sequence[str], budgets: Sequence[int]) -> None:
    """Refuse a comparison in which every method would be refused, before its reference is paid."""
    refusals = []
    for name, budget in product(names, budgets):
        try:
            choose_plan(game, name, None, budget)
        except (MethodNotApplicable, BudgetTooSmall) as refusal:
            refusals.append(str(refusal))
        else:
            return
    if not names:
        raise InvalidOption("--methods names no method; `dushapley methods` lists them.")
    raise InvalidOption(
        f"Nothing would run: every method is refused. {refusals[0]} Choose other --methods or "
        "larger --budgets."
    )


def refuse_unable_to_draw(picture: Path | None) -> None:
    """Refuse a picture that could not be written, before any training."""
    if picture is not None and picture.suffix.lower() not in PICTURES:
        raise InvalidOption(
            f"--picture is {str(picture)!r}; it needs a name that ends in {', '.join(PICTURES)}."
        )


def asks_shares(name: str) -> bool:
    """Whether a method trains on more than whole owners, whose pools the exact values have paid."""
    return name != AUTO and find(name).need(find(name).complete(None)) != "coalitions"


def valuation_in(path: Path, names: tuple[str, ...]) -> ds.Valuation:
    """A stored valuation of the same owners."""
    try:
        stored = ds.Valuation.from_dict(jsons.loads(path.read_text(encoding="utf-8")))
    except ValueError as error:
        raise InvalidValuation(
            f"{path} does not hold a valuation ({error}). Write one with `value --json`."
        ) from error
    if stored.owners != names:
        raise InvalidValuation(f"{path} values other owners: {', '.join(stored.owners[:6])}.")
    return stored


def doubt(reference: ds.Valuation) -> str:
    """What the errors of a reference leave open, in a sentence."""
    if reference.std_errors is None:
        known = reference.method_run == "exact"
        return "" if known else f"The reference is {reference.method}, and its error is not known."
    spread = reference.values.var()
    if not spread or not reference.std_errors.any():
        return ""
    part = float((reference.std_errors**2).mean() / spread)
    return (
        f"The reference is {reference.method} and has a relative MSE of about {part:.2g} itself: "
        "errors near that or below it cannot be told from it."
    )


def summary(frame: pd.DataFrame) -> str:
    """One line per method and budget: mean error over seeds, rank correlation, what was asked."""
    ran = frame[frame["seed"].notna()]
    measure = "relative_mse" if ran["relative_mse"].notna().any() else "mse"
    title = measure.replace("_mse", " MSE").replace("mse", "MSE")
    rows = []
    for (method, budget), runs in frame.groupby(["method", "budget"], sort=False, dropna=False):
        if runs["seed"].isna().all():
            cells = ["-", "-", "-", o.in_options(runs["reason"].iloc[0])]
        else:
            asked, rank = runs["n_evaluations"].mean(), runs["rank_correlation"].mean()
            errors = runs[measure].to_numpy()
            spread = f" ±{errors.std(ddof=1) / len(errors) ** 0.5:.1g}" if len(errors) > 1 else ""
            cells = [f"{asked:.0f}", f"{errors.mean():.3g}{spread}", f"{rank:.3f}"]
        rows.append([str(method), f"{budget:.0f}", *cells])
    titles = ("method", "budget", "asked", title, "rank corr.", "")
    lines = table(titles, rows, left=(0, 5), indent=0, width=columns())
    several = (WITHIN_NOISE,) if ran["seed"].nunique() > 1 else ()
    return "\n".join([lines, MEANING[measure], *several])


MEANING = {
    "relative_mse": "relative MSE: 1 = no better than paying everyone the same",
    "mse": "All reference values are equal, so errors are shown as they are.",
}
WITHIN_NOISE = (
    "±: one standard error of the mean over seeds; methods less than three apart may be equal"
)


def draw(frame: pd.DataFrame, picture: Path, job: str) -> None:
    """Error against budget as a picture."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    ds.plot_comparison(frame, figure.subplots())
    content = BytesIO()
    form = picture.suffix.lower().removeprefix(".")
    figure.savefig(content, format=form, metadata={"Keywords": stamp(job)})
    write(picture, content.getvalue())
