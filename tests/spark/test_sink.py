"""Sending what a table holds: over connections in memory, and from Spark to a broker of our own."""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.types import IntegerType, StringType, StructField, StructType
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import SettingError
from smartgo.schema import batch, properties
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.headers.send import SendRequest
from smartgo.spark import sink
from smartgo.spark.outgoing import BadRow, Outgoing, Portion
from smartgo.spark.sink import NotSent, Settings, Task
from tests.client.doubles import ClusterTestCase, Storing, route
from tests.spark.session import ROOT, SparkTestCase
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
            {"tls": "yes"},
            {"tlsTrust": "/ca.pem"},
        ):
            error = self.assertRaises(SettingError, Settings, {"registry": "h:1", **wrong})
            self.assertTrue(str(error))

    def test_unknown(self) -> None:
        """An option that does not exist is refused, and the nearest told; what Spark adds is not."""
        error = self.assertRaises(SettingError, Settings, {"registry": "h:1", "batchrow": "5"})
        self.assertIn("did you mean batchRows", str(error))
        Settings({"registry": "h:1", "checkpointLocation": "/x", "path": "/y"})

    def test_tls(self) -> None:
        """The files for TLS are read in the worker, and a wrong one is told."""
        settings = Settings({"registry": "127.0.0.1:1", "tls": "true", "tlsTrust": "/no/such.pem"})
        self.assertIn("/no/such.pem", str(self.assertRaises(SettingError, Task, self.env, settings)))
        plain = Settings({"registry": "127.0.0.1:1", "tls": "true", "tlsName": "broker.example"})
        Task(self.env, plain)


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
        """Return the result of a coroutine within some time."""
        return self.result(Deferred.fromCoroutine(work), seconds)

    def failure_of(self, work: Any, kind: type[Exception], seconds: float = 0.5) -> str:
        """Return the words of a coroutine's error."""
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

    def test_first_order(self) -> None:
        """Portions for one queue keep their order even when the topic's route is not known yet."""
        portions = [self.portion(outgoing(row, queue_id=1, tag=f"t{row}")) for row in range(5)]
        sends = [Deferred.fromCoroutine(self.task.send(portion)) for portion in portions]
        self.pass_time(1.0)
        self.assertEqual([self.successResultOf(one) for one in sends], [1] * 5)
        sent = [request.read(SendRequest).properties for request in self.a.of(RequestCode.SEND_MESSAGE_V2)]
        self.assertEqual([properties.decode_text(one)["TAGS"] for one in sent], [f"t{row}" for row in range(5)])

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

    def test_lost_answer(self) -> None:
        """A broker that does not answer in 10 s is asked again."""
        task = self.made(timeout="30")
        for queue_id in (None, 1):
            self.a.does[RequestCode.SEND_MESSAGE_V2] = lambda request: None
            waits = Deferred.fromCoroutine(task.send(self.portion(outgoing(1, queue_id=queue_id))))
            self.pass_time(9.0)
            self.a.does[RequestCode.SEND_MESSAGE_V2] = self.a._store
            self.assertNoResult(waits)
            self.pass_time(3.0)
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


class DirectLoop:
    """A reactor's thread that does everything at once, in the caller's."""

    env = None

    def begin(self, work: Callable[[], Any]) -> Future[Any]:
        """Do it."""
        future: Future[Any] = Future()
        Deferred.fromCoroutine(work()).addCallbacks(
            future.set_result, lambda failure: future.set_exception(failure.value)
        )
        return future


class SendAllTests(SynchronousTestCase):
    def test_not_opened(self) -> None:
        """A client that cannot join its group is closed all the same, and its error told."""
        calls: list[str] = []

        class Refused:
            """A client whose group has a producer already."""

            def __init__(self, env: object, settings: Settings) -> None:
                """Take what a task takes."""

            async def open(self) -> None:
                """Fail."""
                calls.append("open")
                raise SettingError("there is one already")

            async def close(self) -> None:
                """Take note."""
                calls.append("close")

        self.patch(sink._Loop, "of_this_process", DirectLoop)
        self.patch(sink, "Task", Refused)
        settings = Settings({"registry": "h:1", "topic": "T"})
        self.assertRaises(SettingError, sink.send_all, iter([outgoing(1)]), settings)
        self.assertEqual(calls, ["open", "close"])


