"""
Count what a run of tox did: tests by trial's closing lines, every other environment and every other gate as one.

What was skipped is printed by reason, then the failures with their tracebacks, then the tests that failed beside others
and passed alone (see tests/parts.py), then one line that counts.
"""

import re
import sys

TRIAL = re.compile(r"^(?:PASSED|FAILED)(?: \((.*)\))?\s*$")
ENVIRONMENT = re.compile(r"^  ([\w.-]+): (OK|FAIL|SKIP)")
GATE = re.compile(r"^part (?:types|docs-api|docs-site|packaging): (passed|FAILED)")
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
TEST = re.compile(r"^tests\.[\w.]+$")
RULE = re.compile(r"^(={70,}|-{70,})$")
UNSTABLE = "unstable: "
LINES = 30  # of a failure, its last ones
FAILURES = 10


def main(path: str, status: int) -> int:
    """Print the skips and the closing line; return the exit status."""
    passed = failed = skipped = 0
    skips: dict[str, list[str]] = {}
    failures: list[list[str]] = []
    unstable: list[str] = []
    within = False
    reason = None
    with open(path, encoding="utf-8", errors="replace") as log:
        for raw in log:
            line = ESCAPES.sub("", raw.rstrip("\n"))
            if RULE.match(line):
                within = False
            elif line in ("[FAIL]", "[ERROR]"):
                within = True
                failures.append([])
            if within:
                failures[-1].append(line)
            if line.startswith(UNSTABLE):
                unstable.append(line.removeprefix(UNSTABLE))
            if line == "[SKIPPED]":
                reason = ""
            elif reason is not None and line.startswith("==="):
                reason = None
            elif reason == "" and line:
                reason = line
            elif reason and TEST.match(line):
                skips.setdefault(reason, []).append(line)
            if found := TRIAL.match(line):
                counts = dict(part.split("=") for part in found.group(1).split(", ")) if found.group(1) else {}
                passed += int(counts.get("successes", 0)) + int(counts.get("expectedFailures", 0))
                failed += int(counts.get("failures", 0)) + int(counts.get("errors", 0))
                failed += int(counts.get("unexpectedSuccesses", 0))
                skipped += int(counts.get("skips", 0))
            elif found := GATE.match(line):
                passed += found.group(1) == "passed"
                failed += found.group(1) == "FAILED"
            elif (found := ENVIRONMENT.match(line)) and found.group(1) != "tests":
                passed += found.group(2) == "OK"
                failed += found.group(2) == "FAIL"
                skipped += found.group(2) == "SKIP"
    if not status:
        failed = 0  # those that failed passed when they ran again, alone, or tox would have said so
    elif not failed:
        failed = 1  # the run ended before anything could be counted
    if skips:
        print("\nskipped:")
        for why, names in skips.items():
            print(f"  {len(names)}: {why}")
            print(f"      {', '.join(name.removeprefix('tests.') for name in names)}")
    if failures:
        print("\nfailures:")
        for failure in failures[:FAILURES]:
            print("\n".join(f"  {line}" for line in failure[-LINES:]))
    for name in unstable:
        print(f"failed beside other parts, passed alone: {name}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
