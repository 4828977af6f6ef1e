"""
The brokers under test: ours, the real one, or any that already runs.

Both of ours and theirs get the same settings file, RocketMQ's own kind, which smartgo reads too.
"""

from __future__ import annotations

import shutil
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

from .checkouts import COMPILED, HOW_TO_COMPILE, THIS, Checkout, checkout_of
from .control import wait_until_it_answers
from .errors import BenchmarkError
from .jars import SERVER, RocketMQ
from .processes import Child, Ports, wait_for_port

READY_TIMEOUT = 60.0
ATTACH_TIMEOUT = 5.0
STOP_TIMEOUT = 30.0
OursT = TypeVar("OursT", bound="Ours")
_TWISTD = "from twisted.scripts.twistd import run; run()"


class Target(ABC):
    """One broker, and the registry it announces itself to."""

    name: str
    address: str
    """C{host:port} of the broker's main port."""
    registry: str | None
    """C{host:port} of its registry, where known."""
    warm_up = 1.0
    """Seconds of load before the first figure of a scenario counts; a JVM needs time to compile."""

    def __init__(self) -> None:
        self.complaints: list[str] = []  # what went wrong besides the figures, in sentences

    @property
    @abstractmethod
    def pid(self) -> int:
        """The process whose CPU time and memory are the broker's."""

    @abstractmethod
    def start(self) -> float:
        """
        Start registry and broker, or see that they run.

        @return: seconds from starting the broker's process until it answered; 0 where it ran already.
        @raise BenchmarkError: it does not come up.
        """

    @abstractmethod
    def stop(self) -> None:
        """Stop what L{start} started."""

    def another(self) -> Started | None:
        """Return a second broker of the same kind, not started, with its own store; C{None} where impossible."""
        return None

    def facts(self) -> Mapping[str, object]:
        """Return what a reader of the figures needs to know about it."""
        return {"name": self.name, "address": self.address}


class Attached(Target):
    """A broker that runs already; it is left running."""

    def __init__(self, name: str, address: str, pid: int, registry: str | None = None) -> None:
        super().__init__()
        self.name = name
        self.address = address
        self.registry = registry
        self._pid = pid

    @property
    def pid(self) -> int:
        """The id of the given process."""
        return self._pid

    def start(self) -> float:
        """Check that the broker answers."""
        wait_until_it_answers(self.address, lambda: True, ATTACH_TIMEOUT)
        return 0.0

    def stop(self) -> None:
        """Leave the given process running."""


