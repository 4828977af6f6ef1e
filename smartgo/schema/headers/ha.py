"""
Headers of the question about a log that brokers ask each other (reliability H3): 30001 and its answer.

A slave asks it before it follows a master's log. Either asks it for bytes in place of damaged ones (reliability S8).

It is smartgo's own: RocketMQ has nothing like it, and answers REQUEST_CODE_NOT_SUPPORTED. The stream itself
(L{smartgo.schema.hatransfer}) has no room for a checksum.

A master that has a key answers signed questions alone, each over a challenge of its own that counts once (reliability
X6): it refuses one without by NO_PERMISSION with a challenge in the field C{challenge}.
"""

from __future__ import annotations

from typing import Final

from msgspec import field

from smartgo.schema.headerfields import Header, Int32, Int64

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
    @ivar check: the range is to be checked for damage before the answer.
    @ivar read: the bytes of the range are wanted as the body of the answer.
    @ivar main_port: the port of a slave at which its master can ask it the same question, for bytes of its log.
    """

    begin: Int64
    end: Int64
    follow: bool | None = None
    challenge: str | None = None
    check: bool | None = None
    read: bool | None = None
    main_port: Int32 | None = None


class TailAnswer(Header, gc=False):
    """
    The answer to 30001.

    @ivar minimum: physical offset of the first byte of the log.
    @ivar end: that after the last.
    @ivar crc: CRC-32 of the range, 0 to 2^32 - 1; absent where the log does not have all of it.
    @ivar ticket: with what the stream has to begin, in hexadecimal digits; absent where it has to begin with nothing.
    @ivar challenge: for the asker's next question; absent where questions need not be signed.
    @ivar damaged: the damaged regions of a checked range, as C{offset+length} with commas between; absent where
        there is none.
    @ivar unreadable: those of C{damaged} of which the disk cannot read some bytes, in the same form.
    @ivar marked_from: physical offset from which on the records of batches are marked (reliability D12); told to who is
        about to follow.
    """

    minimum: Int64 = field(name="minOffset")
    end: Int64 = field(name="maxOffset")
    crc: Int64 | None = field(name="crc32", default=None)
    ticket: str | None = None
    challenge: str | None = None
    damaged: str | None = None
    unreadable: str | None = None
    marked_from: Int64 | None = None
