"""
Tests of L{tests.parts}.

Every test module belongs to one part, C{tox} or an environment that is run by hand runs it, and few failed tests are
run once more.
"""

from __future__ import annotations

import configparser
import io
import os
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests import parts
from tests.parts import (
    BY_HAND,
    FEW,
    GATES,
    MEASURED,
    PARTS,
    SELECTED,
    Ended,
    asked,
    command,
    environment,
    failed_tests,
    modules,
    part_of,
    run,
    run_again,
    tests_of,
)

ROOT = Path(__file__).parents[1]
TOX = ROOT / "tox.ini"

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
        """A name asks for a part and for those whose names begin with it; tests stand alone."""
        self.assertEqual(set(asked(["interop"])), {"interop-replication", "interop-tools", "interop"})
        self.assertEqual(asked(["interop-tools", "interop"])[0], "interop-tools")
        self.assertEqual(asked(["spark", "tests.store", "spark"]), ["spark", "tests.store"])
        self.assertRaises(ValueError, asked, ["inter"])

    def test_default(self) -> None:
        """Nothing asks for what tox runs: all but the parts that are run by hand, what is selected, and the gates."""
        self.assertEqual(set(asked([])), (set(PARTS) - BY_HAND) | set(SELECTED) | set(GATES))
        self.assertLess(BY_HAND, set(PARTS))

    def test_whole(self) -> None:
        """The whole is every part once, without the selected tests of parts that are in it."""
        self.assertEqual(set(asked([], whole=True)), set(PARTS) | {"pure-broker", "pure-store"} | set(GATES))

    def test_measured(self) -> None:
        """Coverage is measured in some parts, and of tests that are asked for by name."""
        self.assertLessEqual(MEASURED, {*PARTS, *SELECTED})
        for part in (*PARTS, *SELECTED, *GATES, "tests.store"):
            with_coverage = part in MEASURED or part == "tests.store"
            self.assertEqual("coverage" in command(part, coverage=True), with_coverage, part)
            self.assertNotIn("coverage", command(part, coverage=False))

    def test_pure(self) -> None:
        """The pure parts do without the compiled core, and no other does."""
        self.patch(os, "environ", {"HOME": "/"})
        for part in (*PARTS, *SELECTED, *GATES, "tests.store"):
            pure = environment(part).get("SMARTGO_PURE")
            self.assertEqual(pure, "1" if part in ("pure-broker", "pure-store") else None, part)
        self.assertEqual(environment("pure-store")["HOME"], "/")

    def test_ports(self) -> None:
        """Each part has ports of its own, unless somebody chose them."""
        self.patch(os, "environ", {})
        ports = [int(environment(part)["SMARTGO_INTEROP_PORTS"]) for part in (*PARTS, *SELECTED, *GATES)]
        self.assertEqual(len({port // 200 for port in ports}), len(ports))
        self.assertLess(max(ports) + 200, 32768)
        self.patch(os, "environ", {"SMARTGO_INTEROP_PORTS": "9"})
        self.assertEqual(environment("unit")["SMARTGO_INTEROP_PORTS"], "9")


class SelectedTests(SynchronousTestCase):
    """The tests that stand for parts which are run by hand."""

    def test_there(self) -> None:
        """Each name is that of test modules, of a class, or of a test."""
        for name in (name for part in SELECTED for name in tests_of(part)):
            if any(module == name or module.startswith(f"{name}.") for module in modules()):
                continue
            module = max((one for one in modules() if name.startswith(f"{one}.")), key=len)
            test_class, _, method = name.removeprefix(f"{module}.").partition(".")
            text = (ROOT / f"{module.replace('.', '/')}.py").read_text("utf-8")
            self.assertRegex(text, rf"\nclass {test_class}\(", name)
            self.assertRegex(text, rf"def {method or 'test_'}", name)

    def test_smoke(self) -> None:
        """Each part that is run by hand, those of one first word together, has some of its tests in a smoke part."""
        kinds = {part.partition("-")[0] for part in BY_HAND}
        self.assertEqual({f"smoke-{kind}" for kind in kinds}, {part for part in SELECTED if part.startswith("smoke-")})
        for kind in kinds:
            for name in SELECTED[f"smoke-{kind}"]:
                self.assertEqual(part_of(name).partition("-")[0], kind, name)


class EnvironmentTests(SynchronousTestCase):
    """The environments of C{tox.ini}."""

    def setUp(self) -> None:
        self.tox = configparser.ConfigParser(interpolation=None)
        self.tox.read(TOX, "utf-8")

    def run_by(self, name: str) -> set[str]:
        """Return the modules that an environment runs, all of each."""
        commands = self.tox[f"testenv:{name}"]["commands"]
        (arguments,) = re.findall(r"-m (?:tests\.parts|twisted\.trial)((?: [\w{-].*)?)$", commands, re.MULTILINE)
        words = shlex.split(re.sub(r"\{posargs:?(.*)\}", r"\1", arguments))
        chosen = asked([word for word in words if not word.startswith("--")], whole="--whole" in words)
        names = [one for part in chosen if part not in SELECTED and part not in GATES for one in tests_of(part)]
        return {one for one in modules() if any(one == name or one.startswith(f"{name}.") for name in names)}

    def test_nothing_lost(self) -> None:
        """What tox runs and what the environments of the parts by hand run are all test modules together."""
        ran = self.run_by("tests")
        self.assertEqual(ran, {module for module in modules() if part_of(module) not in BY_HAND})
        for name in {part.partition("-")[0] for part in BY_HAND}:
            ran |= self.run_by(name)
        self.assertEqual(ran, set(modules()))
        self.assertEqual(self.run_by("whole"), set(modules()))

    def test_listed(self) -> None:
        """The top of C{tox.ini} lists what C{tox} does not run; C{CONTRIBUTING.md} the parts that are run by hand."""
        usual = {name.strip() for name in self.tox["tox"]["env_list"].split(",")}
        there = {name.removeprefix("testenv:") for name in self.tox.sections() if name.startswith("testenv:")}
        top = TOX.read_text("utf-8").partition("[tox]")[0]
        self.assertEqual(set(re.findall(r"tox -e ([\w-]+)", top)) - {"tests"}, there - usual)
        guide = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
        by_hand = {"whole", *(part.partition("-")[0] for part in BY_HAND)}
        self.assertLessEqual(by_hand, set(re.findall(r"tox -e ([\w-]+)", guide)))


class GateTests(SynchronousTestCase):
    """Gates that are no tests."""

    def test_stops(self) -> None:
        """A gate fails with the first of its lines that fails, and runs no more of them."""
        self.patch(parts, "GATES", {"types": ("echo one; {python} -c 'raise SystemExit(3)'", "echo two {folder}")})
        ended = run("types", coverage=True)
        self.assertEqual((ended.status, ended.output), (3, "one\n"))

    def test_folder(self) -> None:
        """A gate has a folder of its own."""
        self.patch(parts, "GATES", {"types": ("echo {folder}",)})
        self.assertEqual(run("types", coverage=False).output, "_trial_temp.types\n")

    def test_counted(self) -> None:
        """The summary of continuous integration counts each gate."""
        (names,) = re.findall(r"\^part \(\?:(.*?)\)", (ROOT / ".ci" / "summary.py").read_text("utf-8"))
        self.assertEqual(set(names.split("|")), set(GATES))


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
