"""
The index keys of whole runs of records: what a message is indexed under, found and hashed for thousands at a time.

One record at a time (L{smartgo.schema.index.keys_of}, C{key_hash}) this costs more than storing the message does. With
numpy the records that are alike are one table (L{smartgo.schema.indexlayout}), and the others one text
(L{smartgo.schema.indexcolumns}). Without it records of one size are cut by one pattern as long as they are alike, and
the hashes of a run are still computed together. What is rare (IPv6 hosts, records of RocketMQ 5, long keys, such as are
not ASCII) is done one by one in either case. Tests hold all of this to what the functions for single records give.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from smartgo.errors import BadRecord
from smartgo.schema.columns import heads, numpy_or_none, windows
from smartgo.schema.index import key_hash, key_text, keys_of
from smartgo.schema.indexcolumns import hashes_in
from smartgo.schema.indexlayout import hashes_of, layout_of
from smartgo.schema.keyhashes import LONGEST, MASK_32, POWERS, hash_together
from smartgo.schema.message import HOSTS_MASK, ROLLBACK, TRANSACTION_MASK
from smartgo.schema.properties import java_hash
from smartgo.schema.record import HEAD_SIZE, MAGIC_V2, MESSAGE_MAGICS, RECORD_MINIMUM, decode, start_struct

if TYPE_CHECKING:
    from numpy import ndarray

FEWEST: Final = 64
"""Records below which numpy costs more than it saves."""

_LAYOUTS: Final = 32
"""Ways to continue around a key, of records of one size, beyond which they are not alike enough."""
_RUN: Final = 16
"""Records of one size below which that is not worth while to know."""
_HEAD: Final = struct.Struct(">ii28xi16xq20xi")  # size, magic, sys flag, store timestamp, body length
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
        """Tell whether there is any key."""
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
    if most >= _RUN and view[begin : begin + 8] == view[begin + size : begin + size + 8]:
        np = numpy_or_none()
        if np is None:
            words = struct.iter_unpack(f"8s{size - 8}x", view[begin : begin + most * size])
            count = sum(1 for _ in takewhile(next(words).__eq__, words)) + 1
        else:
            column = np.ndarray((most,), "u8", view, begin, (size,))
            others = column != column[0]
            count = int(others.argmax()) if others.any() else most
    return range(begin, begin + count * size, size) if count >= _RUN else range(begin, begin)


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
    found = _alike(view, starts, base) if isinstance(starts, range) else None
    return _each(view, starts, base) if found is None else found


def _alike(view: bytes | memoryview, starts: range, base: int) -> Keys | None:
    """
    Find the keys of records of one size, as one pattern has them all.

    @return: C{None} where some have no key, or more than one, or at another place than the first one has.
    """
    at, size = starts[0], starts.step
    _, magic, _, _, body = _HEAD.unpack_from(view, at)
    if magic == MAGIC_V2 or not 0 <= body < size - HEAD_SIZE:
        return None
    layout = layout_of(bytes(view[at + HEAD_SIZE + body : at + size]))
    if layout is None or len(layout.keys) != 1:
        return None
    begin, end = layout.keys[0]
    if end - begin > LONGEST:
        return None
    pattern = f">36xi16xq20xi{body}x{begin}s{end - begin}s{size - HEAD_SIZE - body - end}s"
    texts: list[bytes] = []
    prefixes: list[int] = []
    stored: list[int] = []
    known: dict[bytes, int] = {}  # what stands before a key, and what of its hash that makes
    others: set[bytes] = set()  # what stands behind a key
    for sys_flag, stored_ms, length, before, key, after in struct.iter_unpack(pattern, view[at : starts[-1] + size]):
        if before not in known or after not in others:
            layout = layout_of(before + key + after)
            if layout is None or layout.keys != [(begin, end)] or len(known) + len(others) > _LAYOUTS:
                return None
            known[before] = _prefix(before[1 : layout.topic_end]) * POWERS[end - begin]
            others.add(after)
        if length != body or sys_flag & HOSTS_MASK or sys_flag & TRANSACTION_MASK == ROLLBACK:
            return None
        texts.append(key)
        prefixes.append(known[before])
        stored.append(stored_ms)
    letters = b"".join(texts)
    if not letters.isascii() or b"\x02" in letters:
        return None
    return Keys(_hashed(texts, prefixes), [base + at for at in starts], stored)


def _each(view: bytes | memoryview, starts: Sequence[int], base: int) -> Keys:
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
            prefix = topics[topic] = _prefix(topic)
        for key in found:
            length = len(key)
            if length > LONGEST or not key.isascii():
                alone.append((len(texts), _hash_alone(topic, key)))
                length, key = 0, b""
            texts.append(key)
            prefixes.append(prefix * POWERS[length])
            offsets.append(base + at)
            stored.append(stored_ms)
    hashes = _hashed(texts, prefixes)
    for place, number in alone:
        hashes[place] = number
    return Keys(hashes, offsets, stored)


def _hashed(texts: Sequence[bytes], prefixes: Sequence[int]) -> list[int]:
    """Return the hashes of the index: of each key, with what the topic before it adds to that."""
    return [
        value if (value := (one + two) & MASK_32) < 0x80000000 else -value & 0x7FFFFFFF  # -2^31 becomes 0
        for one, two in zip(hash_together(texts), prefixes, strict=True)
    ]


def _prefix(topic: bytes) -> int:
    """Return Java's hash of a topic and the sign behind it, unsigned."""
    return (java_hash(topic.decode("utf-8", "replace")) * 31 + _HASH) & MASK_32


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


