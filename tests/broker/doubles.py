"""What stands for a connection and for the store in the tests of the broker's tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from twisted.internet.defer import Deferred, gatherResults, succeed
from zope.interface import implementer

from smartgo.remoting.interfaces import IPeer
from smartgo.schema.command import Command, decode, encode
from smartgo.schema.headerfields import Header
from smartgo.schema.message import pack_host


@implementer(IPeer)
class FakePeer:
    """A connection that remembers what it was told."""

    def __init__(self, address: str = "192.0.2.7:40001", local_port: int = 10911) -> None:
        self.address = address
        host, _, port = address.rpartition(":")
        self.host = pack_host(host.strip("[]"), int(port))
        self.local_ip = "192.0.2.1"
        self.local_port = local_port
        self.open = True
        self.told: list[Command] = []
        self.closed_because: list[str] = []

    def tell(self, command: Command) -> None:
        """Remember it."""
        self.told.append(command)

    def ask(self, command: Command, timeout: float) -> Deferred[Command]:
        """Nobody answers."""
        self.told.append(command)
        return Deferred()

    def close(self, reason: str) -> None:
        """Be closed."""
        self.open = False
        self.closed_because.append(reason)

    def notified(self) -> list[str]:
        """The groups that were told of (40) since the last call."""
        told, self.told = self.told, []
        assert all(one.code == 40 and one.is_one_way for one in told), told
        return [one.fields["consumerGroup"] for one in told]


class FakeStore:
    """
    Queues that have bounds and times, and nothing in them.

    @ivar stored: (topic, queue id) -> (first offset, [stored ms of each message]).
    @ivar far: the queues whose first message is far back.
    """

    def __init__(self) -> None:
        self.stored: dict[tuple[str, int], tuple[int, list[int]]] = {}
        self.far: set[tuple[str, int]] = set()
        self.asked: list[tuple[Any, ...]] = []
        self.deleted: list[str] = []

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """First and next offset."""
        first, times = self.stored.get((topic, queue_id), (0, []))
        return first, first + len(times)

    def stored_ms(self, topic: str, queue_id: int, offset: int) -> Deferred[int]:
        """A time, or -1."""
        first, times = self.stored.get((topic, queue_id), (0, []))
        return succeed(times[offset - first] if first <= offset < first + len(times) else -1)

    def stored_times(self, places: Sequence[tuple[str, int, int]]) -> Deferred[list[int]]:
        """Times, or -1."""
        return gatherResults([self.stored_ms(*place) for place in places])

    def offset_at(self, topic: str, queue_id: int, timestamp_ms: int, boundary: str | None = None) -> Deferred[int]:
        """The first at or after the time."""
        self.asked.append((topic, queue_id, timestamp_ms, boundary))
        first, times = self.stored.get((topic, queue_id), (0, []))
        return succeed(first + sum(one < timestamp_ms for one in times))

    def is_far_back(self, topic: str, queue_id: int, offset: int) -> bool:
        """As set."""
        return (topic, queue_id) in self.far

    def queues(self) -> Iterable[tuple[str, int]]:
        """Those that have something."""
        return list(self.stored)

    def last_at(self, topic: str, queue_id: int) -> int:
        """As if the log began with it."""
        return 0 if self.stored.get((topic, queue_id), (0, []))[1] else -1

    def delete_topic(self, topic: str, since: int | None = None) -> Deferred[None]:
        """Remember it."""
        self.deleted.append(topic)
        for key in [key for key in self.stored if key[0] == topic]:
            del self.stored[key]
        return succeed(None)


def request(code: int, header: Header | None = None, body: Any = b"", **fields: str) -> Command:
    """A request as it comes off the wire; a body that is not bytes is sent as JSON."""
    data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    sent = Command.request(code, header, data, fields or None)
    sent.opaque = 77
    return decode(encode(sent)[4:])


def received(answer: object) -> Command:
    """An answer as its reader sees it."""
    if isinstance(answer, list):
        answer = b"".join(bytes(one) for one in answer)
    frame = answer if isinstance(answer, bytes) else encode(answer)  # type: ignore[arg-type]
    command = decode(frame[4:])
    assert command.is_response
    assert command.opaque == 77
    return command


def body_of(answer: object) -> Any:
    """The JSON body of an answer."""
    return msgspec.json.decode(received(answer).body)
