"""Tests for L{benchmarks.targets}, L{benchmarks.processes}, L{benchmarks.jars}, L{benchmarks.maven} and
L{benchmarks.builder}."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from pathlib import Path
from xml.etree import ElementTree

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from benchmarks import builder, jars, maven, targets
from benchmarks.errors import BenchmarkError, NoCompiler
from benchmarks.processes import Child, Ports, wait_for_port
from benchmarks.targets import Bench, Ours, Theirs, attached, properties


class TargetTests(SynchronousTestCase):
    """Words become brokers."""

    def test_attached(self) -> None:
        """An address and a process make a broker that is left alone."""
        made = attached("address=h:10911,pid=12,registry=h:9876,name=x y")
        self.assertEqual((made.address, made.pid, made.registry, made.name), ("h:10911", 12, "h:9876", "x y"))
        self.assertEqual(attached("pid=12,address=h:1").name, "pid 12")

    def test_not_understood(self) -> None:
        """Words that name no broker are refused, and told what would."""
        for words in (
            "their",
            "",
            "address=h:1",
            "pid=1",
            "address=h,pid=1",
            "address=h:1,pid=x",
            "address=h:1,pid=1,a=b",
        ):
            error = self.assertRaises(ValueError, attached, words)
            self.assertIn("HOST:PORT", str(error))

    def test_names(self) -> None:
        """Ours and the real one get folders and ports of their own."""
        bench = Bench(Path(self.mktemp()), 24000, Path("jars"))
        ours, theirs = bench.target("ours"), bench.target("rocketmq")
        assert isinstance(ours, Ours) and isinstance(theirs, Theirs)
        self.assertNotEqual(ours.work, theirs.work)
        self.assertNotEqual(ours.address, theirs.address)

    def test_interpreter(self) -> None:
        """Ours is run by this interpreter, from this checkout."""
        ours = Bench(Path("work"), 24000).ours()
        command = ours.broker_command(Path("broker.properties"))
        self.assertEqual(command[0], sys.executable)
        self.assertEqual(command[-2:], ["smartgo-broker", "--config=broker.properties"])
        self.assertTrue((Path(ours.environment()["PYTHONPATH"]) / "smartgo").is_dir())

    def test_not_running(self) -> None:
        """A broker that is not running has no process."""
        self.assertRaises(BenchmarkError, lambda: Bench(Path("work"), 24000).ours().pid)

    def test_settings(self) -> None:
        """The settings name ports, store and registry, and flush asynchronously."""
        lines = properties(10911, 9876, Path("/s")).splitlines()
        for line in (
            "listenPort=10911",
            "haListenPort=10912",
            "namesrvAddr=127.0.0.1:9876",
            "flushDiskType=ASYNC_FLUSH",
        ):
            self.assertIn(line, lines)
        self.assertIn("flushDiskType=SYNC_FLUSH", properties(10911, 9876, Path("/s"), "SYNC_FLUSH").splitlines())


class ProcessTests(SynchronousTestCase):
    """Programs are started, watched and ended."""

    def child(self, source: str) -> Child:
        made = Child([sys.executable, "-c", source], Path(self.mktemp()) / "log")
        self.addCleanup(made.stop)
        return made

    def test_stop(self) -> None:
        """A program that will not end by SIGTERM is killed."""
        source = (
            "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
        )
        child = self.child(source)
        while not child.log.read_text():
            self.assertTrue(child.alive)
        child.stop(patience=0.1)
        self.assertFalse(child.alive)
        self.assertTrue(child.killed)

    def test_last_lines(self) -> None:
        """What a program said last is there for an error message."""
        child = self.child("print(1); print(2); raise SystemExit(3)")
        self.assertEqual(child.wait(20), 3)
        self.assertEqual(child.last_lines(1).split(), ["2"])

    def test_ended_before_listening(self) -> None:
        """Waiting for a port ends with the program."""
        child = self.child("print('no store')")
        error = self.assertRaises(BenchmarkError, wait_for_port, 1, child, 20.0)
        self.assertIn("no store", str(error))

    def test_no_program(self) -> None:
        """A program that is not there is said to be so."""
        self.assertRaises(BenchmarkError, Child, ["/nowhere/program"], Path(self.mktemp()) / "log")

    def test_ports(self) -> None:
        """Blocks do not overlap and pass over a port in use."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            if port + 3 * Ports.SPAN > 65535:
                raise SkipTest("the port given is too near the end of the range")
            ports = Ports(port - 1)
            first, second = ports.block(), ports.block()
        self.assertGreater(first, port)
        self.assertGreaterEqual(second, first + Ports.SPAN)

    def test_no_ports(self) -> None:
        """At the end of the range there is none."""
        self.assertRaises(BenchmarkError, Ports(65530).block)


