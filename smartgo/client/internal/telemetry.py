"""
OpenTelemetry: spans of sends, listener calls and pulls, and their context in the properties of messages.

This module is loaded only where a client asks for spans: the packages of OpenTelemetry are an extra.

Names: OpenTelemetry's semantic conventions for messaging spans and for RocketMQ, 1.45; docs/tracing.rst.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from opentelemetry import context, propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer
from opentelemetry.util.types import AttributeValue

from smartgo.client.internal.events import Attempt, ClientEvents, Consuming, Sending
from smartgo.client.messages import ReceivedMessage
from smartgo.env.interfaces import IClock
from smartgo.errors import PeerRefused
from smartgo.schema import properties
from smartgo.schema.address import parse_address
from smartgo.schema.bodies import MessageQueue
from smartgo.schema.timers import DELAYED

LONGEST: Final = 4096
"""Characters of a value that is put into a message's properties, which have 32,767 bytes in all."""

_NAME: Final = "smartgo"
_NS: Final = 1_000_000  # in a millisecond
_LINKS: Final = 128  # spans have no more by default


class Telemetry(ClientEvents):
    """Makes spans of a client's events."""

    def __init__(self, provider: Any, client_id: str, clock: IClock) -> None:
        """@param provider: a C{TracerProvider}; C{True} for the global one."""
        self._clock = clock
        self._tracer: Tracer = (trace.get_tracer_provider() if provider is True else provider).get_tracer(_NAME)
        self._client_id = client_id

    # -- sends -----------------------------------------------------------------------------------------------

    def send_begun(self, sending: Sending) -> None:
        """Begin the span of a send, and put its context into the message; of a batch each message has its own span."""
        links: list[Link] = []
        if sending.batch:
            for found in sending.messages:
                created = self._span(f"create {sending.topic}", SpanKind.PRODUCER, "create", sending.topic)
                _describe(created, found)
                _inject(created, found)
                created.end()
                if len(links) < _LINKS:
                    links.append(Link(created.get_span_context()))
        kind = SpanKind.CLIENT if sending.batch else SpanKind.PRODUCER
        span = self._span(f"send {sending.topic}", kind, "send", sending.topic, links=links)
        if sending.batch:
            span.set_attribute("messaging.batch.message_count", len(sending.messages))
        else:
            _describe(span, sending.messages[0])
            span.set_attribute("messaging.rocketmq.message.type", _type(sending.messages[0]))
            _inject(span, sending.messages[0])
        sending.notes[self] = span

    def send_answered(self, sending: Sending, attempt: Attempt) -> None:
        """Add the queue and the broker that took the message."""
        span = sending.notes[self]
        span.set_attribute("messaging.destination.partition.id", _partition(attempt.queue))
        host, port = parse_address(attempt.address)
        span.set_attribute("server.address", host)
        span.set_attribute("server.port", port)
        if attempt.result.status.value:
            span.add_event("stored less durably than asked", {"smartgo.send.status": attempt.result.status.name})

    def send_ended(self, sending: Sending, error: BaseException | None) -> None:
        """End the span."""
        span = sending.notes.pop(self, None)
        if span is None:
            return
        if sending.body_length:
            span.set_attribute("messaging.message.body.size", sending.body_length)
        _end(span, error)

    # -- consumption -----------------------------------------------------------------------------------------

    def consume_begun(self, consuming: Consuming) -> Callable[[], object]:
        """Begin the span of a listener call, which is the current one in the listener and its coroutine."""
        first = consuming.messages[0]
        found = [propagate.extract(one.properties, context=Context()) for one in consuming.messages]
        links = _links(found)
        single = len(consuming.messages) == 1
        span = self._span(
            f"process {first.topic}",
            SpanKind.CONSUMER,
            "process",
            first.topic,
            parent=found[0] if single and links else None,
            links=[] if single else links,
        )
        span.set_attribute("messaging.consumer.group.name", consuming.group)
        span.set_attribute("messaging.destination.partition.id", _partition(first.queue))
        if single:
            _describe(span, first.properties)
            span.set_attribute("messaging.message.body.size", len(first.body))
            span.set_attribute("smartgo.message.redeliveries", first.reconsume_times)
        else:
            span.set_attribute("messaging.batch.message_count", len(consuming.messages))
        consuming.notes[self] = span
        base = found[0] if single else context.get_current()  # the baggage of the message, too
        token = context.attach(trace.set_span_in_context(span, base))
        return lambda: context.detach(token)

    def consume_ended(self, consuming: Consuming) -> None:
        """End the span."""
        span = consuming.notes.pop(self, None)
        if span is not None:
            _end(span, consuming.error)

    def received(self, group: str, queue: MessageQueue, messages: list[ReceivedMessage], seconds: float) -> None:
        """Make the span of a pull that brought messages."""
        now_ns = self._clock.wall_ms() * _NS
        links = _links([propagate.extract(one.properties, context=Context()) for one in messages])
        span = self._span(
            f"receive {queue.topic}",
            SpanKind.CLIENT,
            "receive",
            queue.topic,
            links=links,
            start_time=now_ns - round(seconds * 1000) * _NS,
        )
        span.set_attribute("messaging.consumer.group.name", group)
        span.set_attribute("messaging.destination.partition.id", _partition(queue))
        span.set_attribute("messaging.batch.message_count", len(messages))
        span.end(now_ns)

    # -- parts -----------------------------------------------------------------------------------------------

    def _span(
        self, name: str, kind: SpanKind, operation: str, topic: str, parent: Context | None = None, **more: Any
    ) -> Span:
        attributes: dict[str, AttributeValue] = {
            "messaging.system": "rocketmq",
            "messaging.operation.name": operation,
            "messaging.operation.type": operation,
            "messaging.destination.name": topic,
            "messaging.client.id": self._client_id,
            "messaging.rocketmq.namespace": "",
        }
        return self._tracer.start_span(name, parent, kind, attributes, **more)


