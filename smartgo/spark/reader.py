"""From a partition to Arrow batches: plain functions with no Spark in them."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from smartgo.spark.options import ReadOptions
from smartgo.spark.partitions import LogRange


def read_messages(part: LogRange, columns: pa.Schema, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """
    Read the records of a partition.

    @param columns: those asked for, in order; see L{smartgo.spark.columns.check_columns}.
    @return: batches of exactly these columns.
    """
    raise NotImplementedError
