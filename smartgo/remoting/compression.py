"""
Methods of body compression, by bits 8-10 of a message's sys flag; L{smartgo.schema.compression} tells of them, and has
the way back.
"""

from __future__ import annotations

import zlib
from typing import Final

import lz4.frame
import zstandard
from zope.interface import implementer

from smartgo.errors import BadCompression
from smartgo.net.limits import KIB, MIB
from smartgo.remoting.interfaces import ICompressor
from smartgo.schema import compression
from smartgo.schema.compression import LZ4 as LZ4
from smartgo.schema.compression import ZLIB as ZLIB
from smartgo.schema.compression import ZSTD as ZSTD
from smartgo.schema.compression import from_lz4, from_zlib, from_zstd
from smartgo.schema.message import COMPRESSED, COMPRESSION_MASK

DEFAULT_LEVEL: Final = 5  # as C{UtilAll.compress}
COMPRESS_FROM: Final = 4 * KIB
"""Clients compress bodies of at least so many bytes."""
INFLATED: Final = 16 * MIB
"""How many bytes a body may have when it is decompressed (L7)."""


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
        return from_zlib(body, limit)


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
        return from_lz4(body, limit)


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
        return from_zstd(body, limit)


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
    return compression.decompress_body(body, sys_flag, limit)
