"""
A cluster of real processes on hosts of its own, what clients do to it, and the judgement on it.

A round begins with a L{Round}; hosts and nodes are added; loads run; faults happen within L{Round.fault}. At its end
faults are over, everything runs, every queue is read twice, and L{Round.judge} asks the checker.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from tests.chaos.checker import check
from tests.chaos.history import Fault, Info, Invoke, Logs, Ok, Recorder, decode
from tests.chaos.judgement import Judgement, Verdict
from tests.chaos.nemesis import Fault as Nemesis
from tests.chaos.network import Host, Network
from tests.chaos.report import report
from tests.chaos.workload import FinalRead, Load
from tests.interop import logs
from tests.interop.driver import Call, Driver
from tests.interop.driver import Event as JavaEvent
from tests.interop.namespaces import enter
from tests.interop.peers import SMARTGO, Node, Peer, Plan
from tests.interop.process import Process, ProcessFailed

REGISTRY_PORT = 9876
BROKER_PORT = 10911
_ROOT = Path(__file__).resolve().parents[2]
_STATUS = {"SEND_OK": 0, "FLUSH_DISK_TIMEOUT": 10, "SLAVE_NOT_AVAILABLE": 11, "FLUSH_SLAVE_TIMEOUT": 12}


class NotValid(AssertionError):
    """A round was not judged valid; the text is the begin of its report and where the rest is."""


def until(true: Callable[[], bool], timeout: float, what: str, every: float = 0.2) -> float:
    """
    Look again and again until something is so; return the seconds that it took.

    @raise TimeoutError: it did not become so in time.
    """
    begin = time.monotonic()
    pause = threading.Event()
    while not true():
        if time.monotonic() - begin > timeout:
            raise TimeoutError(f"{what}: not within {timeout:g} s")
        pause.wait(every)
    return time.monotonic() - begin


class RunningLoad:
    """A load of ours, at work in a process of its own."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def stop(self) -> int:
        """Have it end what it does; returns its exit code when it is gone."""
        self._process.close_input()
        return self._process.wait_ended(60)

    def wait(self, timeout: float) -> None:
        """Wait until it has sent all that it was to send."""
        code = self._process.wait_ended(timeout)
        if code:
            raise ProcessFailed(f"{self._process.name} ended with {code}:\n{self._process.tail}")

    @property
    def tail(self) -> str:
        """The end of what it said on standard error."""
        return self._process.tail[-500:]

    def kill(self) -> None:
        """End it at once; for clean-up."""
        self._process.kill()


