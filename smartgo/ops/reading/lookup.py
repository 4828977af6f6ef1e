"""Finds messages by id, by key and by place."""

from __future__ import annotations

from typing import Final

from smartgo.client.administration.topics import TopicKind
from smartgo.client.internal.records import FoundMessage
from smartgo.client.internal.search import KEY_LIMIT, BrokerSearch, address_in
from smartgo.client.internal.topicsweep import Swept, in_order, sweep
from smartgo.client.internal.waitingmessages import find_waiting
from smartgo.errors import BadHeader
from smartgo.ops.problems import Problem
from smartgo.ops.reading.queuereader import ClusterQueueReader
from smartgo.ops.reading.view import PartialView
from smartgo.schema.headerfields import INT64_MAX

SWEEP_SECONDS: Final = 3.0
"""For which topics are searched one after another."""


class Lookup:
    """
    Looks messages up. Only brokers that a registry names are asked, whatever address an id holds.

    All methods raise what L{BrokerSearch}'s do.
    """

    def __init__(self, view: PartialView) -> None:
        self._search = BrokerSearch(view.admin.asking)
        self._reader = ClusterQueueReader(view)
        self._view = view
        self._clock = view.admin.asking.client.env.clock

    async def by_id(self, id: str, topic: str = "", broker: str = "") -> FoundMessage:
        """
        Return a message by its offset id, or by its unique id: of a topic, or of any, as L{anywhere} finds it.

        @param broker: the broker that has it, where the address in the offset id is no longer its own.
        @raise Problem: 404, there is none; 502, none is found and a broker that may have it is missing.
        """
        brokers = await self._addresses() if broker == "" else {broker: (await self._view.broker(broker)).address}
        try:
            place = address_in(id)
        except BadHeader:
            place = None
        likely = {} if place is None else brokers
        if broker == "":
            likely = {name: address for name, address in likely.items() if address == place}
        message = await self._search.by_offset_id(id, likely) if likely else None
        if message is None and topic:
            messages = await self.by_unique_key(topic, id, broker)
            message = messages[0] if messages else None
        if message is None and place is not None:
            others = {name: address for name, address in brokers.items() if name not in likely}
            message = await self._search.by_offset_id(id, others)
        if message is not None:
            return message
        if topic:
            await self._refuse_waiting(id, topic)
            raise self._view.missing.absent(f"message {id}", "message-not-found")
        swept = await self.anywhere(id, 1, unique=True)
        if swept.likeliest is not None:
            return swept.likeliest
        await self._refuse_waiting(id)
        hint = ""
        if swept.searched < swept.topics:
            hint = f" in the {swept.searched} of {swept.topics} topics that were searched; give its topic too"
        raise self._view.missing.absent(f"message {id}{hint}", "message-not-found")

    async def _refuse_waiting(self, id: str, topic: str = "") -> None:
        """Check that a message does not wait for its time. @raise Problem: 404, it does; it says when it is due."""
        waiting = await find_waiting(self._search, id, await self._addresses(), self._clock.wall_ms())
        if waiting is not None and topic in ("", waiting.topic):
            raise Problem(404, str(waiting), "message-not-found")

    async def anywhere(self, word: str, enough: int, unique: bool = False) -> Swept:
        """
        Return messages of any topic with a unique id or, unless C{unique}, a key.

        @param enough: messages after which no more topics are searched.
        """
        entries = await self._view.topics.get()
        addresses = await self._addresses()
        kinds = {name for name, entry in entries.items() if entry.kind == TopicKind.SYSTEM}
        search = self._search.by_unique_key if unique else self._search.by_word
        ends = self._clock.seconds() + SWEEP_SECONDS

        async def ask(topic: str) -> list[FoundMessage]:
            brokers = {name: addresses[name] for name in sorted(entries[topic].configs) if name in addresses}
            return await search(topic, word, brokers)

        return await sweep(in_order(entries, kinds), ask, enough, lambda: self._clock.seconds() < ends)

    async def at(self, topic: str, broker: str, queue_id: int, offset: int) -> FoundMessage:
        """Return the message at a place of a queue. @raise NoSuchMessage: there is none."""
        (queue,) = await self._reader.queues(topic, broker, queue_id)
        return await self._reader.at(queue, offset)

    async def by_key(
        self, topic: str, key: str, from_ms: int, until_ms: int, limit: int = KEY_LIMIT
    ) -> list[FoundMessage]:
        """
        Return messages of a topic with this key, the oldest first.

        @param until_ms: 0 for until now.
        @raise Problem: 404, there is no such topic.
        """
        brokers = await self._brokers_of(topic)
        return (await self._search.by_key(topic, key, brokers, from_ms, until_ms or INT64_MAX))[:limit]

    async def by_unique_key(self, topic: str, key: str, broker: str = "") -> list[FoundMessage]:
        """Return messages of a topic with this unique id, the oldest first. @raise Problem: 404, no such topic."""
        return await self._search.by_unique_key(topic, key, await self._brokers_of(topic, broker))

    # -- whom to ask -------------------------------------------------------------------------------------------

    async def _addresses(self) -> dict[str, str]:
        """All brokers by name, each with the address of its master, or its first slave's."""
        found: dict[str, str] = {}
        for one in await self._view.brokers.get():
            found.setdefault(one.name, one.address)
        return found

    async def _brokers_of(self, topic: str, broker: str = "") -> dict[str, str]:
        entry = await self._view.topic(topic)
        names = [name for name in sorted(entry.configs) if broker in ("", name)]
        if broker:
            return {name: (await self._view.broker(name)).address for name in names}
        addresses = await self._addresses()
        for name in names:
            if name not in addresses:
                self._view.missing.note(name, "it is no longer registered")
        return {name: addresses[name] for name in names if name in addresses}
