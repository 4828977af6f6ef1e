"""
Resources for debugging: stacks, and the contents of memory. Off unless C{opsDebug} is on, and then for admins on this
machine alone (reliability X13).
"""

from __future__ import annotations

import gc
import sys
import traceback
from collections import Counter
from typing import ClassVar, Final

import msgspec

from smartgo.ops.problems import Problem
from smartgo.ops.web.routes import ADMIN, RouteCall, route
from smartgo.schema.address import is_loopback

_KINDS: Final = 50
_REFUSES: Final = {403: "You are not on this machine, or the scope is missing."}


class ThreadStack(msgspec.Struct, rename="camel"):
    """The stack of one thread: one line per frame, outermost first."""

    thread: int
    lines: list[str]


class ProcessMemory(msgspec.Struct, rename="camel"):
    """
    The memory use of the process.

    @ivar blocks: that are allocated by Python.
    @ivar objects: by kind, the most frequent ones among those that the garbage collector looks after.
    @ivar collections: of the garbage collector, by generation.
    """

    schema_name: ClassVar = "Memory"

    blocks: int
    objects: dict[str, int]
    collections: list[int]


class DebugApi:
    """Stacks and memory. Both block the reactor for a moment."""

    @route("GET", "/debug/stacks", scope=ADMIN, answer=list[ThreadStack], remote=False, refuses=_REFUSES)
    def stacks(self, call: RouteCall[None, None, None]) -> list[ThreadStack]:
        """Return the stack of each thread."""
        _check_near(call)
        return [
            ThreadStack(number, [line.strip() for line in traceback.format_stack(frame)])
            for number, frame in sys._current_frames().items()
        ]

    @route("GET", "/debug/memory", scope=ADMIN, answer=ProcessMemory, remote=False, refuses=_REFUSES)
    def memory(self, call: RouteCall[None, None, None]) -> ProcessMemory:
        """Return what fills the memory."""
        _check_near(call)
        kinds = Counter(f"{type(one).__module__}.{type(one).__qualname__}" for one in gc.get_objects())
        return ProcessMemory(
            sys.getallocatedblocks(), dict(kinds.most_common(_KINDS)), [one["collections"] for one in gc.get_stats()]
        )


def _check_near(call: RouteCall[None, None, None]) -> None:
    """Refuse senders that are not on this machine. @raise Problem: 403."""
    if not is_loopback(call.address):
        raise Problem(403, "this is allowed only from this machine", "not-local")
