"""
The fate of a message that a group may have refused: redelivered, consumed in the end, or given up.

A refused message is stored anew (docs/spec/broker#send-back): in the topic of delays until its retry is due, then in
C{%RETRY%group}, and as the last one in C{%DLQ%group}. Meanwhile the group's offset passes the record that the group
refused: the offset alone does not tell refused from consumed. All records have the message's unique id, by which the
brokers' indexes find them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Literal, NamedTuple

from smartgo.client.administration.asking import Asking
from smartgo.client.administration.queues import Queues
from smartgo.client.internal.copies import RESENT_FROM
from smartgo.client.internal.records import FoundMessage
from smartgo.client.internal.search import UNIQUE_LIMIT, BrokerSearch
from smartgo.errors import NotConnected
from smartgo.schema import properties
from smartgo.schema.bodies import MessageQueue
from smartgo.schema.topics import SCHEDULE_TOPIC, dlq_topic, retry_topic

FateState = Literal["waiting", "refused", "consumed", "failed", "unknown"]
"""
Of a message in a group: the group has not consumed it yet; it refused it, and will get it again; it has consumed it; it
gave it up, so that it is a dead letter; or a broker does not tell.
"""


class Fate(NamedTuple):
    """
    The state of a message in a group.

    @ivar retry: the number of the retry that a refused message waits for, counted from 1; 0 in any other state.
    """

    state: FateState
    retry: int = 0


WAITING: Final = Fate("waiting")
CONSUMED: Final = Fate("consumed")
FAILED: Final = Fate("failed")
UNKNOWN: Final = Fate("unknown")


_WORDS: Final[Mapping[FateState, str]] = {
    "waiting": "not consumed yet",
    "consumed": "consumed",
    "failed": "failed again",
    "unknown": "state unknown",
}


def fate_text(fate: Fate, limit: int | None = None) -> str:
    """
    Return what became of a message in a group, for people.

    @param limit: the most retries; C{None} if unknown.
    """
    if fate.state == "refused":
        of = f" of {limit}" if limit is not None and limit >= fate.retry else ""
        return f"refused, tried again (waits for retry {fate.retry}{of})"
    return _WORDS[fate.state]


class Attempts(NamedTuple):
    """
    The records of one message for one group, each sort the oldest first.

    @ivar delayed: in the topic of delays, until the retry was due; C{retries}: in the group's retry topic;
        C{dead}: in its dead-letter topic.
    """

    delayed: list[FoundMessage]
    retries: list[FoundMessage]
    dead: list[FoundMessage]

    @property
    def to_come(self) -> list[FoundMessage]:
        """
        Return those of C{delayed} that the broker has not moved to the retry topic yet.

        A broker brings its L{UNIQUE_LIMIT} newest records: what is older than all that it brought of the retry topic
        was moved to one that it did not bring.
        """
        moved = Counter((one.broker, one.stored.reconsume_times) for one in self.retries)
        brought = Counter(one.broker for one in self.retries)
        oldest = {one.broker: age(one) for one in reversed(self.retries)}
        found = []
        for one in self.delayed:
            place = (one.broker, one.stored.reconsume_times)
            if brought[one.broker] >= UNIQUE_LIMIT and age(one) < oldest[one.broker]:
                continue
            if moved[place]:
                moved[place] -= 1
            else:
                found.append(one)
        return found


def age(one: FoundMessage) -> tuple[int, int]:
    """Return what records of one message are sorted by: the time of the store, then the place in the log."""
    return one.stored.stored_ms, one.stored.physical_offset


async def fate_of(attempts: Attempts, acknowledged: Callable[[FoundMessage], Awaitable[bool]]) -> Fate | None:
    """
    Return what became of a message by its records; C{None} if the group never refused it.

    @param acknowledged: tells whether the group's offset is past a record of the retry topic.
    """
    to_come = attempts.to_come
    retry = max(attempts.retries, key=age, default=None)
    letter = max(attempts.dead, key=age, default=None)
    newest = max([*to_come, *([retry] if retry else [])], key=age, default=None)
    if letter is not None and (newest is None or age(letter) > age(newest)):
        return FAILED
    if to_come:
        return Fate("refused", max(one.stored.reconsume_times for one in to_come))
    if retry is None:
        return None
    if await acknowledged(retry):
        return CONSUMED
    return Fate("refused", retry.stored.reconsume_times) if retry.stored.reconsume_times else WAITING


class Redeliveries:
    """
    Finds out what became of messages in groups. For one command or request: it remembers the brokers' addresses.

    All methods raise L{PeerRefused<smartgo.errors.PeerRefused>} where a broker declines, and
    L{CallFailed<smartgo.errors.CallFailed>} where one does not answer.
    """

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self._search = BrokerSearch(asking)
        self._queues = Queues(asking)
        self._addresses: dict[str, str] = {}

    async def attempts(self, group: str, unique: str, resent_from: str = "") -> Attempts:
        """
        Return the records of a message for a group.

        @param unique: its unique id.
        @param resent_from: only those of copies of the dead letter with this offset id.
        """
        addresses = await self._brokers()
        retry = retry_topic(group)

        async def found(topic: str) -> list[FoundMessage]:
            messages = await self._search.by_unique_key(topic, unique, addresses)
            return [one for one in messages if resent_from in ("", one.properties.get(RESENT_FROM))]

        delayed = [one for one in await found(SCHEDULE_TOPIC) if one.properties.get(properties.REAL_TOPIC) == retry]
        return Attempts(delayed, await found(retry), await found(dlq_topic(group)))

    async def fate(self, group: str, unique: str, resent_from: str = "") -> Fate | None:
        """Return what became of a message by its records for a group, as L{fate_of}; parameters as L{attempts}."""

        async def acknowledged(one: FoundMessage) -> bool:
            return await self.is_past(group, one.queue, one.stored.queue_offset)

        return await fate_of(await self.attempts(group, unique, resent_from), acknowledged)

    async def is_past(self, group: str, queue: MessageQueue, offset: int) -> bool:
        """Tell whether the offset of a group is past a message."""
        addresses = await self._brokers()
        if queue.broker_name not in addresses:
            raise NotConnected(f"broker {queue.broker_name} is not registered")
        address = addresses[queue.broker_name]
        committed = await self._queues.committed(address, group, queue.topic, queue.queue_id)
        return committed is not None and committed > offset

    async def _brokers(self) -> dict[str, str]:
        if not self._addresses:
            self._addresses = await self._asking.readable()
        return self._addresses