class Started(Target):
    """A broker of ours to start and to end: its processes, ports and folder."""

    def __init__(self, name: str, work: Path, ports: Ports) -> None:
        """
        @param work: an own, new folder; everything the broker writes goes there.
        """
        super().__init__()
        self.name = name
        self.work = work
        self._ports = ports
        first = ports.block()
        self._registry_port = first
        self._broker_port = first + 5  # uses one port 2 below and one above as well
        self.address = f"127.0.0.1:{self._broker_port}"
        self.registry = f"127.0.0.1:{self._registry_port}"
        self._registry: Child | None = None
        self._broker: Child | None = None
        self._copies = 0
        self._flush_disk_type = "ASYNC_FLUSH"

    @property
    def store(self) -> Path:
        """The folder of the broker's store."""
        return self.work / "store"

    @property
    def pid(self) -> int:
        """The id of the broker's process."""
        if self._broker is None:
            raise BenchmarkError(f"{self.name} is not running")
        return self._broker.pid

    @property
    def registry_pid(self) -> int:
        """The id of the registry's process."""
        if self._registry is None:
            raise BenchmarkError(f"the registry of {self.name} is not running")
        return self._registry.pid

    def start(self) -> float:
        """Start the registry, wait for it, then time the broker."""
        self.start_registry()
        return self.start_broker()

    def start_registry(self) -> None:
        """Start the registry alone, and wait for it."""
        self.work.mkdir(parents=True, exist_ok=True)
        self._registry = self._child("registry", self.registry_command())
        wait_for_port(self._registry_port, self._registry, READY_TIMEOUT)

    def start_broker(self, timeout: float = READY_TIMEOUT) -> float:
        """
        Start the broker alone, on the store that is there; return the seconds until it answered.

        @raise BenchmarkError: it ended, or did not answer in time.
        """
        settings = self.work / "broker.properties"
        settings.write_text(properties(self._broker_port, self._registry_port, self.store, self._flush_disk_type))
        command = self.broker_command(settings)
        began = time.monotonic()
        broker = self._broker = self._child("broker", command)
        try:
            ready = wait_until_it_answers(self.address, lambda: broker.alive, timeout)
        except BenchmarkError as error:
            raise BenchmarkError(f"{self.name}: {error}:{broker.last_lines()}") from None
        return ready - began

    def stop_broker(self) -> None:
        """End the broker alone and wait until it is gone, its store closed."""
        if self._broker is not None:
            if not self._broker.alive:
                self.complaints.append(f"{self.name}: the broker ended by itself:{self._broker.last_lines()}")
            self._broker.stop(STOP_TIMEOUT)
            if self._broker.killed:
                self.complaints.append(f"{self.name}: the broker had to be killed, {STOP_TIMEOUT:.0f} s after SIGTERM")
            self._broker = None

    def renew(self, flush_disk_type: str = "ASYNC_FLUSH") -> float:
        """
        End the broker and start it on an empty store; return the seconds until it answered.

        @raise BenchmarkError: it ended, or did not answer in time.
        """
        self.stop_broker()
        shutil.rmtree(self.store, ignore_errors=True)
        self._flush_disk_type = flush_disk_type
        return self.start_broker()

    def kill_broker(self) -> None:
        """End the broker alone by SIGKILL, its store left as it is."""
        if self._broker is not None:
            self._broker.kill()
            self._broker = None

    def stop(self) -> None:
        """End the broker, then the registry."""
        self.stop_broker()
        if self._registry is not None:
            self._registry.stop()
            self._registry = None

    def another(self) -> Started:
        """Return one more of this kind beside this one."""
        self._copies += 1
        return type(self)(self.name, self.work / f"another-{self._copies}", self._ports)

    def clear(self) -> None:
        """Remove the folder, logs and all."""
        shutil.rmtree(self.work, ignore_errors=True)

    @abstractmethod
    def registry_command(self) -> list[str]:
        """Return the command of a registry on the registry port."""

    @abstractmethod
    def broker_command(self, settings: Path) -> list[str]:
        """Return the command of a broker with these settings."""

    def environment(self) -> Mapping[str, str]:
        """Return what the processes need in their environment."""
        return {}

    def _child(self, name: str, command: list[str]) -> Child:
        return Child(command, self.work / f"{name}.out", self.environment(), self.work)


class Ours(Started):
    """smartgo of a checkout, run by the interpreter that runs the benchmark."""

    bootstrap: tuple[str, ...] = ("-c", _TWISTD)
    """What the interpreter is told to run for the broker; profiling puts something around twistd."""

    def __init__(self, name: str, work: Path, ports: Ports, checkout: Checkout = THIS) -> None:
        super().__init__(name, work, ports)
        self._checkout = checkout

    def registry_command(self) -> list[str]:
        """Return C{twistd -n smartgo-registry} on its port."""
        return [
            *(sys.executable, "-c", _TWISTD, "--nodaemon", f"--pidfile={self.work}/registry.pid"),
            *("smartgo-registry", f"--listen=tcp:{self._registry_port}:interface=127.0.0.1"),
        ]

    def broker_command(self, settings: Path) -> list[str]:
        """Return C{twistd -n smartgo-broker} with the settings."""
        return [
            *(sys.executable, *self.bootstrap, "--nodaemon", f"--pidfile={self.work}/broker.pid"),
            *("smartgo-broker", f"--config={settings}"),
        ]

    def environment(self) -> Mapping[str, str]:
        """Let twistd find the checkout, whatever is installed."""
        return self._checkout.environment()

    def another(self) -> Ours:
        """Return one more beside this one."""
        self._copies += 1
        return type(self)(self.name, self.work / f"another-{self._copies}", self._ports, self._checkout)

    def facts(self) -> Mapping[str, object]:
        """Name the Twisted it runs on, the commit, and whether the core is compiled."""
        import twisted

        commit, core = self._checkout.commit(), self._checkout.core()
        return {**super().facts(), "twisted": twisted.__version__, "commit": commit, "core": core}


class Theirs(Started):
    """The real RocketMQ broker and name server."""

    warm_up = 8.0

    def __init__(self, name: str, work: Path, ports: Ports, rocketmq: RocketMQ) -> None:
        super().__init__(name, work, ports)
        self._rocketmq = rocketmq

    def registry_command(self) -> list[str]:
        """Return the command of a name server."""
        return self._rocketmq.name_server(self.work, self._registry_port)

    def broker_command(self, settings: Path) -> list[str]:
        """Return the command of a broker."""
        return self._rocketmq.broker(self.work, settings)

    def environment(self) -> Mapping[str, str]:
        """Give it a home with log settings."""
        return self._rocketmq.environment(self.work)

    def another(self) -> Theirs:
        """Return one more beside this one."""
        self._copies += 1
        return Theirs(self.name, self.work / f"another-{self._copies}", self._ports, self._rocketmq)

    def facts(self) -> Mapping[str, object]:
        """Name the Java it runs on."""
        return {**super().facts(), "rocketmq": SERVER, "java": self._rocketmq.version()}


