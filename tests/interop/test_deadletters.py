"""Dead letters of an official consumer: our commands resend, mark and acknowledge them, at the real broker too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any
from unittest import SkipTest

from tests.interop.case import LONG, InteropCase, driver


class DeadLetterTests(InteropCase):
    """The command line, before the peer that is chosen."""

    def smartgo(self, namesrv: str, *arguments: str) -> Any:
        """Run a command; return what it writes as JSON."""
        done = subprocess.run(
            [sys.executable, "-m", "smartgo.cli.main", *arguments, "--registry", namesrv, "-o", "json"],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "USER": "ann"},
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_marked(self) -> None:
        """What is resent is marked, and known as consumed by the official consumer; the rest is acknowledged."""
        if not LONG:
            raise SkipTest("takes minutes; set SMARTGO_INTEROP_LONG=1")
        running = self.shared()
        where = {"namesrv": running.namesrv}
        client = driver("4.9")
        topic, group = self.name("letters"), self.name("group")
        for each in (topic, f"%RETRY%{group}"):
            client.ask("topic", topic=each, queues=1, address=running.broker.address, **where)
        consumer = client.start(
            "push", name=group, group=group, topics={topic: "*"}, failTimes=-1, maxReconsumeTimes=0, **where
        )
        consumer.result()
        client.start("send", topic=topic, count=3, **where).result()
        dead: list[Any] = []
        while len(dead) < 3:
            dead += client.ask("await", topic=f"%DLQ%{group}", offset=len(dead), **where)["messages"]
        client.ask("push.stop", name=group)

        def counts() -> tuple[int, int]:
            row = next(one for one in self.smartgo(running.namesrv, "dlq", "ls") if one["group"] == group)
            return row["messages"], row["open"]

        self.assertEqual(counts(), (3, 3))
        first, *_ = rows = self.smartgo(running.namesrv, "dlq", "show", group)
        self.assertEqual([row["open"] for row in rows], [True] * 3)
        self.smartgo(running.namesrv, "dlq", "resend", group, "--id", first["offset_id"], "--yes")
        self.assertEqual(counts(), (3, 2))
        again = client.start("push", name=f"{group}-2", group=group, topics={topic: "*"}, **where)
        again.result()
        again.wait_for("message", 1, 90)
        client.ask("push.stop", name=f"{group}-2")
        self.assertEqual(self.smartgo(running.namesrv, "dlq", "resend", group, "--all", "--dry-run")["sent"], 2)
        self.assertEqual(self.smartgo(running.namesrv, "dlq", "ack", group, "--all", "--yes")["count"], 2)
        self.assertEqual(counts(), (3, 0))
        rows = self.smartgo(running.namesrv, "dlq", "show", group)
        self.assertEqual((rows[0]["resent"]["who"], rows[0]["resent"]["state"]), ("ann", "consumed"))
        self.assertEqual([row["acknowledged"]["who"] for row in rows[1:]], ["ann", "ann"])
