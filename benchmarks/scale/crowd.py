"""
Thousands of clients in one thread: they connect at once, heart-beat or long-poll, and connect again when told to.

Every client has one connection and a heart-beat every 30 s. A client of the kind C{beat} says it is a producer; one of
the kind C{poll} is a consumer in a group of ten, with a pull that waits for a message that never comes.
"""

from __future__ import annotations

import errno
import json
import re
import resource
import select
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from ..control import HEART_BEAT
from ..errors import BenchmarkError
from ..spread import Spread

Kind = Literal["beat", "poll"]
TOPIC = "scale-waiting"
QUEUES = 16
BEAT_S = 30.0
POLL_S = 15.0

_PULL = 11
_SUSPEND = 6
"""System flags of a pull: it may wait, and it has a subscription."""
_GROUP = 10
_RETRY_S = 0.25
"""A client that was refused tries again after this time at least, and twice as long at most."""
_FLAG = re.compile(rb'"flag": ?(\d+)')
_OPAQUE = re.compile(rb'"opaque": ?(\d+)')
_BEAT = 1
_POLL = 2
"""The opaque of each kind of request; a client has one of each in flight at most."""
_WORDS = struct.Struct(">II")
_SPARE_FILES = 300


def frame(code: int, opaque: int, fields: dict[str, str] | None = None, body: bytes = b"") -> bytes:
    """Return a request with a JSON header."""
    header = {"code": code, "flag": 0, "language": "JAVA", "opaque": opaque, "version": 409, "extFields": fields or {}}
    raw = json.dumps(header, separators=(",", ":")).encode()
    return _WORDS.pack(4 + len(raw) + len(body), len(raw)) + raw + body


def answers_in(data: bytes) -> tuple[list[int], bytes]:
    """Return the opaque of each whole answer (requests of the broker are passed over), and what is behind them."""
    opaques = []
    at = 0
    while len(data) - at >= 8:
        length, word = _WORDS.unpack_from(data, at)
        if len(data) - at < 4 + length:
            break
        end = at + 8 + (word & 0xFFFFFF)
        flag, opaque = _FLAG.search(data, at + 8, end), _OPAQUE.search(data, at + 8, end)
        if opaque is not None and flag is not None and int(flag[1]) & 1:
            opaques.append(int(opaque[1]))
        at += 4 + length
    return opaques, data[at:]


class Client:
    """One client; C{socket} is C{None} while it is not connected."""

    def __init__(self, number: int, kind: Kind) -> None:
        self.number = number
        self.socket: socket.socket | None = None
        self.beaten = False  # its first heart-beat on this connection was answered
        self.due = 0.0
        self.asked = 0.0
        self.pending = b""
        group = f"scale-{number // _GROUP}"
        subscription = {"topic": TOPIC, "subString": "*", "subVersion": 1, "expressionType": "TAG"}
        consumer = {
            "groupName": group,
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
            "subscriptionDataSet": [subscription],
        }
        beat = {
            "clientID": f"127.0.0.1@{number}",
            "producerDataSet": [{"groupName": "scale"}] if kind == "beat" else [],
            "consumerDataSet": [consumer] if kind == "poll" else [],
        }
        self.beat = frame(HEART_BEAT, _BEAT, body=json.dumps(beat, separators=(",", ":")).encode())
        self._pull = {
            "consumerGroup": group,
            "topic": TOPIC,
            "queueId": str(number % QUEUES),
            "queueOffset": "0",
            "maxMsgNums": "32",
            "sysFlag": str(_SUSPEND),
            "commitOffset": "0",
            "subscription": "*",
            "subVersion": "1",
            "expressionType": "TAG",
        }

    def poll(self, seconds: float) -> bytes:
        """Return a pull that waits so long."""
        return frame(_PULL, _POLL, {**self._pull, "suspendTimeoutMillis": str(int(seconds * 1000))})


