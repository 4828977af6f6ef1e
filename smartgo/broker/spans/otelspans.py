"""
OpenTelemetry spans of a broker, exported by the SDK: its batch processor has a thread of its own.

This module is loaded only where the settings ask for spans: the packages of OpenTelemetry are an extra. Sampler,
headers, time-outs, certificates, sizes of batches and resource attributes are those of the SDK's variables
(C{OTEL_...}).

Names: OpenTelemetry's semantic conventions for messaging spans and for RocketMQ, 1.45; docs/tracing.rst.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import SpanKind
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from smartgo.broker.cluster.registration import Identity
from smartgo.broker.spans.tracedmessages import TracedMessage
from smartgo.env.interfaces import IEnvironment
from smartgo.errors import SettingError
from smartgo.schema import properties

ROOM: Final = 2048  # spans that wait for their export, where OTEL_BSP_MAX_QUEUE_SIZE says nothing else
STOP: Final = 2.0  # seconds that a stop waits for the export
LOOK: Final = 5.0  # seconds between two looks at the export while spans wait

_QUEUE_SIZE: Final = "OTEL_BSP_MAX_QUEUE_SIZE"
_NAME: Final = "smartgo.broker"
_LANE: Final = "spans"
_NS: Final = 1_000_000  # in a millisecond


class _Reason(logging.Filter):
    """
    The first complaint of the SDK's loggers since the last success; our own log tells of it, once.

    @ivar text: the complaint; empty for none.
    """

    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self._loggers = [logging.getLogger(one.__module__) for one in (OTLPSpanExporter, SpanExporter)] + [
            logging.getLogger("opentelemetry.sdk._shared_internal")
        ]
        for one in self._loggers:
            one.addFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep a complaint, and let nothing be logged."""
        self.text = self.text or record.getMessage()
        return False

    def end(self) -> None:
        """Let everything be logged again."""
        for one in self._loggers:
            one.removeFilter(self)


class CountedExporter(SpanExporter):
    """
    An exporter whose results are counted; called in the SDK's thread, its counts are read in the reactor's.

    @ivar exported: spans that were exported.
    @ivar failed: spans that could not be.
    @ivar failing: whether the last batch could not be exported.
    """

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._ended = False
        self.exported = self.failed = 0
        self.failing = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export a batch."""
        result = SpanExportResult.FAILURE
        try:
            result = self._exporter.export(spans)
        finally:
            self.failing = result is not SpanExportResult.SUCCESS
            if self.failing:
                self.failed += len(spans)
            else:
                self.exported += len(spans)
        return result

    def shutdown(self) -> None:
        """End the exporter: a batch that waits for another attempt is given up."""
        if not self._ended:
            self._ended = True
            self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Return whether nothing is kept in the exporter."""
        return self._exporter.force_flush(timeout_millis)


