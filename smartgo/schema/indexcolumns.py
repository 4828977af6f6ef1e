"""
The keys of records that are not alike (L{smartgo.schema.indexlayout}), found for hundreds at a time with numpy.

The properties of all are put into one text, and the separators in it tell where each begins.
"""

from __future__ import annotations

from typing import Any, Final

from smartgo.schema.columns import windows
from smartgo.schema.keyhashes import LONGEST, POWERS, hash_spans
from smartgo.schema.properties import KEYS, UNIQ_KEY, java_hash

_UNIQUE: Final = UNIQ_KEY.encode() + b"\x01"
_KEYS: Final = KEYS.encode() + b"\x01"
_UNIQUE_START: Final = int.from_bytes(_UNIQUE[:8], "little")
_KEYS_START: Final = int.from_bytes(_KEYS, "little")
_KEYS_MASK: Final = (1 << 8 * len(_KEYS)) - 1
_HASH: Final = ord("#")
_SEPARATOR: Final = 2
_MARGIN: Final = 9  # separators behind the text: wherever a property begins eight bytes can be read
_SPARE: Final = 4  # how many times the properties' own size the text may take

Spans = tuple[Any, Any, Any]
"""Arrays: the number of the record that each piece of text is of, where it begins, and where it ends."""


def hashes_in(np: Any, view: bytes | memoryview, tails: Any, ends: Any) -> tuple[Any, Any]:
    """
    Hash the keys of records.

    A record whose lengths do not add up has none.

    @param tails: where the bodies end; C{ends} where the records do.
    @return: for each key the number of its record; and the hash of C{topic#key} as Java has it, unsigned. They are in
        the order of indexing.
    """
    data = np.frombuffer(view, "u1")
    topics = tails + 1
    topic_ends = topics + data[tails]
    rows = np.flatnonzero(topic_ends + 2 <= ends)
    sizes = windows(view, ">u2")[topic_ends[rows]].astype("i8")
    good = topic_ends[rows] + 2 + sizes == ends[rows]
    rows, sizes = rows[good], sizes[good]
    text, owners, begins, stops = _spans(np, view, ends[rows], sizes)
    rows = rows[owners]
    lengths = stops - begins
    topics, topic_ends = topics[rows], topic_ends[rows]
    hashes, strange = hash_spans(np, data, topics, topic_ends - topics)
    words, strange_words = hash_spans(np, text, begins, lengths)
    strange |= strange_words | (lengths > LONGEST)
    powers = np.array(POWERS, "u4")[np.where(strange, 0, lengths)]
    found = (hashes * np.uint32(31) + np.uint32(_HASH)) * powers + words
    for place in np.flatnonzero(strange).tolist():
        topic = bytes(view[topics[place] : topic_ends[place]]).decode("utf-8", "replace")
        key = text[begins[place] : stops[place]].tobytes().decode("utf-8", "replace")
        found[place] = java_hash(f"{topic}#{key}") & 0xFFFFFFFF
    return rows, found


def _spans(np: Any, view: bytes | memoryview, ends: Any, sizes: Any) -> tuple[Any, Any, Any, Any]:
    """
    Find the keys in the properties of records.

    @param ends: where the properties end in the view; C{sizes} how long they are.
    @return: a text, and as L{Spans} the keys in it, by record and in the order of indexing.
    """
    text, stops = _text(np, view, ends, sizes)
    marks = np.flatnonzero(text == _SEPARATOR)[: 1 - _MARGIN]
    begins = marks[:-1] + 1
    heads = windows(text, "<u8")[begins].astype("u8", copy=False)
    limits = stops - sizes - 1, stops
    unique = _values(np, text, limits, marks, np.flatnonzero(heads == _UNIQUE_START), len(_UNIQUE))
    words = _values(np, text, limits, marks, np.flatnonzero(heads & _KEYS_MASK == _KEYS_START), len(_KEYS))
    if not len(words[0]):
        return text, *unique
    words = _split(np, text, words)
    rows, begins, ends = (np.concatenate(both) for both in zip(unique, words, strict=True))
    order = np.argsort(rows, kind="stable")
    return text, rows[order], begins[order], ends[order]


def _text(np: Any, view: bytes | memoryview, ends: Any, sizes: Any) -> tuple[Any, Any]:
    """
    Put properties into one text, each with a separator before it, and more behind the last.

    @return: the text, and where each record's properties end in it; what else there is between them means nothing.
    """
    width, count = int(sizes.max(initial=0)) + 1, len(ends)
    if count and width <= ends[0] and count * width <= _SPARE * int(sizes.sum()):
        # Rows of one width, what is looked for at their right: several times as fast as piece by piece.
        text = np.empty(count * width + _MARGIN, "u1")
        text[: count * width].view(f"V{width}")[:] = windows(view, width)[ends - width]
        text[count * width :] = _SEPARATOR
        stops = np.arange(width, count * width + 1, width)
        text[stops - sizes - 1] = _SEPARATOR
        first = int(stops[0] - sizes[0] - 1)
        return text[first:], stops - first
    cut = memoryview(view)
    pieces = [cut[end - size : end] for end, size in zip(ends.tolist(), sizes.tolist(), strict=True)]
    joined = b"\x02".join((b"", *pieces, b"\x02" * (_MARGIN - 1)))
    return np.frombuffer(joined, "u1"), np.cumsum(sizes + 1)


def _values(np: Any, text: Any, limits: tuple[Any, Any], marks: Any, chosen: Any, size: int) -> Spans:
    """
    Return the values of one property, of each record the last that is not empty.

    @param limits: the separators before each record's properties, and where these end.
    @param marks: all separators; C{chosen} tells behind which of them the property's name stands.
    @param size: how long the name is, the sign behind it included.
    """
    begins, ends = marks[chosen] + 1, marks[chosen + 1]
    rows = np.searchsorted(limits[0], begins) - 1
    ends = np.minimum(ends, limits[1][rows])
    good = ends - begins > size
    begins += size
    good[good] = text[begins[good] - 1] == 1
    if not good.all():
        rows, begins, ends = rows[good], begins[good], ends[good]
    last = np.ones(len(rows), bool)
    last[:-1] = rows[1:] != rows[:-1]
    return (rows, begins, ends) if last.all() else (rows[last], begins[last], ends[last])


def _split(np: Any, text: Any, spans: Spans) -> Spans:
    """Split at blanks; empty words are left out."""
    rows, begins, ends = spans
    blanks = np.flatnonzero(text == ord(" "))
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
