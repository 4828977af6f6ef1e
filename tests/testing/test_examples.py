"""The examples of docs/testing and docs/recipes: each suite of C{docs/examples} runs as its readers run it."""

from __future__ import annotations

import os
import subprocess
import sys

from twisted.trial.unittest import SynchronousTestCase

from tests.test_layers import ROOT

EXAMPLES = os.path.join(ROOT, "docs", "examples")


class ExampleSuiteTests(SynchronousTestCase):
    """pytest, in a process of its own."""

    def run_suite(self, name: str, tests: int) -> None:
        """Run the tests of one example; all pass."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV_"))}
        environment |= {"PYTHONPATH": ROOT, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        plugins = ["-p", "smartgo.testing.pytestplugin", "-p", "no:cacheprovider"]
        done = subprocess.run(
            [sys.executable, "-B", "-m", "pytest", "-q", *plugins, "--rootdir", EXAMPLES, name],
            cwd=EXAMPLES, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False, timeout=300,
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn(f"{tests} passed", done.stdout)

    def test_fastapi(self) -> None:
        """A FastAPI service with producer and consumer."""
        self.run_suite("test_orders_service.py", 5)

    def test_worker(self) -> None:
        """A worker with retries and dead letters."""
        self.run_suite("test_worker.py", 3)

    def test_django(self) -> None:
        """A Django view and a management command."""
        self.run_suite("test_shop_django.py", 3)
