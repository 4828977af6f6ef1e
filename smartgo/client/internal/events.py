"""
The events of sends and of consumption, and the interface of those that hear them: message traces and OpenTelemetry.

A listener is part of its client, and hears of all producers and consumers. It must not block. What it raises is logged,
and changes nothing for the send or the consumption.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from smartgo.client.internal.callcontext import added_since
from smartgo.client.listening import ConsumeLater, Listener, outcome
from smartgo.client.messages import ReceivedMessage, SendResult
from smartgo.client.tracesettings import Tracing
from smartgo.env.interfaces import IClock
from smartgo.schema.bodies import MessageQueue
from smartgo.schema.headers.send import SendResponse

_log = Logger()


class Attempt:
    """
    One request of a send that a broker answered with a result.

    @ivar queue: the queue that it went to; C{address} is C{host:port} of the broker.
    @ivar begun_ms: when it was sent, wall clock in ms; C{seconds} later the answer came.
    @ivar result: the result.
    @ivar answer: the header of the answer.
    """

    __slots__ = ("address", "answer", "begun_ms", "queue", "result", "seconds")

    def __init__(
        self,
        queue: MessageQueue,
        address: str,
        begun_ms: int,
        seconds: float,
        result: SendResult,
        answer: SendResponse,
    ) -> None:
        self.queue = queue
        self.address = address
        self.begun_ms = begun_ms
        self.seconds = seconds
        self.result = result
        self.answer = answer


class Sending:
    """
    A send of a message or a batch, from its preparation to its end.

    @ivar group: the producer group.
    @ivar topic: the topic.
    @ivar messages: the properties of each message, which a listener may add to in L{ClientEvents.send_begun}.
    @ivar batch: whether it is a batch.
    @ivar body_length: bytes of the body as it is sent, compressed perhaps; 0 before it is known.
    @ivar notes: what the listeners remember, by listener.
    """

    __slots__ = ("batch", "body_length", "group", "messages", "notes", "topic")

    def __init__(self, group: str, topic: str, messages: Sequence[dict[str, str]], batch: bool) -> None:
        self.group = group
        self.topic = topic
        self.messages = messages
        self.batch = batch
        self.body_length = 0
        self.notes: dict[object, Any] = {}


class Consuming:
    """
    A call of a consumer's listener with messages.

    @ivar group: the consumer group.
    @ivar messages: the messages of the call.
    @ivar begun_ms: wall clock in ms; C{seconds} later the call ended.
    @ivar error: what the listener raised; C{None} where it succeeded.
    @ivar late: whether the call took longer than C{consume_timeout}.
    @ivar notes: what the listeners remember, by listener.
    """

    __slots__ = ("begun_ms", "error", "group", "late", "messages", "notes", "seconds")

    def __init__(self, group: str, messages: list[ReceivedMessage], begun_ms: int) -> None:
        self.group = group
        self.messages = messages
        self.begun_ms = begun_ms
        self.seconds = 0.0
        self.error: BaseException | None = None
        self.late = False
        self.notes: dict[object, Any] = {}

    @property
    def asked_again(self) -> bool:
        """Tell whether the listener asked for the messages again, rather than failed."""
        return isinstance(self.error, ConsumeLater)


class ClientEvents:
    """The events that a listener may hear; each method does nothing by default."""

    def send_begun(self, sending: Sending) -> None:
        """Begin a send, before its messages are encoded; properties may be added to them."""

    def send_answered(self, sending: Sending, attempt: Attempt) -> None:
        """Note that a broker stored the messages of a send."""

    def send_ended(self, sending: Sending, error: BaseException | None) -> None:
        """End a send, after all its attempts; C{error} is C{None} where it succeeded."""

    def consume_begun(self, consuming: Consuming) -> Callable[[], object] | None:
        """
        Begin the call of a listener.

        @return: a function to call when the listener has returned, though its Deferred may not have fired yet.
        """
        return None

    def consume_ended(self, consuming: Consuming) -> None:
        """End the call of a listener."""

    def transaction_ended(
        self, group: str, topic: str, found: dict[str, str], address: str, id: str, state: str, from_check: bool
    ) -> None:
        """
        Note that the outcome of a transaction is sent to its broker.

        @param found: the properties of its message.
        @param address: C{host:port} of the broker.
        @param id: the transaction's id.
        @param state: C{COMMIT_MESSAGE}, C{ROLLBACK_MESSAGE} or C{UNKNOW}.
        @param from_check: whether the broker had asked for it.
        """

    def received(self, group: str, queue: MessageQueue, messages: list[ReceivedMessage], seconds: float) -> None:
        """Note that a program got messages that it asked for, after this many seconds."""

    def stop(self) -> Deferred[None] | None:
        """Send what is kept; the client closes its connections when the Deferred fires."""
        return None


class Events(ClientEvents):
    """
    The listeners of a client, as one; false if there are none.

    @ivar listeners: the listeners; L{smartgo.client.internal.tracing.events_of} makes those that are asked for.
    @ivar tracing: the listeners that are asked for; C{made}: whether they were made.
    """

    def __init__(self, tracing: Tracing | None = None) -> None:
        """@param tracing: the listeners that are asked for; C{None} for none."""
        self.listeners: list[ClientEvents] = []
        self.tracing = Tracing() if tracing is None else tracing
        self.made = False

    def __bool__(self) -> bool:
        return bool(self.listeners)

    def send_begun(self, sending: Sending) -> None:
        """Tell all listeners."""
        for one in self.listeners:
            self._guarded(one.send_begun, sending)

    def send_answered(self, sending: Sending, attempt: Attempt) -> None:
        """Tell all listeners."""
        for one in self.listeners:
            self._guarded(one.send_answered, sending, attempt)

    def send_ended(self, sending: Sending, error: BaseException | None) -> None:
        """Tell all listeners."""
        for one in self.listeners:
            self._guarded(one.send_ended, sending, error)

    def consume_begun(self, consuming: Consuming) -> Callable[[], object]:
        """Tell all listeners."""
        after = [self._guarded(one.consume_begun, consuming) for one in self.listeners]

        def returned() -> None:
            for one in reversed(after):
                if one is not None:
                    self._guarded(one)

        return returned

    def consume_ended(self, consuming: Consuming) -> None:
        """Tell all listeners."""
        for one in self.listeners:
            self._guarded(one.consume_ended, consuming)

    def transaction_ended(
        self, group: str, topic: str, found: dict[str, str], address: str, id: str, state: str, from_check: bool
    ) -> None:
        """Tell all listeners."""
        for one in self.listeners:
            self._guarded(one.transaction_ended, group, topic, found, address, id, state, from_check)

    def received(self, group: str, queue: MessageQueue, messages: list[ReceivedMessage], seconds: float) -> None:
        """Tell all listeners."""
        for one in self.listeners:
            self._guarded(one.received, group, queue, messages, seconds)

    async def end(self) -> None:
        """Stop all listeners."""
        for one in self.listeners:
            waits = self._guarded(one.stop)
            if waits is not None:
                await waits

    def _guarded(self, heard: Callable[..., Any], *arguments: object) -> Any:
        try:
            return heard(*arguments)
        except Exception:  # a listener may fail in an exporter or a library; messages must go on
            _log.failure("a listener of the client's events failed")
            return None


def observed(listener: Listener, events: Events, group: str, clock: IClock, timeout: float) -> Listener:
    """
    Return a consumer's listener whose calls are told to the client's listeners; the same one if there are none.

    @param timeout: seconds after which a call counts as late.
    """
    if not events:
        return listener

    def call(messages: list[ReceivedMessage]) -> Deferred[Any] | None:
        consuming = Consuming(group, messages, clock.wall_ms())
        begin = clock.seconds()

        def ended(result: Any) -> Any:
            consuming.seconds = clock.seconds() - begin
            consuming.late = consuming.seconds >= timeout
            consuming.error = result.value if isinstance(result, Failure) else None
            events.consume_ended(consuming)
            return result

        before = copy_context()
        returned = events.consume_begun(consuming)
        try:
            with added_since(before):
                waits = outcome(listener, messages)
        except Exception:
            returned()
            ended(Failure())
            raise
        returned()
        if waits is None:
            ended(None)
            return None
        return waits.addBoth(ended)

    return call
