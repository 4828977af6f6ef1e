"""
Recent arrivals in single queues, by the names of RocketMQ's statistics: QUEUE_PUT_NUMS and QUEUE_PUT_SIZE.

What a group got of a queue (QUEUE_GET_NUMS) is counted as it goes, by L{smartgo.broker.figures.stats}. Nothing is
counted for what came in: the store knows when the messages of a queue were stored, so a question costs a few searches
and a send nothing, and the answer outlives a restart.
"""

from __future__ import annotations

from typing import Final

from smartgo.broker.figures.rates import Window, Windows
from smartgo.broker.figures.stats import Counted
from smartgo.broker.tables.topics import TopicTable
from smartgo.env.interfaces import IClock
from smartgo.store.interfaces import IMessageStore
from smartgo.store.messagelookup import LOWER

_SPANS: Final = (60, 3600, 86400)  # seconds
_UNITS: Final = 10_000  # whose sizes are added up; of more, these stand for all
_DIGITS: Final = 9  # of a queue id, at most


class QueueStats:
    """Counts the messages of queues by their store times."""

    def __init__(self, clock: IClock, topics: TopicTable, store: IMessageStore) -> None:
        self._clock = clock
        self._topics = topics
        self._store = store

    @staticmethod
    def knows(name: str) -> bool:
        """Tell whether C{name} is a statistics item of queues."""
        return name in ("QUEUE_PUT_NUMS", "QUEUE_PUT_SIZE")

    async def counted(self, name: str, key: str) -> Counted | None:
        """
        Return a statistics item; C{None} where there is no such queue, or nothing in it.

        The bytes of more than 10,000 messages are estimated from the newest of them.

        @param key: C{topic@queueId}.
        """
        topic, _, number = key.rpartition("@")
        config = self._topics.get(topic)
        if config is None or not number.isascii() or not number.isdigit() or len(number) > _DIGITS:
            return None
        queue_id = int(number)
        minimum, maximum = self._store.bounds(topic, queue_id)
        if queue_id >= max(config.read_queue_nums, config.write_queue_nums) or maximum <= minimum:
            return None
        now = self._clock.wall_ms()
        counts = []
        for span in _SPANS:
            counts.append(maximum - await self._store.offset_at(topic, queue_id, now - span * 1000, LOWER))
        nums = _windows(counts)
        if name == "QUEUE_PUT_NUMS":
            return Counted(nums, nums)
        return Counted(_windows([self._size(topic, queue_id, maximum, count) for count in counts]), nums)

    def _size(self, topic: str, queue_id: int, maximum: int, count: int) -> int:
        looked = min(count, _UNITS)
        if not looked:
            return 0
        units = self._store.units(topic, queue_id, maximum - looked, looked)
        return sum(unit.size for unit in units if not unit.is_filler) * count // max(1, len(units))


def _windows(sums: list[int]) -> Windows:
    return Windows(*(Window(total, total / span) for total, span in zip(sums, _SPANS, strict=True)))
