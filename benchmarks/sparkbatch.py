"""
The Spark source beside Parquet that holds the same rows, and beside what a user would write instead.

CPU seconds are those of the whole tree: this process, the JVM, the Python workers. The formats take turns, so the ratio
of neighbouring rounds is what lasts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from smartgo.schema.record import RECORD
from smartgo.spark.columns import MESSAGES
from smartgo.spark.conditions import Conditions
from smartgo.spark.logrange import LogRange
from smartgo.spark.options import ReadOptions, parse
from smartgo.spark.partitions import plan
from smartgo.spark.reader import read_messages
from smartgo.spark.stores import find_stores

from .errors import BenchmarkError
from .proc import read_memory
from .sparkdata import Written, write_store
from .sparkpure import without_core
from .sparktree import cpu, peaks_below
from .spread import Spread, ratios

GIB = 1 << 30
STORED = [name for name in MESSAGES.names if name != "crc_ok"]
WITHOUT_CORE = "all 24, without the core"
Say = Callable[[str], object]


def sizes(scale: float) -> list[tuple[int, int, int]]:
    """Return the stores to measure: bytes of log, of a body, of a log file."""
    total = int(GIB * scale)
    return [(total, 1024, GIB), (total // 4, 128, GIB // 4)]


class Decoded(msgspec.Struct):
    """The reader alone, outside Spark: the best of some runs."""

    columns: str
    rows: int
    log_bytes: int
    cpu_seconds: float
    peak_anonymous: int = 0

    @property
    def rows_per_second(self) -> float:
        """Rows for each CPU second."""
        return self.rows / self.cpu_seconds

    @property
    def bytes_per_second(self) -> float:
        """Bytes of log for each CPU second."""
        return self.log_bytes / self.cpu_seconds


class Query(msgspec.Struct):
    """One query, round by round."""

    name: str
    rows: int
    wall: list[float] = []
    cpu: list[float] = []
    worker_anonymous: int = 0


class Dataset(msgspec.Struct):
    """The figures of one store."""

    body_size: int
    file_size: int
    rows: int
    log_bytes: int
    parquet_bytes: int
    decoded: list[Decoded] = []
    queries: list[Query] = []

    def ratio(self, name: str, reference: str) -> Spread | None:
        """Divide the CPU of one query by that of another, round by round."""
        by_name = {query.name: query.cpu for query in self.queries}
        return ratios(by_name.get(name, []), by_name.get(reference, []))


class Outcome(msgspec.Struct):
    """The result of a run."""

    started: str
    machine: Mapping[str, Any]
    options: Mapping[str, Any]
    datasets: list[Dataset] = []
    instead: list[Query] = []


class Batch:
    """
    One run of Spark over some stores.

    @ivar outcome: what is known so far.
    """

    def __init__(self, work: Path, outcome: Outcome, rounds: int, bodies: str, say: Say) -> None:
        self._work = work
        self._rounds = rounds
        self._bodies = bodies
        self._say = say
        self._spark: Any = None
        self.outcome = outcome

    def run(self, sizes: list[tuple[int, int, int]]) -> None:
        """
        Measure some stores.

        @param sizes: of each: bytes of log, of a body, of a log file.
        """
        for total, body_size, file_size in sizes:
            self._say(f"writing {total >> 20} MiB with bodies of {body_size} B")
            store = write_store(self._work / f"store-{body_size}", total, body_size, file_size, self._bodies)
            parquet = self._work / f"parquet-{body_size}"
            written = _write_parquet(store, parquet)
            found = Dataset(body_size, file_size, store.rows, store.log_bytes, written)
            self.outcome.datasets.append(found)
            self._say(f"decoding {body_size} B without Spark")
            found.decoded = decode_all(store)
            self._say(f"querying {body_size} B")
            found.queries = self._queries(store, parquet)
        self._say("what a user would write instead")
        self.outcome.instead = self._instead()

    def close(self) -> None:
        """Stop Spark."""
        if self._spark is not None:
            self._spark.stop()

    # -- Spark -------------------------------------------------------------------------------------------------

    def _session(self) -> Any:
        if self._spark is None:
            from . import sparksession

            self._spark = sparksession.start(self._work / "spark")
        return self._spark

    def _frame(self, store: Written, columns: str | None = None, source: str = "smartgo", **options: str) -> Any:
        reader = self._session().read.format(source).options(**options)
        if columns is not None:
            reader = reader.schema(columns)
        return reader.load(str(store.root))

    def _queries(self, store: Written, parquet: Path) -> list[Query]:
        spark = self._session()
        stored = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in self._frame(store).schema
                           if field.name in STORED)  # fmt: skip
        of_parquet = spark.read.parquet(str(parquet))
        tasks: dict[str, Callable[[], object]] = {
            "parquet: scan": lambda: _scan(of_parquet),
            "smartgo: scan, 24 columns, checksums verified": lambda: _scan(self._frame(store)),
            "smartgo without the core: scan, 24 columns": lambda: _scan(self._frame(store, source="smartgo_pure")),
            "smartgo: scan, 23 columns as stored": lambda: _scan(self._frame(store, stored, verifyCrc="false")),
            "parquet: count": of_parquet.count,
            "smartgo: count, schema asks for queue_id": self._frame(store, "queue_id int").count,
            "parquet: count by topic": lambda: _count(of_parquet),
            "smartgo: count by topic, schema asks for topic": lambda: _count(self._frame(store, "topic string")),
            "parquet: scan of one topic": lambda: _scan(_one_topic(of_parquet)),
            "smartgo: scan of one topic": lambda: _scan(_one_topic(self._frame(store, filterPushdown="true"))),
        }
        return self._rounds_of(tasks, store.rows)

    def _rounds_of(self, tasks: dict[str, Callable[[], object]], rows: int, warm: int = 2) -> list[Query]:
        """Run queries in turn: some warm rounds, then those that count."""
        found = [Query(name, rows) for name in tasks]
        me = os.getpid()
        for turn in range(warm + self._rounds):
            order = found if turn % 2 else found[::-1]
            for query in order:
                self._say(f"round {turn + 1} of {warm + self._rounds}: {query.name}")
                if turn < warm:  # looking takes CPU time, so it is done where that does not count
                    with peaks_below(me) as peak:
                        tasks[query.name]()
                    query.worker_anonymous = max(query.worker_anonymous, peak.anonymous)
                    continue
                before, began = cpu(me), time.perf_counter()
                tasks[query.name]()
                query.wall.append(time.perf_counter() - began)
                query.cpu.append(cpu(me) - before)
        return found

    def _instead(self) -> list[Query]:
        """Compare with binaryFile, mapInPandas and interpreted construct, on a store small enough for that."""
        spark = self._session()
        small = write_store(self._work / "store-small", 16 << 20, 1024, 16 << 20, self._bodies)
        fields = "topic string, queue_id int, queue_offset bigint, store_timestamp bigint, body binary"
        files = spark.read.format("binaryFile").load(str(small.root / "commitlog"))
        columns = "topic string, queue_id int, queue_offset bigint, store_timestamp timestamp, body binary"
        tasks: dict[str, Callable[[], object]] = {
            "binaryFile, mapInPandas, construct": lambda: _scan(files.mapInPandas(_by_construct, fields)),
            "smartgo: the same five columns": lambda: _scan(self._frame(small, columns)),
        }
        return self._rounds_of(tasks, small.rows, warm=1)


def _scan(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _count(frame: Any) -> Any:
    return frame.groupBy("topic").count().collect()


def _one_topic(frame: Any) -> Any:
    return frame.where("topic = 'orders-lima'")


def _by_construct(frames: Iterator[Any]) -> Iterator[Any]:
    """Parse whole files, record by record, as the schema's documentation would have one do."""
    import pandas

    for frame in frames:
        for content in frame["content"]:
            found, at = [], 0
            while content[at + 4 : at + 7] == b"\xda\xa3\x20":
                one = RECORD.parse(content[at : at + int.from_bytes(content[at : at + 4], "big")])
                found.append((one.topic.decode(), one.queue_id, one.queue_offset, one.stored_ms, one.body))
                at += one.size
            yield pandas.DataFrame(found, columns=["topic", "queue_id", "queue_offset", "store_timestamp", "body"])


