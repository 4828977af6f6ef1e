"""Write the answer of a request: status, headers, an C{ETag}, compression."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

from twisted.web.server import GzipEncoderFactory

from smartgo.ops.web.request import OpsRequest

_GZIP_FROM: Final = 1024  # bytes
_GZIP_TO: Final = 1024 * 1024
"""Bytes up to which an answer is compressed and has an C{ETag}: both are work on the reactor thread."""


class _Gzip(GzipEncoderFactory):
    compressLevel = 5


_gzip = _Gzip()


def write_answer(
    request: OpsRequest, status: int, content: bytes, content_type: str, headers: Mapping[str, str]
) -> None:
    """Write a whole answer and finish the request; 304 without a body where the client has the same content."""
    request.setResponseCode(status)
    request.setHeader(b"Content-Type", content_type.encode())
    for name, value in headers.items():
        request.setHeader(name.encode(), value.encode())
    if request.method in (b"GET", b"HEAD") and status == 200 and len(content) <= _GZIP_TO:
        tag = b'"%s"' % hashlib.blake2b(content, digest_size=12).hexdigest().encode()
        request.responseHeaders.setRawHeaders(b"ETag", [tag])
        if _is_named(request.requestHeaders.getRawHeaders(b"If-None-Match", []), tag):
            request.setResponseCode(304)
            request.responseHeaders.removeHeader(b"Content-Type")
            request.finish()
            return
    request.setHeader(b"Vary", b"Accept-Encoding")
    if _GZIP_FROM <= len(content) <= _GZIP_TO and request.method != b"HEAD":
        request.compress(_gzip.encoderForRequest(request))
    if not request.is_compressed:
        request.setHeader(b"Content-Length", b"%d" % len(content))
    request.write(content)
    request.finish()


def _is_named(headers: Sequence[bytes], tag: bytes) -> bool:
    """Tell whether C{If-None-Match} headers name a tag."""
    named = [one.strip().removeprefix(b"W/") for header in headers for one in header.split(b",")]
    return tag in named or b"*" in named
