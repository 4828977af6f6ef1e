"""Tests of L{smartgo.registry.service}."""

from __future__ import annotations

from twisted.logger import LogLevel, capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from smartgo.config.settings import RegistryConfig
from smartgo.errors import BrokenTable
from smartgo.registry.registration import NameTaken, Registration
from smartgo.registry.routes import EXPIRY
from smartgo.registry.service import RegistryService
from smartgo.schema.bodies import DataVersion, TopicConfig
from tests.fakes import FakeEnvironment
from tests.registry.peers import FakePeer

PATH = "/home/namesrv/kvConfig.json"


class RegistryServiceTests(SynchronousTestCase):
    """A registry over a fake environment."""

    def setUp(self) -> None:
        """A registry that has started."""
        self.env = FakeEnvironment()
        self.service = RegistryService(self.env, RegistryConfig(kv_config_path=PATH))
        self.service.startService()

    def register(self, peer: FakePeer, address: str = "10.0.0.1:10911", name: str = "a") -> None:
        """Register a broker with one topic."""
        topics = {"T": TopicConfig(topic_name="T")}
        self.service.routes.register(Registration("C", name, 0, address, "", DataVersion(counter=1), topics), peer)

    def test_silence(self) -> None:
        """The first search is after 5 s, then one every 10 s; a silent broker leaves, and its connection is closed."""
        peer = FakePeer()
        self.register(peer)
        self.env.clock.advance(5)
        for _ in range(11):  # to 115 s
            self.env.clock.advance(10)
        self.env.clock.advance(9)
        self.assertEqual((len(self.service.routes.brokers()), peer.reasons), (1, []))
        self.env.clock.advance(1)
        self.assertEqual(self.service.routes.brokers(), [])
        self.assertEqual(peer.reasons, ["broker a was silent for 125 s"])

    def test_first_scan(self) -> None:
        """Who is silent from the start is found in the first search at the earliest."""
        self.service.stopService()
        peer = FakePeer()
        self.register(peer)
        self.env.clock.advance(EXPIRY + 1)
        self.service.startService()
        self.env.clock.advance(4.9)
        self.assertTrue(peer.open)
        self.env.clock.advance(0.1)
        self.assertFalse(peer.open)

    def test_heartbeat(self) -> None:
        """A broker that registers in time stays."""
        peer = FakePeer()
        for _ in range(10):
            self.register(peer)
            self.env.clock.pump([5] * 20)
        self.assertTrue(peer.open)

    def test_stood_still(self) -> None:
        """A registry that was stopped for minutes (F13) gives nobody up, nor a name to another, for that time."""
        peer = FakePeer()
        self.register(peer)
        self.env.clock.advance(60)
        self.env.clock.rightNow += 180.0
        self.service.stood_still(180.0)
        self.assertRaises(NameTaken, self.register, FakePeer(), "10.0.0.2:10911")
        self.env.clock.advance(0)
        self.env.clock.advance(55)
        self.assertTrue(peer.open)
        self.env.clock.advance(10)
        self.assertFalse(peer.open)

    def test_connection_ends(self) -> None:
        """The end of a broker's connection takes it from the routes at once, whoever ended it; other events do not."""
        for end in ("closed", "disconnected"):
            peer = FakePeer()
            listener = self.service.listener
            listener.active(peer)
            listener.first_frame(peer)
            self.register(peer)
            listener.idle(peer, 120.0)
            listener.failed(peer, None)  # type: ignore[arg-type]
            self.assertEqual(self.service.routes.topics(), ["T"])
            if end == "closed":
                listener.closed(peer)
            else:
                listener.disconnected(peer, None)  # type: ignore[arg-type]
            self.assertEqual(self.service.routes.topics(), [])

    def test_stop(self) -> None:
        """Stopping ends the timers, before and after the first search, and waits for settings under way."""
        self.successResultOf(self.service.stopService())
        self.assertEqual(self.env.clock.getDelayedCalls(), [])
        self.service.startService()
        self.env.clock.advance(6)
        self.env.threads.held.add("tables")
        self.service.kv.put("N", "K", "v")
        stopped = self.service.stopService()
        self.assertNoResult(stopped)
        self.assertEqual(self.env.clock.getDelayedCalls(), [])
        self.env.threads.release("tables")
        self.successResultOf(stopped)

    def test_restart(self) -> None:
        """Settings outlive the process, routes do not."""
        self.register(FakePeer())
        self.service.kv.put("N", "K", "v")
        self.successResultOf(self.service.stopService())
        again = RegistryService(self.env, RegistryConfig(kv_config_path=PATH))
        again.startService()
        self.addCleanup(again.stopService)
        self.assertEqual((again.kv.get("N", "K"), again.routes.topics()), ("v", []))

    def test_broken_settings(self) -> None:
        """Settings that cannot be read refuse the start, until the file is set aside."""
        self.env.files.make_directories("/home/namesrv")
        self.env.files.create(PATH, b"{")
        again = RegistryService(self.env, RegistryConfig(kv_config_path=PATH))
        self.assertRaises(BrokenTable, again.load)
        for table in again.tables:
            table.set_aside()
        again.load()
        self.assertIsNone(again.kv.get("N", "K"))

    def test_warns(self) -> None:
        """A broker that fell silent is worth a warning."""
        with capturedLogs() as events:
            self.register(FakePeer())
            self.env.clock.pump([5] * 40)
        self.assertEqual([(event["log_level"], event["name"]) for event in events], [(LogLevel.warn, "a")])
