"""Functions as games: of boolean matrices, as shapiq's are, or of sets of indices, as pyDVL's."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from importlib import import_module
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from dushapley.arrays import BoolArray, Draws, FloatArray, IntArray, Queries, as_floats
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
        once = self.training.repeats == 1 and not self.training.limits.any
        return once and self.training.on_failure == "raise"

    @property
    def averaged(self) -> tuple[int, ...]:
        """What repeats add to the key of a pool: other numbers than a single answer."""
        return () if self.training.repeats == 1 else (self.training.repeats,)

    @abstractmethod
    def answer(self, query: BoolArray, draw: int | None) -> float:
        """The utility of one pool, asked once."""

    def evaluate(self, queries: Queries, draws: Draws) -> Answers:
        """Each pool by itself; without any policy a number is a number, even if it is not one."""
        ids = [None] * len(queries) if draws is None else draws.tolist()
        pools = list(zip(queries, ids, strict=True))
        if self.is_plain:
            return Answers(np.array([self.answer(query, draw) for query, draw in pools]))
        return Answers.of([self._outcome(query, draw) for query, draw in pools])

    def _outcome(self, query: BoolArray, draw: int | None) -> Outcome:
        key = self.keys(query[None], None if draw is None else np.array([draw]))[0].hex()
        seconds, repeats = self.training.limits.timeout, self.training.repeats
        answers = []
        try:
            for repeat in range(repeats):
                seed = whole_number(f"{repeat} {key}", 4)
                seeded = nullcontext() if repeats == 1 else seeded_generators(seed)
                limited = nullcontext() if seconds is None else time_limit(seconds)
                with seeded, limited:
                    answers.append((self.answer(query, draw), None))
            return average(answers)
        except InvalidGame:
            raise
        except (Exception, SystemExit) as error:
            return self.failed(query[None], error)[0]


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

    def evaluate(self, queries: Queries, draws: Draws) -> Answers:
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
            values = as_floats(answers)
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


def from_utility(
    utility: Callable[[Any], float],
    owners: int | Mapping[str, Sequence[int]],
    *,
    sample: Callable[[IntArray], Any] | None = None,
    fingerprint: str | None = None,
) -> CallableGame:
    """The game of a utility that is called on a set of indices, as pyDVL's are.

    A pool is worth u(union of its owners' indices): one call of the utility. Owners may be single
    data points, or own several.

    Parameters
    ----------
    utility
        Any callable that takes indices and gives a number. It must know what no index is worth.
    owners
        Indices by owner's name, none of them twice; or a number I, for owners who have one index
        each, 0 to I−1.
    sample
        What the utility is called with, made from the indices in ascending order. None: the
        indices; for a utility of pyDVL, its own `Sample` of them.
    fingerprint
        As in `dushapley.CallableGame`: names the utility, which a ledger needs.

    Examples
    --------
    >>> import dushapley as ds
    >>> rows = [3.0, 1.0, 2.0, 5.0]
    >>> game = ds.games.from_utility(
    ...     lambda indices: max((rows[i] for i in indices), default=0.0),
    ...     {"north": [0, 1], "south": [2], "west": [3]})
    >>> ds.value(game, "exact").values.round(3).tolist()
    [1.167, 0.667, 3.167]
    """
    held, called_with = holdings(owners), sample
    if sample is None and type(utility).__module__.partition(".")[0] == "pydvl":
        called_with = partial(import_module("pydvl.valuation.types").Sample, None)

    def worth(pool: BoolArray) -> float:
        members = [held[name] for name, present in zip(held, pool, strict=True) if present]
        indices = np.sort(np.concatenate(members)) if members else np.array([], dtype=np.int64)
        return float(utility(indices if called_with is None else called_with(indices)))

    return CallableGame(
        lambda pools: list(map(worth, pools)),
        len(held),
        list(map(len, held.values())),
        names=tuple(held),
        fingerprint=fingerprint,
        block=1,
    )


def holdings(owners: int | Mapping[str, Sequence[int]]) -> dict[str, IntArray]:
    """Indices by owner, each held by one of them."""
    if isinstance(owners, Mapping):
        held = {str(name): np.asarray(list(mine)) for name, mine in owners.items()}
    elif isinstance(owners, int) and not isinstance(owners, bool) and owners > 0:
        held = {f"index {i}": np.array([i]) for i in range(owners)}
    else:
        raise InvalidGame(
            f"The owners are {owners!r:.60}; a number of owners with an index each is needed, or "
            "indices by owner's name: {'north': [0, 1], 'south': [2]}."
        )
    empty = [name for name, mine in held.items() if mine.ndim != 1 or mine.dtype.kind not in "iu"]
    if empty or not held:
        raise InvalidGame(
            f"Owner {empty[0]!r} does not hold a list of whole numbers."
            if empty
            else "There are no owners: give indices by owner's name."
        )
    every, counts = np.unique(np.concatenate(list(held.values())), return_counts=True)
    if (counts > 1).any():
        raise InvalidGame(
            f"Index {every[counts > 1][0]} belongs to two owners. Give every index to one of them."
        )
    return held
