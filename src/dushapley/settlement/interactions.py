"""Every two owners: who is redundant with whom, who needs whom."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from dushapley.arrays import AnyDict, FloatArray
from dushapley.data.files import PathLike
from dushapley.engine.value import value
from dushapley.errors import InvalidOption
from dushapley.estimators.method import Method
from dushapley.estimators.pairs import EXACT_PAIRS, GP_PAIRS, INDICES
from dushapley.games.base import Game
from dushapley.games.callables import as_game
from dushapley.results.uncertainty import half_width, is_clear
from dushapley.results.valuation import Valuation
from dushapley.terminal import error_text, printable, short_name, table
from dushapley.validation import check_budget, check_choice, place_of, spoken

if TYPE_CHECKING:
    import pandas as pd

MOST_CHEAP = 20
"""Owners up to whom all coalitions of a game that costs nothing are asked."""
SHOWN = 12
"""Owners up to whom a matrix is printed; pairs listed of more."""
MOST_MATRIX, LISTED = 30, 40
"""Owners up to whom a page holds a matrix; pairs that it lists of more."""
CAPTION = "What every two owners are worth together beyond what each is worth alone"
SAID = {-1: "redundant", 1: "need each other", 0: "no clear interaction"}


@dataclass(frozen=True, eq=False)
class Interactions:
    """What every two owners are worth together beyond what each is worth alone.

    Attributes
    ----------
    valuation
        The run behind it: owners, method, evaluations, notes; its values are Shapley values.
    shapley, banzhaf
        Interaction indices, symmetric matrices of shape (I, I) without a diagonal. Below 0 the two
        are redundant (one will do), above 0 they need each other.
    shapley_errors, banzhaf_errors
        Their standard errors by sampling; None where all coalitions were asked.

    Examples
    --------
    >>> import dushapley as ds
    >>> game = ds.CallableGame(lambda z: z.any(axis=1), 3, names=["north", "south", "west"])
    >>> found = ds.interactions(game)
    >>> bool(found.banzhaf[0, 1] < 0)  # one of the two will do
    True
    """

    valuation: Valuation
    shapley: FloatArray
    banzhaf: FloatArray
    shapley_errors: FloatArray | None
    banzhaf_errors: FloatArray | None

    @property
    def owners(self) -> tuple[str, ...]:
        """Names of the owners, in the order of the rows and columns."""
        return self.valuation.owners

    def __getitem__(self, pair: tuple[str, str]) -> float:
        """Shapley interaction of two owners by name."""
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise InvalidOption(f"Found {pair!r:.60}; ask for two owners: found['north', 'south'].")
        first, second = (place_of(name, self.owners, InvalidOption) for name in pair)
        return float(self.shapley[first, second])

    def to_frame(self) -> pd.DataFrame:
        """One row per pair, the strongest Shapley interaction first.

        Columns: first, second, shapley, shapley_error, banzhaf, banzhaf_error, and what the Shapley
        interaction says: redundant, need each other, or no clear interaction.
        """
        import pandas as pd

        first, second = np.triu_indices(len(self.owners), 1)
        names = np.array(self.owners, dtype=object)
        frame = pd.DataFrame({"first": names[first], "second": names[second]})
        for index in INDICES:
            errors = getattr(self, f"{index}_errors")
            frame[index] = getattr(self, index)[first, second]
            frame[f"{index}_error"] = 0.0 if errors is None else errors[first, second]
        rows = zip(frame["shapley"], frame["shapley_error"], strict=True)
        frame["meaning"] = [self._said(size, error) for size, error in rows]
        order = frame["shapley"].abs().sort_values(ascending=False, kind="stable").index
        return frame.loc[order].reset_index(drop=True)

    def _said(self, interaction: float, error: float) -> str:
        clear = is_clear(interaction, error) and abs(interaction) > self.valuation.rounding
        return SAID[int(np.sign(interaction)) if clear else 0]

    def to_dict(self) -> AnyDict:
        """Plain JSON types."""
        found = {
            name: None if (part := getattr(self, name)) is None else part.tolist()
            for name in ("shapley", "shapley_errors", "banzhaf", "banzhaf_errors")
        }
        return {"owners": list(self.owners), "method": self.method, **found}

    @property
    def method(self) -> str:
        """What ran: exact or gp."""
        return self.valuation.method.split()[0]

    def __repr__(self) -> str:
        n, asked = len(self.owners), self.valuation.n_evaluations
        head = f"Shapley interactions of {n} owners by {self.method}: {asked} evaluations"
        below = "  below 0: redundant, above 0: they need each other"
        sure = "" if self.shapley_errors is None else "; in brackets: within its 95% interval of 0"
        body = self._matrix() if n <= SHOWN else self._pairs()
        notes = [printable(f"  note: {note}") for note in self.valuation.notes]
        return "\n".join([head, body, below + sure, *notes])

    def _matrix(self) -> str:
        names = [short_name(name, 12) for name in self.owners]
        return table(
            ("", *names), [[name, *self._row(i, self._cell)] for i, name in enumerate(names)]
        )

    def _row(self, i: int, cell: Callable[[int, int], str], nothing: str = "") -> list[str]:
        return [nothing if i == j else cell(i, j) for j in range(len(self.owners))]

    def _cell(self, i: int, j: int) -> str:
        number = f"{self.shapley[i, j]:+.2g}"
        error = 0.0 if self.shapley_errors is None else float(self.shapley_errors[i, j])
        clear = self._said(float(self.shapley[i, j]), error) != SAID[0]
        return number if clear or self.shapley_errors is None else f"({number})"

    def _pairs(self) -> str:
        rows = [
            [
                short_name(row["first"]),
                short_name(row["second"]),
                f"{row['shapley']:+.3g}",
                error_text(half_width(row["shapley_error"])),
                row["meaning"],
            ]
            for row in self.to_frame().head(20).to_dict("records")
        ]
        return table(("first", "second", "interaction", "± 95%", "meaning"), rows)

    def to_html(self) -> str:
        """For a page: red where two are redundant, blue where they need each other.

        A matrix; of more than 30 owners the 40 strongest pairs.
        """
        size = len(self.owners)
        told = (
            f"{CAPTION} ({self.method}). Below 0 they are redundant, above 0 they need each other"
        )
        if size > MOST_MATRIX:
            return _html(f"{told}. The {LISTED} strongest of {size * (size - 1) // 2:,} pairs.",
                         "<th>first</th><th>second</th><th>interaction</th><th>± 95%</th>",
                         self._html_pairs())  # fmt: skip
        head = "<td></td>" + "".join(f"<th scope='col'>{_bdi(name)}</th>" for name in self.owners)
        rows = (self._row(i, self._html_cell, "<td></td>") for i in range(size))
        body = "".join(
            f"<tr><th scope='row'>{_bdi(name)}</th>{''.join(cells)}</tr>"
            for name, cells in zip(self.owners, rows, strict=True)
        )
        return _html(f"{told}; in brackets: not clearly either.", head, body)

    _repr_html_ = to_html

    def _html_cell(self, i: int, j: int) -> str:
        text, strongest = self._cell(i, j), float(abs(self.shapley).max()) or 1.0
        depth = 0.0 if text.startswith("(") else abs(self.shapley[i, j]) / strongest
        colour = "178, 83, 47" if self.shapley[i, j] < 0 else "47, 111, 178"
        style = f"background: rgba({colour}, {0.6 * depth:.2f}); text-align: right; padding: 4px"
        return f"<td style='{style}'>{text.replace('-', '−')}</td>"

    def _html_pairs(self) -> str:
        rows = []
        for row in self.to_frame().head(LISTED).to_dict("records"):
            i, j = (self.owners.index(row[name]) for name in ("first", "second"))
            error = error_text(half_width(row["shapley_error"]))
            names = f"<td>{_bdi(row['first'])}</td><td>{_bdi(row['second'])}</td>"
            rows.append(f"<tr>{names}{self._html_cell(i, j)}<td>{error}</td></tr>")
        return "".join(rows)


def _bdi(name: str) -> str:
    return f"<bdi>{escape(printable(short_name(name)))}</bdi>"


def _html(caption: str, head: str, body: str) -> str:
    return (
        f"<table class='interactions'><caption>{caption}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


@spoken
def interactions(
    game: Any,
    method: str = "auto",
    *,
    budget: int | None = None,
    seed: int = 0,
    n_jobs: int = 1,
    ledger: PathLike | None = None,
    progress: bool | None = None,
) -> Interactions:
    r"""Shapley and Banzhaf interaction of every two owners.

    .. math:: I_{ij} = \sum_{T \not\ni i,j} q_{|T|}\,
              [u(T \cup ij) - u(T \cup i) - u(T \cup j) + u(T)]

    with :math:`q_t = 1/((I-1)\binom{I-2}{t})`, or :math:`2^{2-I}` for Banzhaf's.

    Parameters
    ----------
    game
        What `dushapley.value` takes.
    method
        "exact": all 2^I coalitions. "gp": what the Gaussian process of `gp` believes, with standard
        errors. "auto": exact where the budget allows it, or the game costs nothing and has at
        most 20 owners; else gp.
    budget
        Most pools that may be asked; None: 2I², or all coalitions.
    seed, n_jobs, ledger, progress
        As in `dushapley.value`. With the ledger, seed and budget of a run of gp, all that it paid
        for is found again.

    Examples
    --------
    Two owners of left gloves and one of a right one: the left ones are redundant.

    >>> import dushapley as ds
    >>> found = ds.interactions(ds.games.glove(2, 1))
    >>> found["owner 1", "owner 2"], found["owner 1", "owner 3"]
    (-0.5, 0.5)
    """
    played = as_game(game)
    check_choice(method, "method", ("auto", "exact", "gp"), InvalidOption)
    if played.n_players < 2:
        raise InvalidOption("Interactions are between two owners; this game has one.")
    chosen = method_of_pairs(played, method, check_budget(budget))
    return found_by(
        value(
            played,
            chosen,
            budget=budget,
            seed=seed,
            n_jobs=n_jobs,
            ledger=ledger,
            progress=progress,
        )
    )


def found_by(v: Valuation) -> Interactions:
    """The interactions that a run of one of their methods found."""
    matrix = {name: np.array(part) for name, part in v.details["interactions"].items()}
    return Interactions(
        v,
        matrix["shapley"],
        matrix["banzhaf"],
        matrix.get("shapley errors"),
        matrix.get("banzhaf errors"),
    )


def method_of_pairs(game: Game, method: str, budget: int | None) -> Method:
    """What answers for pairs: all coalitions, or the Gaussian process."""
    n = game.n_players
    free = budget is None and game.cheap and n <= MOST_CHEAP
    enumerable = n < 40 and (2**n <= (budget or 2 * n**2) or free)
    exact = method == "exact" or (method == "auto" and enumerable)
    return EXACT_PAIRS if exact or n == 2 else GP_PAIRS
