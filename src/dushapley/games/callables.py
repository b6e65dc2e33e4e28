"""Functions of boolean matrices as games: one's own, or shapiq's."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from dushapley.arrays import BoolArray, FloatArray, IntArray, Queries
from dushapley.errors import InvalidGame, UtilityFailed
from dushapley.games.base import Answers, Game, Outcome, average
from dushapley.games.model.training import seeded_generators
from dushapley.games.policy import Training, agreed, time_limit
from dushapley.hashing import digest, whole_number
from dushapley.validation import check_whole, pool_name


class PolicyGame(Game):
    """A game whose pools are answered one by one, by a function that may fail.

    Subclasses write `answer`, and set `training` when they are made.
    """

    training: Training

    @property
    def is_plain(self) -> bool:
        """Whether nothing was agreed, so that pools may be asked as they come."""
        plain = self.training.on_failure == "raise" and not self.training.limits.any
        return plain and self.training.repeats == 1

    @property
    def averaged(self) -> tuple[int, ...]:
        """What repeats add to the key of a pool: other numbers than a single answer."""
        return () if self.training.repeats == 1 else (self.training.repeats,)

    @abstractmethod
    def answer(self, query: BoolArray, draw: int | None) -> float:
        """The utility of one pool, asked once."""

    def evaluate(self, queries: Queries, draws: IntArray | None) -> Answers:
        """Each pool by itself; without any policy a number is a number, even if it is not one."""
        ids = [None] * len(queries) if draws is None else draws.tolist()
        pools = list(zip(queries, ids, strict=True))
        if self.is_plain:
            return Answers(np.array([self.answer(query, draw) for query, draw in pools]))
        return Answers.of([self._outcome(query, draw) for query, draw in pools])

    def _outcome(self, query: BoolArray, draw: int | None) -> Outcome:
        key = self.keys(query[None], None if draw is None else np.array([draw]))[0].hex()
        names = [f"{repeat} {key}" for repeat in range(self.training.repeats)]
        try:
            return average([(self._once(query, draw, name), None) for name in names])
        except InvalidGame:
            raise
        except (Exception, SystemExit) as error:
            return self.failed(query[None], error)[0]

    def _once(self, query: BoolArray, draw: int | None, name: str) -> float:
        seconds, alone = self.training.limits.timeout, self.training.repeats == 1
        seeded = nullcontext() if alone else seeded_generators(whole_number(name, 4))
        limited = nullcontext() if seconds is None else time_limit(seconds)
        with seeded, limited:
            return self.answer(query, draw)


class CallableGame(PolicyGame):
    """A game given by a function of a boolean matrix, as shapiq's games are.

    ``function((m, I) booleans) -> (m,) numbers``. Each row must get the same value whatever other
    rows stand beside it: rows already known are not asked again, so the company varies.

    Parameters
    ----------
    function
        Vectorised over coalitions.
    n_players
        Number of owners.
    sizes, names
        Rows and names of the owners, if they have any.
    fingerprint
        Names the content of the function and the order of its owners; needed to keep a ledger,
        since two functions cannot be compared.
    cheap
        True when an evaluation costs nothing worth remembering.
    block
        How many coalitions the function is given at a time, at most; each block is committed
        to the ledger as a whole. Make it small when an evaluation takes seconds.
    on_failure, timeout, memory, repeats
        As in `dushapley.ModelGame`, for a single coalition: under limits, repeated, or after a
        failure that is to count as u(∅), coalitions are asked one by one. Under repeats Python's,
        numpy's and torch's generators are set before each, from the coalition and the repeat.

    Examples
    --------
    >>> import dushapley as ds
    >>> game = ds.CallableGame(lambda z: z.any(axis=1), n_players=3)
    >>> game([[0, 0, 0], [1, 0, 1]]).tolist()
    [0.0, 1.0]
    """

    def __init__(
        self,
        function: Callable[[BoolArray], ArrayLike],
        n_players: int,
        sizes: ArrayLike | None = None,
        *,
        names: Sequence[str] | None = None,
        fingerprint: str | None = None,
        cheap: bool = False,
        block: int = 64,
        on_failure: Literal["raise", "empty"] = "raise",
        timeout: float | None = None,
        memory: int | None = None,
        repeats: int = 1,
    ) -> None:
        if not callable(function):
            raise InvalidGame(
                f"Found {type(function).__name__} where a function was needed. "
                "Pass a callable that maps an (m, I) boolean matrix to m numbers."
            )
        self._set_owners(sizes, names, check_whole(n_players, "n_players"))
        self.function, self.cheap = function, cheap
        self.training = agreed(on_failure, timeout, memory, repeats, deterministic=repeats == 1)
        self.block = 1 if self.training.limits.any else check_whole(block, "block")
        if fingerprint is not None:
            self.fingerprint = digest("callable", fingerprint, self.n_players, *self.averaged)

    def evaluate(self, queries: Queries, draws: IntArray | None) -> Answers:
        """All at once where that goes well, else one by one."""
        if self.is_plain:
            return Answers(self._asked(queries))
        if not self.training.limits.any and self.training.repeats == 1:
            with suppress(UtilityFailed):
                values = self._asked(queries)
                if np.isfinite(values).all():
                    return Answers(values)
        return super().evaluate(queries, draws)

    def answer(self, query: BoolArray, draw: int | None) -> float:
        return float(self._asked(query[None])[0])

    def _asked(self, queries: Queries) -> FloatArray:
        try:
            answers = self.function(queries.astype(np.bool_, copy=False))
            values = np.asarray(answers, dtype=np.float64)
        except (Exception, SystemExit) as error:
            raise UtilityFailed(
                f"The game raised {type(error).__name__} ({error}) when asked for {len(queries)} "
                f"coalitions, the first {pool_name(queries[0], self.names)}. It must map an "
                "(m, I) boolean matrix, which is not to be written to, to m numbers."
            ) from error
        if values.shape != (len(queries),):
            raise InvalidGame(
                f"The game returned shape {values.shape} for {len(queries)} coalitions; it "
                f"needs ({len(queries)},). Return one number per row of the boolean matrix."
            )
        return values


def as_game(game: object, n_players: int | None = None) -> Game:
    """Take a game as it is; wrap a callable on boolean matrices that knows its `n_players`.

    Examples
    --------
    >>> from dushapley.games import as_game
    >>> as_game(lambda z: z.sum(axis=1), n_players=4).n_players
    4
    """
    own = getattr(game, "n_players", None)
    if n_players is not None and own is not None and n_players != own:
        raise InvalidGame(f"The game has {own} owners, but n_players={n_players} was passed.")
    if isinstance(game, Game):
        return game
    known = n_players if n_players is not None else own
    if not callable(game) or known is None:
        raise InvalidGame(
            f"Found {type(game).__name__}, which is not a game. Pass a game of this library, say "
            "ModelGame(owners, model, X_test, y_test), or a "
            "callable on (m, I) boolean matrices with an attribute n_players "
            "(or use CallableGame(function, n_players))."
        )
    return CallableGame(game, known)
