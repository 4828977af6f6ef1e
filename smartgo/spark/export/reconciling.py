"""Reconciliation: whether each message of the stores, up to the bookmark, is in the tables once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

Row = dict[str, Any]
KEYS: Final = ("store", "topic", "queue_id", "queue_offset", "physical_offset")
"""The columns that tell one message from all others, and where it belongs."""


class Reconciliation(NamedTuple):
    """
    The result of a comparison of stores and tables.

    @ivar bookmark: physical offset by store, before which messages count.
    @ivar queues: one row a store, topic and queue: C{first} and C{last} queue offset in the store; C{source} messages
        there; C{rows} in the tables; C{missing} of the source's; C{twice}, rows that are there once more; C{foreign},
        messages in the tables that the store does not hold.
    """

    made: datetime
    stores: Sequence[str]
    tables: Sequence[str]
    bookmark: Mapping[str, int]
    queues: Sequence[Row]

    def total(self, name: str) -> int:
        """Return the sum of a column."""
        return sum(row[name] for row in self.queues)

    @property
    def is_good(self) -> bool:
        """The verdict: each message is there exactly once, and no other."""
        return not any(self.total(name) for name in ("missing", "twice", "foreign"))

    def as_json(self) -> bytes:
        """Return everything for programs."""
        totals = {name: self.total(name) for name in ("source", "rows", "missing", "twice", "foreign")}
        return json.dumps(
            {
                "made": self.made.isoformat(),
                "stores": list(self.stores),
                "tables": list(self.tables),
                "bookmark": dict(self.bookmark),
                "good": self.is_good,
                "totals": totals,
                "queues": list(self.queues),
            },
            indent=1,
        ).encode()


def compare(source: DataFrame, tables: DataFrame, bookmark: Mapping[str, int]) -> list[Row]:
    """
    Compare what the stores hold with what the tables hold, message by message.

    @param source: the columns L{KEYS} of the stores' messages; C{tables} the same of the rows that were written.
    @param bookmark: physical offset by store. What lies behind it is not due yet; what lies before the oldest message
        of a store was removed from the store since.
    """
    spark = source.sparkSession
    ends = spark.createDataFrame(list(bookmark.items()), "store string, end bigint")
    due = source.join(f.broadcast(ends), "store").where("physical_offset < end").drop("end")
    lows = due.groupBy("store").agg(f.min("physical_offset").alias("low"))
    bounds = ends.join(lows, "store")
    held = tables.join(f.broadcast(bounds), "store").where("physical_offset < end and physical_offset >= low")
    counted = held.groupBy("store", "physical_offset").agg(
        f.count("*").alias("times"), f.first("topic").alias("t"), f.first("queue_id").alias("q")
    )
    both = due.withColumn("there", f.lit(True)).join(counted, ["store", "physical_offset"], "full")
    queue = [f.coalesce("topic", "t").alias("topic"), f.coalesce("queue_id", "q").alias("queue_id")]
    found = both.groupBy("store", *queue).agg(
        f.min("queue_offset").alias("first"),
        f.max("queue_offset").alias("last"),
        f.count("there").alias("source"),
        f.coalesce(f.sum("times"), f.lit(0)).alias("rows"),
        f.count_if(f.col("times").isNull()).alias("missing"),
        f.coalesce(f.sum(f.col("times") - 1), f.lit(0)).alias("twice"),
        f.count_if(f.col("there").isNull()).alias("foreign"),
    )
    rows: list[Row] = found.orderBy("store", "topic", "queue_id").toArrow().to_pylist()
    return rows