class OtelSpans:
    """
    The spans of one broker; see L{SpanSink<smartgo.broker.spans.sink.SpanSink>}.

    @ivar made: spans that were given to the SDK.
    @ivar skipped: bytes of log whose messages have no spans, as they were not looked at.
    """

    _log = Logger()

    def __init__(self, env: IEnvironment, exporter: SpanExporter, identity: Identity, words: str) -> None:
        """
        @param words: where spans are exported to, for the log.
        @raise SettingError: a variable of the SDK has a value that it refuses.
        """
        self._clock, self._threads = env.clock, env.threads
        self._words = words
        self._exporter = CountedExporter(exporter)
        self._broker_name = identity.name
        self._room = _queue_size(env.host.variable(_QUEUE_SIZE))
        self._reason = _Reason()
        try:
            processor = BatchSpanProcessor(self._exporter, max_queue_size=self._room)
        except ValueError as error:
            self._reason.end()
            raise SettingError(f"OpenTelemetry's variables cannot be used: {error}") from None
        self._provider = TracerProvider(resource=_resource(identity), shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer(_NAME)
        self._propagator = TraceContextTextMapPropagator()
        self._call: IDelayedCall | None = None
        self._failing = False
        self._dropped = 0
        self.made = self.skipped = 0

    @property
    def exported(self) -> int:
        """The number of spans that were exported."""
        return self._exporter.exported

    @property
    def lost(self) -> int:
        """The number of spans that could not be exported, or found no room."""
        return self._exporter.failed + self._dropped

    def stored(self, message: TracedMessage) -> None:
        """Make the span of a message that was stored, at the time of its record."""
        self._make("store", SpanKind.CONSUMER, message, message.stored_ms, {})

    def delivered(self, group: str, message: TracedMessage) -> None:
        """Make the span of a message that a consumer group gets now."""
        now_ms = self._clock.wall_ms()
        more: dict[str, AttributeValue] = {
            "messaging.consumer.group.name": group,
            "smartgo.message.redeliveries": message.redeliveries,
            "smartgo.message.waited_ms": max(0, now_ms - message.stored_ms),
        }
        self._make("deliver", SpanKind.INTERNAL, message, now_ms, more)

    def _make(
        self, operation: str, kind: SpanKind, message: TracedMessage, at_ms: int, more: Mapping[str, AttributeValue]
    ) -> None:
        if self.made - self._exporter.exported - self._exporter.failed >= self._room:
            self._dropped += 1
            return
        found = message.properties
        attributes: dict[str, AttributeValue] = {
            "messaging.system": "rocketmq",
            "messaging.operation.name": operation,
            "messaging.destination.name": message.topic,
            "messaging.destination.partition.id": f"{self._broker_name}:{message.queue_id}",
            "messaging.message.body.size": message.body_size,
            "smartgo.queue.offset": message.queue_offset,
            **more,
        }
        if properties.UNIQ_KEY in found:
            attributes["messaging.message.id"] = found[properties.UNIQ_KEY]
        if properties.TAGS in found:
            attributes["messaging.rocketmq.message.tag"] = found[properties.TAGS]
        if properties.KEYS in found:
            attributes["messaging.rocketmq.message.keys"] = properties.split_keys(found[properties.KEYS])
        parent = self._propagator.extract(found, Context())
        at_ns = at_ms * _NS
        span = self._tracer.start_span(f"{operation} {message.topic}", parent, kind, attributes, start_time=at_ns)
        if not span.is_recording():  # by the sampler
            return
        self.made += 1
        span.end(at_ns)
        if self._call is None:
            self._call = self._clock.callLater(LOOK, self._look)

    def _look(self) -> None:
        """Log the beginning and the end of failures."""
        self._call = None
        exporter = self._exporter
        if exporter.failing != self._failing:
            self._failing = exporter.failing
            if self._failing:
                self._log.warn(
                    "spans cannot be exported to {endpoint} and are lost: {reason}",
                    endpoint=self._words,
                    reason=self._reason.text or "no reason is known",
                )
            else:
                self._reason.text = ""
                self._log.info(
                    "spans are exported to {endpoint} again; {lost} were lost", endpoint=self._words, lost=self.lost
                )
        if self.made > exporter.exported + exporter.failed:
            self._call = self._clock.callLater(LOOK, self._look)

    def stop(self) -> Deferred[None]:
        """Export what is left; fires after L{STOP} seconds at the latest, and never fails."""
        waits: Deferred[None] = Deferred()
        timer = self._clock.callLater(STOP, waits.callback, None)

        def ended(_: object) -> None:
            if timer.active():
                timer.cancel()
                waits.callback(None)

        self._threads.run(_LANE, self._finish).addErrback(self._broke).addBoth(ended)
        return waits.addCallback(self._end)

    def _finish(self) -> None:
        """Export what is left, and end the SDK's thread; in the lane."""
        self._provider.force_flush()
        self._provider.shutdown()

    def _broke(self, failure: Failure) -> None:
        self._log.failure("the export of spans could not be ended", failure)

    def _end(self, _: None) -> None:
        self._exporter.shutdown()  # the lane may wait for another attempt
        if self._call is not None:
            self._call.cancel()
            self._look()
        if self._call is not None:
            self._call.cancel()
            self._call = None
        self._reason.end()


def otel_spans(env: IEnvironment, endpoint: str, identity: Identity) -> OtelSpans:
    """
    Return the spans of a broker, exported to a URL.

    @raise SettingError: a variable of the SDK has a value that it refuses.
    """
    try:
        exporter = OTLPSpanExporter(endpoint=endpoint)
    except (ValueError, OSError) as error:
        raise SettingError(f"OpenTelemetry's variables cannot be used: {error}") from None
    return OtelSpans(env, exporter, identity, endpoint)


def _queue_size(variable: str | None) -> int:
    return int(variable) if variable and variable.isdigit() and int(variable) else ROOM


def _resource(identity: Identity) -> Resource:
    """Return what spans tell of the broker; the variables of the SDK override it."""
    own: dict[str, AttributeValue] = {
        SERVICE_NAME: "smartgo-broker",
        SERVICE_INSTANCE_ID: f"{identity.name}:{identity.broker_id}",
        "smartgo.cluster": identity.cluster,
    }
    chosen = OTELResourceDetector().detect().attributes
    return Resource.create({name: value for name, value in own.items() if name not in chosen})
