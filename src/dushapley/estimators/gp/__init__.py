"""`gp`: the most accurate values that a given number of evaluations can buy."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dushapley.estimators.calibration import final
from dushapley.estimators.exact import exact
from dushapley.estimators.method import Method
from dushapley.estimators.semivalues import SEMIVALUE, SHAPLEY
from dushapley.protocol import Ask, Conversation, Estimate, Problem

if TYPE_CHECKING:
    from dushapley.estimators.gp.study import Study


def gp(problem: Problem) -> Conversation:
    r"""Learn how utility depends on how much data is pooled and whose, and ask where it matters.

    A Gaussian process over pools (`kernel`) is fitted to the pools paid for (`fit`). Values being
    linear in utilities, they have a posterior mean and covariance of their own (`functional`), and
    the next pools are those whose answers would narrow it most (`design`). Every batch is forecast
    before it is seen; the errors of the forecasts calibrate the intervals, and at sizes of pools
    where they tell owners apart the process is not believed: its slopes are corrected there by
    pools drawn at random, and the result says so (`check`).

    .. math:: \hat\varphi = A\,y, \qquad A = (ΩK_{FT} + D\,\mathrm{diag}(\nu))\,K^{-1}

    with answers y of the pools T, their covariance K, the Shapley functional Ω on pools F, exact
    Shapley weights D and nuggets ν of the observed pools; A is `Estimate.weights`.

    Questions of a batch are chosen without each other's answers, so that a cluster can train them
    at once; how many that are at most is ``details["lag"]``, which owners and budget decide.

    Cost: the budget, at least 2I+2 and by default 6I evaluations; all 2^I if it allows them, and
    the values are then exact. Efficient: the values sum to u(all) − u(∅). No guarantee; the
    intervals rest on the assumption that utilities vary smoothly with size and composition, which
    is checked on every run by forecasts and was measured on games of trained models.

    ``semivalue="banzhaf"`` or ``"beta(4,1)"``: those values instead (`targets`), from the questions
    that tell most about Shapley's.

    Examples
    --------
    >>> import dushapley as ds
    >>> game = ds.SizeGame([100, 200, 400, 50, 80, 120], w=lambda n: n / (n + 100))
    >>> exact, found = ds.value(game, "exact"), ds.value(game, "gp", budget=30)
    >>> bool(abs(found.values - exact.values).max() < 0.001)
    True
    """
    if problem.budget >= 2**problem.n_players - 2:
        estimate = yield from exact(problem)
        note = f"gp asked all {2**problem.n_players:,} coalitions, so the values are exact."
        return replace(estimate, notes=(*estimate.notes, note))
    from dushapley.estimators.gp.study import Study  # loads scipy, so only when it is needed

    return (yield from studied(Study(problem), problem.options.get("semivalue", SHAPLEY)))


def studied(study: Study, semivalue: str = SHAPLEY) -> Conversation:
    """Ask for what a study wants to know until the budget is spent."""
    so_far: Estimate | None = None
    known = study.problem.known
    if known is not None and len(known):
        study.recall(known, (yield Ask(known)))
    lag = 0
    while study.left:
        pools = study.next_batch()
        lag = max(lag, len(pools) if so_far is not None else 0)
        study.learn(pools, (yield Ask(pools, so_far)))
        if semivalue == SHAPLEY:
            so_far = study.estimate()
        else:
            from dushapley.estimators.gp.targets import semivalue_estimate

            so_far = semivalue_estimate(study, semivalue)
    last = final(so_far)
    return replace(last, details={**last.details, "lag": lag})


METHOD = Method(
    name="gp",
    summary="a Gaussian process over size and composition of pools asks where it matters most",
    run=gp,
    foreseeable="first",  # the pilot
    # nobody, everybody, each owner alone and as many pools; or all coalitions
    least=lambda n, _options: min(2 * n + 2, 2**n),
    default=lambda n, _options: min(6 * n, 2**n),
    keeps=lambda options: frozenset({"efficiency"} if options["semivalue"] == SHAPLEY else ()),
    options={"semivalue": SEMIVALUE},
)
