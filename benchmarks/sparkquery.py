"""
A Spark query that tails a store into Parquet files: the program that L{benchmarks.sparkstream} starts, kills and starts
again. Leads a process group of its own, with its JVM in it.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path

COLUMNS = (
    "topic string, queue_id int, queue_offset bigint, physical_offset bigint, unique_id string, body_size int, "
    "store_timestamp timestamp"
)


def main() -> None:
    """Run the query until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("store", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--trigger", default="1 second")
    given = parser.parse_args()
    os.setsid()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    import smartgo.spark

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.log.level", "ERROR")
        .config("spark.driver.memory", "1g")
        .getOrCreate()
    )
    smartgo.spark.register(spark)
    query = (
        spark.readStream.format("smartgo")
        .schema(COLUMNS)
        .load(str(given.store))
        .writeStream.format("parquet")
        .option("checkpointLocation", str(given.checkpoint))
        .trigger(processingTime=given.trigger)
        .start(str(given.out))
    )
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    while not asked and not query.awaitTermination(1):
        pass
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main()
