"""
Request codes recorded from the packets of this machine's loopback: who sends which, unknown to both ends.

Needs root, as all that looks at packets. Written by hand from the format on the wire (docs/spec/remoting): it must not
depend on what is tested.
"""

from __future__ import annotations

import ctypes
import json
import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterator
from types import TracebackType
from typing import Final, NamedTuple

_ETHERNET: Final = 14  # bytes of its header, on the loopback too
_SYN: Final = 2
_OUTGOING: Final = 4  # of a packet on the loopback, which is seen twice
_LONGEST: Final = 64 << 20
_RECEIVE_BUFFER_FORCED, _ATTACH_FILTER, _PACKET, _STATISTICS = 33, 26, 263, 6
_LANGUAGES: Final = {0: "JAVA"}  # of binary headers
_POLL: Final = 0.2  # seconds between two looks whether the recording ends


class Request(NamedTuple):
    """
    A kind of request that was seen.

    @ivar server: the port, of those that are recorded, of the side that listens.
    @ivar asks: whether the server is the one who sends: brokers ask clients so.
    @ivar language: of the sender, as its header says.
    """

    code: int
    language: str
    server: int
    asks: bool


class Frames:
    """The headers in one direction of a connection, from its segments."""

    def __init__(self) -> None:
        self._next = 0
        self._data = b""
        self._begun = False

    def take(self, sequence: int, data: bytes, begins: bool) -> Iterator[tuple[int, bytes]]:
        """
        Yield the kind of each header that is whole now, and its bytes.

        What was seen before is left out. Behind a gap, frames are taken to begin with the next segment.
        """
        if begins or not self._begun:
            self._begun, self._data = True, b""
            self._next = (sequence + begins) & 0xFFFFFFFF
            if begins:
                return
        if (sequence - self._next) & 0x80000000:
            return
        if sequence != self._next:
            self._data = b""
        self._next = (sequence + len(data)) & 0xFFFFFFFF
        self._data += data
        while len(self._data) >= 8:
            length = int.from_bytes(self._data[:4], "big")
            kind, size = self._data[4], int.from_bytes(self._data[5:8], "big")
            if length > _LONGEST or kind > 1 or size + 4 > length:  # another protocol
                self._data = b""
                return
            if len(self._data) < 4 + length:
                return
            yield kind, self._data[8 : 8 + size]
            self._data = self._data[4 + length :]


def read_header(kind: int, header: bytes) -> tuple[int, str] | None:
    """Return the code and the language of a request's header; C{None} for an answer, and for what cannot be read."""
    try:
        if kind == 0:
            told = json.loads(header)
            code, language, flag = int(told["code"]), str(told["language"]), int(told["flag"])
        else:
            code, number, _, _, flag = struct.unpack_from(">hBhii", header)
            language = _LANGUAGES.get(number, str(number))
    except (ValueError, KeyError, TypeError, struct.error):
        return None
    return None if flag & 1 else (code, language)


class Recording:
    """
    The requests of all connections with ports of a range, while it is entered.

    @ivar seen: how often each kind was seen.
    @ivar dropped: packets that the kernel could not give us; known after the end.
    """

    def __init__(self, first: int, last: int) -> None:
        self.seen: Counter[Request] = Counter()
        self.dropped = 0
        self._range = range(first, last + 1)
        self._streams: dict[tuple[int, int], Frames] = {}
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._record, name="recording")
        self._socket: socket.socket | None = None

    def __enter__(self) -> Recording:
        """Begin. @raise PermissionError: this process may not look at packets."""
        packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
        packets.setsockopt(socket.SOL_SOCKET, _RECEIVE_BUFFER_FORCED, 256 << 20)
        program = _filter(self._range[0], self._range[-1])
        buffer = ctypes.create_string_buffer(program)
        counted = struct.pack("HL", len(program) // 8, ctypes.addressof(buffer))
        packets.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, counted)
        packets.bind(("lo", 0))
        packets.settimeout(_POLL)
        self._socket = packets
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ends.set()
        self._thread.join()
        assert self._socket is not None
        _, self.dropped = struct.unpack("II", self._socket.getsockopt(_PACKET, _STATISTICS, 8))
        self._socket.close()

    def _record(self) -> None:
        assert self._socket is not None
        while not self._ends.is_set():
            try:
                packet, where = self._socket.recvfrom(1 << 17)
            except TimeoutError:
                continue
            if where[2] != _OUTGOING:
                self.take(packet)

    def take(self, packet: bytes) -> None:
        """Note the requests that end in a packet: Ethernet, IPv4, TCP."""
        inner = _ETHERNET + (packet[_ETHERNET] & 15) * 4
        source, target, sequence = struct.unpack_from(">HHI", packet, inner)
        body = packet[inner + (packet[inner + 12] >> 4) * 4 :]
        begins = bool(packet[inner + 13] & _SYN)
        if not body and not begins:
            return
        stream = self._streams.setdefault((source, target), Frames())
        for kind, header in stream.take(sequence, body, begins):
            read = read_header(kind, header)
            if read is not None:
                asks = target not in self._range
                self.seen[Request(*read, source if asks else target, asks)] += 1


def _filter(first: int, last: int) -> bytes:
    """Return a program of the kernel's packet filter: IPv4 and TCP, and a port of the range at either end."""
    instructions = (
        (0x28, 0, 0, 12), (0x15, 0, 10, 0x0800),  # IPv4
        (0x30, 0, 0, 23), (0x15, 0, 8, 6),  # TCP
        (0xB1, 0, 0, 14),  # the length of the IP header
        (0x48, 0, 0, 14), (0x35, 0, 1, first), (0x25, 0, 3, last),  # the source's port
        (0x48, 0, 0, 16), (0x35, 0, 2, first), (0x25, 1, 0, last),  # the target's port
        (0x06, 0, 0, 1 << 18), (0x06, 0, 0, 0),
    )  # fmt: skip
    return b"".join(struct.pack("HBBI", *one) for one in instructions)
