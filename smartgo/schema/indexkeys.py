"""
The index keys of whole runs of records: what a message is indexed under, found and hashed for thousands at a time.

One record at a time (L{smartgo.schema.index.keys_of}, C{key_hash}) this costs more than storing the message does. With
numpy a run is taken apart column by column. Without it the hashes of a run are still computed together, by arithmetic
on one long integer. What is rare (IPv6 hosts, records of RocketMQ 5, keys that are not ASCII or very long) is done one
by one in either case. Tests hold both to what the functions for single records give.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from smartgo.errors import BadRecord
from smartgo.schema.columns import heads, numpy_or_none, windows
from smartgo.schema.index import key_hash, key_text, keys_of
from smartgo.schema.indexlayout import hashes_of
from smartgo.schema.keyhashes import LONGEST, MASK_32, POWERS, hash_spans, hash_together
from smartgo.schema.message import HOSTS_MASK, ROLLBACK, TRANSACTION_MASK
from smartgo.schema.properties import java_hash
from smartgo.schema.record import HEAD_SIZE, MAGIC_V2, MESSAGE_MAGICS, RECORD_MINIMUM, decode, start_struct

if TYPE_CHECKING:
    from numpy import ndarray

FEWEST: Final = 64
"""Records below which numpy costs more than it saves."""

_HEAD: Final = struct.Struct(">ii28xi16xq20xi")  # size, magic, sys flag, store timestamp, body length
_SYS_FLAG_AT, _STORED_AT, _BODY_AT = 36, 56, 84
_UNIQUE: Final = b"UNIQ_KEY\x01"
_INNER_UNIQUE: Final = b"\x02" + _UNIQUE
_VALUE_AT: Final = len(_INNER_UNIQUE)
_KEYS: Final = b"KEYS\x01"
_HASH: Final = ord("#")


class Keys(NamedTuple):
    """
    Keys in the order in which they are to be indexed: for each its hash, and its message's place and store time.

    Lists, or arrays of C{i4}, C{i8} and C{i8}; which of them is the same for all three.
    """

    hashes: Sequence[int] | ndarray[Any, Any]
    offsets: Sequence[int] | ndarray[Any, Any]
    stored_ms: Sequence[int] | ndarray[Any, Any]

    def __bool__(self) -> bool:
        """Whether there is any key."""
        return len(self.hashes) > 0

    def after(self, count: int) -> Keys:
        """Leave the first ones out."""
        return Keys(self.hashes[count:], self.offsets[count:], self.stored_ms[count:])


def record_starts(view: bytes | memoryview, begin: int, limit: int) -> tuple[Sequence[int], int]:
    """
    Return where the records that lie back to back from C{begin} start, and where the last one ends.

    Only magics and sizes are looked at; the first that is none, or does not lie within the view, ends it.

    @param limit: the most records.
    @return: the starts as a range means that all have one size and one magic.
    """
    unpack, room = start_struct.unpack_from, len(view)
    last = room - RECORD_MINIMUM
    found: list[int] = []
    run = _run(view, begin, limit)
    at = run.stop
    for _ in range(limit - len(run)):
        if at > last:
            break
        size, magic = unpack(view, at)
        if magic not in MESSAGE_MAGICS or size < RECORD_MINIMUM or at + size > room:
            break
        found.append(at)
        at += size
    return run if run and not found else [*run, *found], at


def _run(view: bytes | memoryview, begin: int, limit: int) -> range:
    """Return where as many records as there are of one size and magic start, if there are more than a few."""
    room = len(view) - begin
    size, magic = start_struct.unpack_from(view, begin) if room >= RECORD_MINIMUM else (0, 0)
    most = min(limit, room // size) if size >= RECORD_MINIMUM and magic in MESSAGE_MAGICS else 0
    count = 0
    if most >= FEWEST and view[begin : begin + 8] == view[begin + size : begin + size + 8]:
        np = numpy_or_none()
        if np is None:
            heads = struct.iter_unpack(f"8s{size - 8}x", view[begin : begin + most * size])
            count = sum(1 for _ in takewhile(next(heads).__eq__, heads)) + 1
        else:
            words = np.ndarray((most,), "u8", view, begin, (size,))
            others = words != words[0]
            count = int(others.argmax()) if others.any() else most
    return range(begin, begin + count * size, size) if count >= FEWEST else range(begin, begin)


def keys_in(view: bytes | memoryview, starts: Sequence[int], base: int) -> Keys:
    """
    Return the keys of records, in their order.

    A record whose lengths do not add up has none.

    @param starts: where the records begin, as from L{record_starts}.
    @param base: physical offset of the view's first byte.
    """
    np = numpy_or_none() if len(starts) >= FEWEST else None
    return _one_by_one(view, starts, base) if np is None else _in_bulk(np, view, starts, base)


# -- without numpy -------------------------------------------------------------------------------------------


def _one_by_one(view: bytes | memoryview, starts: Sequence[int], base: int) -> Keys:
    texts: list[bytes] = []
    prefixes: list[int] = []  # hash of the topic's part, times what stands for the key's length
    offsets: list[int] = []
    stored: list[int] = []
    alone: list[tuple[int, int]] = []  # number of a key and its hash, for those that are hashed alone
    topics: dict[bytes, int] = {}
    # One copy costs less than the slices of a memoryview, of which there would be several a record.
    data = bytes(view[: starts[-1] + start_struct.unpack_from(view, starts[-1])[0]]) if starts else b""
    unpack, find, find_last = _HEAD.unpack_from, data.find, data.rfind
    for at in starts:
        size, magic, sys_flag, stored_ms, body_size = unpack(data, at)
        topic_at = at + HEAD_SIZE + 1 + body_size
        end = at + size
        if body_size < 0 or topic_at >= end or sys_flag & HOSTS_MASK or magic == MAGIC_V2:
            for number, when in _alone(data, at):
                alone.append((len(texts), number))
                texts.append(b"")
                prefixes.append(0)
                offsets.append(base + at)
                stored.append(when)
            continue
        topic_end = topic_at + data[topic_at - 1]
        begin = topic_end + 2
        if begin > end or data[topic_end] << 8 | data[topic_end + 1] != end - begin:
            continue
        if sys_flag & TRANSACTION_MASK == ROLLBACK:
            continue
        place = find_last(_INNER_UNIQUE, begin, end)
        if place < 0:
            unique = _last_value(data, begin, end, _UNIQUE)
        else:
            stop = find(b"\x02", place + 1, end)
            unique = data[place + _VALUE_AT : stop if stop >= 0 else end] or _last_value(data, begin, end, _UNIQUE)
        found: Sequence[bytes] = (unique,) if unique else ()
        if find_last(_KEYS, begin, end) >= 0:
            words = _last_value(data, begin, end, _KEYS)
            if b" " in words:
                found = (*found, *[word for word in words.split(b" ") if word])
            elif words:
                found = (*found, words)
        if not found:
            continue
        topic = data[topic_at:topic_end]
        prefix = topics.get(topic)
        if prefix is None:
            prefix = topics[topic] = (java_hash(topic.decode("utf-8", "replace")) * 31 + _HASH) & MASK_32
        for key in found:
            length = len(key)
            if length > LONGEST or not key.isascii():
                alone.append((len(texts), _hash_alone(topic, key)))
                length, key = 0, b""
            texts.append(key)
            prefixes.append(prefix * POWERS[length])
            offsets.append(base + at)
            stored.append(stored_ms)
    hashes = [
        value if value < 0x80000000 else (0x100000000 - value) & 0x7FFFFFFF  # -2^31 becomes 0
        for value in [(one + two) & MASK_32 for one, two in zip(hash_together(texts), prefixes, strict=True)]
    ]
    for place, number in alone:
        hashes[place] = number
    return Keys(hashes, offsets, stored)


def _last_value(data: bytes, begin: int, end: int, name: bytes) -> bytes:
    """Return the last value of a property that is not empty, of the properties that lie in a part of C{data}."""
    last = end
    while True:
        at = data.rfind(b"\x02" + name, begin, last)
        if at < 0 and not data.startswith(name, begin, last):
            return b""
        value_at = max(at + 1, begin) + len(name)
        stop = data.find(b"\x02", value_at, end)
        value = data[value_at : stop if stop >= 0 else end]
        if value or at < 0:
            return value
        last = at


def _hash_alone(topic: bytes, key: bytes) -> int:
    return key_hash(key_text(topic.decode("utf-8", "replace"), key.decode("utf-8", "replace")))


def _alone(view: bytes | memoryview, at: int) -> list[tuple[int, int]]:
    """Return the (hash, store timestamp) of each key of one record, whatever its kind."""
    try:
        message = decode(view, at)
    except BadRecord:
        return []
    return [
        (key_hash(key_text(message.topic, key)), message.stored_ms)
        for key in keys_of(message.properties, message.sys_flag)
    ]


# -- with numpy ----------------------------------------------------------------------------------------------

_UNIQUE_START: Final = int.from_bytes(_UNIQUE[:8], "little")
_KEYS_START: Final = int.from_bytes(_KEYS, "little")
_KEYS_MASK: Final = (1 << 8 * len(_KEYS)) - 1

Spans = tuple[Any, Any, Any]
"""Arrays: the number of the record that each piece of text is of, where it begins, and where it ends."""


def _in_bulk(np: Any, view: bytes | memoryview, starts: Sequence[int], base: int) -> Keys:
    """Find the keys of those records that are alike at once, and then those of the others."""
    at = np.arange(starts[0], starts[-1] + 1, starts.step) if isinstance(starts, range) else np.array(starts, "i8")
    found = heads(view, at)
    ends = at + found["size"]
    lengths = ends - at - HEAD_SIZE - found["body_length"]
    plain = (found["body_length"] >= 0) & (lengths > 0) & (found["magic"] != MAGIC_V2)
    plain &= (found["sys_flag"] & HOSTS_MASK == 0) & (found["sys_flag"] & TRANSACTION_MASK != ROLLBACK)
    length = lengths[len(at) // 2]
    chosen = np.flatnonzero(plain & (lengths == length))
    alike = None
    if len(chosen) > len(at) // 2:
        alike = hashes_of(np, windows(view, int(length))[ends[chosen] - length].view("u1").reshape(-1, length))
    if alike is None:
        return _by_columns(np, view, at, base)
    good, hashes = alike
    if not good.all():
        chosen = chosen[good]
    rows = np.repeat(chosen, hashes.shape[1])
    columns: Any = _index_hashes(np, hashes.ravel()), at[rows] + base, found["stored_ms"][rows].astype("i8")
    if len(chosen) < len(at):
        others = np.delete(at, chosen)
        if len(others) < FEWEST:
            rest = _one_by_one(view, others.tolist(), base)
        else:
            rest = _by_columns(np, view, others, base)
        columns = [np.concatenate((one, np.asarray(two, one.dtype))) for one, two in zip(columns, rest, strict=True)]
        order = np.argsort(columns[1], kind="stable")
        columns = [one[order] for one in columns]
    return Keys(*columns)


def _index_hashes(np: Any, hashes: Any) -> Any:
    """Return what the index has for Java's hashes, unsigned, of key texts."""
    found = np.abs(hashes.view("i4"))
    found[found < 0] = 0  # -2^31 alone
    return found


