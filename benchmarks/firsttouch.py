"""
The cost of memory that is touched for the first time on this machine.

A broker that stores 1 KiB fills 1 KiB of new pages of its log. On a virtual machine whose free memory is given back to
the host (free page reporting), the first use of such a page can cost ten times that of one that was in use a moment
ago, and this cost is in every figure of CPU time a message, of any broker.
"""

from __future__ import annotations

import mmap
import time

import msgspec

SIZE = 256 << 20
_PAGE = mmap.PAGESIZE
_NO_HUGE_PAGES = getattr(mmap, "MADV_NOHUGEPAGE", 15)


class FirstTouch(msgspec.Struct, frozen=True):
    """CPU microseconds for each KiB of memory."""

    first: float
    """Memory as this process got it from the kernel, a page of 4 KiB at a time."""
    again: float
    """As much memory once more, right after the first was given back."""


def warm(size: int) -> None:
    """Touch C{size} bytes of memory and give them back, so that the next ones to use as much find it used recently."""
    _touch(size)


def measure(size: int = SIZE) -> FirstTouch:
    """Touch C{size} bytes of memory page by page, give them back, and do so again."""
    return FirstTouch(_touch(size), _touch(size))


def _touch(size: int) -> float:
    step = bytes(_PAGE)
    with mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(_NO_HUGE_PAGES)
        began = time.thread_time()
        for at in range(0, size, _PAGE):
            memory[at : at + _PAGE] = step
        return (time.thread_time() - began) * 1e6 / (size / 1024)
