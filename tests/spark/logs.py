"""Stores on the disk for tests, with all that a log can have in it, and what the store's own reader finds there."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

import pyarrow as pa

from smartgo.schema import index
from smartgo.schema.consumequeue import UNIT_SIZE, Unit
from smartgo.schema.message import NewMessage, StoredMessage, pack_host
from smartgo.schema.properties import TAGS, find, tag_code
from smartgo.schema.record import BLANK_SIZE, decode, encode, encode_blank
from smartgo.spark.columns import table_schema
from smartgo.spark.conditions import Conditions, of_options
from smartgo.spark.options import parse
from smartgo.spark.stores import find_stores
from smartgo.spark.tables import plan_table, read_part

V4 = pack_host("10.0.0.1", 10911)
V6 = pack_host("fe80::1", 10911)
NOW_MS = 1_767_225_600_000


def any_message(random: Random, topics: Sequence[str] = ("T", "Other", "%RETRY%g"), v6: bool = True) -> NewMessage:
    """Any message of a few topics and queues."""
    hosts = [V4, V6] if v6 else [V4]
    pairs = [
        f"{name}\x01{random.choice(['a', 'b c', 'ü', '标签'])}" for name in random.sample(_NAMES, random.randrange(4))
    ]
    return NewMessage(
        random.choice(topics),
        random.randrange(3),
        random.randbytes(random.choice([0, 1, 60, 700])),
        "\x02".join(pairs).encode(),
        born_ms=NOW_MS + random.randrange(1000),
        born_host=random.choice(hosts),
        store_host=random.choice(hosts),
        flag=random.getrandbits(31),
        reconsume_times=random.randrange(3),
    )


_NAMES = ["KEYS", "TAGS", "UNIQ_KEY", "color", "WAIT"]


class LogWriter:
    """
    Writes a store.

    @ivar written: where each record lies, as (physical offset, raw bytes).
    """

    def __init__(self, root: str, file_size: int = 1 << 20, begin: int = 0) -> None:
        self.root = root
        self.file_size = file_size
        self.begin = begin
        self.at = begin
        self.written: list[tuple[int, bytes]] = []
        self._pending = b""
        self._queues: dict[tuple[str, int], list[bytes]] = {}

    def add(self, message: NewMessage, stored_ms: int | None = None) -> int:
        """Append a message; return its physical offset."""
        units = self._queues.setdefault((message.topic, message.queue_id), [])
        stamp = NOW_MS + self.at if stored_ms is None else stored_ms
        raw = encode(message, len(units), self.at, stamp)
        if len(self._pending) + len(raw) + BLANK_SIZE > self.file_size:
            self.roll()
            raw = encode(message, len(units), self.at, stamp)
        code = tag_code(find(message.properties, TAGS))
        units.append(Unit(self.at, len(raw), code).pack())
        return self.add_raw(raw)

    def add_raw(self, raw: bytes) -> int:
        """Append the bytes of a record."""
        at = self.at
        self.written.append((at, raw))
        self._pending += raw
        self.at += len(raw)
        return at

    def roll(self) -> None:
        """Close the file with a blank, and go on with the next."""
        self._pending += encode_blank(self.file_size - len(self._pending))
        self._write()
        self.begin += self.file_size
        self.at = self.begin
        self._pending = b""

    def close(self, queues: bool = True) -> None:
        """Write what is left, and the ConsumeQueues."""
        self._write()
        if queues:
            for (topic, queue_id), units in self._queues.items():
                path = os.path.join(self.root, "consumequeue", topic, str(queue_id), "0" * 20)
                write(path, b"".join(units).ljust(400 * UNIT_SIZE, b"\0"))

    def _write(self) -> None:
        path = os.path.join(self.root, "commitlog", f"{self.begin:020d}")
        write(path, self._pending.ljust(self.file_size, b"\0"))

    def expected(self) -> list[StoredMessage]:
        """Every record, as the store's own reader decodes it."""
        return [decode(raw) for _, raw in self.written]


def write(path: str, data: bytes) -> None:
    """Write a file and the directories above it."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def patch(path: str, at: int, data: bytes) -> None:
    """Overwrite some bytes of a file."""
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(data)


def write_index(path: str, begin_ms: int, entries: Iterable[index.Entry], geometry: index.Geometry) -> None:
    """Write an index file that has some entries."""
    packed = [entry.pack() for entry in entries]
    header = index.IndexHeader(begin_ms=begin_ms, index_count=len(packed) + 1).pack()
    data = header.ljust(geometry.entry_at(1), b"\0") + b"".join(packed)
    write(path, data.ljust(geometry.size, b"\0"))


def rows(
    *paths: str, columns: Sequence[str] | None = None, conditions: Conditions | None = None, **options: Any
) -> list[dict[str, Any]]:
    """Read a table without Spark, as Spark would: plan, then every part."""
    given = {"path": paths[0], **{name: str(value) for name, value in options.items()}}
    if len(paths) > 1:
        given = {"paths": "[" + ",".join(f'"{path}"' for path in paths) + "]", **given}
        del given["path"]
    parsed = parse(given)
    schema = table_schema(parsed.table, parsed.corrupt_column)
    if columns is not None:
        schema = pa.schema([schema.field(name) for name in columns])
    wanted = of_options(parsed) if conditions is None else conditions
    found: list[dict[str, Any]] = []
    for part in plan_table(find_stores(parsed.paths), parsed, wanted):
        for batch in read_part(part, schema, parsed, wanted):
            assert batch.schema.equals(schema)
            batch.validate(full=True)
            found += batch.to_pylist()
    return found
