"""A broker of a few lines, in a thread, that answers the load generator as a test wants."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Request(NamedTuple):
    """One request as it came."""

    code: int
    opaque: int
    fields: dict[str, str]
    body: bytes
    binary: bool


Answer = Callable[[list[Request]], Sequence[bytes]]
"""Given the requests of one read, return the pieces to send, each by itself; an empty piece closes the connection."""


class StandIn:
    """Listens on a port of 127.0.0.1 and serves each connection in a thread until told to stop."""

    def __init__(self, answer: Answer, port: int = 0) -> None:
        self.requests: list[Request] = []
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept)]
        self._connections: list[socket.socket] = []
        self._threads[0].start()

    def stop(self) -> None:
        """Close everything and wait for the threads."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._connections:
            connection.close()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connections.append(connection)
            self._threads.append(threading.Thread(target=self._serve, args=(connection,)))
            self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        pending = b""
        try:
            while data := connection.recv(1 << 16):
                pending += data
                requests, pending = split(pending)
                self.requests += requests
                for piece in self._answer(requests) if requests else ():
                    if not piece:
                        connection.shutdown(socket.SHUT_RDWR)
                        return
                    connection.sendall(piece)
        except OSError:
            return  # the generator hung up, or the test is over


def split(data: bytes) -> tuple[list[Request], bytes]:
    """Take the whole frames off the front of a stream."""
    requests = []
    while len(data) >= 4 and len(data) >= 4 + (length := struct.unpack_from(">I", data)[0]):
        requests.append(decode(data[4 : 4 + length]))
        data = data[4 + length :]
    return requests, data


def decode(frame: bytes) -> Request:
    """Read a request of either encoding, by the book and not by the product's code."""
    (word,) = struct.unpack_from(">I", frame)
    header, body = frame[4 : 4 + (word & 0xFFFFFF)], frame[4 + (word & 0xFFFFFF) :]
    if word >> 24 == 0:
        said: dict[str, Any] = json.loads(header)
        return Request(said["code"], said["opaque"], said.get("extFields") or {}, body, False)
    code, _language, _version, opaque, _flag, remark_size = struct.unpack_from(">hbhiii", header)
    at = 17 + remark_size
    (size,) = struct.unpack_from(">i", header, at)
    at += 4
    assert at + size == len(header)
    fields = {}
    while at < len(header):
        (size,) = struct.unpack_from(">h", header, at)
        name = header[at + 2 : at + 2 + size].decode()
        at += 2 + size
        (size,) = struct.unpack_from(">i", header, at)
        fields[name] = header[at + 4 : at + 4 + size].decode()
        at += 4 + size
    return Request(code, opaque, fields, body, True)


def encode(
    request: Request, code: int = 0, fields: dict[str, str] | None = None, remark: str = "", body: bytes = b""
) -> bytes:
    """Answer a request in its own encoding; JSON as a server other than Java might write it, blanks and all."""
    known = fields or {}
    if not request.binary:
        said = {
            "opaque": request.opaque,
            "flag": 1,
            "extFields": known,
            "remark": remark,
            "code": code,
            "x": [{"y": "}"}],
        }
        header, kind = json.dumps(said).encode(), 0
    else:
        pieces = []
        for name, value in known.items():
            pieces.append(struct.pack(">h", len(name)) + name.encode() + struct.pack(">i", len(value)) + value.encode())
        block = b"".join(pieces)
        fixed = struct.pack(">hbhiii", code, 0, 409, request.opaque, 1, len(remark))
        header, kind = fixed + remark.encode() + struct.pack(">i", len(block)) + block, 1
    return struct.pack(">II", 4 + len(header) + len(body), kind << 24 | len(header)) + header + body


def stored(request: Request, code: int = 0) -> bytes:
    """Answer a send as the Java broker writes it, with the code in front and no blanks."""
    header = (
        f'{{"code":{code},"extFields":{{"queueId":"0","TRACE_ON":"true","MSG_REGION":"R","msgId":"7F","queueOffset":"5"}},'
        f'"flag":1,"language":"JAVA","opaque":{request.opaque},"serializeTypeCurrentRPC":"JSON","version":407}}'
    ).encode()
    return struct.pack(">II", 4 + len(header), len(header)) + header
