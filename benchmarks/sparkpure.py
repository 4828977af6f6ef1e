"""The Spark source as it is without the compiled core, in the session of the other, so that both can take turns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import patch

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from smartgo.spark import reader
from smartgo.spark.datasource import SmartgoDataSource

NAME = "smartgo_pure"


@contextmanager
def without_core() -> Iterator[None]:
    """Read by Python alone."""
    with patch.object(reader, "is_possible", lambda: False):
        yield


class PureDataSource(SmartgoDataSource):
    """The same source, without the core."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return NAME

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads the columns of C{schema}."""
        return PureReader(super().reader(schema))


class PureReader(DataSourceReader):
    """Reads as another reader does, without the core."""

    def __init__(self, other: DataSourceReader) -> None:
        self._other = other

    def partitions(self) -> Sequence[InputPartition]:
        """Cut the table into parts, a task each."""
        return self._other.partitions()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one part."""
        with without_core():  # and put it back: Spark uses a worker for several queries
            yield from self._other.read(partition)
