"""Rows that are equal or nearly so: within an owner, between owners, and with the test set."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dushapley.arrays import Array, FloatArray, IntArray
from dushapley.data.check.columns import BY_CHANCE
from dushapley.data.check.survey import Survey, block
from dushapley.data.findings import Finding, FindingStream
from dushapley.data.overlap import Overlap, overlap, row_hashes

GRID = 1.0618e-3
"""Width of the cells in which nearly equal numbers meet, in standard deviations of the column (no
round number: round numbers must not lie on its borders)."""
LEAST_CELL = 5e-4
WORTH_TELLING = 0.01
"""Part of an owner's rows above which those that repeat within its data are told."""
LEAST_COPIED = 10
"""Rows from which a file that is in another as a whole is a copy of it."""
MOST_PAIRS = 5
"""Pairs told one by one; what is beyond is counted."""


def copies(survey: Survey) -> FindingStream:
    """Equal rows, and nearly equal ones (numbers that differ by a millionth, say)."""
    if not survey.names or survey.target_kind == "mixed":
        return
    blocks = list(survey.blocks)
    if survey.test is not None and {*survey.columns, survey.target} <= set(survey.test.columns):
        blocks.append(block(survey.test, survey.measured))
    text = _text_hashes(survey, [len(own) for own in blocks])
    equal = _overlap(blocks, text)
    yield from _told(survey, equal, "equal", None)
    if survey.measured:
        cells = np.fmax(GRID * np.nanstd(survey.sample, axis=0), LEAST_CELL)
        near = _overlap([np.rint(own / cells) for own in blocks], text)
        yield from _told(survey, near, "nearly equal", equal)


def _overlap(blocks: Sequence[FloatArray], text: list[Array]) -> Overlap:
    """Who has rows in common with whom, by their numbers and the hashes of all else."""
    return overlap(
        [row_hashes(numbers) + words for numbers, words in zip(blocks, text, strict=True)]
    )


def _text_hashes(survey: Survey, sizes: list[int]) -> list[Array]:
    """Hashes of what rows hold beside numbers, by holder."""
    hashes = [np.zeros(size, dtype=np.uint64) for size in sizes]
    columns = [c for c in [*survey.columns, survey.target] if c not in survey.measured]
    for position, column in enumerate(columns, start=len(survey.measured)):
        entries, codes = survey.coded(column)
        hashed = row_hashes(np.array([*map(str, entries), ""], dtype=object), start=position)
        for total, own in zip(hashes, codes, strict=False):
            total += hashed[own]
    return hashes


def _told(survey: Survey, found: Overlap, how: str, equal: Overlap | None) -> FindingStream:
    """One finding per striking pair, beyond what is told as equal already."""
    rows, chance = found.rows.copy(), found.chance.copy()
    pairs = list(zip(found.one.tolist(), found.other.tolist(), strict=True))
    if equal is not None:
        known = {pair: k for k, pair in enumerate(zip(equal.one, equal.other, strict=True))}
        for place, pair in enumerate(pairs):
            if (k := known.get(pair)) is not None:
                rows[place] -= equal.rows[k]
                chance[place] = max(chance[place] - equal.chance[k], 0.0)
    sizes = np.append(survey.sizes, 0 if survey.test is None else len(survey.test))
    striking = _striking(rows, chance, found, sizes)
    own_rows = sizes[found.one]
    told = set()
    if equal is None:
        whole = striking & (found.one != found.other) & (rows == own_rows)
        for i in np.flatnonzero(whole & (own_rows >= LEAST_COPIED)):
            if pairs[i][::-1] not in told:
                told.add(pairs[i])
                yield _copy(survey, *pairs[i], rows[i])
    chosen = np.flatnonzero(striking & (found.one <= found.other) & (found.one < len(survey.names)))
    chosen = chosen[[told.isdisjoint({pairs[i], pairs[i][::-1]}) for i in chosen]]
    chosen = chosen[np.argsort(-rows[chosen], kind="stable")]
    for i in chosen[:MOST_PAIRS]:
        j, k = pairs[i]
        yield _pair(survey, j, k, rows[i], chance[i], how)
    rest = rows[chosen[MOST_PAIRS:]]
    if len(rest):
        code = "shared-rows" if equal is None else "near-rows"
        message = f"{len(rest)} more pairs of owners have {how} rows, {rest.sum():,} in all."
        yield Finding(code, "note", message)


def _striking(rows: IntArray, chance: FloatArray, found: Overlap, sizes: IntArray) -> Array:
    """Pairs with more rows in common than chance would give in any of so many pairs.

    One pair of equal rows more than were found is granted to chance, wherever it may fall.
    """
    from scipy.special import gammainc

    own = found.one == found.other
    n = sizes[found.one]
    granted = chance + n * sizes[found.other] / sizes.sum() ** 2.0
    alike = np.where(own, rows // 2, rows)  # within an owner both of a pair are counted
    tail = gammainc(np.maximum(alike, 1), np.where(own, granted / 2, granted))
    worth = (rows - chance >= WORTH_TELLING * n) | ~own
    return (alike > 0) & worth & (tail < BY_CHANCE / len(sizes))


def _copy(survey: Survey, j: int, k: int, rows: int) -> Finding:
    one, other = _in_text(survey, j), _in_text(survey, k)
    message = (
        f"All {rows:,} rows of {one} are rows of {other}, targets included: one file seems to be a "
        "copy of the other. Take it out, or put the right one in its place."
    )
    owner, remedy = survey.holders[j], "--accept copied-file"
    return Finding("copied-file", "stop", message, owner, remedy=remedy)


def _pair(survey: Survey, j: int, k: int, rows: int, chance: float, how: str) -> Finding:
    name = survey.names[j]
    code, other = "shared-rows", f"rows of {_in_text(survey, k)}"
    if j == k:
        code, other = "repeated-rows", "another of its own"
    elif k == len(survey.names):
        code = "tested-rows"
    message = (
        f"{rows:,} of {survey.sizes[j]:,} rows of owner {name!r} are {how} to {other}, targets "
        f"included (chance would give about {chance:.2g})."
    )
    return Finding(code if how == "equal" else "near-rows", "note", message, name)


def _in_text(survey: Survey, position: int) -> str:
    """A holder within a sentence."""
    if position == len(survey.names):
        return "the test set"
    return f"owner {survey.names[position]!r}"
