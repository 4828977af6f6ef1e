"""Spans of sends, listener calls and pulls; their context in messages; export by OTLP."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from unittest import SkipTest
from unittest.mock import patch

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.resource import Resource
from twisted.web.server import Site

from smartgo.client.client import Client
from smartgo.client.consumer import PushConsumer
from smartgo.client.internal.events import observed
from smartgo.client.internal.tracing import events_of
from smartgo.client.listening import ConsumerSettings
from smartgo.client.messages import Message
from smartgo.client.producer import Producer
from smartgo.client.tracesettings import Tracing
from smartgo.errors import BadName, MessageIllegal, PeerRefused, SettingError
from smartgo.schema import properties
from smartgo.schema.bodies import MessageQueue
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.headers.send import SendRequest
from tests.client.doubles import ClusterTestCase, Storing, route
from tests.client.internal.test_tracewriter import message
from tests.client.test_cluster import FIRST, ClusterCase, coroutine

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider

HERE = find_spec("opentelemetry") is not None and find_spec("opentelemetry.sdk") is not None
WORDS = "the extra otel is not installed"
A = ("a", 10001)


class SpanCase(ClusterTestCase):
    """A client with spans, which go into memory."""

    def setUp(self) -> None:
        """Everything."""
        if not HERE:
            raise SkipTest(WORDS)
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        super().setUp()
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.routes["T"] = route(A, queues=1)
        self.node = Storing()
        self.listen(A[1], self.node)
        self.client_ = Client(self.env, "127.0.0.1:9876", instance="one", trace=Tracing(opentelemetry=self.provider))
        self.addCleanup(self.ended, self.client_)

    def producer(self) -> Producer:
        """A producer that has started."""
        producer = Producer(self.client_, "pg", retries=0)
        self.result(producer.start())
        return producer

    def spans(self) -> list[ReadableSpan]:
        """The spans that have ended."""
        return list(self.exporter.get_finished_spans())

    def sent(self) -> dict[str, str]:
        """The properties of the newest message that the broker got."""
        header = self.node.of(RequestCode.SEND_MESSAGE_V2)[-1].read(SendRequest)
        return properties.decode_text(header.properties or "")

    def attributes(self, span: ReadableSpan) -> dict[str, Any]:
        """The attributes of a span that differ from span to span."""
        found = dict(span.attributes or {})
        self.assertEqual(found.pop("messaging.system"), "rocketmq")
        self.assertEqual(found.pop("messaging.destination.name"), "T")
        self.assertEqual(found.pop("messaging.client.id"), self.client_.id)
        self.assertEqual(found.pop("messaging.rocketmq.namespace"), "")
        self.assertEqual(found.pop("messaging.operation.name"), span.name.split()[0])
        self.assertEqual(found.pop("messaging.operation.type"), span.name.split()[0])
        return found


class SendTests(SpanCase):
    """Sends."""

    def test_send(self) -> None:
        """A send has a span below the current one; its context is in the message's properties, with the baggage."""
        from opentelemetry import baggage, context
        from opentelemetry.trace import SpanKind

        tracer = self.provider.get_tracer("test")
        producer = self.producer()
        with tracer.start_as_current_span("request") as request:
            token = context.attach(baggage.set_baggage("customer", "7"))
            sending = producer.send(Message(topic="T", body=b"7 apples", tag="new", keys=["k1", "k2"]))
            context.detach(token)
        result = self.result(sending)
        span = next(one for one in self.spans() if one.name == "send T")
        self.assertEqual((span.kind, span.parent), (SpanKind.PRODUCER, request.get_span_context()))
        self.assertTrue(span.status.is_ok or span.status.is_unset)
        self.assertEqual(
            self.attributes(span),
            {
                "messaging.message.id": result.message_id,
                "messaging.message.body.size": 8,
                "messaging.rocketmq.message.tag": "new",
                "messaging.rocketmq.message.keys": ("k1", "k2"),
                "messaging.rocketmq.message.type": "normal",
                "messaging.destination.partition.id": "a:0",
                "server.address": "127.0.0.1",
                "server.port": 10001,
            },
        )
        found = self.sent()
        self.assertIn(f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-0", found["traceparent"])
        self.assertEqual(found["baggage"], "customer=7")

    def test_batch(self) -> None:
        """Each message of a batch has a span of its own, whose context it carries; the send links to them."""
        from opentelemetry.trace import SpanKind

        producer = self.producer()
        self.result(producer.send_batch([Message(topic="T", body=b"1"), Message(topic="T", body=b"2")]))
        first, second, send = self.spans()
        self.assertEqual([one.name for one in (first, second, send)], ["create T", "create T", "send T"])
        self.assertEqual((first.kind, send.kind), (SpanKind.PRODUCER, SpanKind.CLIENT))
        self.assertEqual([one.context for one in send.links], [first.context, second.context])
        self.assertEqual(self.attributes(send)["messaging.batch.message_count"], 2)
        body = bytes(self.node.of(RequestCode.SEND_BATCH_MESSAGE)[-1].body)
        for one in (first, second):
            self.assertIn(f"{one.context.trace_id:032x}-{one.context.span_id:016x}".encode(), body)

    def test_refused(self) -> None:
        """The span of a send that failed has its error, the broker's code if it refused; a send one way ends, too."""
        from opentelemetry.trace import StatusCode

        producer = self.producer()
        self.result(producer.send_one_way(Message(topic="T", body=b"1", delay_level=1)))
        self.node.code = int(ResponseCode.MESSAGE_ILLEGAL)
        refused = producer.send(Message(topic="T", body=b"1"))
        self.pass_time(0.5)
        self.failureResultOf(refused, PeerRefused)
        unknown = producer.send_to(Message(topic="T", body=b"1"), self.result(producer.queues("T"))[0])
        self.pass_time(0.5)
        self.failureResultOf(unknown, PeerRefused)
        one_way, first, second = self.spans()
        self.assertEqual(self.attributes(one_way)["messaging.rocketmq.message.type"], "delay")
        self.assertEqual(one_way.status.status_code, StatusCode.UNSET)
        for span in (first, second):
            self.assertEqual(span.status.status_code, StatusCode.ERROR)
            self.assertEqual(self.attributes(span)["error.type"], "13")

    def test_refused_here(self) -> None:
        """The span of a send ends with its error where the selector raises, or its context makes it illegal."""
        from opentelemetry.trace import StatusCode

        producer = self.producer()
        self.result(producer.queues("T"))

        def failing(queues: Sequence[MessageQueue], message: Message, argument: None) -> MessageQueue:
            raise ZeroDivisionError("the application's")

        self.failureResultOf(producer.send_by(Message(topic="T", body=b"1"), failing, None), ZeroDivisionError)
        long = Message(topic="T", body=b"1", properties={"long": "x" * (properties.SIZE_LIMIT - 80)})
        self.failureResultOf(producer.send(long), MessageIllegal)
        self.failureResultOf(producer.send_batch([long]), MessageIllegal)
        self.assertEqual(len(self.spans()), 4)  # that of the message in the batch ends with its creation
        found = [span for span in self.spans() if span.status.status_code is StatusCode.ERROR]
        kinds = [self.attributes(span)["error.type"] for span in found]
        self.assertEqual([kind.rpartition(".")[2] for kind in kinds], ["ZeroDivisionError", *["MessageIllegal"] * 2])
        bare = Client(self.env, "127.0.0.1:9876", instance="two")  # without spans the message is legal
        plain = Producer(bare, "pg")
        self.result(plain.start())
        self.result(plain.send(long))
        self.result(bare.stop(), 2.0)

    def test_own_context(self) -> None:
        """A context that the application put into the message stays, and what could not be sent is left out."""
        from opentelemetry import baggage, context

        producer = self.producer()
        own = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        self.result(producer.send(Message(topic="T", body=b"1", properties={"traceparent": own})))
        self.assertEqual(self.sent()["traceparent"], own)
        token = context.attach(baggage.set_baggage("b", "x" * 3000, baggage.set_baggage("a", "x" * 3000)))
        self.result(producer.send(Message(topic="T", body=b"1")))
        context.detach(token)
        self.assertNotIn("baggage", self.sent())
        self.assertIn("traceparent", self.sent())


class ConsumeTests(SpanCase):
    """Listener calls and pulls."""

    PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

    def call(self, listener: Any, *messages: Any) -> Any:
        """Call a listener that the client's listeners hear of; return what it returned."""
        return observed(listener, events_of(self.client_), "cg", self.env.clock, 60.0)(list(messages))

    def test_process(self) -> None:
        """A call with one message goes on with the message's trace and baggage, also behind an await."""
        from opentelemetry import baggage, trace
        from opentelemetry.trace import SpanKind

        waits: Deferred[None] = Deferred()
        seen: list[Any] = []

        async def listener(messages: Any) -> None:
            seen.append((trace.get_current_span().get_span_context().span_id, baggage.get_baggage("customer")))
            await waits
            seen.append((trace.get_current_span().get_span_context().span_id, baggage.get_baggage("customer")))

        found = {
            "traceparent": self.PARENT,
            "baggage": "customer=7",
            properties.UNIQ_KEY: "ID1",
            properties.TAGS: "new",
        }
        result = self.call(listener, message(properties=found))
        self.assertFalse(trace.get_current_span().get_span_context().is_valid)
        self.assertEqual(self.spans(), [])
        waits.callback(None)
        self.successResultOf(result)
        (span,) = self.spans()
        assert span.parent is not None
        self.assertEqual((span.name, span.kind), ("process T", SpanKind.CONSUMER))
        self.assertEqual(f"{span.context.trace_id:032x}-{span.parent.span_id:016x}", self.PARENT[3:-3])
        self.assertEqual(seen, [(span.context.span_id, "7")] * 2)
        self.assertEqual(
            self.attributes(span),
            {
                "messaging.consumer.group.name": "cg",
                "messaging.destination.partition.id": "a:0",
                "messaging.message.id": "ID1",
                "messaging.message.body.size": 4,
                "messaging.rocketmq.message.tag": "new",
                "smartgo.message.redeliveries": 2,
            },
        )

    def test_several(self) -> None:
        """A call with several messages links to their traces; one without a context, or a broken one, has no link."""
        known, broken = message(properties={"traceparent": self.PARENT}), message(properties={"traceparent": "00-zz"})
        self.call(lambda messages: None, known, message(), broken)
        (span,) = self.spans()
        (link,) = span.links
        self.assertIsNone(span.parent)
        self.assertEqual(f"{link.context.span_id:016x}", "b7ad6b7169203331")
        self.assertEqual(self.attributes(span)["messaging.batch.message_count"], 3)

    def test_failed(self) -> None:
        """The span of a call that failed has the error."""

        def fails(messages: Any) -> None:
            raise ValueError("broken")

        self.assertRaises(ValueError, self.call, fails, message())
        (span,) = self.spans()
        self.assertEqual(self.attributes(span)["error.type"], "ValueError")
        self.assertEqual(span.status.description, "broken")

    def test_receive(self) -> None:
        """A pull that brought messages has a span with links to them, whose time is the pull's."""
        one = message(properties={"traceparent": self.PARENT})
        events_of(self.client_).received("cg", one.queue, [one], 0.25)
        (span,) = self.spans()
        assert span.end_time is not None and span.start_time is not None
        self.assertEqual((span.name, len(span.links), span.end_time - span.start_time), ("receive T", 1, 250_000_000))
        self.assertEqual(self.attributes(span)["messaging.consumer.group.name"], "cg")


class SettingTests(SynchronousTestCase):
    """The client's setting."""

    def test_missing(self) -> None:
        """Without the packages the setting is refused by one sentence, and a client without it needs none of them."""
        from tests.fakes import FakeEnvironment

        with patch.dict(sys.modules, {"smartgo.client.internal.telemetry": None, "opentelemetry": None}):
            client = Client(FakeEnvironment(), "127.0.0.1:9876", trace=Tracing(opentelemetry=True))
            error = self.assertRaises(SettingError, Producer, client, "pg")
            self.assertIn("smartgo[otel]", str(error))
            self.assertFalse(events_of(Client(FakeEnvironment(), "127.0.0.1:9876")))

    def test_topic(self) -> None:
        """Message traces are set beside it; the topic's name follows the rules."""
        self.assertEqual((Tracing().topic, Tracing(messages=True).topic), ("", "RMQ_SYS_TRACE_TOPIC"))
        self.assertRaises(BadName, Tracing, messages="no good")


class _Receiver(Resource):
    """An OTLP/HTTP receiver, which keeps what it gets."""

    isLeaf = True

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[Any] = []

    def render_POST(self, request: Any) -> bytes:
        """Parse the request's protobuf."""
        import gzip

        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        body = request.content.read()
        if request.getHeader("content-encoding") == "gzip":
            body = gzip.decompress(body)
        self.requests.append((request.path, ExportTraceServiceRequest.FromString(body)))
        request.setHeader("content-type", "application/x-protobuf")
        return b""


class ReceiverCase(ClusterCase):
    """A node whose spans, and those of a client, go to an OTLP/HTTP receiver."""

    def setUp(self) -> Any:
        """A receiver on a free port, and a node that knows it."""
        if not HERE or find_spec("opentelemetry.exporter") is None:
            raise SkipTest(WORDS)
        self.receiver = _Receiver()
        port = self.reactor.listenTCP(0, Site(self.receiver), interface="127.0.0.1")
        self.addCleanup(port.stopListening)
        self.url = f"http://127.0.0.1:{port.getHost().port}"
        self.settings = {**self.settings, "otelEndpoint": self.url}  # type: ignore[misc]
        return super().setUp()


class ExportTests(ReceiverCase):
    """Spans over the network."""

    def _provider(self) -> TracerProvider:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource as OtelResource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        provider = TracerProvider(resource=OtelResource.create({"service.name": "shop"}))
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{self.url}/v1/traces")))
        return provider

    @coroutine
    async def test_export(self) -> None:
        """The send, the store, the delivery and the consumption of a message are one trace at a receiver of OTLP."""
        provider = self._provider()
        client = Client(self.env, self.node.registry, trace=Tracing(opentelemetry=provider))
        self.clients.append(client)
        producer = Producer(client, "shop")
        await producer.start()
        sent = await producer.send(Message(topic="T", body=b"7 apples"))
        seen: list[Any] = []
        consumer = PushConsumer(client, "billing", seen.extend, ConsumerSettings(begin=FIRST))
        consumer.subscribe("T")
        await consumer.start()
        await self.until(lambda: bool(seen))
        await client.stop()
        assert self.node.opened is not None
        spans: Any = self.node.opened.spans
        await self.until(lambda: spans.made == 2)
        await deferToThread(spans._provider.force_flush)
        await deferToThread(provider.shutdown)
        self.assertEqual({path for path, _ in self.receiver.requests}, {b"/v1/traces"})
        found: dict[str, Any] = {}
        services: dict[str, str] = {}
        for _, request in self.receiver.requests:
            for resource in request.resource_spans:
                (service,) = [one.value for one in resource.resource.attributes if one.key == "service.name"]
                for scope in resource.scope_spans:
                    for span in scope.spans:
                        found[span.name] = span
                        services[span.name] = service.string_value
        self.assertEqual(
            services,
            {"send T": "shop", "store T": "smartgo-broker", "deliver T": "smartgo-broker", "process T": "shop"},
        )
        send = found["send T"]
        self.assertEqual({one.trace_id for one in found.values()}, {send.trace_id})
        self.assertEqual({found[name].parent_span_id for name in services if name != "send T"}, {send.span_id})
        for span in found.values():
            attributes = {one.key: one.value for one in span.attributes}
            self.assertEqual(attributes["messaging.system"].string_value, "rocketmq")
            self.assertEqual(attributes["messaging.message.id"].string_value, sent.message_id)
            partition = attributes["messaging.destination.partition.id"].string_value
            self.assertEqual(partition, f"b:{sent.queue.queue_id}")
