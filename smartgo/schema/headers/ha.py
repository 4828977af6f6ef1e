"""
Headers of the question that a slave asks before it follows a master's log (reliability H3): 30001 and its answer.

It is smartgo's own: RocketMQ has nothing like it, and answers REQUEST_CODE_NOT_SUPPORTED. The stream itself
(L{smartgo.schema.hatransfer}) has no room for a checksum.
"""

from __future__ import annotations

from msgspec import field

from smartgo.schema.headerfields import Header, Int64


class TailRequest(Header, gc=False):
    """
    30001: what do you have in this range of your log?

    @ivar begin: physical offset of its first byte.
    @ivar end: that after its last, at most L{smartgo.schema.hatransfer.TAIL_LIMIT} bytes on; C{begin} for no byte: only
        the bounds are asked for.
    """

    begin: Int64
    end: Int64


class TailAnswer(Header, gc=False):
    """
    The answer to 30001.

    @ivar minimum: physical offset of the first byte of the log.
    @ivar end: that after the last.
    @ivar crc: CRC-32 of the range, 0 to 2^32 - 1; absent where the log does not have all of it.
    """

    minimum: Int64 = field(name="minOffset")
    end: Int64 = field(name="maxOffset")
    crc: Int64 | None = field(name="crc32", default=None)
