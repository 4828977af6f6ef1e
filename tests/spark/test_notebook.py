"""The notebook of the documentation does what it says."""

from __future__ import annotations

import os
import sys
from typing import Any
from unittest import SkipTest

from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import SettingError
from smartgo.spark.java import check_java
from tests import golden_store
from tests.spark.session import ROOT

NOTEBOOK = os.path.join(ROOT, "docs", "notebooks", "store.ipynb")
PATIENCE = 1200  # seconds for a cell


class NotebookTests(SynchronousTestCase):
    def setUp(self) -> None:
        """See that there is what the notebook needs."""
        if os.environ.get("SMARTGO_SPARK") == "0":
            raise SkipTest("SMARTGO_SPARK=0")
        try:
            check_java()
        except SettingError as error:
            raise SkipTest(str(error)) from None
        try:
            import ipykernel  # noqa: F401  # runs the cells
            import nbclient
            import nbformat
        except ImportError as error:
            raise SkipTest(f"{error.name} is not installed") from None
        self.client, self.format = nbclient, nbformat

    def test_runs(self) -> None:
        """Every cell runs on a real broker's store, and the last result is the number of its messages."""
        store = os.path.abspath(self.mktemp())
        manifest = golden_store.unpack("store-a", store)
        book = self.format.read(NOTEBOOK, as_version=4)
        self.assertEqual([cell for cell in book.cells if cell.cell_type == "code" and cell.outputs], [])
        environment = {
            **os.environ,
            "SMARTGO_STORE": store,
            "PYTHONPATH": os.pathsep.join([ROOT, *filter(None, [os.environ.get("PYTHONPATH")])]),
            "PYSPARK_PYTHON": sys.executable,
        }
        runner = self.client.NotebookClient(
            book,
            timeout=PATIENCE,
            startup_timeout=PATIENCE,
            kernel_name="python3",
            resources={"metadata": {"path": os.path.dirname(store)}},
        )
        runner.execute(env=environment)
        results = [result(cell) for cell in book.cells if cell.cell_type == "code"]
        self.assertIn(str(len(manifest["messages"])), results)
        table = next(text for text in results if "messages" in text and "Plain" in text)
        self.assertIn("440", table)


def result(cell: Any) -> str:
    """Return what a cell printed or returned, as text."""
    texts = []
    for output in cell.outputs:
        if output.output_type == "stream" and output.name == "stdout":
            texts.append(output.text)
        elif output.output_type == "execute_result":
            texts.append(output.data["text/plain"])
    return "\n".join(texts)
