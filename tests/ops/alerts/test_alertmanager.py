"""Notices to Prometheus' Alertmanager itself, where it is installed."""

from __future__ import annotations

import json
import os
from shutil import which
from typing import Any

import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionRefusedError as Refused
from twisted.internet.protocol import ProcessProtocol
from twisted.internet.task import deferLater
from twisted.trial.unittest import TestCase
from twisted.web.client import Agent, readBody

from smartgo.config.receivers import AlertReceiver
from smartgo.env.real import RealEnvironment
from smartgo.ops.alerts.messages import NoticeOrigin
from smartgo.ops.alerts.notices import Batch, Notice
from smartgo.ops.alerts.senders import HttpSender

PROGRAM = os.environ.get("SMARTGO_ALERTMANAGER") or which("alertmanager") or which("prometheus-alertmanager") or ""
CONFIG = "route: {receiver: nobody}\nreceivers: [{name: nobody}]\n"


class Ended(ProcessProtocol):
    """Waits for a process."""

    def __init__(self) -> None:
        self.ended: Deferred[None] = Deferred()

    def processEnded(self, reason: Any) -> None:
        """Tell it."""
        self.ended.callback(None)


class AlertmanagerTests(TestCase):
    """Alertmanager in a process of its own."""

    timeout = 120
    skip = None if PROGRAM else "alertmanager is not installed"

    async def begin(self) -> None:
        """Start it, and wait until it answers."""
        from twisted.internet import reactor

        self.reactor: Any = reactor
        self.env = RealEnvironment(reactor)
        self.addCleanup(self.env.threads.stop)
        folder = os.path.abspath(self.mktemp())
        os.mkdir(folder)
        with open(os.path.join(folder, "am.yml"), "w") as file:
            file.write(CONFIG)
        self.url = f"http://127.0.0.1:{self.env.network.free_port()}"
        arguments = (
            "--config.file=am.yml", "--storage.path=data", "--cluster.listen-address=",
            f"--web.listen-address={self.url[7:]}",
        )  # fmt: skip
        process = Ended()
        transport = self.reactor.spawnProcess(process, PROGRAM, ("alertmanager", *arguments), None, folder)

        def end() -> Deferred[None]:
            transport.signalProcess("TERM")
            return process.ended

        self.addCleanup(end)
        while True:
            try:
                await self.alerts()
                return
            except Refused:
                await deferLater(self.reactor, 0.1)

    async def alerts(self) -> dict[str, Any]:
        """The alerts that fire, by subject."""
        response = await Agent(self.reactor).request(b"GET", f"{self.url}/api/v2/alerts".encode())
        return {one["labels"].get("subject"): one for one in json.loads(await readBody(response))}

    async def test_alerts(self) -> None:
        """It takes firing alerts, shows them with their runbook, and forgets them when they are resolved."""
        await self.begin()
        now = self.env.clock.wall_ms()
        receiver = AlertReceiver(name="am", kind="alertmanager", url=self.url)
        sender = HttpSender(self.env, receiver, NoticeOrigin("site-a", "https://wiki.example.com/a.html"))
        late = Notice("group-late", "audit", "warning", "firing", now - 9000, now - 5000, None, 700.0, 700.0, now)
        down = Notice("broker-down", "broker-a", "critical", "firing", now - 9000, now - 5000, None, 1.0, 1.0, now)
        self.assertEqual(await sender.send(Batch([late, down])), "HTTP status 200")
        found = await self.alerts()
        self.assertEqual(set(found), {"audit", "broker-a"})
        self.assertEqual(found["audit"]["labels"]["alertname"], "group-late")
        self.assertEqual(found["broker-a"]["labels"]["severity"], "critical")
        self.assertEqual(
            found["audit"]["annotations"]["runbook_url"], "https://wiki.example.com/a.html#alert-group-late"
        )
        await sender.send(Batch([msgspec.structs.replace(late, state="resolved", resolved_ms=now)]))
        self.assertEqual(set(await self.alerts()), {"broker-a"})
