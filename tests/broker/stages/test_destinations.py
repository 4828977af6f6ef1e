"""Delayed messages and their topics and positions, when the broker dies before a table was saved."""

from __future__ import annotations

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.stages.delaydelivery import DelayDelivery
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.delay import DelayLevels
from smartgo.schema.headers.send import SendBackRequest, SendResponse
from smartgo.schema.topics import SCHEDULE_TOPIC
from tests.broker.fakecluster import Cluster
from tests.fakes import FakeEnvironment
from tests.store.stores import killed

TOPICS = "/store/config/topics.json"
POSITIONS = "/store/config/delayOffset.json"


def delayed(level: int) -> dict[str, str]:
    """The properties of a delayed message."""
    return {"UNIQ_KEY": "00", "WAIT": "true", "DELAY": str(level)}


class DestinationTests(SynchronousTestCase):
    """What was acknowledged can be read once it is due."""

    def setUp(self) -> None:
        """A broker whose tables have been saved."""
        self.cluster = Cluster()
        self.cluster.pump(2.0)

    def kill(self) -> None:
        """Kill the broker and start it anew."""
        self.cluster = Cluster(killed(self.cluster.env))

    def bodies(self, topic: str) -> list[bytes]:
        """Return the bodies that consumers can read."""
        answer, found = self.cluster.pull(topic)
        self.assertIn(answer.code, (0, 19), answer.remark)
        return [bytes(one.body) for one in found]

    def test_topic_of_a_delayed_message(self) -> None:
        """The topic that a delayed message has made is there when the message is due, though it was not saved."""
        self.assertEqual(self.cluster.send("T", b"later", properties=delayed(1)).code, 0)
        self.assertNotIn(b'"T"', self.cluster.env.files.read(TOPICS))
        self.kill()
        self.cluster.pump(2.0)
        self.assertEqual(self.bodies("T"), [b"later"])

    def test_retry_topic(self) -> None:
        """So is the retry topic of a message that a consumer gave back."""
        physical = int(self.cluster.send("T", b"again").read(SendResponse).msg_id[-16:], 16)
        self.cluster.heartbeat("CG", "T")
        self.cluster.pump(2.0)
        self.cluster.broker.topics.delete("%RETRY%CG")
        self.cluster.pump(2.0)
        header = SendBackRequest(offset=physical, group="CG", delay_level=1)
        self.assertEqual(self.cluster.ask(Command.request(RequestCode.CONSUMER_SEND_MSG_BACK, header)).code, 0)
        self.assertNotIn(b'{"topicName":"%RETRY%CG"', self.cluster.env.files.read(TOPICS).replace(b" ", b""))
        self.kill()
        self.cluster.pump(2.0)
        self.assertEqual(self.bodies("%RETRY%CG"), [b"again"])

    def test_more_queues(self) -> None:
        """A queue is readable that its topic had got when the message was sent, and has not after the kill."""
        self.cluster.send("T", b"first")
        self.cluster.pump(2.0)
        topics = self.cluster.broker.topics
        config = topics.get("T")
        assert config is not None
        topics.update(msgspec.structs.replace(config, read_queue_nums=8, write_queue_nums=8))
        self.assertEqual(self.cluster.send("T", b"later", 6, properties=delayed(1)).code, 0)
        self.kill()
        self.cluster.pump(2.0)
        self.assertEqual([bytes(one.body) for one in self.cluster.pull("T", 6)[1]], [b"later"])

    def test_known(self) -> None:
        """Where the destination is known, its settings stay as they are."""
        self.cluster.send("T", b"later", properties=delayed(1))
        self.cluster.pump(0.8)
        version = self.cluster.broker.topics.version
        self.cluster.pump(2.0)
        self.assertEqual(self.bodies("T"), [b"later"])
        self.assertEqual(self.cluster.broker.topics.version, version)


class BeyondTests(SynchronousTestCase):
    """Positions beyond the end of the schedule queues: of a slave that has only the end of its master's log."""

    def test_saved_at_once(self) -> None:
        """A message scheduled after the start is delivered although the broker is killed right after it was sent."""
        env = FakeEnvironment()
        env.files.make_directories("/store/config")
        env.files.replace(POSITIONS, b'{"offsetTable":{1:0,2:4}}')
        cluster = Cluster(env)
        self.assertEqual(cluster.send("T", b"later", properties=delayed(2)).code, 0)
        cluster = Cluster(killed(cluster.env))
        cluster.pump(7.0)
        self.assertEqual([bytes(one.body) for one in cluster.pull("T")[1]], [b"later"])
        cluster.stop()

    def test_told(self) -> None:
        """The start tells whether a position was beyond its queue; one at the end is not."""
        cluster = Cluster()
        self.addCleanup(cluster.stop)
        cluster.send("T", properties=delayed(1))
        levels = DelayLevels.parse("1s 5s")
        high = cluster.broker.store.bounds(SCHEDULE_TOPIC, 0)[1]
        for offset, beyond in (0, False), (high, False), (high + 1, True):
            delay = DelayDelivery(cluster.env.clock, cluster.broker.store, levels)
            self.assertEqual(delay.start({1: offset}), beyond, offset)
            delay.stop()
