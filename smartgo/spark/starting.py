"""A Spark session that knows the source; Java is looked for first, as Spark's own words do not tell what is missing."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from smartgo.spark.java import check_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session(master: str | None = None, **settings: object) -> SparkSession:
    """
    Return the session of this process, started if there is none, with C{format("smartgo")} registered.

    Workers run the interpreter that runs this, unless C{PYSPARK_PYTHON} names another.

    @param master: where to run, C{None} for what C{spark-submit} says, or C{local[*]}.
    @param settings: of the session, by Spark's names: C{session(**{"spark.sql.session.timeZone": "UTC"})}.
    @raise SettingError: there is no Java that Spark runs on; the sentence says what is needed.
    """
    check_java()
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    from smartgo.spark.datasource import register

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf()
    if master is not None or not conf.contains("spark.master"):
        conf.setMaster(master or "local[*]")
    builder = SparkSession.builder.config(conf=conf)
    for name, value in settings.items():
        builder = builder.config(name, str(value))
    spark = builder.getOrCreate()
    register(spark)
    return spark
