"""Producers and consumers of either generation, with JSON and with binary headers."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any
from unittest import SkipTest

from tests.interop.case import LONG, Cluster, InteropCase, driver, ids, ids_of, queues, texts
from tests.interop.driver import Call, Driver, Event
from tests.interop.peers import ROCKETMQ

_QUEUES = 4
_LOCKED = 90  # seconds; a 4.9 member that finds a queue still locked tries again after 20 s
_METHOD, _ZLIB = 0x700, 0x300  # of the sys flag; a 5.3 decoder clears the bit that says "compressed"

if TYPE_CHECKING:
    Mixed = InteropCase
else:
    Mixed = object  # trial would run the tests of a mixin that is a test case


class ClientTests(Mixed):
    """Every test once for each client; the classes at the end say which."""

    generation: str
    encoding: str

    def setUp(self) -> None:
        """Have a cluster and a JVM."""
        super().setUp()
        self.running: Cluster = self.shared()
        self.driver: Driver = driver(self.generation, self.encoding)
        self.where = {"namesrv": self.running.namesrv}

    def topic(self, what: str) -> str:
        """Create a topic through the client's own admin call."""
        topic = self.name(what)
        self.driver.ask("topic", topic=topic, queues=_QUEUES, address=self.running.broker.address, **self.where)
        return topic

    def push(self, name: str, group: str, topic: str, **more: object) -> Call:
        """Start a push consumer that is stopped with the test."""
        more.setdefault("topics", {topic: "*"})
        call = self.driver.start("push", name=name, group=group, **more, **self.where)
        call.result()
        self.addCleanup(lambda: None if name in self.stopped else self.stop(name))
        return call

    def stop(self, name: str) -> None:
        """Shut one push consumer down."""
        self.stopped.add(name)
        self.driver.ask("push.stop", name=name)

    def send(self, topic: str, count: int, how: str = "sync", **more: object) -> list[Event]:
        """Send and return what was acknowledged."""
        call = self.driver.start("send", topic=topic, count=count, how=how, **more, **self.where)
        sent = call.all_of("sent")
        self.assertEqual(len(sent), count)
        if how != "oneway":
            self.assertEqual({event["status"] for event in sent}, {"SEND_OK"})
        return sent

    def read(self, topic: str) -> list[Event]:
        """Pull everything a topic holds."""
        call = self.driver.start("read", topics=[topic], **self.where)
        read = call.all_of("message")
        self.assertEqual(call.of("stuck"), [])
        return read

    @property
    def stopped(self) -> set[str]:
        """The push consumers this test has shut down itself."""
        names: set[str] = self.__dict__.setdefault("_stopped", set())
        return names

    def test_every_way_to_send(self) -> None:
        """Sync, async, one-way, batch, ordered, compressed and large sends are stored once, as acknowledged."""
        topic = self.topic("send")
        marks: dict[str, Any] = {"tags": ["TagA", "TagB", "标签"], "keys": "key", "flag": 7}
        marks["properties"] = {"colour": "naïve"}
        acked = self.send(topic, 20, **marks)
        acked += self.send(topic, 20, "async", first=100)
        one_way = self.send(topic, 10, "oneway", first=200)
        ordered = self.send(topic, 20, "ordered", first=300, orderKeys=5)
        compressed = self.send(topic, 3, first=400, size=200_000, compressible=True)
        large = self.send(topic, 2, first=500, size=3_000_000)
        batch = self.driver.start("batch", topic=topic, count=12, first=600, **marks, **self.where).all_of("sent")
        for event in batch:
            del event["msgId"]  # a 5.3 batch has an id of its own, and it is what its messages come back with
        acked += ordered + compressed + large + batch

        # the consumer starts after the sends: once it has every message, the one-way ones are there too
        consumer = self.push("all-" + topic, "all-" + topic, topic)
        total = len(acked) + len(one_way)
        consumer.wait(lambda: len(ids(consumer)) >= total, 60, f"{total} messages")
        read = self.read(topic)
        self.assertEqual(len(read), total)
        self.assert_stored(acked, read)
        by_body = {event["sha256"]: event for event in read}
        for event in [*acked, *one_way]:
            for field in ("tags", "keys"):
                self.assertEqual(by_body[event["sha256"]].get(field), event.get(field))
        marked = by_body[acked[0]["sha256"]]
        self.assertEqual((marked["properties"]["colour"], marked["flag"]), ("naïve", 7))
        self.assertEqual({by_body[event["sha256"]]["sysFlag"] & _METHOD for event in compressed}, {_ZLIB})
        self.assertEqual(len({(event["orderKey"], event["queueId"]) for event in ordered}), 5, "a queue for each key")
        first = batch[0]["queueOffset"]
        self.assertEqual([event["queueOffset"] for event in batch], list(range(first, first + 12)))
        seen = self.driver.ask("view", topic=topic, offsetMsgId=large[0]["offsetMsgId"], **self.where)
        self.assertEqual(seen["sha256"], large[0]["sha256"])

    def test_topic_made_by_sending(self) -> None:
        """A send to a topic that nobody created makes it, with the producer's default of four queues."""
        topic = self.name("auto")
        sent = self.send(topic, 12)
        self.assertEqual({event["queueId"] for event in sent}, {0, 1, 2, 3})
        self.assert_stored(sent, self.read(topic))

    def test_concurrent_members(self) -> None:
        """Two concurrent members share the queues; when one is shut down the other has all of them at once."""
        topic = self.topic("concurrent")
        self._two_members(topic, orderly=False)

    def test_orderly_members(self) -> None:
        """Two orderly members keep every queue's order, also when one is shut down and the other takes its queues."""
        topic = self.topic("orderly")
        arrived = self._two_members(topic, orderly=True)
        by_queue: dict[int, list[int]] = defaultdict(list)
        for event in sorted(arrived, key=lambda event: event["nowMs"]):
            by_queue[event["queueId"]].append(event["queueOffset"])
        for queue, offsets in by_queue.items():
            self.assertEqual(offsets, list(range(len(offsets))), f"queue {queue}")

    def _two_members(self, topic: str, orderly: bool) -> list[Event]:
        group = "group-" + topic
        first = self.push("a-" + topic, group, topic, orderly=orderly)
        first.wait(lambda: len(queues(first, topic)) == _QUEUES, 60, "all queues while alone")
        second = self.push("b-" + topic, group, topic, orderly=orderly)
        half = _QUEUES // 2
        first.wait(
            lambda: len(queues(first, topic)) == len(queues(second, topic)) == half, 10, "half of the queues each"
        )
        self.assertEqual(sorted(queues(first, topic) + queues(second, topic)), list(range(_QUEUES)))
        for name, member in (("a-" + topic, first), ("b-" + topic, second)):
            held = {"topic": topic, "queues": [str(queue) for queue in queues(member, topic)], "orderly": orderly}
            self.driver.start("push.held", name=name, **held).result(_LOCKED + 10)

        sent = self.send(topic, 40, "ordered", orderKeys=_QUEUES)
        expected = ids_of(sent)
        first.wait(lambda: expected <= ids(first, second), _LOCKED, "40 messages at both together")
        for member in (first, second):
            self.assertEqual({event["queueId"] for event in member.of("message")}, set(queues(member, topic)))

        self.stop("b-" + topic)
        first.wait(lambda: len(queues(first, topic)) == _QUEUES, 10, "the other's queues")
        sent = self.send(topic, 40, "ordered", first=40, orderKeys=_QUEUES)
        expected = ids_of(sent)
        first.wait(lambda: expected <= ids(first), _LOCKED, "40 messages at the one that is left")
        arrived = [*first.of("message"), *second.of("message")]
        self.assertEqual(len(arrived), 80, "nothing was delivered twice")
        return arrived

    def test_broadcast(self) -> None:
        """Every member of a broadcasting group has every message."""
        topic = self.topic("broadcast")
        first = self.push("a-" + topic, "group-" + topic, topic, broadcast=True)
        second = self.push("b-" + topic, "group-" + topic, topic, broadcast=True)
        expected = ids_of(self.send(topic, 20))
        first.wait(lambda: ids(first) >= expected and ids(second) >= expected, 60, "all 20 messages at both")
        self.assertEqual((first.count("message"), second.count("message")), (20, 20))

    def test_tags(self) -> None:
        """A consumer of two tags out of three has exactly their messages."""
        topic = self.topic("tags")
        consumer = self.push("tags-" + topic, "group-" + topic, topic, topics={topic: "TagA || 标签"})
        sent = self.send(topic, 30, tags=["TagA", "TagB", "标签"])
        expected = ids_of(event for event in sent if event["tags"] != "TagB")
        consumer.wait(lambda: len(ids(consumer)) >= len(expected), 60, "20 messages")
        self.assertEqual(ids(consumer), expected)

    def test_lite_pull(self) -> None:
        """A lite pull consumer polls everything, commits, and its group goes on from there."""
        self._need_lite_pull()
        topic = self.topic("lite")
        group = "group-" + topic
        sent = self.send(topic, 24)
        poll = {"topic": topic, "group": group, **self.where}
        polled = self.driver.start("lite", expect=24, **poll).all_of("message")
        self.assertEqual(ids_of(polled), ids_of(sent))
        ends: dict[str, int] = defaultdict(int)
        for event in sent:
            ends[str(event["queueId"])] += 1
        self.assertEqual(self.driver.ask("offsets", **poll)["offsets"], ends)
        later = self.send(topic, 8, first=24)
        polled = self.driver.start("lite", expect=8, **poll).all_of("message")
        self.assertEqual(sorted(texts(polled)), sorted(f"{topic}-{event['n']}" for event in later))

    def test_lite_assign_and_seek(self) -> None:
        """A lite pull consumer that chose its queues itself reads all of each from the offset it seeks."""
        self._need_lite_pull()
        topic = self.topic("assign")
        sent = self.send(topic, 40, "ordered", orderKeys=_QUEUES)
        expected = ids_of(event for event in sent if event["queueOffset"] >= event["queueId"])
        seek = {str(queue): queue for queue in range(_QUEUES)}
        call = self.driver.start(
            "lite", mode="assign", topic=topic, group="group-" + topic, expect=len(expected), seek=seek, **self.where
        )
        got = call.all_of("message")
        self.assertEqual(ids_of(event for event in got if event["queueOffset"] >= event["queueId"]), expected)

    def _need_lite_pull(self) -> None:
        if self.generation == "5.3" and self.running.peer is ROCKETMQ:
            raise SkipTest("a 4.9 broker does not know LITE_PULL_MESSAGE (361), which a 5.3 lite consumer sends")


