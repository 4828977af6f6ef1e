"""
C{python -m tests._core.mutants}: tell which tests notice small bugs in the compiled core, one bug after another.

For each of L{MUTATIONS<tests._core.mutations.MUTATIONS>} a copy of the tree is compiled with that bug alone, and judged
by the tests of the core and by tapes, whose digests are compared with those of Python, up to the first that notices.
It takes half a minute for each; C{CC='ccache gcc'} in the environment saves some of it. What hangs is noticed by its
C{--patience}: a busy machine needs more of it.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests._core.mutations import MUTATIONS, Mutation

ROOT = Path(__file__).parents[2]
CORE = Path("smartgo/_core")
JUDGES = (
    ("tests.broker.test_sendrun.ChosenRunTests", "tests.store.queues.test_picking", "tests.store.test_tails"),
    ("tests.broker.test_pullrun",),
    ("tests.spark.test_decoder",),
    ("tests.net.test_hub", "tests._core.test_sends", "tests._core.test_fuzz"),
)
TAPES = tuple(["--pulls", "0.5", "--sockets", "--seed", str(seed), "--count", "5000"] for seed in (1, 2, 3))
_FAILED = re.compile(r"^tests\.([\w.]+\.[A-Z]\w*\.test_\w+)$", re.MULTILINE)


class Court:
    """A copy of the tree, and what its judges say of it."""

    def __init__(self, folder: Path, patience: float) -> None:
        self._folder = folder
        self._patience = patience
        for name in subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target, follow_symlinks=False)

    def build(self, mutation: Mutation | None) -> None:
        """Compile the core with one bug, or with none."""
        for path in (self._folder / CORE).glob("*.so"):
            path.unlink()
        file = mutation and self._folder / CORE / mutation.file
        whole = file.read_text() if file else ""
        if mutation and whole.count(mutation.old) != 1:
            raise SystemExit(f"not there once: {mutation}")
        try:
            if file and mutation:
                file.write_text(whole.replace(mutation.old, mutation.new))
            self._run(["setup.py", "-q", "build_ext", "--inplace"], {})
        finally:
            if file:
                file.write_text(whole)
        built = list((self._folder / CORE).glob("*.so"))
        if not built:
            raise SystemExit(f"does not compile: {mutation}")
        for path in built:
            os.utime(path)  # not older than the source, which was restored

    def judge(self, expected: Sequence[object]) -> list[str]:
        """Return who noticed anything: tests, or a tape; those behind are not asked then."""
        for judges in JUDGES:
            done = self._run(["-m", "twisted.trial", f"--temp-directory={self._folder}/_trial", *judges], {})
            if done is None:
                return ["tests, which hung"]
            if done.returncode:
                return sorted(set(_FAILED.findall(done.stdout))) or ["tests, which ended early"]
        for arguments, wanted in zip(TAPES, expected, strict=True):
            if self.play(arguments, pure=False) != wanted:
                return ["tape, seed " + arguments[-3]]
        return []

    def play(self, arguments: Sequence[str], pure: bool) -> object:
        """Return the digests of a tape; C{None}: it came to no end."""
        done = self._run(["-m", "tests.broker.sendtape", *arguments], {"SMARTGO_PURE": str(int(pure))})
        if done is None or done.returncode:
            return None
        found = json.loads(done.stdout)
        if (found["core"] == "compiled") is pure:
            raise SystemExit(f"not the core that was asked for: {found['core']}")
        return {name: value for name, value in found.items() if name not in ("core", "taken", "by hub")}

    def _run(self, arguments: Sequence[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str] | None:
        try:
            return subprocess.run(
                [sys.executable, *arguments],
                cwd=self._folder,
                env={**os.environ, "PYTHONPATH": str(self._folder), **environment},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if "trial" in str(arguments) else subprocess.DEVNULL,
                text=True,
                errors="replace",
                timeout=self._patience,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return None


def main() -> None:
    """Judge all mutations, or those of which a part is named."""
    parser = argparse.ArgumentParser(description="Tell which tests notice small bugs in the compiled core.")
    parser.add_argument("parts", nargs="*", help="a part of the file or of the text of a mutation; all by default")
    parser.add_argument("--patience", type=float, default=300.0, help="seconds for one judge (default: 300)")
    asked = parser.parse_args()
    survivors = 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        court = Court(Path(folder), asked.patience)
        expected = [court.play(arguments, pure=True) for arguments in TAPES]
        court.build(None)
        if noticed := court.judge(expected):
            raise SystemExit(f"without any mutation: {', '.join(noticed)}")
        for one in MUTATIONS:
            if asked.parts and not any(part in one.file or part in one.old for part in asked.parts):
                continue
            court.build(one)
            noticed = court.judge(expected)
            survivors += not noticed
            who = "; ".join(noticed) or "SURVIVED"
            sys.stdout.write(f"{one.file}: {one.old.strip()!r} -> {one.new.strip()!r}\n    {who}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{survivors} survived\n")


if __name__ == "__main__":
    main()
