"""
The tests in parts, by what they need, several parts side by side: C{python -m tests.parts [PART ...]}.

A part is one process of trial with a temporary directory and ports of its own. Most tests wait (for a JVM, a browser,
a process), so parts that run side by side take much less time than one after another. The output of a part is printed
when the part ends, whole. C{--coverage} measures branches in the parts L{MEASURED}, as C{tox} does: it doubles the
processor time of a test, and the other parts run hardly any line of the product's in their own process that these do
not run.

Tests that failed are run once more, alone, after all parts have ended, if they are few: at most L{FEW}. A test that
passes then is printed as "unstable: NAME", for somebody to mend; it does not fail the run, as a machine that is busy
with other parts is no fault of the product. A test that fails again fails the run.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

_ROOT: Final = Path(__file__).resolve().parents[1]
_PORTS: Final = 21000  # the first of 200 for the first part

PARTS: Final = {
    "unit": ("tests",),
    "interop-replication": ("tests.interop.test_ha", "tests.interop.test_registries"),
    "interop-tools": (
        "tests.interop.test_mqadmin", "tests.interop.test_mqadmin_sidebyside", "tests.interop.test_search",
    ),
    "unit-ops": ("tests.ops",),
    "console": ("tests.ops.console", "tests.scenarios"),
    "spark": ("tests.spark",),
    "interop": ("tests.interop",),
    "processes": (
        "tests.benchmarks", "tests.chaos", "tests.cli", "tests.client.test_cluster", "tests.deploy", "tests.node",
        "tests.testing",
    ),
    "unit-simulated": (
        "tests.broker.test_week", "tests.histories", "tests.ops.test_fuzz", "tests.packaging", "tests.sim",
        "tests.store.test_replicalog", "tests.test_layers", "tests.test_privatenames", "tests.test_spec",
        "tests.test_structure",
    ),
    "attack": ("tests.attack",),
}  # fmt: skip
"""
Modules by the beginning of their names, the longest that fits; the parts that take long come first.