class Crowd:
    """The clients of one broker."""

    def __init__(self, address: str, count: int, kind: Kind) -> None:
        """
        @param address: C{host:port}.
        @raise BenchmarkError: this process may not have so many sockets.
        """
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        if count + _SPARE_FILES > limit:
            raise BenchmarkError(
                f"{count} connections need more descriptors than the hard limit of {limit} (ulimit -Hn)"
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        host, _, port = address.rpartition(":")
        self._address = (host, int(port))
        self._kind = kind
        self._clients = [Client(number, kind) for number in range(count)]
        self._epoll = select.epoll()
        self._of: dict[int, Client] = {}
        self._ended = threading.Event()
        self._answered: deque[Client] = deque()  # by when they are to beat again, until all are connected
        self.lost = 0
        self.answers = 0
        self.waits: list[float] = []  # seconds from a connection's first try until its first answer

    def __len__(self) -> int:
        return len(self._clients)

    @property
    def waited(self) -> Spread | None:
        """Seconds from the first try until the first answer, of all clients that have one."""
        return Spread.of(self.waits) if self.waits else None

    def connect(self, timeout: float) -> float:
        """
        Connect all clients at once and send the first heart-beat of each; one that is refused tries again.

        Where that takes long, those that were answered beat again, as the broker gives up whoever is silent for 120 s.

        @return: seconds until the last one was answered.
        @raise BenchmarkError: it took too long.
        """
        self.close()
        began = time.monotonic()
        self.waits = []
        self._answered = deque()
        waiting = dict.fromkeys(self._clients, began)
        while len(self.waits) < len(self._clients):
            now = time.monotonic()
            if now > began + timeout:
                raise BenchmarkError(f"{len(self.waits)} of {len(self)} clients were answered in {timeout:.0f} s")
            for client in [each for each, due in waiting.items() if due <= now]:
                del waiting[client]
                self._dial(client, began)
            while self._answered and self._answered[0].due <= now:
                client = self._answered.popleft()
                client.due += BEAT_S
                self._answered.append(client)
                self._send(client, client.beat)
            for client in self._serve(0.01 if waiting else 0.2):
                waiting[client] = time.monotonic() + _RETRY_S * (1 + client.number / len(self))
        done = time.monotonic()
        for number, client in enumerate(self._clients):
            spread = (number + 1) / len(self)
            client.due = done + spread * BEAT_S
            if self._kind == "poll":
                self._send(client, client.poll(1.0 + spread * (POLL_S - 1.0)))
        return done - began

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Go on with heart-beats and polls in a thread inside the block."""
        self._ended.clear()
        thread = threading.Thread(target=self._keep, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    def close(self) -> None:
        """Hang up, all."""
        for client in list(self._of.values()):
            self._drop(client)

    def _keep(self) -> None:
        upcoming = deque(sorted(self._clients, key=lambda client: client.due))
        while not self._ended.is_set():
            now = time.monotonic()
            while upcoming[0].due <= now:
                client = upcoming[0]
                client.due += BEAT_S
                upcoming.rotate(-1)
                self._send(client, client.beat)
            self.lost += len(self._serve(0.05))

    def _serve(self, timeout: float) -> list[Client]:
        """Read what came; return the clients whose connection ended or was refused."""
        ended = []
        for descriptor, event in self._epoll.poll(timeout):
            client = self._of.get(descriptor)
            if client is None or client.socket is None:
                continue
            if event & select.EPOLLOUT and not event & (select.EPOLLERR | select.EPOLLHUP):
                self._epoll.modify(descriptor, select.EPOLLIN)
                self._send(client, client.beat)
            elif not self._read(client):
                self._drop(client)
                ended.append(client)
        return ended

    def _read(self, client: Client) -> bool:
        assert client.socket is not None
        try:
            data = client.socket.recv(65536)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not data:
            return False
        opaques, client.pending = answers_in(client.pending + data)
        self.answers += len(opaques)
        if not client.beaten and _BEAT in opaques:
            client.beaten = True
            now = time.monotonic()
            self.waits.append(now - client.asked)
            client.due = now + BEAT_S
            self._answered.append(client)
        if _POLL in opaques:
            self._send(client, client.poll(POLL_S))
        return True

    def _send(self, client: Client, data: bytes) -> None:
        if client.socket is not None:
            try:
                client.socket.send(data)  # a small request always fits
            except OSError:
                self._drop(client)
                self.lost += 1

    def _dial(self, client: Client, began: float) -> None:
        made = client.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.beaten, client.pending, client.asked = False, b"", began
        self._of[made.fileno()] = client
        self._epoll.register(made.fileno(), select.EPOLLOUT)
        problem = made.connect_ex(self._address)
        if problem not in (0, errno.EINPROGRESS, errno.ECONNREFUSED):
            raise BenchmarkError(f"cannot connect: {errno.errorcode.get(problem, problem)}")

    def _drop(self, client: Client) -> None:
        if client.socket is not None:
            del self._of[client.socket.fileno()]
            client.socket.close()
            client.socket = None
