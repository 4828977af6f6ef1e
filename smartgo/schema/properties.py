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

import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import itemgetter, mul
from typing import Final, NamedTuple

from smartgo.errors import MessageIllegal

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
KEY_LIMIT: Final = 64
"""Words of KEYS."""

_END: Final = "\x02"
_MIDDLE: Final = "\x01"

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


_TAG_CODES: Final = 4096
_TAG_LENGTH: Final = 128
_TAGS: Final = f"{TAGS}{_MIDDLE}".encode()


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
        if (at and raw[at - 1] != ord(_END)) or raw.find(_TAGS, begin) >= 0:  # of another name's end, or in a value
            return tag_code(find(raw, TAGS))
        stop = raw.find(b"\x02", begin)
        value = raw[begin:] if stop < 0 else raw[begin:stop]
        code = self._codes.get(value)
        if code is None:
            code = tag_code(value.decode("utf-8", "replace"))
            if len(value) <= _TAG_LENGTH:
                if len(self._codes) >= _TAG_CODES:
                    self._codes.clear()
                self._codes[value] = code
        return code


def _waits(pair: str) -> bool:
    """Tell whether a pair C{WAIT 0x01 value} says true, as Java reads it."""
    return pair[len(WAIT) + 1 :].lower() == "true"


# -- text to names and values ------------------------------------------------------------------------------


def decode(raw: bytes | memoryview) -> dict[str, str]:
    """Return names and values of stored properties, in order. Never fails: what is no pair is dropped, as in Java."""
    return decode_text(str(raw, "utf-8", "replace"))


def decode_text(text: str) -> dict[str, str]:
    """Return names and values of properties that came as text, in a request's header."""
    found = {}
    for part in text.split(_END):
        name, _, value = part.partition(_MIDDLE)
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
    order = [names[at] for at in _java_order(names)]
    kept = [name for name in order if name not in dropped and name != RECORD_CRC]
    return _END.join([f"{name}{_MIDDLE}{mapping[name]}" for name in kept]).encode("utf-8", "replace")


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


def _java_order(names: Sequence[str]) -> list[int]:
    """Return the indexes of C{names} (all different, in insertion order) as a Java hash map iterates them."""
    spread = [_spread(name) for name in names]
    mask = _table(spread) - 1
    return sorted(range(len(names)), key=lambda at: spread[at] & mask)


# -- the send path -----------------------------------------------------------------------------------------


class Rewritten(NamedTuple):
    """
    A client's properties as they are to be stored, and what the send path must know of them.

    @ivar raw: the stored form.
    @ivar tag_code: for the ConsumeQueue unit.
    @ivar wait: false where the client does not want to wait for flush and replica.
    @ivar special: there is a special property (see L{Rewriter}): not a plain send.
    """

    raw: bytes
    tag_code: int
    wait: bool
    special: bool


class _Plan(NamedTuple):
    """What to do with a property string whose names, in order, are known: all by position, nothing decoded."""

    match: Callable[[str], re.Match[str] | None]
    """Cuts such a string into its pairs; C{None} for any other string."""
    pick: Callable[[Sequence[str]], Iterable[str]]
    """From these pairs and the added ones to those stored, in Java's order."""
    tags: int
    wait: int
    keys: int
    special: bool


SPECIAL: Final = frozenset({DELAY, TRAN_MSG, INNER_MULTI_DISPATCH})
"""Properties that make a send one that is not plain."""
_NAMES: Final = re.compile("\x01[^\x02]+\x02?")
_NO_PLAN: Final = _Plan(re.compile("(?!)").fullmatch, list, -1, -1, -1, special=False)
_PLANS: Final = 512
_PLAN_NAMES: Final = 48
_PLAN_LENGTH: Final = 1024
_PLAN_AFTER: Final = 4
_MANY_KEYS: Final = len(KEYS) + 2 * KEY_LIMIT
_new = tuple.__new__


