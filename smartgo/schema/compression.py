"""
Compressed bodies, by bits 8-10 of a message's sys flag, back to what they were.

 - C{0x000} and C{0x300}: zlib (RFC 1950)
 - C{0x100}: LZ4, frame format
 - C{0x200}: zstd

Zero means zlib because clients before 5.0 know no other and set no bits. Whoever decompresses says how much he will
take, and decompression stops there (reliability L7). Bytes after the end of a stream are ignored, as Java does.

Source: C{common/sysflag/MessageSysFlag.java}, C{common/compression/CompressionType.java} of 5.x.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Final

import lz4.frame
import zstandard

from smartgo.errors import BadCompression, BodyTooLong
from smartgo.schema.message import COMPRESSED, COMPRESSION_MASK

ZLIB: Final = 0x300
LZ4: Final = 0x100
ZSTD: Final = 0x200

_LEAST_WINDOW = 8 << 20  # what RFC 8878 asks a zstd reader to support
_WIDEST_WINDOW = 32 << 20  # more than a body has that is ever sent
_PIECE = 128 * 1024  # bytes, when output is only counted
_FED = 64 * 1024  # bytes of input at a time: what a stream has not used yet is copied with each piece


def from_zlib(body: bytes, limit: int) -> bytes:
    """
    Decompress at most C{limit} bytes.

    @raise BodyTooLong: there would be more.
    @raise BadCompression: no zlib stream, or not all of one.
    """
    stream = zlib.decompressobj()
    try:
        plain = stream.decompress(body, limit + 1)
    except zlib.error as error:
        raise BadCompression(f"zlib: {error}") from None
    if len(plain) > limit:
        raise BodyTooLong(limit)
    if not stream.eof:
        raise BadCompression("zlib: the stream is cut short")
    return plain


def from_lz4(body: bytes, limit: int) -> bytes:
    """
    Decompress at most C{limit} bytes.

    @raise BodyTooLong: there would be more.
    @raise BadCompression: no LZ4 frame, or not all of one.
    """
    stream = lz4.frame.LZ4FrameDecompressor()
    try:
        plain: bytes = stream.decompress(body, max_length=limit + 1)
    except RuntimeError as error:
        raise BadCompression(f"lz4: {error}") from None
    if len(plain) > limit:
        raise BodyTooLong(limit)
    if not stream.eof:
        raise BadCompression("lz4: the frame is cut short")
    return plain


def from_zstd(body: bytes, limit: int) -> bytes:
    """
    Decompress at most C{limit} bytes.

    @raise BodyTooLong: there would be more.
    @raise BadCompression: no zstd frame, not all of one, or one that asks for a window above C{limit} and 8 MiB.
    """
    window = max(_LEAST_WINDOW, 1 << limit.bit_length())
    try:
        announced = zstandard.get_frame_parameters(body).content_size
        if announced not in (zstandard.CONTENTSIZE_UNKNOWN, zstandard.CONTENTSIZE_ERROR) and announced > limit:
            raise BodyTooLong(limit)
        # The library's one form that is bounded does not tell a whole frame from the beginning of one, and the
        # one that does is not bounded: count first, then inflate what is known to fit.
        if not _zstd_fits(body, window, limit):
            raise BodyTooLong(limit)
        stream = zstandard.ZstdDecompressor(max_window_size=window).decompressobj()
        plain = stream.decompress(body)
    except zstandard.ZstdError as error:
        raise BadCompression(f"zstd: {error}") from None
    if not stream.eof:
        raise BadCompression("zstd: the frame is cut short")
    return plain


def _zstd_fits(body: bytes, window: int, limit: int) -> bool:
    """Tell whether a frame unpacks to C{limit} bytes at most, or fails before."""
    counted = 0
    reader = zstandard.ZstdDecompressor(max_window_size=window).stream_reader(body)
    try:
        while piece := reader.read(_PIECE):
            counted += len(piece)
            if counted > limit:
                return False
    except zstandard.ZstdError:
        pass  # either the frame is bad, which inflating it will tell, or what lies behind it is no other frame
    return True


_METHODS: Final[dict[int, Callable[[bytes, int], bytes]]] = {
    0: from_zlib,
    LZ4: from_lz4,
    ZSTD: from_zstd,
    ZLIB: from_zlib,
}


def decompress_body(body: bytes, sys_flag: int, limit: int) -> bytes:
    """
    Return a message body as its producer wrote it.

    @param limit: the most bytes to accept.
    @raise BodyTooLong: it would grow longer.
    @raise BadCompression: it is not what its flags say, or they name no method.
    """
    if not sys_flag & COMPRESSED:
        return body
    method = _METHODS.get(sys_flag & COMPRESSION_MASK)
    if method is None:
        raise BadCompression(f"unknown compression method {sys_flag & COMPRESSION_MASK:#x}")
    return method(body, limit)


def pieces(body: bytes, sys_flag: int, size: int = _PIECE) -> Iterator[bytes]:
    """
    Yield a message body as its producer wrote it, some bytes at a time; no more is unpacked than is asked for.

    A stream that is cut short ends early, without an error.

    @param size: the longest piece, in bytes.
    @raise BadCompression: it is not what its flags say, or they name no method.
    """
    if not sys_flag & COMPRESSED:
        yield from (body[at : at + size] for at in range(0, len(body), size))
        return
    method = _IN_PIECES.get(sys_flag & COMPRESSION_MASK)
    if method is None:
        raise BadCompression(f"unknown compression method {sys_flag & COMPRESSION_MASK:#x}")
    try:
        yield from method(body, size)
    except zlib.error as error:
        raise BadCompression(f"zlib: {error}") from None
    except RuntimeError as error:
        raise BadCompression(f"lz4: {error}") from None
    except zstandard.ZstdError as error:
        raise BadCompression(f"zstd: {error}") from None


def beginning(body: bytes, sys_flag: int, size: int) -> bytes:
    """Return the first bytes of a body as its producer wrote it; unpack no more. @raise BadCompression: as above."""
    found = bytearray()
    for piece in pieces(body, sys_flag, size):
        found += piece
        if len(found) >= size:
            break
    return bytes(found[:size])


def _zlib_pieces(body: bytes, size: int) -> Iterator[bytes]:
    stream = zlib.decompressobj()
    for at in range(0, len(body), _FED):
        waiting = body[at : at + _FED]
        while waiting and not stream.eof:
            yield stream.decompress(waiting, size)
            waiting = stream.unconsumed_tail


def _lz4_pieces(body: bytes, size: int) -> Iterator[bytes]:
    stream = lz4.frame.LZ4FrameDecompressor()
    for at in range(0, len(body), _FED):
        if stream.eof:
            return
        yield stream.decompress(body[at : at + _FED], max_length=size)
        while not (stream.needs_input or stream.eof):
            yield stream.decompress(b"", max_length=size)


def _zstd_pieces(body: bytes, size: int) -> Iterator[bytes]:
    reader = zstandard.ZstdDecompressor(max_window_size=_WIDEST_WINDOW).stream_reader(body)
    while piece := reader.read(size):
        yield piece


_IN_PIECES: Final[dict[int, Callable[[bytes, int], Iterator[bytes]]]] = {
    0: _zlib_pieces,
    LZ4: _lz4_pieces,
    ZSTD: _zstd_pieces,
    ZLIB: _zlib_pieces,
}
