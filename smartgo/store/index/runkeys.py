"""The keys of a run of records for the index: by compiled code up to the first record that is out of the ordinary."""

from __future__ import annotations

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


if TYPE_CHECKING:
    index_keys = pure_index_keys
else:
    index_keys = choose("index_keys", pure_index_keys)


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
    """Return columns as lists."""
    return Keys(
        memoryview(hashes).cast("i").tolist(),
        memoryview(offsets).cast("q").tolist(),
        memoryview(stored).cast("q").tolist(),
    )
