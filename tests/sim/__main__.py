"""C{python -m tests.sim}: run simulations, or replay one."""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from twisted.logger import globalLogBeginner

from tests.sim.profile import KINDS, LINKS, PAIRED
from tests.sim.rarepaths import names
from tests.sim.reducer import numbers, ranges, reduce
from tests.sim.run import Outcome, run

_PROGRESS: Final = 15.0  # seconds between two lines
_ATTEMPTS: Final = 40  # runs to make a failing simulation smaller
_LONGEST: Final = 120.0  # seconds of processor time of one simulation
_ALARM_AGAIN: Final = 1.0  # seconds of processor time to the next alarm, where something swallowed the one before
_ALL_FAULTS: Final = 100  # simulations in which every kind of fault must have happened
_ALL_PATHS: Final = 200  # simulations in which every rare path must have been taken
_TASKS: Final = 10  # simulations of one process: what they leave behind is never collected
_WARM_UP: Final = 0.2  # minutes of a simulation that fills caches, of which each process has a copy then


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class Overdue(BaseException):
    """A simulation hangs; nothing that handles errors of the product takes it for one."""


def _late(number: int, frame: object) -> None:
    raise Overdue(f"the simulation is not over after {_LONGEST} s of processor time")


def _task(asked: tuple[int, float]) -> Outcome:
    """Run one simulation; one that hangs ends with a traceback."""
    seed, minutes = asked
    signal.signal(signal.SIGVTALRM, _late)
    signal.setitimer(signal.ITIMER_VIRTUAL, _LONGEST, _ALARM_AGAIN)
    try:
        return run(seed, minutes)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def run_many(seeds: frozenset[int], minutes: float, jobs: int) -> Iterator[Outcome]:
    """Run many simulations in some processes; the outcomes come in any order."""
    tasks = [(seed, minutes) for seed in sorted(seeds)]
    if jobs <= 1:
        yield from map(_task, tasks)
        return
    run(min(seeds), min(minutes, _WARM_UP))
    gc.collect()
    gc.freeze()
    with multiprocessing.get_context("fork").Pool(jobs, gc.disable, maxtasksperchild=_TASKS) as pool:
        yield from pool.imap_unordered(_task, tasks)


def replay(outcome: Outcome, minutes: float, without: frozenset[int] = frozenset()) -> str:
    """Return the command that runs a simulation again."""
    left_out = f" --without {ranges(without)}" if without else ""
    return f"python -m tests.sim --seed {outcome.seed} --minutes {minutes:g}{left_out}"


def kind_of(outcome: Outcome) -> str:
    """Return the kind of what was violated first; the verdict where nothing was."""
    return outcome.violations[0].partition(":")[0] if outcome.violations else outcome.verdict


def smaller(outcome: Outcome, minutes: float, attempts: int = _ATTEMPTS) -> frozenset[int]:
    """Return the numbers of the faults that the failure of a simulation does not need."""
    return reduce(
        len(outcome.faults), lambda without: kind_of(run(outcome.seed, minutes, without)) == kind_of(outcome), attempts
    )


def as_json(outcome: Outcome) -> str:
    """Return an outcome as one line of JSON."""
    return json.dumps(
        {
            "seed": outcome.seed,
            "verdict": outcome.verdict,
            "violations": outcome.violations,
            "trace_hash": outcome.trace_hash,
            "profile": str(outcome.profile),
            "hits": outcome.hits,
            "faults": outcome.happened,
            "counts": outcome.counts,
            "virtual_seconds": outcome.virtual_seconds,
        }
    )


def _tell(outcome: Outcome, minutes: float, without: frozenset[int] = frozenset()) -> None:
    _say(f"seed {outcome.seed}: {outcome.verdict}; {outcome.profile}")
    for text in outcome.violations[:5]:
        _say(f"  {text}")
    _say(f"  replay: {replay(outcome, minutes, without)}")


def _one(asked: argparse.Namespace) -> int:
    """Replay one simulation."""
    without = asked.without
    outcome = run(asked.seed, asked.minutes, without, asked.trace)
    if asked.json:
        _say(as_json(outcome))
        return int(outcome.verdict != "valid")
    for line in outcome.trace:
        _say(line)
    _say(f"profile: {outcome.profile}")
    for fault in outcome.faults:
        if fault.number not in without:
            _say(f"fault {fault}")
    _say(f"counts: {outcome.counts}")
    _say(f"trace hash: {outcome.trace_hash}")
    _say(f"verdict: {outcome.verdict}")
    for text in outcome.violations:
        _say(f"  {text}")
    if asked.reduce and outcome.verdict != "valid":
        left_out = smaller(outcome, asked.minutes)
        _say(f"{len(outcome.faults) - len(left_out)} of {len(outcome.faults)} faults are needed:")
        _say(f"  {replay(outcome, asked.minutes, left_out)}")
    return int(outcome.verdict != "valid")


