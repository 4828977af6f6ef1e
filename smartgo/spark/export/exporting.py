"""The export itself: streams that read what came since the bookmark, tables that they write to, and the comparison."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from smartgo.errors import SettingError
from smartgo.spark.export import rows
from smartgo.spark.export.reconciling import KEYS, Reconciliation, compare
from smartgo.spark.export.targets import ExportTable
from smartgo.spark.hadoopfiles import names_in, write_file
from smartgo.spark.options import parse
from smartgo.spark.storenames import StoreNames
from smartgo.spark.stores import find_stores
from smartgo.spark.versions import HAS_READ_LIMITS

_MESSAGES: Final = "messages"
_BAD: Final = "bad"
_PAYLOAD: Final = "payload.json"
_WAIT: Final = 1.0
"""Seconds between two looks at how far a query is."""


class Wanted(NamedTuple):
    """
    The wishes of a user for an export.

    @ivar paths: root directories of stores, or patterns.
    @ivar options: options of the source, by Spark's names.
    @ivar bookmark: directory that holds how far the export is.
    @ivar json: columns of the bodies as DDL, C{auto} to infer them, C{None} to leave bodies as they are.
    @ivar file_bytes: how large a file is to be, about.
    @ivar batch_bytes: bytes of log in one micro-batch, about.
    """

    paths: Sequence[str]
    options: Mapping[str, str]
    bookmark: str
    json: str | None
    file_bytes: int
    batch_bytes: int


class Export:
    """
    One run of an export: everything that is in the stores now.

    With bodies that are decoded there are two queries, each with a bookmark of its own: one for the rows that can be
    decoded and one for the others. So each table holds its messages exactly once.
    """

    def __init__(
        self,
        spark: SparkSession,
        wanted: Wanted,
        good: ExportTable,
        bad: ExportTable | None,
        say: Callable[[str], None],
    ) -> None:
        """
        @param good: the table of messages; C{bad} of those whose bodies cannot be decoded.
        @param say: told what goes on, in sentences.
        """
        self._spark = spark
        self._wanted = wanted
        self._good = good
        self._bad = bad
        self._say = say

    def run(self) -> int:
        """Write what came since the bookmark; return how many rows were read for it."""
        wanted = self._wanted
        messages = rows.with_day(self._stream())
        if wanted.json is None:
            return self._write(messages, self._good, _MESSAGES)
        schema = self._schema(wanted.json)
        found = self._write(rows.decoded(messages, schema), self._good, _MESSAGES)
        if self._bad is not None:
            self._write(rows.undecoded(messages, schema), self._bad, _BAD)
        return found

    def compact(self) -> None:
        """Join small files of the tables."""
        for table in self._tables():
            self._say(f"joining the files of {table.name}")
            table.compact()

    def reconcile(self, made: datetime) -> Reconciliation:
        """
        Compare stores and tables up to the bookmark.

        @param made: now.
        @raise SettingError: nothing has been exported yet.
        """
        bookmark = self.bookmark()
        if not bookmark:
            raise SettingError(f"{self._wanted.bookmark} holds no bookmark: nothing has been exported yet")
        options = {**self._options(), "endingOffsets": json.dumps(bookmark)}
        frame = self._spark.read.format("smartgo").options(**options)
        fields = frame.load(list(self._wanted.paths)).schema
        source = frame.schema(StructType([fields[name] for name in KEYS])).load(list(self._wanted.paths))
        held = [table.read().select(*KEYS) for table in self._tables()]
        together = held[0] if len(held) == 1 else held[0].unionByName(held[1])
        tables = [table.name for table in self._tables()]
        return Reconciliation(made, self._wanted.paths, tables, bookmark, compare(source, together, bookmark))

    def bookmark(self) -> dict[str, int]:
        """Return the physical offset by store before which all messages are in the tables."""
        found = self._committed(_MESSAGES)
        if self._wanted.json is not None and self._bad is not None:
            other = self._committed(_BAD)
            found = {store: min(offset, other.get(store, 0)) for store, offset in found.items()}
        return found

    # -- inside ------------------------------------------------------------------------------------------------

    def _tables(self) -> list[ExportTable]:
        return [self._good, *([] if self._bad is None else [self._bad])]

    def _options(self) -> dict[str, str]:
        return {"decompressBody": "true", **self._wanted.options}

    def _stream(self) -> DataFrame:
        limit = {"maxBytesPerTrigger": str(self._wanted.batch_bytes)} if HAS_READ_LIMITS else {}
        reader = self._spark.readStream.format("smartgo").options(**self._options(), **limit)
        return reader.option("paths", json.dumps(list(self._wanted.paths))).load()

    def _schema(self, text: str) -> StructType:
        """Return the columns of bodies: once they are inferred, always the same."""
        if text != "auto":
            return rows.schema_of(self._spark, text)
        path = f"{self._wanted.bookmark}/{_PAYLOAD}"
        if _PAYLOAD in names_in(self._spark, self._wanted.bookmark):
            kept = "".join(row[0] for row in self._spark.read.text(path).collect())
            return StructType.fromJson(json.loads(kept))
        frame = self._spark.read.format("smartgo").options(**self._options()).schema("body binary")
        found = rows.inferred(frame.load(list(self._wanted.paths)))
        write_file(self._spark, path, found.json().encode())
        self._say(f"bodies have the columns {', '.join(f'{one.name} {one.dataType.simpleString()}' for one in found)}")
        return found

    def _write(self, frame: DataFrame, table: ExportTable, name: str) -> int:
        """Write all that is new to a table; return how many messages were read."""
        sized = rows.sized(frame, self._wanted.file_bytes, self._wanted.batch_bytes)
        total = 0
        # Spark 4.1 ends after a micro-batch that it had to do again, so there the query runs twice.
        for _ in range(1 if HAS_READ_LIMITS else 2):
            total += self._follow(table.begin(sized, f"{self._wanted.bookmark}/{name}"), table.name)
        return total

    def _follow(self, query: Any, name: str) -> int:
        """Wait for a query's end and say how far it is; return how many messages it read."""
        seen: dict[int, int] = {}
        while True:
            ended = query.awaitTermination(_WAIT)
            for progress in query.recentProgress:
                count = progress.numInputRows
                if progress.batchId not in seen and count:
                    seen[progress.batchId] = count
                    rate = progress.processedRowsPerSecond or 0
                    self._say(f"{name}: {sum(seen.values()):,} messages, {rate:,.0f} a second")
            if ended:
                return sum(seen.values())

    def _committed(self, name: str) -> dict[str, int]:
        """Return where the last micro-batch that is done ended, from Spark's checkpoint."""
        top = f"{self._wanted.bookmark}/{name}"
        done = [int(file) for file in names_in(self._spark, f"{top}/commits") if file.isdecimal()]
        if not done:
            return {}
        lines = [row[0] for row in self._spark.read.text(f"{top}/offsets/{max(done)}").collect()]
        by_name: dict[str, int] = json.loads(lines[-1])
        stores = {store.root: store for store in find_stores(self._wanted.paths)}
        options = parse({**self._options(), "paths": json.dumps(list(self._wanted.paths))})
        names = StoreNames(options.store_names)
        names.resolve(stores, by_name)
        return {root: by_name[names.of(root)] for root in stores if names.of(root) in by_name}
