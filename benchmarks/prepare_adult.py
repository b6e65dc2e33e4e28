"""Adult (census income) as plain arrays, for machines that have NumPy and torch but no pandas.

    python benchmarks/prepare_adult.py [FILE]      default: benchmarks/data/adult_onehot.npz

90% of the 48,842 rows train (43,957), the rest test; 6 numeric columns standardised on the
training rows, 8 categorical ones one-hot without a column for missing values: 105 features.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd

TARGET = Path(__file__).parent / "data" / "adult_onehot.npz"


def adult(path: Path) -> dict[str, np.ndarray]:
    """Features, labels and the permutation that splits them."""
    table = pd.read_parquet(path)
    labels = table["income"].astype(str).str.contains(">50K").to_numpy()
    features = table.drop(columns=["income", "split"])
    numeric = features.select_dtypes("number")
    dummies = pd.get_dummies(features.drop(columns=numeric.columns)).to_numpy()
    order = np.random.default_rng(0).permutation(len(table))
    n_train = int(0.9 * len(table))
    train = numeric.to_numpy(float)[order[:n_train]]
    scaled = (numeric.to_numpy(float)[order] - train.mean(axis=0)) / train.std(axis=0)
    return {
        "numeric": scaled.astype(np.float32),
        "dummies": dummies[order],
        "y": labels[order],
        "n_train": np.array(n_train),
    }


def load(path: Path = TARGET) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training rows and labels, test rows and labels."""
    with np.load(path, allow_pickle=False) as file:
        X = np.hstack([file["numeric"], file["dummies"].astype(np.float32)])
        y, n = file["y"].astype(np.int64), int(file["n_train"])
    return X[:n], y[:n], X[n:], y[n:]


if __name__ == "__main__":
    folder = os.environ.get("DUSHAPLEY_DATA") or sys.exit("Set DUSHAPLEY_DATA to the data folder.")
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET
    target.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(target, **adult(Path(folder) / "adult.parquet"))
    print(f"{target}: {[a.shape for a in load(target)]}, {target.stat().st_size / 1e6:.1f} MB")
