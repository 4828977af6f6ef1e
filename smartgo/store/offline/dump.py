"""Rows of C{smartgo store dump}: records, units, index files, checkpoints and tables."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from smartgo.errors import BadBody
from smartgo.schema import index
from smartgo.schema.consumequeue import extension_offset
from smartgo.store.offline.directory import OfflineStore
from smartgo.store.offline.logwalk import LogDamage, LogWalk
from smartgo.store.offline.rows import RecordFilter, json_members, row_of
from smartgo.store.offline.tablecheck import TABLES, read_table, table_names
from smartgo.store.offline.units import UnitReader

_PAGE: Final = 2000  # entries that are read at once

Row = dict[str, Any]
"""One row, by the names of its fields; C{kind} says what it is."""


def record_rows(store: OfflineStore, wanted: RecordFilter, check_cancelled: Callable[[], None]) -> Iterator[Row]:
    """Yield the wanted records, and the damage between them."""
    for one in wanted.select(iter(LogWalk(store, check_cancelled, wanted.begin))):
        if isinstance(one, LogDamage):
            yield {
                "kind": "damage",
                "physical_offset": one.begin,
                "size": one.end - one.begin,
                "reason": f"{one.reason} ({one.kind.value})",
            }
        else:
            yield {"kind": "record", **json_members(row_of(one, inflate=True))}


def unit_rows(store: OfflineStore, wanted: RecordFilter, check_cancelled: Callable[[], None]) -> Iterator[Row]:
    """Yield the used units of the wanted queues; of the conditions those of queues and offsets count."""
    reader = UnitReader(store, check_cancelled)
    for key in sorted(store.queues):
        if wanted.topic not in (None, key[0]) or wanted.queue_id not in (None, key[1]):
            continue
        for number, unit in reader.units(key):
            if not unit.size or number > wanted.last:
                break
            if number < wanted.first or not wanted.begin <= unit.commitlog_offset < wanted.end:
                continue
            yield {
                "kind": "filler" if unit.is_filler else "unit",
                "topic": key[0],
                "queue_id": key[1],
                "queue_offset": number,
                "physical_offset": unit.commitlog_offset,
                "size": unit.size,
                "tag_hash": unit.tag_hash,
                "extension_offset": extension_offset(unit.tag_hash),
            }


def index_rows(store: OfflineStore, wanted: RecordFilter, check_cancelled: Callable[[], None]) -> Iterator[Row]:
    """Yield the header of each index file, and its entries with the slots that they belong to."""
    hashes = None
    if wanted.key is not None and wanted.topic is not None:
        hashes = index.key_hash(index.key_text(wanted.topic, wanted.key))
    for path in store.index_files:
        name = posixpath.basename(path)
        header = index.IndexHeader.unpack(store.files.read_at(path, 0, index.HEADER_SIZE))
        yield {"kind": "header", "file": name, **header._asdict()}
        geometry = store.geometry_of(path)
        if geometry is None:
            yield {"kind": "damage", "file": name, "reason": "its size does not tell how many slots there are"}
            continue
        end = min(header.index_count, geometry.entries)
        for number in range(index.FIRST_ENTRY, end, _PAGE):
            check_cancelled()
            count = min(_PAGE, end - number)
            data = store.files.read_at(path, geometry.entry_at(number), count * index.ENTRY_SIZE)
            for place, raw in enumerate(index.entry_struct.iter_unpack(data)):
                entry = index.Entry._make(raw)
                if hashes in (None, entry.key_hash) and wanted.begin <= entry.offset < wanted.end:
                    yield {
                        "kind": "entry",
                        "file": name,
                        "number": number + place,
                        "slot": entry.key_hash % geometry.slots,
                        "key_hash": entry.key_hash,
                        "physical_offset": entry.offset,
                        "store_timestamp": entry.stored_ms(header.begin_ms),
                        "previous": entry.previous,
                    }


def checkpoint_rows(store: OfflineStore, wanted: RecordFilter, check_cancelled: Callable[[], None]) -> Iterator[Row]:
    """Yield RocketMQ's checkpoint, smartgo's, and the queues of smartgo's table."""
    yield {"kind": "checkpoint", **store.peer._asdict()}
    own = store.own
    if own is not None:
        timestamps = {"written": own.written._asdict(), "before": own.before._asdict()}
        yield {"kind": "smartgo.checkpoint", **own._asdict(), **timestamps}
    if store.table is None:
        return
    for entry in store.table.queues:
        yield {
            "kind": "smartgo.queues",
            "topic": entry.topic,
            "queue_id": entry.queue_id,
            "minimum": entry.minimum,
            "next_offset": entry.next_offset,
        }
    for topic, below in store.deleted.items():
        yield {"kind": "deleted topic", "topic": topic, "below": below}


def table_rows(store: OfflineStore, wanted: RecordFilter, check_cancelled: Callable[[], None]) -> Iterator[Row]:
    """Yield the tables of the broker with their whole content."""
    for name in table_names(store.files, store.root):
        try:
            yield {"kind": "table", "file": name, "content": read_table(store.files, _table(store, name))}
        except (BadBody, OSError) as error:
            yield {"kind": "damage", "file": name, "reason": str(error)}


def _table(store: OfflineStore, name: str) -> str:
    return posixpath.join(store.root, TABLES, name)


RowSource = Callable[[OfflineStore, RecordFilter, Callable[[], None]], Iterator[Row]]

SOURCES: Final[Mapping[str, RowSource]] = {
    "records": record_rows,
    "units": unit_rows,
    "index": index_rows,
    "checkpoint": checkpoint_rows,
    "tables": table_rows,
}
"""By what is to be dumped, the function that yields its rows; its last argument is called between reads, may raise."""
