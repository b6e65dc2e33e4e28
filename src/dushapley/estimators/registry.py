"""All methods by name. A new one is a file of mathematics and a line here."""

from __future__ import annotations

from collections.abc import Iterable

from dushapley.errors import UnknownMethod
from dushapley.estimators import (
    du,
    du_second_order,
    exact,
    gp,
    group_testing,
    knn,
    loo,
    orthogonal,
    owen,
    permutation,
    random,
    regression,
    svarm,
    tmc,
)
from dushapley.estimators.method import Method
from dushapley.validation import suggestion

REGISTRY: dict[str, Method] = {
    method.name: method
    for method in (
        exact.METHOD,
        du.METHOD,
        du.PLUS_PLUS,
        du_second_order.METHOD,
        gp.METHOD,
        permutation.METHOD,
        permutation.ANTITHETIC,
        orthogonal.ORTHOGONAL,
        orthogonal.SOBOL,
        tmc.METHOD,
        owen.METHOD,
        svarm.METHOD,
        svarm.STRATIFIED,
        group_testing.METHOD,
        regression.KERNEL,
        regression.LEVERAGE,
        loo.METHOD,
        knn.METHOD,
        random.METHOD,
    )
}

AUTO = "auto"
AUTO_SUMMARY = "the game's exact formula, all coalitions if the budget allows, else gp"
FALLBACK = "gp"
"""What `auto` runs when exact values are out of reach: the most accurate at any budget measured."""


def methods() -> dict[str, str]:
    """Names of all methods with one line each.

    Examples
    --------
    >>> import dushapley as ds
    >>> "du" in ds.methods()
    True
    """
    return {name: method.summary for name, method in REGISTRY.items()} | {AUTO: AUTO_SUMMARY}


def find(name: str | Method) -> Method:
    """The method of this name, or the nearest suggestion; a method itself is taken as it is."""
    if isinstance(name, Method):
        return name
    if isinstance(name, str) and name in REGISTRY:
        return REGISTRY[name]
    hint = suggestion(name, [*REGISTRY, AUTO], cutoff=0.4)
    raise UnknownMethod(
        f"There is no method {name!r}.{hint} Methods: {', '.join([*REGISTRY, AUTO])}."
    )


def coalition_methods() -> Iterable[str]:
    """Methods that ask for whole owners only, so that any game can answer them."""
    return [n for n, m in REGISTRY.items() if m.need(m.complete(None)) == "coalitions"]
