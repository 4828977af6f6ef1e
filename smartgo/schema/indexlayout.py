"""
The ends of records that are alike: what the messages of one producer mostly are.

Where two messages have the same names of properties, and the values of each are as long, their keys lie at the same
places behind the body. So one message is taken apart, and it is only made sure of the others that they are like it:
with numpy for hundreds at a time, as a table of bytes of which each row is the end of one record.

The end of a record is all that follows its body: the topic and the properties, with their lengths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from smartgo.schema.keyhashes import hash_rows
from smartgo.schema.properties import KEYS, UNIQ_KEY

if TYPE_CHECKING:
    from numpy import ndarray

_SEPARATOR: Final = 2
_BLANK: Final = ord(" ")
_UNIQUE_NAME: Final = UNIQ_KEY.encode()
_KEYS_NAME: Final = KEYS.encode()
_HASH: Final = ord("#")


class Layout(NamedTuple):
    """
    The places of the fields in the end of a record.

    @ivar topic_end: where the topic ends, which begins at 1.
    @ivar keys: where each key begins and ends, in the order of indexing: the unique key, then the words of KEYS.
    @ivar words: where the value of KEYS begins and ends; nothing where there is none.
    @ivar values: where each property's value begins and ends, from the first to the last.
    """

    topic_end: int
    keys: list[tuple[int, int]]
    words: tuple[int, int]
    values: list[tuple[int, int]]


def layout_of(end: bytes) -> Layout | None:
    """Take the end of one record apart; C{None}: its lengths do not add up."""
    topic_end = 1 + end[0] if end else 0
    at = topic_end + 2
    if not end or at > len(end) or int.from_bytes(end[topic_end:at], "big") != len(end) - at:
        return None
    values = []
    unique: list[tuple[int, int]] = []
    words = (0, 0)
    for one in end[at:].split(b"\x02"):
        name, _, value = one.partition(b"\x01")
        stop = at + len(one)
        span = (stop - len(value), stop)
        values.append(span)
        if value and name == _UNIQUE_NAME:
            unique = [span]
        elif value and name == _KEYS_NAME:
            words = span
        at = stop + 1
    return Layout(topic_end, unique + _words(end, *words), words, values)


def _words(text: bytes, at: int, stop: int) -> list[tuple[int, int]]:
    found = []
    for word in text[at:stop].split(b" "):
        if word:
            found.append((at, at + len(word)))
        at += len(word) + 1
    return found


def hashes_of(np: Any, ends: ndarray[Any, Any]) -> tuple[ndarray[Any, Any], ndarray[Any, Any]] | None:
    """
    Hash the keys of the records whose ends are like the first one.

    @param ends: a row of bytes for each.
    @return: which they are; and of these, a row for each, the hashes of C{topic#key} as Java has them, unsigned;
        C{None} where the first is damaged or has no key.
    """
    first = ends[0].tobytes()
    layout = layout_of(first)
    if layout is None or not layout.keys:
        return None
    # What is the same in all: everything but the topic and the values; and in these no separator begins another one.
    same = np.ones(len(first), bool)
    same[1 : layout.topic_end] = False
    for begin, end in layout.values:
        same[begin:end] = False
    alike = (ends == np.where(same, ends[0], np.uint8(_SEPARATOR))) == same
    alike[:, 1 : layout.topic_end] = True
    begin, end = layout.words
    alike[:, begin:end] &= (ends[:, begin:end] == _BLANK) == (ends[0, begin:end] == _BLANK)
    if ends.max() >= 0x80:  # where that is in what is hashed a byte is no character
        for begin, end in (1, layout.topic_end), *layout.keys:
            alike[:, begin:end] &= ends[:, begin:end] < 0x80
    good = np.ones(len(ends), bool) if alike.all() else alike.all(1)
    if not good.all():
        ends = ends[good]
    topics = hash_rows(np, ends[:, 1 : layout.topic_end]) * np.uint32(31) + np.uint32(_HASH)
    found = np.empty((len(ends), len(layout.keys)), "u4")
    for column, (begin, end) in enumerate(layout.keys):
        found[:, column] = topics * np.uint32(pow(31, end - begin, 1 << 32)) + hash_rows(np, ends[:, begin:end])
    return good, found
