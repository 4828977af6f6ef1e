"""
Members of a real cluster are killed: REST, the command line, doctor, alerts, readiness and metrics say so, and agree.

One cluster of six processes serves for all steps: a slave, its master, the master of the other broker, a registry. It
runs with the scenarios (C{tox -e scenarios}), of which a short one is in the test command.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from typing import Any, TypeVar
from unittest import SkipTest

from twisted.logger import Logger
from twisted.trial.unittest import SynchronousTestCase

from tests.cli.case import ROOT, smartgo
from tests.interop.case import PORTS
from tests.scenarios.case import ALL

SECONDS = 60.0
"""For the last face to say so, on a busy machine; an idle one takes less than 11 s."""
FIRST = 10.0
"""For the first face."""

T = TypeVar("T")


class MissingTests(SynchronousTestCase):
    """A cluster of two masters, a slave of each and two registries, all on this machine."""

    _log = Logger()
    _killed = 0.0

    def setUp(self) -> None:
        if not ALL:
            raise SkipTest("all scenarios run by tox -e scenarios, or with SMARTGO_SCENARIOS=all")
        first = PORTS.take(60)
        self.data = os.path.abspath(self.mktemp())
        self.registries = f"127.0.0.1:{first};127.0.0.1:{first + 1}"
        self.api = f"http://127.0.0.1:{first + 59}"
        words = ["dev", "--data", self.data, "--masters", "2", "--slaves", "1", "--registries", "2"]
        words += ["--listen", str(first + 5), "--registry-listen", str(first), "--ops", self.api[7:]]
        words += ["--set", "mappedFileSizeCommitLog=1MiB"]
        environment = {**os.environ, "PYTHONPATH": ROOT}
        environment.pop("NAMESRV_ADDR", None)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "smartgo.cli.main", *words],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment,
        )  # fmt: skip
        self.addCleanup(self.stop)
        assert self.process.stdout is not None
        said = b""
        while b"Ready" not in said and (line := self.process.stdout.readline()):
            said += line
        if b"Ready" not in said:
            self.fail(f"it did not start: {said!r} {self.process.communicate(timeout=60)[1]!r}")
        [token] = [name for name in os.listdir(self.data) if name.endswith(".token")]
        with open(os.path.join(self.data, token), encoding="ascii") as file:
            self.token = file.read().strip()

    def stop(self) -> None:
        """Stop the cluster."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.communicate(timeout=120)

    # -- faces -------------------------------------------------------------------------------------------------

    def get(self, path: str) -> Any:
        """Return an answer of the REST API."""
        request = urllib.request.Request(f"{self.api}/api/v1{path}", headers={"Authorization": f"Bearer {self.token}"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())

    def metrics(self) -> dict[str, float]:
        """Return the metrics of members by name and labels."""
        request = urllib.request.Request(f"{self.api}/metrics", headers={"Authorization": f"Bearer {self.token}"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read().decode()
        found = re.findall(
            r"^(smartgo_(?:member|broker_without|registry_up|unreachable)\S*) (\S+)$", text, re.MULTILINE
        )
        return {re.sub(',?cluster="DefaultCluster"', "", name): float(value) for name, value in found}

    def states(self) -> dict[str, tuple[str, str]]:
        """Return by subject the state of each process and of its broker, as the REST API has them."""
        rows = self.get("/brokers?limit=200")["items"]
        return {
            one["name"] + (f"#{one['id']}" if one["id"] else ""): (one["state"], one["brokerState"]) for one in rows
        }

    def firing(self) -> set[tuple[str, str, str]]:
        """Return severity, rule and subject of what fires, about members."""
        rules = ("broker-gone", "master-missing", "registry-down")
        items = self.get("/alerts?state=firing&limit=200")["items"]
        return {(one["severity"], one["rule"], one["subject"]) for one in items if one["rule"] in rules}

    def command(self, *words: str) -> tuple[int, str, str]:
        """Return the status and the output of a command."""
        done = smartgo(*words)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def listed(self) -> tuple[int, str, str]:
        """Return what C{cluster ls} says."""
        return self.command("cluster", "ls", "-r", self.registries, *self.options())

    def examined(self) -> tuple[int, str, str]:
        """Return what doctor says."""
        return self.command("doctor", "-r", self.registries, *self.options())

    def options(self) -> list[str]:
        """Return the options of the REST API."""
        [token] = [name for name in os.listdir(self.data) if name.endswith(".token")]
        return ["--api", self.api, "--token-file", os.path.join(self.data, token)]

    # -- faults ------------------------------------------------------------------------------------------------

    def kill(self, name: str) -> None:
        """Kill a process of the cluster by its name, such as C{broker-a-slave-1}."""
        task = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        with open(task, encoding="ascii") as file:
            children = [int(word) for word in file.read().split()]
        for pid in children:
            with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
                if f"/{name}.log\0" in file.read():
                    os.kill(pid, signal.SIGKILL)
                    self._killed = time.monotonic()
                    return
        self.fail(f"there is no process of {name}")

    def until(self, what: str, ask: Callable[[], T], well: Callable[[T], bool], seconds: float = SECONDS) -> T:
        """Ask until the answer is as it must be; fail with the last one so many seconds after the last kill."""
        while True:
            found = ask()
            took = time.monotonic() - self._killed
            if well(found):
                self._log.info("{what}: after {took:.1f} s", what=what, took=took)
                return found
            if took > seconds:
                self.fail(f"{what}: not within {seconds} s: {found}")
            time.sleep(0.2)

    # -- the scenario ------------------------------------------------------------------------------------------

    def test_killed(self) -> None:
        """A slave, a master without and one with a slave, and a registry: each is red everywhere, until forgotten."""
        self.well()
        lost = self.counted()
        self.slave_killed()
        self.master_killed(lost)
        self.master_with_slave_killed()
        self.registry_killed()
        self.forgotten(lost)

    def well(self) -> None:
        """All is well on every face, with 2,000 messages."""
        self._killed = time.monotonic()
        up = ("up", "up")
        self.until(
            "all registered",
            self.states,
            lambda found: found == dict.fromkeys(("broker-a", "broker-a#1", "broker-b", "broker-b#1"), up),
        )
        words = ("topic", "create", "Orders", "-n", "4", "-r", self.registries)
        self.assertEqual(self.command(*words)[0], 0)
        self.assertEqual(self.command("bench", "send", "Orders", "-n", "2000", "-r", self.registries)[0], 0)
        self.assertEqual((self.listed()[0], self.firing()), (0, set()))
        status, said, _ = self.examined()
        self.assertIn("brokers: none is missing", said)
        self.assertEqual(status, 0, said)

    def counted(self) -> dict[str, int]:
        """Return what broker-b has, once all of it was counted."""

        self._killed = time.monotonic()
        stored = self.get("/topics/Orders")["amounts"]["messages"]
        self.assertGreaterEqual(stored, 2000)

        def contents() -> list[Any]:
            return [self.get(f"/brokers/{name}")["content"] for name in ("broker-a", "broker-b")]

        found = self.until(
            "messages counted",
            contents,
            lambda both: None not in both and sum(one["messages"] for one in both) == stored,
        )
        return {name: found[1][name] for name in ("topics", "queues", "messages")}

    def slave_killed(self) -> None:
        """A slave is killed: its broker is not up, though its master answers."""
        self.kill("broker-b-slave-1")
        state = ("missing", "slave-missing")
        self.until("REST, slave", self.states, lambda found: found["broker-b#1"] == state, FIRST)
        self.until("alert, slave", self.firing, lambda found: ("critical", "broker-gone", "broker-b#1") in found)
        self.assertEqual(self.states()["broker-b"], ("up", "slave-missing"))
        self.assertEqual(self.get("/cluster")["unreachable"], None)
        status, _, error = self.listed()
        self.assertEqual((status, error), (75, "smartgo: missing: broker-b#1\n"))
        status, said, _ = self.examined()
        self.assertIn("X broker broker-b#1: is missing: it was last seen", said)
        self.assertEqual(status, 1)
        metrics = self.until(
            "metrics, slave", self.metrics, lambda found: found['smartgo_member_up{broker="broker-b",id="1"}'] == 0
        )
        self.assertIn('smartgo_member_missing_seconds{broker="broker-b",id="1"}', metrics)

    def master_killed(self, lost: dict[str, int]) -> None:
        """The master is killed, too: nothing of its broker can be reached, and it is said how much that is."""
        self.kill("broker-b")
        state = ("missing", "missing")
        self.until("REST, master", self.states, lambda found: found["broker-b"] == state, FIRST)
        self.until("alert, master", self.firing, lambda found: ("critical", "broker-gone", "broker-b") in found)
        page = self.get("/brokers/broker-b")
        self.assertEqual((page["state"], {name: page["unreachable"][name] for name in lost}), ("missing", lost))
        [topic] = self.get("/topics?q=Orders&kind=normal")["items"]
        at = {"broker": "broker-b", "queues": 4, "messages": lost["messages"]}
        self.assertEqual((topic["unreachable"], topic["brokers"]), ([at], ["broker-a"]))
        self.assertIn("broker-b", [one["broker"] for one in self.get("/groups")["missing"]])
        words = f"{lost['messages']:,} messages and {lost['queues']} queues cannot be reached"
        status, said, error = self.listed()
        self.assertEqual((status, error), (75, "smartgo: missing: broker-b, broker-b#1\n"))
        self.assertIn(words, said)
        status, said, _ = self.examined()
        self.assertEqual(status, 1)
        self.assertRegex(said, f"X broker broker-b: is missing: it was last seen .* ago.*{words}")
        self.until(
            "metrics, master",
            self.metrics,
            lambda found: found['smartgo_unreachable_messages{broker="broker-b"}'] == lost["messages"],
        )
        checks = {one["name"]: one for one in self.get("/ready")["checks"]}
        self.assertEqual(checks["brokers"]["detail"], "missing: broker-b, broker-b#1")

    def master_with_slave_killed(self) -> None:
        """The master of the other broker is killed: its slave answers, and it is not up for that."""
        self.kill("broker-a")
        state = ("missing", "no-master")
        self.until("REST, master with a slave", self.states, lambda found: found["broker-a"] == state, FIRST)
        wanted = {("critical", "broker-gone", "broker-a"), ("critical", "master-missing", "broker-a")}
        self.until("alerts, master with a slave", self.firing, lambda found: found >= wanted)
        self.assertEqual(self.states()["broker-a#1"], ("up", "no-master"))
        page = self.get("/brokers/broker-a")
        self.assertEqual((page["up"], page["state"], page["unreachable"]), (False, "missing", None))
        status, _, error = self.listed()
        self.assertEqual((status, error), (75, "smartgo: missing: broker-a, broker-b, broker-b#1\n"))
        status, said, _ = self.examined()
        self.assertEqual(status, 1)
        self.assertIn("X broker broker-a: has no master: it stores nothing", said)
        self.until(
            "metrics, master with a slave",
            self.metrics,
            lambda found: found['smartgo_broker_without_master{broker="broker-a"}'] == 1,
        )

    def registry_killed(self) -> None:
        """A registry is killed; the other one answers."""
        self.kill("registry-2")
        address = self.registries.partition(";")[2]
        rows = self.until(
            "REST, registry", lambda: self.get("/registries"), lambda found: not all(one["up"] for one in found), FIRST
        )
        self.until("alert, registry", self.firing, lambda found: ("critical", "registry-down", address) in found)
        self.assertEqual([one["address"] for one in rows if not one["up"]], [address])
        status, _, error = self.listed()
        self.assertEqual(status, 75)
        self.assertIn(f"no answer from registry {address}", error)
        status, said, _ = self.examined()
        self.assertEqual(status, 1)
        self.assertIn(f"X registry {address}", said)
        self.until(
            "metrics, registry",
            self.metrics,
            lambda found: found[f'smartgo_registry_up{{address="{address}"}}'] == 0,
        )

    def forgotten(self, lost: dict[str, int]) -> None:
        """A person takes broker-b out of service, after reading what is lost from view; broker-a stays missing."""
        status, said, _ = self.command("cluster", "forget", "broker-b", "--dry-run", *self.options())
        self.assertEqual(status, 0)
        self.assertIn(f"Its {lost['messages']:,} messages in {lost['queues']} queues", said)
        refused = self.command("cluster", "forget", "broker-a", "--id", "1", "--yes", *self.options())
        self.assertEqual(refused[0], 1)
        self.assertIn("is registered", refused[2])
        self.assertEqual(self.command("cluster", "forget", "broker-b", "--yes", *self.options())[0], 0)
        self._killed = time.monotonic()
        self.assertEqual(set(self.states()), {"broker-a", "broker-a#1"})
        self.assertEqual(self.get("/cluster")["unreachable"], None)
        self.until(
            "alerts, forgotten", self.firing, lambda found: not any(one[2].startswith("broker-b") for one in found)
        )
        self.assertIn(("critical", "broker-gone", "broker-a"), self.firing())
        self.assertNotIn('smartgo_member_up{broker="broker-b",id="0"}', self.metrics())
        self.assertEqual(self.listed()[2].splitlines()[-1].partition(";")[0], "smartgo: missing: broker-a")
