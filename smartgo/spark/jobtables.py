"""
The tables of the batch job, each a DataFrame of figures made of the messages of some stores.

All follow from one narrow copy of the messages (L{narrow}), which the job keeps while it works: the logs are read
once, and the few messages of retry and dead-letter topics once more for where they came from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, GroupedData
from pyspark.sql import functions as f

from smartgo.schema import properties
from smartgo.schema.topics import (
    BENCHMARK_TOPIC,
    DLQ_PREFIX,
    HALF_TOPIC,
    OP_HALF_TOPIC,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    SYSTEM_PREFIX,
    SYSTEM_TOPICS,
)

CORRUPT: Final = "_corrupt"
"""The column that tells of damaged regions."""

PERCENTILES: Final = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
WIDTHS: Final = (1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600, 7 * 24 * 3600)
"""Seconds that one column of a chart over time may stand for."""

_ACCURACY: Final = 10_000
_LAG_STEPS_MS: Final = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 60_000, 600_000, 3_600_000)
_TAGS_LISTED: Final = 10_000
_HOUR: Final = 3600


def narrow(messages: DataFrame) -> DataFrame:
    """
    Select the columns that all tables need: one row a message, without bodies and properties, and a row for each
    damaged region.
    """
    region = f.col(CORRUPT)
    return messages.select(
        "store",
        "topic",
        kind_of(f.col("topic")).alias("kind"),
        "queue_id",
        "tags",
        "keys",
        f.col("body_size").cast("long").alias("body_bytes"),
        f.col("size").cast("long").alias("bytes"),
        "reconsume_times",
        f.col("store_timestamp").alias("stored"),
        (f.unix_millis("store_timestamp") - f.unix_millis("born_timestamp")).alias("lag_ms"),
        region.alias(CORRUPT),
    )


def kind_of(topic: Column) -> Column:
    """Tell what a topic is for: C{plain}, C{retry}, C{dlq}, C{delay}, C{transaction} or C{system}."""
    system = sorted(SYSTEM_TOPICS - {BENCHMARK_TOPIC})
    return (
        f.when(topic.startswith(RETRY_PREFIX), "retry")
        .when(topic.startswith(DLQ_PREFIX), "dlq")
        .when(topic == SCHEDULE_TOPIC, "delay")
        .when(topic.isin(HALF_TOPIC, OP_HALF_TOPIC), "transaction")
        .when(topic.isin(*system) | topic.startswith(SYSTEM_PREFIX), "system")
        .otherwise("plain")
    )


# -- tables ----------------------------------------------------------------------------------------------------


def totals(rows: DataFrame) -> DataFrame:
    """One row: all messages; their lag is that of plain topics, whose messages are stored when they are born."""
    plain = f.when(f.col("kind") == "plain", f.col("lag_ms"))
    return rows.agg(
        *_sums(),
        f.count_distinct("topic").alias("topics"),
        f.count_distinct("store").alias("stores"),
        f.count_if(f.col("kind") == "retry").alias("retries"),
        f.count_if(f.col("kind") == "dlq").alias("dead"),
        *_lags(plain),
    )


def by_store(rows: DataFrame) -> DataFrame:
    """One row a store directory."""
    return rows.groupBy("store").agg(*_sums(), f.count_distinct("topic").alias("topics")).orderBy("store")


def by_topic(rows: DataFrame) -> DataFrame:
    """One row a topic, over all stores; the largest first."""
    return (
        rows.groupBy("topic", "kind")
        .agg(
            *_sums(),
            f.min("body_bytes").alias("body_min"),
            f.round(f.avg("body_bytes"), 1).alias("body_mean"),
            f.max("body_bytes").alias("body_max"),
            f.count_distinct("store", "queue_id").alias("queues"),
            f.count_distinct("tags").alias("tags"),
            f.count_if(f.size("keys") > 0).alias("with_keys"),
            *_lags(f.col("lag_ms")),
        )
        .orderBy(f.desc("messages"), "topic")
    )


def by_tag(rows: DataFrame) -> DataFrame:
    """One row a topic and tag, null for none."""
    grouped = rows.groupBy("topic", f.col("tags").alias("tag")).agg(f.count("*").alias("messages"), _bytes())
    return grouped.orderBy(f.desc("messages"), "topic", "tag").limit(_TAGS_LISTED)


def by_hour(rows: DataFrame) -> DataFrame:
    """One row a topic and hour of storing, UTC."""
    return timeline(rows, _HOUR).withColumnRenamed("at", "hour")


def timeline(rows: DataFrame, width: int) -> DataFrame:
    """One row a topic and C{width} seconds of storing."""
    grouped = _by_time(rows, width, "topic", "kind")
    return grouped.agg(f.count("*").alias("messages"), _bytes(), *_lags(f.col("lag_ms"))).orderBy("at", "topic")


def lag_timeline(rows: DataFrame, width: int) -> DataFrame:
    """One row for C{width} seconds of storing: the lag of plain topics."""
    return _by_time(rows.where("kind = 'plain'"), width).agg(*_lags(f.col("lag_ms"))).orderBy("at")


def sizes(rows: DataFrame) -> DataFrame:
    """One row a topic and power of two: messages with bodies of at most so many bytes, and of more than half."""
    upper = f.when(f.col("body_bytes") > 1, f.pow(2, f.ceil(f.log2("body_bytes")))).otherwise(1).cast("long")
    grouped = rows.groupBy("topic", upper.alias("up_to_bytes")).agg(f.count("*").alias("messages"), _bytes())
    return grouped.orderBy("topic", "up_to_bytes")


def lags(rows: DataFrame) -> DataFrame:
    """
    One row a kind of topic and step of lag: messages with at least so many milliseconds from birth to storing, and
    fewer than the next step has. A negative step stands for clocks that disagree: stored before they were born.
    """
    step = f.lit(-1)
    for at in _LAG_STEPS_MS:
        step = f.when(f.col("lag_ms") >= at, at).otherwise(step)
    return rows.groupBy("kind", step.alias("from_ms")).agg(f.count("*").alias("messages")).orderBy("kind", "from_ms")


def top_keys(rows: DataFrame, count: int) -> DataFrame:
    """The C{count} keys of plain topics that most messages have, one row a topic and key."""
    keys = rows.where("kind = 'plain'").select("topic", "bytes", f.explode("keys").alias("key"))
    grouped = keys.groupBy("topic", "key").agg(f.count("*").alias("messages"), _bytes())
    return grouped.orderBy(f.desc("messages"), "topic", "key").limit(count)


def retries(messages: DataFrame, topics: Sequence[str]) -> DataFrame:
    """
    One row a consumer group and topic of origin: what the group gave back, and what it failed for good.

    @param messages: with L{RETRY_COLUMNS}.
    @param topics: the retry and dead-letter topics that there are; what is of others is not even decoded where Spark
        pushes filters down.
    """
    topic = f.col("topic")
    again = topic.startswith(RETRY_PREFIX)
    length = f.when(again, len(RETRY_PREFIX)).otherwise(len(DLQ_PREFIX))
    origin = f.coalesce(
        f.col("properties")[properties.RETRY_TOPIC], f.col("properties")[properties.DLQ_ORIGIN_TOPIC], f.lit("")
    )
    chosen = messages.where(topic.isin(*topics) & f.col(CORRUPT).isNull()).select(
        f.substr(topic, length + 1).alias("group"),
        origin.alias("topic"),
        again.alias("again"),
        "reconsume_times",
        "store_timestamp",
    )
    return (
        chosen.groupBy("group", "topic")
        .agg(
            f.count_if("again").alias("retries"),
            f.count_if(~f.col("again")).alias("dead"),
            f.max("reconsume_times").alias("most_times"),
            f.min("store_timestamp").alias("first_stored"),
            f.max("store_timestamp").alias("last_stored"),
        )
        .orderBy(f.desc("dead"), f.desc("retries"), "group", "topic")
    )


def corrupt(rows: DataFrame) -> DataFrame:
    """One row a damaged region, see L{smartgo.spark.columns.CORRUPT}."""
    return rows.where(f.col(CORRUPT).isNotNull()).select("store", f"{CORRUPT}.*").orderBy("store", "offset")


COLUMNS: Final = (
    *("store", "topic", "queue_id", "tags", "keys", "body_size", "size", "reconsume_times", "born_timestamp"),
    *("store_timestamp", CORRUPT),
)
"""What L{narrow} needs of a message."""
RETRY_COLUMNS: Final = ("topic", "properties", "reconsume_times", "store_timestamp", CORRUPT)
"""What L{retries} needs."""
TABLES: Final[Mapping[str, Callable[[DataFrame], DataFrame]]] = {
    "totals": totals,
    "by_store": by_store,
    "by_topic": by_topic,
    "by_tag": by_tag,
    "by_hour": by_hour,
    "sizes": sizes,
    "lags": lags,
}
"""The tables that need nothing but the narrow messages, by name."""


def width_of(seconds: float, columns: int = 120) -> int:
    """Return how many seconds a column of a chart over so much time stands for, so that there are few enough."""
    for width in WIDTHS:
        if seconds / width <= columns:
            return width
    return WIDTHS[-1]


def _by_time(rows: DataFrame, width: int, *others: str) -> GroupedData:
    at = f.timestamp_seconds(f.floor(f.unix_seconds("stored") / width) * width).alias("at")
    return rows.groupBy(*others, at)


def _sums() -> list[Column]:
    return [
        f.count("*").alias("messages"),
        _bytes(),
        f.coalesce(f.sum("body_bytes"), f.lit(0)).alias("body_bytes"),
        f.min("stored").alias("first_stored"),
        f.max("stored").alias("last_stored"),
    ]


def _bytes() -> Column:
    return f.coalesce(f.sum("bytes"), f.lit(0)).alias("bytes")


def _lags(lag: Column) -> list[Column]:
    """Columns C{lag_p50} and so on, and C{lag_max}, in ms."""
    found = [f.percentile_approx(lag, part, _ACCURACY).alias(f"lag_{name}") for name, part in PERCENTILES.items()]
    return [*found, f.max(lag).alias("lag_max")]
