"""The delay that a message asks for."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.stages.delay import level_of
from smartgo.errors import BadHeader
from smartgo.schema import properties as names
from smartgo.schema.delay import DelayLevels
from smartgo.schema.headers.send import SendResponse
from tests.broker.fakecluster import Cluster, ClusterCase

LEVELS = DelayLevels.parse("1s 5s 10s")


class LevelTests(SynchronousTestCase):
    def test_level(self) -> None:
        """The level is the property DELAY, cut to the highest there is; 0 without one."""
        for text, level in (("1", 1), ("3", 3), ("99", 3), ("0", 0), ("-2", -2)):
            self.assertEqual(level_of({names.DELAY: text}, LEVELS), level, text)
        self.assertEqual(level_of({}, LEVELS), 0)

    def test_no_number(self) -> None:
        """Anything but a decimal number is refused."""
        for text in ("x", "1.5", "1_0", "\u0661", " 1", "+1", "9" * 30):
            self.assertRaises(BadHeader, level_of, {names.DELAY: text}, LEVELS)


class DelayTests(ClusterCase):
    def test_delayed(self) -> None:
        """A delayed message is answered with its place in the schedule topic and arrives when it is due."""
        answer = self.cluster.send("T", b"later", 2, properties={"DELAY": "2", "TAGS": "x"}).read(SendResponse)
        self.assertEqual((answer.queue_id, answer.queue_offset), (2, 0))
        self.cluster.pump(4.9)
        self.assertEqual(self.cluster.pull("T", 2)[1], [])
        self.cluster.pump(0.2)
        _, (found,) = self.cluster.pull("T", 2)
        self.assertEqual(found.body, b"later")

    def test_restart(self) -> None:
        """What was delayed before a restart is delivered after it, once."""
        self.cluster.send("T", b"later", properties={"DELAY": "2"})
        self.cluster.send("T", b"soon", properties={"DELAY": "1"})
        self.cluster.pump(2.0)
        self.cluster.stop()
        self.cluster = Cluster(self.cluster.env)
        self.successResultOf(self.cluster.service.ready)
        self.cluster.pump(4.0)
        self.assertEqual([one.body for one in self.cluster.pull("T")[1]], [b"soon", b"later"])
