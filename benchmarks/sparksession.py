"""The Spark session of the benchmarks: two cores, quiet, with the settings of C{smartgo.spark.session}."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any


def start(folder: Path, memory: str = "3g") -> Any:
    """
    Start Spark.

    @param folder: for its temporary files.
    @param memory: the limit of Java's heap.
    """
    import smartgo.spark

    from .sparkpure import PureDataSource

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[1])
    spark = smartgo.spark.session(
        "local[2]",
        **{
            "spark.app.name": "smartgo benchmark",
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": memory,
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.session.timeZone": "UTC",
            "spark.local.dir": str(folder),
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "ERROR",
        },
    )
    spark.dataSource.register(PureDataSource)
    return spark
