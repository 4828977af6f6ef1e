"""
Shared parts of the interop tests: skips, free ports, one cluster for tests that only talk to it, and JVMs.

Settings, all from the environment:

  - C{SMARTGO_INTEROP=0}: skip all of it.
  - C{SMARTGO_INTEROP_LONG=1}: the long variants.
  - C{SMARTGO_TIMES=1}: hold times that only an idle machine keeps, too.
  - C{SMARTGO_INTEROP_PEER=rocketmq}: the real broker and name server in the place of ours.
  - C{SMARTGO_INTEROP_PORTS}: the first of 200 ports to use on 127.0.0.1, 21000 by default.
  - C{SMARTGO_INTEROP_CACHE}: where jars and classes are kept, see L{tests.interop.jars}.
"""

from __future__ import annotations

import functools
import itertools
import os
import socket
from collections.abc import Iterable, Mapping
from unittest import SkipTest

from twisted.trial.unittest import SynchronousTestCase

from tests.interop.certificates import Certificates
from tests.interop.driver import Call, Driver, Event
from tests.interop.jars import unavailable
from tests.interop.peers import SMARTGO, Node, Peer, Plan, chosen

LONG = os.environ.get("SMARTGO_INTEROP_LONG") == "1"
TIMED = os.environ.get("SMARTGO_TIMES") == "1"
_PORTS = 200
_numbers = itertools.count(1)