def properties(broker_port: int, registry_port: int, store: Path, flush_disk_type: str = "ASYNC_FLUSH") -> str:
    """Return the settings file both brokers are given: a lone master, all else by default."""
    settings = {
        "brokerClusterName": "DefaultCluster",
        "brokerName": "broker-a",
        "brokerId": 0,
        "brokerRole": "ASYNC_MASTER",
        "flushDiskType": flush_disk_type,
        "listenPort": broker_port,
        "haListenPort": broker_port + 1,
        "brokerIP1": "127.0.0.1",
        "brokerIP2": "127.0.0.1",
        "namesrvAddr": f"127.0.0.1:{registry_port}",
        "autoCreateTopicEnable": "true",
        "autoCreateSubscriptionGroup": "true",
        "storePathRootDir": store,
        "storePathCommitLog": store / "commitlog",
        "diskMaxUsedSpaceRatio": 95,
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


class Bench:
    """
    The source of targets: names on the command line become brokers with folders and ports.

    @ivar ports: the ports that brokers get.
    """

    def __init__(self, work: Path, base_port: int, jars: Path | None = None) -> None:
        """
        @param work: an existing folder for stores and logs.
        """
        self.work = work
        self.ports = Ports(base_port)
        self._rocketmq = RocketMQ(jars)

    @property
    def rocketmq(self) -> RocketMQ:
        """The programs of the real RocketMQ."""
        return self._rocketmq

    def ours(self) -> Ours:
        """Make smartgo of this checkout."""
        return self.one_of_ours(Ours)

    def one_of_ours(self, kind: type[OursT]) -> OursT:
        """Make smartgo of this checkout, run in a way of its own."""
        return kind("smartgo", self.work / "smartgo", self.ports)

    def target(self, words: str) -> Target:
        """
        Make the target that C{words} name: C{ours}, C{core}, C{pure}, C{checkout=PATH[,name=X]}, C{rocketmq}, or
        C{address=HOST:PORT,pid=N[,name=X][,registry=H:P]}.

        @raise ValueError: they name none.
        @raise BenchmarkError: the compiled core or the other checkout is not there.
        """
        if words == "ours":
            return self.ours()
        if words in ("core", "pure"):
            checkout = Checkout(pure=words == "pure")
            if words == "core" and checkout.core() != COMPILED:
                raise BenchmarkError(f"core: this checkout runs as {checkout.core()}: {HOW_TO_COMPILE}")
            return Ours(words, self.work / words, self.ports, checkout)
        if words.startswith("checkout="):
            checkout = checkout_of(words)
            return Ours(checkout.name, self.work / checkout.name, self.ports, checkout)
        if words == "rocketmq":
            return Theirs(f"rocketmq {SERVER}", self.work / "rocketmq", self.ports, self._rocketmq)
        return attached(words)


def attached(words: str) -> Attached:
    """
    Read C{address=HOST:PORT,pid=N[,name=X][,registry=HOST:PORT]}.

    @raise ValueError: something is missing or not understood.
    """
    known = {"address", "pid", "name", "registry"}
    given: dict[str, str] = {}
    for part in words.split(","):
        name, equals, value = part.partition("=")
        if not equals or name not in known or not value:
            raise ValueError(
                f"{words!r} is no broker: ours, core, pure, checkout=PATH, rocketmq or address=HOST:PORT,pid=N"
            )
        given[name] = value
    if not {"address", "pid"} <= given.keys() or not given["pid"].isdigit():
        raise ValueError(f"{words!r}: an attached broker needs address=HOST:PORT and pid=N")
    for name in ("address", "registry"):
        if name in given and not given[name].rpartition(":")[2].isdigit():
            raise ValueError(f"{words!r}: {name} is HOST:PORT")
    return Attached(
        given.get("name", f"pid {given['pid']}"), given["address"], int(given["pid"]), given.get("registry")
    )


@contextmanager
def running(targets: list[Target]) -> Iterator[None]:
    """Start all targets, and stop all of them at the end, whatever happened."""
    with ExitStack() as started:
        for target in targets:
            started.callback(target.stop)
            target.start()
        yield
