"""
Writing: C{df.write.format("smartgo")} and C{df.writeStream.format("smartgo")} send rows to brokers.

Each task sends its rows through the client library, many in one request, several requests under way at once. The client
needs Twisted's reactor, which runs in a thread of the Python worker that Spark starts for tasks: from the first write
on, until the worker ends. This module, and with it the client, is imported when a write begins and not before.

At least once: a row is sent again when an answer is lost, a task that failed is run again by Spark as a whole, and so
is a micro-batch of a stream. Give rows a C{unique_id} (or make one of what tells them apart), and consumers can drop
what they have seen.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType
from twisted.internet.defer import Deferred, DeferredLock
from twisted.internet.task import deferLater

from smartgo.client.client import Client
from smartgo.client.internal.sendanswer import RETRIED
from smartgo.client.messages import BODY_LIMIT, Message, properties_text
from smartgo.client.producer import Producer
from smartgo.env.interfaces import IEnvironment
from smartgo.env.real import RealEnvironment
from smartgo.errors import BadName, CallFailed, MessageIllegal, PeerRefused, SettingError, SmartgoError
from smartgo.net.tls import ClientTLS
from smartgo.schema.batch import COUNT_LIMIT
from smartgo.schema.bodies import MessageQueue
from smartgo.schema.topics import check_group, check_topic
from smartgo.spark.nearest import nearest
from smartgo.spark.outgoing import BadRow, Outgoing, Portion, Shape, portions

if TYPE_CHECKING:
    from pyarrow import RecordBatch

DEFAULT_GROUP: Final = "smartgo-spark"

_ATTEMPT: Final = 10.0
"""Seconds after which an answer is taken for lost."""
_PAUSES: Final = (0.1, 0.2, 0.5, 1.0, 2.0)
"""Seconds between attempts; the last again and again."""

_TLS: Final = {
    "trust": "tlsTrust",
    "certificate": "tlsCertificate",
    "key": "tlsKey",
    "password": "tlsKeyPassword",
    "name": "tlsName",
}
_OPTIONS: Final = (
    *("registry", "topic", "group", "broker", "batchBytes", "batchRows", "inFlight", "timeout", "tls"),
    *_TLS.values(),
)
_SPARKS_OWN: Final = frozenset({"path", "checkpointlocation", "queryname"})

T = TypeVar("T")


class NotSent(SmartgoError):
    """Rows that no broker took; those before them in the task may have been stored."""


class Settings:
    """
    The options of a write.

    @ivar registry: C{host:port} of each registry, with semicolons between them.
    @ivar topic: where all rows go to, C{None} for where a column says.
    @ivar group: the producer group.
    @ivar broker: whose queues C{queue_id} means, where several brokers have the topic.
    @ivar batch_bytes: bytes of a request, about.
    @ivar batch_rows: rows of a request.
    @ivar in_flight: requests of a task under way at once.
    @ivar tls: whether to speak TLS; C{tls_files} how, as parameters of L{ClientTLS}.
    @ivar timeout: seconds in which a request must succeed, all its attempts together.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        """
        @param options: as given, names in any case.
        @raise SettingError: one is missing, unknown or wrong.
        """
        given = {name.lower(): value for name, value in options.items()}
        for name in given.keys() - {known.lower() for known in _OPTIONS} - _SPARKS_OWN:
            raise SettingError(f"there is no option {name} for writing{nearest(name, _OPTIONS)}")
        registry = given.get("registry", "")
        if not registry:
            raise SettingError('option registry is needed: HOST:PORT of a registry, such as "127.0.0.1:9876"')
        self.registry = registry
        self.topic = given.get("topic")
        self.group = given.get("group", DEFAULT_GROUP)
        self.broker = given.get("broker")
        try:
            if self.topic is not None:
                check_topic(self.topic)
            check_group(self.group)
        except BadName as error:
            raise SettingError(str(error)) from None
        self.batch_bytes = _number(given, "batchBytes", 256 * 1024, BODY_LIMIT // 4)
        self.batch_rows = _number(given, "batchRows", 1000, COUNT_LIMIT)
        self.in_flight = _number(given, "inFlight", 8, 1024)
        self.timeout = _number(given, "timeout", 30, 3600)
        if given.get("tls", "false").lower() not in ("true", "false"):
            raise SettingError(f"option tls is {given['tls']!r}, and must be true or false")
        self.tls = given.get("tls", "false").lower() == "true"
        self.tls_files = {what: given.get(name.lower()) for what, name in _TLS.items()}
        if not self.tls and any(self.tls_files.values()):
            raise SettingError("options for TLS are given, and option tls is not true")


def _number(given: Mapping[str, str], name: str, default: int, highest: int) -> int:
    text = given.get(name.lower(), str(default))
    if not text.isdecimal() or not 1 <= int(text) <= highest:
        raise SettingError(f"option {name} is {text!r}, and must be a number from 1 to {highest}")
    return int(text)


class TaskResult(WriterCommitMessage):
    """
    The result of a task.

    @ivar rows: messages stored.
    @ivar requests: in how many requests.
    """

    def __init__(self, rows: int, requests: int) -> None:
        self.rows = rows
        self.requests = requests


class _Writer:
    """The common part of both kinds of write in a task. Made on the driver, sent to the workers."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        """
        @raise SettingError: an option or a column is missing or wrong.
        """
        self._settings = Settings(options)
        columns = [(field.name, field.dataType.simpleString()) for field in schema.fields]
        self._shape = Shape(columns, self._settings.topic)

    def write(self, iterator: Iterator[RecordBatch]) -> TaskResult:
        """
        Send all rows of a task; returns when brokers have stored them all.

        @raise BadRow: a row is no message; rows before it may have been sent.
        @raise NotSent: no broker took some of them.
        """
        return send_all(self._shape.messages(iterator), self._settings)


class Writer(_Writer, DataSourceArrowWriter):
    """Sends a table."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        """
        @raise SettingError: an option or a column is missing or wrong, or C{overwrite} is asked for.
        """
        if overwrite:
            raise SettingError('messages that are stored cannot be overwritten: use mode("append")')
        super().__init__(options, schema)


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """Sends the micro-batches of a stream; one that is run again is sent again."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        """
        @raise SettingError: an option or a column is missing or wrong, or C{overwrite} (output mode C{complete}) is
            asked for.
        """
        if overwrite:
            raise SettingError('messages that are stored cannot be overwritten: use outputMode("append")')
        super().__init__(options, schema)


# -- in the worker -------------------------------------------------------------------------------------------


class _Loop:
    """
    The reactor, in a thread of its own. One for a process, as there is one reactor.

    @ivar env: the environment on that reactor.
    """

    _lock = threading.Lock()
    _started: _Loop | None = None

    def __init__(self) -> None:
        from twisted.internet import reactor

        self._reactor: Any = reactor
        self.env: IEnvironment = RealEnvironment(reactor)
        running: Future[None] = Future()
        self._reactor.callWhenRunning(running.set_result, None)
        threading.Thread(
            target=self._reactor.run,
            kwargs={"installSignalHandlers": False},
            name="smartgo-reactor",
            daemon=True,  # the worker ends when Spark says so
        ).start()
        running.result()

    @classmethod
    def of_this_process(cls) -> _Loop:
        """Return it; started at the first call."""
        with cls._lock:
            if cls._started is None:
                cls._started = cls()
            return cls._started

    def begin(self, work: Callable[[], Coroutine[Deferred[Any], Any, T]]) -> Future[T]:
        """Start C{work()} in the reactor; from any other thread."""
        future: Future[T] = Future()

        def start() -> None:
            Deferred.fromCoroutine(work()).addCallbacks(
                future.set_result, lambda failure: future.set_exception(failure.value)
            )

        self._reactor.callFromThread(start)
        return future


def send_all(messages: Iterator[Outgoing], settings: Settings) -> TaskResult:
    """
    Send messages from a thread that is not the reactor's; returns when all are stored.

    @raise BadRow: one could not be sent.
    @raise NotSent: no broker took it.
    """
    loop = _Loop.of_this_process()
    waiting: deque[Future[int]] = deque()
    rows = requests = 0
    task = loop.begin(lambda: _made(loop.env, settings)).result()
    try:
        loop.begin(task.open).result()
        for portion in portions(messages, settings.batch_bytes, settings.batch_rows):
            if len(waiting) >= settings.in_flight:
                rows += waiting.popleft().result()
            waiting.append(loop.begin(lambda portion=portion: task.send(portion)))  # type: ignore[misc]
            requests += 1
        while waiting:
            rows += waiting.popleft().result()
    finally:
        loop.begin(task.close).result()
    return TaskResult(rows, requests)


async def _made(env: IEnvironment, settings: Settings) -> Task:
    return Task(env, settings)


class Task:
    """The client of one task; used in the reactor's thread alone."""

    def __init__(self, env: IEnvironment, settings: Settings) -> None:
        """
        @raise SettingError: the registry's address, or a file for TLS, cannot be read.
        """
        self._env = env
        self._settings = settings
        tls = ClientTLS(env, **settings.tls_files) if settings.tls else None
        self._client = Client(env, settings.registry, tls=tls)
        self._producer = Producer(self._client, settings.group, timeout=settings.timeout)
        self._orders: dict[tuple[str, int], DeferredLock] = {}

    async def open(self) -> None:
        """Join the group."""
        await self._producer.start()

    async def close(self) -> None:
        """Close the connections."""
        await self._client.stop()

    async def send(self, portion: Portion) -> int:
        """
        Send a portion; return how many messages that were.

        @raise BadRow: one of them is no message that a broker could take.
        @raise NotSent: no broker took them in time.
        """
        messages = [_message(outgoing) for outgoing in portion.messages]
        try:
            if portion.queue_id is None:
                await self._persist(messages, None)
            else:
                # Rows that name their queue lie there in their order: the next goes when the one before is stored.
                order = self._orders.setdefault((portion.topic, portion.queue_id), DeferredLock())
                await order.run(lambda: Deferred.fromCoroutine(self._persist(messages, portion.queue_id)))
        except CallFailed as error:
            first, last = portion.messages[0].row, portion.messages[-1].row
            rows = f"row {first}" if first == last else f"rows {first} to {last}"
            raise NotSent(
                f"{rows} of this task, for topic {portion.topic}, were not taken: {error} (registry "
                f"{self._settings.registry})"
            ) from None
        return len(messages)

    async def _persist(self, messages: Sequence[Message], queue_id: int | None) -> None:
        """Send until it is stored, with pauses; give up when the time is over. @raise CallFailed"""
        deadline = self._env.clock.seconds() + self._settings.timeout
        for pause in chain(_PAUSES, repeat(_PAUSES[-1])):
            left = max(deadline - self._env.clock.seconds(), 0.001)
            try:
                await self._once(messages, queue_id, min(left, _ATTEMPT))
            except CallFailed as error:
                final = isinstance(error, PeerRefused) and error.code not in RETRIED
                if final or self._env.clock.seconds() + pause >= deadline:
                    raise
                await deferLater(self._env.clock, pause)
            else:
                return

    async def _once(self, messages: Sequence[Message], queue_id: int | None, timeout: float) -> None:
        queue = None if queue_id is None else await self._queue(messages[0].topic, queue_id)
        if len(messages) > 1:
            await self._producer.send_batch(messages, queue, timeout)
        elif queue is None:
            await self._producer.send(messages[0], timeout)
        else:
            await self._producer.send_to(messages[0], queue, timeout)

    async def _queue(self, topic: str, number: int) -> MessageQueue:
        """Find a queue by its number. @raise NotSent: there is none, or more than one. @raise CallFailed"""
        broker = self._settings.broker
        queues = [
            queue
            for queue in await self._producer.queues(topic)
            if queue.queue_id == number and broker in (None, queue.broker_name)
        ]
        if not queues:
            where = "" if broker is None else f" at broker {broker}"
            raise NotSent(f"topic {topic} has no queue {number} to write to{where}")
        if len(queues) > 1:
            names = ", ".join(queue.broker_name for queue in queues)
            raise NotSent(f"topic {topic} has a queue {number} at brokers {names}: name one by the option broker")
        return queues[0]


def _message(outgoing: Outgoing) -> Message:
    """Make a client's message. @raise BadRow: no broker would take it."""
    message = Message(
        topic=outgoing.topic,
        body=outgoing.body,
        tag=outgoing.tag,
        keys=outgoing.keys,
        delay_level=outgoing.delay_level,
        flag=outgoing.flag,
        properties=outgoing.properties,
    )
    try:
        message.check()
        properties_text(message.all_properties())
    except (BadName, MessageIllegal) as error:
        raise BadRow(outgoing.row, str(error)) from None
    return message
