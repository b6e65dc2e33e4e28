"""Any file of sums (`dushapley statistics`) is valued, or refused in a sentence."""

from __future__ import annotations

import tempfile
import zipfile
from functools import cache
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from fuzzing import CASES, Target, bytewise, check
from hypothesis import given, settings

import dushapley as ds
from dushapley.data.summaries import Statistics

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
TARGETS = {"regression": X @ [1.0, 2.0, 0.0], "classification": (X[:, 0] > 0).astype(int)}
MODELS = {"regression": "ridge", "classification": "lda"}
ODD: list[Any] = [
    np.array(7), np.zeros(0), np.zeros((2, 3, 4)), np.array(["x" * 9]), np.array([np.nan] * 4),
    np.full((4, 4), 1e308), np.full((3, 3), -1.0), np.array([1 + 2j]), np.array(["1e99"] * 5),
    np.array(["\x1b[2J\u202e"] * 5), np.zeros(4, "M8[s]"), np.zeros(4, "i1"), np.zeros(4, "V3"),
    np.full(2, -3.0), np.full(2, 1e300), np.array(["a", "a"]), np.zeros((2, 3)), np.zeros((4, 4)),
]  # fmt: skip
FACTORS = (-1, 0, 1e-320, 1.0000001, 1e30, 1e308, np.inf)


@cache
def parts(kind: str) -> tuple[Any, ...]:
    y = TARGETS[kind]
    owners = ds.Owners.from_arrays({name: (X[a:40:2], y[a:40:2]) for a, name in enumerate("ab")})
    return owners.statistics(kind)


def corpus() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        return [parts(kind)[0].save(Path(folder, kind)).read_bytes() for kind in MODELS]


def mutate(rng: Random, content: bytes) -> bytes:
    """Damage the file, or an array in it that is then stored in good order."""
    if rng.random() < 0.3:
        return bytewise(rng, content)
    with np.load(BytesIO(content)) as archive:
        arrays = {name: archive[name] for name in archive.files}
    for _ in range(rng.choice((1, 1, 2, 3))):
        name = rng.choice(sorted(arrays))
        arrays[name] = _changed(rng, arrays[name])
        if rng.random() < 0.1:
            arrays[rng.choice(("more", "about", "../x"))] = arrays.pop(name)
    out = BytesIO()
    if rng.random() < 0.1:  # a pickle, which must not be opened
        arrays["mean"] = np.array([Bomb()], dtype=object)
    np.savez_compressed(out, allow_pickle=True, **arrays)
    return out.getvalue() if rng.random() > 0.1 else _with_bomb(out.getvalue())


def _changed(rng: Random, array: Any) -> Any:
    if rng.random() < 0.5 or array.size == 0 or array.dtype.kind in "VM":
        return rng.choice(ODD)
    if array.dtype.kind == "U":
        words = array.ravel().tolist()
        words[rng.randrange(len(words))] = rng.choice(
            ("", "-1", "0", "9" * 30, "1e9", "nan", "²", "1_0", "\x1b[2J", "bins", "x\ny", "3")
        )
        return np.array(words)
    other = array.astype(rng.choice(("f8", "f4", "i8", "?", "c16", "U9", "f2", ">f8")))
    if other.dtype.kind == "f":
        with np.errstate(all="ignore"):
            other.flat[rng.randrange(other.size)] *= rng.choice(FACTORS)
    return other


def _with_bomb(content: bytes) -> bytes:
    """The archive with one more member, of a gigabyte when unpacked."""
    out = BytesIO(content)
    with zipfile.ZipFile(out, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("scatter2.npy", bytes(2**24))
    return out.getvalue()


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return open, ("executed", "w")


def read(path: Path) -> None:
    """Value two owners, of whom one handed over this file."""
    given = Statistics.load(path)
    kind = given.kind if given.kind in MODELS else "regression"
    owners = ds.Owners.from_statistics([given, parts(kind)[1]])
    game = ds.ModelGame(owners, MODELS[kind], X[40:], TARGETS[kind][40:])
    v = ds.value(game, "exact")
    assert np.isfinite(v.values).all()
    assert abs(v.efficiency_gap) <= 1e-9 * max(1, abs(v.u_full))


TARGET = Target("sums", "owner.npz", corpus, read, mutate)


@given(CASES)
@settings(max_examples=60)
def test_any_file_of_sums_ends_clearly(case: int) -> None:
    check(TARGET, case)
