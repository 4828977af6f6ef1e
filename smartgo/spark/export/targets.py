"""
Tables that an export writes to: Parquet files, Delta Lake, Iceberg.

All of them are partitioned by topic and day, and note which micro-batches they hold: Parquet in C{_spark_metadata},
Delta and Iceberg in their logs. So a micro-batch that is run again after a kill is not stored twice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from smartgo.errors import SettingError

PARTITIONS: Final = ("topic", "day")
FORMATS: Final = ("parquet", "delta", "iceberg")

_PACKAGES: Final[Mapping[tuple[str, str], str]] = {
    ("delta", "4.1"): "io.delta:delta-spark_4.1_2.13:4.4.0",
    ("delta", "4.2"): "io.delta:delta-spark_4.2_2.13:4.4.0",
    ("iceberg", "4.1"): "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
}
"""The newest release of a table format that was tried on a version of Spark: docs/spark, "Versions of Spark"."""
_NAME: Final = re.compile(r"\w+(\.\w+)+")


def package_of(kind: str, spark: str) -> str | None:
    """
    Return the Maven coordinates of the jar that a format needs, C{None} for none.

    @param kind: one of L{FORMATS}.
    @param spark: version of Spark.
    @raise SettingError: no release of the format works on this version.
    """
    if kind == "parquet":
        return None
    version = ".".join(spark.split(".")[:2])
    if (kind, version) not in _PACKAGES:
        works = ", ".join(sorted(known for name, known in _PACKAGES if name == kind))
        raise SettingError(
            f"no release of {kind} that is known to smartgo works on Spark {spark}, but on {works}: pip install"
            f" 'pyspark=={works.split(', ')[-1]}.*', or name its jar with --packages"
        )
    return _PACKAGES[kind, version]


def settings_of(kind: str, target: str, warehouse: str | None) -> dict[str, str]:
    """
    Return the settings that a session needs for a format.

    @param warehouse: directory of Iceberg's tables where files are the catalog; C{None} where the session has one.
    """
    if kind == "delta":
        return {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        }
    if kind == "parquet":
        return {}
    found = {"spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"}
    if warehouse is not None:
        catalog = f"spark.sql.catalog.{target.partition('.')[0]}"
        found[catalog] = "org.apache.iceberg.spark.SparkCatalog"
        found[f"{catalog}.type"] = "hadoop"
        found[f"{catalog}.warehouse"] = warehouse
    return found


class ExportTable:
    """A table to write to."""

    def __init__(self, spark: SparkSession, kind: str, target: str, file_bytes: int) -> None:
        """
        @param kind: one of L{FORMATS}.
        @param target: a directory; of Iceberg the name of a table, C{CATALOG.DATABASE.TABLE}.
        @param file_bytes: how large a file is to be, about.
        @raise SettingError: C{target} is no name of a table.
        """
        if kind == "iceberg" and not _NAME.fullmatch(target):
            raise SettingError(f"{target} is not the name of an Iceberg table, such as lake.messages.orders")
        self.name = target
        self._spark = spark
        self._kind = kind
        self._file_bytes = file_bytes

    def begin(self, frame: DataFrame, bookmark: str) -> Any:
        """
        Start to write a stream; return Spark's query.

        @param bookmark: the query's checkpoint.
        """
        if self._kind == "iceberg":
            self._create(frame)
        writer: DataStreamWriter = frame.writeStream.format(self._kind)
        writer = writer.option("checkpointLocation", bookmark).trigger(availableNow=True)
        if self._kind == "iceberg":
            return writer.option("fanout-enabled", "true").toTable(self.name)
        return writer.partitionBy(*PARTITIONS).start(self.name)

    def read(self) -> DataFrame:
        """Return what is in the table now."""
        if self._kind == "iceberg":
            return self._spark.table(self.name)
        return self._spark.read.format(self._kind).load(self.name)

    def compact(self) -> None:
        """
        Join small files to files of the size asked for.

        @raise SettingError: the format cannot do that without readers noticing.
        """
        if self._kind == "delta":
            self._spark.conf.set("spark.databricks.delta.optimize.maxFileSize", str(self._file_bytes))
            self._spark.sql(f"OPTIMIZE delta.`{self.name}`").collect()
        elif self._kind == "iceberg":
            catalog, _, table = self.name.partition(".")
            options = f"map('target-file-size-bytes', '{self._file_bytes}')"
            call = f"CALL {catalog}.system.rewrite_data_files(table => '{table}', options => {options})"
            self._spark.sql(call).collect()
        else:
            raise SettingError("--compact is for delta and iceberg: files of plain Parquet cannot be replaced safely")

    def _create(self, frame: DataFrame) -> None:
        if self._spark.catalog.tableExists(self.name):
            return
        from pyspark.sql import functions as f

        empty = self._spark.createDataFrame([], frame.schema).writeTo(self.name).using("iceberg")
        empty = empty.tableProperty("write.target-file-size-bytes", str(self._file_bytes))
        empty.partitionedBy(*(f.col(name) for name in PARTITIONS)).create()
