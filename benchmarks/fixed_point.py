"""How near the fixed point of `LinearRegressionGame` is to the expected error, by simulation.

python benchmarks/fixed_point.py          writes benchmarks/results/fixed_point.json

Random pools of two to four owners, d = 2, 5 or 10 features, precisions log-uniform between 1/10 and
10, 5 to 200 rows each, more than 2d + 4 in all, 4,000 simulated data sets. They are told apart by
whether the owners more precise than the median row hold enough rows for d coefficients by
themselves.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from dushapley.games.size.regression import expected_inverse, simulated_inverse, simulated_moments

OUT = Path(__file__).parent / "results" / "fixed_point.json"
DRAWS = 4_000


def trial(rng: np.random.Generator) -> dict[str, float]:
    """One random pool: fixed point over simulated mean, and the noise of that ratio."""
    d = int(rng.choice([2, 5, 10]))
    while True:
        n = rng.integers(5, 201, int(rng.integers(2, 5))).astype(float)
        if n.sum() > 2 * d + 4:
            break
    gamma = 10 ** rng.uniform(-1, 1, len(n))
    everybody = np.ones(len(n))
    moments = simulated_moments(n, gamma, d, DRAWS, int(rng.integers(2**31)))
    found = simulated_inverse(moments, everybody)
    fixed = float(expected_inverse(n[None], gamma, d)[0])
    order = np.argsort(-gamma)
    information = (n * gamma**2)[order] / float(n @ gamma**2)
    first = int(np.searchsorted(np.cumsum(information), 0.9)) + 1
    return {
        "d": d,
        "ratio": fixed / float(found.mean()),
        "noise": float(found.std() / DRAWS**0.5 / found.mean()),
        "precise rows over d": float(n[order][:first].sum() / d),
    }


def main(trials: int = 300) -> None:
    """Quantiles of the relative error by how many rows carry nine tenths of the information."""
    rng = np.random.default_rng(0)
    found = [trial(rng) for _ in range(trials)]
    table = []
    for low, high in ((0, 2), (2, 4), (4, 10), (10, np.inf)):
        part = [f for f in found if low <= f["precise rows over d"] < high]
        if part:
            off = np.array([f["ratio"] - 1 for f in part])
            table.append(
                {
                    "rows over d": f"{low} to {high}",
                    "pools": len(part),
                    "median": float(np.median(off)),
                    "largest": float(off.max()),
                    "smallest": float(off.min()),
                    "noise": float(np.median([f["noise"] for f in part])),
                }
            )
    OUT.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    for row in table:
        print(row)


if __name__ == "__main__":
    main()
