"""
Random damage to stores: the rows are those of a parser that shares no code with the product, and what is missing is
reported, by batch reads, streams and the job alike.

C{SMARTGO_DAMAGE=2000} asks for so many stores (C{tox -e spark-damage}), 40 by default. The seed of a
store is its number.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Sequence
from random import Random
from typing import Any

import pyarrow as pa
from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import StoreError
from smartgo.spark.columns import table_schema
from smartgo.spark.conditions import of_options
from smartgo.spark.options import parse
from smartgo.spark.storefollower import StoreFollower
from smartgo.spark.stores import find_stores
from smartgo.spark.tables import plan_table, read_part
from tests.spark.damagedstores import DamagedStore, Row, make_store, parse_log
from tests.spark.test_reader import Notes

COUNT = int(os.environ.get("SMARTGO_DAMAGE", "40"))
LENIENT = {"failOnCorrupt": "false", "failOnDataLoss": "false"}
"""The options of the job."""
TELLING = {**LENIENT, "columnNameOfCorruptRecord": "_bad"}


def batch(root: str, columns: Sequence[str] = (*Row._fields,), **options: str) -> list[dict[str, Any]]:
    """Read a store as a batch."""
    given = parse({"path": root, **options})
    parts = plan_table(find_stores([root]), given, of_options(given))
    return _rows(parts, columns, given)


def stream(root: str, columns: Sequence[str] = (*Row._fields,), **options: str) -> list[dict[str, Any]]:
    """Read a store as a stream that ends at the end, in several micro-batches."""
    given = parse({"path": root, "useConsumeQueue": "true", **options})
    following = StoreFollower(given)
    following.stop_at_the_end()
    at, found = following.initial(), []
    while (end := following.latest(at, 20_000)) != at:
        found += _rows(following.ranges(at, end), columns, given)
        at = end
    return found


def _rows(parts: Sequence[Any], columns: Sequence[str], options: Any) -> list[dict[str, Any]]:
    schema = table_schema("messages", options.corrupt_column)
    names = [*columns, *([] if options.corrupt_column is None else [options.corrupt_column])]
    asked = pa.schema([schema.field(name) for name in names])
    return [
        row
        for part in parts
        for batch in read_part(part, asked, options, of_options(options))
        for row in batch.to_pylist()
    ]


def messages(rows: Sequence[dict[str, Any]]) -> list[Row]:
    """The rows that are messages."""
    return [Row(*(row[name] for name in Row._fields)) for row in rows if row.get("_bad") is None]


def uncovered(lost: Sequence[tuple[int, int]], rows: Sequence[dict[str, Any]]) -> list[tuple[int, int]]:
    """The lost records that are not in a region that rows report."""
    regions = [(row["_bad"]["offset"], row["_bad"]["offset"] + row["_bad"]["length"]) for row in rows if row["_bad"]]
    return [(at, size) for at, size in lost if not any(begin < at + size and at < end for begin, end in regions)]


class DamageTests(SynchronousTestCase):
    """Without Spark: what its tasks do, in this process."""

    def setUp(self) -> None:
        """Keep warnings."""
        self.warnings: list[str] = []
        logger = logging.getLogger("smartgo.spark")
        handler = Notes(self.warnings)
        logger.addHandler(handler)
        logger.propagate = False
        self.addCleanup(logger.removeHandler, handler)

    def test_random(self) -> None:
        """Every store gives the rows of the other parser, and what is missing is reported every way."""
        faults = []
        for seed in range(COUNT):
            root = os.path.abspath(f"store-{seed}")
            store = make_store(root, Random(seed))
            self.warnings.clear()
            try:
                said = self.check(store)
            except Exception as error:
                said = [f"{type(error).__name__}: {error}"]
            faults += [f"{seed}: {', '.join(store.damages)}: {one}" for one in said]
            if not said:
                shutil.rmtree(root)
        self.assertEqual(faults, [])

    def check(self, store: DamagedStore) -> list[str]:
        """Return what is wrong."""
        expected = parse_log(store.log)
        lost = store.lost(expected)
        wrong = []
        told = batch(store.root, **TELLING)
        for name, found in (
            ("batch", messages(told)),
            ("batch without the column", messages(batch(store.root, **LENIENT))),
        ):
            if sorted(found) != sorted(set(expected)):
                wrong.append(f"{name} has {difference(found, expected)}")
        if left := uncovered(lost, told):
            wrong.append(f"batch does not report {left}")
        if len(batch(store.root, ["topic"], **LENIENT)) != len(expected):
            wrong.append("another number of rows without bodies")
        chosen = messages(batch(store.root, **LENIENT, subscribe="Orders", queues="0,1"))
        if chosen != [one for one in sorted(expected) if one.topic == "Orders" and one.queue_id < 2]:
            wrong.append(f"a topic has {difference(chosen, [one for one in expected if one.topic == 'Orders'])}")
        streamed = stream(store.root, **TELLING)
        if store.is_open_end(expected) and len(messages(streamed)) < len(expected):
            expected = expected[:-1]  # for all that a stream can tell, a broker is writing the newest message
        if sorted(messages(streamed)) != sorted(expected):
            wrong.append(f"stream has {difference(messages(streamed), expected)}")
        if (left := uncovered(lost, streamed)) and not any("the log ends at" in one for one in self.warnings):
            wrong.append(f"stream does not report {left}")
        for name, read in (("batch", batch), ("stream", stream)):
            error = refused(read, store.root)
            if lost and not error:
                wrong.append(f"{name} does not fail, and {lost} are lost")
            if error and not store.is_damaged:
                wrong.append(f"{name} fails on a whole store: {error}")
        return wrong


def refused(read: Any, root: str) -> str:
    """Read with the options as they are by default; return the error's sentence."""
    try:
        read(root)
    except StoreError as error:
        return str(error)
    return ""


def difference(found: Sequence[Row], expected: Sequence[Row]) -> str:
    """Say how two lists of rows differ."""
    more = sorted({row.physical_offset for row in found} - {row.physical_offset for row in expected})
    fewer = sorted({row.physical_offset for row in expected} - {row.physical_offset for row in found})
    return f"{len(found)} rows for {len(expected)}, more {more}, fewer {fewer}"
