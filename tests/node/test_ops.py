"""The REST API as part of a process."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from smartgo.broker.broker import Broker
from smartgo.errors import NoPermission, SettingError
from smartgo.node.assembly import ops_place
from smartgo.node.ops import LocalNode, assemble, registries_of
from smartgo.node.process import PortTaken
from smartgo.node.registryserver import Registry
from smartgo.node.stalls import StallWatch
from smartgo.ops.interfaces import ILocalNode
from tests.broker.fakecluster import Cluster


class LocalNodeTests(SynchronousTestCase):
    """The API's view of its own process."""

    def setUp(self) -> None:
        self.cluster = Cluster()
        self.addCleanup(self.cluster.stop)
        self.services: list[Registry | Broker] = [self.cluster.registry, self.cluster.service]
        stalls = StallWatch(self.cluster.env.clock, lambda seconds: None)
        stalls.count, stalls.longest = 3, 0.5
        self.node = LocalNode(self.cluster.configuration, self.services, stalls)

    def test_interface(self) -> None:
        """It is what the API asks for."""
        verifyObject(ILocalNode, self.node)

    def test_settings(self) -> None:
        """Every setting has its value and where that came from; secrets are hidden (X8)."""
        cluster = Cluster(opsTokens="ci:read:" + "0" * 64)
        self.addCleanup(cluster.stop)
        node = LocalNode(cluster.configuration, [cluster.registry, cluster.service])
        found = {(one.table, one.name): one for one in node.settings()}
        given, default = found["broker", "brokerName"], found["broker", "flushConsumerOffsetInterval"]
        self.assertEqual((given.value, given.origin), ("broker-a", "flag"))
        self.assertEqual((default.value, default.origin), ("5000", "default"))
        self.assertEqual(found["ops", "opsTokens"].value, "***")
        self.assertIn("maxTopics", {name for _, name in found})

    def test_change(self) -> None:
        """What the broker lets be changed can be, and says by whom; the rest cannot."""
        done = self.node.change({"autoCreateTopicEnable": "false"}, "boss", "192.0.2.7", False)
        self.assertEqual(
            [(one.before, one.value, one.origin) for one in self.successResultOf(done)], [("true", "false", "request")]
        )
        found = {one.name: one for one in self.node.settings()}
        changed = found["autoCreateTopicEnable"]
        self.assertEqual((changed.value, changed.origin, changed.changeable), ("false", "request", True))
        self.assertIn("boss", changed.place)
        self.assertFalse(found["listenPort"].changeable)
        self.assertRaises(NoPermission, self.node.change, {"listenPort": "1"}, "boss", "", False)
        registry = LocalNode(self.cluster.configuration, [self.cluster.registry])
        self.assertRaises(NoPermission, registry.plan, {"autoCreateTopicEnable": "false"}, False)
        self.assertEqual(registry.history(), [])

    def test_checks(self) -> None:
        """A process is ready when its parts have started and its store takes messages."""
        self.assertEqual(
            [(one.name, one.well) for one in self.node.checks()],
            [("registry", True), ("broker", True), ("store", True)],
        )
        self.cluster.broker.store.hold_back("the disk is full")
        bad = [one for one in self.node.checks() if not one.well]
        self.assertEqual([one.name for one in bad], ["store"])

    def test_not_started(self) -> None:
        """What could not start is not ready."""

        class Never:
            """A service that waits."""

            ready: Any = Deferred()

        node = LocalNode(self.cluster.configuration, [Never()])  # type: ignore[list-item]
        self.assertEqual([(one.well, one.detail) for one in node.checks()], [(False, "starts")])
        Never.ready.errback(SettingError("no"))
        self.assertEqual([one.detail for one in node.checks()], ["it could not start"])
        Never.ready.addErrback(lambda failure: None)

    def test_figures(self) -> None:
        """Stalls and what waits for the disk are told."""
        self.cluster.send("Orders")
        found = self.node.figures()
        self.assertEqual((found["reactorStalls"], found["reactorLongestStallSeconds"]), (3, 0.5))
        self.assertGreater(found["logEndOffset"], 0)
        self.assertGreaterEqual(found["logUnflushedBytes"], 0)


class AssembleTests(SynchronousTestCase):
    """The addresses of the API, and of the cluster that it asks."""

    def setUp(self) -> None:
        self.cluster = Cluster()
        self.addCleanup(self.cluster.stop)
        self.warnings: list[str] = []

    def place(self, by_default: bool, **settings: str) -> Any:
        """Return the address at which the API would be served."""
        configuration = self.cluster.configure(settings)
        return ops_place(self.cluster.env, configuration, 10913, by_default, self.warnings.append)

    def test_place(self) -> None:
        """It is served where the settings say, else where the program does so by default."""
        self.assertEqual(self.place(True), ("127.0.0.1", 10913))
        self.assertIsNone(self.place(False))
        self.assertIsNone(self.place(True, opsListen="off"))
        self.assertEqual(self.place(False, opsListen="on"), ("127.0.0.1", 10913))
        self.assertEqual(self.place(False, opsListen="36000"), ("127.0.0.1", 36000))

    def test_taken(self) -> None:
        """A port in use is an error where it was asked for; else the process goes without, and says so."""
        self.assertRaises(PortTaken, self.place, True, opsListen="9876")
        configuration = self.cluster.configure({})
        self.assertIsNone(ops_place(self.cluster.env, configuration, 9876, True, self.warnings.append))
        self.assertIn("9876", self.warnings[0])

    def test_registries(self) -> None:
        """A process asks its own registry first; one that knows none refuses."""
        services: list[Registry | Broker] = [self.cluster.registry, self.cluster.service]
        configuration = self.cluster.configure({"namesrvAddr": "a:1"})
        self.assertEqual(registries_of(configuration, services), ("127.0.0.1:9876", "a:1"))
        self.assertEqual(registries_of(configuration, [self.cluster.service]), ("a:1",))
        self.assertRaises(SettingError, registries_of, self.cluster.configure({"namesrvAddr": ""}), [])

    def test_serves(self) -> None:
        """What is assembled serves, and stops."""
        services: list[Registry | Broker] = [self.cluster.registry, self.cluster.service]
        ops = assemble(
            self.cluster.env, self.cluster.configuration, ("127.0.0.1", 10913), services, self.cluster.sweeper
        )
        ops.startService()
        self.cluster.pump()
        self.assertIs(self.successResultOf(ops.ready), ops)
        done = ops.stopService()
        self.cluster.pump(1.0)
        self.successResultOf(done)
