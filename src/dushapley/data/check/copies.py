"""Rows that are equal or nearly so: within an owner, between owners, and with the test set."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dushapley.arrays import Array, FloatArray, IntArray
from dushapley.data.check.columns import BY_CHANCE
from dushapley.data.check.survey import Survey, block
from dushapley.data.findings import Finding
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


def copies(survey: Survey) -> Iterator[Finding]:
    """Equal rows, and nearly equal ones (numbers that differ by a millionth, say)."""
    if not survey.names or survey.kind(survey.target) == "mixed":
        return
    blocks = list(survey.blocks)
    if survey.test is not None and {*survey.columns, survey.target} <= set(survey.test.columns):
        blocks.append(block(survey.test, survey.measured))
    text = _text_hashes(survey, [len(own) for own in blocks])
    equal = overlap([row_hashes(own) + of for own, of in zip(blocks, text, strict=True)])
    yield from _told(survey, equal, "equal", None)
    if survey.measured:
        cells = np.fmax(GRID * np.nanstd(survey.sample, axis=0), LEAST_CELL)
        near = [row_hashes(np.rint(own / cells)) + of for own, of in zip(blocks, text, strict=True)]
        yield from _told(survey, overlap(near), "nearly equal", equal)


def _text_hashes(survey: Survey, sizes: list[int]) -> list[Array]:
    """Hashes of what rows hold beside numbers, by holder."""
    hashes = [np.zeros(size, dtype=np.uint64) for size in sizes]
    columns = [c for c in [*survey.columns, survey.target] if c not in survey.measured]
    for position, column in enumerate(columns, start=len(survey.measured)):
        entries, codes = survey.coded(column)
        named = np.array([*map(str, entries), ""], dtype=object)
        hashed = row_hashes(named, start=position)
        for total, own in zip(hashes, codes, strict=False):
            total += hashed[own]
    return hashes


def _told(survey: Survey, found: Overlap, how: str, equal: Overlap | None) -> Iterator[Finding]:
    """One finding per striking pair, beyond what is told as equal already."""
    rows, chance = found.rows.copy(), found.chance.copy()
    if equal is not None:
        known = {pair: k for k, pair in enumerate(zip(equal.one, equal.other, strict=True))}
        for i, pair in enumerate(zip(found.one, found.other, strict=True)):
            if (k := known.get(pair)) is not None:
                rows[i] -= equal.rows[k]
                chance[i] = max(chance[i] - equal.chance[k], 0.0)
    last = len(survey.names)
    sizes = np.append(survey.sizes, 0 if survey.test is None else len(survey.test))
    striking = _striking(rows, chance, found, sizes)
    whole = striking & (found.one != found.other) & (rows == sizes[found.one]) & (equal is None)
    told = set()
    for place in np.flatnonzero(whole & (sizes[found.one] >= LEAST_COPIED)):
        pair = int(found.one[place]), int(found.other[place])
        if pair[::-1] not in told:
            told.add(pair)
            one, other = (names_in_text(survey)[j] for j in pair)
            yield Finding(
                "copied-file",
                "stop",
                f"All {rows[place]:,} rows of {one} are rows of {other}, targets included: one "
                "file seems to be a copy of the other. Take it out, or put the right one in its "
                "place.",
                owner=survey.holders[pair[0]],
                remedy="--accept copied-file",
            )
    chosen = np.flatnonzero(striking & (found.one <= found.other) & (found.one < last))
    pairs = zip(found.one[chosen].tolist(), found.other[chosen].tolist(), strict=True)
    chosen = chosen[[(a, b) not in told and (b, a) not in told for a, b in pairs]]
    chosen = chosen[np.argsort(-rows[chosen], kind="stable")]
    for i in chosen[:MOST_PAIRS]:
        yield _pair(survey, int(found.one[i]), int(found.other[i]), int(rows[i]), chance[i], how)
    if len(chosen) > MOST_PAIRS:
        yield Finding(
            f"{'shared' if equal is None else 'near'}-rows",
            "note",
            f"{len(chosen) - MOST_PAIRS} more pairs of owners have {how} rows, "
            f"{int(rows[chosen[MOST_PAIRS:]].sum()):,} in all.",
        )


def _striking(rows: IntArray, chance: FloatArray, found: Overlap, sizes: IntArray) -> Array:
    """Pairs with more rows in common than chance would give in any of so many pairs.

    One pair of equal rows more than were found is granted to chance, wherever it may fall.
    """
    from scipy.special import gammainc

    own = found.one == found.other
    granted = chance + sizes[found.one] * sizes[found.other] / sizes.sum() ** 2.0
    alike = np.where(own, rows // 2, rows)  # within an owner both of a pair are counted
    tail = gammainc(np.maximum(alike, 1), np.where(own, granted / 2, granted))
    worth = (rows - chance >= WORTH_TELLING * sizes[found.one]) | ~own
    return (alike > 0) & worth & (tail < BY_CHANCE / len(sizes))


def _pair(survey: Survey, j: int, k: int, rows: int, chance: float, how: str) -> Finding:
    name = survey.names[j]
    code, other = "shared-rows", f"rows of {names_in_text(survey)[k]}"
    if j == k:
        code, other = "repeated-rows", "another of its own"
    elif k == len(survey.names):
        code = "tested-rows"
    return Finding(
        code if how == "equal" else "near-rows",
        "note",
        f"{rows:,} of {survey.sizes[j]:,} rows of owner {name!r} are {how} to {other}, targets "
        f"included (chance would give about {chance:.2g}).",
        owner=name,
    )


def names_in_text(survey: Survey) -> list[str]:
    """All holders as they are named within a sentence."""
    return [*(f"owner {name!r}" for name in survey.names), "the test set"]