class Client49JsonTests(ClientTests, InteropCase):
    """Client 4.9.7, JSON headers."""

    generation, encoding = "4.9", "JSON"


class Client49BinaryTests(ClientTests, InteropCase):
    """Client 4.9.7, binary headers."""

    generation, encoding = "4.9", "ROCKETMQ"


class Client53JsonTests(ClientTests, InteropCase):
    """Client 5.3.3, JSON headers."""

    generation, encoding = "5.3", "JSON"

    def test_other_compressions(self) -> None:
        """LZ4 and Zstd bodies of a 5.3 producer are kept as they are, and read by both generations."""
        topic = self.topic("compressed")
        sent = []
        for index, kind in enumerate(("LZ4", "ZSTD", "ZLIB")):
            sent += self.send(topic, 2, first=10 * index, size=50_000, compressible=True, compressType=kind)
        methods = {event["sysFlag"] & _METHOD for event in self.read(topic)}
        self.assertEqual(len(methods), 3)
        for generation in ("4.9", "5.3"):
            call = driver(generation).start("read", topics=[topic], **self.where)
            self.assert_stored(sent, call.all_of("message"))


class Client53BinaryTests(ClientTests, InteropCase):
    """Client 5.3.3, binary headers."""

    generation, encoding = "5.3", "ROCKETMQ"