def _by_columns(np: Any, view: bytes | memoryview, at: Any, base: int) -> Keys:
    data = np.frombuffer(view, "u1")
    ends = at + _gather(np, view, ">i4", at)
    sys_flags = _gather(np, view, ">i4", at + _SYS_FLAG_AT)
    topics = at + _gather(np, view, ">i4", at + _BODY_AT) + (HEAD_SIZE + 1)
    plain = (topics > at) & (topics < ends - 2) & (sys_flags & HOSTS_MASK == 0)
    plain &= _gather(np, view, ">i4", at + 4) != MAGIC_V2
    topics = np.where(plain, topics, at)
    topic_ends = topics + data[topics - 1]
    plain &= topic_ends + 2 <= ends
    topic_ends = np.where(plain, topic_ends, at)
    plain &= topic_ends + 2 + _gather(np, view, ">u2", topic_ends) == ends
    if not plain.all():
        return _one_by_one(view, at.tolist(), base)
    wanted = np.flatnonzero(sys_flags & TRANSACTION_MASK != ROLLBACK)
    rows, begins, ends, text = _spans(np, view, topic_ends[wanted] + 2, ends[wanted])
    rows = wanted[rows]
    topics, topic_ends, at = topics[rows], topic_ends[rows], at[rows]

    letters = np.frombuffer(text, "u1")
    lengths = ends - begins
    hashes, strange = hash_spans(np, data, topics, topic_ends - topics)
    words, strange_words = hash_spans(np, letters, begins, lengths)
    strange |= strange_words | (lengths > LONGEST)
    alone = np.flatnonzero(strange).tolist()
    if alone:
        lengths[strange] = 0
    found = _index_hashes(np, (hashes * np.uint32(31) + np.uint32(_HASH)) * np.array(POWERS, "u4")[lengths] + words)
    for place in alone:
        topic = bytes(view[topics[place] : topic_ends[place]])
        found[place] = _hash_alone(topic, text[begins[place] : ends[place]])
    return Keys(found, at + base, _gather(np, view, ">i8", at + _STORED_AT))


