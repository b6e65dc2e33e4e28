"""`salvage`."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

from typer import Argument, Option

import dushapley as ds
from dushapley.terminal import output


def salvage(
    ledger: Annotated[Path, Argument(exists=True, dir_okay=False, help="The damaged ledger.")],
    new: Annotated[Path, Argument(help="A new file for what is intact.")],
    context: Annotated[
        str | None, Option(help="Of the game, where the file no longer tells.", show_default=False)
    ] = None,
) -> None:
    """Copy what is intact of a damaged ledger into a new one."""
    saved = ds.salvage(ledger, new, context=context)
    output(f"{saved:,} evaluations saved to {new}; go on with --ledger {quote(str(new))}")
