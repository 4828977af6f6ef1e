"""C{spark.readStream.format("smartgo")}: the skin between Spark's streams and L{smartgo.spark.storefollower}."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from smartgo.spark.columns import check_columns, renamed
from smartgo.spark.conditions import of_options
from smartgo.spark.options import Position, ReadOptions
from smartgo.spark.storefollower import StoreFollower, check_stream
from smartgo.spark.tables import read_part
from smartgo.spark.versions import ReadAllAvailable, ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the table C{messages} as it grows."""

    def __init__(self, columns: pa.Schema, options: ReadOptions) -> None:
        """
        @param columns: those asked for.
        @raise SettingError: an option has no meaning for a stream.
        """
        check_stream(options)
        self._asked = columns
        self._columns = check_columns(columns, "messages", options.corrupt_column)
        self._options = options
        self._following = StoreFollower(options)
        # Where a micro-batch begins is in its offsets; only where to begin in single queues is left to say. The
        # ConsumeQueues of a store that is written to are behind its log.
        beginning = options.starting if options.starting.by_queue else Position("earliest")
        self._read_options = dataclasses.replace(options, starting=beginning, use_queues=False)
        self._conditions = of_options(self._read_options)

    def initialOffset(self) -> dict[str, Any]:
        """Return where a new query begins."""
        return self._following.initial()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit that the options name."""
        most = self._options.max_bytes_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxBytes(most)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return where the next micro-batch ends."""
        return self._following.latest(start, limit.max_bytes if isinstance(limit, ReadMaxBytes) else None)

    def reportLatestOffset(self) -> dict[str, Any]:
        """Return how far the logs go, for the progress report."""
        return self._following.reached()

    def prepareForTriggerAvailableNow(self) -> None:
        """Read what there is now, and then end."""
        self._following.stop_at_the_end()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Cut a micro-batch into ranges."""
        return [InputPartition(one) for one in self._following.ranges(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one range. @raise DataLost: its file was removed meanwhile, and that is to be an error."""
        found = read_part(partition.value, self._columns, self._read_options, self._conditions)
        return renamed(found, self._asked)
