"""
The messages of a key: looked up in the index files where these can be believed, else by reading the log.

An index file holds a hash for each key of each message, in the order of the log. What it covers is believed if its
header, its entries and its slots agree; where its entries lie far apart, or there is no file, as after a crash or while
a broker had its index switched off, the log is read. A hash needs the topic, so only topics that are subscribed to by
name are looked up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy import ndarray

from smartgo.errors import SettingError
from smartgo.schema.columns import table
from smartgo.schema.index import (
    ENTRY,
    ENTRY_SIZE,
    FIRST_ENTRY,
    HEADER_SIZE,
    SLOT_SIZE,
    Geometry,
    IndexHeader,
    key_hash,
    key_text,
)
from smartgo.spark import files
from smartgo.spark.conditions import Conditions
from smartgo.spark.gaps import LogGap
from smartgo.spark.indexfiles import geometry_of
from smartgo.spark.logrange import LogRange
from smartgo.spark.stores import Store

_DENSE: Final = 1 << 16
"""Bytes of log between two entries from which on the log between them is read."""
_ENTRIES: Final = 1 << 20
_MOST: Final = 500
"""With more messages than these a task for each costs more than reading the log."""


class Covered(NamedTuple):
    """
    A part of a log that index files cover.

    @ivar begin: physical offset of the first message in it; C{end} of the last.
    @ivar found: physical offsets of messages that may have the key.
    """

    begin: int
    end: int
    found: list[int]


def by_index(
    store: Store, parts: Sequence[LogRange | LogGap], slots: int | None, conditions: Conditions
) -> list[LogRange | LogGap]:
    """
    Replace those ranges of a log that index files cover by the messages in them that may have the keys asked for.

    @param slots: of the index files; C{None} to derive them from their size.
    """
    keys = [key for key in (conditions.unique_key, conditions.key) if key is not None]
    if not keys or conditions.topics is None:
        return list(parts)
    hashes = [key_hash(key_text(topic, keys[0])) for topic in sorted(conditions.topics)]
    runs = [run for path in store.index_files() for run in _covered(path, slots, hashes)]
    found: list[LogRange | LogGap] = []
    for part in parts:
        over = [one for one in runs if one.begin <= part.begin and part.end <= one.end]
        if not over or isinstance(part, LogGap):
            found.append(part)
            continue
        places = sorted({one for one in over[0].found if part.begin <= one < part.end})
        found += [replace(part, begin=at, end=at + 1, is_aligned=True, looks_on=False) for at in places]
    return list(parts) if len(found) > len(parts) + _MOST else found


def _covered(path: str, slots: int | None, hashes: list[int]) -> list[Covered]:
    """Return what an index file covers, nothing if it cannot be believed."""
    try:
        reader = files.FileReader(path)
    except FileNotFoundError:
        return []
    try:
        header = IndexHeader.unpack(reader.copy(0, HEADER_SIZE).ljust(HEADER_SIZE, b"\0"))
        geometry = geometry_of(path, files.size(path), slots)
        if not FIRST_ENTRY < header.index_count <= geometry.entries:
            return []
        return _runs(reader, header, geometry, hashes)
    except (SettingError, FileNotFoundError):
        return []
    finally:
        reader.close()


def _runs(reader: files.FileReader, header: IndexHeader, geometry: Geometry, hashes: list[int]) -> list[Covered]:
    newest = np.frombuffer(reader.copy(HEADER_SIZE, geometry.slots * SLOT_SIZE), ">i4")
    runs: list[Covered] = []
    last = header.begin_offset
    for first in range(FIRST_ENTRY, header.index_count, _ENTRIES):
        count = min(_ENTRIES, header.index_count - first)
        entries = table(reader.copy(geometry.entry_at(first), count * ENTRY_SIZE), ENTRY)
        offsets, codes = entries["offset"].astype("i8"), entries["key_hash"].astype("i8")
        if len(entries) < count or not _agree(newest, geometry.slots, first, offsets, codes, last):
            return []
        begin = 0
        for stop in [*(np.flatnonzero(np.diff(offsets) > _DENSE) + 1).tolist(), count]:
            wanted = offsets[begin:stop][np.isin(codes[begin:stop], hashes)].tolist()
            low, high = int(offsets[begin]), int(offsets[stop - 1])
            if begin == 0 and runs and low - runs[-1].end <= _DENSE:
                runs[-1] = Covered(runs[-1].begin, high, runs[-1].found + wanted)
            else:
                runs.append(Covered(low, high, wanted))
            begin = stop
        last = int(offsets[-1])
    is_whole = bool(runs) and (runs[0].begin, runs[-1].end) == (header.begin_offset, header.end_offset)
    return runs if is_whole else []


def _agree(
    newest: ndarray[Any, Any],
    slots: int,
    first: int,
    offsets: ndarray[Any, Any],
    codes: ndarray[Any, Any],
    last: int,
) -> bool:
    """Tell whether entries lie in the order of the log, and every slot leads to its entries or to newer ones."""
    if len(newest) < slots or (codes < 0).any() or offsets[0] < last or (np.diff(offsets) < 0).any():
        return False
    numbers = np.arange(first, first + len(codes))
    return bool((newest[codes % slots] >= numbers).all())
