"""Parts of a long sum, made by some threads at a time and added up in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from os import cpu_count
from typing import TypeVar

LEAST_PARTS, MOST_THREADS, MOST_WAITING = 4, 8, 2**25
"""Parts from which on threads share them, how many do, and numbers that wait to be added."""

Part = TypeVar("Part")


def in_order(made: Callable[[int], Part], starts: range, size: int) -> Iterator[Part]:
    """Parts of `size` numbers in their order: sums have the same bits on any number of cores."""
    at_once = min(cpu_count() or 1, MOST_THREADS, MOST_WAITING // size)
    if len(starts) < LEAST_PARTS or at_once < 2:
        yield from map(made, starts)
        return
    with ThreadPoolExecutor(at_once) as threads:
        for first in range(0, len(starts), at_once):
            yield from threads.map(made, starts[first : first + at_once])
