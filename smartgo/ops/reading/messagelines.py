"""Messages as JSON lines, to be kept in a file: what a line holds, and how many of them are written at once."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from smartgo.client.internal.records import FoundMessage
from smartgo.client.messages import BODY_LIMIT
from smartgo.errors import BadCompression, BodyTooLong
from smartgo.ops.reading.content import MessageRow, row_of
from smartgo.ops.reading.inflating import Inflater
from smartgo.ops.web.partial import Partial

PIECE: Final = 64 * 1024
"""Bytes that are written at once."""

ExportLimit = Annotated[int, Meta(ge=1, le=1_000_000, description="The most to process.")]


class ExportedLine(msgspec.Struct, rename="camel"):
    """
    One line of an export; C{body} where it is UTF-8, else C{bodyBase64}.

    @ivar error: why the body is given as stored: it cannot be decompressed, or would be longer than any message.
    """

    topic: str
    origin_topic: str | None
    broker: str
    queue_id: int
    queue_offset: int
    message_id: str
    offset_id: str
    born_ms: int
    stored_ms: int
    reconsume_times: int
    properties: dict[str, str]
    body: str | None
    body_base64: str | None
    error: str | None = None


async def line_of(one: FoundMessage, inflater: Inflater) -> ExportedLine:
    """Return the line of a message."""
    row = row_of(one)
    error = None
    try:
        body = await inflater.whole(one.stored, BODY_LIMIT)
    except (BadCompression, BodyTooLong) as reason:
        body, error = bytes(one.stored.body), str(reason)
    text: str | None
    try:
        text = body.decode()
    except UnicodeDecodeError:
        text = None
    in_base64 = None if text is not None else base64.b64encode(body).decode()
    return ExportedLine(**shared(row), properties=one.properties, body=text, body_base64=in_base64, error=error)


class MissingLine(Partial):
    """
    The last line of an export from which brokers are missing.

    @ivar missing: the brokers whose messages are incomplete; never empty.
    """


def shared(row: MessageRow) -> dict[str, Any]:
    """Return what a row and a line both say of a message."""
    return {name: getattr(row, name) for name in _SHARED}


_SHARED: Final = tuple(one for one in ExportedLine.__struct_fields__ if one in MessageRow.__struct_fields__)


async def in_pieces(lines: AsyncGenerator[Any, None]) -> AsyncGenerator[bytes, None]:
    """Write structs as JSON, a line each, and give them out some at a time."""
    waiting: list[bytes] = []
    size = 0
    async with aclosing(lines) as each:
        async for one in each:
            waiting.append(msgspec.json.encode(one) + b"\n")
            size += len(waiting[-1])
            if size >= PIECE:
                yield b"".join(waiting)
                waiting, size = [], 0
    yield b"".join(waiting)
