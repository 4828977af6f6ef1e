"""
The tests in parts, by what they need, several parts side by side: C{python -m tests.parts [PART ...]}. So do the gates
that are no tests, each as a part.

A part is one process of trial with a temporary directory and ports of its own. Most tests wait (for a JVM, a browser,
a process), so parts that run side by side take much less time than one after another. The output of a part is printed
when the part ends, whole. C{--coverage} measures branches in the parts L{MEASURED}, as C{tox} does: it doubles the
processor time of a test, and the other parts run hardly any line of the product's in their own process that these do
not run.

The test command is to take less than 15 minutes on two cores. So the parts L{BY_HAND} run only when somebody asks for
them, and C{tox} runs their most telling tests instead (L{SELECTED}). The last lines say how much processor time each
part took, and all of them.

Tests that failed are run once more, alone, after all parts have ended, if they are few: at most L{FEW}. A test that
passes then is printed as "unstable: NAME", for somebody to mend; it does not fail the run, as a machine that is busy
with other parts is no fault of the product. A test that fails again fails the run.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

_ROOT: Final = Path(__file__).resolve().parents[1]
_PORTS: Final = 22000  # the first of 200 for the first part; the golden stores name ports below

PARTS: Final = {
    "unit": ("tests", "tests.interop.test_logs", "tests.interop.test_recorder"),
    "unit-broker": ("tests.broker",),
    "unit-store": ("tests.ha", "tests.remoting", "tests.store"),
    "unit-ops": ("tests.ops", "tests.ops.console.test_comparison", "tests.ops.console.test_files"),
    "processes": (
        "tests.benchmarks", "tests.chaos", "tests.cli", "tests.client.test_cluster", "tests.deploy", "tests.node",
        "tests.testing",
    ),
    "unit-simulated": (
        "tests.broker.test_week", "tests.histories", "tests.ops.test_fuzz", "tests.packaging", "tests.sim",
        "tests.store.test_replicalog", "tests.test_layers", "tests.test_privatenames", "tests.test_spec",
        "tests.test_structure",
    ),
    "interop": ("tests.interop",),
    "interop-replication": ("tests.interop.test_ha", "tests.interop.test_registries"),
    "interop-tools": (
        "tests.interop.test_mqadmin", "tests.interop.test_mqadmin_every", "tests.interop.test_mqadmin_sidebyside",
        "tests.interop.test_search",
    ),
    "console": ("tests.ops.console", "tests.scenarios"),
    "spark": (
        "tests.spark.export", "tests.spark.network.test_stream",
        "tests.spark.network.test_batch", "tests.spark.test_catalog", "tests.spark.test_damagedspark",
        "tests.spark.test_datasource",
        "tests.spark.test_gaps", "tests.spark.test_job", "tests.spark.test_notebook", "tests.spark.test_sink",
        "tests.spark.test_stream",
    ),
    "attack": ("tests.attack",),
}  # fmt: skip
"""
Modules by the beginning of their names, the longest that fits: each belongs to one part.

A name such as C{interop} asks for the parts whose names begin with it, too: C{interop-tools}.
"""

BY_HAND: Final = frozenset({"interop", "interop-replication", "interop-tools", "console", "spark", "attack"})
"""The parts that run only when they are asked for: by C{tox -e} with the first word of the name, or C{tox -e whole}."""

SELECTED: Final = {
    "smoke-interop": (
        "tests.interop.test_clients.Client49JsonTests.test_every_way_to_send",
        "tests.interop.test_clients.Client49JsonTests.test_orderly_members",
        "tests.interop.test_clients.Client53BinaryTests.test_every_way_to_send",
        "tests.interop.test_clients.Client53BinaryTests.test_concurrent_members",
        "tests.interop.test_clients.Client53BinaryTests.test_lite_pull",
        "tests.interop.test_mqadmin.MqadminTests.test_4_9",
        "tests.interop.test_mqadmin.MqadminTests.test_5_3",
        "tests.interop.test_transactions.TransactionTests.test_4_9",
        "tests.interop.test_kill.KillTests.test_kill",
        "tests.interop.test_stores.GoldenStoreTests.test_crash",
        "tests.interop.test_stores.BackTests.test_back",
        "tests.interop.test_ha.OurSlaveTests.test_followed",
        "tests.interop.test_ha.RealSlaveTests.test_followed",
    ),
    "smoke-console": (
        "tests.ops.console.test_many.ManyTests.test_cold",
        "tests.ops.console.test_pages.PagesTests.test_dead_letter",
        "tests.ops.console.test_pages.PagesTests.test_every_page",
        "tests.ops.console.test_pages.PagesTests.test_scripts_do_not_run",
        "tests.ops.console.test_pages.PagesTests.test_send_and_tail",
        "tests.ops.console.test_use.UseTests.test_keys",
        "tests.ops.console.test_use.UseTests.test_login",
        "tests.scenarios.test_members.KilledTests.test_master_without_slave",
    ),
    "smoke-spark": (
        "tests.spark.network.test_batch.BatchTests.test_topic",
        "tests.spark.test_catalog.CatalogTests.test_table",
        "tests.spark.test_datasource.BoundsTests",
        "tests.spark.test_datasource.GoldenTests.test_damage",
        "tests.spark.test_datasource.GoldenTests.test_manifest",
        "tests.spark.test_gaps.GapTests",
        "tests.spark.test_job.CommandTests",
        "tests.spark.test_sink.BrokerTests",
        "tests.spark.test_sink.SettingsTests",
        "tests.spark.test_sink.TaskTests",
        "tests.spark.test_stream.ReaderTests",
        "tests.spark.test_stream.StreamTests.test_exactly_once",
    ),
    "smoke-attack": (
        "tests.attack.test_attacks.ConnectionTests.test_storm",
        "tests.attack.test_attacks.ConnectionTests.test_unfinished",
        "tests.attack.test_attacks.RegistryTests.test_takeover",
        "tests.attack.test_attacks.RequestTests.test_mutated",
        "tests.attack.test_attacks.RequestTests.test_unread",
        "tests.attack.test_attacks.RestTests.test_bombs",
    ),
    "pure-broker": ("unit-broker",),
    "pure-store": ("unit-store", "tests.test_core"),
}  # fmt: skip
"""
Parts that run some tests of others: C{smoke} the most telling ones of parts that are run by hand, and C{pure} those of
other parts in Python alone, as where no compiler was.
"""

GATES: Final = {
    "types": ("{python} -m mypy smartgo plugins tests benchmarks docs/conf.py docs/epytext.py docs/links.py",),
    "docs-api": ("{python} -m pydoctor --config pyproject.toml --quiet --html-output {folder} smartgo",),
    "docs-site": (
        "rm -rf {folder}",
        "{python} -m sphinx -W --keep-going -q -d {folder}/doctrees -b html docs {folder}/site",
        "{python} docs/links.py {folder}/site",
    ),
    "packaging": ("unset PIP_CONSTRAINT", "{python} tests/packaging/check.py"),
}
"""
Gates that are no tests, as lines of a shell script: beside the tests they keep a processor busy that would wait, and
need nothing installed twice.
"""

MEASURED: Final = frozenset({"unit", "unit-broker", "unit-store", "unit-ops", "processes", "spark", "smoke-spark"})
"""The parts whose tests run the product in their own process: elsewhere a measurement finds next to nothing new."""

BUDGET: Final = 1400
"""
Seconds of processor time that all parts of C{tox} may take, gates too: two times 900, less installations and idling.

