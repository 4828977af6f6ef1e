"""Count what a run of tox did: tests by trial's closing lines, every other environment as one; say what was skipped."""

import re
import sys

TRIAL = re.compile(r"^(?:PASSED|FAILED)(?: \((.*)\))?\s*$")
ENVIRONMENT = re.compile(r"^  ([\w.-]+): (OK|FAIL|SKIP)")
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def main(path: str, status: int) -> int:
    """Print the skips and the closing line; return the exit status."""
    passed = failed = skipped = 0
    skips: list[str] = []
    reason = None
    with open(path, encoding="utf-8", errors="replace") as log:
        for raw in log:
            line = ESCAPES.sub("", raw.rstrip("\n"))
            if line == "[SKIPPED]":
                reason = ""
            elif reason is not None and line.startswith("==="):
                reason = None
            elif reason == "" and line:
                reason = line
            elif reason and re.match(r"^tests\.[\w.]+$", line):
                skips.append(f"{line}: {reason}")
            if found := TRIAL.match(line):
                counts = dict(part.split("=") for part in found.group(1).split(", ")) if found.group(1) else {}
                passed += int(counts.get("successes", 0)) + int(counts.get("expectedFailures", 0))
                failed += int(counts.get("failures", 0)) + int(counts.get("errors", 0))
                failed += int(counts.get("unexpectedSuccesses", 0))
                skipped += int(counts.get("skips", 0))
            elif (found := ENVIRONMENT.match(line)) and found.group(1) != "tests":
                passed += found.group(2) == "OK"
                failed += found.group(2) == "FAIL"
                skipped += found.group(2) == "SKIP"
    if status and not failed:
        failed = 1  # the run ended before anything could be counted
    if skips:
        print("\nskipped:")
        for skip in skips:
            print(f"  {skip}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
