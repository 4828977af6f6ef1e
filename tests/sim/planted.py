"""
Plant known bugs into copies of the tree, and let the simulator look for them (reliability T7).

Each file in C{tests/sim/bugs} is a bug: a sentence on what is wrong, what the profile of a seed needs to show it, and a
patch. A seed finds it if it fails with the bug and does not fail without. No rule of the checker is made for one of
them.

    python -m tests.sim.planted                   all bugs, up to 300 seeds each
    python -m tests.sim.planted --bug 3 --bug 7   these
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from typing import Final, NamedTuple

from tests.sim.profile import Profile
from tests.sim.reducer import ranges
from tests.sim.seeds import Streams

ROOT: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUGS: Final = os.path.join(ROOT, "tests", "sim", "bugs")

_COPIED: Final = ("smartgo", "tests", "plugins")
_NOT_COPIED: Final = shutil.ignore_patterns("__pycache__", "golden", "interop", "static")
_FILE: Final = re.compile(r"^--- a/(.+)\n\+\+\+ b/.+\n", re.MULTILINE)
_HUNK: Final = re.compile(r"^@@ .*\n", re.MULTILINE)
_NAME: Final = re.compile(r"(\d\d)-([a-z0-9-]+)\.patch")
_NEEDS: Final = "Needs: "
_HISTORY: Final = re.compile(r"seed (\d+), \w+: ([\w -]+?):")


class PatchRefused(Exception):
    """A patch does not fit the tree."""


class Edit(NamedTuple):
    """One change of one file: lines, and what stands in their place."""

    path: str
    old: str
    new: str


class Bug(NamedTuple):
    """One planted bug."""

    number: int
    name: str
    text: str
    """What is wrong, in a sentence."""
    edits: tuple[Edit, ...]
    needs: tuple[tuple[str, ...], ...] = ()
    """What a profile needs to show the bug: one of each tuple, see L{Profile.has}; nothing: every seed may show it."""

    def fits(self, seed: int) -> bool:
        """Tell whether the profile of a seed has what the bug needs."""
        profile = Profile.draw(Streams(seed))
        return all(any(map(profile.has, alternatives)) for alternatives in self.needs)

    def plant(self, root: str) -> None:
        """
        Apply the patch to a tree.

        The places are found by their lines alone, so that changes elsewhere in a file do not matter.

        @raise PatchRefused: a place is not there, or is there twice; the tree may have been changed in part.
        """
        for path, old, new in self.edits:
            full = os.path.join(root, path)
            try:
                with open(full, encoding="utf-8") as file:
                    content = file.read()
            except FileNotFoundError:
                raise PatchRefused(f"{self.name}: there is no {path}") from None
            if content.count(old) != 1:
                raise PatchRefused(f"{self.name}: {path} has these lines {content.count(old)} times:\n{old}")
            with open(full, "w", encoding="utf-8") as file:
                file.write(content.replace(old, new))


def read_bug(name: str, patch: str) -> Bug:
    """
    Read a patch: a sentence, an empty line, what a profile needs if that is anything, and a unified diff.

    A line C{Needs: sync_flush, power|storm} asks for C{sync_flush} and for one of C{power} and C{storm}.

    @param name: of its file.
    @raise ValueError: the name is not C{NN-words.patch}.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        raise ValueError(f"{name} is no name of a planted bug")
    text, *parts = _FILE.split(patch)
    text, _, needs = text.partition(_NEEDS)
    edits: list[Edit] = []
    for path, hunks in zip(parts[::2], parts[1::2], strict=True):
        for hunk in _HUNK.split(hunks)[1:]:
            lines = hunk.splitlines(keepends=True)
            old = "".join(line[1:] for line in lines if line[0] in " -")
            new = "".join(line[1:] for line in lines if line[0] in " +")
            edits.append(Edit(path, old, new))
    return Bug(int(found[1]), found[2], " ".join(text.split()), tuple(edits), _needs(needs))


def _needs(text: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(one.strip().split("|")) for one in text.split(",")) if text.strip() else ()


def bugs() -> list[Bug]:
    """Return all planted bugs, by number."""
    found = []
    for name in sorted(os.listdir(BUGS)):
        with open(os.path.join(BUGS, name), encoding="utf-8") as file:
            found.append(read_bug(name, file.read()))
    return found


def copy_tree(target: str) -> None:
    """Copy what a simulation needs of the tree."""
    for name in _COPIED:
        if os.path.isdir(os.path.join(ROOT, name)):
            shutil.copytree(os.path.join(ROOT, name), os.path.join(target, name), ignore=_NOT_COPIED)


class Failure(NamedTuple):
    """A seed that failed."""

    seed: int
    rules: tuple[str, ...]
    """The kinds of what was violated, each once."""


class Search(NamedTuple):
    """How seeds are run: by the simulator, or by the random histories, which are quicker and see less."""

    arguments: Callable[[argparse.Namespace, Sequence[int]], Sequence[str]]
    """Of the command, for some seeds, at least one."""
    read: Callable[[str], Failure | None]
    """Reads a line of its output; C{None}: no failure."""
    by_profile: bool
    """Seeds whose profile does not have what a bug needs are left out."""


