"""The command against a real RocketMQ 4.9: what is ours alone is not needed for it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

from tests.interop.case import InteropCase
from tests.interop.peers import ROCKETMQ

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class RocketMQTests(InteropCase):
    def setUp(self) -> None:
        """A real registry and a real broker."""
        super().setUp()
        self.real = self.cluster(ROCKETMQ)
        self.real.start()
        self.directory = self.home
        os.makedirs(self.directory)

    def arguments(self, *words: str) -> dict[str, Any]:
        """Return the arguments of a process that runs a command."""
        environment = {**os.environ, "PYTHONPATH": ROOT, "NAMESRV_ADDR": self.real.namesrv}
        command = [sys.executable, "-m", "smartgo.cli.main", *words]
        return {"args": command, "env": environment, "cwd": self.directory}

    def run_it(self, *words: str, status: int = 0, hint: str = "") -> str:
        """Run a command, which gives the hint on standard error; return what it wrote, or its error."""
        done = subprocess.run(**self.arguments(*words), capture_output=True, text=True, timeout=240, check=False)
        self.assertEqual(done.returncode, status, (words, done.stdout, done.stderr))
        if not status:
            self.assertRegex(done.stderr, rf"\A{hint}\Z", words)
        said: str = done.stderr if status else done.stdout
        return said

    def json(self, *words: str) -> Any:
        """Return what a command writes as JSON."""
        return json.loads(self.run_it(*words, "-o", "json"))

    def test_tour(self) -> None:
        """Topics, groups, moves, messages, brokers, settings and values; brokers of 4.9 are asked in their own way."""
        self.run_it("topic", "create", "Orders", "-n", "2")
        self.run_it("send", "Orders", "hello", "--key", "k1")
        self.run_it("send", "Orders", "more", "--count", "19")
        self.assertEqual([row["topic"] for row in self.json("topic", "ls")], ["Orders"])
        self.assertEqual(self.json("topic", "show", "Orders")["messages"], 20)
        self.assertEqual(self.json("msg", "search", "Orders", "--key", "k1")[0]["body"], "hello")
        self.run_it(
            "group", "create", "audit", "--retries", "3", hint="Clients that send their own maxReconsumeTimes .*\n"
        )
        self.assertEqual(self.json("group", "show", "audit")[0]["retryMaxTimes"], 3)
        moved = self.json("group", "reset", "audit", "Orders", "--to", "4", "--yes", "--plan", "plan.json")
        self.assertEqual((moved["written"], moved["told"]), (["broker-a"], []))
        self.assertEqual({row["position"] for row in self.json("group", "lag", "audit", "--topic", "Orders")}, {4})
        self.assertEqual(self.json("cluster", "ls")[0]["broker"], "broker-a")
        self.assertEqual(self.json("config", "set", "broker-a", "flushIntervalCommitLog=400", "-y")[0]["after"], "400")
        self.run_it("kv", "put", "N", "k", "v")
        self.assertEqual(self.json("kv", "get", "N", "k")["value"], "v")
        self.assertIn("No problem", self.run_it("doctor"))
        self.run_it("group", "rm", "audit", "--yes")
        self.run_it("topic", "rm", "Orders", "--yes")
        self.run_it("topic", "show", "Orders", status=66)

    def test_members(self) -> None:
        """A group with members is moved to a time; single queues it cannot move, and nothing moves then."""
        self.run_it("topic", "create", "T", "-n", "1")
        self.run_it("send", "T", "x", "--count", "10")
        member = subprocess.Popen(
            **self.arguments("consume", "T", "--group", "cg", "--from", "first"), stdout=subprocess.PIPE, text=True
        )
        self.addCleanup(member.wait)
        self.addCleanup(member.send_signal, signal.SIGINT)
        patience = threading.Timer(240, member.kill)  # a line that never comes ends the test
        patience.start()
        self.addCleanup(patience.cancel)
        assert member.stdout is not None
        for _ in range(10):
            member.stdout.readline()
        deadline = time.monotonic() + 120
        while self.json("group", "lag", "cg", "--topic", "T")[0]["position"] != 10:
            self.assertLess(time.monotonic(), deadline)
        said = self.run_it("group", "reset", "cg", "T", "--to", "3", "--yes", "--plan", "a.json", status=1)
        self.assertIn("stop them first", said)
        time.sleep(6)
        self.assertEqual(self.json("group", "lag", "cg", "--topic", "T")[0]["position"], 10)
        moved = self.json("group", "reset", "cg", "T", "--to", "earliest", "--yes", "--plan", "b.json")
        self.assertEqual(moved["told"], ["broker-a"])
        self.assertEqual(member.stdout.readline(), "0:0 x\n")
