"""Registries that are killed while the official clients send, and two brokers of one name (reliability H6, H7, F18)."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import Any
from unittest import SkipTest

from twisted.python import log

from tests.interop.case import LONG, PORTS, TIMED, InteropCase, driver
from tests.interop.driver import Call, Driver
from tests.interop.peers import GET_BROKER_CLUSTER_INFO, GET_BROKER_RUNTIME_INFO, SMARTGO, Node, Plan, ask
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
        return {"group": group, "timeoutMs": 30000, "retries": 0, "namesrv": self.namesrv}

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
            call.wait_for("acked", 200, 60)

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
            call.wait_for("acked", before + 100, 60)
            client.ask("load.stop", name=client.name)
            told = call.result()
            self.assertEqual((told["failed"], call.of("unknown")), (0, []), client.name)
            self.assertEqual(told["acked"], call.count("acked"))
            log.msg(f"{client.name}: {told['acked']} sends, 0 errors; a registry was whole after {whole:.1f} s")


class RivalsTests(InteropCase):
    """Two brokers of one name (reliability H6), and a master that is stopped for minutes (F13)."""

    def setUp(self) -> None:
        super().setUp()
        ports = PORTS.take(10)
        home = self.home
        self.registry = SMARTGO.registry(Plan(ports, home))
        self.brokers = [
            SMARTGO.broker(
                Plan(
                    ports + 3 + 3 * at,
                    home,
                    os.path.join(home, f"store-{at}"),
                    self.registry.address,
                    settings={"fastPort": "false"},
                )
            )
            for at in (0, 1)
        ]
        self.first, self.second = self.brokers
        for node in (self.registry, self.first, self.second):
            self.addCleanup(node.end)
            node.start()
        self.where = {"namesrv": self.registry.address}
        self.client = driver("4.9")
        self.addCleanup(self._forget, self.registry.address)

    def master(self) -> str:
        """Whom the registry calls the master; empty for nobody."""
        table = json.loads(ask(self.registry.plan, GET_BROKER_CLUSTER_INFO) or b"{}").get("brokerAddrTable", {})
        return str(table.get("broker-a", {}).get("brokerAddrs", {}).get("0", ""))

    def until_master(self, broker: Node, limit: float) -> float:
        """Wait until a broker is the master; return how long that took."""
        begin = time.monotonic()
        while self.master() != broker.address:
            self.assertLess(time.monotonic() - begin, limit)
            wait_for_moment(time.time() + 0.2)
        return time.monotonic() - begin

    def stored(self, broker: Node) -> int:
        """Return the number of messages that a broker has stored."""
        facts = json.loads(ask(broker.plan, GET_BROKER_RUNTIME_INFO) or b"{}")["table"]
        return int(facts["msgPutTotalTodayNow"])

    def test_second_waits(self) -> None:
        """The second broker of a name stores nothing; when the first is killed it is the master within 20 s."""
        self.assertEqual(self.master(), self.first.address)
        self.client.ask("topic", topic="T", queues=1, address=self.first.address, **self.where)
        sent = self.client.start("send", topic="T", count=20, **self.where).all_of("sent")
        self.assertEqual((len(sent), self.stored(self.second)), (20, 0))
        self.first.kill()
        log.msg(f"the second was the master after {self.until_master(self.second, 20.5 if TIMED else 60.0):.1f} s")

    def test_paused(self) -> None:
        """A master that was stopped for long and replaced stores nothing when it goes on, nor what waits for it."""
        if not LONG:
            raise SkipTest("takes three minutes: SMARTGO_INTEROP_LONG=1")
        for broker in self.brokers:
            self.client.ask("topic", topic="T", queues=1, address=broker.address, **self.where)
        load = self.client.start(
            "load", name="paused", topic="T", threads=2, pauseMicros=20000, tells=True, retries=0, timeoutMs=2000,
            **self.where,
        )  # fmt: skip
        self.addCleanup(self.client.ask, "load.stop", name="paused")
        load.wait_for("acked", 100, 60)
        os.kill(self.first.pid, signal.SIGSTOP)
        self.addCleanup(lambda: os.kill(self.first.pid, signal.SIGCONT) if self.first.running else None)
        took = self.until_master(self.second, 145.0)
        before = load.count("acked")
        load.wait_for("acked", before + 100, 60)
        os.kill(self.first.pid, signal.SIGCONT)
        wait_for_moment(time.time() + 20.0)
        self.assertEqual(self.master(), self.second.address)
        self.client.ask("load.stop", name="paused")
        load.result()
        acked = load.of("acked")
        read = self.client.start("read", topics=["T"], **self.where).all_of("message", 60)
        self.assertLessEqual(
            {event["offsetMsgId"] for event in acked[before:]}, {event["offsetMsgId"] for event in read}
        )
        log.msg(f"replaced after {took:.1f} s; {len(acked) - before} sends since then, all at the second")
