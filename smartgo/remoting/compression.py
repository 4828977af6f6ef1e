"""
Methods of body compression, by bits 8-10 of a message's sys flag.

 - C{0x000} and C{0x300}: zlib (RFC 1950)
 - C{0x100}: LZ4, frame format
 - C{0x200}: zstd

Zero means zlib because clients before 5.0 know no other and set no bits. Whoever decompresses says how much he will
take, and decompression stops there (reliability L7). Bytes after the end of a stream are ignored, as Java does.

Source: C{common/sysflag/MessageSysFlag.java}, C{common/compression/CompressionType.java} of 5.x.
"""

from __future__ import annotations

import zlib
from typing import Final

import lz4.frame
import zstandard
from zope.interface import implementer

from smartgo.errors import BadCompression, BodyTooLong
from smartgo.remoting.interfaces import ICompressor
from smartgo.remoting.limits import COMPRESS_FROM, INFLATED, MIB
from smartgo.schema.message import COMPRESSED, COMPRESSION_MASK

ZLIB: Final = 0x300
LZ4: Final = 0x100
ZSTD: Final = 0x200

DEFAULT_LEVEL: Final = 5  # as C{UtilAll.compress}

_LEAST_WINDOW = 8 * MIB  # what RFC 8878 asks a zstd reader to support
_PIECE = 128 * 1024  # bytes, when output is only counted


@implementer(ICompressor)
class ZlibCompressor:
    """zlib; levels 0 to 9."""

    flag = ZLIB

    def compress(self, body: bytes, level: int = DEFAULT_LEVEL) -> bytes:
        """Compress."""
        return zlib.compress(body, level)

    def decompress(self, body: bytes, limit: int = INFLATED) -> bytes:
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


@implementer(ICompressor)
class Lz4Compressor:
    """LZ4 frames; levels 0 to 16, those above 2 search harder."""

    flag = LZ4

    def compress(self, body: bytes, level: int = DEFAULT_LEVEL) -> bytes:
        """Compress."""
        packed: bytes = lz4.frame.compress(body, compression_level=level)
        return packed

    def decompress(self, body: bytes, limit: int = INFLATED) -> bytes:
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


@implementer(ICompressor)
class ZstdCompressor:
    """zstd; levels 1 to 22."""

    flag = ZSTD

    def compress(self, body: bytes, level: int = DEFAULT_LEVEL) -> bytes:
        """Compress."""
        return zstandard.ZstdCompressor(level=level).compress(body)

    def decompress(self, body: bytes, limit: int = INFLATED) -> bytes:
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


_METHODS: Final[dict[int, ICompressor]] = {
    0: ZlibCompressor(),
    LZ4: Lz4Compressor(),
    ZSTD: ZstdCompressor(),
    ZLIB: ZlibCompressor(),
}


def compressor(sys_flag: int) -> ICompressor:
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
    @param threshold: shortest body worth it, in bytes.
    @return: the body to send and its sys flag; both as they came where compressing would not make it shorter.
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
