"""
Calls of ours that wait for their answers, by opaque. Sans-IO: deadlines are compared, never waited for.

The opaque is an int32 of our own choice, counted up for each connection; the peer's are another space.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

W = TypeVar("W")

_OPAQUES = 0x7FFFFFFF
_NEVER = float("inf")


class Call(NamedTuple, Generic[W]):
    """
    A call that waits for its answer.

    @ivar waiter: who wants the answer.
    @ivar code: of the request.
    @ivar deadline: in seconds of the caller's clock.
    @ivar timeout: what that was when asked, in seconds.
    @ivar heard: how many chunks the connection had read when the call was made.
    """

    waiter: W
    code: int
    deadline: float
    timeout: float
    heard: int


class PendingCalls(Generic[W]):
    """
    The calls that wait on one connection.

    @ivar earliest: no call waits whose deadline is before this; it may lie before all of them.
    """

    __slots__ = ("_calls", "_opaque", "earliest")

    def __init__(self) -> None:
        self._calls: dict[int, Call[W]] = {}
        self._opaque = 0
        self.earliest = _NEVER

    def __len__(self) -> int:
        return len(self._calls)

    def __contains__(self, opaque: int) -> bool:
        return opaque in self._calls

    def next_opaque(self) -> int:
        """Return an opaque that no waiting call has."""
        opaque = self._opaque
        while opaque in self._calls:  # after 2^31 calls, and then only where an old one still waits
            opaque = (opaque + 1) & _OPAQUES
        self._opaque = (opaque + 1) & _OPAQUES
        return opaque

    def add(self, opaque: int, call: Call[W]) -> None:
        """Wait for the answer to C{opaque}."""
        self._calls[opaque] = call
        if call.deadline < self.earliest:
            self.earliest = call.deadline

    def take(self, opaque: int) -> W | None:
        """Return who waits for this answer and forget the call; C{None}: nobody does, or no more."""
        call = self._calls.pop(opaque, None)
        return None if call is None else call.waiter

    def forget(self, waiter: W) -> None:
        """Forget the call of one that gave up."""
        for opaque, call in self._calls.items():
            if call.waiter is waiter:
                del self._calls[opaque]
                return

    def expire(self, now: float) -> list[Call[W]]:
        """Return and forget the calls whose deadline has come; C{earliest} is exact afterwards."""
        if now < self.earliest:
            return []
        late = [opaque for opaque, call in self._calls.items() if call.deadline <= now]
        expired = [self._calls.pop(opaque) for opaque in late]
        self.earliest = min((call.deadline for call in self._calls.values()), default=_NEVER)
        return expired

    def drain(self) -> list[Call[W]]:
        """Return and forget all calls."""
        calls = list(self._calls.values())
        self._calls.clear()
        self.earliest = _NEVER
        return calls
