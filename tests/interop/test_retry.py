"""Messages whose consumption fails, and delayed messages, also over a restart."""

from __future__ import annotations

from itertools import pairwise

from tests.interop.case import TIMED, Cluster, InteropCase, driver, texts
from tests.interop.driver import Call, Driver, Event
from tests.interop.peers import SMARTGO
from tests.interop.process import wait_for_moment

_LEVEL_3 = 10_000  # ms
_LEVEL_4 = 30_000  # ms
_PATIENCE = 60_000  # ms; how late anything may be on a machine that has other things to do


class FailingListenerTests(InteropCase):
    """A listener that refuses its messages."""

    def _names(self, client: Driver, what: str) -> tuple[str, str]:
        """
        Return a new topic and a new group; the topic and the group's retry topic are there.

        A broker makes a retry topic at the first heartbeat, but then a client learns of it only from its next route
        refresh (30 s) and rebalance (20 s).
        """
        topic, group = self.name(what), self.name("group")
        running = self.shared()
        where = {"namesrv": running.namesrv, "address": running.broker.address}
        for each in (topic, f"%RETRY%{group}"):
            client.ask("topic", topic=each, queues=1, **where)
        return topic, group

    def _refused(self, generation: str) -> tuple[Call, str]:
        """Start a consumer that refuses for ever, send to it, and return it with its group."""
        where = {"namesrv": self.shared().namesrv}
        client = driver(generation)
        topic, group = self._names(client, "fail")
        consumer = client.start(
            "push", name=group, group=group, topics={topic: "*"}, failTimes=-1, maxReconsumeTimes=1, **where
        )
        consumer.result()
        self.addCleanup(client.ask, "push.stop", name=group)
        client.start("send", topic=topic, count=3, **where).result()
        return consumer, group

    def test_retried_then_dead(self) -> None:
        """A refused message comes again 10 s later, then it is in %DLQ%group with its body and its first topic."""
        where = {"namesrv": self.shared().namesrv}
        refused = [(generation, *self._refused(generation)) for generation in ("4.9", "5.3")]
        for generation, consumer, group in refused:
            dead: list[Event] = []
            while len(dead) < 3:
                found = driver(generation).ask("await", topic=f"%DLQ%{group}", offset=len(dead), **where)
                dead += found["messages"]
            deliveries = consumer.of("message")
            first = {event["text"]: event for event in deliveries if event["reconsumeTimes"] == 0}
            again = {event["text"]: event for event in deliveries if event["reconsumeTimes"] == 1}
            self.assertEqual((len(deliveries), len(first), len(again)), (6, 3, 3))
            for text, event in again.items():
                waited = event["nowMs"] - first[text]["nowMs"]
                self.assertGreaterEqual(waited, _LEVEL_3, "no retry before its time")
                self.assertLess(waited, _LEVEL_3 + (1000 if TIMED else _PATIENCE))
                self.assertEqual(event["topic"], first[text]["topic"], "the listener sees the first topic")
            self.assertEqual(sorted(texts(dead)), sorted(first))
            for event in dead:
                self.assertEqual(event["sha256"], first[event["text"]]["sha256"])
                self.assertEqual(event["properties"]["RETRY_TOPIC"], first[event["text"]]["topic"])
                self.assertEqual(event["properties"]["ORIGIN_MESSAGE_ID"], first[event["text"]]["offsetMsgId"])

    def test_chosen_delay(self) -> None:
        """A listener that asks for level 1 has its message again after 1 s, and not once more when it takes it."""
        where = {"namesrv": self.shared().namesrv}
        client = driver("4.9")
        topic, group = self._names(client, "again")
        consumer = client.start(
            "push", name=group, group=group, topics={topic: "*"}, failTimes=2, delayLevel=1, **where
        )
        consumer.result()
        self.addCleanup(client.ask, "push.stop", name=group)
        client.start("send", topic=topic, **where).result()
        consumer.wait_for("message", 3, 90)
        times = [event["nowMs"] for event in consumer.of("message")]
        self.assertEqual([event["reconsumeTimes"] for event in consumer.of("message")], [0, 1, 2])
        for before, after in pairwise(times):
            self.assertTrue(1000 <= after - before < (2000 if TIMED else _PATIENCE), times)

    def test_orderly(self) -> None:
        """An orderly listener that refuses has the same message again, and nothing behind it before it takes it."""
        where = {"namesrv": self.shared().namesrv}
        client = driver("5.3")
        topic, group = self._names(client, "suspend")
        client.start("send", topic=topic, count=3, **where).result()
        consumer = client.start(
            "push", name=group, group=group, topics={topic: "*"}, orderly=True, failTimes=1, **where
        )
        consumer.result()
        self.addCleanup(client.ask, "push.stop", name=group)
        consumer.wait_for("message", 6, 90)
        self.assertEqual(texts(consumer.of("message")), [f"{topic}-{n}" for n in (0, 0, 1, 1, 2, 2)])


