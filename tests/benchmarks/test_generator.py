"""Tests for L{benchmarks.generator}."""

from __future__ import annotations

import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from benchmarks.errors import BenchmarkError, LoadBrokeOff
from benchmarks.generator import Load, Outcome, command, read, run

LINE = (
    '{"mode":"send","seconds":2.0,"messages":100,"answers":100,"failures":1,"total_messages":150,"total_failures":3,'
    '"body_bytes":102400,"generator_cpu_us":0.9,"generator_cpu_s":0.1,"server_user_s":0.5,"server_system_s":0.25,'
    '"server_cpu_us":7.5,"latency_us":{"p50":1.0,"p99":2.0,"p999":3.0,"max":4.0},"codes":{"0":150,"2":3},'
    '"remarks":{"2":"busy"},"error":null}\n'
)


class GeneratorTests(SynchronousTestCase):
    """The generator is told what to do and what it says is read."""

    def test_read(self) -> None:
        """Its line gives rates and the codes that were not success."""
        outcome = read(LINE)
        self.assertEqual(outcome.rate, 50.0)
        self.assertEqual(outcome.bad_codes, {"2": 3})
        self.assertEqual(outcome.server_cpu_us, 7.5)

    def test_without_server(self) -> None:
        """Where no process was named there are no CPU figures of one."""
        line = LINE.replace('"server_user_s":0.5,"server_system_s":0.25,"server_cpu_us":7.5,', "")
        self.assertEqual(read(line).server_cpu_us, 0.0)

    def test_unreadable(self) -> None:
        """Anything else is refused with what was said."""
        error = self.assertRaises(BenchmarkError, read, "Segmentation fault")
        self.assertIn("Segmentation fault", str(error))

    def test_command(self) -> None:
        """A load becomes options; seconds and count exclude each other."""
        load = Load("pull", ("A", "B"), 4, 2, 1, 128, 32, binary=True)
        timed = command(Path("load"), load, "[::1]:10911", 77, warm_up=0.5, seconds=3)
        self.assertEqual(
            " ".join(timed),
            "load --mode pull --host [::1] --port 10911 --topics A,B --queues 4 --connections 2 --outstanding 1 "
            "--size 128 --batch 32 --pid 77 --warm-up 0.5 --seconds 3 --binary",
        )
        counted = command(Path("load"), Load("send"), "h:1", None, count=5)
        self.assertEqual(counted[-2:], ["--count", "5"])
        self.assertNotIn("--seconds", counted)
        self.assertNotIn("--pid", counted)

    def run_python(self, source: str, timeout: float = 60.0) -> Outcome:
        return run([sys.executable, "-c", source], timeout)

    def test_run(self) -> None:
        """A run that ends well is read."""
        self.assertEqual(self.run_python(f"print({LINE!r})").messages, 100)

    def test_broke_off(self) -> None:
        """A run that broke off raises what the generator saw."""
        line = LINE.replace('"error":null', '"error":"no answer for 10 s"')
        error = self.assertRaises(LoadBrokeOff, self.run_python, f"print({line!r}); raise SystemExit(3)")
        self.assertIn("no answer for 10 s", str(error))

    def test_not_begun(self) -> None:
        """A run that could not begin raises what stands on standard error."""
        source = "import sys; sys.stderr.write('load: cannot connect'); sys.exit(3)"
        self.assertIn("cannot connect", str(self.assertRaises(LoadBrokeOff, self.run_python, source)))

    def test_hangs(self) -> None:
        """A generator that does not end is ended."""
        error = self.assertRaises(LoadBrokeOff, self.run_python, "input() if 0 else __import__('time').sleep(60)", 0.1)
        self.assertIn("did not end", str(error))