def _in_bulk(np: Any, view: bytes | memoryview, starts: Sequence[int], base: int) -> Keys:
    """Find the keys of those records that are alike at once, then those of the others."""
    at = np.arange(starts[0], starts[-1] + 1, starts.step) if isinstance(starts, range) else np.array(starts, "i8")
    found = heads(view, at)
    sys_flags, bodies = found["sys_flag"].astype("i4"), found["body_length"].astype("i8")
    tails = at + bodies + HEAD_SIZE
    ends = at + found["size"]
    usual = (sys_flags & HOSTS_MASK == 0) & (found["magic"] != MAGIC_V2) & (bodies >= 0) & (tails < ends)
    usual &= sys_flags & TRANSACTION_MASK != ROLLBACK
    parts: list[tuple[Any, Any]] = []
    lengths = ends - tails
    length = int(lengths[len(at) // 2])
    alike = usual & (lengths == length)
    left = np.ones(len(at), bool)
    if 2 * np.count_nonzero(alike) > len(at):
        rows = np.flatnonzero(alike)
        hashed = hashes_of(np, windows(view, length)[tails[rows]].view("u1").reshape(-1, length))
        if hashed is not None:
            good, hashes = hashed
            rows = rows[good]
            left[rows] = False
            parts.append((np.repeat(rows, hashes.shape[1]), hashes.ravel()))
    rows = np.flatnonzero(usual & left)
    if len(rows) >= FEWEST:
        left[rows] = False
        owners, hashes = hashes_in(np, view, tails[rows], ends[rows])
        parts.append((rows[owners], hashes))
    stored = found["stored_ms"].astype("i8")
    keys: list[Any] = [(_index_hashes(np, hashes), at[rows] + base, stored[rows]) for rows, hashes in parts]
    if left.any():
        keys.append(_one_by_one(view, at[left].tolist(), base))
    if len(keys) == 1:
        return Keys(*keys[0])
    columns = [
        np.concatenate([np.asarray(one, kind) for one in column])
        for kind, column in zip(("i4", "i8", "i8"), zip(*keys, strict=True), strict=True)
    ]
    order = np.argsort(columns[1], kind="stable")
    return Keys(*(column[order] for column in columns))


def _index_hashes(np: Any, hashes: Any) -> Any:
    """Return what the index has for Java's hashes, unsigned, of key texts."""
    found = np.abs(hashes.view("i4"))
    found[found < 0] = 0  # -2^31 alone
    return found
