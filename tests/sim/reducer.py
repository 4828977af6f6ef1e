"""Make a failing run smaller: leave out what the failure does not need."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

ATTEMPTS: Final = 200
"""Runs to make a failing one smaller."""


def reduce(count: int, fails: Callable[[frozenset[int]], bool], attempts: int = ATTEMPTS) -> frozenset[int]:
    """
    Return the numbers of as many parts as can be left out while a run still fails.

    @param count: how many parts there are, numbered from 0.
    @param fails: runs without these parts; returns whether it fails in the same way.
    """
    left_out: frozenset[int] = frozenset()
    size = max(1, count // 2)
    while size and attempts > 0:
        smaller = False
        for begin in range(0, count, size):
            chunk = frozenset(range(begin, min(begin + size, count)))
            if chunk <= left_out or attempts <= 0:
                continue
            attempts -= 1
            if fails(left_out | chunk):
                left_out |= chunk
                smaller = True
        if not smaller or size > 1:
            size //= 2
    return left_out


def ranges(numbers: Collection[int]) -> str:
    """Write numbers as ranges: C{0-3,7}."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(f"{begin}" if begin == end else f"{begin}-{end}" for begin, end in parts)


def numbers(text: str) -> frozenset[int]:
    """
    Read ranges.

    >>> sorted(numbers("0-3,7"))
    [0, 1, 2, 3, 7]

    @raise ValueError: it is something else, or a range that ends before it begins.
    """
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        begin, dash, end = part.partition("-")
        if not begin.isdigit() or (dash and not end.isdigit()):
            raise ValueError(f"{part} is no number, and no range of numbers")
        if int(end or begin) < int(begin):
            raise ValueError(f"the range {part} ends before it begins")
        found.update(range(int(begin), int(end or begin) + 1))
    return frozenset(found)
