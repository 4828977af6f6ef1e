"""Finds messages by id, by key and by place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from smartgo.errors import BadHeader, CallFailed, PeerRefused
from smartgo.ops.content import Found, found
from smartgo.ops.problems import Problem
from smartgo.ops.queues import QueueReader, decoded
from smartgo.ops.view import ClusterView, each
from smartgo.schema import properties
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headerfields import INT64_MAX
from smartgo.schema.headers.messages import QueryMessageRequest
from smartgo.schema.message import host_text, parse_message_id

KEY_LIMIT: Final = 64
"""Messages that brokers give for one key, at most."""

_UNIQUE_LIMIT: Final = 32
_SECOND: Final = 1000  # ms: the index knows no less


class Lookup:
    """
    Looks messages up. Only brokers that a registry names are asked, whatever address an id holds.

    All methods raise what L{QueueReader}'s do.
    """

    def __init__(self, reader: QueueReader, view: ClusterView) -> None:
        self._reader = reader
        self._view = view

    async def by_id(self, id: str, topic: str = "", broker: str = "") -> Found:
        """
        Return a message by its offset id, or by its unique id where its topic is known.

        @param broker: the broker that has it, where the address in the offset id is no longer its own.
        @raise Problem: 404, there is none.
        """
        place = _place(id)
        names = await self._masters() if broker == "" else {(await self._view.broker(broker)).name: ""}
        named = [] if place is None else [name for name, address in names.items() if address in ("", place[0])]
        message = await self._viewed(id, place, named)
        if message is None and topic:
            messages = await self.by_unique_key(topic, id, broker)
            message = messages[0] if messages else None
        if message is None:
            message = await self._viewed(id, place, [name for name in names if name not in named])
        if message is None:
            hint = "" if topic else "; where that is the id its producer gave it, say its topic too"
            raise Problem(404, f"there is no message {id}{hint}", "message-not-found")
        return message

    async def at(self, topic: str, broker: str, queue_id: int, offset: int) -> Found:
        """Return the message at a place of a queue. @raise Problem: 404, there is none."""
        (queue,) = await self._reader.queues(topic, broker, queue_id)
        messages = (await self._reader.pull(queue, offset, 1)).messages
        if not messages or messages[0].stored.queue_offset != offset:
            low, high = await self._reader.bounds(queue)
            where = f"in queue {queue_id} of {topic} at broker {broker}"
            raise Problem(404, f"there is no message {offset} {where}; it has {low} to {high - 1}", "message-not-found")
        return messages[0]

    async def by_key(self, topic: str, key: str, from_ms: int, until_ms: int, limit: int = KEY_LIMIT) -> list[Found]:
        """
        Return messages of a topic with this key, the oldest first.

        @param until_ms: 0 for until now.
        @raise Problem: 404, there is no such topic.
        """
        end = until_ms or INT64_MAX

        def meant(one: Found) -> bool:
            keys = properties.split_keys(one.properties.get(properties.KEYS, ""))
            return key in keys and from_ms <= one.stored.stored_ms <= end

        begin = max(0, from_ms - _SECOND)
        return (await self._asked(topic, "", QueryMessageRequest(topic, key, KEY_LIMIT, begin, end), meant))[:limit]

    async def by_unique_key(self, topic: str, key: str, broker: str = "") -> list[Found]:
        """Return messages of a topic with this unique id, the oldest first. @raise Problem: 404, no such topic."""

        def meant(one: Found) -> bool:
            return one.properties.get(properties.UNIQ_KEY) == key

        header = QueryMessageRequest(topic, key, _UNIQUE_LIMIT, 0, INT64_MAX, unique_key_query=True)
        return await self._asked(topic, broker, header, meant)

    # -- asking ------------------------------------------------------------------------------------------------

    async def _masters(self) -> dict[str, str]:
        """All brokers by name, each with the address of its master, or its first slave's."""
        names: dict[str, str] = {}
        for one in await self._view.brokers.get():
            names.setdefault(one.name, one.address)
        return names

    async def _viewed(self, id: str, place: tuple[str, int] | None, brokers: list[str]) -> Found | None:
        """The message of an offset id, if one of some brokers has it. @raise CallFailed: it may be where nobody is."""
        if place is None:
            return None
        _, offset = place
        silent: list[CallFailed] = []

        async def ask(broker: str) -> Found | None:
            try:
                message = found(await self._reader.record(broker, offset), broker)
            except PeerRefused:
                return None
            except CallFailed as error:
                silent.append(error)
                return None
            return message if message.stored.message_id == id.upper() else None

        messages = [one for one in await each(brokers, ask) if one is not None]
        if not messages and silent:
            raise silent[0]
        return messages[0] if messages else None

    async def _asked(
        self, topic: str, broker: str, header: QueryMessageRequest, meant: Callable[[Found], bool]
    ) -> list[Found]:
        entry = await self._view.topic(topic)
        brokers = [name for name in sorted(entry.configs) if broker in ("", name)]
        hits: dict[tuple[str, int], Found] = {}

        async def ask(name: str) -> list[Found]:
            place = await self._view.broker(name)
            try:
                answer = await self._reader.ask(place.address, Command.request(RequestCode.QUERY_MESSAGE, header))
            except PeerRefused as refusal:
                if refusal.code == ResponseCode.QUERY_NOT_FOUND:
                    return []
                raise
            return decoded(answer.body, name)

        for messages in await each(brokers, ask):
            for one in messages:
                # Brokers compare hashes alone, and may name a message twice whose keys repeat.
                if one.stored.topic == topic and meant(one):
                    hits[one.broker, one.stored.physical_offset] = one
        return sorted(hits.values(), key=lambda one: (one.stored.stored_ms, one.broker, one.stored.physical_offset))


def _place(id: str) -> tuple[str, int] | None:
    """Address and log offset that an id holds; C{None}: it is no offset id."""
    try:
        host, offset = parse_message_id(id)
    except BadHeader:
        return None
    return host_text(host), offset