class Round:
    """
    One run.

    @ivar home: its folder: logs, stores, C{history.jsonl} and C{report.txt}.
    @ivar hosts: by name; the first registry is C{registry}, clients run on C{client}.
    @ivar nodes: brokers and registries by the name of their host.
    @ivar facts: what the report is to say beside what the history shows.
    """

    def __init__(self, name: str, home: str, seed: int = 0, peer: Peer = SMARTGO) -> None:
        """
        @param peer: whose registries and brokers these are.
        """
        os.makedirs(home, exist_ok=True)
        self.name = name
        self.home = home
        self.peer = peer
        self.recorder = self._recorder()
        self.network = Network()
        self.nodes: dict[str, Node] = {}
        self.facts: dict[str, object] = {"seed": seed, "python": sys.version.split()[0]}
        self._ends: list[Callable[[], object]] = []
        self._loads: list[RunningLoad] = []
        self._topics: dict[str, list[str]] = {}
        self.network.add("client")

    # -- the cluster -----------------------------------------------------------------------------------------

    @property
    def hosts(self) -> dict[str, Host]:
        """All hosts by name."""
        return self.network.hosts

    @property
    def registries(self) -> str:
        """The addresses of all registries, as clients and brokers are told."""
        return ";".join(node.address for name, node in self.nodes.items() if name.startswith("registry"))

    def registry(self, name: str = "registry") -> Node:
        """Add a host with a registry, not started."""
        return self._node(name, self.peer.registry, REGISTRY_PORT, {})

    def broker(
        self,
        name: str,
        broker: str = "broker-a",
        settings: Mapping[str, str] | None = None,
        slave: bool = False,
        store: str = "",
    ) -> Node:
        """
        Add a host with a broker, not started; a slave has id 1.

        @param store: its store folder; by default one in the host's own folder.
        """
        role = {"brokerRole": "SLAVE", "brokerId": "1"} if slave else {}
        kind = self.peer.slave if slave else self.peer.broker
        return self._node(name, kind, BROKER_PORT, {**role, **(settings or {})}, broker, store)

    def _node(
        self,
        name: str,
        kind: type[Node],
        port: int,
        settings: Mapping[str, str],
        broker: str = "broker-a",
        store: str = "",
    ) -> Node:
        host = self.hosts.get(name) or self.network.add(name)
        plan = Plan(
            port,
            os.path.join(self.home, name),
            store or os.path.join(self.home, name, "store"),
            self.registries,
            name=broker,
            settings={"allowInsecure": "true", **settings},
            host=host.address,
            network=host.network,
        )
        node = kind(plan)
        self.nodes[name] = node
        self._ends.append(node.end)
        return node

    def start(self) -> None:
        """Start all nodes, in the order in which they were added; brokers until every registry tells of them."""
        for node in self.nodes.values():
            node.start()
        for name, registry in self.nodes.items():
            if name.startswith("registry"):
                for each in self.nodes.values():
                    if each.plan.port == BROKER_PORT:
                        registry.wait_registered(each)

    def topic(self, topic: str, queues: int = 4, brokers: Sequence[str] = ("broker-a",)) -> None:
        """Create a topic at all brokers, and remember its queues for the final read."""
        self.smartgo("topic", "create", topic, "--queues", str(queues))
        self._topics[topic] = [f"{topic}@{broker}:{queue}" for broker in brokers for queue in range(queues)]

    def smartgo(self, *words: str, registries: str = "") -> str:
        """
        Run the command that users have, on the client's host, and return what it printed.

        @param registries: whom it is to ask, by default all.
        @raise NetworkFailed: it failed.
        """
        command = f"{shlex.quote(sys.executable)} -m smartgo.cli.main {shlex.join(words)}"
        where = f"--registry {shlex.quote(registries or self.registries)}"
        return self.hosts["client"].run("env", f"PYTHONPATH={_ROOT}", "sh", "-c", f"{command} {where}")

    def forget(self) -> None:
        """Begin a new history, of topics to come: a further part of the run, judged by itself. No load may run."""
        self.recorder.close()
        self.recorder = self._recorder()
        self._topics.clear()

    def _recorder(self) -> Recorder:
        return Recorder(open(self._history, "wb"), time.monotonic)

    @property
    def _history(self) -> str:
        return os.path.join(self.home, "history.jsonl")

    # -- clients ---------------------------------------------------------------------------------------------

    def load(self, topic: str, **fields: object) -> RunningLoad:
        """Begin a load of our own client library; fields as L{Load} has them."""
        plan = Load(begun=self.recorder.begun, registries=self.registries, topic=topic, **fields)  # type: ignore[arg-type]
        running = RunningLoad(self._program(f"load-{plan.label}", plan))
        self._loads.append(running)
        self._ends.append(running.kill)
        return running

    def java(self) -> Driver:
        """Start a JVM with the official 4.9 client on the client's host."""
        driver = Driver("4.9", os.path.join(self.home, "java"), network=self.hosts["client"].network)
        self._ends.append(driver.process.kill)
        return driver

    def java_load(self, driver: Driver, topic: str, name: str = "java", **arguments: object) -> Call:
        """Begin a load of the official client, whose sends become events of the history."""
        retries = 2

        def heard(event: JavaEvent) -> None:
            kind = event["event"]
            if kind not in ("begun", "acked", "unknown"):
                return
            value = f"{name}-{event['n']}"
            if kind == "begun":
                digest = zlib.crc32(value.encode())
                self.recorder.add(Invoke(who=name, value=value, digest=digest, attempts=retries + 1))
            elif kind == "acked":
                queue = f"{topic}@{event['broker']}:{event['queueId']}"
                code = _STATUS[event["status"]]
                self.recorder.add(Ok(who=name, value=value, code=code, queue=queue, offset=event["queueOffset"]))
            else:
                self.recorder.add(Info(who=name, value=value, why=event["error"]))

        where = {"topic": topic, "namesrv": self.registries}
        return driver.start("load", heard, name=name, label=name, retries=retries, tells=True, **where, **arguments)

    def _program(self, name: str, plan: Load | FinalRead) -> Process:
        host = self.hosts["client"]
        text = msgspec.json.encode(plan).decode()
        command = [*enter(host.network), sys.executable, "-m", "tests.chaos.workload", text]
        return Process(name, command, self.home, {"PYTHONPATH": str(_ROOT)}, on_line=self._told)

    def _told(self, line: bytes) -> None:
        try:
            self.recorder.add(decode(line))
        except msgspec.DecodeError as error:
            self.recorder.note(f"a line that is no event ({error}): {line[:80]!r}", missing=True)

    def await_sends(self, count: int, timeout: float = 60.0) -> float:
        """Wait for so many further acknowledgements and return the seconds that it took."""
        goal = self.recorder.counts[Ok] + count
        return until(lambda: self.recorder.counts[Ok] >= goal, timeout, f"{count} acknowledgements more", every=0.1)

    def pause(self, seconds: float) -> None:
        """Let the run go on for a while."""
        threading.Event().wait(seconds)

    # -- faults ----------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def fault(self, nemesis: Nemesis) -> Iterator[None]:
        """Have a fault for as long as the body lasts, and write down that it happened."""
        self.recorder.add(Fault(name=nemesis.name, target=nemesis.target, on=True))
        nemesis.begin()
        try:
            yield
        finally:
            count = nemesis.end()
            self.recorder.add(Fault(name=nemesis.name, target=nemesis.target, on=False, count=count))

    # -- the end ---------------------------------------------------------------------------------------------

    def stop_loads(self) -> None:
        """End all loads of ours; one that had ended in an error may not have told everything."""
        while self._loads:
            load = self._loads.pop()
            if code := load.stop():
                self.recorder.note(f"a load ended with {code}: {load.tail}", missing=True)

    def final_read(self, name: str, whole: bool = True) -> None:
        """Read every queue of one broker twice: of the topics made by L{topic}, and wherever a send was answered."""
        node = self.nodes[name]
        known = {queue for queues in self._topics.values() for queue in queues}
        known.update(event.queue for event in self.recorder.events if isinstance(event, Ok) and event.queue)
        queues = sorted(queue for queue in known if queue.partition("@")[2].startswith(f"{node.plan.name}:"))
        plan = FinalRead(begun=self.recorder.begun, replica=name, address=node.address, queues=queues, whole=whole)
        process = self._program(f"final-{name}", plan)
        self._ends.append(process.kill)
        if code := process.wait_ended(600):
            self.recorder.note(f"the final read of {name} ended with {code}: {process.tail[-500:]}", missing=True)

    def stores(self, one: str, other: str) -> tuple[str, str]:
        """Return the store folders of two brokers."""
        return self.nodes[one].plan.store, self.nodes[other].plan.store

    def equal(self, one: str, other: str, timeout: float = 60.0) -> float:
        """
        Wait until the logs of two brokers end at the same place, compare them, and return the seconds waited.

        They are compared however far they came: what is missing is a difference.
        """
        stores = self.stores(one, other)

        def same_end() -> bool:
            try:
                return logs.log_end(stores[0]) == logs.log_end(stores[1])
            except FileNotFoundError:
                return False

        took = timeout
        with contextlib.suppress(TimeoutError):
            took = until(same_end, timeout, "the same end", every=0.5)
        found = logs.compare(*stores)
        self.recorder.add(Logs(one=one, other=other, begin=found.begin, end=found.end, differs=found.at))
        return took

    def judge(self, without: str = "") -> Judgement:
        """
        Judge what was recorded and write C{report.txt}.

        @param without: how the values of sends begin that are left out: those to a master with another log.
        @raise NotValid: the verdict is another.
        """
        judgement = self.judgement(without)
        if judgement.verdict is not Verdict.VALID:
            path = os.path.join(self.home, "report.txt")
            with open(path) as file:
                raise NotValid(f"{file.read(3000)}\nall of it: {path}")
        return judgement

    def judgement(self, without: str = "") -> Judgement:
        """Judge what was recorded as L{judge} does, but return whatever the verdict is."""
        judgement = check(
            event
            for event in self.recorder.events
            if not without or not getattr(event, "value", "").startswith(without)
        )
        self._write_report(judgement, "report.txt")
        return judgement

    def keep(self, judgement: Judgement, part: str) -> None:
        """Write the report on a part of the run, and keep its history, unless its verdict is valid; see L{forget}."""
        if judgement.verdict is not Verdict.VALID:
            self._write_report(judgement, f"report-{part}.txt")
            self.recorder.flush()
            shutil.copyfile(self._history, os.path.join(self.home, f"history-{part}.jsonl"))

    def _write_report(self, judgement: Judgement, file_name: str) -> None:
        with open(os.path.join(self.home, file_name), "w") as file:
            file.write(report(self.name, self.recorder.events, judgement, self.facts))

    def figure(self, what: str, asked: str, got: str) -> None:
        """Note a figure, as asked and as got, for the report and for whoever watches."""
        self.facts[what] = f"asked {asked}, got {got}"
        line = json.dumps({"round": self.name, "figure": what, "asked": asked, "got": got})
        with open(os.path.join(os.path.dirname(self.home), "figures.jsonl"), "a") as file:
            file.write(line + "\n")

    def close(self) -> None:
        """Leave nothing running and no namespace; for clean-up."""
        for end in reversed(self._ends):
            with contextlib.suppress(ProcessFailed):
                end()
        self.network.remove()
        self.recorder.close()