A name such as C{interop} asks for the parts whose names begin with it, too: C{interop-tools}.
"""

MEASURED: Final = frozenset({"unit", "unit-ops", "processes", "spark"})
"""The parts whose tests run the product in their own process: elsewhere a measurement finds next to nothing new."""


def asked(names: Sequence[str]) -> list[str]:
    """
    Return the parts that names ask for, each once, and what else trial takes, such as C{tests.store}.

    @raise ValueError: a name is that of no part and of no test.
    """
    if not names:
        return list(PARTS)
    found: dict[str, None] = {}
    for name in names:
        parts = [part for part in PARTS if part == name or part.startswith(f"{name}-")]
        if not parts and name.partition(".")[0] != "tests":
            raise ValueError(f"there is no part {name}")
        found.update(dict.fromkeys(parts or [name]))
    return list(found)


def modules() -> list[str]:
    """Return the names of all test modules."""
    found = (path.relative_to(_ROOT).with_suffix("") for path in (_ROOT / "tests").rglob("test_*.py"))
    return sorted(".".join(path.parts) for path in found)


def part_of(module: str) -> str:
    """Return the part that a module belongs to."""
    fits = [
        (len(begin), part)
        for part, begins in PARTS.items()
        for begin in begins
        if module == begin or module.startswith(f"{begin}.")
    ]
    return max(fits)[1]


def command(part: str, coverage: bool, tests: Sequence[str] = ()) -> list[str]:
    """
    Return how a part is run.

    @param coverage: measure branches, unless the part is one that L{MEASURED} leaves out.
    @param part: its name, or what trial is to run in a part of its own, such as C{tests.store}.
    @param tests: those of its tests that are run; all by default.
    """
    measured = coverage and (part in MEASURED or part not in PARTS)
    runner = ["-m", "coverage", "run", "-m", "twisted.trial"] if measured else ["-m", "twisted.trial"]
    chosen = [module for module in modules() if part_of(module) == part] if part in PARTS else [part]
    if tests:
        chosen = list(tests)
    return [sys.executable, *runner, "--temp-directory", f"_trial_temp.{part}", *chosen]


FEW: Final = 5
"""How many failed tests are run again; more are no accident."""

_BLOCK: Final = re.compile(r"^\[(?:FAIL|ERROR)\]$(.*?)(?=^={70,}$|^-{70,}$)", re.MULTILINE | re.DOTALL)
_TEST: Final = re.compile(r"^tests\.[\w.]+$", re.MULTILINE)


def failed_tests(output: str) -> list[str] | None:
    """Return the names of the tests that failed, by what trial wrote; C{None} if a failure names no test."""
    named = [_TEST.findall(block) for block in _BLOCK.findall(output)]
    if not named or not all(named):
        return None
    return sorted({name for names in named for name in names})


class Ended(NamedTuple):
    """
    A part that has ended.

    @ivar status: its exit status, 0 if every test passed.
    @ivar seconds: that it took.
    @ivar processor: seconds of processor time, with those of the processes that it started and waited for.
    """

    part: str
    status: int
    seconds: float
    processor: float
    output: str


def run(part: str, coverage: bool, tests: Sequence[str] = ()) -> Ended:
    """
    Run a part and wait for its end.

    @param tests: those of its tests that are run; all by default.
    """
    begin = time.monotonic()
    ports = str(_PORTS + 200 * (list(PARTS).index(part) if part in PARTS else len(PARTS)))
    with subprocess.Popen(
        command(part, coverage, tests), cwd=_ROOT, env={"SMARTGO_INTEROP_PORTS": ports, **os.environ},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        output = process.stdout.read().decode("utf-8", "replace")
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - begin
    return Ended(part, process.returncode, seconds, used.ru_utime + used.ru_stime, output)


def run_again(failures: dict[str, list[str] | None], coverage: bool) -> set[str]:
    """
    Run failed tests once more, alone, and print which of them are unstable.

    @param failures: by part, the names of its failed tests; C{None} where they are not known.
    @return: the parts of which every failed test passes now.
    """
    if sum(len(tests or ()) for tests in failures.values()) > FEW:
        return set()
    mended = set()
    for part, tests in failures.items():
        if not tests:
            continue
        again = run(part, coverage, tests)
        sys.stdout.write(f"\n======== part {part}, failed tests alone\n{again.output}")
        if again.status == 0:
            mended.add(part)
            sys.stdout.writelines(f"unstable: {test}\n" for test in tests)
    return mended


def main() -> int:
    """Run the parts that are asked for; return 0 if all of them passed."""
    parser = argparse.ArgumentParser("python -m tests.parts", description="Run the tests, several parts side by side.")
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}, or what trial takes; all by default"
    )
    parser.add_argument("--jobs", type=int, default=4, help="how many parts at once (%(default)s)")
    parser.add_argument("--coverage", action="store_true", help="measure branch coverage, a file a process")
    given = parser.parse_args()
    try:
        chosen = asked(given.parts)
    except ValueError as error:
        parser.error(str(error))
    ended = []
    failures: dict[str, list[str] | None] = {}
    with ThreadPoolExecutor(given.jobs) as pool:
        for done in [pool.submit(run, part, given.coverage) for part in chosen]:
            one = done.result()
            ended.append(one)
            if one.status:
                failures[one.part] = failed_tests(one.output)
            sys.stdout.write(f"\n======== part {one.part}\n{one.output}")
            sys.stdout.flush()
    passed = {one.part for one in ended if one.status == 0} | run_again(failures, given.coverage)
    for one in ended:
        again = f", {len(failures[one.part] or ())} of its tests alone" if one.status and one.part in passed else ""
        result = "passed" if one.part in passed else "FAILED"
        took = f"{one.seconds:.0f} s, {one.processor:.0f} s of processor time"
        sys.stdout.write(f"part {one.part}: {result} in {took}{again}\n")
    return 0 if len(passed) == len(ended) else 1


if __name__ == "__main__":
    sys.exit(main())
