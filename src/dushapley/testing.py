"""Tests that every game and every estimator must pass, shipped for authors of plug-ins.

Subclass in a test module and say what is tested; pytest collects the rest::

    class TestMyGame(GameContract):
        def make_game(self):
            return MyGame(...)


    class TestMyMethod(EstimatorContract):
        method = MY_METHOD  # a `dushapley.estimators.Method`, or the name of one
        options = {"form": "fast"}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import sqrt
from typing import Any
from unittest import SkipTest

import numpy as np

from dushapley.arrays import AnyDict, AnyMapping, FloatArray, IntArray, Queries
from dushapley.data.owners import Owners
from dushapley.engine.dialogue import Dialogue
from dushapley.engine.value import value
from dushapley.errors import (
    BudgetTooSmall,
    FractionsRefused,
    InvalidOption,
    InvalidQuery,
    MethodNotApplicable,
)
from dushapley.estimators.exact import bits
from dushapley.estimators.method import Method
from dushapley.estimators.registry import find
from dushapley.games import (
    Answers,
    Game,
    KNNGame,
    LinearRegressionGame,
    RegressogramGame,
    SizeGame,
    TableGame,
    airport,
    glove,
    mean_estimation,
    voting,
)
from dushapley.protocol import Estimate
from dushapley.results.uncertainty import half_width

MOST_LISTED = 10
"""Owners up to which games are listed whole."""


class CountingGame(Game):
    """Another game, asked honestly: without its formulas, and counting every pool."""

    cheap = True

    def __init__(self, game: Game) -> None:
        self.game = game
        self.n_players, self.sizes, self.names = game.n_players, game.sizes, game.names
        vars(self)["fractions"] = game.fractions
        self.asked = 0

    def evaluate(self, queries: Queries, draws: IntArray | None) -> Answers | FloatArray:
        self.asked += len(queries)
        return self.game.evaluate(queries, draws)


def small_games(n_players: int) -> dict[str, Game]:
    """One game of each kind with a formula or a table, for so many owners."""
    rng = np.random.default_rng(n_players)
    sizes = rng.integers(20, 200, n_players).astype(np.float64)
    counts = rng.integers(0, 20, (n_players, 3))
    games: dict[str, Game] = {
        "size": SizeGame(sizes, lambda n: n / (n + 100)),
        "linear regression": LinearRegressionGame(sizes, rng.uniform(0.5, 2, n_players), d=5),
        "regressogram": RegressogramGame(counts, [0.5, 0.3, 0.2], mean_estimation(1.0, 1.0)),
        "airport": airport(rng.integers(1, 9, n_players)),
        "voting": voting(rng.integers(1, 9, n_players), quota=2 * n_players),
        "table": TableGame(rng.normal(size=2**n_players)),
    }
    if n_players >= 2:
        games["glove"] = glove(1, n_players - 1)
    return games


def nearest_neighbours(n_players: int) -> Game:
    """A game with rows, whose formula answers methods that need them."""
    rng = np.random.default_rng(n_players)
    blocks = {
        f"owner {i + 1}": (rng.normal(size=(4 + i, 2)), rng.integers(0, 2, 4 + i))
        for i in range(n_players)
    }
    return KNNGame(Owners.from_arrays(blocks), rng.normal(size=(9, 2)), rng.integers(0, 2, 9), k=3)


def run(
    method: str | Method, game: Game, options: AnyMapping, budget: int | None, seed: int
) -> Estimate:
    """Run an estimator on a game without an engine: fast enough to be repeated a thousand times."""
    talk = Dialogue(
        method,
        game.n_players,
        sizes=game.sizes,
        fractions=game.fractions,
        options=options,
        budget=budget,
        seed=seed,
        batch=2**16,
    )
    while (ask := talk.ask()) is not None:
        talk.tell(Answers.of(game.evaluate(ask.queries, ask.draws)).values)
    assert talk.estimate is not None
    return talk.estimate


def bias_scores(
    method: str | Method, game: Game, options: AnyMapping, budget: int, seeds: Iterable[int]
) -> FloatArray:
    """How many standard errors the mean over seeds lies from the exact values, owner by owner.

    Standard normal for an unbiased method. An owner whose value is the same for every seed scores
    0 if it is right up to rounding, and infinity if not.
    """
    truth = value(game, "exact").values
    off = np.stack([run(method, game, options, budget, seed).values for seed in seeds]) - truth
    mean, error = off.mean(axis=0), off.std(axis=0, ddof=1) / sqrt(len(off))
    rounding = 1e-12 * max(1.0, float(abs(truth).max()))
    wrong = np.where(abs(mean) <= rounding, 0.0, np.inf)
    return np.divide(mean, error, out=wrong, where=error > rounding)


def coverage(
    method: str | Method, game: Game, options: AnyMapping, budget: int, seeds: Iterable[int]
) -> float:
    """Part of the exact values that lie within their 95% intervals, over owners and seeds."""
    estimates = [run(method, game, options, budget, seed) for seed in seeds]
    assert all(estimate.std_errors is not None for estimate in estimates), (
        f"no standard errors at budget {budget}"
    )
    return covered(estimates, value(game, "exact").values)


def covered(found: Sequence[Estimate], truth: FloatArray) -> float:
    """Part of the true values that lie within the 95% intervals of these runs' estimates.

    Owners who get the same value in every run have no error to cover and are left out; not a
    number where nobody is left.
    """
    rounding = 1e-12 * max(1.0, float(abs(truth).max()))
    values = np.array([e.values for e in found])
    width = half_width(np.array([e.std_errors for e in found]))
    inside = abs(values - truth) <= width + rounding
    vary = np.ptp(values, axis=0) > rounding
    return float(inside[:, vary].mean()) if vary.any() else float("nan")


class GameContract:
    """What every game must obey. Override `make_game`; it must build the same game every time."""

    def make_game(self) -> Game:
        """Build the game under test."""
        raise AssertionError("Override make_game to build the game under test.")

    def pools(self, game: Game) -> Queries:
        """Some coalitions: nobody, everybody, and random ones."""
        masks = np.random.default_rng(0).random((8, game.n_players)) < 0.5
        masks[0], masks[1] = False, True
        return masks

    def test_one_finite_number_per_pool(self) -> None:
        game = self.make_game()
        values = game(self.pools(game))
        assert values.shape == (8,)
        assert values.dtype == np.float64
        assert np.isfinite(values).all()

    def test_a_pool_is_worth_the_same_in_any_company(self) -> None:
        game = self.make_game()
        pools = self.pools(game)
        alone = [float(game(pool[None, :])[0]) for pool in pools]
        assert np.allclose(game(pools), alone, rtol=1e-9, atol=1e-12)

    def test_zeros_and_ones_are_coalitions(self) -> None:
        game = self.make_game()
        pools = self.pools(game)
        assert np.allclose(game(pools), game(pools.astype(np.float64)), rtol=1e-9, atol=1e-12)

    def test_the_same_game_twice_gives_the_same_bits(self) -> None:
        first, second = self.make_game(), self.make_game()
        pools = self.pools(first)
        assert first(pools).tobytes() == second(pools).tobytes()
        assert first.fingerprint == second.fingerprint

    def test_pools_with_equal_keys_have_equal_values(self) -> None:
        game = self.make_game()
        pools = self.pools(game)
        known: dict[bytes, float] = {}
        for key, worth in zip(game.keys(pools, None), game(pools), strict=True):
            assert np.isclose(known.setdefault(key, worth), worth, rtol=1e-9)

    def test_wrong_pools_are_refused(self) -> None:
        game = self.make_game()
        for wrong in (np.zeros((1, game.n_players + 1)), np.full((1, game.n_players), 1.5)):
            assert raises(InvalidQuery, game, wrong)

    def test_fractions_are_taken_as_declared(self) -> None:
        game = self.make_game()
        half = np.full((1, game.n_players), 0.5)
        if game.fractions == "none":
            assert raises(FractionsRefused, game, half)
        elif game.fractions == "rows":
            drawn = game(half, draws=[7])
            assert np.isfinite(drawn).all()
            assert drawn.tobytes() == game(half, draws=[7]).tobytes()
            if bool((game.sizes > 1).all()):
                assert raises(InvalidQuery, game, half)
        else:
            assert np.isfinite(game(half)).all()

    def test_its_formula_agrees_with_enumeration(self) -> None:
        game = self.make_game()
        formula = game.closed_form("exact")
        if formula is not None and game.n_players <= MOST_LISTED:
            listed = value(game, "exact", options={"by": "enumeration"}, budget=2**game.n_players)
            assert np.allclose(formula.values, listed.values, rtol=1e-9, atol=1e-12)


class EstimatorContract:
    """What every estimator must obey. Set `method` and, where needed, `options`.

    Attributes
    ----------
    method
        A `Method`, or the name of one.
    options
        Its options; those left out keep their defaults.
    seeds
        Runs of the test for bias. A method passes whose mean is within `most` standard errors of
        the exact value for every owner.
    """

    method: str | Method
    options: Mapping[str, Any] = {}
    seeds: Iterable[int] = range(300)
    most = 4.0

    def declared(self) -> tuple[Method, AnyDict]:
        """The method and its complete options."""
        method = find(self.method)
        return method, method.complete(self.options)

    @property
    def asks(self) -> bool:
        """Whether the method asks questions; else only a game's own formula answers it."""
        method, options = self.declared()
        return method.need(options) in ("coalitions", "fractions")

    def games(self, n_players: int) -> dict[str, Game]:
        """The games that can answer this method; there is at least one."""
        method, options = self.declared()
        games = small_games(n_players)
        if self.asks:
            whole = method.need(options) == "coalitions"
            games = {k: g for k, g in games.items() if whole or g.fractions != "none"}
        else:
            games["nearest neighbours"] = nearest_neighbours(n_players)
            games = {k: g for k, g in games.items() if g.closed_form(method.name) is not None}
        assert games, f"No game of {n_players} owners can answer {method.name}."
        return games

    def play(self, game: Game, budget: int | None = None, seed: int = 3) -> Estimate:
        """What the method under test says of a game."""
        if self.asks:
            return run(self.method, game, self.options, budget, seed)
        formula = game.closed_form(find(self.method).name)
        assert formula is not None
        return formula

    def budgets(self, n_players: int) -> list[int]:
        """The least budget, one more, and the default."""
        if n_players == 1:
            return [2]
        method, options = self.declared()
        least = method.least(n_players, options)
        return [least, least + 1, max(least, method.default(n_players, options))]

    def cases(self, *owners: int) -> Iterator[tuple[str, Game, int]]:
        """The games of so many owners, each with its name and at every budget."""
        for n_players in owners:
            for (name, game), budget in product(
                self.games(n_players).items(), self.budgets(n_players)
            ):
                yield f"{name}, {n_players} owners, budget {budget}", game, budget

    def test_the_budget_is_honest(self) -> None:
        if not self.asks:
            raise SkipTest("The method asks no question, so there is nothing to count.")
        for where, game, budget in self.cases(1, 2, 3, 4, 7):
            counted = CountingGame(game)
            estimate = self.play(counted, budget, seed=2)
            assert 2 <= counted.asked <= budget, where
            assert np.isfinite(estimate.values).all(), where

    def test_the_result_tells_what_was_asked(self) -> None:
        for game in self.games(4).values():
            counted = CountingGame(game)
            valuation = value(counted if self.asks else game, self.method, options=self.options)
            assert valuation.n_evaluations == valuation.n_computed == counted.asked

    def test_too_small_a_budget_is_refused(self) -> None:
        method, options = self.declared()
        for n in (2, 3, 4, 7):
            for game in self.games(n).values():
                counted = CountingGame(game)
                arguments = {"options": self.options, "budget": method.least(n, options) - 1}
                ask = counted if self.asks else game
                assert raises(BudgetTooSmall, value, ask, self.method, **arguments)
                assert counted.asked == 0, "refused only after something was paid"

    def test_games_that_cannot_answer_are_refused(self) -> None:
        accepted = self.games(4) if self.asks else {}  # a counting game hides its formulas
        for name, game in small_games(4).items():
            counted = CountingGame(game)
            refused = raises(MethodNotApplicable, value, counted, self.method, options=self.options)
            assert refused is (name not in accepted), name
            assert not refused or counted.asked == 0, "refused only after something was paid"

    def test_unknown_options_are_refused(self) -> None:
        assert raises(
            InvalidOption,
            value,
            small_games(3)["size"],
            self.method,
            options={"no such option": 1},
        )

    def test_same_seed_same_bits(self) -> None:
        for n in (2, 4, 7):
            first, second = (
                [self.play(game, seed=5).values.tobytes() for game in self.games(n).values()]
                for _ in range(2)
            )
            assert first == second

    def test_one_owner_gets_everything(self) -> None:
        for game in self.games(1).values():
            estimate = self.play(game, budget=2, seed=0)
            ends = game(np.array([[False], [True]]))
            rounding = 0 if self.asks else 1e-15 * float(abs(ends).max())  # a formula's sums
            assert abs(estimate.values[0] - (ends[1] - ends[0])) <= rounding

    def test_declared_axioms_hold_exactly(self) -> None:
        method, options = self.declared()
        kept = method.kept(options)
        if not kept:
            raise SkipTest("The method declares no axiom.")
        for n in (2, 3, 4, 7):
            for name, game in self.games(n).items():
                full, empty = game(np.stack([np.full(n, True), np.full(n, False)]))
                values = self.play(game).values
                slack = 1e-9 * max(1.0, abs(full), abs(empty), float(abs(values).max()))
                if "efficiency" in kept:
                    assert abs(values.sum() - (full - empty)) <= slack, name
            if "null player" in kept:
                assert abs(self.play(null_player_game(n)).values[-1]) <= 1e-12
            if "symmetry" in kept:
                assert np.ptp(self.play(symmetric_game(n)).values) <= 1e-12

    def test_standard_errors_are_none_or_sensible(self) -> None:
        for where, game, budget in self.cases(2, 3, 4, 7):
            estimate = self.play(game, budget, seed=1)
            if estimate.std_errors is not None:
                assert estimate.std_errors.shape == (game.n_players,), where
                assert np.isfinite(estimate.std_errors).all(), where
                assert (estimate.std_errors >= 0).all(), where
                assert estimate.replicates is None or estimate.replicates >= 2, where

    def test_unbiased_where_declared(self) -> None:
        method, options = self.declared()
        if method.is_biased(options):
            raise SkipTest("The method is declared biased.")
        games = {k: g for k, g in self.games(5).items() if k in ("size", "table")}
        assert games, "No game whose exact values are known can answer the method."
        for name, game in games.items():
            scores = bias_scores(
                self.method, game, self.options, max(method.least(5, options), 40), self.seeds
            )
            assert abs(scores).max() <= self.most, f"{name}: {scores.round(1)}"


def null_player_game(n_players: int) -> Game:
    """A random game in which the last owner changes nothing."""
    half = np.random.default_rng(0).normal(size=2 ** (n_players - 1))
    return TableGame(np.tile(half, 2))


def symmetric_game(n_players: int) -> Game:
    """A random game in which only the number of owners counts."""
    worth = np.random.default_rng(0).normal(size=n_players + 1)
    return TableGame(worth[bits(np.arange(2**n_players), n_players).sum(axis=1)])


def raises(error: type[Exception], function: Any, *arguments: Any, **named: Any) -> bool:
    """Whether a call raises this error."""
    try:
        function(*arguments, **named)
    except error:
        return True
    return False
