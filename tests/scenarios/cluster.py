"""A cluster of real processes on loopback, with a process of its own that serves the REST API and the console."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.interop.case import PORTS
from tests.interop.peers import Node, Plan, SmartgoBroker, SmartgoRegistry, SmartgoSlave, _Smartgo
from tests.interop.process import Process, ProcessFailed

TOKEN: Final = "scenario-token"
SMALL: Final = {"mappedFileSizeCommitLog": str(1 << 20), "fastPort": "false", "opsListen": "off"}
"""Small log files, and nothing beside the port for clients."""

_ROOT: Final = Path(__file__).resolve().parents[2]
_COMMAND: Final = 120  # seconds that a command may take on a busy machine


class SmartgoOps(_Smartgo):
    """C{twist smartgo-ops}: the API in front of the cluster."""

    kind = "smartgo-ops"

    @property
    def url(self) -> str:
        """Of the API's root."""
        return f"http://{self.plan.address}"

    def command(self) -> list[str]:
        settings = {
            "opsListen": self.plan.address,
            "opsPath": os.path.join(self.plan.home, "ops"),
            "opsTokens": f"scenario:admin:{hashlib.sha256(TOKEN.encode()).hexdigest()}",
            "opsRequestsPerSecond": "100000",
            "namesrvAddr": self.plan.registry,
            **self.plan.settings,
        }
        return self._twist("smartgo-ops", "--config", self._properties("ops.conf", settings))

    def _answers(self) -> bool:
        try:
            return bool(self.get("/api/v1/health"))
        except OSError:
            return False

    def get(self, path: str) -> str:
        """Return the body of an answer. @raise OSError: there is none, or it is a refusal."""
        request = urllib.request.Request(self.url + path, headers={"Authorization": f"Bearer {TOKEN}"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            body: bytes = answer.read()
        return body.decode()


class ScenarioCluster:
    """
    Registries, masters, slaves, and the process that watches them.

    @ivar nodes: all processes by name.
    """

    def __init__(self, home: str) -> None:
        """@param home: folder of stores and logs."""
        self.home = home
        self.nodes: dict[str, Node] = {}
        self._programs: list[Process] = []

    # -- nodes -----------------------------------------------------------------------------------------------

    @property
    def registries(self) -> str:
        """The addresses of all registries."""
        return ";".join(one.address for one in self.nodes.values() if isinstance(one, SmartgoRegistry))

    @property
    def ops(self) -> SmartgoOps:
        """The process that serves the API."""
        node = self.nodes["ops"]
        assert isinstance(node, SmartgoOps)
        return node

    def registry(self, name: str = "registry") -> Node:
        """Add a registry, not started."""
        return self._add(name, SmartgoRegistry, {})

    def master(self, name: str, settings: Mapping[str, str] | None = None, broker: str = "", store: str = "") -> Node:
        """
        Add a master, not started.

        @param broker: its broker's name; by default C{name}.
        @param store: its store folder; by default one of its own.
        """
        return self._add(name, SmartgoBroker, {**SMALL, **(settings or {})}, broker, store)

    def slave(self, name: str, broker: str) -> Node:
        """Add a slave of a broker, not started."""
        settings = {**SMALL, "brokerRole": "SLAVE", "brokerId": "1"}
        return self._add(name, SmartgoSlave, settings, broker)

    def _add(self, name: str, kind: type[Node], settings: Mapping[str, str], broker: str = "", store: str = "") -> Node:
        port = PORTS.take(4) + 2  # a broker takes the port two below, and its slaves use the one above
        home = os.path.join(self.home, name)
        ha = {"haListenPort": str(port + 1)} if kind in (SmartgoBroker, SmartgoSlave) else {}
        plan = Plan(
            port,
            home,
            store or os.path.join(home, "store"),
            self.registries,
            name=broker or name,
            settings={**ha, **settings},
        )
        node = self.nodes[name] = kind(plan)
        return node

    def start(self) -> None:
        """Start all processes, the API last; returns when every registry knows every broker, and the API all of it."""
        self._add("ops", SmartgoOps, {})
        for node in self.nodes.values():
            node.start()
        brokers = [one for one in self.nodes.values() if isinstance(one, SmartgoBroker)]
        for registry in self.nodes.values():
            if isinstance(registry, SmartgoRegistry):
                for broker in brokers:
                    registry.wait_registered(broker)
        ops = self.ops
        assert ops._process is not None
        ops._process.wait_until(
            lambda: len(self.rest("/brokers")["items"]) == len(brokers), 60, "the brokers in the API", recheck=0.2
        )

    def end(self) -> None:
        """End every process."""
        for program in self._programs:
            program.kill()
        for node in reversed(list(self.nodes.values())):
            node.end()

    # -- asking ----------------------------------------------------------------------------------------------

    def rest(self, path: str) -> Any:
        """Return a resource of the API. @raise OSError: there is no answer, or a refusal."""
        return json.loads(self.ops.get(f"/api/v1{path}"))

    def change(self, method: str, path: str, body: Any) -> None:
        """Change something by the API. @raise OSError: it is refused."""
        request = urllib.request.Request(
            f"{self.ops.url}/api/v1{path}",
            json.dumps(body).encode(),
            {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=30):
            pass

    def command(self, *words: str) -> tuple[int, str]:
        """Run the command that users have; return its exit status and what it printed, errors last."""
        environment = {
            **os.environ,
            "PYTHONPATH": str(_ROOT),
            "NAMESRV_ADDR": self.registries,
            "SMARTGO_API": self.ops.url,
            "SMARTGO_TOKEN": TOKEN,
            "COLUMNS": "200",
        }
        done = subprocess.run(
            [sys.executable, "-m", "smartgo.cli.main", *words],
            env=environment,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_COMMAND,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def do(self, *words: str) -> str:
        """Run a command that must succeed; return what it printed. @raise ProcessFailed: it did not."""
        status, output = self.command(*words)
        if status:
            raise ProcessFailed(f"smartgo {' '.join(words)} ended with {status}:\n{output}")
        return output

    def member(self, group: str, topic: str, behaviour: str) -> Process:
        """Start a consumer of ours, as L{tests.scenarios.member} says; returns when it is in its group."""
        command = [sys.executable, "-m", "tests.scenarios.member", self.registries, group, topic, behaviour]
        program = Process(f"member-{group}", command, self.home, {"PYTHONPATH": str(_ROOT)})
        self._programs.append(program)
        program.wait_until(lambda: "started" in program.tail, 60, "its start")
        return program
