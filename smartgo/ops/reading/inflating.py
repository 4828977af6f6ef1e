"""
Bodies unpacked off the reactor thread, one at a time, within limits: a message of 16 KiB may unpack to 16 MiB, and
whoever may send it is not the one who looks at it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from twisted.internet.defer import DeferredLock
from twisted.internet.task import deferLater

from smartgo.client.internal.records import FoundMessage
from smartgo.client.messages import BODY_LIMIT, ReceivedMessage, received
from smartgo.env.interfaces import IEnvironment
from smartgo.errors import BadCompression, BodyTooLong
from smartgo.ops.problems import Problem
from smartgo.schema.compression import INFLATED, decompress_body, pieces
from smartgo.schema.message import COMPRESSED, StoredMessage

SEARCHED: Final = BODY_LIMIT
"""Bytes of a body, unpacked, that are searched: as many as a message may have before its producer compresses it."""
PER_SECOND: Final = 32 * 1024 * 1024
"""Bytes a second that all searches together unpack."""

_LANE: Final = "inflate"
_PIECE: Final = 128 * 1024  # bytes that are unpacked at once


class Searched(NamedTuple):
    """The result of searching one body."""

    holds: bool
    unpacked: int
    """Bytes."""
    whole: bool
    """Whether it was searched to its end, or to where the text was found."""


class Inflater:
    """Decompresses bodies. Called on the reactor thread."""

    def __init__(self, env: IEnvironment) -> None:
        self._env = env
        self._turn = DeferredLock()
        self._rest = 0.0  # seconds before the next search may unpack something

    async def search(self, stored: StoredMessage, text: bytes) -> Searched:
        """
        Search a text in a body as its producer wrote it; if it cannot be unpacked, in its stored bytes.

        Of a compressed body the first L{SEARCHED} bytes are looked at, all searches together at L{PER_SECOND}.
        """
        body = bytes(stored.body)
        if not stored.sys_flag & COMPRESSED:
            return Searched(text in body, 0, True)
        clock = self._env.clock
        await self._turn.acquire()
        try:
            if self._rest > 0:
                await deferLater(clock, self._rest)
            found: Searched = await self._env.threads.run(_LANE, search_in, body, stored.sys_flag, text, SEARCHED)
            self._rest = found.unpacked / PER_SECOND
        finally:
            self._turn.release()
        return found

    async def whole(self, stored: StoredMessage, limit: int = INFLATED) -> bytes:
        """
        Return a decompressed body.

        @raise BadCompression: it is not what its flags say.
        @raise BodyTooLong: it unpacks to more than C{limit} bytes.
        """
        body = bytes(stored.body)
        if not stored.sys_flag & COMPRESSED:
            return body
        plain: bytes = await self._env.threads.run(_LANE, decompress_body, body, stored.sys_flag, limit)
        return plain

    async def opened(self, one: FoundMessage, body: bytes | None = None) -> ReceivedMessage:
        """
        Return a message as consumers get it.

        @param body: another body; C{None} for its own.
        @raise Problem: 409, its body cannot be unpacked.
        """
        try:
            return received(one.stored, one.broker, await self.whole(one.stored) if body is None else body)
        except (BadCompression, BodyTooLong) as error:
            raise Problem(409, f"the body cannot be decompressed: {error}", "body-unreadable") from None


def search_in(body: bytes, sys_flag: int, text: bytes, limit: int) -> Searched:
    """
    Search a text in a compressed body, piece by piece; if it cannot be unpacked, in its stored bytes.

    @param limit: bytes, unpacked, that are looked at.
    """
    seen = 0
    tail = b""
    try:
        for piece in pieces(body, sys_flag, _PIECE):
            seen += len(piece)
            if text in tail + piece:
                return Searched(True, seen, True)
            if seen >= limit:
                return Searched(False, seen, False)
            tail = (tail + piece)[-len(text) :]
    except BadCompression:
        return Searched(text in body, seen, True)
    return Searched(False, seen, True)
