"""A Spark session that knows the source; Java is looked for first, as Spark's own words do not tell what is missing."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from smartgo.spark.java import check_java, is_submitted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_UNCHECKED: Final = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
"""Java options: Arrow does not check bounds and nulls each time that Spark reads a value, which Spark has checked."""
FAST: Final[Mapping[str, str]] = {
    "spark.driver.defaultJavaOptions": _UNCHECKED,
    "spark.executor.defaultJavaOptions": _UNCHECKED,
    "spark.python.unix.domain.socket.enabled": "true",
}
"""Settings with which batches reach Spark at less cost; only the start of a Java process looks at them."""


def session(master: str | None = None, **settings: object) -> SparkSession:
    """
    Return the session of this process, started if there is none, with C{format("smartgo")} registered.

    Workers run the interpreter that runs this, unless C{PYSPARK_PYTHON} names another. A session that is started here
    has the settings L{FAST}; one that is there already, or that C{spark-submit} started, keeps its own.

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
    if not is_submitted() and SparkSession.getActiveSession() is None:
        for name, setting in FAST.items():
            conf.setIfMissing(name, setting)
    builder = SparkSession.builder.config(conf=conf)
    for name, value in settings.items():
        builder = builder.config(name, str(value))
    spark = builder.getOrCreate()
    register(spark)
    return spark
