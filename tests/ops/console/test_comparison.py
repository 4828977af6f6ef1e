"""The claims of docs/console-comparison.rst about this console."""

from __future__ import annotations

import os
import re
from typing import Final

from twisted.trial.unittest import SynchronousTestCase

HERE: Final = os.path.dirname(__file__)
PAGE: Final = os.path.join(HERE, "..", "..", "..", "docs", "console-comparison.rst")


def read(path: str) -> str:
    """A file's text."""
    with open(path, encoding="utf-8") as file:
        return file.read()


class ComparisonTests(SynchronousTestCase):
    """The column about smartgo."""

    def test_named(self) -> None:
        """Every "yes" names an existing test: a function in this folder, or a whole test module."""
        there = {"tests.ops.test_fuzz"}
        for name in os.listdir(HERE):
            if name.startswith("test_") and name.endswith(".py"):
                there |= {name.removesuffix(".py"), *re.findall(r"def (test_\w+)\(", read(os.path.join(HERE, name)))}
        rows = re.findall(r"^(\S.{39}) (\S.{32})  ?\S", read(PAGE), re.MULTILINE)
        said = [(feature.strip(), ours.strip()) for feature, ours in rows if ours.startswith("yes")]
        self.assertGreater(len(said), 45)
        for feature, ours in said:
            named = re.search(r"``([\w.]+)``", ours)
            if named is None:
                self.assertRegex(ours, r"^yes(: by hand, with 4\.9\.7 \[#\]_| \(each test\))$", feature)
            else:
                self.assertIn(named[1], there, feature)