# -- without Spark -------------------------------------------------------------------------------------------


def _parts(store: Written) -> list[LogRange]:
    parts = plan(find_stores([str(store.root)]), parse({"path": str(store.root)}), Conditions())
    return [part for part in parts if isinstance(part, LogRange)]


def _write_parquet(store: Written, folder: Path) -> int:
    """Write the same rows as Parquet: snappy, a file for each part of the log."""
    folder.mkdir()
    options = parse({"path": str(store.root)})
    for number, part in enumerate(_parts(store)):
        with pq.ParquetWriter(folder / f"part-{number:03d}.parquet", MESSAGES, compression="snappy") as writer:
            for batch in read_messages(part, MESSAGES, options):
                writer.write_batch(batch, row_group_size=1 << 20)
    return sum(path.stat().st_size for path in folder.iterdir())


def decode_all(store: Written, runs: int = 3) -> list[Decoded]:
    """Read a store with no Spark around, by several sets of columns."""
    sets = {
        "all 24, checksums verified": (MESSAGES.names, "true"),
        "23, all as stored": (STORED, "false"),
        "22, without the map of properties": ([name for name in STORED if name != "properties"], "false"),
        "17, those of the record's fixed fields, topic and body": (
            [name for name in STORED if name not in ("key", "keys", "tags", "unique_id", "properties", "message_id")],
            "false",
        ),
        "topic": (["topic"], "false"),
        WITHOUT_CORE: (MESSAGES.names, "true"),
    }
    found = []
    for name, (columns, verify) in sets.items():
        schema = pa.schema([MESSAGES.field(column) for column in columns])
        options = parse({"path": str(store.root), "verifyCrc": verify})
        best = float("inf")
        for _ in range(runs):
            with without_core() if name == WITHOUT_CORE else nullcontext():
                began = time.process_time()
                rows = sum(len(batch) for part in _parts(store) for batch in read_messages(part, schema, options))
                best = min(best, time.process_time() - began)
        if rows != store.rows:
            raise BenchmarkError(f"{rows} rows read of {store.rows}")
        found.append(Decoded(name, rows, store.log_bytes, best, _peak(store, schema, options)))
    return found


def _peak(store: Written, schema: pa.Schema, options: ReadOptions) -> int:
    """Return how much the memory of this process grows, at most, while the store is read."""
    before = most = read_memory(os.getpid()).anonymous
    for part in _parts(store):
        for _ in read_messages(part, schema, options):
            most = max(most, read_memory(os.getpid()).anonymous)
    return most - before
