"""
Differences between the versions of Spark that smartgo runs on, 4.1 to 4.3; no other module asks for Spark's version.

Since 4.2, Spark tells a Python stream where a micro-batch begins and how much it may take, and lets the stream say what
C{availableNow} is to read (C{pyspark.sql.streaming.datasource}). For 4.1 this module has stand-ins for these classes,
and L{stream_reader} puts L{WithoutLimits} before a reader that is written for 4.2.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyspark
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from smartgo.errors import SettingError

SPARK: Final = pyspark.__version__
"""The version of Spark, such as C{4.1.4}."""

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )

    HAS_READ_LIMITS = True
else:
    try:
        from pyspark.sql.streaming.datasource import (
            ReadAllAvailable,
            ReadLimit,
            ReadMaxBytes,
            ReadMaxRows,
            ReadMinRows,
            SupportsTriggerAvailableNow,
        )

        HAS_READ_LIMITS = True
    except ImportError:
        from smartgo.spark.readlimits import (
            ReadAllAvailable,
            ReadMaxBytes,
            ReadMaxRows,
            ReadMinRows,
            SupportsTriggerAvailableNow,
        )

        ReadLimit = object
        HAS_READ_LIMITS = False


__all__ = [
    "HAS_READ_LIMITS",
    "SPARK",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxRows",
    "ReadMinRows",
    "SupportsTriggerAvailableNow",
    "WithoutLimits",
    "arrow_schema",
    "stream_reader",
]

_NAMES_ZONE: Final = "timezone" in inspect.signature(to_arrow_schema).parameters


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return a schema in Arrow's types as Spark itself converts it, with timestamps in UTC."""
    return to_arrow_schema(schema, timezone="UTC") if _NAMES_ZONE else to_arrow_schema(schema)


def stream_reader(make: Callable[[], Any]) -> DataSourceStreamReader:
    """
    Return a reader for the Spark that runs.

    @param make: makes a reader with the methods of Spark 4.2; can be pickled.
    @raise SettingError: the reader limits its micro-batches, and this Spark cannot.
    """
    made: DataSourceStreamReader = make()
    return made if HAS_READ_LIMITS else WithoutLimits(make)


class WithoutLimits(DataSourceStreamReader):
    """
    A reader for Spark 4.1, which asks how far a stream goes without saying where it is.

    Each micro-batch takes all there is. Where the query goes on from a checkpoint, that place becomes known when the
    first micro-batch is planned, so data that is lost is noticed then.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        """
        @param make: makes a reader with the methods of Spark 4.2.
        @raise SettingError: the reader limits its micro-batches.
        """
        self._make = make
        self._inner = make()
        self._at: dict[str, Any] | None = None
        if self._inner.getDefaultReadLimit() != ReadAllAvailable():
            raise SettingError(
                "options that limit a micro-batch, such as maxBytesPerTrigger, need Spark 4.2 or newer, and this is"
                f" Spark {SPARK}"
            )

    def initialOffset(self) -> dict[str, Any]:
        """Return where a new query begins."""
        found: dict[str, Any] = self._inner.initialOffset()
        return found

    def latestOffset(self, *_: Any) -> dict[str, Any]:
        """Return where the next micro-batch ends: where the data ends now, its newest part included."""
        self._inner.prepareForTriggerAvailableNow()
        start = self._inner.initialOffset() if self._at is None else self._at
        found: dict[str, Any] = self._inner.latestOffset(start, ReadAllAvailable())
        return found

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Cut a micro-batch into ranges; the first time, check that the data still holds the place it begins at."""
        if self._at is None:
            self._make().latestOffset(start, ReadAllAvailable())
        self._at = end
        found: Sequence[InputPartition] = self._inner.partitions(start, end)
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one range."""
        found: Iterator[pa.RecordBatch] = self._inner.read(partition)
        return found

    def commit(self, end: dict[str, Any]) -> None:
        """Pass on that all before an offset was written."""
        self._inner.commit(end)

    def stop(self) -> None:
        """Pass on that the query ended."""
        self._inner.stop()