def _inject(span: Span, found: dict[str, str]) -> None:
    """
    Put a span's context and the baggage into a message's properties.

    What could not be sent is left out. Nothing is put there if the application has put a context there.
    """
    if "traceparent" in found:
        return
    carrier: dict[str, str] = {}
    propagate.inject(carrier, trace.set_span_in_context(span))
    for name, value in carrier.items():
        if name not in found and len(value) <= LONGEST and "\x01" not in value and "\x02" not in value:
            found[name] = value


def _links(found: list[Context]) -> list[Link]:
    contexts = [trace.get_current_span(one).get_span_context() for one in found]
    return [Link(one) for one in contexts if one.is_valid][:_LINKS]


def _describe(span: Span, found: dict[str, str]) -> None:
    """Add what is known of a message by its properties."""
    if properties.UNIQ_KEY in found:
        span.set_attribute("messaging.message.id", found[properties.UNIQ_KEY])
    if properties.TAGS in found:
        span.set_attribute("messaging.rocketmq.message.tag", found[properties.TAGS])
    if properties.KEYS in found:
        span.set_attribute("messaging.rocketmq.message.keys", properties.split_keys(found[properties.KEYS]))


def _type(found: dict[str, str]) -> str:
    """Return the type of a message in the words of the conventions."""
    if found.get(properties.TRAN_MSG) == "true":
        return "transaction"
    return "normal" if DELAYED.isdisjoint(found) else "delay"


def _partition(queue: MessageQueue) -> str:
    return f"{queue.broker_name}:{queue.queue_id}"


def _end(span: Span, error: BaseException | None) -> None:
    if error is not None:
        kind = str(error.code) if isinstance(error, PeerRefused) else type(error).__qualname__
        span.set_attribute("error.type", kind)
        span.set_status(Status(StatusCode.ERROR, str(error)))
    span.end()
