"""All methods by name. A new one is a file of mathematics and a line here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from dushapley.errors import UnknownMethod
from dushapley.estimators import (
    centres,
    du,
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
from dushapley.estimators.method import Method, Option
from dushapley.validation import suggestion

REGISTRY: dict[str, Method] = {
    method.name: method
    for method in (
        exact.METHOD,
        du.METHOD,
        du.PLUS_PLUS,
        du.SECOND_ORDER,
        gp.METHOD,
        centres.METHOD,
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
AUTO_SUMMARY = (
    "the game's exact formula, all coalitions if the budget allows, centres for many owners whose "
    "marginals are cheap, else gp"
)
FALLBACK = "gp"
"""What `auto` runs when exact values are out of reach: the most accurate at any budget measured."""


ALIASES = {
    "du-shapley": "du", "dushapley": "du", "kernel-shap": "kernel", "kernelshap": "kernel",
    "leverage-shap": "leverage", "leverageshap": "leverage", "knn-shapley": "knn",
    "tmc-shapley": "tmc", "data-shapley": "tmc", "truncated-monte-carlo": "tmc",
    "monte-carlo": "permutation", "mc": "permutation", "permutations": "permutation",
    "leave-one-out": "loo", "gaussian-process": "gp", "brute-force": "exact", "shapley": "exact",
    "enumeration": "exact", "svarm+": "stratified-svarm", "improved-group-testing": "group-testing",
}  # fmt: skip
"""What people and papers call the methods, in small letters with dashes."""


class MethodLine(str):
    """One line on a method, which also knows its options, its cost and what it promises.

    Attributes
    ----------
    options
        What `options=` may hold: a mapping of names to defaults, meanings and choices.
    cost
        Evaluations it needs at least and asks by default, in words.
    guarantee
        What holds of its values, in words.
    """

    options: Mapping[str, Option]
    cost: str
    guarantee: str

    @classmethod
    def of(cls, method: Method) -> MethodLine:
        """The line of a method."""
        line = cls(method.summary)
        line.options = MappingProxyType(dict(method.options))
        line.cost, line.guarantee = method.cost_told(), method.guarantee_told()
        return line


def methods() -> dict[str, MethodLine]:
    """Names of all methods with one line each, which carries `.options`, `.cost`, `.guarantee`.

    Examples
    --------
    >>> import dushapley as ds
    >>> gp = ds.methods()["gp"]
    >>> gp
    'a Gaussian process over size and composition of pools asks where it matters most'
    >>> gp.cost
    'at least 2I+2 evaluations and 6I by default: 22 and 60 for 10 owners'
    >>> list(gp.options)
    ['semivalue']
    """
    auto = MethodLine.of(REGISTRY[FALLBACK])
    line = MethodLine(AUTO_SUMMARY)
    line.options = MappingProxyType({})
    line.cost = f"none by formula, 2^I where that fits the budget, else of {FALLBACK}: {auto.cost}"
    line.guarantee = f"exact by formula or enumeration; else of {FALLBACK}: {auto.guarantee}"
    return {name: MethodLine.of(method) for name, method in REGISTRY.items()} | {AUTO: line}


def find(name: str | Method) -> Method:
    """The method of this name, or the nearest suggestion; a method itself is taken as it is."""
    if isinstance(name, Method):
        return name
    if isinstance(name, str) and name in REGISTRY:
        return REGISTRY[name]
    plain = re.sub(r"[\s_]+", "-", str(name).strip().casefold())
    meant = ALIASES.get(plain)
    hint = f" Did you mean {meant!r}?" if meant else suggestion(name, [*REGISTRY, AUTO], cutoff=0.4)
    raise UnknownMethod(
        f"There is no method {name!r}.{hint} Methods: {', '.join([*REGISTRY, AUTO])}."
    )


def coalition_methods() -> Iterable[str]:
    """Methods that ask for whole owners only, so that any game can answer them."""
    return [n for n, m in REGISTRY.items() if m.need(m.complete(None)) == "coalitions"]
