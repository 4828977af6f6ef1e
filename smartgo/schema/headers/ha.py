"""
Headers of the question that a slave asks before it follows a master's log (reliability H3): 30001 and its answer.

It is smartgo's own: RocketMQ has nothing like it, and answers REQUEST_CODE_NOT_SUPPORTED. The stream itself
(L{smartgo.schema.hatransfer}) has no room for a checksum.

A master that has a key answers signed questions alone, each over a challenge of its own that counts once (reliability
X6): it refuses one without by NO_PERMISSION with a challenge in the field C{challenge}.
"""

from __future__ import annotations

from typing import Final

from msgspec import field

from smartgo.schema.headerfields import Header, Int64

CHALLENGE: Final = "challenge"
"""The field of a refusal that has a challenge."""


class TailRequest(Header, gc=False):
    """
    30001: what do you have in this range of your log?

    @ivar begin: physical offset of its first byte.
    @ivar end: that after its last, at most L{smartgo.schema.hatransfer.TAIL_LIMIT} bytes on; C{begin} for no byte: only
        the bounds are asked for.
    @ivar follow: the asker is about to follow, and needs a ticket where the master gives any.
    @ivar challenge: the last that the master gave the asker, if it did.
    """

    begin: Int64
    end: Int64
    follow: bool | None = None
    challenge: str | None = None


class TailAnswer(Header, gc=False):
    """
    The answer to 30001.

    @ivar minimum: physical offset of the first byte of the log.
    @ivar end: that after the last.
    @ivar crc: CRC-32 of the range, 0 to 2^32 - 1; absent where the log does not have all of it.
    @ivar ticket: with what the stream has to begin, in hexadecimal digits; absent where it has to begin with nothing.
    @ivar challenge: for the asker's next question; absent where questions need not be signed.
    """

    minimum: Int64 = field(name="minOffset")
    end: Int64 = field(name="maxOffset")
    crc: Int64 | None = field(name="crc32", default=None)
    ticket: str | None = None
    challenge: str | None = None
