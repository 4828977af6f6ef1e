"""Tests of L{tests.parts}: every test module runs in exactly one part, and few failed tests are run once more."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence

from twisted.trial.unittest import SynchronousTestCase

from tests import parts
from tests.parts import FEW, MEASURED, PARTS, Ended, asked, command, failed_tests, modules, part_of, run, run_again

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
        self.assertEqual(part_of("tests.ops.web.test_jobs"), "unit-ops")
        self.assertEqual(part_of("tests.opsx.test_jobs"), "unit")

    def test_used(self) -> None:
        """No part is empty, and no beginning names nothing."""
        for part, begins in PARTS.items():
            for begin in begins:
                self.assertTrue(any(one.startswith(begin) for one in modules()), f"{part}: {begin}")

    def test_asked(self) -> None:
        """A name asks for a part and for those whose names begin with it; nothing asks for all; tests stand alone."""
        self.assertEqual(asked(["interop"]), ["interop-replication", "interop-tools", "interop"])
        self.assertEqual(asked(["interop-tools", "interop"])[0], "interop-tools")
        self.assertEqual(asked(["spark", "tests.store", "spark"]), ["spark", "tests.store"])
        self.assertEqual(asked([]), list(PARTS))
        self.assertRaises(ValueError, asked, ["inter"])

    def test_measured(self) -> None:
        """Coverage is measured in some parts, and of tests that are asked for by name."""
        self.assertLessEqual(MEASURED, set(PARTS))
        for part in (*PARTS, "tests.store"):
            with_coverage = part in MEASURED or part not in PARTS
            self.assertEqual("coverage" in command(part, coverage=True), with_coverage, part)
            self.assertNotIn("coverage", command(part, coverage=False))


class RunTests(SynchronousTestCase):
    """One part as a process."""

    def run_code(self, code: str) -> Ended:
        """Run Python code in the place of a part."""
        self.patch(parts, "command", lambda *_: [sys.executable, "-c", code])
        return run("unit", coverage=False)

    def test_ended(self) -> None:
        """The exit status, all output, and the processor time, that of the part's own children included."""
        burn = "import time\nwhile time.process_time() < 0.3: pass"
        child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}])"
        ended = self.run_code(f"{child}; print('out'); print('error', file=sys.stderr); sys.exit(3)")
        self.assertEqual((ended.part, ended.status), ("unit", 3))
        self.assertEqual(sorted(ended.output.split()), ["error", "out"])
        self.assertGreaterEqual(ended.processor, 0.3)

    def test_killed(self) -> None:
        """A part that a signal ended has failed."""
        self.assertEqual(self.run_code("import os; os.kill(os.getpid(), 9)").status, -9)


class AgainTests(SynchronousTestCase):
    """Tests that failed beside other parts run once more, alone."""

    def setUp(self) -> None:
        self.printed = io.StringIO()
        self.patch(sys, "stdout", self.printed)
        self.ran: list[tuple[str, Sequence[str]]] = []
        self.statuses: dict[str, int] = {}
        self.patch(parts, "run", self.run_part)

    def run_part(self, part: str, coverage: bool, tests: Sequence[str] = ()) -> Ended:
        """Note what is run, and end as the test wants."""
        self.ran.append((part, tests))
        return Ended(part, self.statuses.get(part, 0), 0.1, 0.1, "")

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
