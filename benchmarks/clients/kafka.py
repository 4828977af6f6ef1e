"""
Kafka, for its clients: a broker of one node, and a Python with the clients.

Maven resolves the broker's jars, and pip installs the clients into an environment of their own; both are kept in the
cache of the benchmarks. Kafka is not compared as a broker: its clients need one.
"""

from __future__ import annotations

import subprocess
import sys
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path

from .. import maven
from ..errors import BenchmarkError
from ..jars import java_program
from ..maven import Artifact
from ..processes import Child, Ports, wait_for_port

VERSION = "3.9.1"
CLIENTS = ("aiokafka", "confluent-kafka")
QUEUES = 8
_JARS = (Artifact("org.apache.kafka", "kafka_2.13", VERSION),)
_READY_TIMEOUT = 60.0
_INSTALL_TIMEOUT = 300.0
_ASK = "import importlib.metadata as m, sys; print(*(f'{name} {m.version(name)}' for name in sys.argv[1:]), sep=', ')"


class Kafka:
    """A broker of one node, which is its own controller."""

    def __init__(self, work: Path, ports: Ports, cache: Path) -> None:
        """
        @param work: an own, new folder; everything the broker writes goes there.
        @param cache: where the jars are kept.
        """
        self.name = f"kafka {VERSION}"
        self._work = work
        self._port = ports.block()
        self.address = f"127.0.0.1:{self._port}"
        self._cache = cache
        self._child: Child | None = None

    @property
    def pid(self) -> int:
        """The id of the broker's process."""
        if self._child is None:
            raise BenchmarkError(f"{self.name} is not running")
        return self._child.pid

    def start(self) -> None:
        """
        Start the broker on an empty store, and wait until it accepts connections.

        @raise BenchmarkError: its jars cannot be resolved, or it does not come up.
        """
        jars = maven.resolve(self._cache, "libkafka", _JARS)
        self._work.mkdir(parents=True, exist_ok=True)
        settings = self._work / "server.properties"
        settings.write_text(properties(self._port, self._work / "store"))
        java = [java_program(), "-cp", f"{jars}/*"]
        cluster = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        line = [*java, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(settings)]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BenchmarkError(f"{self.name} cannot format its store:\n{(done.stdout + done.stderr).strip()[-2000:]}")
        heap = ["-Xms512m", "-Xmx1g", "-XX:+UseG1GC"]
        line = [java[0], *heap, *java[1:], "kafka.Kafka", str(settings)]
        self._child = Child(line, self._work / "broker.out", folder=self._work)
        wait_for_port(self._port, self._child, _READY_TIMEOUT)

    def stop(self) -> None:
        """End the broker."""
        if self._child is not None:
            self._child.stop()
            self._child = None

    def facts(self) -> Mapping[str, object]:
        """Return what a reader of the figures needs to know about it."""
        return {"name": self.name}


def properties(port: int, store: Path) -> str:
    """Return the settings of a node that is broker and controller; topics are created by their first message."""
    settings = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{port + 1}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + 1}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": store,
        "num.partitions": QUEUES,
        "offsets.topic.num.partitions": 1,
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "group.initial.rebalance.delay.ms": 0,
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def python(cache: Path) -> Path:
    """
    Return a Python of this one's version that has Kafka's clients; it is made where it misses, in a minute.

    @raise BenchmarkError: pip cannot install them.
    """
    folder = cache / f"kafka-python-{sys.version_info.major}.{sys.version_info.minor}"
    program = folder / "bin" / "python"
    if (folder / "complete").exists():
        return program
    _run([sys.executable, "-m", "venv", "--clear", str(folder)])
    _run([str(program), "-m", "pip", "install", "--quiet", "--only-binary", ":all:", *CLIENTS])
    (folder / "complete").touch()
    return program


def versions(program: Path) -> str:
    """Return the versions of the clients that a Python has."""
    done = subprocess.run([str(program), "-c", _ASK, *CLIENTS], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def _run(line: Sequence[str]) -> None:
    try:
        done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=_INSTALL_TIMEOUT)
    except subprocess.TimeoutExpired:
        raise BenchmarkError(f"{' '.join(line)} takes longer than {_INSTALL_TIMEOUT:.0f} s") from None
    if done.returncode != 0:
        raise BenchmarkError(f"{' '.join(line)} failed:\n{(done.stdout + done.stderr).strip()[-2000:]}")