def _simulations(asked: argparse.Namespace, seeds: Sequence[int]) -> Sequence[str]:
    span = ("--seeds", ranges(seeds), "--minutes", str(asked.minutes), "--jobs", str(asked.jobs))
    return ("tests.sim", *span, "--json")


def _read_simulation(line: str) -> Failure | None:
    if not line.startswith("{"):
        return None
    found = json.loads(line)
    if found["verdict"] != "invalid":
        return None
    rules = dict.fromkeys(one.split(":")[0] for one in found["violations"])
    rules.pop("unknown", None)  # what cannot be said is no rule
    return Failure(found["seed"], tuple(rules))


def _histories(asked: argparse.Namespace, seeds: Sequence[int]) -> Sequence[str]:
    span = ("--first", str(seeds[0]), "--count", str(len(seeds)), "--jobs", str(asked.jobs))
    kind = () if asked.kind is None else ("--kind", asked.kind)
    return ("tests.histories", *span, *kind, "--no-shrink")


def _read_history(line: str) -> Failure | None:
    found = _HISTORY.match(line)
    return None if found is None else Failure(int(found[1]), (found[2],))


SEARCHES: Final = {
    "sim": Search(_simulations, _read_simulation, by_profile=True),
    "histories": Search(_histories, _read_history, by_profile=False),
}


def failures(
    root: str, search: Search, asked: argparse.Namespace, seeds: Sequence[int]
) -> Generator[Failure, None, None]:
    """
    Run seeds in a tree, and yield those that fail, as they are found; closing the iterator ends the run.

    @param seeds: in ascending order; of histories without a gap.
    """
    if not seeds:
        return
    environment = {**os.environ, "PYTHONPATH": root, "PYTHONDONTWRITEBYTECODE": "1"}
    command = (sys.executable, "-m", *search.arguments(asked, seeds))
    with subprocess.Popen(command, cwd=root, env=environment, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        try:
            for line in running.stdout:
                failure = search.read(line)
                if failure is not None:
                    yield failure
        finally:
            running.terminate()


class Found(NamedTuple):
    """What a search for one bug found."""

    seeds: tuple[int, ...]
    rules: Counter[str]
    tried: int
    """Seeds that were run."""
    unfit: int
    """Seeds among these that were left out, as their profile does not have what the bug needs."""
    excused: int
    """Seeds that fail without the bug too."""


def look_for(bug: Bug, asked: argparse.Namespace) -> Found:
    """Plant a bug in a copy of the tree, and run seeds there until enough of them fail."""
    search = SEARCHES[asked.by]
    seeds: list[int] = []
    rules: Counter[str] = Counter()
    excused = 0
    span = range(asked.first, asked.first + asked.seeds)
    fitting = [seed for seed in span if bug.fits(seed)] if search.by_profile else list(span)
    last = span[-1]
    with tempfile.TemporaryDirectory(prefix="smartgo-planted-") as root:
        copy_tree(root)
        bug.plant(root)
        found = failures(root, search, asked, fitting)
        for failure in found:
            if any(failures(ROOT, search, asked, [failure.seed])):
                excused += 1
                continue
            seeds.append(failure.seed)
            rules.update(failure.rules)
            if len(seeds) == asked.enough:
                last = failure.seed
                break
        found.close()
    tried = sum(seed <= last for seed in fitting)
    return Found(tuple(sorted(seeds)), rules, tried, last - asked.first + 1 - tried, excused)


def _count(text: str) -> int:
    """Read a number of things. @raise ValueError: it is none, or less than 1."""
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def main(arguments: Sequence[str]) -> int:
    """Look for planted bugs, and print a line for each; return 1 if one was not found."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.planted", description="Look for planted bugs.")
    parser.add_argument("--bug", type=int, action="append", help="the number of a bug; by default all are tried")
    parser.add_argument("--seeds", type=_count, default=300, help="seeds to try at most (300)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (0)")
    parser.add_argument("--enough", type=_count, default=3, help="end the search for a bug after so many seeds (3)")
    parser.add_argument("--minutes", type=float, default=8, help="virtual minutes a seed (8)")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side (1)")
    parser.add_argument("--by", choices=sorted(SEARCHES), default="sim", help="what runs the seeds (sim)")
    parser.add_argument("--kind", choices=("store", "broker", "pair"), help="of histories: those of this kind alone")
    asked = parser.parse_args(arguments)
    missed = 0
    for bug in bugs():
        if asked.bug is not None and bug.number not in asked.bug:
            continue
        began = time.monotonic()
        found = look_for(bug, asked)
        missed += not found.seeds
        said = (
            f"found in {len(found.seeds)} of {found.tried} seeds"
            if found.seeds
            else f"NOT FOUND in {found.tried} seeds"
        )
        said += f" with a fitting profile, {found.unfit} without" if found.unfit else ""
        which = ", ".join(map(str, found.seeds[:5]))
        rules = ", ".join(f"{rule} {count}" for rule, count in found.rules.most_common())
        excused = f"; {found.excused} seeds fail without it too" if found.excused else ""
        line = f"{bug.number:02} {bug.name}: {said}"
        line += f" (seeds {which}; {rules})" if found.seeds else ""
        sys.stdout.write(f"{line}{excused}, {time.monotonic() - began:.0f} s\n")
        sys.stdout.flush()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
