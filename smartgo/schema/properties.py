"""
A message's properties: C{NAME 0x01 VALUE}, joined with 0x02; their reserved names; Java's hash and order.

Stored and sent as UTF-8. RocketMQ 4.9 writes no trailing 0x02, 5.x does: both are read. A pair whose name or value is
empty is dropped; of a name that occurs twice the last value counts, at the place of the first.
Source: C{common/message/MessageDecoder.java} (C{string2messageProperties}, C{messageProperties2String}).

Where a broker encodes properties anew, they stand in the order of a C{java.util.HashMap}: by bucket
C{(h ^ (h >>> 16)) & (n - 1)}, h the Java hash of the name, ties in insertion order. The table has n = 16 buckets,
doubled while it holds more than 3/4 n names, and also, below 64, when a name falls into a bucket of 8 or more; it never
shrinks. Readers do not depend on the order; stored bytes equal to RocketMQ's do. Not followed: from 64 buckets on Java
turns a bucket of more than 8 names into a tree with an order of its own (11 names of one hash, made on purpose); such
names stay in insertion order here.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from operator import mul
from typing import Final

# -- reserved names (common/message/MessageConst.java of 4.9.7 and 5.3.3) ----------------------------------

KEYS: Final = "KEYS"
TAGS: Final = "TAGS"
WAIT: Final = "WAIT"
DELAY: Final = "DELAY"
RETRY_TOPIC: Final = "RETRY_TOPIC"
REAL_TOPIC: Final = "REAL_TOPIC"
REAL_QID: Final = "REAL_QID"
TRAN_MSG: Final = "TRAN_MSG"
PGROUP: Final = "PGROUP"
MIN_OFFSET: Final = "MIN_OFFSET"
MAX_OFFSET: Final = "MAX_OFFSET"
BUYER_ID: Final = "BUYER_ID"
ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
TRANSFER_FLAG: Final = "TRANSFER_FLAG"
CORRECTION_FLAG: Final = "CORRECTION_FLAG"
MQ2_FLAG: Final = "MQ2_FLAG"
RECONSUME_TIME: Final = "RECONSUME_TIME"
MAX_RECONSUME_TIMES: Final = "MAX_RECONSUME_TIMES"
MSG_REGION: Final = "MSG_REGION"
TRACE_ON: Final = "TRACE_ON"
UNIQ_KEY: Final = "UNIQ_KEY"
EXTEND_UNIQ_INFO: Final = "EXTEND_UNIQ_INFO"
CONSUME_START_TIME: Final = "CONSUME_START_TIME"
TRAN_PREPARED_QUEUE_OFFSET: Final = "TRAN_PREPARED_QUEUE_OFFSET"
TRANSACTION_CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"
CHECK_IMMUNITY_TIME: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
TRANSACTION_ID: Final = "__transactionId__"
SHARDING_KEY: Final = "__SHARDINGKEY"
INSTANCE_ID: Final = "INSTANCE_ID"
CLUSTER: Final = "CLUSTER"
CORRELATION_ID: Final = "CORRELATION_ID"
REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"
TTL: Final = "TTL"
MSG_TYPE: Final = "MSG_TYPE"
ARRIVE_TIME: Final = "ARRIVE_TIME"
PUSH_REPLY_TIME: Final = "PUSH_REPLY_TIME"
INNER_MULTI_DISPATCH: Final = "INNER_MULTI_DISPATCH"
INNER_MULTI_QUEUE_OFFSET: Final = "INNER_MULTI_QUEUE_OFFSET"
INNER_NUM: Final = "INNER_NUM"
INNER_BASE: Final = "INNER_BASE"
BORN_HOST: Final = "__BORNHOST"
BORN_TIMESTAMP: Final = "BORN_TIMESTAMP"
TRACE_CONTEXT: Final = "TRACE_CONTEXT"
REDIRECT: Final = "REDIRECT"
FORWARD_QUEUE_ID: Final = "PROPERTY_FORWARD_QUEUE_ID"
DUP_INFO: Final = "DUP_INFO"
RECORD_CRC: Final = "__CRC32#"
DLQ_ORIGIN_TOPIC: Final = "DLQ_ORIGIN_TOPIC"
DLQ_ORIGIN_MESSAGE_ID: Final = "DLQ_ORIGIN_MESSAGE_ID"
POP_CK: Final = "POP_CK"
POP_CK_OFFSET: Final = "POP_CK_OFFSET"
FIRST_POP_TIME: Final = "1ST_POP_TIME"
TIMER_DELAY_SEC: Final = "TIMER_DELAY_SEC"
TIMER_DELAY_MS: Final = "TIMER_DELAY_MS"
TIMER_DELIVER_MS: Final = "TIMER_DELIVER_MS"
TIMER_OUT_MS: Final = "TIMER_OUT_MS"
TIMER_ENQUEUE_MS: Final = "TIMER_ENQUEUE_MS"
TIMER_DEQUEUE_MS: Final = "TIMER_DEQUEUE_MS"
TIMER_ROLL_TIMES: Final = "TIMER_ROLL_TIMES"
TIMER_DEL_UNIQKEY: Final = "TIMER_DEL_UNIQKEY"
START_DELIVER_TIME: Final = "__STARTDELIVERTIME"
TRANSIENT_PREFIX: Final = "__RMQ.TRANSIENT."

RESERVED: Final = frozenset(
    value for name, value in list(globals().items()) if name.isupper() and isinstance(value, str)
) - {TRANSIENT_PREFIX}
"""Names that are not the application's own."""

