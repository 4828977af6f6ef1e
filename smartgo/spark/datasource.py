"""C{spark.read.format("smartgo")}: the skin between Spark's data source interface and L{smartgo.spark.reader}."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from smartgo.spark.columns import check_columns, table_schema
from smartgo.spark.options import ReadOptions, parse
from smartgo.spark.reader import read_messages


def register(spark: SparkSession) -> None:
    """Make C{format("smartgo")} known to a session, and let Spark push filters down to it."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(SmartgoDataSource)


class SmartgoDataSource(DataSource):
    """The files of a message store, see C{docs/spark.rst}."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "smartgo"

    def schema(self) -> StructType:
        """Return all columns of the table that the options name."""
        options = parse(self.options)
        return from_arrow_schema(table_schema(options.table, options.corrupt_column), prefer_timestamp_ntz=False)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads the columns of C{schema}."""
        options = parse(self.options)
        columns = to_arrow_schema(schema, timezone="UTC")
        check_columns(columns, options.table, options.corrupt_column)
        return MessagesReader(columns, options)


class MessagesReader(DataSourceReader):
    """Reads the table C{messages}."""

    def __init__(self, columns: pa.Schema, options: ReadOptions) -> None:
        self._columns = columns
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Cut the logs into ranges."""
        raise NotImplementedError

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one range."""
        return read_messages(partition.value, self._columns, self._options)
