"""
From a byte stream to frames: a big-endian int32 length, then as many bytes.

Source: the length word of C{remoting/netty/NettyDecoder.java} (C{LengthFieldBasedFrameDecoder}, prefix stripped).
"""

from __future__ import annotations

import struct

from smartgo.errors import BadFrameLength

_LENGTH = struct.Struct(">i")
_unpack_length = _LENGTH.unpack_from


class LengthFieldDecoder:
    """
    Turn arbitrary chunks into whole frames: all at once by L{frames}, or L{feed} a chunk and then L{next_frame} until
    C{None}. The two forms may be mixed.

    A frame that one chunk does not finish is gathered by itself, so that the cost of a chunk does not depend on what
    came before it, and a frame sent byte by byte takes no more memory than one sent at once.

    @ivar broken: set by L{frames} where bytes that are no frame follow those it returned; the stream is lost.
    """

    __slots__ = ("_at", "_chunk", "_limit", "_minimum", "_missing", "_partial", "broken")

    def __init__(self, limit: int, minimum: int = 0) -> None:
        """
        @param limit: the longest frame accepted, in bytes, prefix excluded.
        @param minimum: the shortest; remoting asks for the 4 bytes of its header word.
        """
        self._limit = limit
        self._minimum = minimum
        self._chunk = b""  # what was fed and not returned yet, from byte _at on
        self._at = 0
        self._partial: bytearray | None = None  # a frame whose length is known, as far as it came
        self._missing = 0  # how many bytes it still lacks
        self.broken: BadFrameLength | None = None

    @property
    def pending(self) -> int:
        """
        The number of bytes of an unfinished frame that have arrived, its length word included; C{0} between two frames.
        """
        if self._partial is not None:
            return len(self._partial) + _LENGTH.size
        return len(self._chunk) - self._at

    def feed(self, data: bytes) -> None:
        """Take one chunk as it came from the transport."""
        if self._at < len(self._chunk):
            data = self._chunk[self._at :] + data
        self._chunk = data
        self._at = 0

    def next_frame(self) -> bytes | None:
        """
        Return the next whole frame without its prefix, or C{None} to ask for more bytes.

        @raise BadFrameLength: the prefix announces less or more than allowed; the stream is lost.
        """
        if self._partial is not None:
            return self._resume(self._partial)
        chunk, at = self._chunk, self._at
        if len(chunk) - at < _LENGTH.size:
            return None
        (length,) = _unpack_length(chunk, at)
        if not self._minimum <= length <= self._limit:
            raise BadFrameLength(length, self._minimum, self._limit)
        begin = at + _LENGTH.size
        end = begin + length
        if end > len(chunk):
            self._keep(chunk, begin, end)
            return None
        self._at = end
        return chunk[begin:end]

    def frames(self, data: bytes) -> list[bytes]:
        """
        Take one chunk and return every frame that is whole now, without the prefixes.

        @raise BadFrameLength: what comes next is no frame; whole frames before it were returned by an earlier call,
            which then left the error in C{broken}.
        """
        found: list[bytes] = []
        if self._partial is not None:
            if len(data) < self._missing and self._at == len(self._chunk):
                self._partial += data
                self._missing -= len(data)
                return found
            self.feed(data)
            frame = self._resume(self._partial)
            if frame is None:
                return found
            found.append(frame)
            data = self._chunk
            at = self._at
        elif self._at < len(self._chunk):
            self.feed(data)
            data = self._chunk
            at = 0
        else:
            at = 0
        size = len(data)
        minimum = self._minimum
        limit = self._limit
        append = found.append
        last = size - 4
        while at <= last:
            (length,) = _unpack_length(data, at)
            if not minimum <= length <= limit:
                self._chunk = data
                self._at = at
                if not found:
                    raise BadFrameLength(length, minimum, limit)
                self.broken = BadFrameLength(length, minimum, limit)
                return found
            begin = at + 4
            end = begin + length
            if end > size:
                self._keep(data, begin, end)
                return found
            append(data[begin:end])
            at = end
        if at == size:
            self._chunk = b""
            self._at = 0
        else:  # a piece of a length word
            self._chunk = data[at:]
            self._at = 0
        return found

    def _keep(self, chunk: bytes, begin: int, end: int) -> None:
        """Begin to gather the frame whose bytes lie from C{begin} to past the chunk's end."""
        self._partial = bytearray(memoryview(chunk)[begin:])
        self._missing = end - len(chunk)
        self._chunk = b""
        self._at = 0

    def _resume(self, partial: bytearray) -> bytes | None:
        """Go on gathering from the chunk; return the frame once it is whole."""
        end = self._at + self._missing
        taken = memoryview(self._chunk)[self._at : end]
        partial += taken
        self._missing -= len(taken)
        self._at += len(taken)
        if self._missing:
            self._chunk = b""
            self._at = 0
            return None
        self._partial = None
        return bytes(partial)
