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

    Examples
    --------
    >>> import dushapley as ds
    >>> try:
    ...     ds.value(ds.SizeGame([100, 200], w=lambda n: n / (n + 100)), "shaply")
    ... except ds.DUShapleyError as error:
    ...     print(type(error).__name__)
    UnknownMethod
    """

    def __str__(self) -> str:
        return printable(super().__str__(), keep="\n")


class InvalidGame(DUShapleyError, ValueError):
    """A game or its parameters do not make sense (shapes, sizes, probabilities).

    Cure: Check the parameter that the message names; sizes, rows and owners must belong
    together.
    """


class InvalidQuery(DUShapleyError, ValueError):
    """A pool was asked for that the game cannot hold (shape, range, missing draw).

    Cure: Ask rows of shape (pools, owners) with fractions from 0 to 1, and a draw for every
    pool that is a true fraction.
    """


class FractionsRefused(InvalidQuery):
    """A true fraction was asked of a game that knows whole owners only.

    Cure: Take a method that asks whole owners only, or a game with rows (`DatasetGame`,
    `ModelGame`).
    """


class InvalidOwners(DUShapleyError, ValueError):
    """The owners' data cannot be pooled (columns, types, rows, names).

    Cure: Mend the file or column that the message names, or tell how it is to be read
    (`--read`).
    """


class UnresolvedFindings(InvalidOwners):
    """The files hold what would move money in silence; `findings` has all that is odd.

    Cure: Each stop names the option that resolves it; `--accept CODE` turns it into a note that
    is kept in the settlement.
    """

    def __init__(self, message: str, findings: Findings) -> None:
        super().__init__(message)
        self.findings = findings


class SharedRows(UserWarning):
    """The same rows appear in the data of two owners, or of an owner and the test set."""


class InvalidCall(DUShapleyError, TypeError):
    """A function was called with a keyword it does not have, or with a thing of another kind.

    Cure: Use the keyword or the kind of thing that the message names.
    """


class UnknownMethod(DUShapleyError, ValueError):
    """No estimator has this name.

    Cure: `ds.methods()` or `dushapley methods` lists all names.
    """


class InvalidOption(DUShapleyError, ValueError):
    """An option the method does not declare, or a value it does not take.

    Cure: The message lists the options of the method; `ds.methods()[name].options` too.
    """


class MethodNotApplicable(DUShapleyError, ValueError):
    """The method needs something that this game does not offer.

    Cure: Take another method (`auto` finds one), or a game that offers what the message names.
    """


class AssumptionFails(DUShapleyError, ValueError):
    """A bound was asked for whose assumptions this game does not meet.

    Cure: Take a bound that assumes less; docs/guarantees.md lists what each one needs.
    """


class BudgetTooSmall(DUShapleyError, ValueError):
    """Fewer evaluations were granted than the method needs for any answer.

    Cure: Grant the number of evaluations that the message names, or take a cheaper method.
    """


class UtilityFailed(DUShapleyError, RuntimeError):
    """A utility is not a finite number, or its computation raised an error.

    Cure: Mend the model or the data of the pool that the message names, or pass
    `on_failure='empty'` to count such pools as nobody's data.
    """


class WorkersLost(DUShapleyError, RuntimeError):
    """The workers, or the connection to them, are gone.

    Cure: Start the workers again and run the same command: what was paid is in the ledger.
    """


class WorkersDiffer(DUShapleyError, RuntimeError):
    """A worker has other versions of what decides the bits of a result.

    Cure: Install the same versions everywhere; the message names those that differ.
    """


class FederationFailed(DUShapleyError, RuntimeError):
    """An owner of a federation did not answer, refused, or answered what cannot be right.

    Cure: See to the owner that the message names and run the same again; what was paid is in the
    ledger.
    """


class ProtocolViolated(DUShapleyError, RuntimeError):
    """An estimator, game or hand-driven conversation broke the rules of asking and telling.

    Cure: Tell exactly one number for each pool that was asked; `dushapley.testing` checks games
    and estimators of your own.
    """


class LedgerError(DUShapleyError, RuntimeError):
    """The ledger cannot be used.

    Cure: Name another file with `--ledger`, or run without one (`--no-ledger`).
    """


class LedgerUnreadable(LedgerError):
    """The file is not a ledger, or is damaged.

    Cure: name another file; what it held is computed again.
    """


class LedgerReadOnly(LedgerError):
    """The ledger cannot be written, so paid work could not be kept.

    Cure: Give the folder write permission, or name another file.
    """


class LedgerFull(LedgerReadOnly):
    """The ledger has no room left to grow.

    Cure: Make room on the disk and run the same command: what was paid is kept.
    """


class LedgerBusy(LedgerError):
    """Another program keeps the ledger locked.

    Cure: Wait for the other program, or give this run a ledger of its own.
    """


class LedgerMismatch(LedgerError, ValueError):
    """The ledger holds evaluations of another game.

    Cure: Name the ledger of this game, or a new file.
    """


class LedgerRefused(LedgerError, ValueError):
    """This game cannot be kept in a ledger.

    Cure: Run without a ledger, or give the game a `name=` by which its values can be found
    again.
    """


class InvalidValuation(DUShapleyError, ValueError):
    """A stored valuation cannot be read back.

    Cure: Save it again with this version, or take the file that `Valuation.save` wrote.
    """


class UnknownOwner(DUShapleyError, LookupError):
    """No owner has this name.

    Cure: Ask for an owner by its name, as `Valuation.owners` lists them.
    """


class InvalidSettlement(DUShapleyError, ValueError):
    """A pot, a rule or a stored settlement from which no payment can follow.

    Cure: Correct the pot or rule that the message names, or ask for the file as it was written.
    """


class InvalidChange(DUShapleyError, ValueError):
    """A what-if that this collaboration cannot go through.

    Cure: Name owners of this game; files of newcomers need the same columns.
    """


class NotWritten(DUShapleyError, OSError):
    """A result could not be written to its file; what stood there is unchanged.

    Cure: Name another file or make room; nothing that was paid is lost where there is a ledger.
    """


class Stopped(DUShapleyError, RuntimeError):
    """The run ended before its plan did.

    Everything paid for is in the ledger (if there is one); `valuation` holds the estimate so far,
    or None if there is not one yet. `out_of_time` distinguishes a run that used up its
    `max_seconds` from one that was interrupted.

    Examples
    --------
    >>> import dushapley as ds
    >>> def run(game):
    ...     try:
    ...         return ds.value(game, max_seconds=60)
    ...     except ds.Stopped as stopped:
    ...         return stopped.valuation  # what is known so far, or None
    """

    def __init__(
        self, message: str, valuation: Valuation | None = None, *, out_of_time: bool = False
    ) -> None:
        super().__init__(message)
        self.valuation = valuation
        self.out_of_time = out_of_time
