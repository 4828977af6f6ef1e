"""
The progress of groups: their offsets beside the bounds and times of the queues.

Rules: docs/spec/broker#statistics (208, 303, 317). Times are looked up by the store's reader threads, many queues at a
time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Final, NamedTuple

from twisted.internet.defer import Deferred

from smartgo.broker.figures.stats import BrokerStats
from smartgo.broker.tables.consumers import ConsumerTable
from smartgo.broker.tables.offsets import OffsetTable
from smartgo.broker.tables.topics import TopicTable
from smartgo.broker.tables.unreadremovals import UnreadRemovals
from smartgo.env.interfaces import IClock
from smartgo.schema.bodies import ConsumeStats, MessageQueue, OffsetWrapper, QueueTimeSpan, TopicConfig
from smartgo.schema.topics import queue_ids
from smartgo.store.interfaces import IMessageStore

SLICE: Final = 256
"""Queues that are looked at before anything else has its turn."""
_TOGETHER: Final = 4096  # times that the store is asked for at once: each question waits for a thread


class TimeQuestion(NamedTuple):
    """A message whose store time is looked up, and the queue whose figures need it."""

    place: tuple[str, int, int]
    queue: OffsetWrapper
    waits: bool
    """Whether it is the oldest message that waits; else it is the last consumed one."""


class GroupProgress:
    """
    Measures the lag of groups, and the age of what they have not consumed.

    @ivar unread_removals: counts what retention removed before groups read it.
    """

    def __init__(
        self,
        clock: IClock,
        topics: TopicTable,
        offsets: OffsetTable,
        consumers: ConsumerTable,
        store: IMessageStore,
        stats: BrokerStats,
        broker_name: str,
    ) -> None:
        """@param broker_name: ours, for the queues' names."""
        self._clock = clock
        self._topics = topics
        self._offsets = offsets
        self._consumers = consumers
        self._store = store
        self._stats = stats
        self._broker_name = broker_name
        self.unread_removals = UnreadRemovals(offsets)

    def queue(self, topic: str, queue_id: int) -> MessageQueue:
        """Name a queue of this broker."""
        return MessageQueue(topic=topic, broker_name=self._broker_name, queue_id=queue_id)

    def reads(self, group: str, topic: str) -> bool:
        """Tell whether a group consumes a topic; a connected group consumes only what it subscribes to."""
        online = self._consumers.get(group)
        return online is None or not online.subscriptions or topic in online.subscriptions

    async def of_group(self, group: str, topics: Iterable[str]) -> ConsumeStats:
        """Measure a group in those of some topics that exist and that it reads, every read queue of each."""
        total = ConsumeStats()
        async for one in self.by_topic(group, topics, lambda config: config.read_queue_nums):
            total.offset_table.update(one.offset_table)
            total.consume_tps += one.consume_tps
            total.acknowledged_tps = (total.acknowledged_tps or 0.0) + (one.acknowledged_tps or 0.0)
        return total

    async def by_topic(
        self, group: str, topics: Iterable[str], queues: Callable[[TopicConfig], int]
    ) -> AsyncIterator[ConsumeStats]:
        """
        Measure a group in those of some topics that exist and that it reads, one after another.

        Whatever else is to be done has its turn after L{SLICE} queues. An offset that was never committed counts as 0.

        @param queues: how many queues of a topic to look at.
        """
        measured: list[ConsumeStats] = []
        questions: list[TimeQuestion] = []
        looked = 0
        for topic in topics:
            config = self._topics.get(topic)
            if config is None or not self.reads(group, topic):
                continue
            measured.append(self._count(group, topic, queues(config), questions))
            looked += queues(config)
            if looked >= SLICE:
                looked = 0
                await self.turn()
            if len(questions) >= _TOGETHER:
                await self.find_times(questions)
                for stats in measured:
                    yield stats
                measured, questions = [], []
        await self.find_times(questions)
        for stats in measured:
            yield stats

    def count(self, group: str, topic: str, questions: list[TimeQuestion]) -> ConsumeStats | None:
        """
        Count the messages that wait for a group in the read queues of a topic, without times; see L{find_times}.

        @param questions: takes the times to look up.
        @return: C{None} where there is no such topic, or the group does not read it.
        """
        config = self._topics.get(topic)
        if config is None or not self.reads(group, topic):
            return None
        return self._count(group, topic, config.read_queue_nums, questions)

    def _count(self, group: str, topic: str, queues: int, questions: list[TimeQuestion]) -> ConsumeStats:
        """Measure a group in a topic, except for times: those to be looked up are added to C{questions}."""
        name, bounds = self._broker_name, self._store.bounds
        stats = ConsumeStats(
            consume_tps=self._stats.consume_tps(group, topic),
            acknowledged_tps=self._stats.acknowledged_tps(group, topic),
        )
        offsets = self._offsets.queues(group, topic)
        removed = self.unread_removals.of(group, topic)
        for queue_id in queue_ids(queues):
            offset = max(0, offsets.get(queue_id, 0))
            minimum, maximum = bounds(topic, queue_id)
            stats.offset_table[MessageQueue(topic, name, queue_id)] = one = OffsetWrapper(maximum, offset, offset)
            one.min_offset = minimum
            if removed or 0 < offset < minimum:  # what a start before this one has counted is known by the gap alone
                one.removed = max(removed.get(queue_id, 0), minimum - offset if offset else 0)
            if offset > 0:
                questions.append(TimeQuestion((topic, queue_id, offset - 1), one, False))
            if offset < maximum:
                questions.append(TimeQuestion((topic, queue_id, max(offset, minimum)), one, True))
            else:
                one.waiting_since = 0
        return stats

    async def find_times(self, questions: Sequence[TimeQuestion]) -> None:
        """Read the store times of the last consumed messages, and of the oldest that wait."""
        times = await self._store.stored_times([one.place for one in questions])
        for (_, queue, waits), stored_ms in zip(questions, times, strict=True):
            if not waits:
                queue.last_timestamp = max(0, stored_ms)
            elif stored_ms > 0:
                queue.waiting_since = stored_ms

    def turn(self) -> Deferred[None]:
        """Return control to the reactor; fires in its next turn."""
        turn: Deferred[None] = Deferred()
        self._clock.callLater(0, turn.callback, None)
        return turn

    async def time_span(self, group: str, config: TopicConfig) -> list[QueueTimeSpan]:
        """
        Measure every write queue: when its first, last and last consumed message was stored, how long the next waits.
        """
        topic = config.topic_name
        spans = []
        for queue_id in queue_ids(config.write_queue_nums):
            minimum, maximum = self._store.bounds(topic, queue_id)
            span = QueueTimeSpan(message_queue=self.queue(topic, queue_id))
            span.min_time_stamp = span.consume_time_stamp = await self._store.stored_ms(topic, queue_id, minimum)
            span.max_time_stamp = await self._store.stored_ms(topic, queue_id, maximum - 1)
            consumed = max(0, self._offsets.query(group, topic, queue_id) or 0)
            if consumed > 0:
                span.consume_time_stamp = await self._store.stored_ms(topic, queue_id, consumed - 1)
            if consumed < maximum:
                waiting = await self._store.stored_ms(topic, queue_id, max(consumed, minimum))
                span.delay_time = max(0, self._clock.wall_ms() - waiting)
            spans.append(span)
        return spans


def difference(stats: ConsumeStats) -> int:
    """Return how many messages a group has not consumed, over all its queues."""
    return sum(one.broker_offset - one.consumer_offset for one in stats.offset_table.values())