class JarsTests(SynchronousTestCase):
    """The real programs."""

    def test_pom(self) -> None:
        """The project asks Maven for the versions named."""
        root = ElementTree.fromstring(maven.pom("libbench", jars.SETS["libbench"]))
        space = {"m": "http://maven.apache.org/POM/4.0.0"}
        found = [
            (each.findtext("m:artifactId", "", space), each.findtext("m:version", "", space))
            for each in root.findall("m:dependencies/m:dependency", space)
        ]
        self.assertEqual(found, [("rocketmq-example", "5.5.0")])

    def test_given(self) -> None:
        """Jars that are there are used, without Maven."""
        cache = Path(self.mktemp())
        (cache / "lib").mkdir(parents=True)
        (cache / "lib" / "a.jar").touch()
        self.assertEqual(jars.RocketMQ(cache).jars("lib"), cache / "lib")

    def test_no_maven(self) -> None:
        """Without jars and without Maven the way out is told."""
        self.patch(shutil, "which", lambda name: None)
        error = self.assertRaises(BenchmarkError, jars.RocketMQ(Path(self.mktemp())).jars, "lib")
        self.assertIn("--jars", str(error))

    def test_cache(self) -> None:
        """The cache is where the environment says."""
        self.patch(os, "environ", {"XDG_CACHE_HOME": "/c"})
        self.assertEqual(jars.default_cache(), Path("/c/smartgo-benchmarks/rocketmq"))
        self.patch(os, "environ", {"SMARTGO_BENCH_JARS": "/j", "XDG_CACHE_HOME": "/c"})
        self.assertEqual(jars.default_cache(), Path("/j"))


class BuilderTests(SynchronousTestCase):
    """The generator is built when needed."""

    def setUp(self) -> None:
        self.sources = Path(self.mktemp())
        self.binaries = Path(self.mktemp())
        self.sources.mkdir()
        (self.sources / "main.c").write_text("int main(void) { return 0; }\n")

    def test_no_compiler(self) -> None:
        """Without a compiler it is told what to install."""
        self.patch(shutil, "which", lambda name: None)
        error = self.assertRaises(NoCompiler, builder.generator, self.sources, self.binaries)
        self.assertIn("gcc", str(error))

    def test_does_not_compile(self) -> None:
        """Sources that do not compile give the compiler's words, and leave nothing that looks like a program."""
        self.need_compiler()
        (self.sources / "main.c").write_text("int main(void) { return nothing; }\n")
        error = self.assertRaises(BenchmarkError, builder.generator, self.sources, self.binaries)
        self.assertIn("nothing", str(error))
        self.assertEqual(list(self.binaries.iterdir()), [])

    def test_built_once(self) -> None:
        """It is built once, and again when a source changed; the old one goes."""
        self.need_compiler()
        first = builder.generator(self.sources, self.binaries)
        made = first.stat().st_mtime_ns
        self.assertEqual(builder.generator(self.sources, self.binaries).stat().st_mtime_ns, made)
        (self.sources / "main.c").write_text("int main(void) { return 1; }\n")
        second = builder.generator(self.sources, self.binaries)
        self.assertNotEqual(second, first)
        self.assertEqual(list(self.binaries.iterdir()), [second])

    def need_compiler(self) -> None:
        if shutil.which("gcc") is None and shutil.which("cc") is None:
            raise SkipTest("no C compiler")


class Stubborn(Ours):
    """A target whose registry and broker are small programs of the test."""

    broker = ""

    def registry_command(self) -> list[str]:
        """Listen and wait."""
        source = (
            f"import socket; s = socket.create_server(('127.0.0.1', {self._registry_port})); s.accept(); s.accept()"
        )
        return [sys.executable, "-c", source]

    def broker_command(self, settings: Path) -> list[str]:
        """Do what the test wants."""
        return [sys.executable, "-c", self.broker]


class ComplaintTests(SynchronousTestCase):
    """What goes wrong with a broker besides its figures is told."""

    def started(self, broker: str, ready: bool = True) -> Stubborn:
        target = Stubborn("mine", Path(self.mktemp()), Ports(25000))
        target.broker = broker
        self.addCleanup(target.stop)
        if ready:
            self.patch(targets, "wait_until_it_answers", lambda *arguments: 0.0)
        return target

    def test_killed(self) -> None:
        """A broker that does not end by SIGTERM is killed, and that is told."""
        self.patch(targets, "STOP_TIMEOUT", 0.1)
        target = self.started(
            "import signal, time; signal.pthread_sigmask(0, [15]); print(1, flush=True); time.sleep(60)"
        )
        target.start()
        while not (target.work / "broker.out").read_text():
            self.assertTrue(target.pid)
        target.stop()
        self.assertEqual(target.complaints, ["mine: the broker had to be killed, 0 s after SIGTERM"])

    def test_ended(self) -> None:
        """A broker that ended before it was told to is told of, with its last words."""
        target = self.started("print('disk full')")
        target.start()
        assert target._broker is not None
        target._broker.wait(20)
        target.stop()
        self.assertEqual(target.complaints, ["mine: the broker ended by itself:\n    disk full"])

    def test_renewed(self) -> None:
        """A broker that is started anew has an empty store and the flush mode asked for."""
        target = self.started("import time; time.sleep(60)")
        target.start()
        (target.store / "commitlog").mkdir(parents=True)
        first = target.pid
        target.renew("SYNC_FLUSH")
        self.assertNotEqual(target.pid, first)
        self.assertFalse(target.store.exists())
        self.assertIn("flushDiskType=SYNC_FLUSH", (target.work / "broker.properties").read_text())
        self.assertEqual(target.complaints, [])

    def test_never_ready(self) -> None:
        """A broker that ends before it is ready fails the start with its last words."""
        target = self.started("print('port in use')", ready=False)
        error = self.assertRaises(BenchmarkError, target.start)
        self.assertIn("port in use", str(error))
