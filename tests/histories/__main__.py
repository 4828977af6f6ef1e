"""C{python -m tests.histories}: run random histories, or replay one."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from twisted.logger import globalLogBeginner

from tests.histories.runner import KINDS, Outcome, kind_of, run, run_many, shrink
from tests.sim.reducer import numbers, ranges

_PROGRESS = 10.0  # seconds between two lines


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _replay(outcome: Outcome) -> str:
    kind = "" if outcome.kind == kind_of(outcome.seed) else f" --kind {outcome.kind}"
    return f"python -m tests.histories --seed {outcome.seed}{kind}"


def _show(outcome: Outcome) -> int:
    _say("\n".join(outcome.trace))
    _say(f"seed {outcome.seed}, {outcome.kind}, {outcome.steps} steps, trace {outcome.digest}")
    _say(outcome.text or "no promise was broken")
    return 1 if outcome.broken else 0


def _tell(outcome: Outcome, shorter: bool) -> None:
    _say(f"seed {outcome.seed}, {outcome.kind}: {outcome.text}")
    _say(f"  replay: {_replay(outcome)}")
    if shorter:
        left_out = shrink(outcome)
        kept = outcome.steps - len(left_out)
        _say(f"  {kept} of {outcome.steps} steps: {_replay(outcome)} --without {ranges(left_out)}")


def main() -> int:
    """Run what the command line asks for; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.histories", description=__doc__)
    parser.add_argument("--seed", type=int, help="replay this seed and print its trace")
    parser.add_argument("--without", default="", help="steps to leave out in a replay, such as 0-3,7")
    parser.add_argument("--count", type=int, default=200, help="how many seeds to run (200)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (0)")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side (1)")
    parser.add_argument("--kind", choices=sorted(KINDS), help="histories of this kind alone")
    parser.add_argument("--digests", action="store_true", help="print the hash of each trace")
    parser.add_argument("--no-shrink", action="store_true", help="do not look for shorter histories that fail")
    asked = parser.parse_args()
    globalLogBeginner.beginLoggingTo([], redirectStandardIO=False, discardBuffer=True)
    if asked.seed is not None:
        return _show(run(asked.seed, asked.kind, numbers(asked.without)))
    began = told = time.monotonic()
    done: Counter[str] = Counter()
    broken: dict[str, list[int]] = {}
    for outcome in run_many(range(asked.first, asked.first + asked.count), asked.jobs, asked.kind):
        done[outcome.kind] += 1
        if asked.digests:
            _say(f"{outcome.seed} {outcome.digest}")
        if outcome.broken:
            name = f"{outcome.kind}: {outcome.broken}"
            broken.setdefault(name, []).append(outcome.seed)
            _tell(outcome, shorter=not asked.no_shrink and len(broken[name]) == 1)
        if time.monotonic() - told > _PROGRESS:
            told = time.monotonic()
            _say(f"{done.total()} of {asked.count}, {sum(map(len, broken.values()))} failed, {told - began:.0f} s")
    kinds = ", ".join(f"{count} of {kind}" for kind, count in sorted(done.items()))
    _say(f"{done.total()} histories ({kinds}) in {time.monotonic() - began:.0f} s")
    for name, seeds in sorted(broken.items()):
        _say(f"  {name}: {len(seeds)}, seeds {', '.join(map(str, sorted(seeds)[:20]))}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
