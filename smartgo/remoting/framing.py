"""
From a byte stream to frames: a big-endian int32 length, then as many bytes.

Source: the length word of C{remoting/netty/NettyDecoder.java} (C{LengthFieldBasedFrameDecoder}, prefix stripped).
"""

from __future__ import annotations

import struct

from smartgo.errors import BadFrameLength

_unpack_length = struct.Struct(">i").unpack_from


class LengthFieldDecoder:
    """
    Turns arbitrary chunks of a stream into whole frames.

    A frame that one chunk does not finish is gathered by itself, so that the cost of a chunk does not depend on what
    came before it, and a frame sent byte by byte takes no more memory than one sent at once.

    @ivar pending: bytes of an unfinished frame that have arrived, its length word included; C{0} between two frames.
    @ivar broken: set by L{frames} where bytes that are no frame follow those it returned; the stream is lost.
    """

    __slots__ = ("_limit", "_minimum", "_missing", "_partial", "_rest", "broken", "pending")

    def __init__(self, limit: int, minimum: int = 0) -> None:
        """
        @param limit: the longest frame accepted, in bytes, prefix excluded.
        @param minimum: the shortest; remoting asks for the 4 bytes of its header word.
        """
        self._limit = limit
        self._minimum = minimum
        self._rest = b""  # a piece of a length word, or what no frame begins with
        self._partial: bytearray | None = None  # a frame whose length is known, as far as it came
        self._missing = 0  # how many bytes it still lacks
        self.pending = 0
        self.broken: BadFrameLength | None = None

    @property
    def missing(self) -> int:
        """The number of bytes that an unfinished frame lacks: 0 between two frames, -1 while that is not known."""
        if self._partial is not None:
            return self._missing
        return -1 if self._rest else 0

    def frames(self, data: bytes) -> list[bytes]:
        """
        Take one chunk and return every frame that is whole now, without the prefixes.

        @raise BadFrameLength: what comes next is no frame; whole frames before it were returned by an earlier call,
            which then left the error in C{broken}.
        """
        found: list[bytes] = []
        at = 0
        if self._partial is not None:
            if len(data) < self._missing:
                self._partial += data
                self._missing -= len(data)
                self.pending += len(data)
                return found
            at = self._missing
            self._partial += memoryview(data)[:at]
            found.append(bytes(self._partial))
            self._partial = None
        elif self._rest:
            data = self._rest + data
            self._rest = b""
        size = len(data)
        minimum = self._minimum
        limit = self._limit
        append = found.append
        last = size - 4
        while at <= last:
            (length,) = _unpack_length(data, at)
            if not minimum <= length <= limit:
                error = BadFrameLength(length, minimum, limit)
                if not found:
                    self._rest = data[at : at + 4]
                    raise error
                self.broken = error
                break
            begin = at + 4
            end = begin + length
            if end > size:
                self._partial = bytearray(memoryview(data)[begin:])
                self._missing = end - size
                self.pending = size - at
                return found
            append(data[begin:end])
            at = end
        self.pending = size - at
        if at < size:
            self._rest = data[at:]
        return found
