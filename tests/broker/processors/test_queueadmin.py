"""Requests of administrators about the queues themselves, against a whole broker in memory."""

from __future__ import annotations

from typing import Any

import msgspec
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.settings.changes import Who
from smartgo.schema.bodies import (
    ConsumerData,
    HeartbeatData,
    MissingQueues,
    QueueNames,
    RetentionReport,
    SubscriptionData,
)
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.consumequeue import PREFILL, Unit
from smartgo.schema.headers.topics import DeleteTopicRequest
from smartgo.schema.properties import tag_code
from smartgo.schema.regions import Region
from tests.broker.fakecluster import BROKER, Cluster, send_command


class QueueAdminTests(SynchronousTestCase):
    """Units, and what is of no use any more."""

    def setUp(self) -> None:
        self.cluster = Cluster()
        self.addCleanup(self.cluster.stop)

    def ask(self, code: int, **fields: Any) -> Command:
        """Ask the broker."""
        texts = {name: str(value) for name, value in fields.items()}
        return self.cluster.ask(Command.request(code, fields=texts))

    def units(self, index: int = 0, count: int = 10, **more: Any) -> tuple[Command, Any]:
        """321."""
        answer = self.ask(
            RequestCode.QUERY_CONSUME_QUEUE, **{"topic": "T", "queueId": 0, "index": index, "count": count} | more
        )
        return answer, msgspec.json.decode(answer.body) if answer.body else None

    def fill(self) -> None:
        """Four messages in one queue of T, every other one with a tag."""
        for number in range(4):
            properties = {"UNIQ_KEY": str(number), "WAIT": "true"} | ({"TAGS": "A"} if number % 2 else {})
            self.assertEqual(self.cluster.send("T", b"%d" % number, properties=properties).code, 0)

    def test_units(self) -> None:
        """321 shows units from an index on, at most as many as asked for, and the queue's bounds."""
        self.fill()
        answer, body = self.units(1, 2)
        self.assertEqual((answer.code, body["minQueueIndex"], body["maxQueueIndex"]), (0, 0, 4))
        self.assertEqual([one["tagsCode"] for one in body["queueData"]], [tag_code("A"), 0])
        _, records = self.cluster.pull("T")
        for one, record in zip(body["queueData"], records[1:3], strict=True):
            self.assertEqual((one["physicOffset"], one["physicSize"]), (record.physical_offset, record.size))
        self.assertNotIn("subscriptionData", body)

    def test_group(self) -> None:
        """321 for a group says what it wants of the topic, and which units its filter lets through."""
        self.fill()
        _, body = self.units(consumerGroup="g")
        self.assertEqual(body["filterData"], "g@T is not online!")
        self.assertEqual({one["eval"] for one in body["queueData"]}, {False})
        self.cluster.heartbeat("g", "T", tags="A")
        _, body = self.units(consumerGroup="g")
        self.assertEqual([one["eval"] for one in body["queueData"]], [False, True, False, True])
        self.assertEqual(body["subscriptionData"]["subString"], "A")
        self.cluster.heartbeat("g", "T", version=2)
        _, body = self.units(consumerGroup="g")
        self.assertEqual({one["eval"] for one in body["queueData"]}, {True})

    def test_sql(self) -> None:
        """321 for a group that filters by SQL92 shows the expression where it is right; no unit is judged."""
        self.fill()
        for version, text in enumerate(("n > 5 AND name = '\u00e4'", "n >"), 1):
            data = SubscriptionData(topic="T", sub_string=text, sub_version=version, expression_type="SQL92")
            consumer = ConsumerData(group_name="g", subscription_data_set=[data])
            beat = HeartbeatData(client_id="client-1", consumer_data_set=[consumer]).encode()
            self.assertEqual(self.cluster.ask(Command.request(RequestCode.HEART_BEAT, body=beat)).code, 0)
            _, body = self.units(consumerGroup="g")
            self.assertEqual(body["subscriptionData"]["subString"], text)
            self.assertEqual([one["eval"] for one in body["queueData"]], [False] * 4)
            if version == 1:
                self.assertEqual(
                    body["filterData"],
                    '{\n\t"clientVersion":1,\n\t"consumerGroup":"g",\n\t"dead":false,\n\t"deadTime":0,\n'
                    '\t"expression":"n > 5 AND name = \'\u00e4\'",\n\t"expressionType":"SQL92",\n\t"topic":"T"\n}',
                )
            else:
                self.assertEqual(body["filterData"], "null")

    def test_nothing_there(self) -> None:
        """321 answers 1 for a queue that is not there; beyond a queue's end it shows the bounds and says why."""
        answer, _ = self.units()
        self.assertEqual((answer.code, answer.remark), (1, "0@T is not exist!"))
        self.fill()
        answer, body = self.units(index=4)
        self.assertEqual((answer.code, answer.remark), (0, "Index 4 of 0@T is not exist!"))
        self.assertEqual((body["queueData"], body["maxQueueIndex"]), ([], 4))

    def statistics(self, name: str, key: str) -> list[tuple[int, float, float]]:
        """315: sum, rate and average of minute, hour and day."""
        body = msgspec.json.decode(self.ask(RequestCode.VIEW_BROKER_STATS_DATA, statsName=name, statsKey=key).body)
        spans = [body[f"stats{span}"] for span in ("Minute", "Hour", "Day")]
        return [(one["sum"], one["tps"], one["avgpt"]) for one in spans]

    def test_queue_statistics(self) -> None:
        """315 counts what came into one queue by when it was stored, messages and bytes."""
        self.fill()
        self.cluster.pump(120, step=1)
        self.fill()
        size = self.cluster.pull("T")[1][0].size
        shown = self.statistics("QUEUE_PUT_NUMS", "T@0")
        self.assertEqual(shown, [(4, 4 / 60, 1.0), (8, 8 / 3600, 1.0), (8, 8 / 86400, 1.0)])
        sums = [one[0] for one in self.statistics("QUEUE_PUT_SIZE", "T@0")]
        log_size = self.cluster.broker.store.log_bounds()[1]
        self.assertEqual(sums, [log_size // 2, log_size, log_size])
        self.assertGreater(sums[0], size)

    def test_fillers(self) -> None:
        """A unit without a message passes no filter (321), and has no bytes that came in (315)."""
        self.fill()
        store = self.cluster.broker.store
        before = [one[0] for one in self.statistics("QUEUE_PUT_SIZE", "T@0")]
        queue = store._by_key["T", 0]
        end = store.log_bounds()[1]
        queue.extend(4)
        queue.write(Unit(end, PREFILL.size, 0).pack() * 4, 4)
        queue.next_offset += 4
        self.fill()
        self.cluster.heartbeat("g", "T")
        _, body = self.units(count=99, consumerGroup="g")
        self.assertEqual([one["eval"] for one in body["queueData"]], [True] * 4 + [False] * 4 + [True] * 4)
        after = [one[0] for one in self.statistics("QUEUE_PUT_SIZE", "T@0")]
        self.assertEqual(after, [2 * one for one in before])

    def test_no_queue_statistics(self) -> None:
        """315 answers 1 for a queue that is not there, or empty."""
        self.fill()
        for key in ("T@1", "T@99", "T@", "T@-1", "T@x", "U@0", "T", "T@" + "9" * 5000):
            answer = self.ask(RequestCode.VIEW_BROKER_STATS_DATA, statsName="QUEUE_PUT_NUMS", statsKey=key)
            self.assertEqual((answer.code, answer.remark), (1, f"The stats <QUEUE_PUT_NUMS> <{key}> not exist"))

    def test_clean_unused(self) -> None:
        """316 drops the queues of what is no topic any more, and of nothing else."""
        self.fill()
        self.cluster.send("U")
        self.cluster.send("U", properties={"DELAY": "1"})
        self.cluster.broker.topics.delete("U")
        self.assertEqual(self.ask(RequestCode.CLEAN_UNUSED_TOPIC).code, 0)
        self.cluster.pump()
        self.assertEqual({topic for topic, _ in self.cluster.broker.store.queues()}, {"T", "SCHEDULE_TOPIC_XXXX"})

    def test_clean_expired(self) -> None:
        """306 is answered 0; a queue keeps the offset that it goes on with."""
        self.fill()
        self.assertEqual(self.ask(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE).code, 0)
        self.assertEqual(self.cluster.broker.store.bounds("T", 0), (0, 4))

    def test_delete_expired(self) -> None:
        """329 is answered 0 at once; expired files go at any hour, as RocketMQ's do, and no others."""
        cleaner = self.cluster.broker.store.cleaner
        looks: list[bool] = []
        clean = cleaner.clean

        def noted(expired: bool = True) -> Deferred[None]:
            looks.append(expired)
            return clean(expired)

        self.patch(cleaner, "clean", noted)
        self.fill()
        self.assertEqual(self.ask(RequestCode.DELETE_EXPIRED_COMMITLOG).code, 0)
        self.assertEqual(self.ask(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE).code, 0)
        self.cluster.pump()
        self.assertEqual(looks, [True, False])
        self.assertEqual(self.cluster.broker.store.bounds("T", 0), (0, 4))

    def test_retention(self) -> None:
        """30002 tells what 329 would remove, and why the next file stays."""
        self.fill()
        answer = self.ask(RequestCode.GET_RETENTION)
        self.assertEqual(RetentionReport.decode(answer.body), RetentionReport([], "the log is written there", 0, 0))

    def missing(self, queues: dict[str, list[int]]) -> Command:
        """30006."""
        body = QueueNames(queue_table=queues).encode()
        return self.cluster.ask(Command.request(RequestCode.FIND_MISSING_QUEUES, body=body))

    def test_missing(self) -> None:
        """30006 tells which queues are not there, with the log's bounds; a queue is there before it is readable."""
        self.fill()
        asked = {"T": [0, 1], "U": [0, 3]}
        answer = self.missing(asked)
        found = MissingQueues.decode(answer.body)
        self.assertEqual((answer.code, found.queue_table), (0, {"T": [1], "U": [0, 3]}))
        self.assertEqual((found.log_begin, found.log_end), self.cluster.broker.store.log_bounds())
        self.cluster.ask(Command.request(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicRequest(topic="T")))
        self.assertEqual(MissingQueues.decode(self.missing(asked).body).queue_table, asked)

    def test_missing_unreadable(self) -> None:
        """30006 takes a queue for there whose messages are appended and not flushed."""
        cluster = Cluster(dispatchAfterFlush="true")
        self.addCleanup(cluster.stop)
        cluster.env.threads.held.add("flush")
        self.addCleanup(cluster.env.threads.held.clear)
        cluster.client.ask(BROKER, send_command("T"), 3.0).addErrback(lambda _: None)
        cluster.pump()
        self.assertEqual(cluster.broker.store.bounds("T", 0), (0, 0))
        body = QueueNames(queue_table={"T": [0, 1]}).encode()
        answer = cluster.ask(Command.request(RequestCode.FIND_MISSING_QUEUES, body=body))
        self.assertEqual(MissingQueues.decode(answer.body).queue_table, {"T": [1]})

    def test_missing_refused(self) -> None:
        """30006 is refused while the log has damaged regions, and for too many queues."""
        self.fill()
        self.assertEqual(self.missing({"T": list(range(10_001))}).code, ResponseCode.SYSTEM_ERROR)
        store = self.cluster.broker.store
        store.damage.regions.append(Region(0, 10, "crc"))
        answer = self.missing({"U": [0]})
        self.assertEqual(answer.code, ResponseCode.SYSTEM_ERROR)
        self.assertIn("damaged regions", answer.remark or "")


class SettingsTests(SynchronousTestCase):
    """Changes of settings of a running broker."""

    def test_followed(self) -> None:
        """Whether topics and groups come about by themselves can be changed while the broker runs."""
        cluster = Cluster()
        self.addCleanup(cluster.stop)
        settings = cluster.broker.settings
        self.assertEqual(cluster.send("before").code, 0)
        settings.change([("autoCreateTopicEnable", "false"), ("autoCreateSubscriptionGroup", "false")], Who("test"))
        self.assertEqual(cluster.send("after").code, 17)
        self.assertEqual(cluster.pull("before", consumer_group="new")[0].code, 26)
        settings.change([("autoCreateTopicEnable", "true"), ("autoCreateSubscriptionGroup", "true")], Who("test"))
        self.assertEqual(cluster.send("after").code, 0)
        self.assertEqual(cluster.pull("before", consumer_group="new")[0].code, 0)

    def test_notices(self) -> None:
        """Whether members of a group are told of changes can be changed, too."""
        cluster = Cluster()
        self.addCleanup(cluster.stop)
        self.assertTrue(cluster.broker.consumers._may_notify("g"))
        cluster.broker.settings.change([("notifyConsumerIdsChangedEnable", "false")], Who("test"))
        self.assertFalse(cluster.broker.consumers._may_notify("g"))