# -- limits (reliability L4) ----------------------------------------------------------------------------

SIZE_LIMIT: Final = 32767
"""Encoded, in bytes."""
NAME_LIMIT: Final = 128
"""User properties of one message."""
KEY_LIMIT: Final = 2048
"""Words of KEYS: a message trace has an id, and perhaps a key, of each of its records."""

PAIR_END: Final = "\x02"
NAME_END: Final = "\x01"

# -- Java's String.hashCode --------------------------------------------------------------------------------

_CHUNK: Final = 256
_POWERS: Final = [pow(31, exponent, 1 << 32) for exponent in range(_CHUNK - 1, -1, -1)]
_STEP: Final = pow(31, _CHUNK, 1 << 32)
_UTF16: Final = "utf-16-le" if sys.byteorder == "little" else "utf-16-be"


def java_hash(text: str) -> int:
    """
    Return Java's C{String.hashCode}: over UTF-16 code units, 32 bits, signed.

    >>> java_hash("TagA")
    2598919
    """
    units: bytes | memoryview
    if text.isascii():
        units = text.encode()
    else:
        units = memoryview(text.encode(_UTF16, "surrogatepass")).cast("H")
    size = len(units)
    if size <= _CHUNK:
        value: int = sum(map(mul, units, _POWERS[_CHUNK - size :])) & 0xFFFFFFFF
    else:
        head = size % _CHUNK
        value = sum(map(mul, units[:head], _POWERS[_CHUNK - head :]))
        for begin in range(head, size, _CHUNK):
            value = (value * _STEP + sum(map(mul, units[begin : begin + _CHUNK], _POWERS))) & 0xFFFFFFFF
    return value - ((value & 0x80000000) << 1)


TAG_CODES_KEPT: Final = 4096
TAG_LENGTH_KEPT: Final = 128
_TAGS: Final = f"{TAGS}{NAME_END}".encode()


def tag_code(tags: str | None) -> int:
    """Return what a ConsumeQueue unit holds for a TAGS value: its Java hash, 0 without a tag."""
    return java_hash(tags) if tags else 0