class WriterTests(SynchronousTestCase):
    """Objects that are made on the driver and sent to the workers."""

    schema = StructType([StructField("body", StringType()), StructField("flag", IntegerType())])

    def test_write(self) -> None:
        """A writer travels to a worker, and sends the rows of its task there."""
        asked: list[list[Outgoing]] = []

        def send_all(messages: Iterator[Outgoing], settings: Settings) -> sink.TaskResult:
            self.assertEqual((settings.registry, settings.batch_rows), ("h:1", 7))
            asked.append(list(messages))
            return sink.TaskResult(len(asked[-1]), 1)

        self.patch(sink, "send_all", send_all)
        options = {"registry": "h:1", "topic": "T", "batchRows": "7"}
        batch = pa.record_batch({"body": ["a", "b"], "flag": [1, None]})
        for kind in (sink.Writer, sink.StreamWriter):
            writer = pickle.loads(pickle.dumps(kind(options, self.schema, False)))
            self.assertEqual(writer.write(iter([batch, batch])).rows, 4)
        self.assertEqual([(one.row, one.body, one.flag) for one in asked[0]][:2], [(1, b"a", 1), (2, b"b", 0)])

    def test_overwrite(self) -> None:
        """What is stored cannot be overwritten, by a table or by a stream."""
        for kind in (sink.Writer, sink.StreamWriter):
            error = self.assertRaises(SettingError, kind, {"registry": "h:1", "topic": "T"}, self.schema, True)
            self.assertIn("append", str(error))


class BrokerTests(SparkTestCase):
    """Rows that Spark sends to a registry and a broker, which run in a process of their own."""

    def setUp(self) -> None:
        """Start them."""
        super().setUp()
        self.data = os.path.abspath(self.mktemp())
        ports = [str(port) for port in free_ports(2)]
        self.registry = f"127.0.0.1:{ports[0]}"
        command = [sys.executable, "-m", "smartgo.cli.main", "dev", "--data", self.data]
        command += ["--registry-listen", ports[0], "--listen", ports[1]]
        with open(f"{self.data}.log", "wb") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, cwd=ROOT, text=True)
        self.addCleanup(self.stop)
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("Ready"):
                return
        self.fail("the broker did not start")

    def stop(self) -> None:
        """End them."""
        self.process.terminate()
        self.process.communicate(timeout=60)

    def stored(self, topic: str) -> list[Any]:
        """Return the messages of a topic in the broker's store."""
        read = self.spark.read.format("smartgo").load(os.path.join(self.data, "store"))
        rows: list[Any] = read.where(f"topic = '{topic}'").orderBy("physical_offset").collect()
        return rows

    def failure(self, work: Callable[[], object]) -> str:
        """Return the words of Spark's error."""
        return str(self.assertRaises(PySparkException, work))

    def test_round_trip(self) -> None:
        """
        A table that is written is in the broker's store, each row as a message with what its columns say; a stream
        over that store, written to another topic, sends every message on once, in the order of its queue. What cannot
        be sent is told, by option or by row.
        """
        frame = self.spark.range(2500).selectExpr(
            "concat('body ', id) AS value",
            "concat('k', id) AS key",
            "CASE WHEN id % 2 = 0 THEN 'even' ELSE 'odd' END AS tags",
            "map('number', string(id)) AS properties",
            "CASE WHEN id % 5 = 0 THEN 0 END AS queue_id",
        )
        write = frame.write.format("smartgo").mode("append").options(registry=self.registry, topic="Written")
        write.option("batchRows", 100).save()
        rows = self.stored("Written")
        numbers = [int(row.properties["number"]) for row in rows]
        self.assertEqual(sorted(numbers), list(range(2500)))
        for row, number in zip(rows, numbers, strict=True):
            self.assertEqual(
                (row.body, row.key, row.tags),
                (f"body {number}".encode(), f"k{number}", "odd" if number % 2 else "even"),
            )
            if number % 5 == 0:
                self.assertEqual(row.queue_id, 0)
        self.assertEqual({row.queue_id for row in rows}, {0, 1, 2, 3})
        ids = {row.unique_id for row in rows}
        self.assertEqual(len(ids), 2500)

        stream = self.spark.readStream.format("smartgo").load(os.path.join(self.data, "store"))
        query = (
            stream.where("topic = 'Written'")
            .writeStream.format("smartgo")
            .options(registry=self.registry, topic="Again", checkpointLocation=f"{self.data}.checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        again = self.stored("Again")
        self.assertEqual({row.unique_id for row in again}, ids)
        self.assertEqual(len(again), 2500)
        for queue in range(4):
            before, after = ([row.unique_id for row in some if row.queue_id == queue] for some in (rows, again))
            self.assertEqual(before, after)

        self.assertIn(
            "option registry is needed", self.failure(lambda: frame.write.format("smartgo").mode("append").save())
        )
        self.assertIn("cannot be overwritten", self.failure(lambda: write.mode("overwrite").save()))
        wrong = self.spark.createDataFrame([("x",), ("",)], "body string").coalesce(1)
        write = wrong.write.format("smartgo").mode("append").options(registry=self.registry, topic="Written")
        self.assertIn("row 2 of this task cannot be sent: the body is empty", self.failure(write.save))


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, far enough apart for a broker's neighbours."""
    found: list[int] = []
    for port in range(32000, 33000, 10):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            break
    return found
