"""Tests for L{benchmarks.clients.program} and L{benchmarks.clients.subjects}."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from benchmarks.checkouts import ROOT
from benchmarks.clients import kafka
from benchmarks.clients.program import Program
from benchmarks.clients.rows import ROWS
from benchmarks.clients.subjects import JAVA, Client, arguments, client_of
from benchmarks.errors import BenchmarkError
from benchmarks.jars import RocketMQ

SAYS = """
import sys
print("ready", flush=True)
for line in sys.stdin:
    if " broken " in line:
        print("ERROR", flush=True)
    elif " refused " in line:
        print('{"error": "no route"}', flush=True)
    elif " ends " in line:
        sys.exit("out of memory")
    else:
        print('{"total": 9, "messages": 7, "seconds": 2.0, "cpu_s": 0.5, "p50_ms": 0.0, "p99_ms": 0.0}', flush=True)
"""


def client(code: str) -> Client:
    """Return a client whose program is a few lines."""
    return Client("mine", "rocketmq", (sys.executable, "-c", code), "1")


class ProgramTests(SynchronousTestCase):
    """A program takes orders and answers."""

    def program(self, code: str = SAYS) -> Program:
        log = Path(self.mktemp()).absolute()
        made = Program(client(code), "127.0.0.1:1", log / "err", dict(os.environ))
        self.addCleanup(made.stop)
        return made

    def test_answers(self) -> None:
        """Each order has an answer."""
        program = self.program()
        for row in ROWS:
            answer = program.run(row.order(0.1, 0.1, 100, "G"))
            self.assertEqual((answer.total, answer.messages, answer.cpu_s), (9, 7, 0.5))
        self.assertTrue(Path(f"/proc/{program.pid}").exists())
        program.stop()
        self.assertFalse(Path(f"/proc/{program.pid}").exists())
        program.stop()

    def test_failures(self) -> None:
        """A load that fails, an answer that is none, and an end are told with what the program said last."""
        program = self.program()
        order = ROWS[0].order(0.1, 0.1, 100, "G")
        for topic, words in (("refused", "no route"), ("broken", "'ERROR'"), ("ends", "out of memory"), ("T", "ended")):
            error = self.assertRaises(BenchmarkError, program.run, order._replace(topic=topic))
            self.assertIn(words, str(error))

    def test_not_ready(self) -> None:
        """A program that ends, or says something else, is ended, and the error says so."""
        self.assertIn("no jar", str(self.assertRaises(BenchmarkError, self.program, "raise SystemExit('no jar')")))
        self.assertIn("'hello'", str(self.assertRaises(BenchmarkError, self.program, "print('hello')")))

    def test_no_program(self) -> None:
        """A command there is not is told."""
        nothing = Client("mine", "rocketmq", ("/nonexistent",), "1")
        self.assertRaises(BenchmarkError, Program, nothing, "a:1", Path(self.mktemp()) / "err", {})


class ClientTests(SynchronousTestCase):
    """Words on the command line become clients."""

    def client(self, words: str) -> Client:
        work = Path(self.mktemp())
        return client_of(words, RocketMQ(work), work, work)

    def test_smartgo(self) -> None:
        """smartgo's clients run by this interpreter: of this checkout, or of another one, which the name tells."""
        self.assertEqual(self.client("aio").command[0], sys.executable)
        self.assertEqual(self.client(f"aio@{ROOT}").name, f"aio@{ROOT.name}")
        self.assertRaises(BenchmarkError, self.client, "aio@/nonexistent")

    def test_unknown(self) -> None:
        """Another name is refused with those there are, and so is a checkout of somebody else's client."""
        for words in ("pika", "java@/tmp", "aiokafka@/tmp"):
            self.assertIn("twisted", str(self.assertRaises(ValueError, self.client, words)))

    def test_arguments(self) -> None:
        """Java cannot ask the kernel how long a tick is, so it is told."""
        self.assertEqual(arguments(client(""), "h:1"), ("h:1",))
        java = Client(JAVA, "rocketmq", ("java",), "4.9.7")
        self.assertEqual(arguments(java, "h:1"), ("h:1", str(os.sysconf("SC_CLK_TCK"))))


class KafkaTests(SynchronousTestCase):
    """Kafka's broker and Python."""

    def test_settings(self) -> None:
        """Broker and controller are one process, on two neighbouring ports of loopback."""
        lines = kafka.properties(23300, Path("/s")).splitlines()
        self.assertIn("process.roles=broker,controller", lines)
        self.assertIn("listeners=PLAINTEXT://127.0.0.1:23300,CONTROLLER://127.0.0.1:23301", lines)
        self.assertIn("log.dirs=/s", lines)

    def test_kept(self) -> None:
        """An environment that is complete is used; one whose installation broke off is made anew."""
        cache = Path(self.mktemp())
        lines: list[list[str]] = []
        self.patch(kafka, "_run", lines.append)
        folder = cache / f"kafka-python-{sys.version_info.major}.{sys.version_info.minor}"
        folder.mkdir(parents=True)
        self.assertEqual(kafka.python(cache), folder / "bin" / "python")
        self.assertEqual([line[2] for line in lines], ["venv", "pip"])
        self.assertEqual(kafka.python(cache), folder / "bin" / "python")
        self.assertEqual(len(lines), 2)

    def test_pip_fails(self) -> None:
        """What pip says is told."""
        error = self.assertRaises(BenchmarkError, kafka._run, [sys.executable, "-c", "raise SystemExit('no wheel')"])
        self.assertIn("no wheel", str(error))