class DelayTests(InteropCase):
    """
    Delay level 3: 10 s.

    A moment in which the machine does something else makes whatever falls into it late: so the most punctual one of the
    messages is held to the time, and with C{SMARTGO_TIMES=1} each of them.
    """

    topic = "delayed"

    def _sent(self, cluster: Cluster, count: int, level: int = 3) -> list[Event]:
        """Send to a topic of one queue, one after another, and return the copies in the schedule topic."""
        client, where = driver("4.9"), {"namesrv": cluster.namesrv}
        client.ask("topic", topic=self.topic, queues=1, address=cluster.broker.address, **where)
        # the one that will wait has pulled before: a cold JVM takes most of 100 ms for its first message
        client.ask("topic", topic="warm", queues=1, address=cluster.broker.address, **where)
        client.ask("send", topic="warm", **where)
        driver("5.3").ask("await", topic="warm", **where)
        scheduled = []
        for number in range(count):
            call = client.start("send", topic=self.topic, first=number, delayLevel=level, **where)
            (event,) = call.all_of("sent")
            copy = client.ask("view", topic=self.topic, offsetMsgId=event["offsetMsgId"], **where)
            self.assertEqual((copy["topic"], copy["sha256"]), ("SCHEDULE_TOPIC_XXXX", event["sha256"]))
            scheduled.append(copy)
        return scheduled

    def _delivered(self, cluster: Cluster, count: int) -> dict[str, Event]:
        """Hold pulls open until as many messages are delivered; by body."""
        found: list[Event] = []
        while len(found) < count:
            call = driver("5.3").start(
                "await", topic=self.topic, offset=len(found), waitMs=60_000, namesrv=cluster.namesrv
            )
            found += call.result(90)["messages"]
        self.assertEqual(len(found), count, "each is delivered once")
        return {event["text"]: event for event in found}

    def _assert_on_time(
        self, cluster: Cluster, scheduled: list[Event], delivered: dict[str, Event], delay: int = _LEVEL_3
    ) -> None:
        # the real broker looks every 100 ms, and then takes its time
        allowed = 100 if cluster.peer is SMARTGO else 400
        for when in ("storedMs", "nowMs"):
            late = [delivered[event["text"]][when] - event["storedMs"] - delay for event in scheduled]
            self.assertGreaterEqual(min(late), 0, f"{when}: early")
            self.assertLessEqual((max if TIMED else min)(late), allowed, f"{when}: late {late}")
            self.assertLessEqual(max(late), _PATIENCE, f"{when}: late {late}")
        for event in scheduled:
            self.assertEqual(delivered[event["text"]]["sha256"], event["sha256"])

    def test_level_3(self) -> None:
        """A message of level 3 is delivered, and held by a waiting client, 10.0 to 10.1 s after its store time."""
        cluster = self.cluster()
        cluster.start()
        scheduled = self._sent(cluster, 10)
        self._assert_on_time(cluster, scheduled, self._delivered(cluster, 10))

    def test_restart_before_due(self) -> None:
        """A broker that is ready again 1 s before a message is due delivers it on time."""
        cluster = self.cluster()
        cluster.start()
        slow = cluster.broker.boot > 2.5  # seconds: where a start takes so long the restart needs more than 10
        level, delay = (4, _LEVEL_4) if slow else (3, _LEVEL_3)
        scheduled = self._sent(cluster, 10, level)
        cluster.broker.stop()
        cluster.start_broker()
        due = (scheduled[0]["storedMs"] + delay) / 1000
        self.assertLess(cluster.broker.ready_at, due - 1, "the restart was too slow to tell")
        self._assert_on_time(cluster, scheduled, self._delivered(cluster, 10), delay)

    def test_restart_after_due(self) -> None:
        """A broker that starts when a message is overdue delivers it within 1 s of being ready."""
        cluster = self.cluster()
        cluster.start()
        scheduled = self._sent(cluster, 5)
        cluster.broker.stop()
        due = max(event["storedMs"] for event in scheduled) / 1000 + 10
        wait_for_moment(due + 0.5)
        cluster.start_broker()
        ready = cluster.broker.ready_at * 1000
        delivered = self._delivered(cluster, 5)
        allowed = 1000 if cluster.peer is SMARTGO else 3000
        self.assertLessEqual(min(copy["storedMs"] for copy in delivered.values()), ready + allowed)
        for event in scheduled:
            copy = delivered[event["text"]]
            self.assertGreaterEqual(copy["storedMs"] - event["storedMs"], _LEVEL_3)
            self.assertLessEqual(copy["storedMs"], ready + (allowed if TIMED else _PATIENCE))
            self.assertEqual(copy["sha256"], event["sha256"])