class TagCodes:
    """The tag codes of stored properties, with those of recent tags kept."""

    def __init__(self) -> None:
        self._codes: dict[bytes, int] = {}

    def of_stored(self, raw: bytes) -> int:
        """Return the tag code of stored properties; the same as C{tag_code(find(raw, TAGS))}."""
        at = raw.find(_TAGS)
        if at < 0:
            return 0
        begin = at + len(_TAGS)
        if (at and raw[at - 1] != ord(PAIR_END)) or raw.find(_TAGS, begin) >= 0:  # of another name's end, or in a value
            return tag_code(find(raw, TAGS))
        stop = raw.find(b"\x02", begin)
        value = raw[begin:] if stop < 0 else raw[begin:stop]
        code = self._codes.get(value)
        if code is None:
            code = tag_code(value.decode("utf-8", "replace"))
            if len(value) <= TAG_LENGTH_KEPT:
                if len(self._codes) >= TAG_CODES_KEPT:
                    self._codes.clear()
                self._codes[value] = code
        return code


# -- text to names and values ------------------------------------------------------------------------------


def decode(raw: bytes | memoryview) -> dict[str, str]:
    """Return names and values of stored properties, in order. Never fails: what is no pair is dropped, as in Java."""
    return decode_text(str(raw, "utf-8", "replace"))


def decode_text(text: str) -> dict[str, str]:
    """Return names and values of properties that came as text, in a request's header."""
    found = {}
    for part in text.split(PAIR_END):
        name, _, value = part.partition(NAME_END)
        if name and value:
            found[name] = value
    return found


def find(raw: bytes, name: str) -> str | None:
    """Return the value of one property without decoding the others; the same as C{decode(raw).get(name)}."""
    wanted = name.encode() + b"\x01"
    end = len(raw)
    while True:
        at = raw.rfind(b"\x02" + wanted, 0, end)
        if at < 0:
            if not raw.startswith(wanted, 0, end):
                return None
            begin = len(wanted)
        else:
            begin = at + 1 + len(wanted)
        stop = raw.find(b"\x02", begin)
        value = raw[begin : stop if stop >= 0 else len(raw)]
        if value:
            return value.decode("utf-8", "replace")
        if at < 0:
            return None
        end = at


def split_keys(keys: str) -> list[str]:
    """Return the words of a KEYS value, which are separated by blanks."""
    return [word for word in keys.split(" ") if word]


# -- names and values to text ------------------------------------------------------------------------------


def encode(mapping: Mapping[str, str], dropped: Collection[str] = ()) -> bytes:
    """
    Return properties in stored form, in the order of a Java hash map that took the names one by one.

    No trailing 0x02. A lone surrogate becomes C{?}, as in Java. L{RECORD_CRC} is left out: it was of another record.

    @param dropped: names taken out of the map at the end; they may have made its table grow before.
    """
    names = list(mapping)
    order = [names[at] for at in java_order(names)]
    kept = [name for name in order if name not in dropped and name != RECORD_CRC]
    return PAIR_END.join([f"{name}{NAME_END}{mapping[name]}" for name in kept]).encode("utf-8", "replace")


def join(first: bytes, second: bytes) -> bytes:
    """Return two stored property strings as one: how a batch's own properties follow those of each of its messages."""
    if not first or not second or first.endswith(b"\x02"):
        return first + second
    return first + b"\x02" + second


def _spread(name: str) -> int:
    value = java_hash(name) & 0xFFFFFFFF
    return value ^ (value >> 16)


_SMALLEST_TABLE: Final = 16
_TREE_TABLE: Final = 64
_FULL_BUCKET: Final = 8


def _table(spread: Sequence[int]) -> int:
    """Return how many buckets the table has after names of these spread hashes were put in one by one."""
    buckets = _SMALLEST_TABLE
    for count, value in enumerate(spread, 1):
        if count > _FULL_BUCKET and buckets < _TREE_TABLE:
            crowd = sum((other ^ value) & (buckets - 1) == 0 for other in spread[: count - 1])
            if crowd >= _FULL_BUCKET:
                buckets *= 2
        if count > buckets * 3 // 4:
            buckets *= 2
    return buckets


def java_order(names: Sequence[str]) -> list[int]:
    """Return the indexes of C{names} (all different, in insertion order) as a Java hash map iterates them."""
    spread = [_spread(name) for name in names]
    mask = _table(spread) - 1
    return sorted(range(len(names)), key=lambda at: spread[at] & mask)