def never(seeds: int, faults: Mapping[str, int], hits: Mapping[str, int]) -> list[str]:
    """
    Return what so many simulations should have seen and did not, a line each (reliability T5, T15).

    @param faults: how often each kind of fault happened.
    @param hits: how often each rare path was taken.
    """
    lines = []
    if seeds >= _ALL_FAULTS:
        lines += [f"the fault {kind} never happened" for kind in (*KINDS, *LINKS, *PAIRED) if not faults.get(kind)]
    if seeds >= _ALL_PATHS:
        lines += [f"the rare path {name} was never taken" for name in sorted(names()) if not hits.get(name)]
    return lines


def _many(asked: argparse.Namespace) -> int:
    """Run many simulations, and sum up."""
    seeds = asked.seeds
    began = told = time.monotonic()
    verdicts: Counter[str] = Counter()
    hits: Counter[str] = Counter()
    seeds_hit: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    failed: dict[str, list[Outcome]] = {}
    virtual = 0.0
    for outcome in run_many(seeds, asked.minutes, asked.jobs):
        verdicts[outcome.verdict] += 1
        hits.update(outcome.hits)
        seeds_hit.update(dict.fromkeys(outcome.hits, 1))
        faults.update(outcome.happened)
        counts.update(outcome.counts)
        virtual += outcome.virtual_seconds
        if asked.json:
            _say(as_json(outcome))
        if asked.hashes:
            _say(f"{outcome.seed} {outcome.trace_hash}")
        if outcome.verdict != "valid":
            failed.setdefault(kind_of(outcome), []).append(outcome)
            if not asked.json:
                _tell(outcome, asked.minutes)
        if time.monotonic() - told > _PROGRESS and not asked.json:
            told = time.monotonic()
            bad = verdicts.total() - verdicts["valid"]
            _say(f"{verdicts.total()} of {len(seeds)} seeds, {bad} not valid, {told - began:.0f} s")
    absent = never(verdicts.total(), faults, hits)
    if asked.json:
        sys.stderr.writelines(f"{line}\n" for line in absent)
        return int(bool(failed or absent))
    if asked.reduce:
        for kind, outcomes in sorted(failed.items()):
            first = min(outcomes, key=lambda outcome: (len(outcome.faults), outcome.seed))
            left_out = smaller(first, asked.minutes)
            _say(f"{kind}: {len(first.faults) - len(left_out)} of {len(first.faults)} faults are needed:")
            _say(f"  {replay(first, asked.minutes, left_out)}")
    took = time.monotonic() - began
    _say(
        f"{verdicts.total()} seeds of {asked.minutes:g} virtual minutes under faults in {took:.0f} s"
        f" ({virtual / max(took, 0.001):.0f} virtual seconds a second): "
        + ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items()))
    )
    _say("faults: " + ", ".join(f"{kind} {count}" for kind, count in sorted(faults.items())))
    _say("operations: " + ", ".join(f"{name} {count}" for name, count in sorted(counts.items())))
    _say("rare paths (times taken, in how many seeds):")
    for name in sorted(names()):
        _say(f"  {name:<40} {hits[name]:>8} {seeds_hit[name]:>6}" + ("" if hits[name] else "   never"))
    for kind, outcomes in sorted(failed.items()):
        _say(f"{kind}: {len(outcomes)} seeds: {', '.join(str(one.seed) for one in outcomes[:20])}")
    for line in absent:
        _say(line)
    return int(bool(failed or absent))


def _numbers(text: str) -> frozenset[int]:
    """Read the numbers of seeds or faults. @raise argparse.ArgumentTypeError: they are none."""
    try:
        return numbers(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}; write numbers and ranges, such as 0-3,7") from None


def _seeds(text: str) -> frozenset[int]:
    """Read the numbers of seeds, one at least. @raise argparse.ArgumentTypeError: they are none."""
    found = _numbers(text)
    if not found:
        raise argparse.ArgumentTypeError("there must be one seed at least")
    return found


def main() -> int:
    """Run what the command line asks for; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description="Run simulations.")
    parser.add_argument("--seeds", type=_seeds, default="0-19", help="the seeds to run, such as 0-499 (0-19)")
    parser.add_argument("--seed", type=int, help="replay this seed, and print its profile and faults")
    parser.add_argument("--minutes", type=float, default=10, help="virtual minutes under faults (10)")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side (1)")
    parser.add_argument("--without", type=_numbers, default="", help="faults to leave out in a replay, such as 0-3,7")
    parser.add_argument("--trace", action="store_true", help="print the trace of a replay")
    parser.add_argument(
        "--reduce",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="look for the faults that a failure needs",
    )
    parser.add_argument("--hashes", action="store_true", help="print the hash of each trace")
    parser.add_argument("--json", action="store_true", help="print one JSON object a seed and nothing else")
    asked = parser.parse_args()
    globalLogBeginner.beginLoggingTo([], redirectStandardIO=False, discardBuffer=True)
    return _one(asked) if asked.seed is not None else _many(asked)


if __name__ == "__main__":
    sys.exit(main())
