"""
Numbers by time without a timer: a ring of buckets is turned when something is counted or asked in a later time slot
than the last, so an idle broker does nothing and an idle flow's rates still fall to zero.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple

SLOT = 10
"""Seconds of the finest bucket of a flow."""
SLOTS_A_DAY = 8640

_HOUR = 60  # slots in a bucket of the last hour: 10 minutes
_DAY = 360  # slots in a bucket of the last day: an hour
_AT_HOUR, _AT_DAY, _END = 6, 12, 36
_EMPTY = array("q", [0]) * _END


class Window(NamedTuple):
    """The count of the last minute, hour or day, or since the counting began if that is later."""

    sum: int
    tps: float
    """A second."""


class Windows(NamedTuple):
    """One number for each of the windows that tools ask for (315)."""

    minute: Window
    hour: Window
    day: Window


class Ring:
    """
    One number by time: the last minute in steps of 10 s, the last hour in 10 minutes, the last day in hours.

    Callers add to C{current} themselves after L{turn}: that is the whole cost of counting.

    @ivar slot: the 10 s slot that C{current} belongs to.
    @ivar current: what was counted in it.
    """

    __slots__ = ("_began", "_buckets", "current", "slot")

    def __init__(self, slot: int, began: float) -> None:
        """@param began: when the counting began, in seconds of the monotonic clock."""
        self._buckets = array("q", _EMPTY)
        self._began = began
        self.slot = slot
        self.current = 0

    def turn(self, slot: int) -> None:
        """Move on to C{slot}, and forget the slots that are too old."""
        old, buckets = self.slot, self._buckets
        buckets[old % 6] = self.current
        buckets[_AT_HOUR + old // _HOUR % 6] += self.current
        buckets[_AT_DAY + old // _DAY % 24] += self.current
        for begin, size, was, now in (
            (0, 6, old, slot),
            (_AT_HOUR, 6, old // _HOUR, slot // _HOUR),
            (_AT_DAY, 24, old // _DAY, slot // _DAY),
        ):
            if now > was:
                for one in range(was + 1, min(now, was + size) + 1):
                    buckets[begin + one % size] = 0
        self.slot = slot
        self.current = 0

    def minute(self, now: float) -> Window:
        """The last minute: the current 10 s and the five times 10 s before them."""
        return self._window(now, 0, _AT_HOUR, 1, 6)

    def hour(self, now: float) -> Window:
        """The last hour, to 10 minutes."""
        return self._window(now, _AT_HOUR, _AT_DAY, _HOUR, 6)

    def day(self, now: float) -> Window:
        """The last day, to the hour."""
        return self._window(now, _AT_DAY, _END, _DAY, 24)

    def windows(self, now: float) -> Windows:
        """Return minute, hour and day."""
        return Windows(self.minute(now), self.hour(now), self.day(now))

    def _window(self, now: float, begin: int, end: int, width: int, count: int) -> Window:
        slot = int(now) // SLOT
        if slot > self.slot:
            self.turn(slot)
        first = (slot // width - count + 1) * width * SLOT  # when the oldest bucket began
        total = sum(self._buckets[begin:end]) + self.current
        return Window(total, total / max(1.0, now - max(first, self._began)))


class Flow:
    """
    Messages and bytes of one topic, or of one group in one topic.

    The hot path adds to C{count}, C{size} and C{calls} itself, after L{turn} where the slot is not the current one.

    @ivar slot: the 10 s slot that C{count}, C{size} and C{calls} belong to.
    @ivar count: messages in it.
    @ivar size: bytes of their records.
    @ivar calls: requests that they came or went by.
    @ivar queues: the same of single queues, by id, where somebody counts that.
    """

    __slots__ = (
        "_bytes", "_calls", "_last", "_nums", "_past_count", "_past_size", "calls", "count", "queues", "size", "slot",
    )  # fmt: skip

    def __init__(self, now: float) -> None:
        self.slot = self._last = int(now) // SLOT
        self.count = self.size = self.calls = 0
        self._past_count = self._past_size = 0
        self.queues: dict[int, Flow] = {}
        self._nums = Ring(self.slot, now)
        self._bytes = Ring(self.slot, now)
        self._calls = Ring(self.slot, now)

    def turn(self, slot: int) -> None:
        """Move on to C{slot}."""
        self._settle()
        self._nums.turn(slot)
        self._bytes.turn(slot)
        self._calls.turn(slot)
        self._last = self.last
        self._past_count += self.count
        self._past_size += self.size
        self.slot = slot
        self.count = self.size = self.calls = 0

    @property
    def last(self) -> int:
        """The last slot in which something was counted; asking does not change it."""
        return self.slot if self.count else self._last

    @property
    def total(self) -> tuple[int, int]:
        """The number of all messages ever counted, and their bytes."""
        return self._past_count + self.count, self._past_size + self.size

    def nums(self, now: float) -> Windows:
        """The messages of the last minute, hour and day."""
        self._settle(now)
        return self._nums.windows(now)

    def bytes(self, now: float) -> Windows:
        """The bytes of the last minute, hour and day."""
        self._settle(now)
        return self._bytes.windows(now)

    def requests(self, now: float) -> Windows:
        """The requests of the last minute, hour and day."""
        self._settle(now)
        return self._calls.windows(now)

    def _settle(self, now: float = 0.0) -> None:
        """Bring the rings up to date."""
        if int(now) // SLOT > self.slot:
            self.turn(int(now) // SLOT)
        self._nums.current = self.count
        self._bytes.current = self.size
        self._calls.current = self.calls


class Rate:
    """
    Events a second over the last 10, 60 and 600 s.

    @ivar current: the events of the running second; callers add to it themselves, after L{turn} when a second is over.
    """

    __slots__ = ("_began", "_coarse", "_fine", "_second", "current")

    def __init__(self, now: float) -> None:
        self._began = now
        self._fine = array("q", [0]) * 64  # whole seconds
        self._coarse = array("q", [0]) * 64  # whole 10 s
        self._second = int(now)
        self.current = 0

    def turn(self, second: int) -> None:
        """Move on to C{second}."""
        old = self._second
        if second == old:
            return
        self._fine[old % 64] = self.current
        self._coarse[old // 10 % 64] += self.current
        for one in range(old + 1, min(second, old + 64) + 1):
            self._fine[one % 64] = 0
        for one in range(old // 10 + 1, min(second // 10, old // 10 + 64) + 1):
            self._coarse[one % 64] = 0
        self._second = second
        self.current = 0

    def over(self, seconds: int, now: float) -> float:
        """The rate over the last 10, 60 or 600 whole seconds, or since the beginning if that is later."""
        if int(now) != self._second:
            self.turn(int(now))
        if seconds <= 60:
            covered = seconds
            begin, end, fine = (self._second - seconds) % 64, self._second % 64, self._fine
            total = sum(fine[begin:end]) if begin < end else sum(fine[begin:]) + sum(fine[:end])
        else:
            last, begun = divmod(self._second, 10)
            covered = seconds - 10 + begun
            total = sum(self._coarse[(last - back) % 64] for back in range(seconds // 10))
        return total / max(1.0, min(covered, int(now) - int(self._began)))

    def text(self, now: float) -> str:
        """The three rates, separated by blanks, as runtime information shows them."""
        return " ".join(str(round(self.over(seconds, now), 3)) for seconds in (10, 60, 600))


class Mornings:
    """
    A total, what it was at the last two midnights, and what was added lately.

    @ivar total: what was counted; callers add to it themselves.
    """

    __slots__ = ("_day", "_ring", "_seen", "today", "total", "yesterday")

    def __init__(self, day: int, now: float) -> None:
        self._day = day
        self._ring = Ring(int(now) // SLOT, now)
        self._seen = 0
        self.total = 0
        self.today = 0
        self.yesterday = 0

    def settle(self, slot: int) -> None:
        """Note what was added until now, and make C{slot} the current 10 s; asked once a second is enough."""
        ring = self._ring
        ring.current += self.total - self._seen
        self._seen = self.total
        if slot != ring.slot:
            ring.turn(slot)

    def nums(self, now: float) -> Windows:
        """Return the counts of the last minute, hour and day."""
        self.settle(int(now) // SLOT)
        return self._ring.windows(now)

    def turn(self, day: int) -> None:
        """Note that C{day} has come."""
        if day != self._day:
            self.yesterday = self.today if day == self._day + 1 else self.total
            self.today = self.total
            self._day = day
