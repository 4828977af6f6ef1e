"""
The columns of each table, as Arrow types: what a reader of C{format("smartgo")} can ask for.

Spark's own types follow from these. Every name is stable; new columns are added at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import pyarrow as pa

from smartgo.errors import SettingError
from smartgo.spark.nearest import nearest

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
PROPERTIES: Final = pa.map_(pa.field("key", pa.string(), nullable=False), pa.field("value", pa.string()))
KEYS: Final = pa.list_(pa.field("element", pa.string()))
CORRUPT: Final = pa.struct(
    [
        pa.field("file", pa.string()),
        pa.field("offset", pa.int64()),
        pa.field("length", pa.int64()),
        pa.field("reason", pa.string()),
    ]
)
"""A damaged region: the file, the physical offset of its first byte, its length in bytes, and what is wrong."""

MESSAGES: Final = pa.schema(
    [
        pa.field("store", pa.string()),
        pa.field("topic", pa.string()),
        pa.field("queue_id", pa.int32()),
        pa.field("queue_offset", pa.int64()),
        pa.field("physical_offset", pa.int64()),
        pa.field("key", pa.string()),
        pa.field("keys", KEYS),
        pa.field("tags", pa.string()),
        pa.field("properties", PROPERTIES),
        pa.field("body", pa.binary()),
        pa.field("body_size", pa.int32()),
        pa.field("size", pa.int32()),
        pa.field("flag", pa.int32()),
        pa.field("sys_flag", pa.int32()),
        pa.field("born_timestamp", TIMESTAMP),
        pa.field("store_timestamp", TIMESTAMP),
        pa.field("born_host", pa.string()),
        pa.field("store_host", pa.string()),
        pa.field("reconsume_times", pa.int32()),
        pa.field("prepared_transaction_offset", pa.int64()),
        pa.field("message_id", pa.string()),
        pa.field("unique_id", pa.string()),
        pa.field("crc", pa.int32()),
        pa.field("crc_ok", pa.bool_()),
    ]
)
"""
One row a record of the CommitLog.

C{store} is the directory it came from; C{key} the first of C{keys}; C{body_size} the stored body's length, C{size} the
whole record's; C{message_id} the offset id, C{unique_id} the client's; C{crc_ok} whether the body's checksum holds.
"""

QUEUES: Final = pa.schema(
    [
        pa.field("store", pa.string()),
        pa.field("topic", pa.string()),
        pa.field("queue_id", pa.int32()),
        pa.field("queue_offset", pa.int64()),
        pa.field("physical_offset", pa.int64()),
        pa.field("size", pa.int32()),
        pa.field("tag_hash", pa.int64()),
    ]
)
"""One row a used unit of the ConsumeQueues, see L{smartgo.schema.consumequeue}."""

INDEX: Final = pa.schema(
    [
        pa.field("store", pa.string()),
        pa.field("file", pa.string()),
        pa.field("number", pa.int32()),
        pa.field("key_hash", pa.int32()),
        pa.field("physical_offset", pa.int64()),
        pa.field("store_timestamp", TIMESTAMP),
        pa.field("previous", pa.int32()),
    ]
)
"""One row an entry of the index files, see L{smartgo.schema.index}; C{store_timestamp} is right to the second."""

TABLES: Final[Mapping[str, pa.Schema]] = {"messages": MESSAGES, "consumequeue": QUEUES, "index": INDEX}


def table_schema(table: str, corrupt_column: str | None = None) -> pa.Schema:
    """
    Return all columns of a table.

    @param corrupt_column: name of the column for damaged regions, added at the end; C{None} for none.
    """
    schema = TABLES[table]
    return schema if corrupt_column is None else schema.append(pa.field(corrupt_column, CORRUPT))


def check_columns(asked: pa.Schema, table: str, corrupt_column: str | None = None) -> pa.Schema:
    """
    Refuse columns that a table has not, or has with another type. Their names are not case-sensitive, as in Spark.

    @return: the columns as the table names them.
    @raise SettingError: it names the column, and the one that may have been meant.
    """
    known = table_schema(table, corrupt_column)
    found = [known.field(name) for name in named_columns(asked.names, table, corrupt_column)]
    for field, own in zip(asked, found, strict=True):
        if field.type != own.type:
            raise SettingError(f"column {field.name} of table {table} is {own.type}, not {field.type}")
    return pa.schema(found)


def named_columns(names: Iterable[str], table: str, corrupt_column: str | None = None) -> list[str]:
    """
    Return the names of some columns as the table has them.

    @raise SettingError: the table has no such column, or one is named twice.
    """
    known = {name.lower(): name for name in table_schema(table, corrupt_column).names}
    found: list[str] = []
    for name in names:
        own = known.get(name.lower())
        if own is None:
            raise SettingError(f"table {table} has no column {name}{nearest(name, known.values())}")
        if own in found:
            raise SettingError(f"column {name} is named twice")
        found.append(own)
    return found


def renamed(batches: Iterator[pa.RecordBatch], asked: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Go through batches, their columns under the names by which a user asked for them: Spark compares them exactly."""
    for batch in batches:
        yield batch if batch.schema.names == asked.names else pa.RecordBatch.from_arrays(batch.columns, schema=asked)
