"""Tests of L{smartgo.config.reference}."""

from __future__ import annotations

import io
import os
import re
import runpy
import sys
import warnings

from twisted.trial.unittest import SynchronousTestCase

from smartgo.config.catalog import settings_of
from smartgo.config.kinds import Duration, Size
from smartgo.config.known import NOT_BUILT
from smartgo.config.reference import tables
from smartgo.config.settings import TABLES

PAGE = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "configuration.rst")


class ReferenceTests(SynchronousTestCase):
    """The page of all settings."""

    def test_page(self) -> None:
        """The page holds the tables as the schema gives them now (C{python -m smartgo.config.reference})."""
        with open(PAGE, encoding="utf-8") as file:
            text = file.read()
        shown = text.split(".. settings begin\n")[1].split(".. settings end\n")[0]
        self.assertEqual(shown.strip(), tables().strip())

    def test_examples(self) -> None:
        """Every example of a size and of a duration is allowed."""
        kinds = [one.kind for table in TABLES for one in settings_of(table) if isinstance(one.kind, Size | Duration)]
        self.assertGreater(len(kinds), 10)
        for kind in kinds:
            examples = re.findall(r"[0-9]+(?:[a-zA-Z]+|$)|65536(?=,)", kind.allowed.partition(", such as ")[2])
            for one in examples:
                kind.read(one)

    def test_command(self) -> None:
        """The module, run as a program, prints the tables."""
        printed = io.StringIO()
        self.patch(sys, "stdout", printed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the module is imported already
            runpy.run_module("smartgo.config.reference", run_name="__main__")
        self.assertEqual(printed.getvalue(), tables() + "\n")

    def test_every_setting(self) -> None:
        """Every setting is there, with what it does, whether it has no effect yet, and its default."""
        text = tables()
        for table in TABLES:
            for setting in settings_of(table):
                self.assertIn(f"* - ``{setting.name}``", text)
                self.assertTrue(setting.kind.about.endswith("."), setting.name)
                self.assertEqual(setting.about.startswith("No effect yet. "), setting.name in NOT_BUILT, setting.name)
                self.assertNotIn("- ````", text)
