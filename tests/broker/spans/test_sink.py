"""Tests of L{smartgo.broker.spans.sink}."""

from __future__ import annotations

import sys
from unittest.mock import patch

from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.spans.pullreads import pull_reads
from smartgo.broker.spans.sink import check_spans, span_sink, traces_endpoint
from smartgo.errors import SettingError
from tests.broker.doubles import configured
from tests.broker.fakecluster import ClusterCase
from tests.fakes import FakeEnvironment

ENDPOINT = "http://127.0.0.1:4318"


class SettingTests(SynchronousTestCase):
    """The setting."""

    def test_endpoint(self) -> None:
        """An endpoint without a path gets OTLP's; any other is taken as it is."""
        for setting in (ENDPOINT, f"{ENDPOINT}/"):
            self.assertEqual(traces_endpoint(setting), f"{ENDPOINT}/v1/traces")
        for setting in (f"{ENDPOINT}/otlp/v1/traces", "https://example.com/x?y=z"):
            self.assertEqual(traces_endpoint(setting), setting)

    def test_missing(self) -> None:
        """Without the packages the setting is refused by one sentence; without the setting none is needed."""
        with patch.dict(sys.modules, {"smartgo.broker.spans.otelspans": None}):
            error = self.assertRaises(SettingError, check_spans, configured(otel_endpoint=ENDPOINT))
            self.assertIn("otelEndpoint needs more packages: pip install 'smartgo[otel]'", str(error))
            check_spans(configured())


class OffTests(ClusterCase):
    """A broker without the setting."""

    def test_off(self) -> None:
        """Nothing reads the log, pulls call the store's own functions, and nothing of OpenTelemetry is loaded."""
        broker = self.cluster.broker
        self.assertEqual((broker.spans, broker.stored_spans), (None, None))
        self.assertEqual(tuple(pull_reads(broker)), (broker.store.read, broker.store.read_cold, broker.stats.found))
        with patch.dict(sys.modules, {"smartgo.broker.spans.otelspans": None}):
            self.assertIsNone(span_sink(FakeEnvironment(), configured(), broker.identity))