The last line says so when they take more. It does not fail the run, as machines differ.
"""


def asked(names: Sequence[str], whole: bool = False) -> list[str]:
    """
    Return the parts that names ask for, each once, and what else trial takes, such as C{tests.store}.

    @param whole: no names ask for every test, instead of for what C{tox} runs.
    @raise ValueError: a name is that of no part and of no test.
    """
    parts = [*SELECTED, *GATES, *PARTS]  # those that wait begin first
    if not names:
        repeated = {part for part in SELECTED if whole and part.startswith("smoke-")}
        return [part for part in parts if part not in repeated and (whole or part not in BY_HAND)]
    found: dict[str, None] = {}
    for name in names:
        fitting = [part for part in parts if part == name or part.startswith(f"{name}-")]
        if not fitting and name.partition(".")[0] != "tests":
            raise ValueError(f"there is no part {name}")
        found.update(dict.fromkeys(fitting or [name]))
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


def tests_of(part: str) -> list[str]:
    """Return what trial is to run for a part; of what is no part, the thing itself, such as C{tests.store}."""
    if part in PARTS:
        return [module for module in modules() if part_of(module) == part]
    return [one for name in SELECTED.get(part, ()) for one in tests_of(name)] or [part]


def command(part: str, coverage: bool, tests: Sequence[str] = ()) -> list[str]:
    """
    Return how a part is run.

    @param coverage: measure branches, unless the part is one that L{MEASURED} leaves out.
    @param part: its name, or what trial is to run in a part of its own, such as C{tests.store}.
    @param tests: those of its tests that are run; all by default.
    """
    folder = f"_trial_temp.{part}"
    if part in GATES:
        script = "\n".join(GATES[part]).format(python=shlex.quote(sys.executable), folder=folder)
        return ["sh", "-ec", script]
    measured = coverage and (part in MEASURED or part not in {*PARTS, *SELECTED})
    runner = ["-m", "coverage", "run", "-m", "twisted.trial"] if measured else ["-m", "twisted.trial"]
    return [sys.executable, *runner, "--temp-directory", folder, *(tests or tests_of(part))]


def environment(part: str) -> dict[str, str]:
    """Return the environment of a part: with ports of its own, and the setting that the C{pure} parts need."""
    numbers = [*PARTS, *SELECTED, *GATES]
    number = numbers.index(part) if part in numbers else len(numbers)
    found = {"SMARTGO_INTEROP_PORTS": str(_PORTS + 200 * number), **os.environ}
    return {**found, "SMARTGO_PURE": "1"} if part.startswith("pure-") else found


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
    with subprocess.Popen(
        command(part, coverage, tests), cwd=_ROOT, env=environment(part),
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
        "parts", nargs="*", metavar="PART",
        help=f"of {', '.join([*PARTS, *SELECTED, *GATES])}, or what trial takes; by default what tox runs",
    )  # fmt: skip
    parser.add_argument(
        "--whole", action="store_true", help="without PART: every test, with those that are run by hand"
    )
    parser.add_argument("--jobs", type=int, default=4, help="how many parts at once (%(default)s)")
    parser.add_argument("--coverage", action="store_true", help="measure branch coverage, a file a process")
    given = parser.parse_args()
    try:
        chosen = asked(given.parts, given.whole)
    except ValueError as error:
        parser.error(str(error))
    begin, ended = time.monotonic(), []
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
    used = sum(one.processor for one in ended)
    over = f", over the budget of {BUDGET} s" if used > BUDGET and not given.parts and not given.whole else ""
    sys.stdout.write(f"all parts: {time.monotonic() - begin:.0f} s, {used:.0f} s of processor time{over}\n")
    return 0 if len(passed) == len(ended) else 1


if __name__ == "__main__":
    sys.exit(main())
