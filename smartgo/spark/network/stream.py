"""The skin between Spark's streams and L{SparkTopicFollower}: C{readStream.format("smartgo")} with C{registry}."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from smartgo.spark.network.batch import read_range
from smartgo.spark.network.networkoptions import NetworkOptions
from smartgo.spark.network.offsetforms import as_json, from_json
from smartgo.spark.network.topicfollower import SparkTopicFollower, check_network_stream
from smartgo.spark.versions import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow


class NetworkStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads topics as messages come."""

    def __init__(self, columns: pa.Schema, options: NetworkOptions) -> None:
        """@raise SettingError: an option has no meaning for a stream."""
        check_network_stream(options)
        self._columns = columns
        self._options = options
        self._opened: SparkTopicFollower | None = None

    @property
    def _follower(self) -> SparkTopicFollower:
        if self._opened is None:
            self._opened = SparkTopicFollower(self._options)
        return self._opened

    def __getstate__(self) -> dict[str, Any]:
        """Leave the connections behind: tasks open their own."""
        return {**self.__dict__, "_opened": None}

    def initialOffset(self) -> dict[str, Any]:
        """Return where a new query begins."""
        return as_json(self._follower.initial())

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the limit that the options name."""
        most = self._options.max_offsets
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return where the next micro-batch ends."""
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return as_json(self._follower.latest(from_json(start), most))

    def reportLatestOffset(self) -> dict[str, Any]:
        """Return how far the queues go, for the progress report."""
        return as_json(self._follower.reached())

    def prepareForTriggerAvailableNow(self) -> None:
        """Read what there is now, and then end."""
        self._follower.stop_at_the_end()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Cut a micro-batch into ranges."""
        return [InputPartition(one) for one in self._follower.ranges(from_json(start), from_json(end))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one range."""
        return read_range(partition.value, self._columns, self._options)

    def commit(self, end: dict[str, Any]) -> None:
        """Commit the group's offsets: all before them was written."""
        self._follower.commit(from_json(end))

    def stop(self) -> None:
        """Close the connections."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()
