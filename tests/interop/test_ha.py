"""
Replication with the real broker, both ways: our slave follows a real master, a real slave follows ours.

Written from what is to be seen of the two alone: the bytes of their logs on disk, the tables they answer with, and what
the official client is served.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.interop import logs
from tests.interop.case import PORTS, TIMED, InteropCase, driver, ids, ids_of
from tests.interop.certificates import Certificates
from tests.interop.driver import Call
from tests.interop.peers import GET_BROKER_CLUSTER_INFO, ROCKETMQ, SMARTGO, Node, Peer, Plan, SmartgoSlave, ask

if TYPE_CHECKING:
    Mixed = InteropCase
else:
    Mixed = object  # trial would run the tests of a mixin that is a test case

GET_ALL_TOPIC_CONFIG = 21
GET_ALL_CONSUMER_OFFSET = 43
GET_ALL_DELAY_OFFSET = 45
GET_ALL_SUBSCRIPTIONGROUP_CONFIG = 201

_FILE = 1 << 20  # bytes of a log file: an emptied slave begins with the master's last one
_COPIED = 90.0  # seconds; tables are copied every 10
_ROUTED = 180.0  # seconds; the slave registers every 30, its topics count after 35, clients ask every 30
_SERVED = 35.0 if TIMED else 90.0  # seconds after which consumers must be served by the slave (reliability F15)


class Pair:
    """A registry, a master and a slave, the slave's peer not always the master's."""

    def __init__(self, master: Peer, slave: Peer, home: str, tls: Certificates | None = None) -> None:
        """@param tls: all three serve TLS and plain clients, and use it towards others."""
        ports = PORTS.take(9)
        os.makedirs(home, exist_ok=True)
        self._tls = tls
        registry = Plan(ports + 8, os.path.join(home, "registry"), tls=tls, tls_mode="permissive")
        self.namesrv = registry.address
        self.registry: Node = master.registry(registry)
        self.master: Node = master.broker(self._plan(home, "master", ports + 2, {}))
        kind = SmartgoSlave if slave is SMARTGO else slave.broker
        role = {"brokerRole": "SLAVE", "brokerId": "1"}
        self.slave: Node = kind(self._plan(home, "slave", ports + 6, role))

    def _plan(self, home: str, name: str, port: int, role: dict[str, str]) -> Plan:
        settings = {"mappedFileSizeCommitLog": str(_FILE), **role}
        folder = os.path.join(home, name)
        store = os.path.join(folder, "store")
        return Plan(port, folder, store, self.namesrv, settings=settings, tls=self._tls, tls_mode="permissive")

    def start(self) -> None:
        """Start registry and master; the slave is the tests' to start."""
        self.registry.start()
        self.master.start()
        self.registry.wait_registered(self.master)

    def start_slave(self) -> None:
        """Start the slave; returns when the registry tells of it."""
        self.slave.start()
        self.registry.wait_registered(self.slave)

    def empty_slave(self) -> None:
        """Kill the slave and remove all it had."""
        self.slave.kill()
        shutil.rmtree(self.slave.plan.store)

    def end(self) -> None:
        """Leave nothing running."""
        for node in (self.slave, self.master, self.registry):
            node.end()


def table(node: Node, code: int, name: str) -> dict[str, Any]:
    """Return a table that a broker answers with; empty where it does not answer."""
    body = ask(node.plan, code)
    if body is None:
        return {}
    found: dict[str, Any] = _json(body)[name]
    return found


def parsed(path: str) -> dict[str, Any]:
    """Return what a table's file holds."""
    with open(path, "rb") as file:
        return _json(file.read())


def _json(text: bytes) -> dict[str, Any]:
    """Parse JSON as real brokers write it: numbers as keys have no quotes."""
    found: dict[str, Any] = json.loads(re.sub(rb"([{,]\s*)(-?\d+):", rb'\1"\2":', text))
    return found


