"""Files and directories wherever Spark's Hadoop can write to."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


def file_system(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """Return Hadoop's file system of a path, and the path in its terms."""
    jvm: Any = spark._jvm
    where = jvm.org.apache.hadoop.fs.Path(path)
    return where.getFileSystem(spark._jsc.hadoopConfiguration()), where


def write_file(spark: SparkSession, path: str, data: bytes) -> None:
    """Write a file, in place of one that is there."""
    files, where = file_system(spark, path)
    files.setWriteChecksum(False)
    stream = files.create(where, True)
    stream.write(bytearray(data))
    stream.close()


def names_in(spark: SparkSession, path: str) -> list[str]:
    """Return the names of what is in a directory; none where there is no such directory."""
    files, where = file_system(spark, path)
    if not files.exists(where):
        return []
    return sorted(status.getPath().getName() for status in files.listStatus(where))
