"""
Whether the tests that docs/official-programs.rst names really have official programs send the codes they are named for:
C{python -m tests.interop.driven [TEST ...]}, as root.

Each test runs alone, while the packets between it and its brokers are recorded. Prints a line a code, and fails where a
code was not seen on its way from a Java program to a broker or registry of ours, or from a broker to a client.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.interop.recorder import Recording, Request
from tests.officialprograms import COVERAGE, codes

_ROOT: Final = Path(__file__).resolve().parents[2]
_PORTS: Final = int(os.environ.get("SMARTGO_INTEROP_PORTS", "21000"))
_KINDS: Final = ("smartgo-broker", "smartgo-slave", "smartgo-registry", "rocketmq-broker")


def kinds_of_ports(folder: str) -> dict[int, str]:
    """Return what listened on each port during a test, from the names of the logs; brokers have a second port."""
    found = {}
    for path in Path(folder).rglob("*.log"):
        kind, _, port = path.stem.rpartition("-")
        if kind in _KINDS:
            found[int(port)] = kind
            if kind != "smartgo-registry":
                found[int(port) - 2] = kind
    return found


def receivers(code: int, seen: Counter[Request], ports: dict[int, str]) -> set[str]:
    """Return who of broker, registry and client got a code: ours from a Java program, clients from any broker."""
    got = set()
    for one in seen:
        kind = ports.get(one.server, "")
        if one.code != code or not kind:
            continue
        if one.asks:
            got.add("client")
        elif one.language == "JAVA" and kind.startswith("smartgo"):
            got.add("registry" if kind == "smartgo-registry" else "broker")
    return got


def record(test: str) -> tuple[Counter[Request], dict[int, str]]:
    """Run a test and return what was seen. @raise RuntimeError: the test failed, or packets were lost."""
    with tempfile.TemporaryDirectory() as folder:
        work = os.path.join(folder, "trial")
        command = [sys.executable, "-m", "twisted.trial", f"--temp-directory={work}", test]
        environment = {**os.environ, "SMARTGO_INTEROP_PORTS": str(_PORTS)}
        with Recording(_PORTS, _PORTS + 199) as recording:
            ran = subprocess.run(command, cwd=_ROOT, env=environment, capture_output=True, text=True, check=False)
        if ran.returncode or "successes=1" not in ran.stdout:
            raise RuntimeError(f"{test} did not pass:\n{ran.stdout[-3000:]}")
        if recording.dropped:
            raise RuntimeError(f"{test}: {recording.dropped} packets were not recorded")
        return recording.seen, kinds_of_ports(work)


def main(arguments: Sequence[str]) -> int:
    """Record tests, by default all of the table, and return the number of codes that were not seen."""
    known, missing = codes(), 0
    recorded = {test: record(test) for test in arguments or sorted({test for one in COVERAGE for test in one.driven})}
    for one in COVERAGE:
        tests = [test for test in one.driven if test in recorded]
        if not tests:
            continue
        code, wanted = int(known[one.name]["code"]), set(str(known[one.name]["to"]).split("+"))
        got = set().union(*(receivers(code, *recorded[test]) for test in tests))
        missing += not got >= wanted
        sys.stdout.write(f"{code:4} {one.name:40} {'seen' if got >= wanted else 'NOT SEEN':9} {', '.join(tests)}\n")
    return missing


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))
