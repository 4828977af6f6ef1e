"""
The broker's traffic: totals, rates, and flows by topic and by group (see L{smartgo.broker.figures.rates}).

Names and windows are those that C{mqadmin} and the dashboard read (docs/spec/broker#statistics).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any, Final, NamedTuple, TypeVar

from smartgo.broker.figures.rates import SLOT, SLOTS_A_DAY, Flow, Mornings, Rate, Window, Windows
from smartgo.env.interfaces import IClock
from smartgo.schema.runtimeclock import WALL_CLOCK

DAY_MS = 86_400_000

_FLOWS: Final = {
    "TOPIC_PUT_NUMS": ("puts", Flow.nums),
    "TOPIC_PUT_SIZE": ("puts", Flow.bytes),
    "GROUP_GET_NUMS": ("gets", Flow.nums),
    "GROUP_GET_SIZE": ("gets", Flow.bytes),
    "QUEUE_GET_NUMS": ("queues", Flow.nums),
    "QUEUE_GET_SIZE": ("queues", Flow.bytes),
    "SNDBCK_PUT_NUMS": ("back", Flow.nums),
    "GROUP_ACK_NUMS": ("acks", Flow.nums),
}
"""What RocketMQ's names count, by topic, by C{topic@group} or by C{topic@queueId@group}."""

QUEUES: Final = 8192
"""Queues of which it is counted what a group got; of more it is not: each takes 2 kB."""

_SWEEP: Final = 360  # slots from one sweep to the next: an hour

_Key = TypeVar("_Key", bound=Hashable)


class Counted(NamedTuple):
    """A statistics item: what it counts, and in how many steps, one a request."""

    values: Windows
    calls: Windows


class Total(NamedTuple):
    """The totals of a topic, or of a group in a topic (C{group} is empty for a topic)."""

    topic: str
    group: str
    count: int  # type: ignore[assignment]
    """Messages."""
    size: int
    """Bytes of their records."""
    minute: Window
    """Messages of the last minute."""
    minute_size: Window
    """Their bytes."""


