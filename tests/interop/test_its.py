"""RocketMQ's own integration tests (its module "test", 4.9.7), as published, against a cluster that runs."""

from __future__ import annotations

from unittest import SkipTest

from tests.interop.case import InteropCase
from tests.interop.jars import INTEGRATION_TESTS, Unavailable, java_command
from tests.interop.process import Process

_CONSUMER = "org.apache.rocketmq.test.client.consumer"


class IntegrationTests(InteropCase):
    """Classes of RocketMQ's test jar, run by JUnit; only their base class, which starts brokers, is ours."""

    def _pass(self, name: str, count: int) -> None:
        """Run a class; fail unless JUnit counts C{count} tests and no failure."""
        try:
            path = f"{INTEGRATION_TESTS.classes}:{INTEGRATION_TESTS.jars}/*"
        except Unavailable as error:
            raise SkipTest(f"RocketMQ's tests cannot run: {error}") from None
        cluster = self.shared()
        home = self.home
        flags = [
            "-Xmx224m",
            "-XX:TieredStopAtLevel=1",
            f"-Dinterop.namesrv={cluster.namesrv}",
            f"-Dinterop.cluster={cluster.broker.plan.cluster}",
            f"-Duser.home={home}",
            f"-Drocketmq.client.logRoot={home}/logs",
        ]
        command = java_command(*flags, "-cp", path, "org.junit.runner.JUnitCore", name)
        process = Process("junit", command, home)
        code = process.wait_ended(240)
        self.assertEqual(code, 0, process.tail)
        with open(process.log) as log:
            self.assertIn(f"\nOK ({count} tests)\n", log.read())

    def test_sql_filter(self) -> None:
        """SqlFilterIT passes: a push consumer and a pull consumer with an SQL92 filter."""
        self._pass(f"{_CONSUMER}.filter.SqlFilterIT", 2)
