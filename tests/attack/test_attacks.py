"""
Attacks on real processes, with limits on memory, descriptors, log lines and what a bystander must not notice.

  - By default each attack is small, and the limits are those that hold on a busy machine: nobody is refused or waits
    for seconds, and memory stays within the budget.
  - C{SMARTGO_ATTACK=long} (C{tox -e attack}): as large as F20 to F26 of the reliability requirements ask.
  - C{SMARTGO_ATTACK=0}: none.
"""

from __future__ import annotations

import os
import time
from unittest import SkipTest

from twisted.trial.unittest import SynchronousTestCase

from tests.attack.scene import MIB, Result, Scene
from tests.attack.wire import ROUTE, SEND_V2, Wire, send_fields

_ASKED = os.environ.get("SMARTGO_ATTACK", "short")
LARGE = _ASKED == "long"
BUDGET = 64 * MIB
"""The setting C{memoryBudget} of broker and registry here."""
SLACK = 40 * MIB
"""What a process may grow by beside what peers make it keep: buffers in use, caches, tables of connections."""
ENTRY = 4096
"""Bytes of a topic or group that an attack has made and may make: the large forms make ten thousands of them."""
RETURNED = 15.0
"""Seconds within which a process gives freed memory back: it does so at most once in 10 s."""
LONGEST = 5000.0
"""Milliseconds within which a bystander is answered, on a busy machine too."""


class Case(SynchronousTestCase):
    """One attack each, on processes of its own."""

    def setUp(self) -> None:
        """Skip where that was asked for."""
        if _ASKED == "0":
            raise SkipTest("SMARTGO_ATTACK=0")

    def scene(self, kind: str = "send", descriptors: int = 0, **settings: str) -> Scene:
        """Start a registry, a broker and a bystander."""
        budget = {"memoryBudget": str(BUDGET), "registry:memoryBudget": str(BUDGET)}
        scene = Scene(self.mktemp(), large=LARGE, settings={**budget, **settings}, descriptors=descriptors)
        self.addCleanup(scene.end)
        scene.start(kind)
        return scene

    def attacked(self, name: str, kind: str = "send", descriptors: int = 0, **settings: str) -> Result:
        """Attack, and check what must hold whatever the attack is."""
        self.at = self.scene(kind, descriptors, **settings)
        result = self.at.attack(name)
        self.assertTrue(self.at.is_running(), "a process ended")
        for log in (self.at.log("broker"), self.at.log("registry")):
            self.assertNotIn("Traceback", log)
        for figures in (result.beside, result.later):
            self.assertEqual(figures["errors"], 0, figures)
            self.assertLess(figures["max"], LONGEST)
        return result

    def assert_flat(self, result: Result, node: str = "broker", limit: int = SLACK) -> None:
        """Fail if a process kept more than a little after the attack, and after it gave memory back to the system."""
        grown, end = result.growth(node), time.monotonic() + RETURNED
        while grown >= limit and time.monotonic() < end:
            time.sleep(1.0)
            grown = self.at.taken()[node].memory - result.before[node].memory
        self.assertLess(grown, limit, f"{grown / MIB:.0f} MiB more than before")

    def assert_within_budget(self, result: Result, node: str = "broker") -> None:
        """Fail if a process took more than its budget during the attack."""
        for when in ("during", "settled"):
            grown = result.growth(node, when)
            self.assertLess(grown, BUDGET + SLACK, f"{when}: {grown / MIB:.0f} MiB more than before")


class ConnectionTests(Case):
    """F20 to F23: connections that come, go, stay, or stop in the middle."""

    def test_churn(self) -> None:
        """What a closed connection had sent of a frame is freed at once."""
        result = self.attacked("churn")
        self.assert_within_budget(result)
        self.assert_flat(result)

    def test_churn_registry(self) -> None:
        """At a registry too."""
        result = self.attacked("churn_registry", "cluster")
        self.assert_within_budget(result, "registry")
        self.assert_flat(result, "registry")

    def test_unfinished(self) -> None:
        """Frames that are never finished take no more than the budget, and nobody else waits for room."""
        result = self.attacked("unfinished")
        self.assert_within_budget(result)
        self.assert_flat(result)

    def test_storm(self) -> None:
        """Connections that come and go by hundreds a second leave nothing open."""
        result = self.attacked("storm")
        self.assert_flat(result)
        self.assertLess(result.after["broker"].descriptors, result.before["broker"].descriptors + 20)

    def test_idle(self) -> None:
        """A connection that says nothing costs little memory."""
        result = self.attacked("idle")
        each = result.growth("broker", "during") / result.told["connections"]
        self.assertLess(each, 24 << 10 if not LARGE else 12 << 10)
        self.assertLess(result.after["broker"].descriptors, result.before["broker"].descriptors + 20)

    def test_few_descriptors(self) -> None:
        """Without descriptors those who are connected are served, nothing runs in circles, and it ends by itself."""
        result = self.attacked("idle", descriptors=256)
        self.assertLess(result.told["connections"], 256)
        self.assertLess(result.load("broker"), 0.5)
        wire = Wire(self.at.aim.broker)
        self.addCleanup(wire.close)
        self.assertEqual(wire.call(SEND_V2, send_fields("Bystander"), b"x").code, 0)


