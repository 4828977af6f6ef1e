"""A registry and a broker as processes, a bystander beside them, an attacker, and what all of it costs."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.attack.attacker import Aim
from tests.interop.case import PORTS
from tests.interop.peers import SMARTGO, Node, Peer, Plan
from tests.interop.process import Process

_ROOT = Path(__file__).resolve().parents[2]
_WAIT = 300.0  # seconds an attack may take until it is held
MIB = 1 << 20


@dataclass(frozen=True)
class Taken:
    """
    The resources that a process uses at the moment.

    @ivar memory: anonymous, in bytes; files that are mapped do not count.
    @ivar descriptors: how many are open.
    @ivar cpu: seconds used since its start.
    @ivar lines: of its log.
    @ivar moment: when that was, in seconds of the monotonic clock.
    """

    memory: int
    descriptors: int
    cpu: float
    lines: int
    moment: float


@dataclass
class Result:
    """
    The result of one attack.

    @ivar before: of the broker and the registry, before the attack; C{during} when it has done its worst, C{settled} a
        hundred requests of the bystander later, C{after} when the attacker let go.
    @ivar quiet: the bystander's figures without the attack; C{beside} from its begin until it has done its worst,
        C{later} the hundred after that.
    @ivar told: what the attacker says.
    """

    before: Mapping[str, Taken]
    quiet: Mapping[str, Any]
    during: Mapping[str, Taken] = field(default_factory=dict)
    settled: Mapping[str, Taken] = field(default_factory=dict)
    after: Mapping[str, Taken] = field(default_factory=dict)
    beside: Mapping[str, Any] = field(default_factory=dict)
    later: Mapping[str, Any] = field(default_factory=dict)
    told: Mapping[str, Any] = field(default_factory=dict)
    last: Mapping[str, Any] = field(default_factory=dict)

    def growth(self, node: str, when: str = "after") -> int:
        """Return by how many bytes the memory of a process grew."""
        there: Mapping[str, Taken] = getattr(self, when)
        return there[node].memory - self.before[node].memory

    def load(self, node: str) -> float:
        """Return the share of a core that a process used while the attack was held."""
        one, two = self.during[node], self.settled[node]
        return (two.cpu - one.cpu) / (two.moment - one.moment)

    def lines(self, node: str) -> int:
        """Return how many lines were logged."""
        return self.after[node].lines - self.before[node].lines


class Child:
    """A process of ours that answers lines with JSON lines."""

    def __init__(self, name: str, home: str, module: str, *arguments: str, environment: Mapping[str, str]) -> None:
        self._lines: list[dict[str, Any]] = []
        self._process = Process(
            name, [sys.executable, "-m", module, *arguments], home, {"PYTHONPATH": str(_ROOT), **environment},
            on_line=self._heard,
        )  # fmt: skip

    def _heard(self, line: bytes) -> None:
        self._lines.append(json.loads(line))

    def next_line(self, timeout: float) -> dict[str, Any]:
        """Wait for the next line. @raise ProcessFailed: there is none in time."""
        self._process.wait_until(lambda: bool(self._lines), timeout, "its next line")
        with self._process.changed:
            return self._lines.pop(0)

    def ask(self, line: str = "", timeout: float = _WAIT) -> dict[str, Any]:
        """Send a line, and return what is answered."""
        self._process.write(line.encode() + b"\n")
        return self.next_line(timeout)

    def kill(self) -> None:
        """End it."""
        self._process.kill()


class Scene:
    """
    A registry and a broker of one peer.

    @ivar aim: where they are.
    """

    def __init__(
        self,
        home: str,
        peer: Peer = SMARTGO,
        large: bool = False,
        settings: Mapping[str, str] | None = None,
        descriptors: int = 0,
    ) -> None:
        """
        @param settings: further ones of the broker, and of the registry where they begin with C{registry:}.
        @param descriptors: how many each process may open; 0 for as many as we may.
        """  # fmt: skip
        self._home = os.path.abspath(home)
        ports = PORTS.take(6)
        given = dict(settings or {})
        ours = {name.removeprefix("registry:"): value for name, value in given.items() if name.startswith("registry:")}
        of_broker = {name: value for name, value in given.items() if not name.startswith("registry:")}
        ops = ("127.0.0.1", ports + 5) if peer is SMARTGO else None
        if ops is not None:
            of_broker["opsListen"] = f"{ops[0]}:{ops[1]}"
        registry = Plan(ports + 4, self._home, settings=ours)
        broker = Plan(ports + 2, self._home, os.path.join(self._home, "store"), registry.address, settings=of_broker)
        self._nodes: dict[str, Node] = {"registry": peer.registry(registry), "broker": peer.broker(broker)}
        for node in self._nodes.values():
            _as_daemons_run(node, descriptors)
        self.aim = Aim(
            ("127.0.0.1", ports + 2), ("127.0.0.1", ports + 4), ops, ("127.0.0.1", ports + 3), broker.name, large
        )
        self._bystander: Child | None = None
        self._children: list[Child] = []
        self._environment: dict[str, str] = {}

    def start(self, kind: str = "send") -> None:
        """
        Start both, and the bystander.

        @param kind: C{send} to have it at the broker, C{cluster} at the registry.
        """
        self._nodes["registry"].start()
        self._nodes["broker"].start()
        self._nodes["registry"].wait_registered(self._nodes["broker"])
        host, port = self.aim.registry if kind == "cluster" else self.aim.broker
        self._bystander = self._child("bystander", "tests.attack.bystander", host, str(port), kind)

    def _child(self, name: str, module: str, *arguments: str) -> Child:
        child = Child(name, self._home, module, *arguments, environment=self._environment)
        self._children.append(child)
        return child

    def attack(self, name: str) -> Result:
        """Measure, attack, measure while the attack is held, let go, and measure again."""
        assert self._bystander is not None
        self._bystander.ask("10")
        quiet = self._bystander.ask("100")
        result = Result(self.taken(), quiet)
        attacker = self._child(f"attacker-{name}", "tests.attack.attacker", name, self.aim.to_json())
        result.told = attacker.next_line(_WAIT)
        result.beside = self._bystander.ask("1")
        result.during = self.taken()
        result.later = self._bystander.ask("100")
        result.settled = self.taken()
        result.last = attacker.ask()
        self._bystander.ask("50")
        result.after = self.taken()
        return result

    def bystander(self, least: str) -> Mapping[str, Any]:
        """Return the bystander's figures once it has so many."""
        assert self._bystander is not None
        return self._bystander.ask(least)

    def taken(self) -> dict[str, Taken]:
        """Return what each process takes."""
        return {name: _taken(node.pid, self._log(node)) for name, node in self._nodes.items()}

    def is_running(self) -> bool:
        """Tell whether both processes are there."""
        return all(node.running for node in self._nodes.values())

    def log(self, name: str) -> str:
        """Return the log of a process."""
        return Path(self._log(self._nodes[name])).read_text("utf-8", "replace")

    def _log(self, node: Node) -> str:
        return os.path.join(self._home, f"{node.kind}-{node.plan.port}.log")

    def end(self) -> None:
        """Leave nothing running."""
        for child in self._children:
            child.kill()
        for node in self._nodes.values():
            node.end()


def _as_daemons_run(node: Node, descriptors: int) -> None:
    """Have a node of ours start by twistd, whose log is limited, and with few descriptors where that is asked for."""
    command = node.command

    def changed() -> list[str]:
        words = command()
        if words[1:3] == ["-m", "twisted"]:
            words[1:3] = ["-c", "from twisted.scripts.twistd import run; run()", "--nodaemon", "--pidfile="]
        return ["prlimit", f"--nofile={descriptors}", *words] if descriptors else words

    node.command = changed  # type: ignore[method-assign]


def _taken(pid: int, log: str) -> Taken:
    memory = 0
    for line in Path(f"/proc/{pid}/status").read_text("ascii").splitlines():
        if line.startswith("RssAnon:"):
            memory = int(line.split()[1]) << 10
    ticks = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    with open(log, "rb") as file:
        lines = sum(1 for _ in file)
    cpu = (int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK")
    return Taken(memory, len(os.listdir(f"/proc/{pid}/fd")), cpu, lines, time.monotonic())
