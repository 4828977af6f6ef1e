"""The spans of a broker: what they say, and what becomes of them when they cannot be exported."""

from __future__ import annotations

import logging
import os
from importlib.util import find_spec
from threading import Event
from typing import TYPE_CHECKING, Any
from unittest import SkipTest
from unittest.mock import patch

from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.cluster.registration import Identity
from smartgo.errors import SettingError
from tests.broker.fakecluster import BROKER, Cluster, pull_command
from tests.broker.spans.test_tracedmessages import SAMPLED, TRACE, UNSAMPLED, record
from tests.fakes import FakeEnvironment

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

    from smartgo.broker.spans.otelspans import OtelSpans

HERE = find_spec("opentelemetry") is not None and find_spec("opentelemetry.sdk") is not None
WORDS = "the extra otel is not installed"
IDENTITY = Identity("DefaultCluster", "broker-a", 0, "127.0.0.1:10911", "127.0.0.1:10912")


class BrokerTests(SynchronousTestCase):
    """A broker whose spans go into memory."""

    def setUp(self) -> None:
        """Put an exporter in the place of the one for OTLP."""
        if not HERE:
            raise SkipTest(WORDS)
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        from smartgo.broker.spans import otelspans

        self.memory = InMemorySpanExporter()
        self.endpoints: list[str] = []

        def exporter(endpoint: str) -> Any:
            self.endpoints.append(endpoint)
            return self.memory

        self.patch(otelspans, "OTLPSpanExporter", exporter)
        self.cluster = Cluster(otelEndpoint="http://127.0.0.1:4318")

    def ended(self) -> list[ReadableSpan]:
        """Stop the broker; return its spans, in the order of their ends."""
        self.cluster.stop()
        self.assertEqual(self.cluster.env.clock.getDelayedCalls(), [])
        self.assertEqual(self.cluster.env.files.mappings, [])
        return list(self.memory.get_finished_spans())

    def test_spans(self) -> None:
        """A sampled message has a span when it was stored and one for each group that got it; others have none."""
        from opentelemetry.trace import SpanKind

        cluster = self.cluster
        found = {"UNIQ_KEY": "ID1", "TAGS": "new", "KEYS": "k1 k2", "traceparent": SAMPLED, "tracestate": "a=b"}
        stored_ms = cluster.env.clock.wall_ms()
        cluster.send("T", b"7 apples", properties=found)
        cluster.send("T", properties={"UNIQ_KEY": "ID2", "traceparent": UNSAMPLED})
        cluster.send("T")
        cluster.pump(0.2)
        cluster.pull("T", consumer_group="billing")
        cluster.pull("T", consumer_group="TOOLS_CONSUMER")
        cluster.pull("T", consumer_group="later", queue_offset=1)
        store, deliver = self.ended()
        self.assertEqual(self.endpoints, ["http://127.0.0.1:4318/v1/traces"])
        self.assertEqual([store.name, deliver.name], ["store T", "deliver T"])
        self.assertEqual([store.kind, deliver.kind], [SpanKind.CONSUMER, SpanKind.INTERNAL])
        for span in (store, deliver):
            assert span.parent is not None
            self.assertEqual(f"00-{span.context.trace_id:032x}-{span.parent.span_id:016x}-01", SAMPLED)
            self.assertEqual(span.context.trace_state.get("a"), "b")
        common = {
            "messaging.system": "rocketmq",
            "messaging.destination.name": "T",
            "messaging.destination.partition.id": "broker-a:0",
            "messaging.message.body.size": 8,
            "messaging.message.id": "ID1",
            "messaging.rocketmq.message.tag": "new",
            "messaging.rocketmq.message.keys": ("k1", "k2"),
            "smartgo.queue.offset": 0,
        }
        self.assertEqual(dict(store.attributes or {}), {**common, "messaging.operation.name": "store"})
        self.assertEqual(
            dict(deliver.attributes or {}),
            {
                **common,
                "messaging.operation.name": "deliver",
                "messaging.consumer.group.name": "billing",
                "smartgo.message.redeliveries": 0,
                "smartgo.message.waited_ms": 200,
            },
        )
        self.assertEqual([store.start_time, store.end_time], [stored_ms * 1_000_000] * 2)
        self.assertEqual(deliver.start_time, (stored_ms + 200) * 1_000_000)
        resource = store.resource.attributes
        self.assertEqual(resource["service.name"], "smartgo-broker")
        self.assertEqual(resource["service.instance.id"], "broker-a:0")

    def test_held(self) -> None:
        """A pull that was held until the message came has its span, too."""
        cluster = self.cluster
        cluster.send("T")
        answers: list[Any] = []
        held = pull_command("T", offset=1, consumer_group="billing", sys_flag=6)
        cluster.client.ask(BROKER, held, 60.0).addBoth(answers.append)
        cluster.pump(0.2)
        self.assertEqual(answers, [])
        cluster.send("T", properties={"traceparent": SAMPLED})
        cluster.pump(0.2)
        self.assertEqual(answers[0].code, 0)
        self.assertEqual({one.name for one in self.ended()}, {"store T", "deliver T"})

    def test_metrics(self) -> None:
        """The metrics count the spans that were exported and lost."""
        from prometheus_client import generate_latest

        from smartgo.ops.figures.metrics import metrics_of

        self.cluster.send("T", properties={"traceparent": SAMPLED})
        self.ended()
        text = generate_latest(metrics_of(self.cluster.env, self.cluster.service)).decode()
        for name, value in (("exported_total", 1), ("lost_total", 0), ("skipped_bytes_total", 0)):
            (line,) = [one for one in text.splitlines() if one.startswith(f"smartgo_spans_{name}{{")]
            self.assertEqual(float(line.split()[-1]), value, line)

    def test_stop(self) -> None:
        """A stop does not wait longer than two seconds for the export."""
        cluster = self.cluster
        cluster.env.threads.held.add("spans")
        cluster.send("T", properties={"traceparent": SAMPLED})
        spans: Any = cluster.broker.spans
        done: list[object] = []
        spans.stop().addBoth(done.append)
        cluster.pump(1.9)
        self.assertEqual(done, [])
        cluster.pump(0.2)
        self.assertEqual(done, [None])
        cluster.env.threads.held.clear()
        cluster.env.threads.release("spans")
        cluster.stop()


