"""The final read of a run: every queue of a replica from its begin to its end, twice."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any
from typing import Final as Constant

from twisted.internet.task import deferLater

from smartgo.client.client import Client, header_of, succeeded
from smartgo.client.internal.subscription import EVERYTHING, subscription
from smartgo.client.messages import ReceivedMessage, decode_messages
from smartgo.client.pullconsumer import BATCH, SUBSCRIBES, TOOLS_GROUP, PullStatus, pull_answer, pull_command
from smartgo.errors import CallFailed, PeerRefused
from smartgo.schema.bodies import MessageQueue
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headers.offsets import MaxOffsetRequest, MinOffsetRequest, OffsetResponse
from tests.chaos.history import TURNS, Bounds, Event, Final, Note, Plan
from tests.chaos.values import parse_queue, value_of

_PAUSE: Constant = 0.2  # seconds before it tries again
_PATIENCE: Constant = 60.0  # seconds that it goes on trying at one queue


class FinalReader:
    """Reads replicas to the end, and tells what it finds."""

    def __init__(self, client: Client, tell: Callable[[Event], object], now: Callable[[], float]) -> None:
        """
        @param tell: takes each event.
        @param now: seconds since the run began.
        """
        self._client = client
        self._tell = tell
        self._now = now

    async def read(self, replica: str, address: str, queues: list[str], whole: bool = True) -> None:
        """
        Read queues of one replica, asked of it and nobody else, twice; one that cannot be read leaves no bounds.

        @param address: C{host:port} of its main port.
        @param whole: whether it is to have its queues from the first message on.
        """
        self._tell(Plan(t=self._now(), replica=replica, queues=queues))
        for turn in TURNS:
            for name in queues:
                deadline = self._now() + _PATIENCE
                while True:
                    try:
                        await self._read(replica, address, turn, name, whole)
                        break
                    except CallFailed as error:
                        if self._now() > deadline:
                            self._tell(Note(t=self._now(), text=f"final read of {name} at {replica}: {error}"))
                            break
                        await deferLater(self._client.env.clock, _PAUSE, lambda: None)

    async def _read(self, replica: str, address: str, turn: int, name: str, whole: bool) -> None:
        queue = parse_queue(name)
        try:
            begin, end = await self._bounds(address, queue)
            found = await self._messages(address, queue, begin, end)
        except PeerRefused as error:
            if error.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
            begin = end = 0  # it says that it has no such queue: an answer, not a failure to read
            found = []
        for message in found:  # all or none: what is read again after a failure would count twice
            self._tell(
                Final(
                    t=self._now(),
                    replica=replica,
                    turn=turn,
                    queue=name,
                    offset=message.queue_offset,
                    value=value_of(message.body),
                    digest=zlib.crc32(message.body),
                    id=message.message_id,
                )
            )
        self._tell(Bounds(t=self._now(), replica=replica, turn=turn, queue=name, begin=begin, end=end, whole=whole))

    async def _messages(self, address: str, queue: MessageQueue, begin: int, end: int) -> list[ReceivedMessage]:
        found: list[ReceivedMessage] = []
        wants = subscription(queue.topic, EVERYTHING, self._client.env.clock.wall_ms())
        at = begin
        while at < end:
            request = pull_command(TOOLS_GROUP, queue, at, wants, BATCH, 0, SUBSCRIBES)
            answer = await self._client.remoting.ask(address, request, 10)
            status, place = pull_answer(answer)
            if status is PullStatus.FOUND:
                found += decode_messages(answer.body, queue.broker_name)
            if place.next_begin_offset <= at:
                raise CallFailed(f"it leads no further than {at}: {status.name}")
            at = place.next_begin_offset
        return found

    async def _bounds(self, address: str, queue: MessageQueue) -> tuple[int, int]:
        topic, number = queue.topic, queue.queue_id
        first, last = MinOffsetRequest(topic=topic, queue_id=number), MaxOffsetRequest(topic=topic, queue_id=number)
        begin = await self._offset(address, RequestCode.GET_MIN_OFFSET, first)
        return begin, await self._offset(address, RequestCode.GET_MAX_OFFSET, last)

    async def _offset(self, address: str, code: RequestCode, header: Any) -> int:
        answer = await self._client.remoting.ask(address, Command.request(code, header), 10)
        return header_of(OffsetResponse, succeeded(answer)).offset
