"""
Compression of message bodies; bits 8-10 of a message's sys flag name the method.

 - C{0x000} and C{0x300}: zlib (RFC 1950)
 - C{0x100}: LZ4, frame format
 - C{0x200}: zstd

Zero means zlib because clients before 5.0 know no other and set no bits. Every decompression has a limit, and stops
there (reliability L7). Bytes after the end of a stream are ignored, as Java does.

Source: C{common/sysflag/MessageSysFlag.java}, C{common/compression/CompressionType.java} of 5.x.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import lz4.frame
import zstandard

from smartgo.errors import BadCompression, BodyTooLong
from smartgo.schema.message import COMPRESSED, COMPRESSION_MASK

ZLIB: Final = 0x300
LZ4: Final = 0x100
ZSTD: Final = 0x200

DEFAULT_LEVEL: Final = 5  # as C{UtilAll.compress}
COMPRESS_FROM: Final = 4 * 1024
"""Clients compress bodies of at least so many bytes."""
INFLATED: Final = 16 * 1024 * 1024
"""How many bytes a body may have when it is decompressed (L7)."""

_LEAST_WINDOW = 8 << 20  # what RFC 8878 asks a zstd reader to support
_WIDEST_WINDOW = 32 << 20  # more than a body has that is ever sent
_PIECE = 128 * 1024  # bytes, when output is only counted
_FED = 64 * 1024  # bytes of input at a time: what a stream has not used yet is copied with each piece


def _from_zlib(body: bytes, limit: int) -> bytes:
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


def _from_lz4(body: bytes, limit: int) -> bytes:
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


def _from_zstd(body: bytes, limit: int) -> bytes:
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


def compressor(sys_flag: int) -> Compressor:
    """
    Return the method that the bits 8-10 of a sys flag name.

    @raise BadCompression: no method has this number.
    """
    try:
        return _METHODS[sys_flag & COMPRESSION_MASK]
    except KeyError:
        raise BadCompression(f"unknown compression method {sys_flag & COMPRESSION_MASK:#x}") from None


def compress_body(
    body: bytes, sys_flag: int, method: int = ZLIB, level: int = DEFAULT_LEVEL, threshold: int = COMPRESS_FROM
) -> tuple[bytes, int]:
    """
    Compress a message body that is long enough and not compressed yet.

    @param method: the flag of a compressor; zlib is what every reader knows.
    @param threshold: the shortest body that is compressed, in bytes.
    @return: the body to send and its sys flag; both unchanged where compression would not make the body shorter.
    @raise BadCompression: no method has this number.
    """
    if len(body) < threshold or sys_flag & COMPRESSED:
        return body, sys_flag
    packed = compressor(method).compress(body, level)
    if len(packed) >= len(body):
        return body, sys_flag
    return packed, sys_flag & ~COMPRESSION_MASK | method | COMPRESSED


def decompress_body(body: bytes, sys_flag: int, limit: int = INFLATED) -> bytes:
    """
    Return a message body as its producer wrote it.

    @param limit: the most bytes to accept.
    @raise BodyTooLong: it would grow longer.
    @raise BadCompression: it is not what its flags say, or they name no method.
    """
    if not sys_flag & COMPRESSED:
        return body
    return compressor(sys_flag).decompress(body, limit)


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
    method = compressor(sys_flag)
    try:
        yield from method.pieces(body, size)
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


def _to_zlib(body: bytes, level: int) -> bytes:
    return zlib.compress(body, level)


def _to_lz4(body: bytes, level: int) -> bytes:
    packed: bytes = lz4.frame.compress(body, compression_level=level)
    return packed


def _to_zstd(body: bytes, level: int) -> bytes:
    return zstandard.ZstdCompressor(level=level).compress(body)


class Compressor(NamedTuple):
    """
    One method of compression.

    @ivar flag: the bits 8-10 that name it.
    @ivar compress: called with a body and a level: zlib has 0 to 9, LZ4 0 to 16, zstd 1 to 22.
    @ivar decompress: called with a compressed body and a limit in bytes; raises BodyTooLong and BadCompression.
    @ivar pieces: called with a compressed body and the size of a piece; yields the body piece by piece.
    """

    flag: int
    compress: Callable[[bytes, int], bytes]
    decompress: Callable[[bytes, int], bytes]
    pieces: Callable[[bytes, int], Iterator[bytes]]


_ZLIB_METHOD: Final = Compressor(ZLIB, _to_zlib, _from_zlib, _zlib_pieces)
_METHODS: Final = {
    0: _ZLIB_METHOD,
    LZ4: Compressor(LZ4, _to_lz4, _from_lz4, _lz4_pieces),
    ZSTD: Compressor(ZSTD, _to_zstd, _from_zstd, _zstd_pieces),
    ZLIB: _ZLIB_METHOD,
}
