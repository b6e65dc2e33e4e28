"""Many small symmetric systems solved at once, each to the same bits whatever the others are."""

from __future__ import annotations

import numpy as np

from dushapley.arrays import FloatArray

ELIMINATE_UP_TO = 24
"""Unknowns up to which eliminating all systems side by side beats solving one after the other."""


def solve(systems: FloatArray, right: FloatArray) -> FloatArray:
    """Solve m positive definite systems; shapes (p, p, m) and (p, k, m), pools along the last axis.

    Small systems are eliminated side by side, element by element over the pools; larger ones go to
    LAPACK one by one. Which it is depends on p alone.
    """
    p = len(systems)
    if p > ELIMINATE_UP_TO:
        solved: FloatArray = np.asarray(
            np.linalg.solve(np.moveaxis(systems, 2, 0), np.moveaxis(right, 2, 0)), np.float64
        )
        return np.moveaxis(solved, 0, 2)
    left, known = systems.copy(), right.copy()
    for k in range(p):
        ratio = left[k + 1 :, k] / left[k, k]
        left[k + 1 :, k + 1 :] -= ratio[:, None] * left[k, k + 1 :]
        known[k + 1 :] -= ratio[:, None] * known[k]
    for k in reversed(range(p)):
        known[k] -= (left[k, k + 1 :, None] * known[k + 1 :]).sum(axis=0)
        known[k] /= left[k, k]
    return known


def least_norm(systems: FloatArray, right: FloatArray) -> FloatArray:
    """Solve m semi-definite systems by their shortest solutions; shapes as in `solve`.

    Directions whose eigenvalue is below p·ε of the largest are rounding error and left out.
    """
    values, vectors = np.linalg.eigh(np.moveaxis(systems, 2, 0))
    cut = len(systems) * np.finfo(np.float64).eps * np.abs(values).max(axis=1, keepdims=True)
    inverse = np.divide(1.0, values, out=np.zeros_like(values), where=values > cut)
    inside = np.swapaxes(vectors, 1, 2) @ np.moveaxis(right, 2, 0)
    return np.moveaxis(vectors @ (inverse[:, :, None] * inside), 0, 2)