class Ports:
    """Hands out runs of free ports, going round within its range."""

    def __init__(self, first: int, count: int) -> None:
        self._first = first
        self._count = count
        self._next = 0

    def take(self, count: int) -> int:
        """
        Return the first of C{count} adjacent ports that nobody listens on.

        @raise RuntimeError: there is no such run.
        """
        for _ in range(self._count // count):
            begin = self._first + self._next
            self._next = (self._next + count) % (self._count - count + 1)
            if all(is_free(port) for port in range(begin, begin + count)):
                return begin
        raise RuntimeError(f"no {count} adjacent free ports from {self._first} on")


def is_free(port: int) -> bool:
    """Return whether a port of 127.0.0.1 can be listened on."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


PORTS = Ports(int(os.environ.get("SMARTGO_INTEROP_PORTS", "21000")), _PORTS)


class Cluster:
    """
    A registry and a broker of one peer.

    @ivar namesrv: the registry's C{host:port}.
    """

    def __init__(
        self,
        peer: Peer,
        home: str,
        settings: Mapping[str, str] | None = None,
        registry_settings: Mapping[str, str] | None = None,
        store: str | None = None,
        broker_port: int | None = None,
        tls: Certificates | None = None,
        tls_mode: str = "enforcing",
        key: tuple[str, str] | None = None,
    ) -> None:
        """
        @param home: a folder of its own, absolute.
        @param registry_settings: further settings of a registry of ours.
        @param store: the broker's store; by default below C{home}.
        @param key: the access key and the secret of requests that the test itself sends.
        @param broker_port: where message ids of an existing store point to; by default a free one.
        """
        ports = PORTS.take(5)
        registry = Plan(ports + 4, home, settings=registry_settings or {}, tls=tls, tls_mode=tls_mode, key=key)
        broker = Plan(
            broker_port or ports + 2,
            home,
            store or os.path.join(home, "store"),
            registry.address,
            settings=settings or {},
            tls=tls,
            tls_mode=tls_mode,
            key=key,
        )
        self.peer = peer
        self.registry: Node = peer.registry(registry)
        self.broker: Node = peer.broker(broker)
        self.namesrv = registry.address

    def start(self) -> None:
        """Start both; returns when the registry tells clients of the broker."""
        self.registry.start()
        self.start_broker()

    def start_broker(self) -> float:
        """Start the broker alone and return the seconds until its first answer; it is registered then, too."""
        boot = self.broker.start()
        self.registry.wait_registered(self.broker)
        return boot

    def stop(self) -> None:
        """Stop both by SIGTERM, the broker first, as its store is to be read afterwards."""
        self.broker.stop()
        self.registry.stop()

    def end(self) -> None:
        """Leave nothing running."""
        self.broker.end()
        self.registry.end()


@functools.cache
def _shared_cluster() -> Cluster:
    cluster = Cluster(chosen(), os.path.abspath("interop-shared"))
    cluster.start()
    return cluster


_drivers: dict[tuple[str, str], Driver] = {}


def driver(generation: str, encoding: str = "JSON") -> Driver:
    """Return the JVM of one generation and header encoding that all tests of a run share."""
    key = (generation, encoding)
    if key not in _drivers:
        _drivers[key] = Driver(generation, os.path.abspath(f"interop-java-{generation}-{encoding}"), encoding)
    return _drivers[key]


def needs(feature: str) -> None:
    """Skip what smartgo has not built yet; the real broker has it. @raise SkipTest: it is smartgo that is tested."""
    if chosen() is SMARTGO:
        raise SkipTest(f"not built yet: {feature}")


class InteropCase(SynchronousTestCase):
    """A test that needs the Java side; skipped by name where that cannot run."""

    def setUp(self) -> None:
        """Skip where the official clients cannot run."""
        if os.environ.get("SMARTGO_INTEROP") == "0":
            raise SkipTest("switched off by SMARTGO_INTEROP=0")
        reason = unavailable()
        if reason is not None:
            raise SkipTest(f"the official Java clients cannot run: {reason}")

    @property
    def home(self) -> str:
        """A folder of this test's own, absolute; not there yet."""
        path: str = self.mktemp()
        return os.path.abspath(path)

    def shared(self) -> Cluster:
        """Return the running cluster for tests that neither stop it nor need settings of their own."""
        cluster = _shared_cluster()
        for node in (cluster.registry, cluster.broker):
            self.assertTrue(node.running, f"{node.kind} ended during an earlier test:\n{node.tail()}")
        return cluster

    def cluster(self, peer: Peer | None = None, **arguments: object) -> Cluster:
        """Return a cluster of this test's own, not started; it ends with the test."""
        cluster = Cluster(peer or chosen(), self.home, **arguments)  # type: ignore[arg-type]
        self.addCleanup(cluster.end)
        self.addCleanup(self._forget, cluster.namesrv)
        return cluster

    def _forget(self, namesrv: str) -> None:
        """Have the shared JVMs shut down what they keep for a registry, so that nobody goes on asking for it."""
        for each in _drivers.values():
            if each.running:
                each.ask("forget", namesrv=namesrv)

    def name(self, what: str) -> str:
        """Return a topic or group name that no other test of this run has."""
        return f"{what}-{next(_numbers)}"

    def assert_stored(self, sent: Iterable[Event], read: Iterable[Event]) -> None:
        """Fail unless every acknowledged message was read at its queue and offset, bytes and ids equal."""
        stored = {(event["topic"], event["queueId"], event["queueOffset"]): event for event in read}
        for event in sent:
            place = (event["topic"], event["queueId"], event["queueOffset"])
            self.assertIn(place, stored, f"acknowledged and lost: {event}")
            for field in {"sha256", "msgId", "offsetMsgId"} & event.keys():
                self.assertEqual(stored[place][field], event[field], f"{field} at {place}")


def texts(events: Iterable[Event]) -> list[str]:
    """Return the short bodies of messages."""
    return [event["text"] for event in events]


def ids(*calls: Call) -> set[str]:
    """Return the broker-made ids of the messages that consumers have had so far."""
    return ids_of(event for call in calls for event in call.of("message"))


def ids_of(events: Iterable[Event]) -> set[str]:
    """Return the broker-made ids (store address and offset) of messages sent or received."""
    return {event["offsetMsgId"] for event in events}


def queues(call: Call, topic: str) -> list[int]:
    """Return the queues of a topic that a push consumer was last given; empty before the first time."""
    given = [event for event in call.of("allocated") if event["topic"] == topic]
    return given[-1]["queues"] if given else []
