"""Every error the library raises on purpose.

One root, `DUShapleyError`; each leaf is named after the mistake and also inherits the builtin a
Python programmer would expect. Messages read: what was found, what is needed, what to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dushapley.terminal import printable

if TYPE_CHECKING:
    from dushapley.data.check.collection import Findings
    from dushapley.results.valuation import Valuation


class DUShapleyError(Exception):
    """Root of all errors raised on purpose by this library.

    Messages quote names and cells of other people's files, so they are shown as harmless text.
    """

    def __str__(self) -> str:
        return printable(super().__str__(), keep="\n")


class InvalidGame(DUShapleyError, ValueError):
    """A game or its parameters do not make sense (shapes, sizes, probabilities)."""


class InvalidQuery(DUShapleyError, ValueError):
    """A pool was asked for that the game cannot hold (shape, range, missing draw)."""


class FractionsRefused(InvalidQuery):
    """A true fraction was asked of a game that knows whole owners only."""


class InvalidOwners(DUShapleyError, ValueError):
    """The owners' data cannot be pooled (columns, types, rows, names)."""


class UnresolvedFindings(InvalidOwners):
    """The files hold what would move money in silence; `findings` has all that is odd."""

    def __init__(self, message: str, findings: Findings) -> None:
        super().__init__(message)
        self.findings = findings


class SharedRows(UserWarning):
    """The same rows appear in the data of two owners, or of an owner and the test set."""


class UnknownMethod(DUShapleyError, ValueError):
    """No estimator has this name."""


class InvalidOption(DUShapleyError, ValueError):
    """An option the method does not declare, or a value it does not take."""


class MethodNotApplicable(DUShapleyError, ValueError):
    """The method needs something that this game does not offer."""


class AssumptionFails(DUShapleyError, ValueError):
    """A bound was asked for whose assumptions this game does not meet."""


class BudgetTooSmall(DUShapleyError, ValueError):
    """Fewer evaluations were granted than the method needs for any answer."""


class UtilityFailed(DUShapleyError, RuntimeError):
    """A utility is not a finite number, or its computation raised an error."""


class WorkersLost(DUShapleyError, RuntimeError):
    """The workers, or the connection to them, are gone."""


class WorkersDiffer(DUShapleyError, RuntimeError):
    """A worker has other versions of what decides the bits of a result."""


class ProtocolViolated(DUShapleyError, RuntimeError):
    """An estimator, game or hand-driven conversation broke the rules of asking and telling."""


class LedgerError(DUShapleyError, RuntimeError):
    """The ledger cannot be used."""


class LedgerUnreadable(LedgerError):
    """The file is not a ledger, or is damaged."""


class LedgerReadOnly(LedgerError):
    """The ledger cannot be written, so paid work could not be kept."""


class LedgerFull(LedgerReadOnly):
    """The ledger has no room left to grow."""


class LedgerBusy(LedgerError):
    """Another program keeps the ledger locked."""


class LedgerMismatch(LedgerError, ValueError):
    """The ledger holds evaluations of another game."""


class LedgerRefused(LedgerError, ValueError):
    """This game cannot be kept in a ledger."""


class InvalidValuation(DUShapleyError, ValueError):
    """A stored valuation cannot be read back."""


class InvalidSettlement(DUShapleyError, ValueError):
    """A pot, a rule or a stored settlement from which no payment can follow."""


class InvalidChange(DUShapleyError, ValueError):
    """A what-if that this collaboration cannot go through."""


class NotWritten(DUShapleyError, OSError):
    """A result could not be written to its file; what stood there is unchanged."""


class Stopped(DUShapleyError, RuntimeError):
    """The run ended before its plan did.

    Everything paid for is in the ledger (if there is one); `valuation` holds the estimate so far,
    or None if there is not one yet. `out_of_time` distinguishes a run that used up its
    `max_seconds` from one that was interrupted.
    """

    def __init__(
        self, message: str, valuation: Valuation | None = None, *, out_of_time: bool = False
    ) -> None:
        super().__init__(message)
        self.valuation = valuation
        self.out_of_time = out_of_time
