"""The claims of the abstract, of section 4 and of the older version, and what decides them."""

from __future__ import annotations

from dataclasses import dataclass

Deciders = tuple[tuple[str, str], ...]
"""(experiment, start of its verdicts' claims) pairs."""


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
    """

    claim: str
    place: str
    decided_by: Deciders
    beyond: Deciders = ()


REAL = ("table-1", "DU-Shapley beats MC and antithetic (section 4.1; owners alike")
MISLABELLED = ("table-1", "DU-Shapley beats MC and antithetic (section 4.1; 30% of owners")
SHIFTED = ("table-1", "DU-Shapley beats MC and antithetic (section 4.1; owners from different")
OTHER_METHODS = ("table-1", "DU-Shapley beats methods the paper does not compare with")
AUTO = ("table-1", "DU-Shapley beats this library's `auto`")
SYNTHETIC = "DU-Shapley beats MC, antithetic, Owen and orthogonal"
NEARER = ("figure-2", "at the same evaluations DU-Shapley's true error")
VANISHES = ("figure-2", "DU-Shapley's error vanishes as owners grow in number (one owner's")
RELATIVE = ("figure-2", "DU-Shapley's error vanishes as owners grow in number (error over")
COMPETITIVE = ("table-2", "DU-Shapley is competitive: no baseline")

HEADLINES = (
    Headline(
        "uses the structure of pooled data to be more efficient than Monte Carlo",
        "both abstracts",
        (REAL, ("synthetic-figure", f"{SYNTHETIC} at the same"), NEARER),
        (MISLABELLED, SHIFTED),
    ),
    Headline(
        "asymptotic guarantee: pools of random coalitions tend to a uniform share, and the error "
        "to zero",
        "both abstracts, Theorem 1",
        (("figure-1", "q(S)/q(I)"), VANISHES),
        (RELATIVE,),
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
        (REAL, ("synthetic-figure", SYNTHETIC)),
        (OTHER_METHODS, AUTO),
    ),
    Headline("performs well in all tasks", "section 4", (REAL, NEARER, COMPETITIVE)),
    Headline(
        "competes favourably with Monte Carlo on real data, even with few owners",
        "section 4.1",
        (REAL,),
        (MISLABELLED, SHIFTED, OTHER_METHODS, AUTO),
    ),
    Headline(
        "rivals need more iterations for the same accuracy, in all instances",
        "section 4.2",
        (("figure-2", "DataShapley needs"), ("figure-2", "IGTB")),
        (("figure-2", "the same for DataShapley"), ("figure-2", "DUbias is")),
    ),
    Headline(
        "competitive in noisy label detection, removal and addition",
        "section 4.3",
        (COMPETITIVE,),
        (("table-2", "DU-Shapley is competitive in noisy label detection when"),),
    ),
    Headline(
        "similar to DataShapley or better",
        "section 4.3",
        (("table-2", "DU-Shapley does as well as DataShapley"),),
    ),
    Headline("SVARM cannot ensure the same error", "appendix A.1", (("svarm-figure", "after I²"),)),
    Headline(
        "better than Monte Carlo with ten times its budget",
        "appendix A.2",
        (("synthetic-figure", f"{SYNTHETIC} at ten"),),
    ),
    Headline(
        "outperforms other approximations even when owners are few",
        "older abstract",
        (REAL, ("older-toy", "DU-Shapley competes"), ("older-table", "DU-Shapley++ competes")),
        (OTHER_METHODS, AUTO),
    ),
    Headline(
        "the bound falls below Monte Carlo's error when owners are many",
        "older section 3.3",
        (("older-bias", "DU-Shapley's bound falls"),),
    ),
    Headline(
        "DU-Shapley++ improves on DU-Shapley",
        "older section 4",
        (("older-toy", "DU-Shapley++ improves"), ("older-table", "DU-Shapley++ is nearer")),
    ),
    Headline(
        "DU-Shapley++ competes with Monte Carlo",
        "older section 4",
        (("older-toy", "DU-Shapley++ as printed"), ("older-table", "DU-Shapley++ competes")),
    ),
)