def _gather(np: Any, buffer: bytes | memoryview, kind: str, positions: Any) -> Any:
    """Return the numbers that lie at some positions of a buffer, in native byte order."""
    row = np.dtype(kind)
    return windows(buffer, row)[positions].astype(row.newbyteorder("="), copy=False)


def _spans(np: Any, view: bytes | memoryview, begins: Any, ends: Any) -> tuple[Any, Any, Any, bytes]:
    """
    Find the keys in the properties of records.

    @return: as L{Spans}, by record and in the order of indexing, in a text, which is the last value.
    """
    cut = memoryview(view)
    pieces = [cut[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]
    text = b"\x02".join((b"", *pieces, bytes(len(_UNIQUE))))
    sizes = ends - begins + 1
    firsts = np.cumsum(sizes) - sizes  # of the separator before each record's properties
    letters = np.frombuffer(text, "u1")
    marks = np.flatnonzero(letters == 2)
    begins, ends = marks[:-1] + 1, marks[1:]
    heads = _gather(np, text, "<u8", begins)
    is_unique = (heads == _UNIQUE_START) & (letters[begins + 8] == 1)
    unique = _values(np, firsts, begins, ends, is_unique, len(_UNIQUE))
    words = _values(np, firsts, begins, ends, heads & _KEYS_MASK == _KEYS_START, len(_KEYS))
    if not len(words[0]):
        return *unique, text
    words = _split(np, letters, words)
    rows, begins, ends = (np.concatenate(both) for both in zip(unique, words, strict=True))
    order = np.argsort(rows, kind="stable")
    return rows[order], begins[order], ends[order], text


def _values(np: Any, firsts: Any, begins: Any, ends: Any, matches: Any, size: int) -> Spans:
    """Return the values of one property, of each record the last that is not empty; C{size} is that of its name."""
    chosen = np.flatnonzero(matches & (ends - begins > size))
    begins, ends = begins[chosen], ends[chosen]
    rows = np.searchsorted(firsts, begins) - 1
    last = np.ones(len(rows), bool)
    last[:-1] = rows[1:] != rows[:-1]
    return rows[last], begins[last] + size, ends[last]


def _split(np: Any, letters: Any, spans: Spans) -> Spans:
    """Split at blanks; empty words are left out."""
    rows, begins, ends = spans
    blanks = np.flatnonzero(letters == ord(" "))
    owners = np.searchsorted(begins, blanks, "right") - 1
    inside = (owners >= 0) & (blanks < ends[owners])
    if not inside.any():
        return spans
    blanks, owners = blanks[inside], owners[inside]
    begins = np.sort(np.concatenate((begins, blanks + 1)))
    ends = np.sort(np.concatenate((ends, blanks)))
    rows = rows[np.sort(np.concatenate((np.arange(len(rows)), owners)))]
    words = ends > begins
    return rows[words], begins[words], ends[words]
