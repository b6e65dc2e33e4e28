"""How a job is run: by which method, and with what means. Options that commands share, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dushapley.cli import options as o
from dushapley.cli.job import default_ledger, method_options, say

if TYPE_CHECKING:
    from dushapley.games import Game


@dataclass(frozen=True)
class Asked:
    """Which method is asked, and how much. Attributes are options by the same names."""

    method: o.Method = "auto"
    option: o.MethodOption = None
    budget: o.Budget = None
    seed: o.Seed = 0

    def __post_init__(self) -> None:
        from dushapley.validation import check_budget

        refuse_unknown(self.method)
        check_budget(self.budget)
        method_options(self.option or [])

    @property
    def options(self) -> Mapping[str, Any]:
        """The method's own options, by name."""
        return method_options(self.option or [])


@dataclass(frozen=True)
class Means:
    """Workers, and where paid work is kept. Attributes are options by the same names."""

    jobs: o.Jobs = 1
    ledger: o.Ledger = None
    no_ledger: o.NoLedger = False
    yes: o.Yes = False

    def __post_init__(self) -> None:
        refuse_workers(self.jobs)

    def kept(self, game: Game) -> Path | None:
        """The ledger of this game; one that cannot be used is refused."""
        from dushapley.engine.evaluator import refuse_ledger
        from dushapley.engine.ledger import Ledger

        path = None if self.no_ledger else self.ledger or kept_at(game)
        refuse_ledger(game, path)
        if path is not None:
            assert game.context is not None
            Ledger(path, game.context).close()  # opens, or says why not
        return path


def refuse_workers(jobs: int) -> None:
    """Refuse a number of workers that is none."""
    from dushapley.engine.executors import check_executor

    check_executor("local", jobs, None)


def refuse_unknown(method: str) -> None:
    """Refuse a misspelt method before any file is read."""
    from dushapley.estimators.registry import AUTO, find

    if method != AUTO:
        find(method)


def kept_at(game: Game) -> Path | None:
    """The ledger of this game, told to the person."""
    if game.cheap:
        say("no ledger: this model is made of sums, and an evaluation costs nothing")
        return None
    if game.context is None:
        say("no ledger: the model's content cannot be compared between runs")
        return None
    path = default_ledger(game.context)
    say(f"ledger: {path} (what is paid is kept; run again to go on)")
    return path