class BrokerStats:
    """
    All counters of one broker; those of sends are counted once a run of messages.

    @ivar put_failures: sends that the store refused.
    @ivar overflowed: messages of topics and groups that were not counted one by one, because C{limit} others are.
    """

    def __init__(self, clock: IClock, cluster: str = "", utc_offset: float = 0.0, limit: int = 65536) -> None:
        """
        @param cluster: the name by which tools ask for the broker's totals.
        @param utc_offset: seconds by which the local midnight that "today" begins with is ahead of UTC's.
        @param limit: the most flows to keep.
        """
        self._clock = clock
        self._cluster = cluster
        self._seconds = clock.seconds
        self._offset_ms = round(utc_offset * 1000)
        self._limit = limit
        self._due = 0.0  # when the running second is over
        self._slot = -1
        self._swept = int(self._seconds()) // SLOT
        self._puts: dict[str, Flow] = {}
        self._gets: dict[tuple[str, str], Flow] = {}
        self._back: dict[tuple[str, str], Flow] = {}
        self._acks: dict[tuple[str, str], Flow] = {}
        self._refused: dict[tuple[str, str], int] = {}  # messages sent back whose acknowledgement is still to come
        self._queues = 0  # entries of all flows' own tables, or more: dropped flows are noticed when there is no room
        self._queues_seen = -1  # the slot in which they were counted
        now = self._seconds()
        self.began = now
        self.boot_ms = clock.wall_ms()
        day = (self.boot_ms + self._offset_ms) // DAY_MS
        self.put = Mornings(day, now)
        self.got = Mornings(day, now)
        self.put_size = 0
        self.got_size = 0
        self.put_failures = 0
        self.overflowed = 0
        self._put_rate = Rate(now)
        self._got_rate = Rate(now)
        self._found_rate = Rate(now)
        self._miss_rate = Rate(now)

    # -- counting ------------------------------------------------------------------------------------------

    def stored(self, topic: str, count: int, size: int, calls: int = 0) -> None:
        """
        Count C{count} messages stored into C{topic}, C{size} bytes of records.

        @param calls: requests that brought them; 0 where each brought one.
        """
        if self._seconds() >= self._due:
            self._tick()
        self.put.total += count
        self.put_size += size
        self._put_rate.current += count
        flow = self._puts.get(topic) or self._new(self._puts, topic)
        if flow is not None:
            if flow.slot != self._slot:
                flow.turn(self._slot)
            flow.count += count
            flow.size += size
            flow.calls += calls or count

    def found(self, group: str, topic: str, count: int, size: int, queue_id: int = 0) -> None:
        """Count a pull that gave C{count} messages of a queue, C{size} bytes of records."""
        if self._seconds() >= self._due:
            self._tick()
        self.got.total += count
        self.got_size += size
        self._got_rate.current += count
        self._found_rate.current += 1
        flow = self._gets.get((topic, group)) or self._new(self._gets, (topic, group))
        if flow is not None:
            if flow.slot != self._slot:
                flow.turn(self._slot)
            flow.count += count
            flow.size += size
            flow.calls += 1
            queue = flow.queues.get(queue_id) or self._new_queue(flow, queue_id)
            if queue is not None:
                if queue.slot != self._slot:
                    queue.turn(self._slot)
                queue.count += count
                queue.size += size
                queue.calls += 1

    def missed(self) -> None:
        """Count a pull that gave nothing."""
        if self._seconds() >= self._due:
            self._tick()
        self._miss_rate.current += 1

    def sent_back(self, group: str, topic: str, again: bool = True) -> None:
        """
        Count a message that a consumer sent back.

        @param again: the group will get it again: that the group's offset passes it is no progress.
        """
        self._count(self._back, group, topic, 1)
        key = (topic, group)
        if again and key in self._back:
            self._refused[key] = self._refused.get(key, 0) + 1

    def acknowledged(self, group: str, topic: str, count: int) -> None:
        """
        Count messages that a group acknowledged: it committed an offset larger by C{count}.

        Those that it sent back before, to get them again, are left out.
        """
        refused = self._refused.pop((topic, group), 0)
        if refused > count:
            self._refused[topic, group] = refused - count
        if refused < count:
            self._count(self._acks, group, topic, count - refused)

    def _count(self, flows: dict[tuple[str, str], Flow], group: str, topic: str, count: int) -> None:
        slot = int(self._seconds()) // SLOT
        flow = flows.get((topic, group)) or self._new(flows, (topic, group))
        if flow is not None:
            if flow.slot != slot:
                flow.turn(slot)
            flow.count += count
            flow.calls += 1

    def forget_topic(self, topic: str) -> None:
        """Drop the flows of a deleted topic."""
        self._puts.pop(topic, None)
        tables: tuple[dict[tuple[str, str], Any], ...] = (self._gets, self._back, self._acks, self._refused)
        for flows in tables:
            for key in [key for key in flows if key[0] == topic]:
                del flows[key]

    def forget_group(self, group: str) -> None:
        """Drop the flows of a deleted group."""
        tables: tuple[dict[tuple[str, str], Any], ...] = (self._gets, self._back, self._acks, self._refused)
        for flows in tables:
            for key in [key for key in flows if key[1] == group]:
                del flows[key]

    def _tick(self) -> None:
        """Begin a new second: everything that goes by time is turned here, once, rather than where it is counted."""
        second = int(self._seconds())
        self._due = second + 1.0
        self._slot = second // SLOT
        for rate in self._put_rate, self._got_rate, self._found_rate, self._miss_rate:
            rate.turn(second)
        day = (self._clock.wall_ms() + self._offset_ms) // DAY_MS
        for total in self.put, self.got:
            total.turn(day)
            total.settle(self._slot)

    def _new(self, flows: dict[_Key, Flow], key: _Key) -> Flow | None:
        now = self._seconds()
        slot = int(now) // SLOT
        full = self._flow_count() >= self._limit
        if slot >= self._swept + (1 if full else _SWEEP):
            self._sweep(slot)
            full = self._flow_count() >= self._limit
        if full:
            self.overflowed += 1
            return None
        flow = flows[key] = Flow(now)
        return flow

    def _new_queue(self, flow: Flow, queue_id: int) -> Flow | None:
        if self._queues >= QUEUES and self._queues_seen != self._slot:
            self._queues_seen = self._slot
            self._queues = sum(len(one.queues) for one in self._gets.values())
        if self._queues >= QUEUES:
            return None
        self._queues += 1
        queue = flow.queues[queue_id] = Flow(self._seconds())
        return queue

    def _flow_count(self) -> int:
        return len(self._puts) + len(self._gets) + len(self._back) + len(self._acks)

    def _sweep(self, slot: int) -> None:
        """Drop what was idle for a day: done once an hour as new flows come, and once a slot where there is no room."""
        self._swept = slot
        tables: tuple[dict[Any, Flow], ...] = (self._puts, self._gets, self._back, self._acks)
        for flows in tables:
            for key in [key for key, flow in flows.items() if flow.last < slot - SLOTS_A_DAY]:
                del flows[key]
        for pair in self._refused.keys() - self._back.keys():
            del self._refused[pair]

    # -- asking --------------------------------------------------------------------------------------------

    def consume_tps(self, group: str, topic: str) -> float:
        """Messages a second that C{group} got from C{topic} in the last minute."""
        flow = self._gets.get((topic, group))
        return 0.0 if flow is None else flow.nums(self._seconds()).minute.tps

    def acknowledged_tps(self, group: str, topic: str) -> float:
        """Messages a second of C{topic} that C{group} acknowledged in the last minute, and did not send back."""
        flow = self._acks.get((topic, group))
        return 0.0 if flow is None else flow.nums(self._seconds()).minute.tps

    def put_tps(self, topic: str) -> float:
        """Messages a second stored into C{topic} in the last minute."""
        flow = self._puts.get(topic)
        return 0.0 if flow is None else flow.nums(self._seconds()).minute.tps

    def counted(self, name: str, key: str) -> Counted | None:
        """
        A statistics item by the name that tools know, such as C{TOPIC_PUT_NUMS}; C{None}: never counted.

        @param key: the topic, C{topic@group}, C{topic@queueId@group}, or the cluster for the broker's totals.
        """
        now = self._seconds()
        if key == self._cluster and name in ("BROKER_PUT_NUMS", "BROKER_GET_NUMS"):
            total = (self.put if name == "BROKER_PUT_NUMS" else self.got).nums(now)
            return Counted(total, total)
        table, values = _FLOWS.get(name, ("", Flow.nums))
        flow: Flow | None = None
        if table == "puts":
            flow = self._puts.get(key)
        elif table:
            rest, _, group = key.rpartition("@")
            topic, _, number = rest.rpartition("@") if table == "queues" else (rest, "", "")
            flow = {"back": self._back, "acks": self._acks}.get(table, self._gets).get((topic, group))
            if table == "queues" and flow is not None:
                flow = next((queue for queue_id, queue in flow.queues.items() if str(queue_id) == number), None)
        return None if flow is None else Counted(values(flow, now), flow.requests(now))

    @property
    def flow_counts(self) -> tuple[int, int, int, int]:
        """The numbers of topics stored into, and of pairs of topic and group delivered, sent back, acknowledged."""
        return len(self._puts), len(self._gets), len(self._back), len(self._acks)

    def put_totals(self) -> Iterator[Total]:
        """Return the totals of stored messages, by topic."""
        for topic, flow in self._puts.items():
            yield self._total(topic, "", flow)

    def got_totals(self) -> Iterator[Total]:
        """Return the totals of messages given out, by topic and group."""
        for (topic, group), flow in self._gets.items():
            yield self._total(topic, group, flow)

    def back_totals(self) -> Iterator[Total]:
        """Return the totals of messages sent back, by topic and group."""
        for (topic, group), flow in self._back.items():
            yield self._total(topic, group, flow)

    def acknowledged_totals(self) -> Iterator[Total]:
        """Return the totals of acknowledged messages, by topic and group."""
        for (topic, group), flow in self._acks.items():
            yield self._total(topic, group, flow)

    def _total(self, topic: str, group: str, flow: Flow) -> Total:
        now = self._seconds()
        return Total(topic, group, *flow.total, flow.nums(now).minute, flow.bytes(now).minute)

    def rates(self) -> tuple[float, float]:
        """Messages a second stored and given out over the last 10 s."""
        now = self._seconds()
        return self._put_rate.over(10, now), self._got_rate.over(10, now)

    def runtime(self) -> dict[str, str]:
        """Return the entries of the runtime information (28) about traffic."""
        now = self._seconds()
        self._tick()
        seconds = int(now - self.began)
        days, rest = divmod(seconds, 86400)
        transferred = self._got_rate.text(now)
        total = " ".join(
            str(round(self._found_rate.over(one, now) + self._miss_rate.over(one, now), 3)) for one in (10, 60, 600)
        )
        return {
            "bootTimestamp": str(self.boot_ms),
            WALL_CLOCK: str(self._clock.wall_ms()),  # RocketMQ has nothing of this
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
            "getMessageSizeTotal": str(self.got_size),
            "putMessageAverageSize": str(self.put_size / self.put.total if self.put.total else 0.0),
            "putMessageFailedTimes": str(self.put_failures),
        }
