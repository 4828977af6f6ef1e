"""C{spark.read.format("smartgo").option("registry", ...)}: the skin between Spark's batch reads and this package."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from smartgo.errors import PeerRefused, SettingError
from smartgo.spark.network.cluster import Cluster
from smartgo.spark.network.networkoptions import NetworkOptions
from smartgo.spark.network.pulledrows import PulledRows
from smartgo.spark.network.pulling import RangePull
from smartgo.spark.network.queueranges import QueueRange, cut, ranges
from smartgo.spark.network.resolving import Resolver
from smartgo.spark.options import EARLIEST, LATEST


def check_batch(options: NetworkOptions) -> None:
    """
    Refuse options that have no meaning for a batch read.

    @raise SettingError: it names the option.
    """
    if options.starting.named == LATEST or LATEST in options.starting.offsets.values():
        raise SettingError("option startingOffsets: latest (-1) is for streams; a batch read would find nothing")
    if options.ending.named == EARLIEST or EARLIEST in options.ending.offsets.values():
        raise SettingError("option endingOffsets: a batch read that ends at the earliest offset (-2) finds nothing")
    for name, value in (("maxOffsetsPerTrigger", options.max_offsets), ("minOffsetsPerTrigger", options.min_offsets)):
        if value is not None:
            raise SettingError(f"option {name} is for streams")


def plan_batch(options: NetworkOptions, cluster: Cluster) -> list[QueueRange]:
    """
    Return the partitions of a batch read.

    @raise SettingError: the options name what is not there.
    @raise DataLost: a position lies outside of a queue, and that is to be an error.
    @raise CallFailed: a registry or a broker does not answer.
    """
    resolver = Resolver(options, cluster)
    queues = resolver.queues()
    resolver.check(queues)
    known = {}
    for queue, bound in resolver.bounds(queues).items():
        if isinstance(bound, PeerRefused):
            raise bound
        known[queue] = bound
    begins = resolver.offsets(options.starting, "startingOffsets", known)
    ends = resolver.offsets(options.ending, "endingOffsets", known)
    found = [replace(one, addresses=cluster.addresses(one.queue.broker)) for one in ranges(begins, ends)]
    return cut(found, options.min_partitions, options.max_records)


def read_range(part: QueueRange, columns: pa.Schema, options: NetworkOptions) -> Iterator[pa.RecordBatch]:
    """Pull one range and give it out in batches of exactly the columns asked for; see L{PulledRows} for errors."""
    return PulledRows(part, columns, options).batches(RangePull(part, options))


class NetworkBatchReader(DataSourceReader):
    """Reads topics once."""

    def __init__(self, columns: pa.Schema, options: NetworkOptions) -> None:
        """@raise SettingError: an option has no meaning for a batch read."""
        check_batch(options)
        self._columns = columns
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Ask brokers for the bounds of the queues, and cut what is to be read into partitions."""
        cluster = Cluster(self._options.access)
        try:
            return [InputPartition(part) for part in plan_batch(self._options, cluster)]
        finally:
            cluster.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one partition."""
        if partition.value is None:  # Spark makes a partition of its own where there is none
            return iter(())
        return read_range(partition.value, self._columns, self._options)
