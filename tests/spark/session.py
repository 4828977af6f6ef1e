"""
One local Spark for all tests of a process, started by the first that needs it.

Without Java 17 the tests that need it are skipped, by a reason that says so; C{SMARTGO_SPARK=0} skips them too.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from functools import lru_cache
from typing import Any
from unittest import SkipTest

from twisted.internet import reactor
from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import SettingError

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@lru_cache(maxsize=1)
def session() -> Any:
    """
    Return the session, with C{format("smartgo")} registered: C{local[2]}, no user interface, UTC.

    @raise SkipTest: Spark cannot run here.
    """
    if os.environ.get("SMARTGO_SPARK") == "0":
        raise SkipTest("SMARTGO_SPARK=0")
    try:
        import pyspark  # noqa: F401  # that it is there

        import smartgo.spark
        from smartgo.spark.java import check_java
    except ImportError as error:
        raise SkipTest(f"the extra [spark] is not installed: {error}") from None
    try:
        check_java()
    except SettingError as error:
        raise SkipTest(str(error)) from None
    folder = tempfile.mkdtemp(prefix="smartgo-spark-")
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    paths = [ROOT, *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)  # for the workers: trial is run from the checkout
    settings = {
        "spark.app.name": "smartgo tests",
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.local.dir": folder,
        "spark.sql.warehouse.dir": os.path.join(folder, "warehouse"),
        "spark.log.level": "OFF",
        "spark.ui.showConsoleProgress": "false",
    }
    spark = smartgo.spark.session("local[2]", **settings)

    def stop() -> None:
        spark.stop()
        gateway = spark.sparkContext._gateway
        if gateway is not None:
            gateway.shutdown()
        shutil.rmtree(folder, ignore_errors=True)

    reactor.addSystemEventTrigger("after", "shutdown", stop)
    return spark


class SparkTestCase(SynchronousTestCase):
    """
    A test that needs Spark.

    @ivar spark: the session.
    """

    spark: Any

    def setUp(self) -> None:
        """Wait for the session."""
        self.spark = session()
