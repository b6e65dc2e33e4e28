"""Triton kernels: residuals of a tile of pools are made and used up without leaving the chip.

The tensor program multiplies weights with rows, writes the residuals to memory, reads them again
and multiplies them back. Here one program instance holds the weights of a few dozen pools, walks
over an owner's rows block by block, and keeps only the slope it adds up: as fused attention does.

Each pool is a row of its own in every product and is added up by one instance in the order of the
rows, so its slope has the same bits in any company.
"""

# mypy: ignore-errors
# Triton reads these signatures itself, and knows its own types only

import triton
import triton.language as tl


@triton.jit
def slopes_of_owner(
    X,
    XT,
    W,
    G,
    pools,
    marks,
    absent,
    n_pools,
    n_rows,
    width,
    columns,
    D: tl.constexpr,
    BP: tl.constexpr,
    BR: tl.constexpr,
    CP: tl.constexpr,
    MARKED: tl.constexpr,
    TF32: tl.constexpr,
    FAST: tl.constexpr,
):
    """G[pools] += f(W[pools] X') X for one owner's rows X; `n_rows` is a multiple of BR.

    f is tanh for two classes, which have one column of weights (CP is 1). Of more classes it is the
    softmax, with absent[pools] added to the scores; they stand beside each other in a tile.
    """
    line = tl.arange(0, BP * CP)
    position = tl.program_id(0) * BP + line // CP
    label = line % CP
    there = position < n_pools
    real = there & (label < columns)
    pool = tl.load(pools + position, mask=there, other=0).to(tl.int64)
    column = tl.arange(0, D)
    place = (pool * columns + label)[:, None] * width + column[None, :]
    inside = real[:, None] & (column < width)[None, :]
    w = tl.load(W + place, mask=inside, other=0.0)
    lack = tl.load(absent + pool * columns + label, mask=real, other=float("-inf"))
    lack = tl.where(there, lack, 0.0)
    total = tl.zeros((BP * CP, D), dtype=tl.float32)
    for start in range(0, n_rows, BR):
        row = start + tl.arange(0, BR)
        x = tl.load(X + row[:, None] * D + column[None, :])
        missed = tl.dot(w, tl.trans(x), input_precision="tf32")
        if CP == 1:
            if FAST:  # one instruction of the special-function unit, right to 2^-11 of the result
                missed = tl.inline_asm_elementwise(
                    "tanh.approx.f32 $0, $1;", "=f,f", [missed], tl.float32, is_pure=True, pack=1
                )
            else:
                missed = 2 * tl.sigmoid(2 * missed) - 1
        else:
            scores = tl.reshape(missed + lack[:, None], (BP, CP, BR))
            grown = tl.exp(scores - tl.max(scores, axis=1)[:, None, :])
            missed = tl.reshape(grown / tl.sum(grown, axis=1)[:, None, :], (BP * CP, BR))
        if MARKED:
            taken = position[:, None].to(tl.int64) * n_rows + row[None, :]
            missed *= tl.load(marks + taken, mask=there[:, None], other=0).to(tl.float32)
        if TF32:  # tensor cores read TF32 along the rows only, so the transpose is laid out too
            across = tl.load(XT + column[:, None] * n_rows + row[None, :])
            if FAST:  # tensor cores would cut off what they do not read, always towards zero
                missed = tl.inline_asm_elementwise(
                    "cvt.rna.tf32.f32 $0, $1;", "=r,r", [missed], tl.float32, is_pure=True, pack=1
                )
            total = tl.dot(missed, tl.trans(across), total, input_precision="tf32")
        else:
            total = tl.dot(missed.to(x.dtype), x, total)
    before = tl.load(G + place, mask=inside, other=0.0)
    tl.store(G + place, before + total, mask=inside)


@triton.jit
def hits_of_two(
    X,
    codes,
    W,
    edge,
    hits,
    n_pools,
    n_rows,
    width,
    D: tl.constexpr,
    BP: tl.constexpr,
    BR: tl.constexpr,
):
    """How many test rows each pool predicts rightly: the second class where the score > edge."""
    pool = tl.program_id(0) * BP + tl.arange(0, BP)
    real = pool < n_pools
    column = tl.arange(0, D)
    place = pool[:, None].to(tl.int64) * width + column[None, :]
    w = tl.load(W + place, mask=real[:, None] & (column < width)[None, :], other=0.0)
    boundary = tl.load(edge + pool, mask=real, other=0.0)
    count = tl.zeros((BP,), dtype=tl.int32)
    for start in range(0, n_rows, BR):
        row = start + tl.arange(0, BR)
        x = tl.load(X + row[:, None] * D + column[None, :])
        scores = tl.dot(w, tl.trans(x), input_precision="tf32x3")  # float32 in all but name
        right = (scores > boundary[:, None]).to(tl.int32) == tl.load(codes + row)[None, :]
        count += tl.sum(right.to(tl.int32), axis=1)
    tl.store(hits + pool, count, mask=real)


@triton.jit
def influence_of_two(
    X,
    codes,
    W,
    edge,
    weights,
    sums,
    n_pools,
    n_rows,
    width,
    n_owners,
    span,
    D: tl.constexpr,
    BP: tl.constexpr,
    BR: tl.constexpr,
    BO: tl.constexpr,
):
    """sums[part, row, owner] = Σ weights[owner, pool] over pools of a part that are right there.

    One instance holds some test rows, walks over `span` pools in their order, and adds up: scores
    never leave the chip, and a sum depends on the pools of its part alone.
    """
    row = tl.program_id(0) * BR + tl.arange(0, BR)
    owner = tl.program_id(2) * BO + tl.arange(0, BO)
    asked = owner < n_owners
    column = tl.arange(0, D)
    x = tl.load(X + row[:, None] * D + column[None, :])
    code = tl.load(codes + row)
    total = tl.zeros((BR, BO), dtype=tl.float32)
    first = tl.program_id(1) * span
    for start in range(first, first + span, BP):
        pool = start + tl.arange(0, BP)
        real = pool < n_pools
        place = pool[:, None].to(tl.int64) * width + column[None, :]
        w = tl.load(W + place, mask=real[:, None] & (column < width)[None, :], other=0.0)
        boundary = tl.load(edge + pool, mask=real, other=0.0)
        scores = tl.dot(x, tl.trans(w), input_precision="tf32x3")
        right = (scores > boundary[None, :]).to(tl.int32) == code[:, None]
        there = owner[:, None].to(tl.int64) * n_pools + pool[None, :]
        weight = tl.load(weights + there, mask=asked[:, None] & real[None, :], other=0.0)
        total += tl.dot(right.to(tl.float32), tl.trans(weight), input_precision="tf32x3")
    place = (tl.program_id(1).to(tl.int64) * n_rows + row[:, None]) * n_owners + owner[None, :]
    tl.store(sums + place, total, mask=asked[None, :])
