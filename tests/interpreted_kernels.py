"""Kernels of the fused step, by Triton's interpreter: run by test_fused in a process of its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from dushapley.games.model.batched import fused as module
from dushapley.games.model.batched.arithmetic import Arithmetic, arithmetic
from dushapley.games.model.batched.fused import FusedStep, fused_step
from dushapley.games.model.batched.program import Judge, Program, Trained, joined
from dushapley.games.model.batched.recipe import Recipe, memberships

SIZES = np.array([21, 70, 9])
RECIPE = Recipe(steps=3, l2=0.01)


def data(n_classes: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    rng = np.random.default_rng(n_classes)
    X = [rng.normal(size=(n, 5)) for n in SIZES]
    codes = [rng.integers(0, n_classes, n) for n in SIZES]
    codes[2][:] = 0  # an owner alone has one class
    return X, codes


def judge(numbers: Arithmetic, n_classes: int) -> Judge:
    X, codes = data(n_classes)
    program = Program(RECIPE, X, codes, list(range(n_classes)), numbers, [2, 0, 1])
    rng = np.random.default_rng(9)
    return Judge(program, rng.normal(size=(50, 5)), rng.integers(0, n_classes, 50))


def pools(part: float = 1.0) -> list:
    present = (np.arange(8)[:, None] >> np.arange(3)) & 1
    counts = np.floor(present * SIZES * part).astype(np.int64)
    draws = None if part == 1 else np.arange(8)
    return memberships(counts, SIZES, draws, lambda j, count, draw: slice(0, count), [2, 0, 1])


COARSE = {"tf32": 1e-5, "float16": 3e-3}  # the interpreter computes TF32 in float32


def fused(precision: str, n_classes: int) -> Judge:
    numbers = replace(arithmetic("torch", "float32", "cpu"), precision=precision, align=8)
    made = judge(numbers, n_classes)
    assert isinstance(made.program.fused, FusedStep)
    return made


@pytest.mark.parametrize("precision", COARSE)
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("part", [1.0, 0.6])
def test_weights_are_those_of_the_reference(precision: str, n_classes: int, part: float) -> None:
    exact = judge(arithmetic("numpy", "float64"), n_classes).program.train(8, pools(part))
    coarse = fused(precision, n_classes).program.train(8, pools(part))
    found = coarse.weights[0].numpy()[:, :, :6]
    largest = 2e-3 if precision == "tf32" else COARSE[precision]  # factors are rounded to TF32
    np.testing.assert_allclose(found, exact.weights[0], atol=largest)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_hits_are_those_of_the_scores(n_classes: int) -> None:
    made = fused("tf32", n_classes)
    trained = made.program.train(8, pools())
    np.testing.assert_array_equal(made.hits(trained), made.correct(trained).sum(axis=1))


def nearly_exact(a: np.ndarray, b: np.ndarray, dtype: type) -> np.ndarray:
    """A product whose sums are rounded once."""
    return np.asarray(a.astype(np.float64) @ b.astype(np.float64), dtype=dtype)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_same_bits_in_any_company(n_classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # the interpreter multiplies by OpenBLAS, which on some processors rounds by a column's place
    monkeypatch.setattr(np, "matmul", nearly_exact)
    program = fused("float16", n_classes).program
    everybody = program.train(8, pools()).weights[0]
    present = ((np.arange(8)[:, None] >> np.arange(3)) & 1)[[6, 3]]
    few = memberships(present * SIZES, SIZES, None, lambda *_: slice(0), [2, 0, 1])
    np.testing.assert_array_equal(program.train(2, few).weights[0], everybody[[6, 3]])


def test_who_has_no_kernel_goes_by_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = replace(arithmetic("torch", "float32", "cpu"), precision="tf32", align=8)
    assert fused_step(numbers, 1, 257) is None
    assert fused_step(numbers, 17, 8) is None
    assert fused_step(arithmetic("torch", "float32", "cpu"), 1, 8) is None
    monkeypatch.delenv("TRITON_INTERPRET")
    assert fused_step(numbers, 1, 8) is None


def test_weighted_sums_by_test_row_are_those_of_the_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SPAN", 128)
    made = fused("tf32", 2)
    present = np.random.default_rng(3).random((300, 3)) < 0.6
    held = memberships(present * SIZES, SIZES, None, lambda *_: slice(0), [2, 0, 1])
    trained = made.program.train(300, held)
    np.testing.assert_array_equal(made.hits(trained), made.correct(trained).sum(axis=1))
    weights = np.random.default_rng(4).normal(size=(37, 200))  # more owners than one instance has
    found = sums(made, trained, weights, slice(50, 250))
    np.testing.assert_allclose(found, weights @ made.correct(trained)[50:250], atol=2e-5)
    whole = np.random.default_rng(5).integers(-9, 9, (3, 300)).astype(float)
    np.testing.assert_array_equal(sums(made, trained, whole), whole @ made.correct(trained))


def sums(
    made: Judge, trained: Trained, weights: np.ndarray, some: slice = slice(None)
) -> np.ndarray:
    counted = [part[some] for part in made.counted(trained)]
    return made.weighed(counted, torch.asarray(weights)).numpy()


def test_sums_do_not_depend_on_where_blocks_were_cut() -> None:
    made = fused("float16", 2)
    present = ((np.arange(8)[:, None] >> np.arange(3)) & 1).astype(bool)

    def trained(cut: slice) -> Trained:
        counts = present[cut] * SIZES
        held = memberships(counts, SIZES, None, lambda *_: slice(0), [2, 0, 1])
        return made.program.train(len(counts), held)

    parts = [trained(cut) for cut in (slice(0, 3), slice(3, 4), slice(4, 8))]
    weights = np.random.default_rng(4).normal(size=(3, 6))
    one = sums(made, trained(slice(8)), weights, slice(1, 7))
    cut = sums(made, joined(parts, made.numbers), weights, slice(1, 7))
    np.testing.assert_array_equal(cut, one)
