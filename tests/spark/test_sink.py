"""Sending what a table holds: over connections in memory, and from Spark to a broker of our own."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from smartgo.errors import SettingError
from smartgo.schema import batch, properties
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.headers.send import SendRequest
from smartgo.spark.outgoing import BadRow, Outgoing, Portion
from smartgo.spark.sink import NotSent, Settings, Task
from tests.client.doubles import ClusterTestCase, route
from tests.client.test_producer import Storing
from tests.spark.test_outgoing import outgoing

A, B = ("a", 10001), ("b", 10002)


class SettingsTests(ClusterTestCase):
    def test_defaults(self) -> None:
        """The registry alone must be named."""
        found = Settings({"Registry": "h:1"})
        self.assertEqual((found.registry, found.topic, found.group), ("h:1", None, "smartgo-spark"))
        self.assertIn("registry", str(self.assertRaises(SettingError, Settings, {"topic": "T"})))

    def test_wrong(self) -> None:
        """Numbers out of their range and names against the rules are refused before Spark starts a task."""
        for wrong in (
            {"batchRows": "0"},
            {"batchRows": "4097"},
            {"batchbytes": "1e3"},
            {"inFlight": "x"},
            {"topic": "a b"},
            {"group": ""},
        ):
            error = self.assertRaises(SettingError, Settings, {"registry": "h:1", **wrong})
            self.assertTrue(str(error))


class TaskTests(ClusterTestCase):
    def setUp(self) -> None:
        """Two brokers; topic T is at the first, topic S at both."""
        super().setUp()
        self.a, self.b = Storing(), Storing()
        self.listen(A[1], self.a)
        self.listen(B[1], self.b)
        self.routes["T"], self.routes["S"] = route(A), route(A, B)
        self.task = self.made()

    def made(self, **options: str) -> Task:
        """A task's client."""
        task = Task(self.env, Settings({"registry": "127.0.0.1:9876", "timeout": "5", **options}))
        self.result_of(task.open())
        self.addCleanup(self.result_of, task.close(), 4.0)
        return task

    def result_of(self, work: Any, seconds: float = 0.5) -> Any:
        """What a coroutine returns within some time."""
        return self.result(Deferred.fromCoroutine(work), seconds)

    def failure_of(self, work: Any, kind: type[Exception], seconds: float = 0.5) -> str:
        """What a coroutine's error says."""
        waits = Deferred.fromCoroutine(work)
        self.pass_time(seconds)
        return str(self.failureResultOf(waits, kind).value)

    def portion(self, *messages: Outgoing) -> Portion:
        """A portion of messages of one topic and queue."""
        return Portion(messages[0].topic, messages[0].queue_id, list(messages))

    def test_batch(self) -> None:
        """Several messages are one request; tags, keys, properties and ids are in it."""
        first = outgoing(1, tag="t", keys=("k1", "k2"), properties={"p": "1", properties.UNIQ_KEY: "U"}, flag=7)
        self.assertEqual(self.result_of(self.task.send(self.portion(first, outgoing(2)))), 2)
        (request,) = self.a.of(RequestCode.SEND_BATCH_MESSAGE)
        (flag, body, raw), second = batch.decode_items(request.body)
        self.assertEqual((flag, body), (7, b"x" * 10))
        self.assertEqual(properties.decode(raw), {"p": "1", "UNIQ_KEY": "U", "TAGS": "t", "KEYS": "k1 k2"})
        self.assertIn("UNIQ_KEY", properties.decode(second[2]))

    def test_single(self) -> None:
        """A message alone is a plain send, and may be delayed."""
        self.result_of(self.task.send(self.portion(outgoing(1, delay_level=3))))
        (request,) = self.a.of(RequestCode.SEND_MESSAGE_V2)
        self.assertEqual(properties.decode_text(request.read(SendRequest).properties)["DELAY"], "3")

    def test_queue(self) -> None:
        """A queue that is named is used, for batches and for single messages; the next goes when one is stored."""
        for queue_id in (1, 1, 0):
            self.result_of(self.task.send(self.portion(outgoing(1, queue_id=queue_id))))
        self.result_of(self.task.send(self.portion(outgoing(1, queue_id=1), outgoing(2, queue_id=1))))
        queues = [
            request.read(SendRequest).queue_id
            for request in self.a.seen
            if request.code in (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
        ]
        self.assertEqual(queues, [1, 1, 0, 1])

    def test_queue_order(self) -> None:
        """Of two portions for one queue the second is sent when the first is stored."""
        answers: list[Any] = []

        def hold(request: Any) -> Any:
            answers.append(Deferred())
            return answers[-1].addCallback(lambda _: self.a._store(request))

        self.a.does[RequestCode.SEND_MESSAGE_V2] = hold
        sends = [Deferred.fromCoroutine(self.task.send(self.portion(outgoing(1, queue_id=0)))) for _ in range(2)]
        self.pass_time(0.3)
        self.assertEqual(len(answers), 1)
        answers[0].callback(None)
        self.pass_time(0.3)
        self.assertEqual(len(answers), 2)
        answers[1].callback(None)
        self.pass_time(0.3)
        self.assertEqual([self.successResultOf(one) for one in sends], [1, 1])

    def test_no_such_queue(self) -> None:
        """A queue that the topic has not is an error that names it."""
        said = self.failure_of(self.task.send(self.portion(outgoing(1, queue_id=9))), NotSent)
        self.assertIn("topic T has no queue 9", said)

    def test_which_broker(self) -> None:
        """Where two brokers have a queue of that number, the option broker tells which; without it nothing is sent."""
        portion = self.portion(outgoing(1, "S", queue_id=1))
        said = self.failure_of(self.task.send(portion), NotSent)
        self.assertIn("brokers a, b", said)
        self.assertEqual(self.result_of(self.made(broker="b").send(portion)), 1)
        self.assertEqual(
            (len(self.a.of(RequestCode.SEND_MESSAGE_V2)), len(self.b.of(RequestCode.SEND_MESSAGE_V2))), (0, 1)
        )

    def test_busy(self) -> None:
        """A broker that is busy is asked again, with pauses, until it takes the rows."""
        self.a.code = int(ResponseCode.SYSTEM_BUSY)
        waits = Deferred.fromCoroutine(self.task.send(self.portion(outgoing(1))))
        self.pass_time(2.0)
        self.assertNoResult(waits)
        self.a.code = 0
        self.pass_time(2.0)
        self.assertEqual(self.successResultOf(waits), 1)

    def test_gives_up(self) -> None:
        """After the time-out the rows are named that were not taken, where to, and the broker's words."""
        self.a.code = int(ResponseCode.SYSTEM_BUSY)
        portion = self.portion(outgoing(11), outgoing(12))
        said = self.failure_of(self.task.send(portion), NotSent, 6.0)
        for word in ("rows 11 to 12", "topic T", "as told", "127.0.0.1:9876"):
            self.assertIn(word, said)

    def test_refused(self) -> None:
        """A refusal that will not change is not repeated."""
        self.a.code = int(ResponseCode.MESSAGE_ILLEGAL)
        self.failure_of(self.task.send(self.portion(outgoing(1))), NotSent)
        self.assertEqual(len(self.a.of(RequestCode.SEND_MESSAGE_V2)), 1)

    def test_bad_row(self) -> None:
        """A message that no broker would take stops its portion before it is sent, by its row."""
        wrong = (
            outgoing(3, "a b"),
            outgoing(3, size=0),
            outgoing(3, keys=("a b",)),
            outgoing(3, properties={"p": "\x01"}),
            outgoing(3, size=5 << 20),
        )
        for message in wrong:
            self.assertIn("row 3", self.failure_of(self.task.send(self.portion(outgoing(2), message)), BadRow))
        self.assertEqual(self.a.of(RequestCode.SEND_BATCH_MESSAGE), [])
