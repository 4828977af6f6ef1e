"""The C part of the core under the seeds that its fuzzing has kept, as C{fuzz.c} plays them, with sanitizers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

from twisted.trial.unittest import SkipTest, SynchronousTestCase

import smartgo
from tests._core.seeds import kept

_CORE: Final = Path(smartgo.__file__).parent / "_core"
_SANITIZERS: Final = ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined")


class SeedTests(SynchronousTestCase):
    timeout = 300

    def _program(self) -> str:
        """Compile C{fuzz.c} with its own main function; without sanitizers where the compiler has none."""
        compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
        if compiler is None:
            raise SkipTest("there is no C compiler")
        program = str(self.mktemp())
        sources = [path for path in sorted(_CORE.glob("*.c")) if path.with_suffix(".h").exists()]
        words = [compiler, "-std=gnu11", "-g", "-O1", "-DALONE", f"-I{_CORE}", str(Path(__file__).with_name("fuzz.c"))]
        words += [*map(str, sources), "-o", program]
        for more in (_SANITIZERS, ()):
            done = subprocess.run([*words, *more], capture_output=True, text=True, check=False)
            if done.returncode == 0:
                return program
        raise AssertionError(done.stderr)

    def test_kept(self) -> None:
        """Every kept seed, and some inputs made of them, are read within their bounds, and all checks hold."""
        played = subprocess.run([self._program(), "2000"], input=kept(), capture_output=True, check=False)
        self.assertEqual((played.returncode, played.stderr.decode()), (0, ""))
        seeds, inputs = played.stdout.split(b" seeds, ")
        self.assertGreater(int(seeds), 300)
        self.assertEqual(inputs, b"2000 inputs\n")
