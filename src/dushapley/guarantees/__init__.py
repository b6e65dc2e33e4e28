"""Bounds on DU-Shapley's error that hold, those that were stated, and how many samples rivals need.

A `Guarantee` says what it bounds, under which assumptions, and whether it may be relied on.
For trained models there is none, and none is made up.
"""

from dushapley.guarantees.bounds import certificate, corollary, du_bias, older_bound, theorem2
from dushapley.guarantees.curvature import Kappa, check_h1, kappa
from dushapley.guarantees.precision import footnote_bound
from dushapley.guarantees.samples import (
    group_testing_error,
    group_testing_samples,
    permutation_error,
    permutation_samples,
    svarm_error,
    svarm_failure,
    svarm_samples,
)
from dushapley.guarantees.uniformity import Uniformity, uniformity
from dushapley.protocol import Guarantee

__all__ = [
    "Guarantee",
    "Kappa",
    "Uniformity",
    "certificate",
    "check_h1",
    "corollary",
    "du_bias",
    "footnote_bound",
    "group_testing_error",
    "group_testing_samples",
    "kappa",
    "older_bound",
    "permutation_error",
    "permutation_samples",
    "svarm_error",
    "svarm_failure",
    "svarm_samples",
    "theorem2",
    "uniformity",
]
