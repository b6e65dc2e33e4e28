"""BibTeX of the papers that the methods come from."""

from __future__ import annotations

from importlib import resources

from dushapley.estimators.registry import REGISTRY, find
from dushapley.results.valuation import Valuation

_FILE = resources.files("dushapley.results") / "references.bib"
PAPERS = {
    entry[entry.index("{") + 1 : entry.index(",")]: entry
    for entry in _FILE.read_text("utf-8").strip().split("\n\n")
}
"""BibTeX of every paper by its key; blank lines stand between the entries of the file."""


def bibtex(valuation: Valuation | None = None, *, method: str | None = None) -> str:
    """BibTeX of what a result rests on: the Shapley value, and the method that ran.

    Parameters
    ----------
    valuation
        A result, whose method is cited; or
    method
        the name of a method.

    Examples
    --------
    >>> import dushapley as ds
    >>> print(ds.bibtex(method="du").splitlines()[0])
    @incollection{shapley1953,
    """
    if valuation is not None:  # a method of the user's own has no entry here
        used = REGISTRY.get(valuation.method_run)
    else:
        used = None if method is None else find(method)
    keys = dict.fromkeys(["shapley1953", *([used.cite] if used is not None else [])])
    return "\n\n".join(PAPERS[key] for key in keys if key in PAPERS)
