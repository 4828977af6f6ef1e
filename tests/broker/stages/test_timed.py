"""Messages with a delivery time, and their recall, from a client's request to the queue."""

from __future__ import annotations

from typing import ClassVar

from smartgo.schema import properties as names
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headers.messagerecall import RecallRequest, RecallResponse
from smartgo.schema.headers.send import SendResponse
from smartgo.schema.properties import decode, encode
from smartgo.schema.recallhandle import RecallHandle
from smartgo.schema.record import decode as decode_record
from smartgo.schema.topics import RETRY_PREFIX, TIMER_TOPIC
from tests.broker.fakecluster import Cluster, ClusterCase

DAY_MS = 86_400_000


class TimedTests(ClusterCase):
    """A broker with the defaults."""

    def setUp(self) -> None:
        """A topic."""
        super().setUp()
        self.cluster.send("T")

    @property
    def now(self) -> int:
        """The wall clock."""
        return self.cluster.env.clock.wall_ms()

    def send(self, key: str = "K1", topic: str = "T", **asked: str) -> Command:
        """Send one message with properties, to queue 1."""
        properties = {names.UNIQ_KEY: key, names.WAIT: "true", **asked}
        return self.cluster.send(topic, key.encode(), 1, properties=properties)

    def bodies(self, topic: str = "T", queue_id: int = 1) -> list[bytes]:
        """Return the bodies in a queue."""
        return [bytes(one.body) for one in self.cluster.pull(topic, queue_id)[1]]

    def test_waits(self) -> None:
        """It waits in the timer topic as RocketMQ has it, and comes at its time; the answer has a handle."""
        due = self.now + 2500
        answer = self.send(TIMER_DELIVER_MS=str(due), TAGS="A")
        header = answer.read(SendResponse)
        self.assertEqual((answer.code, header.queue_id), (0, 1))
        assert header.recall_handle is not None
        self.assertEqual(RecallHandle.parse(header.recall_handle), ("T", "broker-a", str(due), "K1"))
        (unit,) = self.cluster.broker.store.units(TIMER_TOPIC, 0, 0, 10)
        record = decode_record(self.successResultOf(self.cluster.broker.store.at(unit.commitlog_offset)))
        found = decode(record.properties)
        self.assertEqual(
            {
                name: found[name]
                for name in (names.TIMER_DELIVER_MS, names.TIMER_OUT_MS, names.REAL_TOPIC, names.REAL_QID)
            },
            {
                names.TIMER_DELIVER_MS: str(due),
                names.TIMER_OUT_MS: str(due // 1000 * 1000),
                names.REAL_TOPIC: "T",
                names.REAL_QID: "1",
            },
        )
        self.assertEqual(self.bodies(), [])
        self.cluster.pump(2.4)
        self.assertEqual(self.bodies(), [])
        self.cluster.pump(0.2)
        self.assertEqual(self.bodies(), [b"K1"])

    def test_each_property(self) -> None:
        """Each of the properties is followed, the first of them where there are several."""
        for asked, after in (
            ({names.TIMER_DELAY_SEC: "2"}, 2.0),
            ({names.TIMER_DELAY_MS: "700"}, 0.7),
            ({names.TIMER_DELIVER_MS: "at"}, 0.9),
            ({names.START_DELIVER_TIME: "at"}, 0.9),
            ({names.TIMER_DELAY_SEC: "1", names.TIMER_DELAY_MS: "5000", names.TIMER_DELIVER_MS: "1"}, 1.0),
        ):
            base = self.now
            before = len(self.bodies())
            shifted = {
                name: str(base + 900)
                if name in (names.TIMER_DELIVER_MS, names.START_DELIVER_TIME) and len(asked) == 1
                else text
                for name, text in asked.items()
            }
            self.assertEqual(self.send(**shifted).code, 0)
            self.cluster.pump(after - 0.1)
            self.assertEqual(len(self.bodies()), before, asked)
            self.cluster.pump(0.3)
            self.assertEqual(len(self.bodies()), before + 1, asked)

    def test_past(self) -> None:
        """What is due already is stored in its topic at once, without a handle."""
        for asked in (
            {names.TIMER_DELIVER_MS: str(self.now)},
            {names.TIMER_DELIVER_MS: "-5"},
            {names.START_DELIVER_TIME: "0"},
            {names.TIMER_DELAY_SEC: "0"},
            {names.TIMER_DELAY_MS: "-7"},
        ):
            before = len(self.bodies())
            answer = self.send(**asked)
            self.assertIsNone(answer.read(SendResponse).recall_handle)
            self.assertEqual(len(self.bodies()), before + 1, asked)

    def test_too_far(self) -> None:
        """A time beyond timerMaxDelaySec is refused with 13 and RocketMQ's remark; the last millisecond is taken."""
        limit = 40 * DAY_MS
        answer = self.send(TIMER_DELIVER_MS=str(self.now + limit + 1))
        self.assertEqual(answer.code, ResponseCode.MESSAGE_ILLEGAL)
        self.assertEqual(
            answer.remark,
            "timer message illegal, the delay time should not be bigger than the max delay 3456000000ms;"
            " or if set del msg, the delay time should be bigger than the current time",
        )
        self.assertEqual(self.send(TIMER_DELAY_SEC=str(limit // 1000 + 1)).code, ResponseCode.MESSAGE_ILLEGAL)
        self.assertEqual(self.send(TIMER_DELIVER_MS=str(self.now + limit)).code, 0)
        timed = self.cluster.broker.timed
        assert timed is not None
        self.assertEqual(timed.waiting, 1)

    def test_no_number(self) -> None:
        """A time that is no number is refused with 13."""
        for text in ("soon", "1.5", "", "9" * 30, "\u0661", "--1"):
            answer = self.send(TIMER_DELIVER_MS=text)
            self.assertEqual(answer.code, ResponseCode.MESSAGE_ILLEGAL if text else 0, text)

    def test_level(self) -> None:
        """A delay level counts more than a time, whose properties are dropped then."""
        self.send(TIMER_DELIVER_MS=str(self.now + 60_000), DELAY="1")
        self.cluster.pump(1.5)
        (message,) = self.cluster.pull("T", 1)[1]
        self.assertNotIn(names.TIMER_DELIVER_MS, decode(message.properties))

    def test_once(self) -> None:
        """A message that was timed before is not timed again, such as one that a consumer sends back itself."""
        self.send(TIMER_DELAY_SEC="3600", TIMER_OUT_MS="5")
        self.assertEqual(self.bodies(), [b"K1"])

    def test_batch(self) -> None:
        """A batch with a delivery time is refused."""
        properties = {names.TIMER_DELIVER_MS: str(self.now + 5000)}
        answer = self.cluster.send("T", b"", 1, properties=properties, code=RequestCode.SEND_BATCH_MESSAGE, batch=True)
        self.assertEqual(answer.code, ResponseCode.MESSAGE_ILLEGAL)

    def test_timer_topic(self) -> None:
        """Nobody may send to the timer topic itself, and no client sees it."""
        self.send(TIMER_DELIVER_MS=str(self.now + 5000))
        properties = encode({names.REAL_TOPIC: "T", names.REAL_QID: "1", names.TIMER_OUT_MS: "1"}).decode()
        self.assertEqual(self.cluster.send(TIMER_TOPIC, properties=properties).code, ResponseCode.NO_PERMISSION)
        self.assertEqual(self.cluster.pull(TIMER_TOPIC)[0].code, ResponseCode.TOPIC_NOT_EXIST)

    def test_retry_topic(self) -> None:
        """A retry has no handle, as in RocketMQ."""
        self.cluster.heartbeat("G", "T")
        answer = self.cluster.send(
            f"{RETRY_PREFIX}G", queue_id=0, properties={names.UNIQ_KEY: "K", names.TIMER_DELAY_SEC: "5"}
        )
        self.assertEqual(answer.code, 0)
        self.assertIsNone(answer.read(SendResponse).recall_handle)

    # -- recalls -----------------------------------------------------------------------------------------------

    def recall(self, handle: str | None, topic: str = "T") -> Command:
        """Recall a message."""
        header = RecallRequest(topic=topic, recall_handle=handle or "", producer_group="PG")
        return self.cluster.ask(Command.request(RequestCode.RECALL_MESSAGE, header))

    def test_recall(self) -> None:
        """A recalled message does not come; recalling it twice is no error."""
        due = self.now + 3000
        handle = self.send("K1", TIMER_DELIVER_MS=str(due)).read(SendResponse).recall_handle
        self.send("K2", TIMER_DELIVER_MS=str(due))
        for _ in range(2):
            answer = self.recall(handle)
            self.assertEqual((answer.code, answer.read(RecallResponse).msg_id), (0, "K1"))
            self.assertEqual(answer.fields["MSG_REGION"], "DefaultRegion")
        self.cluster.pump(5)
        self.assertEqual(self.bodies(), [b"K2"])

    def test_refused(self) -> None:
        """Each refusal has RocketMQ's code and remark."""
        due = self.now + 3000
        handle = RecallHandle("T", "broker-a", str(due), "K1")
        self.cluster.send("T2")
        late = str(self.now + 41 * DAY_MS)
        for text, topic, code, remark in (
            ("", "T", 604, "recall handle is invalid"),
            ("???", "T", 604, "recall handle is invalid"),
            ("djEgVA==", "T", 604, "recall handle is invalid"),
            (handle.format(), "T2", 604, "recall failed, topic not match"),
            (handle.format(), "T3", 17, "recall failed, the topic[T3] not exist"),
            (handle._replace(broker_name="b").format(), "T", 604, "recall failed, broker service not available"),
            (handle._replace(due_ms=str(self.now)).format(), "T", 604, "recall failed, timestamp invalid"),
            (handle._replace(due_ms="x").format(), "T", 604, "recall failed, timestamp invalid"),
            (
                handle._replace(due_ms=late).format(),
                "T",
                604,
                "recall failed, timestamp invalid",
            ),
        ):
            answer = self.recall(text, topic)
            self.assertEqual((answer.code, answer.remark), (code, remark), text)


class DisabledTests(ClusterCase):
    """Timed messages and recalls are switched off."""

    settings: ClassVar[dict[str, str]] = {"timerWheelEnable": "false", "recallMessageEnable": "false"}

    def test_refused(self) -> None:
        """Both are refused, and plain messages are not."""
        self.assertEqual(self.cluster.send("T").code, 0)
        answer = self.cluster.send("T", properties={names.TIMER_DELAY_SEC: "5"})
        self.assertEqual(
            (answer.code, answer.remark), (1, "accurate timer message is not enabled, timerWheelEnable is false")
        )
        header = RecallRequest(topic="T", recall_handle="x")
        answer = self.cluster.ask(Command.request(RequestCode.RECALL_MESSAGE, header))
        self.assertEqual((answer.code, answer.remark), (16, "recall failed, operation is forbidden"))
        self.assertIsNone(self.cluster.broker.timed)


class SyncTests(ClusterCase):
    """SYNC_FLUSH: what is taken is on the disk."""

    settings: ClassVar[dict[str, str]] = {"flushDiskType": "SYNC_FLUSH"}

    def test_answers(self) -> None:
        """Answers wait for the flush, and have the handle; the message comes at its time."""
        self.cluster.send("T")
        properties = {names.UNIQ_KEY: "K", names.TIMER_DELAY_SEC: "1"}
        answer = self.cluster.send("T", queue_id=1, properties=properties)
        handle = answer.read(SendResponse).recall_handle
        assert handle is not None
        header = RecallRequest(topic="T", recall_handle=handle)
        other = self.cluster.send("T", queue_id=1, properties={**properties, names.UNIQ_KEY: "L"})
        self.assertEqual(other.code, 0)
        self.assertEqual(self.cluster.ask(Command.request(RequestCode.RECALL_MESSAGE, header)).code, 0)
        self.cluster.pump(2)
        found = [decode(one.properties)[names.UNIQ_KEY] for one in self.cluster.pull("T", 1)[1]]
        self.assertEqual(found, ["L"])


class SlaveTests(ClusterCase):
    """A slave."""

    settings: ClassVar[dict[str, str]] = {"brokerRole": "SLAVE", "brokerId": "1"}

    def test_recall(self) -> None:
        """It refuses a recall with 11, and keeps no timer log."""
        header = RecallRequest(topic="T", recall_handle="x")
        answer = self.cluster.ask(Command.request(RequestCode.RECALL_MESSAGE, header))
        self.assertEqual(answer.code, ResponseCode.SLAVE_NOT_AVAILABLE)
        self.assertIsNone(self.cluster.broker.timed)


class RestartTests(ClusterCase):
    """A broker that is stopped."""

    def test_again(self) -> None:
        """What waits at a stop comes after the next start."""
        self.cluster.send("T")
        self.cluster.send("T", b"later", 1, properties={names.UNIQ_KEY: "K", names.TIMER_DELAY_SEC: "30"})
        self.cluster.stop()
        self.cluster = Cluster(self.cluster.env)
        timed = self.cluster.broker.timed
        assert timed is not None
        self.assertEqual(timed.waiting, 1)
        self.cluster.pump(40)
        self.assertEqual([bytes(one.body) for one in self.cluster.pull("T", 1)[1]], [b"later"])
