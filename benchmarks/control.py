"""
A blocking remoting client, just enough to prepare a broker and to ask it where its queues end.

JSON headers only; nothing here is timed.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple

from .errors import BenchmarkError

UPDATE_CONSUMER_OFFSET = 15
UPDATE_AND_CREATE_TOPIC = 17
GET_MAX_OFFSET = 30
HEART_BEAT = 34
GET_ROUTEINFO_BY_TOPIC = 105

_WORDS = struct.Struct(">II")
_FRAME_LIMIT = 16 * 1024 * 1024


class Answer(NamedTuple):
    """One response: its code, its remark, its ext fields and its body."""

    code: int
    remark: str
    fields: Mapping[str, str]
    body: bytes


class Control:
    """One connection to a broker or a registry; use it in a C{with} statement."""

    def __init__(self, address: str, timeout: float = 10.0) -> None:
        """
        Connect.

        @param address: C{host:port}.
        @raise OSError: nobody answers there.
        """
        host, _, port = address.rpartition(":")
        self.address = address
        self._opaque = 0
        self._socket = socket.create_connection((host, int(port)), timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Control:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect."""
        self._socket.close()

    def ask(self, code: int, fields: Mapping[str, object] | None = None, body: bytes = b"") -> Answer:
        """
        Send one request and wait for its answer; requests of the other side are passed over.

        @raise OSError: the connection broke or nothing came in time.
        @raise BenchmarkError: what came is no frame.
        """
        self._opaque += 1
        header = {
            "code": code,
            "extFields": {name: _text(value) for name, value in (fields or {}).items()},
            "flag": 0,
            "language": "JAVA",
            "opaque": self._opaque,
            "serializeTypeCurrentRPC": "JSON",
            "version": 409,
        }
        raw = json.dumps(header, separators=(",", ":")).encode()
        self._socket.sendall(_WORDS.pack(4 + len(raw) + len(body), len(raw)) + raw + body)
        while True:
            answer, opaque, flag = self._receive()
            if flag & 1 and opaque == self._opaque:
                return answer

    def demand(self, code: int, fields: Mapping[str, object] | None = None, body: bytes = b"") -> Answer:
        """
        Ask, and accept nothing but success.

        @raise BenchmarkError: the answer's code is not 0.
        """
        answer = self.ask(code, fields, body)
        if answer.code != 0:
            raise BenchmarkError(f"{self.address} answers request {code} with code {answer.code}: {answer.remark}")
        return answer

    def create_topic(self, topic: str, queues: int) -> None:
        """Create the topic, or change how many queues it has."""
        self.demand(
            UPDATE_AND_CREATE_TOPIC,
            {
                "topic": topic,
                "defaultTopic": "TBW102",
                "readQueueNums": queues,
                "writeQueueNums": queues,
                "perm": 6,
                "topicFilterType": "SINGLE_TAG",
                "topicSysFlag": 0,
                "order": False,
            },
        )

    def heart_beat(self) -> Answer:
        """Send the heart-beat of a producer; every broker answers it once it serves."""
        beat = {"clientID": "127.0.0.1@bench", "consumerDataSet": [], "producerDataSet": [{"groupName": "bench"}]}
        return self.ask(HEART_BEAT, body=json.dumps(beat, separators=(",", ":")).encode())

    def stored(self, topic: str, queues: int) -> int:
        """Return how many messages were ever stored in the topic: the ends of its queues, added up."""
        ends = (self.demand(GET_MAX_OFFSET, {"topic": topic, "queueId": queue}) for queue in range(queues))
        return sum(int(end.fields["offset"]) for end in ends)

    def commit(self, group: str, topic: str, offsets: Sequence[int]) -> None:
        """Set where the group goes on reading, queue by queue."""
        for queue, offset in enumerate(offsets):
            self.demand(
                UPDATE_CONSUMER_OFFSET,
                {"consumerGroup": group, "topic": topic, "queueId": queue, "commitOffset": offset},
            )

    def has_route(self, topic: str) -> bool:
        """Ask a registry whether it knows where the topic lives."""
        return self.ask(GET_ROUTEINFO_BY_TOPIC, {"topic": topic}).code == 0

    def _receive(self) -> tuple[Answer, int, int]:
        length, word = _WORDS.unpack(self._exactly(8))
        header_size = word & 0xFFFFFF
        if not 4 + header_size <= length <= _FRAME_LIMIT or word >> 24:
            raise BenchmarkError(f"{self.address} answers with something other than a JSON frame")
        rest = self._exactly(length - 4)
        header: dict[str, Any] = json.loads(rest[:header_size])
        answer = Answer(
            int(header["code"]), str(header.get("remark") or ""), header.get("extFields") or {}, rest[header_size:]
        )
        return answer, int(header["opaque"]), int(header.get("flag", 0))

    def _exactly(self, size: int) -> bytes:
        parts = []
        while size > 0:
            part = self._socket.recv(min(size, 1 << 20))
            if not part:
                raise ConnectionResetError(f"{self.address} closed the connection")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


def _text(value: object) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def wait_until_it_answers(address: str, alive: Any, timeout: float) -> float:
    """
    Dial every few milliseconds until a heart-beat is answered with success.

    @param alive: called without arguments between the tries; false ends the wait.
    @return: the monotonic time of the answer, in seconds.
    @raise BenchmarkError: the time is up, or C{alive} said no.
    """
    deadline = time.monotonic() + timeout
    last: object = "no connection"
    while alive():
        try:
            with Control(address, timeout=1.0) as control:
                answer = control.heart_beat()
            if answer.code == 0:
                return time.monotonic()
            last = f"code {answer.code} {answer.remark}"
        except OSError as error:
            last = error
        if time.monotonic() > deadline:
            raise BenchmarkError(f"{address} is not ready after {timeout:.0f} s: {last}")
        time.sleep(0.01)
    raise BenchmarkError(f"the process behind {address} ended before it was ready")
