"""BibTeX of the papers that the methods come from."""

from __future__ import annotations

from dushapley.estimators.registry import REGISTRY, find
from dushapley.results.valuation import Valuation

PAPERS: dict[str, tuple[str, dict[str, str]]] = {
    "shapley1953": (
        "incollection",
        {
            "author": "Shapley, Lloyd S.",
            "title": "A Value for n-Person Games",
            "booktitle": "Contributions to the Theory of Games II",
            "publisher": "Princeton University Press",
            "year": "1953",
        },
    ),
    "garrido2024": (
        "inproceedings",
        {
            "author": "Garrido Lucero, Felipe and Heymann, Benjamin and Vono, Maxime and "
            "Loiseau, Patrick and Perchet, Vianney",
            "title": "{DU-Shapley}: A {Shapley} Value Proxy for Efficient Dataset Valuation",
            "booktitle": "Advances in Neural Information Processing Systems",
            "year": "2024",
        },
    ),
    "castro2009": (
        "article",
        {
            "author": "Castro, Javier and Gómez, Daniel and Tejada, Juan",
            "title": "Polynomial calculation of the {Shapley} value based on sampling",
            "journal": "Computers \\& Operations Research",
            "year": "2009",
        },
    ),
    "mitchell2022": (
        "article",
        {
            "author": "Mitchell, Rory and Cooper, Joshua and Frank, Eibe and Holmes, Geoffrey",
            "title": "Sampling Permutations for {Shapley} Value Estimation",
            "journal": "Journal of Machine Learning Research",
            "year": "2022",
        },
    ),
    "okhrati2021": (
        "inproceedings",
        {
            "author": "Okhrati, Ramin and Lipani, Aldo",
            "title": "A Multilinear Sampling Algorithm to Estimate {Shapley} Values",
            "booktitle": "International Conference on Pattern Recognition",
            "year": "2021",
        },
    ),
    "lundberg2017": (
        "inproceedings",
        {
            "author": "Lundberg, Scott M. and Lee, Su-In",
            "title": "A Unified Approach to Interpreting Model Predictions",
            "booktitle": "Advances in Neural Information Processing Systems",
            "year": "2017",
        },
    ),
    "musco2025": (
        "inproceedings",
        {
            "author": "Musco, Christopher and Witter, R. Teal",
            "title": "Provably Accurate {Shapley} Value Estimation via Leverage Score Sampling",
            "booktitle": "International Conference on Learning Representations",
            "year": "2025",
        },
    ),
    "kolpaczki2024": (
        "inproceedings",
        {
            "author": "Kolpaczki, Patrick and Bengs, Viktor and Muschalik, Maximilian and "
            "Hüllermeier, Eyke",
            "title": "Approximating the {Shapley} Value without Marginal Contributions",
            "booktitle": "AAAI Conference on Artificial Intelligence",
            "year": "2024",
        },
    ),
    "jia2019": (
        "article",
        {
            "author": "Jia, Ruoxi and Dao, David and Wang, Boxin and Hubis, Frances Ann and Gurel, "
            "Nezihe Merve and Li, Bo and Zhang, Ce and Spanos, Costas J. and Song, Dawn",
            "title": "Efficient Task-Specific Data Valuation for Nearest Neighbor Algorithms",
            "journal": "Proceedings of the VLDB Endowment",
            "year": "2019",
        },
    ),
    "ghorbani2019": (
        "inproceedings",
        {
            "author": "Ghorbani, Amirata and Zou, James",
            "title": "Data {Shapley}: Equitable Valuation of Data for Machine Learning",
            "booktitle": "International Conference on Machine Learning",
            "year": "2019",
        },
    ),
    "wang2023": (
        "misc",
        {
            "author": "Wang, Jiachen T. and Jia, Ruoxi",
            "title": "A Note on ``Towards Efficient Data Valuation Based on the {Shapley} Value''",
            "year": "2023",
        },
    ),
}


def bibtex(valuation: Valuation | None = None, *, method: str | None = None) -> str:
    """BibTeX of what a result stands on: the Shapley value, and the method that ran.

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
    return "\n\n".join(entry(key) for key in keys if key in PAPERS)


def entry(key: str) -> str:
    """One paper as BibTeX."""
    kind, about = PAPERS[key]
    lines = [f"  {name} = {{{text}}}," for name, text in about.items()]
    return "\n".join([f"@{kind}{{{key},", *lines, "}"])
