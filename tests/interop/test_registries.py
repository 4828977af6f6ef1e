"""Two registries, killed in turn while the official clients send (reliability H7, F18)."""

from __future__ import annotations

import os
import time
from typing import Any

from twisted.python import log

from tests.interop.case import PORTS, InteropCase, driver
from tests.interop.driver import Call, Driver
from tests.interop.peers import SMARTGO, Node, Plan
from tests.interop.process import wait_for_moment

_REFRESH = 32.0  # seconds: clients ask registries every 30
_WHOLE = 30.0  # seconds that a registry which begins anew may take to know everything


class TwoRegistriesTests(InteropCase):
    """One broker, two registries, and a producer of each generation that sends a hundred messages a second."""

    def setUp(self) -> None:
        super().setUp()
        ports = PORTS.take(6)
        home = self.home
        self.registries = [SMARTGO.registry(Plan(ports + at, os.path.join(home, f"registry-{at}"))) for at in (0, 1)]
        self.namesrv = ";".join(one.address for one in self.registries)
        self.broker = SMARTGO.broker(
            Plan(ports + 4, home, os.path.join(home, "store"), self.namesrv, settings={"fastPort": "false"})
        )
        self.first, self.second = self.registries
        for node in (*self.registries, self.broker):
            self.addCleanup(node.end)
            node.start()
        for registry in self.registries:
            registry.wait_registered(self.broker)
        self.drivers = [driver(generation) for generation in ("4.9", "5.3")]
        self.addCleanup(self._forget, self.namesrv)

    def load(self, client: Driver) -> Call:
        """Send until told to stop; errors are events, as a send is tried once."""
        name = client.name
        how: dict[str, Any] = {"size": 100, "threads": 2, "pauseMicros": 20000, "tells": True}
        call = client.start("load", name=name, topic="load", **how, **self.producer(client))
        self.addCleanup(client.ask, "load.stop", name=name)
        return call

    def producer(self, client: Driver) -> dict[str, Any]:
        """What makes the Java side use one and the same producer of a client; it tries a send once."""
        group = "load-" + client.generation.replace(".", "-")
        return {"group": group, "timeoutMs": 3000, "retries": 0, "namesrv": self.namesrv}

    def send_new(self, what: str) -> None:
        """Have each producer send to a topic that it has not asked for yet."""
        topic = self.name(what)
        self.drivers[0].ask("topic", topic=topic, queues=1, address=self.broker.address, namesrv=self.namesrv)
        for client in self.drivers:
            sent = client.start("send", topic=topic, **self.producer(client))
            self.assertEqual(len(sent.all_of("sent")), 1)

    def begin_anew(self, registry: Node) -> float:
        """Start a registry that was killed; return the seconds until it knows the broker."""
        registry.start()
        begin = time.monotonic()
        registry.wait_registered(self.broker)
        return time.monotonic() - begin

    def test_killed_in_turn(self) -> None:
        """No send fails when one registry dies, when it is back and the other dies, and when both are dead."""
        self.drivers[0].ask("topic", topic="load", queues=4, address=self.broker.address, namesrv=self.namesrv)
        loads = [self.load(client) for client in self.drivers]
        for call in loads:
            call.wait_for("acked", 200, 30)

        self.first.kill()
        wait_for_moment(time.time() + _REFRESH)
        self.send_new("after-first")
        whole = self.begin_anew(self.first)
        self.assertLessEqual(whole, _WHOLE)

        self.second.kill()
        wait_for_moment(time.time() + _REFRESH)
        self.send_new("after-second")

        self.first.kill()
        wait_for_moment(time.time() + 10.0)
        for client, call in zip(self.drivers, loads, strict=True):
            before = call.count("acked")
            call.wait_for("acked", before + 100, 10)
            client.ask("load.stop", name=client.name)
            told = call.result()
            self.assertEqual((told["failed"], call.of("unknown")), (0, []), client.name)
            self.assertEqual(told["acked"], call.count("acked"))
            log.msg(f"{client.name}: {told['acked']} sends, 0 errors; a registry was whole after {whole:.1f} s")