class ExportTests(SynchronousTestCase):
    """An exporter that fails, or takes its time."""

    def setUp(self) -> None:
        """An exporter that does as told."""
        if not HERE:
            raise SkipTest(WORDS)
        from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

        class Exporter(SpanExporter):
            """Fails or waits as told."""

            fails = False
            ended = 0

            def __init__(self) -> None:
                self.go_on = Event()
                self.go_on.set()

            def export(self, spans: Any) -> SpanExportResult:
                """Wait, then fail or not."""
                self.go_on.wait(60)
                return SpanExportResult.FAILURE if self.fails else SpanExportResult.SUCCESS

            def shutdown(self) -> None:
                """Count."""
                self.ended += 1

        self.env = FakeEnvironment()
        self.exporter = Exporter()
        self.results = SpanExportResult

    def spans(self) -> OtelSpans:
        """Spans that go to this exporter."""
        from smartgo.broker.spans.otelspans import OtelSpans

        return OtelSpans(self.env, self.exporter, IDENTITY, "http://collector")

    def store(self, spans: OtelSpans, count: int = 1) -> None:
        """Have spans made."""
        from smartgo.broker.spans.tracedmessages import traced_messages

        data = record(0, traceparent=SAMPLED)
        (message,) = traced_messages(data, [0], len(data))
        self.assertIn(TRACE, message.properties["traceparent"])
        for _ in range(count):
            spans.stored(message)

    def test_failing(self) -> None:
        """Spans that cannot be exported are counted; the log tells once that they are lost, and once that it works."""
        from smartgo.broker.spans import otelspans

        spans = self.spans()
        self.exporter.fails = True
        with capturedLogs() as events:
            for _ in range(3):
                self.store(spans)
                logging.getLogger("opentelemetry.sdk.trace.export").error("no collector at port %d", 4318)
                spans._provider.force_flush()
                self.env.clock.advance(otelspans.LOOK)
            self.assertEqual((spans.exported, spans.lost), (0, 3))
            self.exporter.fails = False
            self.store(spans)
            spans._provider.force_flush()
            self.env.clock.advance(otelspans.LOOK)
        told = [(one["log_level"].name, one["log_format"].format(**one)) for one in events]
        self.assertEqual(
            told,
            [
                ("warn", "spans cannot be exported to http://collector and are lost: no collector at port 4318"),
                ("info", "spans are exported to http://collector again; 3 were lost"),
            ],
        )
        self.assertEqual((spans.exported, spans.lost), (1, 3))
        self.successResultOf(spans.stop())
        self.assertEqual(self.exporter.ended, 1)
        self.assertEqual(self.env.clock.getDelayedCalls(), [])

    def test_room(self) -> None:
        """While an export takes its time, a limited number of spans waits; further ones are counted as lost."""
        self.env.host.variables["OTEL_BSP_MAX_QUEUE_SIZE"] = "600"
        spans = self.spans()
        self.exporter.go_on.clear()
        self.store(spans, 601)
        self.assertEqual((spans.made, spans.lost), (600, 1))
        self.exporter.go_on.set()
        spans._provider.force_flush()
        self.assertEqual((spans.exported, spans.lost), (600, 1))
        self.store(spans)
        self.successResultOf(spans.stop())
        self.assertEqual((spans.exported, spans.lost), (601, 1))

    def test_sampler(self) -> None:
        """The SDK's sampler may leave messages out."""
        from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

        spans = self.spans()
        spans._provider.sampler = ALWAYS_OFF
        spans._tracer = spans._provider.get_tracer("other")
        self.store(spans)
        self.assertEqual((spans.made, spans.lost), (0, 0))
        self.successResultOf(spans.stop())

    def test_variables(self) -> None:
        """Variables of the SDK override the broker's name; a value that the SDK refuses is a mistake in a setting."""
        spans = self.spans()
        with patch.dict(os.environ, {"OTEL_SERVICE_NAME": "mine", "OTEL_RESOURCE_ATTRIBUTES": "a=b"}):
            own = self.spans()
        self.assertEqual(spans._provider.resource.attributes["service.name"], "smartgo-broker")
        found = own._provider.resource.attributes
        self.assertEqual((found["service.name"], found["a"], found["smartgo.cluster"]), ("mine", "b", "DefaultCluster"))
        for one in (spans, own):
            self.successResultOf(one.stop())
        self.env.host.variables["OTEL_BSP_MAX_QUEUE_SIZE"] = "1"
        self.assertRaises(SettingError, self.spans)
