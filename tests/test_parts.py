"""Tests of L{tests.parts}: every test module runs in exactly one part, and few failed tests are run once more."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence

from twisted.trial.unittest import SynchronousTestCase

from tests import parts
from tests.parts import FEW, PARTS, command, failed_tests, modules, part_of, run_again

RULE = "=" * 79
OUTPUT = f"""
{RULE}
[SKIPPED]
not here

tests.a.Skipped.test_x
{RULE}
[FAIL]
Traceback (most recent call last):
  ...
twisted.trial.unittest.FailTest: not equal

tests.b.Failed.test_x
tests.b.Failed.test_y
{RULE}
[ERROR]
builtins.ValueError: no

tests.b.Failed.test_x
{"-" * 79}
Ran 4 tests in 0.1s

FAILED (skips=1, failures=2, errors=1)
"""


class PartTests(SynchronousTestCase):
    """The table of parts."""

    def test_every_module(self) -> None:
        """The commands of all parts name every test module, each once."""
        named = [word for part in PARTS for word in command(part, coverage=False) if word.startswith("tests.")]
        self.assertEqual(sorted(named), modules())
        self.assertIn(__name__, modules())

    def test_longest(self) -> None:
        """The longest beginning of a name decides; what no part names is unit."""
        self.assertEqual(part_of("tests.ops.console.test_use"), "console")
        self.assertEqual(part_of("tests.ops.web.test_jobs"), "unit")
        self.assertEqual(part_of("tests.opsx.test_jobs"), "unit")

    def test_used(self) -> None:
        """No part is empty, and no beginning names nothing."""
        for part, begins in PARTS.items():
            for begin in begins:
                self.assertTrue(any(one.startswith(begin) for one in modules()), f"{part}: {begin}")


class AgainTests(SynchronousTestCase):
    """Tests that failed beside other parts run once more, alone."""

    def setUp(self) -> None:
        self.printed = io.StringIO()
        self.patch(sys, "stdout", self.printed)
        self.ran: list[tuple[str, Sequence[str]]] = []
        self.statuses: dict[str, int] = {}
        self.patch(parts, "run", self.run_part)

    def run_part(self, part: str, coverage: bool, tests: Sequence[str] = ()) -> tuple[str, int, float, str]:
        """Note what is run, and end as the test wants."""
        self.ran.append((part, tests))
        return part, self.statuses.get(part, 0), 0.1, ""

    def test_names(self) -> None:
        """The names of failed tests are read from what trial writes; those of skipped ones are not."""
        self.assertEqual(failed_tests(OUTPUT), ["tests.b.Failed.test_x", "tests.b.Failed.test_y"])

    def test_unnamed(self) -> None:
        """A part that ended before it could name a test is not run again."""
        self.assertIsNone(failed_tests("Segmentation fault"))
        self.assertIsNone(failed_tests(f"{RULE}\n[ERROR]\nImportError: no\n\nsomething else\n{'-' * 79}\n"))
        self.assertEqual(run_again({"unit": None}, False), set())
        self.assertEqual(self.ran, [])

    def test_passes(self) -> None:
        """A part whose failed tests pass alone has passed, and the tests are printed as unstable."""
        self.statuses["spark"] = 1
        self.assertEqual(run_again({"unit": ["tests.b.x"], "spark": ["tests.spark.y"]}, True), {"unit"})
        self.assertEqual(self.ran, [("unit", ["tests.b.x"]), ("spark", ["tests.spark.y"])])
        self.assertIn("unstable: tests.b.x\n", self.printed.getvalue())
        self.assertNotIn("unstable: tests.spark.y", self.printed.getvalue())

    def test_many(self) -> None:
        """Many failures are no accident: they stand."""
        self.assertEqual(run_again({"unit": [f"tests.b.{number}" for number in range(FEW + 1)]}, False), set())
        self.assertEqual(self.ran, [])