class SameLogTests(Mixed):
    """The log at both, for each pair; the classes at the end say which."""

    master: Peer
    slave: Peer
    secure = False

    def setUp(self) -> None:
        """Have a registry and a master run."""
        super().setUp()
        certificates = Certificates.make(os.path.join(self.home, "certificates")) if self.secure else None
        self.pair = Pair(self.master, self.slave, self.home, certificates)
        self.addCleanup(self.pair.end)
        self.addCleanup(self._forget, self.pair.namesrv)
        self.pair.start()
        self.client = driver("4.9")
        self.where = {"namesrv": self.pair.namesrv}

    def topic(self, topic: str, queues: int = 4) -> None:
        """Create a topic at the master."""
        self.client.ask("topic", topic=topic, queues=queues, address=self.pair.master.address, **self.where)

    def until(self, true: Callable[[], bool], timeout: float, what: str) -> None:
        """Look again and again until something is so; fail if that takes too long."""
        deadline = time.monotonic() + timeout
        while not true():
            if time.monotonic() > deadline:
                self.fail(f"{what}: not within {timeout:g} s; the slave's last lines:\n{self.pair.slave.tail()}")
            threading.Event().wait(0.2)

    def assert_equal_logs(self, timeout: float = 120.0) -> logs.Difference:
        """Wait until both logs end at the same place; fail unless their bytes are the same."""
        stores = self.pair.master.plan.store, self.pair.slave.plan.store

        def same_end() -> bool:
            try:
                return logs.log_end(stores[0]) == logs.log_end(stores[1])
            except FileNotFoundError:
                return False

        self.until(same_end, timeout, "the slave's log ends where the master's does")
        found = logs.compare(*stores)
        self.assertEqual(found.at, -1, f"first byte that differs; {found.begin} to {found.end} compared")
        return found

    def load(self, topic: str) -> Call:
        """Send until the test is over, or L{stop_load}."""
        call = self.client.start("load", name=topic, topic=topic, size=900, retries=0, **self.where)
        self.addCleanup(self.client.ask, "load.stop", name=topic)
        return call

    def stop_load(self, call: Call, topic: str) -> None:
        """End a load, in which no send may have failed."""
        self.client.ask("load.stop", name=topic)
        self.assertEqual(call.result()["failed"], 0, "sends that failed while only the slave was hit")

    def started(self, topic: str) -> Call:
        """Start the slave behind a master that has messages; return a load that goes on."""
        self.topic(topic)
        sent = self.client.start("send", topic=topic, count=3000, size=900, **self.where).all_of("sent")
        self.assertEqual({event["status"] for event in sent}, {"SEND_OK"})
        self.pair.start_slave()
        found = self.assert_equal_logs()
        self.assertEqual(found.begin, found.end // _FILE * _FILE, "an empty slave begins with the master's last file")
        load = self.load(topic)
        load.wait_for("acked", 500, 60)
        return load

    def ended(self, load: Call, topic: str) -> None:
        """End the load, and compare the logs."""
        self.stop_load(load, topic)
        found = self.assert_equal_logs()
        self.assertGreater(found.end - found.begin, 0)

    def test_followed(self) -> None:
        """The slave's log has the master's bytes: from before its start, and during sends."""
        topic = self.name("followed")
        load = self.started(topic)
        load.wait_for("acked", load.count("acked") + 500, 60)
        self.ended(load, topic)

    def test_bytes(self) -> None:
        """The slave's log has the master's bytes: from before its start, during sends, after kills, emptied."""
        topic = self.name("bytes")
        load = self.started(topic)
        for _ in range(2):
            self.pair.slave.kill()
            load.wait_for("acked", load.count("acked") + 300, 60)
            self.pair.start_slave()
            load.wait_for("acked", load.count("acked") + 300, 60)
        self.pair.empty_slave()
        load.wait_for("acked", load.count("acked") + 300, 60)
        self.pair.start_slave()
        load.wait_for("acked", load.count("acked") + 1000, 60)
        self.ended(load, topic)


class FollowingTests(SameLogTests):
    """All else, too."""

    def test_tables(self) -> None:
        """Topics, groups, and how far groups and delay levels are, are the same at the slave."""
        topic, later = self.name("tables"), self.name("later")
        group = self.name("group")
        self.topic(topic, queues=3)
        self.client.ask("send", topic=topic, count=30, **self.where)
        consumer = self.client.start("push", name=group, group=group, topics={topic: "*"}, **self.where)
        consumer.wait_for("message", 30, 60)
        key, all_read = f"{topic}@{group}", {"0": 10, "1": 10, "2": 10}
        self.until(
            lambda: table(self.pair.master, GET_ALL_CONSUMER_OFFSET, "offsetTable").get(key) == all_read,
            60,
            "the consumer has committed what it was given",
        )
        self.client.ask("push.stop", name=group)
        self.client.ask("send", topic=topic, count=4, first=100, delayLevel=1, **self.where)
        self.pair.start_slave()
        self.topic(later, queues=5)
        self.client.ask("await", topic=topic, queueId=0, offset=10, **self.where)

        def copied(code: int, name: str, key: str) -> None:
            def same() -> bool:
                ours = table(self.pair.master, code, name).get(key)
                return ours is not None and table(self.pair.slave, code, name).get(key) == ours

            self.until(same, _COPIED, f"{key} of {name} at the slave")

        copied(GET_ALL_TOPIC_CONFIG, "topicConfigTable", topic)
        copied(GET_ALL_TOPIC_CONFIG, "topicConfigTable", later)
        copied(GET_ALL_TOPIC_CONFIG, "topicConfigTable", f"%RETRY%{group}")
        copied(GET_ALL_SUBSCRIPTIONGROUP_CONFIG, "subscriptionGroupTable", group)
        copied(GET_ALL_CONSUMER_OFFSET, "offsetTable", key)
        path = os.path.join(self.pair.slave.plan.store, "config", "delayOffset.json")
        levels: dict[str, Any] = {}

        def delivered() -> bool:  # the message that was waited for may not be the last one
            levels.update(table(self.pair.master, GET_ALL_DELAY_OFFSET, "offsetTable"))
            return bool(levels.get("1") == 4)

        self.until(delivered, 60, "the master has delivered four messages of level 1")
        # a real slave answers 45 from what it read at its start: what it copied since is in its file alone
        self.until(lambda: os.path.exists(path) and parsed(path)["offsetTable"] == levels, _COPIED, path)
        self.assertEqual(table(self.pair.slave, GET_ALL_CONSUMER_OFFSET, "offsetTable")[key], all_read)
        for name in ("topics.json", "subscriptionGroup.json", "consumerOffset.json"):
            path = os.path.join(self.pair.slave.plan.store, "config", name)
            self.until(lambda path=path: os.path.exists(path), _COPIED, path)  # type: ignore[misc]

    def test_master_gone(self) -> None:
        """With the master killed the official client reads on from the slave where its group was, and returns later."""
        topic, group = self.name("gone"), self.name("group")
        self.topic(topic)
        before = ids_of(self.client.start("send", topic=topic, count=200, **self.where).all_of("sent"))
        consumer = self.client.start("push", name=group, group=group, topics={topic: "*"}, **self.where)
        consumer.wait(lambda: ids(consumer) >= before, 60, "the first 200")
        self.client.ask("push.stop", name=group)
        self.pair.start_slave()
        key = f"{topic}@{group}"
        self.until(
            lambda: (
                table(self.pair.slave, GET_ALL_CONSUMER_OFFSET, "offsetTable").get(key)
                == table(self.pair.master, GET_ALL_CONSUMER_OFFSET, "offsetTable")[key]
            ),
            _COPIED,
            "the group's offsets at the slave",
        )
        unread = ids_of(self.client.start("send", topic=topic, count=100, first=200, **self.where).all_of("sent"))
        self.assert_equal_logs()
        self.pair.master.kill()
        again = self.client.start("push", name=f"{group}-2", group=group, topics={topic: "*"}, **self.where)
        self.addCleanup(self.client.ask, "push.stop", name=f"{group}-2")
        again.wait(lambda: ids(again) >= unread, _SERVED, "the 100 that only the slave can serve")
        self.assertEqual(ids(again), unread, "nothing comes again that the group had committed")

        self.pair.master.start()
        self.pair.registry.wait_registered(self.pair.master)
        self.until(self._sends(topic), _SERVED, "a send to the master that came back")
        more = ids_of(self.client.start("send", topic=topic, count=50, first=300, **self.where).all_of("sent"))
        again.wait(lambda: ids(again) >= more, _SERVED, "what was sent after the master's return")
        self.assert_equal_logs()

    def _sends(self, topic: str) -> Callable[[], bool]:
        def sends() -> bool:
            try:
                self.client.ask("send", topic=topic, count=1, first=9000, timeoutMs=2000, **self.where)
            except Exception:  # the client has no route yet
                return False
            return True

        return sends


class OurSlaveTests(FollowingTests, InteropCase):
    """Ours follows a real 4.9.7 master."""

    master, slave = ROCKETMQ, SMARTGO


class RealSlaveTests(FollowingTests, InteropCase):
    """A real 4.9.7 slave follows ours."""

    master, slave = SMARTGO, ROCKETMQ

    def test_registry_restarted(self) -> None:
        """After a restart of our registry without the master the official client is served by the slave."""
        topic = self.name("alone")
        self.topic(topic)
        self.pair.start_slave()
        sent = ids_of(self.client.start("send", topic=topic, count=100, **self.where).all_of("sent"))
        self.assert_equal_logs()
        known = table(self.pair.master, GET_ALL_TOPIC_CONFIG, "topicConfigTable")
        self.until(
            lambda: table(self.pair.slave, GET_ALL_TOPIC_CONFIG, "topicConfigTable").keys() >= known.keys(),
            _COPIED,
            "the topics at the slave",
        )
        self.pair.master.kill()
        self.pair.registry.kill()
        self.pair.registry.start()
        group = self.name("group")
        consumer = self.client.start("push", name=group, group=group, topics={topic: "*"}, **self.where)
        self.addCleanup(self.client.ask, "push.stop", name=group)
        consumer.wait(lambda: ids(consumer) >= sent, _ROUTED, "the 100 that only the slave can serve")
        self.assertFalse(self._sends(topic)(), "a send without a master")

    def test_registers(self) -> None:
        """A slave that registers only where the registry has another version (322) is known again, until it stops."""
        slave, registry = self.pair.slave, self.pair.registry
        often = {"forceRegister": "false", "registerNameServerPeriod": "10000"}
        slave.plan = replace(slave.plan, settings={**slave.plan.settings, **often})
        self.pair.start_slave()
        registry.kill()
        registry.start()
        registry.wait_registered(slave)
        slave.stop()  # by SIGTERM: it unregisters first (104)
        known = ask(registry.plan, GET_BROKER_CLUSTER_INFO)
        self.assertNotIn(slave.address.encode(), known or b"")


class SecureTests(SameLogTests):
    """
    The same logs where registry, master and slave have certificates and take TLS on their other ports.

    RocketMQ knows no TLS between master and slave: one of the two ends does without.
    """

    secure = True


class OurSecureSlaveTests(SecureTests, InteropCase):
    """Ours follows a real 4.9.7 master."""

    master, slave = ROCKETMQ, SMARTGO


class RealSecureSlaveTests(SecureTests, InteropCase):
    """A real 4.9.7 slave follows ours, which is permissive."""

    master, slave = SMARTGO, ROCKETMQ


class BothOursSecureTests(SecureTests, InteropCase):
    """Ours follows ours, over TLS."""

    master, slave = SMARTGO, SMARTGO
