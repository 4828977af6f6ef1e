"""The examples of docs/testing and docs/recipes: each suite of C{docs/examples} runs as its readers run it."""

from __future__ import annotations

import os
import subprocess
import sys

from twisted.trial.unittest import SynchronousTestCase

from tests.test_layers import ROOT

EXAMPLES = os.path.join(ROOT, "docs", "examples")

LATE_RETRIES = """
import pytest


@pytest.fixture(autouse=True)
def late_retries(smartgo_broker):
    smartgo_broker.faults.delay(0.2, "retry", count=None)
"""
"""A plugin of pytest with which the broker takes back the messages of consumers 0.2 s late."""


class ExampleSuiteTests(SynchronousTestCase):
    """pytest, in a process of its own."""

    def run_suite(self, name: str, tests: int, times: int = 1, plugin: str = "") -> None:
        """
        Run the tests of one example; all pass.

        @param times: runs of each test, all with one broker.
        @param plugin: the text of a plugin of pytest.
        """
        plugins_directory = self.mktemp()
        os.mkdir(plugins_directory)
        with open(os.path.join(plugins_directory, "of_this_test.py"), "w", encoding="utf-8") as file:
            file.write(plugin)
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV_"))}
        environment |= {
            "PYTHONPATH": os.pathsep.join((ROOT, os.path.abspath(plugins_directory))),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        }
        plugins = ["-p", "smartgo.testing.pytestplugin", "-p", "of_this_test", "-p", "no:cacheprovider"]
        plugins.append("--keep-duplicates")  # else pytest runs a file once, however often it is named
        done = subprocess.run(
            [sys.executable, "-B", "-m", "pytest", "-q", *plugins, "--rootdir", EXAMPLES, *[name] * times],
            cwd=EXAMPLES, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False, timeout=300,
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn(f"{tests} passed", done.stdout)

    def test_fastapi(self) -> None:
        """A FastAPI service with producer and consumer."""
        self.run_suite("test_orders_service.py", 5)

    def test_worker(self) -> None:
        """A worker with retries and dead letters: its tests pass twice with one broker, however late retries come."""
        self.run_suite("test_worker.py", 6, times=2, plugin=LATE_RETRIES)

    def test_django(self) -> None:
        """A Django view and a management command."""
        self.run_suite("test_shop_django.py", 3)
