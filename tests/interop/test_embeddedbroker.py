"""The broker for tests of Java programs: docs/examples/java, compiled and run with the official 4.9 and 5.3 clients."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.interop.case import InteropCase
from tests.interop.jars import GENERATIONS, java_command
from tests.test_layers import ROOT

SOURCES = Path(ROOT) / "docs" / "examples" / "java"


class JavaTests(InteropCase):
    """The class of the page docs/testing, and a test that uses it."""

    def check(self, generation: str) -> None:
        """Compile the example against a generation of clients, run it, and look at what it printed."""
        folder = self.mktemp()
        os.mkdir(folder)
        path = f"{GENERATIONS[generation].jars}/*"
        javac = os.path.join(os.path.dirname(java_command()[0]), "javac")
        files = [str(one) for one in sorted(SOURCES.glob("*.java"))]
        subprocess.run([javac, "-nowarn", "-d", folder, "-cp", path, *files], check=True, timeout=120)
        done = subprocess.run(
            [*java_command(), f"-Dsmartgo.python={sys.executable}", "-cp", f"{folder}:{path}", "ReminderTest"],
            capture_output=True, text=True, check=False, timeout=120, env={**os.environ, "PYTHONPATH": ROOT},
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(
            sorted(line for line in done.stdout.splitlines() if line.startswith(("reminded", "sent", "stored"))),
            ["reminded: pay", "sent: SEND_OK", 'stored: {"id":1,"result":["pay"],"error":null,"kind":""}'],
        )

    def test_49(self) -> None:
        """A reminder in two hours arrives in seconds, and a refused send is sent again, with the 4.9 client."""
        self.check("4.9")

    def test_53(self) -> None:
        """The same with the 5.3 client."""
        self.check("5.3")
