"""C{spark.read.format("smartgo")}: Spark's data source interface on L{smartgo.spark.reader}."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from smartgo.errors import SettingError
from smartgo.spark import catalog, pushdown
from smartgo.spark.columns import check_columns, renamed, table_schema
from smartgo.spark.conditions import of_options
from smartgo.spark.network.networkoptions import is_network, parse_network
from smartgo.spark.options import EARLIEST, LATEST, ReadOptions, parse
from smartgo.spark.stores import find_stores
from smartgo.spark.tables import plan_table, read_part
from smartgo.spark.versions import arrow_schema, stream_reader


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
        given = catalog.own_options(self.options)
        if is_network(given):
            if catalog.is_table(self.options):  # Spark makes up a path for a table of the catalog
                given = {name: text for name, text in given.items() if name != "path"}
            columns = _schema(table_schema("messages", parse_network(given).corrupt_column))
        else:
            options = parse(given)
            known = table_schema(options.table, options.corrupt_column)
            chosen = known.names if options.columns is None else options.columns
            columns = _schema(pa.schema([known.field(name) for name in chosen]))
        return catalog.remember(columns, given) if catalog.is_table(self.options) else columns

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads the columns of C{schema}."""
        given = catalog.options_of_table(self.options, schema)
        if is_network(given):
            from smartgo.spark.network.batch import NetworkBatchReader  # only its users pay for ssl and the like

            network = parse_network(given)
            columns = check_columns(arrow_schema(schema), "messages", network.corrupt_column)
            return _renaming(NetworkBatchReader(columns, network), columns, schema)
        options = parse(given)
        _check_batch(options)
        columns = check_columns(arrow_schema(schema), options.table, options.corrupt_column)
        reader = FilteringReader(columns, options) if options.filter_pushdown else BatchReader(columns, options)
        return _renaming(reader, columns, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return what reads the columns of C{schema} as messages come."""
        given = catalog.options_of_table(self.options, schema)
        if is_network(given):
            from smartgo.spark.network.stream import NetworkStreamReader

            network = parse_network(given)
            columns = check_columns(arrow_schema(schema), "messages", network.corrupt_column)
            if columns.names != schema.names:
                raise SettingError(f"a stream from brokers needs the names of its columns as here: {columns.names}")
            return stream_reader(partial(NetworkStreamReader, columns, network))
        from smartgo.spark.stream import StreamReader

        return stream_reader(partial(StreamReader, arrow_schema(schema), parse(given)))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return what sends a table."""
        from smartgo.spark.sink import Writer  # needs the client, and so Twisted

        return Writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """Return what sends the micro-batches of a stream."""
        from smartgo.spark.sink import StreamWriter

        return StreamWriter(self.options, schema, overwrite)


def _schema(columns: pa.Schema) -> StructType:
    return from_arrow_schema(columns, prefer_timestamp_ntz=False)


def _check_batch(options: ReadOptions) -> None:
    if options.starting.named == "latest":
        raise SettingError("option startingOffsets: latest is for streams; a batch read would find nothing")
    for (topic, queue_id), offset in options.starting.by_queue.items():
        if offset == LATEST:
            raise SettingError(
                f"option startingOffsets: a batch read that begins at the end (-1) of topic {topic}, queue {queue_id},"
                " finds nothing there; give an offset"
            )
    if options.ending.named == "earliest" or EARLIEST in options.ending.by_queue.values():
        raise SettingError("option endingOffsets: a batch read that ends at the earliest offset finds nothing")


class BatchReader(DataSourceReader):
    """Reads a table once."""

    def __init__(self, columns: pa.Schema, options: ReadOptions) -> None:
        self._columns = columns
        self._options = options
        self._conditions = of_options(options)

    def partitions(self) -> Sequence[InputPartition]:
        """Cut the table into parts, a task each."""
        stores = find_stores(self._options.paths)
        return [InputPartition(part) for part in plan_table(stores, self._options, self._conditions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one part."""
        if partition.value is None:  # Spark makes a partition of its own where there is none
            return iter(())
        return read_part(partition.value, self._columns, self._options, self._conditions)


class RenamingReader(DataSourceReader):
    """Gives out the columns of another reader under other names."""

    def __init__(self, reader: DataSourceReader, asked: pa.Schema) -> None:
        self._reader = reader
        self._asked = asked

    def partitions(self) -> Sequence[InputPartition]:
        """Cut the table into parts, a task each."""
        return self._reader.partitions()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one part."""
        return renamed(self._reader.read(partition), self._asked)


def _renaming(reader: DataSourceReader, columns: pa.Schema, schema: StructType) -> DataSourceReader:
    return reader if columns.names == schema.names else RenamingReader(reader, arrow_schema(schema))


class FilteringReader(BatchReader):
    """
    Takes filters from Spark; the session must have C{spark.sql.python.filterPushdown.enabled} set.

    Spark 4.3 has one plan for each C{load}, that of the last filters pushed: what the same frame is asked later without
    a filter, or elsewhere in the same query, gets the rows of those filters alone. Hence not by default.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Use filters to skip rows early; Spark applies them as well."""
        self._conditions = pushdown.take(self._conditions, filters)
        return filters
