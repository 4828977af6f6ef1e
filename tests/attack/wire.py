"""A raw connection that speaks remoting as an attacker would: written by hand, it must not depend on what is tested."""

from __future__ import annotations

import itertools
import json
import socket
import struct
import time
from collections.abc import Mapping
from typing import Any

Address = tuple[str, int]

SEND = 10
PULL = 11
SEND_V2 = 310
HEARTBEAT = 34
LOCK = 41
PUT_KV = 100
REGISTER = 103
UNREGISTER = 104
ROUTE = 105
CLUSTER = 106
MAX_OFFSET = 30
DELETE_TOPIC_AT_REGISTRY = 216
CREATE_TOPIC_LIST = 18
CREATE_GROUP = 200
DELETE_GROUP = 207
ONE_WAY = 2

_opaques = itertools.count(1)


def header(code: int, fields: Mapping[str, str] | None = None, flag: int = 0) -> dict[str, Any]:
    """Return the header of a request."""
    return {
        "code": code, "language": "JAVA", "version": 409, "opaque": next(_opaques), "flag": flag,
        "extFields": dict(fields or {}),
    }  # fmt: skip


def frame(head: Mapping[str, Any] | bytes, body: bytes = b"") -> bytes:
    """Return a frame with a JSON header."""
    raw = head if isinstance(head, bytes) else json.dumps(head, separators=(",", ":")).encode()
    return struct.pack(">II", 4 + len(raw) + len(body), len(raw)) + raw + body


def request(code: int, fields: Mapping[str, str] | None = None, body: bytes = b"", flag: int = 0) -> bytes:
    """Return a request's frame."""
    return frame(header(code, fields, flag), body)


def send_fields(topic: str, sys_flag: int = 0, properties: str = "", queue_id: int = 0) -> dict[str, str]:
    """Return the fields of a send."""
    return {
        "a": "attack", "b": topic, "c": "TBW102", "d": "4", "e": str(queue_id), "f": str(sys_flag),
        "g": str(int(time.time() * 1000)), "h": "0", "i": properties, "j": "0", "k": "false", "m": "false",
    }  # fmt: skip


def pull_fields(topic: str, offset: int, hold_ms: int, group: str = "attack") -> dict[str, str]:
    """Return the fields of a pull that may be held."""
    return {
        "consumerGroup": group, "topic": topic, "queueId": "0", "queueOffset": str(offset), "maxMsgNums": "32",
        "sysFlag": "6", "commitOffset": "0", "suspendTimeoutMillis": str(hold_ms), "subscription": "*",
        "subVersion": "0", "expressionType": "TAG",
    }  # fmt: skip


def topic_table(names: list[str]) -> dict[str, Any]:
    """Return the topics of a registration."""
    return {
        name: {
            "order": False, "perm": 6, "readQueueNums": 4, "topicFilterType": "SINGLE_TAG", "topicName": name,
            "topicSysFlag": 0, "writeQueueNums": 4,
        }
        for name in names
    }  # fmt: skip


def registration(name: str, address: str, topics: list[str], broker_id: int = 0, flag: int = 0) -> bytes:
    """Return the frame that registers a broker."""
    body = {
        "filterServerList": [],
        "topicConfigSerializeWrapper": {
            "dataVersion": {"counter": 1, "timestamp": int(time.time() * 1000)},
            "topicConfigTable": topic_table(topics),
        },
    }
    fields = {
        "brokerName": name, "brokerAddr": address, "clusterName": "DefaultCluster", "haServerAddr": "127.0.0.1:1",
        "brokerId": str(broker_id), "compressed": "false", "bodyCrc32": "0",
    }  # fmt: skip
    return request(REGISTER, fields, json.dumps(body, separators=(",", ":")).encode(), flag)


class Answer:
    """
    An answer.

    @ivar code: 0 for success.
    """

    def __init__(self, head: Mapping[str, Any], body: bytes) -> None:
        self.code = int(head.get("code", -1))
        self.opaque = head.get("opaque")
        self.remark = str(head.get("remark") or "")
        self.fields: Mapping[str, str] = head.get("extFields") or {}
        self.body = body
        self.is_answer = bool(int(head.get("flag", 0)) & 1)


class Wire:
    """
    One connection.

    Every failure is an C{OSError} or C{EOFError}: an attacker counts them and goes on.
    """

    def __init__(self, address: Address, timeout: float = 30.0, receive_buffer: int = 0, source: str = "") -> None:
        """
        @param receive_buffer: bytes of the kernel's buffer; small ones make a client that does not read.
        @param source: the IP address to connect from; by default the system chooses it.
        """
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(timeout)
        if source:
            self.socket.bind((source, 0))
        self.socket.connect(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""

    def send(self, data: bytes) -> None:
        """Send all of it."""
        self.socket.sendall(data)

    def call(self, code: int, fields: Mapping[str, str] | None = None, body: bytes = b"") -> Answer:
        """Send a request and return its answer."""
        head = header(code, fields)
        self.send(frame(head, body))
        while True:
            answer = self.answer()
            if answer.is_answer and answer.opaque == head["opaque"]:
                return answer

    def answer(self) -> Answer:
        """Return the next frame that comes. @raise EOFError: the peer closed the connection."""
        (length,) = struct.unpack(">I", self._take(4))
        raw = self._take(length)
        count = struct.unpack(">I", raw[:4])[0] & 0xFFFFFF
        return Answer(json.loads(raw[4 : 4 + count]), raw[4 + count :])

    def is_closed(self) -> bool:
        """Read what there is without waiting; tell whether the peer closed the connection."""
        self.socket.setblocking(False)
        try:
            while data := self.socket.recv(1 << 16):
                del data
            return True
        except BlockingIOError:
            return False
        except OSError:
            return True

    def close(self) -> None:
        """Close it."""
        self.socket.close()

    def _take(self, count: int) -> bytes:
        while len(self._buffer) < count:
            data = self.socket.recv(1 << 18)
            if not data:
                raise EOFError
            self._buffer += data
        taken, self._buffer = self._buffer[:count], self._buffer[count:]
        return taken
