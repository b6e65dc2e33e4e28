"""The claims of the abstract, of section 4 and of the older version, and what decides them."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

Deciders = tuple[tuple[str, str], ...]
"""(experiment, start of its verdicts' claims) pairs; an asterisk stands for any words."""


@dataclass(frozen=True)
class Headline:
    """A claim of the paper, and the verdicts that decide it.

    Attributes
    ----------
    claim
        The claim, in our words.
    place
        Where it stands.
    decided_by
        Verdicts in the paper's own setting.
    beyond
        Verdicts in settings that the paper does not look at.
    every
        Whether the claim is about all instances, so that one counterexample refutes it.
    before
        What this page said in the paper's setting and beyond before its verdicts were tallied
        again, where that was different.
    """

    claim: str
    place: str
    decided_by: Deciders
    beyond: Deciders = ()
    every: bool = False
    before: tuple[str, str] | None = None


def decides(start: str, claim: str) -> bool:
    """Whether a claim starts so."""
    return fnmatchcase(claim, f"{start}*")


REAL = ("table-1", "DU-Shapley beats MC and antithetic (section 4.1; owners alike")
MISLABELLED = ("table-1", "DU-Shapley beats MC and antithetic (section 4.1; 30% of owners")
SHIFTED = ("table-1", "DU-Shapley beats MC and antithetic (section 4.1; owners from different")
OTHER_METHODS = ("table-1", "DU-Shapley beats methods the paper does not compare with")
AUTO = ("table-1", "DU-Shapley beats this library's `auto`")
SYNTHETIC = "DU-Shapley beats MC, antithetic, Owen and orthogonal"
PAPERS_FORM, FIXED_POINT = "*; the paper's utility", "*; the fixed point"
AGAINST = "against the paper's own normalisation*: "
PRINTED, FLOORED = "*; w as printed", "*; w floored"
NEARER = ("figure-2", "at the same evaluations DU-Shapley's true error")
VANISHES = ("figure-2", "DU-Shapley's error vanishes as owners grow in number (one owner's")
RELATIVE = ("figure-2", "DU-Shapley's error vanishes as owners grow in number (error over")
COMPETITIVE = ("table-2", "DU-Shapley is competitive: no baseline")

HEADLINES = (
    Headline(
        "uses the structure of pooled data to be more efficient than Monte Carlo",
        "both abstracts",
        (REAL, ("synthetic-figure", f"{SYNTHETIC} at the same{PAPERS_FORM}"), NEARER),
        (MISLABELLED, SHIFTED, ("synthetic-figure", f"{SYNTHETIC} at the same{FIXED_POINT}")),
        before=("holds weaker (4 hold, 1 weaker)", "holds weaker (2 hold, 2 weaker)"),
    ),
    Headline(
        "asymptotic guarantee: pools of random coalitions tend to a uniform share, and the error "
        "to zero",
        "both abstracts, Theorem 1, Corollary 1",
        (("figure-1", "q(S)/q(I)"), VANISHES, ("figure-2", "Corollary 1")),
        (RELATIVE,),
        before=("holds (3 hold)", "holds weaker (1 weaker)"),
    ),
    Headline(
        "non-asymptotic guarantee: the bound of Theorem 2",
        "both abstracts, Theorem 2",
        (("figure-2", "Theorem 2"),),
    ),
    Headline(
        "exponentially fewer evaluations: I² iterations for all owners",
        "introduction, section 4.2",
        (("figure-2", "DU-Shapley values all owners"),),
    ),
    Headline(
        "outperforms all Monte Carlo approximations considered",
        "introduction",
        (REAL, ("synthetic-figure", f"{SYNTHETIC}{PAPERS_FORM}")),
        (OTHER_METHODS, AUTO, ("synthetic-figure", f"{SYNTHETIC}{FIXED_POINT}")),
        before=("holds weaker (4 hold, 2 weaker)", "does not hold (3 do not)"),
    ),
    Headline(
        "performs well in all tasks",
        "section 4",
        (REAL, NEARER, COMPETITIVE),
        before=("holds weaker (2 hold, 2 weaker)", "–"),
    ),
    Headline(
        "competes favourably with Monte Carlo on real data, even with few owners",
        "section 4.1",
        (REAL,),
        (MISLABELLED, SHIFTED, OTHER_METHODS, AUTO),
        before=(
            "holds weaker (1 holds, 1 weaker)",
            "holds weaker (2 hold, 2 weaker, 3 do not)",
        ),
    ),
    Headline(
        "rivals need more iterations for the same accuracy, in all instances",
        "section 4.2",
        (("figure-2", "DataShapley needs"), ("figure-2", "IGTB")),
        (("figure-2", "the same for DataShapley"), ("figure-2", "DUbias is")),
        every=True,
        before=("holds weaker (2 hold, 2 weaker, 3 do not)", "does not hold (1 holds, 1 does not)"),
    ),
    Headline(
        "competitive in noisy label detection, removal and addition",
        "section 4.3",
        (COMPETITIVE,),
        (("table-2", "DU-Shapley is competitive in noisy label detection when"),),
        before=("holds weaker (1 weaker)", "holds weaker (1 weaker)"),
    ),
    Headline(
        "similar to DataShapley or better",
        "section 4.3",
        (("table-2", "DU-Shapley does as well as DataShapley"),),
        before=("holds weaker (1 weaker)", "–"),
    ),
    Headline("SVARM cannot ensure the same error", "appendix A.1", (("svarm-figure", "after I²"),)),
    Headline(
        "better than Monte Carlo with ten times its budget",
        "appendix A.2",
        (("synthetic-figure", f"{SYNTHETIC} at ten{PAPERS_FORM}"),),
        (("synthetic-figure", f"{SYNTHETIC} at ten{FIXED_POINT}"),),
        before=("holds weaker (1 holds, 1 weaker)", "–"),
    ),
    Headline(
        "outperforms other approximations even when owners are few",
        "older abstract",
        (
            REAL,
            ("older-toy", f"DU-Shapley competes{PRINTED}"),
            ("older-table", "DU-Shapley++ competes"),
        ),
        (OTHER_METHODS, AUTO, ("older-toy", f"DU-Shapley competes{FLOORED}")),
        before=("holds weaker (5 hold, 2 weaker, 1 does not)", "does not hold (3 do not)"),
    ),
    Headline(
        "the bound falls below Monte Carlo's error when owners are many",
        "older section 3.3",
        (("older-bias", "DU-Shapley's bound falls"),),
    ),
    Headline(
        "DU-Shapley++ improves on DU-Shapley",
        "older section 4",
        (
            ("older-toy", f"DU-Shapley++ improves{PRINTED}"),
            ("older-table", "DU-Shapley++ is nearer"),
        ),
        (
            ("older-toy", f"DU-Shapley++ improves{FLOORED}"),
            ("older-table", f"{AGAINST}DU-Shapley++ is nearer"),
        ),
        before=("does not hold (4 do not)", "–"),
    ),
    Headline(
        "DU-Shapley++ competes with Monte Carlo",
        "older section 4",
        (
            ("older-toy", f"DU-Shapley++ as printed{PRINTED}"),
            ("older-table", "DU-Shapley++ competes"),
        ),
        (
            ("older-toy", f"DU-Shapley++ as printed{FLOORED}"),
            ("older-table", f"{AGAINST}DU-Shapley++ competes"),
        ),
        before=("does not hold (1 holds, 1 weaker, 2 do not)", "–"),
    ),
)
