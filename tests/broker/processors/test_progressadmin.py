"""Requests of administrators about where groups stand."""

from __future__ import annotations

from typing import Any

import msgspec

from smartgo.broker.processors import progressadmin
from smartgo.broker.tables.progress import SLICE
from smartgo.errors import BadName, RequestRefused, TopicNotExist
from smartgo.schema.codes import RequestCode
from tests.broker.doubles import FakePeer, received, request
from tests.broker.processors.test_brokeradmin import AdminCase, by_queue
from tests.broker.processors.test_heartbeat import consumer, subscription


class ProgressTests(AdminCase):
    """The progress of groups."""

    def test_progress(self) -> None:
        """208 compares offsets and ends of every read queue of all the group's topics."""
        self.create("T")
        self.create("%RETRY%g", readQueueNums=1)
        self.store.stored["T", 0] = (0, [1000, 2000, 3000])
        self.store.stored["T", 1] = (0, [1500])
        self.offsets.commit("g", "T", 0, 2)
        self.offsets.commit("g", "%RETRY%g", 0, 0)
        self.offsets.commit("g", "deleted", 0, 9)
        self.stats.found("g", "T", 30, 1)
        self.env.clock.advance(30)
        shown = self.show(RequestCode.GET_CONSUME_STATS, consumerGroup="g")
        rows = {
            key: [one["brokerOffset"], one["consumerOffset"], one["lastTimestamp"]]
            for key, one in by_queue(shown["offsetTable"]).items()
        }
        self.assertEqual(rows, {("T", 0): [3, 2, 2000], ("T", 1): [1, 0, 0], ("%RETRY%g", 0): [0, 0, 0]})
        self.assertEqual(shown["consumeTps"], 1.0)
        since = {key: one["waitingSince"] for key, one in by_queue(shown["offsetTable"]).items()}
        self.assertEqual(since, {("T", 0): 3000, ("T", 1): 1500, ("%RETRY%g", 0): 0})

    def test_acknowledged(self) -> None:
        """208 tells the rate at which a group acknowledges, whatever was delivered to it."""
        self.create("T", readQueueNums=1)
        self.offsets.commit("g", "T", 0, 30)
        self.stats.found("g", "T", 90, 1)
        self.stats.acknowledged("g", "T", 30)
        self.env.clock.advance(30)
        shown = self.show(RequestCode.GET_CONSUME_STATS, consumerGroup="g")
        self.assertEqual((shown["consumeTps"], shown["acknowledgedTps"]), (3.0, 1.0))

    def test_progress_in_one_topic(self) -> None:
        """208 for one topic shows that one, also where the group has no offsets there; unknown topics are left out."""
        self.create("T")
        shown = self.show(RequestCode.GET_CONSUME_STATS, consumerGroup="g", topic="T")
        self.assertEqual(sorted(by_queue(shown["offsetTable"])), [("T", 0), ("T", 1)])
        shown = self.show(RequestCode.GET_CONSUME_STATS, consumerGroup="g", topic="U")
        self.assertEqual((shown["offsetTable"], shown["consumeTps"]), ({}, 0.0))

    def test_progress_of_connected_group(self) -> None:
        """208 leaves out topics that the connected group no longer subscribes to."""
        for topic in "TU":
            self.create(topic, readQueueNums=1)
            self.offsets.commit("g", topic, 0, 0)
        self.beat(FakePeer(), "c1", [consumer("g", subscription("U"))])
        shown = self.show(RequestCode.GET_CONSUME_STATS, consumerGroup="g")
        self.assertEqual(list(by_queue(shown["offsetTable"])), [("U", 0)])

    def many(self, code: int, **fields: Any) -> Any:
        """Ask about three slices of queues; return the Deferred."""
        for number in range(3 * SLICE // 16):
            self.create(f"T{number:03}", readQueueNums=16, writeQueueNums=16)
            self.store.stored[f"T{number:03}", 5] = (0, [1000 + number, 2000])
            self.offsets.commit("g", f"T{number:03}", 5, 1)
        self.groups.find("g")
        return self.raw(code, **fields)

    def test_turns(self) -> None:
        """208 and 317 of many queues let whatever else waits have its turn, and tell as much as of few."""
        for code, fields in (
            (RequestCode.GET_CONSUME_STATS, {"consumerGroup": "g"}),
            (RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"}),
        ):
            asked = self.many(code, **fields)
            self.assertFalse(asked.called)
            self.env.clock.advance(0)
            shown = msgspec.json.decode(received(self.successResultOf(asked)).body)
            tables = [shown] if "offsetTable" in shown else shown["consumeStatsList"][0]["g"]
            rows = [row for table in tables for row in by_queue(table["offsetTable"]).items()]
            self.assertEqual(len({name for name, _ in rows}), 3 * SLICE)
            times = {topic: one["lastTimestamp"] for (topic, queue), one in rows if queue == 5}
            self.assertEqual(times, {f"T{number:03}": 1000 + number for number in range(3 * SLICE // 16)})

    def test_turns_of_small_groups(self) -> None:
        """317 of many groups with few queues each does so, too, though no time of a message is looked up."""
        self.create("T", readQueueNums=4, writeQueueNums=4)
        for number in range(SLICE // 4):
            self.groups.find(f"g{number}")
            self.offsets.commit(f"g{number}", "T", 0, 0)
        asked = self.raw(RequestCode.GET_BROKER_CONSUME_STATS, isOrder="false")
        self.assertFalse(asked.called)
        self.env.clock.advance(0)
        shown = msgspec.json.decode(received(self.successResultOf(asked)).body)
        self.assertEqual(len(shown["consumeStatsList"]), SLICE // 4)

    def test_too_long(self) -> None:
        """208 and 317 whose answer no client would read are refused, with what to ask for instead."""
        self.patch(progressadmin, "_ANSWER_LIMIT", 500)
        self.create("T", readQueueNums=1, writeQueueNums=1)
        self.groups.find("g")
        self.offsets.commit("g", "T", 0, 0)
        self.assertEqual(len(self.show(RequestCode.GET_CONSUME_STATS, consumerGroup="g")["offsetTable"]), 1)
        self.assertEqual(self.show(RequestCode.GET_BROKER_CONSUME_STATS, isOrder="false")["totalDiff"], 0)
        self.create("T", readQueueNums=16, writeQueueNums=16)
        for code, fields, instead in (
            (RequestCode.GET_CONSUME_STATS, {"consumerGroup": "g"}, "topic"),
            (RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"}, "group"),
        ):
            refused = self.failureResultOf(self.raw(code, **fields), RequestRefused)
            self.assertIn(f"longer than 500 B; ask for one {instead} after another", str(refused.value))

    def test_all_offsets(self) -> None:
        """43 shows the whole table of offsets."""
        self.offsets.commit("g", "T", 3, 9)
        self.assertEqual(self.show(RequestCode.GET_ALL_CONSUMER_OFFSET), {"offsetTable": {"T@g": {"3": 9}}})

    def test_all_delays(self) -> None:
        """45 shows how far each delay level was delivered."""
        self.delayed.update({3: 7, 18: 0})
        self.assertEqual(self.show(RequestCode.GET_ALL_DELAY_OFFSET), {"offsetTable": {"3": 7, "18": 0}})

    def test_progress_in_several_topics(self) -> None:
        """208 of 5.x may name several topics."""
        for topic in "TUV":
            self.create(topic, readQueueNums=1)
        shown = self.show(RequestCode.GET_CONSUME_STATS, consumerGroup="g", topicList="T;V", topic="U")
        self.assertEqual(sorted(by_queue(shown["offsetTable"])), [("T", 0), ("V", 0)])

    def test_topics_of_group(self) -> None:
        """343 lists the topics in which a group has offsets."""
        self.offsets.commit("g", "U", 0, 1)
        self.offsets.commit("g", "T", 0, 1)
        self.assertEqual(self.show(RequestCode.QUERY_TOPICS_BY_CONSUMER, group="g"), {"topicList": ["T", "U"]})
        self.assertEqual(self.show(RequestCode.QUERY_TOPICS_BY_CONSUMER, group="h"), {"topicList": []})


class AllGroupsTests(AdminCase):
    """The progress of all groups."""

    def show_all(self, ordered: bool) -> dict[str, list[list[tuple[str, int, int]]]]:
        """By group and topic, the rows (topic, end, offset) of its queues."""
        shown = self.show(RequestCode.GET_BROKER_CONSUME_STATS, isOrder=str(ordered).lower())
        self.assertEqual(shown["brokerAddr"], "192.0.2.1:10911")
        self.total = shown["totalDiff"]
        return {
            group: [
                [
                    (topic, one["brokerOffset"], one["consumerOffset"])
                    for (topic, _), one in by_queue(topic_stats["offsetTable"]).items()
                ]
                for topic_stats in stats
            ]
            for entry in shown["consumeStatsList"]
            for group, stats in entry.items()
        }

    def test_all(self) -> None:
        """317 shows every group in every topic that it has offsets in, all write queues, and how much waits in all."""
        self.create("T", readQueueNums=1, writeQueueNums=2)
        self.create("U", order="true", writeQueueNums=1)
        self.store.stored["T", 0] = (0, [10, 20, 30])
        self.store.stored["U", 0] = (0, [10] * 5)
        for name in ("g", "h", "i"):
            self.groups.find(name)
        self.offsets.commit("g", "T", 0, 1)
        self.offsets.commit("g", "U", 0, 5)
        self.offsets.commit("h", "U", 0, 2)
        self.offsets.commit("h", "deleted", 0, 2)
        self.assertEqual(
            self.show_all(False),
            {"g": [[("T", 3, 1), ("T", 0, 0)], [("U", 5, 5)]], "h": [[("U", 5, 2)]], "i": []},
        )
        self.assertEqual(self.total, 5)
        self.assertEqual(self.show_all(True), {"g": [[("U", 5, 5)]], "h": [[("U", 5, 2)]], "i": []})
        self.assertEqual(self.total, 3)

    def test_given_up(self) -> None:
        """317 stops when nobody waits for it any more."""
        self.create("T", writeQueueNums=1)
        self.groups.find("g")
        self.offsets.commit("g", "T", 0, 1)
        peer = FakePeer()
        peer.open = False
        asked = request(RequestCode.GET_BROKER_CONSUME_STATS, None, isOrder="false")
        answer: Any = self.progress_admin.process(peer, asked)
        self.assertIsNone(self.successResultOf(answer))

    def test_connected(self) -> None:
        """317 leaves out what a connected group no longer subscribes to."""
        for topic in "TU":
            self.create(topic, writeQueueNums=1)
            self.offsets.commit("g", topic, 0, 0)
        self.beat(FakePeer(), "c1", [consumer("g", subscription("U"))])
        self.assertEqual(self.show_all(False), {"g": [[("U", 0, 0)]]})


class TimeSpanTests(AdminCase):
    """The age of messages."""

    def test_spans(self) -> None:
        """303 shows oldest, newest and last consumed of every write queue, and how long the next one has waited."""
        now = self.env.clock.wall_ms()
        self.create("T", writeQueueNums=3)
        self.store.stored["T", 0] = (4, [now - 9000, now - 5000, now - 1000])
        self.store.stored["T", 1] = (0, [now - 800])
        self.offsets.commit("g", "T", 0, 6)
        spans = self.show(RequestCode.QUERY_CONSUME_TIME_SPAN, group="g", topic="T")["consumeTimeSpanSet"]
        rows = {
            one["messageQueue"]["queueId"]: [
                one[name] for name in ("minTimeStamp", "maxTimeStamp", "consumeTimeStamp", "delayTime")
            ]
            for one in spans
        }
        self.assertEqual(
            rows,
            {
                0: [now - 9000, now - 1000, now - 5000, 1000],
                1: [now - 800, now - 800, now - 800, 800],
                2: [-1, -1, -1, 0],
            },
        )

    def test_behind_the_first(self) -> None:
        """Of a group that stands before the first message that is left, the wait is that message's."""
        now = self.env.clock.wall_ms()
        self.create("T", writeQueueNums=1)
        self.store.stored["T", 0] = (4, [now - 3000, now - 1000])
        self.offsets.commit("g", "T", 0, 2)
        (span,) = self.show(RequestCode.QUERY_CONSUME_TIME_SPAN, group="g", topic="T")["consumeTimeSpanSet"]
        self.assertEqual((span["consumeTimeStamp"], span["delayTime"]), (-1, 3000))

    def test_unknown_topic(self) -> None:
        """303 answers 17 for a topic that is not there."""
        answer = self.raw(RequestCode.QUERY_CONSUME_TIME_SPAN, group="g", topic="T")
        self.failureResultOf(answer, TopicNotExist)


class CorrectionTests(AdminCase):
    """Offsets of one group beside those of all others."""

    def correct(self, **fields: Any) -> dict[str, int]:
        """308."""
        return dict(self.show(RequestCode.QUERY_CORRECTION_OFFSET, topic="T", **fields)["correctionOffsets"])

    def test_correction(self) -> None:
        """308 shows the smallest offset of all groups by queue, the largest number where the group is behind it."""
        self.store.stored["T", 0] = (5, [1] * 10)
        for group, offset in (("a", 9), ("b", 7), ("gone", 2), ("c", 11)):
            self.offsets.commit(group, "T", 0, offset)
        self.offsets.commit("b", "T", 1, 3)
        self.offsets.commit("b", "U", 0, 1)
        self.assertEqual(self.correct(compareGroup="a"), {"0": 7, "1": 3})
        self.assertEqual(self.correct(compareGroup="a", filterGroups="b,c"), {"0": 9})
        self.assertEqual(self.correct(compareGroup="gone"), {"0": 2**63 - 1, "1": 3})
        self.assertEqual(self.offsets.query("b", "T", 0), 7)


class CloneTests(AdminCase):
    """One group's offsets for another."""

    def clone(self, **fields: Any) -> None:
        """314 from g to h."""
        self.assertEqual(self.ask(RequestCode.CLONE_GROUP_OFFSET, srcGroup="g", destGroup="h", **fields).code, 0)

    def setUp(self) -> None:
        super().setUp()
        for topic in "TU":
            self.create(topic)
            self.offsets.commit("g", topic, 0, 5)
        self.offsets.commit("g", "deleted", 0, 5)

    def test_one_topic(self) -> None:
        """314 replaces the offsets of one topic."""
        self.offsets.commit("h", "T", 1, 9)
        self.clone(topic="T")
        self.assertEqual((self.offsets.queues("h", "T"), self.offsets.queues("h", "U")), ({0: 5}, {}))

    def test_all_topics(self) -> None:
        """314 without a topic takes all that exist."""
        self.clone()
        self.assertEqual(self.offsets.topics_of("h"), ["T", "U"])

    def test_connected(self) -> None:
        """314 leaves out what a connected group no longer subscribes to, unless told that it is as good as offline."""
        self.beat(FakePeer(), "c1", [consumer("g", subscription("U"))])
        self.clone(topic=" ", offline="false")
        self.assertEqual(self.offsets.topics_of("h"), ["U"])
        self.clone(offline="true")
        self.assertEqual(self.offsets.topics_of("h"), ["T", "U"])

    def test_refused(self) -> None:
        """314 refuses what is no name of a group, and one group more than may have offsets."""
        with self.assertRaises(BadName):
            self.ask(RequestCode.CLONE_GROUP_OFFSET, srcGroup="g", destGroup="a/b")
        for group in "xy":
            self.offsets.commit(group, "T", 0, 0)
        with self.assertRaises(RequestRefused):
            self.ask(RequestCode.CLONE_GROUP_OFFSET, srcGroup="g", destGroup="h")
        self.assertNotIn("h", self.offsets)


class SlaveProgressTests(AdminCase):
    """A slave."""

    slave = True

    def test_refuses_changes(self) -> None:
        """A slave's offsets are its master's."""
        with self.assertRaises(RequestRefused):
            self.ask(RequestCode.CLONE_GROUP_OFFSET, srcGroup="g", destGroup="h")