class Rewriter:
    """
    What a broker does to the properties of every message sent: decode, add some, drop some, encode in Java's order.

    Clients send the same names over and over, so for a row of names seen a few times a plan is made: a pattern that
    cuts such a string into pairs, and the order in which to put them. The plan last used for a string of so many pairs
    is tried first. What no plan fits (an empty name or value, a name twice, too long) goes the long way.
    """

    def __init__(
        self, added: Mapping[str, str], dropped: Collection[str] = (WAIT,), special: Collection[str] = ()
    ) -> None:
        """
        @param added: put into every message, in place of what the client says; such as the cluster's name.
        @param dropped: taken out after that; L{RECORD_CRC} is in any case.
        @param special: properties beside L{SPECIAL} that make a send one that is not plain.
        @raise ValueError: one of them names a property that the result speaks of.
        """
        self._special = SPECIAL.union(special)
        if not {TAGS, KEYS, *self._special}.isdisjoint([*added, *dropped]) or WAIT in added:
            raise ValueError("TAGS, KEYS, WAIT and the special properties are the client's")
        self._added = dict(added)
        self._dropped = frozenset({*dropped, RECORD_CRC})
        self._pairs = tuple([f"{name}{_MIDDLE}{value}" for name, value in added.items()])
        self._seen: dict[tuple[str, ...], int] = {}
        self._plans: dict[tuple[str, ...], _Plan] = {}
        self._recent: dict[int, _Plan] = {}
        self._pair_codes: dict[str, int] = {}

    def rewrite(self, text: str) -> Rewritten:
        """
        Return the stored form of the properties of a send request.

        @raise MessageIllegal: longer than L{SIZE_LIMIT} once encoded, more than L{NAME_LIMIT} user properties, or more
            than L{KEY_LIMIT} keys.
        """
        match, pick, tags, wait, keys, special = self._recent.get(text.count("\x02"), _NO_PLAN)
        found = match(text)
        if found is None:
            return self._plan(text)
        pairs = found.groups()
        raw = "\x02".join(pick(pairs + self._pairs)).encode("utf-8", "replace")
        if len(raw) > SIZE_LIMIT or (
            keys >= 0 and len(pairs[keys]) > _MANY_KEYS and pairs[keys].count(" ") >= KEY_LIMIT
        ):
            return self._slowly(text)
        if tags < 0:
            code = 0
        else:
            code = self._pair_codes.get(pairs[tags]) or self._pair_code(pairs[tags])
        return _new(Rewritten, (raw, code, wait < 0 or pairs[wait] == "WAIT\x01true" or _waits(pairs[wait]), special))

    def _pair_code(self, pair: str) -> int:
        """Return the tag code of a whole pair C{TAGS 0x01 value}, and keep it."""
        code = tag_code(pair[len(TAGS) + 1 :])
        if len(pair) <= _TAG_LENGTH:
            if len(self._pair_codes) >= _TAG_CODES:
                self._pair_codes.clear()
            self._pair_codes[pair] = code
        return code

    def _slowly(self, text: str) -> Rewritten:
        """Decode, edit, encode."""
        found = decode_text(text)
        strangers = sum(name not in RESERVED for name in found)
        if strangers > NAME_LIMIT:
            raise MessageIllegal(f"{strangers} user properties exceed the limit of {NAME_LIMIT}")
        words = len(split_keys(found.get(KEYS, "")))
        if words > KEY_LIMIT:
            raise MessageIllegal(f"{words} keys exceed the limit of {KEY_LIMIT}")
        found.update(self._added)
        raw = encode(found, self._dropped)
        if len(raw) > SIZE_LIMIT:
            raise MessageIllegal(f"properties of {len(raw)} B exceed the limit of {SIZE_LIMIT} B")
        wait = found.get(WAIT, "true").lower() == "true"
        return Rewritten(raw, tag_code(found.get(TAGS)), wait, not self._special.isdisjoint(found))

    def _plan(self, text: str) -> Rewritten:
        """Find the plan for a string, or go the long way and perhaps make one for the next."""
        *names, rest = _NAMES.split(text)
        key = tuple(names)
        if not rest and key in self._plans:
            self._recent[text.count(_END)] = self._plans[key]
            return self.rewrite(text)
        rewritten = self._slowly(text)
        if rest or "" in names or len(set(names)) < len(names) or len(names) > _PLAN_NAMES:
            return rewritten
        together = "".join(names)
        if len(together) > _PLAN_LENGTH or _END in together:
            return rewritten
        if len(self._seen) >= _PLANS or len(self._plans) >= _PLANS:
            self._seen.clear()
            self._plans.clear()
        self._seen[key] = times = self._seen.get(key, 0) + 1
        if times >= _PLAN_AFTER:  # a pattern is dear to compile: not for names that come once
            del self._seen[key]
            self._plans[key] = self._make(names)
        return rewritten

    def _make(self, names: Sequence[str]) -> _Plan:
        """Plan for strings of these names; they are all different, and none is empty."""
        place = {name: at for at, name in enumerate([*names, *self._added])}
        everyone = list(place)
        order = [place[name] for name in map(everyone.__getitem__, _java_order(everyone)) if name not in self._dropped]
        pattern = _END.join([f"({re.escape(name)}{_MIDDLE}[^{_END}]+)" for name in names])
        return _Plan(
            re.compile(f"{pattern}{_END}?" if names else "").fullmatch,
            # itemgetter returns one item itself, not a tuple of it
            itemgetter(*order) if len(order) > 1 else lambda pairs: [pairs[at] for at in order],
            tags=names.index(TAGS) if TAGS in names else -1,
            wait=names.index(WAIT) if WAIT in names else -1,
            keys=names.index(KEYS) if KEYS in names else -1,
            special=not self._special.isdisjoint(names),
        )