class RequestTests(Case):
    """Requests that are many, large, long or many-named."""

    def test_flood(self) -> None:
        """Connections that pipeline without end leave their neighbours their turn."""
        self.assert_within_budget(self.attacked("flood"))

    def test_unread(self) -> None:
        """Answers that nobody reads stop the reading of requests."""
        result = self.attacked("unread")
        self.assert_within_budget(result)
        self.assert_flat(result)

    def test_long_polls(self) -> None:
        """Thousands of long polls with time-outs of their own cost nobody else anything."""
        result = self.attacked("long_polls")
        self.assert_within_budget(result)

    def test_fat_polls(self) -> None:
        """A held pull keeps neither its body nor a long header."""
        result = self.attacked("fat_polls")
        self.assert_within_budget(result)
        self.assert_flat(result)

    def test_locks(self) -> None:
        """Queues of brokers that do not exist are not locked."""
        result = self.attacked("locks")
        self.assertEqual(result.told["granted"], 0)
        self.assert_flat(result)

    def test_groups(self) -> None:
        """A stranger's heartbeats do not fill the table of groups for others."""
        result = self.attacked("groups")
        self.assertIn(result.told["other_group"], (0, 19, 21), result.told)
        self.assert_flat(result, limit=SLACK + (10_000 * ENTRY if LARGE else 0))  # half the table, for ten minutes

    def test_topics(self) -> None:
        """Names of topics run out for nobody, and a list of too many is refused whole."""
        result = self.attacked("topics", maxTopics="20000")
        self.assertNotEqual(result.told["list_answer"], 0)
        self.assertEqual(result.told["other_send"], 0)
        self.assert_flat(result, limit=SLACK + (20_000 * ENTRY if LARGE else 0))  # these topics are there now

    def test_mutated(self) -> None:
        """Frames with changed bytes end their connection or are answered: no error of ours, few lines in the log."""
        result = self.attacked("mutated")
        self.assertNotIn("ref ", self.at.log("broker"))
        self.assertLess(result.lines("broker"), 100)
        self.assert_flat(result)


class RegistryTests(Case):
    """What a registry is told by those who have no part in it."""

    def test_takeover(self) -> None:
        """A broker's name stays where its broker is."""
        result = self.attacked("takeover")
        self.assertFalse(result.told["route_is_mine"], result.told)
        self.assertFalse(result.last["route_is_mine_later"], result.last)

    def test_many_routes(self) -> None:
        """Made-up topics leave room for the topics of real brokers."""
        self.attacked("many_routes", "cluster")
        broker = Wire(self.at.aim.broker)
        self.addCleanup(broker.close)
        self.assertEqual(broker.call(SEND_V2, send_fields("RealTopic"), b"x").code, 0)
        registry = Wire(self.at.aim.registry)
        self.addCleanup(registry.close)
        for _ in range(500):
            answer = registry.call(ROUTE, {"topic": "RealTopic"})
            if answer.code == 0:
                break
            broker.call(SEND_V2, send_fields("RealTopic"), b"x")
        self.assertEqual(answer.code, 0, answer.remark)

    def test_log_flood(self) -> None:
        """What strangers cause is logged at a bounded rate."""
        result = self.attacked("log_flood")
        self.assertLess(result.lines("registry"), 200)
        self.assertLess(result.lines("broker"), 200)

    def test_kv_flood(self) -> None:
        """A full table of settings that changes without end keeps what it holds, 15 MB, and no more copies."""
        result = self.attacked("kv_flood", "cluster")
        self.assert_flat(result, "registry", SLACK + 2 * (16 << 20))


class RestTests(Case):
    """The REST API of a broker."""

    def test_silent(self) -> None:
        """Readiness is told while other connections say nothing."""
        result = self.attacked("silent_http")
        self.assertEqual(result.told["ready"], 200)
        self.assertLess(result.after["broker"].descriptors, result.before["broker"].descriptors + 20)

    def test_bombs(self) -> None:
        """What inflates without end is shown in part, and looked into off the reactor thread."""
        result = self.attacked("bombs")
        self.assertEqual(result.told["shown"], 200)
        self.assertLess(result.told["shown_kib"], 1024)
        self.assert_flat(result, limit=2 * SLACK)