class LostMemberTests(InteropCase):
    """A group whose member is gone without a word."""

    def _killed_member(self, generation: str, orderly: bool = False, patience: float = 60) -> None:
        running = self.shared()
        where = {"namesrv": running.namesrv}
        survivor = driver(generation)
        topic, group = self.name("killed"), self.name("group")
        survivor.ask("topic", topic=topic, queues=_QUEUES, address=running.broker.address, **where)
        doomed = Driver(generation, self.home)
        self.addCleanup(doomed.process.kill)
        push = {"name": topic, "group": group, "topics": {topic: "*"}, "orderly": orderly, **where}
        first = survivor.start("push", **push)
        first.result()
        self.addCleanup(survivor.ask, "push.stop", name=topic)
        second = doomed.start("push", **push)
        second.wait(lambda: len(queues(second, topic)) == _QUEUES // 2, 60, "half of the queues")
        first.wait(lambda: len(queues(first, topic)) == _QUEUES // 2, 10, "half of the queues")
        if orderly:  # it has locked its queues when it has had a message of each
            survivor.ask("send", topic=topic, how="ordered", orderKeys=_QUEUES, count=_QUEUES, **where)
            second.wait_for("message", _QUEUES // 2, _LOCKED)
        doomed.process.kill()
        first.wait(lambda: len(queues(first, topic)) == _QUEUES, 10, "the other's queues")
        sent = survivor.start("send", topic=topic, count=20, **where).all_of("sent")
        expected = ids_of(sent)
        first.wait(lambda: expected <= ids(first), patience, "20 messages")

    def test_4_9(self) -> None:
        """When the JVM of one 4.9 member is killed, the other has its queues within seconds and misses nothing."""
        self._killed_member("4.9")

    def test_5_3(self) -> None:
        """When the JVM of one 5.3 member is killed, the other has its queues within seconds and misses nothing."""
        self._killed_member("5.3")

    def test_locks_expire(self) -> None:
        """The queues that a killed orderly member held locked go to the other when the locks are 60 s old."""
        if not LONG:
            raise SkipTest("takes a minute and a half; set SMARTGO_INTEROP_LONG=1")
        self._killed_member("5.3", orderly=True, patience=100)
