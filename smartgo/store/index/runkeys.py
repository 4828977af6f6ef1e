"""The keys of a run of records for the index: by compiled code up to the first record that is out of the ordinary."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from smartgo.core import choose
from smartgo.schema.columns import numpy_or_none
from smartgo.schema.indexkeys import FEWEST, Keys, keys_in

_KINDS: Final = ("i4", "i8", "i8")


def pure_index_keys(view: bytes | memoryview, starts: Sequence[int], base: int) -> tuple[bytes, bytes, bytes, int]:
    """
    Return hashes, offsets and store times of keys as columns of C{i4}, C{i8} and C{i8} in the machine's byte order.

    @return: with them how many of the records these are of; in Python none, as L{keys_in} does as well.
    """
    return b"", b"", b"", 0


def pure_index_put(view: memoryview, slots_at: int, slots: int, first: int, begin_ms: int, columns: Keys) -> int | None:
    """
    Put keys into an index file: as entries from number C{first} on, with the slots that lead to them, not the header.

    @param view: the whole file.
    @param slots_at: the position of its slots; the entries follow behind C{slots} of them.
    @param begin_ms: the store time from which the seconds of entries count.
    @return: how many slots were free; C{None} where nothing was put, as the columns are lists: in Python always.
    """
    return None


if TYPE_CHECKING:
    index_keys = pure_index_keys
    index_put = pure_index_put
else:
    index_keys = choose("index_keys", pure_index_keys)
    index_put = choose("index_put", pure_index_put)


def keys_of_run(view: bytes | memoryview, starts: Sequence[int], base: int) -> Keys:
    """Return the keys of records, in their order; see L{keys_in}."""
    hashes, offsets, stored, done = index_keys(view, starts, base)
    if not done:
        return keys_in(view, starts, base)
    rest = keys_in(view, starts[done:], base) if done < len(starts) else None
    np = numpy_or_none() if len(starts) >= FEWEST else None
    if np is None:
        first = _columns(hashes, offsets, stored)
        return first if rest is None else Keys(*([*one, *two] for one, two in zip(first, rest, strict=True)))
    columns = [np.frombuffer(raw, kind) for raw, kind in zip((hashes, offsets, stored), _KINDS, strict=True)]
    if rest is not None:
        columns = [np.concatenate([one, np.asarray(two, one.dtype)]) for one, two in zip(columns, rest, strict=True)]
    return Keys(*columns)


def _columns(hashes: bytes, offsets: bytes, stored: bytes) -> Keys:
    """Return columns as arrays of Python's."""
    return Keys(array("i", hashes), array("q", offsets), array("q", stored))
