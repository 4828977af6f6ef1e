"""
What passed through the broker: totals, rates, and flows by topic and by group.

There is no sampling timer. A ring of buckets is turned when something is counted or asked in a later time slot than
the last, so an idle broker does nothing and an idle flow's rates still fall to zero.

Names and windows are those that C{mqadmin} and the dashboard read (C{broker.md} section 14).
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable
from typing import Any, NamedTuple, TypeVar

from smartgo.env.interfaces import IClock

DAY_MS = 86_400_000

_SLOT = 10  # seconds, the finest bucket of a flow
_HOUR = 60  # slots in a bucket of the last hour: 10 minutes
_DAY = 360  # slots in a bucket of the last day: an hour
_AT_HOUR, _AT_DAY, _END = 6, 12, 36
_EMPTY = array("q", [0]) * _END

_NAMES = {
    "TOPIC_PUT_NUMS": ("puts", "nums"),
    "TOPIC_PUT_SIZE": ("puts", "size"),
    "GROUP_GET_NUMS": ("gets", "nums"),
    "GROUP_GET_SIZE": ("gets", "size"),
    "SNDBCK_PUT_NUMS": ("back", "nums"),
}

_Key = TypeVar("_Key", bound=Hashable)


class Window(NamedTuple):
    """What was counted in the last minute, hour or day, or since the counting began if that is later."""

    sum: int
    tps: float
    """A second."""


class Windows(NamedTuple):
    """One number as tools ask for it (315), and what to divide by for its average."""

    minute: Window
    hour: Window
    day: Window


class Counted(NamedTuple):
    """A statistics item: what it counts, and how many messages that came from."""

    values: Windows
    messages: Windows


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
        """Make C{slot} the current one; what lies too far back is forgotten."""
        old, buckets = self.slot, self._buckets
        buckets[old % 6] = self.current
        buckets[_AT_HOUR + old // _HOUR % 6] += self.current
        buckets[_AT_DAY + old // _DAY % 24] += self.current
        for begin, size, was, now in (
            (0, 6, old, slot),
            (_AT_HOUR, 6, old // _HOUR, slot // _HOUR),
            (_AT_DAY, 24, old // _DAY, slot // _DAY),
        ):
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
        """All three."""
        return Windows(self.minute(now), self.hour(now), self.day(now))

    def _window(self, now: float, begin: int, end: int, width: int, count: int) -> Window:
        slot = int(now) // _SLOT
        if slot > self.slot:
            self.turn(slot)
        first = (slot // width - count + 1) * width * _SLOT  # when the oldest bucket began
        total = sum(self._buckets[begin:end]) + self.current
        return Window(total, total / max(1.0, now - max(first, self._began)))


class Flow:
    """
    Messages and bytes of one topic, or of one group in one topic.

    @ivar nums: messages.
    @ivar size: bytes of their records.
    """

    __slots__ = ("nums", "size")

    def __init__(self, now: float) -> None:
        slot = int(now) // _SLOT
        self.nums = Ring(slot, now)
        self.size = Ring(slot, now)

    def add(self, slot: int, count: int, size: int) -> None:
        """Count C{count} messages of C{size} bytes in the 10 s slot C{slot}."""
        nums = self.nums
        if slot != nums.slot:
            nums.turn(slot)
            self.size.turn(slot)
        nums.current += count
        self.size.current += size


class Rate:
    """Events a second over the last 10, 60 and 600 s."""

    __slots__ = ("_began", "_coarse", "_fine", "_second", "current")

    def __init__(self, now: float) -> None:
        self._began = now
        self._fine = array("q", [0]) * 64  # whole seconds
        self._coarse = array("q", [0]) * 64  # whole 10 s
        self._second = int(now)
        self.current = 0  # of the running second

    def add(self, count: int, second: int) -> None:
        """Count C{count} events in the whole second C{second} of the monotonic clock."""
        if second != self._second:
            self._turn(second)
        self.current += count

    def _turn(self, second: int) -> None:
        old = self._second
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
            self._turn(int(now))
        if seconds <= 60:
            covered = seconds
            total = sum(self._fine[(self._second - back) % 64] for back in range(1, seconds + 1))
        else:
            last, begun = divmod(self._second, 10)
            covered = seconds - 10 + begun
            total = sum(self._coarse[(last - back) % 64] for back in range(seconds // 10))
        return total / max(1.0, min(covered, int(now) - int(self._began)))

    def text(self, now: float) -> str:
        """The three rates, separated by blanks, as runtime information shows them."""
        return " ".join(str(round(self.over(seconds, now), 3)) for seconds in (10, 60, 600))


class Mornings:
    """A total, and what it was at the last two midnights."""

    __slots__ = ("_day", "today", "total", "yesterday")

    def __init__(self, day: int) -> None:
        self._day = day
        self.total = 0
        self.today = 0
        self.yesterday = 0

    def turn(self, day: int) -> None:
        """Note that C{day} has come."""
        if day != self._day:
            self.yesterday = self.today if day == self._day + 1 else self.total
            self.today = self.total
            self._day = day


class BrokerStats:
    """
    All counters of one broker. Count once a run of messages rather than once a message where that is as easy.

    @ivar put_failures: sends that the store refused.
    @ivar overflowed: messages of topics and groups that were not counted one by one, because C{limit} others are.
    """

    def __init__(self, clock: IClock, utc_offset: float = 0.0, limit: int = 65536) -> None:
        """
        @param utc_offset: seconds by which the local midnight that "today" begins with is ahead of UTC's.
        @param limit: the most flows to keep; those idle for a day give way to new ones.
        """
        self._clock = clock
        self._seconds = clock.seconds
        self._offset_ms = round(utc_offset * 1000)
        self._limit = limit
        self._second = -1
        self._swept = -1
        self._puts: dict[str, Flow] = {}
        self._gets: dict[tuple[str, str], Flow] = {}
        self._back: dict[tuple[str, str], Flow] = {}
        now = self._seconds()
        self.began = now
        self.boot_ms = clock.wall_ms()
        day = (self.boot_ms + self._offset_ms) // DAY_MS
        self.put = Mornings(day)
        self.got = Mornings(day)
        self.put_size = 0
        self.put_failures = 0
        self.overflowed = 0
        self._put_rate = Rate(now)
        self._got_rate = Rate(now)
        self._found_rate = Rate(now)
        self._miss_rate = Rate(now)

    # -- counting ------------------------------------------------------------------------------------------

    def stored(self, topic: str, count: int, size: int) -> None:
        """Count C{count} messages stored into C{topic}, C{size} bytes of records."""
        second = int(self._seconds())
        if second != self._second:
            self._tick(second)
        self.put.total += count
        self.put_size += size
        self._put_rate.add(count, second)
        flow = self._puts.get(topic) or self._new(self._puts, topic)
        if flow is not None:
            flow.add(second // _SLOT, count, size)

    def found(self, group: str, topic: str, count: int, size: int) -> None:
        """Count a pull that gave C{count} messages, C{size} bytes of records."""
        second = int(self._seconds())
        if second != self._second:
            self._tick(second)
        self.got.total += count
        self._got_rate.add(count, second)
        self._found_rate.add(1, second)
        flow = self._gets.get((topic, group)) or self._new(self._gets, (topic, group))
        if flow is not None:
            flow.add(second // _SLOT, count, size)

    def missed(self) -> None:
        """Count a pull that gave nothing."""
        self._miss_rate.add(1, int(self._seconds()))

    def sent_back(self, group: str, topic: str) -> None:
        """Count a message that a consumer sent back."""
        flow = self._back.get((topic, group)) or self._new(self._back, (topic, group))
        if flow is not None:
            flow.add(int(self._seconds()) // _SLOT, 1, 0)

    def forget_topic(self, topic: str) -> None:
        """Drop the flows of a deleted topic."""
        self._puts.pop(topic, None)
        for flows in (self._gets, self._back):
            for key in [key for key in flows if key[0] == topic]:
                del flows[key]

    def forget_group(self, group: str) -> None:
        """Drop the flows of a deleted group."""
        for flows in (self._gets, self._back):
            for key in [key for key in flows if key[1] == group]:
                del flows[key]

    def _tick(self, second: int) -> None:
        self._second = second
        day = (self._clock.wall_ms() + self._offset_ms) // DAY_MS
        self.put.turn(day)
        self.got.turn(day)

    def _new(self, flows: dict[_Key, Flow], key: _Key) -> Flow | None:
        now = self._seconds()
        if len(self._puts) + len(self._gets) + len(self._back) >= self._limit and not self._make_room(now):
            self.overflowed += 1
            return None
        flow = flows[key] = Flow(now)
        return flow

    def _make_room(self, now: float) -> bool:
        """Drop what was idle for a day; false where there is no such flow. Asked at most once a slot when full."""
        slot = int(now) // _SLOT
        if slot == self._swept:
            return False
        self._swept = slot
        oldest = slot - 24 * _DAY
        dropped = 0
        tables: tuple[dict[Any, Flow], ...] = (self._puts, self._gets, self._back)
        for flows in tables:
            for key in [key for key, flow in flows.items() if flow.nums.slot < oldest]:
                del flows[key]
                dropped += 1
        return dropped > 0

    # -- asking --------------------------------------------------------------------------------------------

    def consume_tps(self, group: str, topic: str) -> float:
        """Messages a second that C{group} got from C{topic} in the last minute."""
        flow = self._gets.get((topic, group))
        return 0.0 if flow is None else flow.nums.minute(self._seconds()).tps

    def put_tps(self, topic: str) -> float:
        """Messages a second stored into C{topic} in the last minute."""
        flow = self._puts.get(topic)
        return 0.0 if flow is None else flow.nums.minute(self._seconds()).tps

    def counted(self, name: str, key: str) -> Counted | None:
        """
        A statistics item by the name that tools know, such as C{TOPIC_PUT_NUMS}; C{None}: never counted.

        @param key: the topic, or C{topic@group}.
        """
        table, part = _NAMES.get(name, ("", ""))
        flow: Flow | None = None
        if table == "puts":
            flow = self._puts.get(key)
        elif table:
            topic, _, group = key.rpartition("@")
            flow = (self._gets if table == "gets" else self._back).get((topic, group))
        if flow is None:
            return None
        now = self._seconds()
        nums = flow.nums.windows(now)
        return Counted(nums if part == "nums" else flow.size.windows(now), nums)

    def runtime(self) -> dict[str, str]:
        """What runtime information (28) says about traffic."""
        now = self._seconds()
        self._tick(int(now))
        seconds = int(now - self.began)
        days, rest = divmod(seconds, 86400)
        transferred = self._got_rate.text(now)
        total = " ".join(
            str(round(self._found_rate.over(one, now) + self._miss_rate.over(one, now), 3)) for one in (10, 60, 600)
        )
        return {
            "bootTimestamp": str(self.boot_ms),
            "runtime": f"[ {days} days, {rest // 3600} hours, {rest // 60 % 60} minutes, {rest % 60} seconds ]",
            "putTps": self._put_rate.text(now),
            "getTransferedTps": transferred,  # as 4.x spells it
            "getTransferredTps": transferred,
            "getFoundTps": self._found_rate.text(now),
            "getMissTps": self._miss_rate.text(now),
            "getTotalTps": total,
            "msgPutTotalYesterdayMorning": str(self.put.yesterday),
            "msgPutTotalTodayMorning": str(self.put.today),
            "msgPutTotalTodayNow": str(self.put.total),
            "msgGetTotalYesterdayMorning": str(self.got.yesterday),
            "msgGetTotalTodayMorning": str(self.got.today),
            "msgGetTotalTodayNow": str(self.got.total),
            "putMessageTimesTotal": str(self.put.total),
            "putMessageSizeTotal": str(self.put_size),
            "putMessageAverageSize": str(self.put_size / self.put.total if self.put.total else 0.0),
            "putMessageFailedTimes": str(self.put_failures),
        }
