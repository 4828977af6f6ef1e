"""The C part of the core under the seeds that its fuzzing has kept, as its harnesses play them, with sanitizers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

from twisted.trial.unittest import SkipTest, SynchronousTestCase

import smartgo
from tests._core.seeds import COLUMN_SEEDS, kept

_CORE: Final = Path(smartgo.__file__).parent / "_core"
_SANITIZERS: Final = ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")


class SeedTests(SynchronousTestCase):
    timeout = 300

    def _program(self, name: str, *options: str) -> str:
        """Compile a harness with its own main function; without sanitizers where the compiler has none."""
        compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
        if compiler is None:
            raise SkipTest("there is no C compiler")
        program, here = str(self.mktemp()), Path(__file__).parent
        sources = [path for path in sorted(_CORE.glob("*.c")) if path.with_suffix(".h").exists()]
        words = [compiler, "-std=gnu11", "-g", "-O1", "-DALONE", *options, f"-I{_CORE}", f"-I{here}", str(here / name)]
        words += [*map(str, sources), "-o", program]
        for more in (_SANITIZERS, ()):
            done = subprocess.run([*words, *more], capture_output=True, text=True, check=False)
            if done.returncode == 0:
                return program
        raise AssertionError(done.stderr)

    def _play(self, program: str, seeds: list[bytes], least: int) -> None:
        """Play seeds, and some inputs made of them: all are read within their bounds, and all checks hold."""
        played = subprocess.run([program, "2000"], input=b"".join(seeds), capture_output=True, check=False)
        self.assertEqual((played.returncode, played.stderr.decode()), (0, ""))
        count, inputs = played.stdout.split(b" seeds, ")
        self.assertEqual(int(count), len(seeds))
        self.assertGreater(len(seeds), least)
        self.assertEqual(inputs, b"2000 inputs\n")

    def test_frames(self) -> None:
        """Frames of requests, units of queues, keys of an index."""
        self._play(self._program("fuzz.c"), kept(), 300)

    def test_columns(self) -> None:
        """Records as columns, with the instructions for search that the processor has, and without them."""
        self._play(self._program("fuzzcolumns.c"), kept(COLUMN_SEEDS), 200)
        self._play(self._program("fuzzcolumns.c", "-DSMARTGO_PORTABLE"), kept(COLUMN_SEEDS), 200)
