"""Tests of L{smartgo.spark.network.lag}."""

from __future__ import annotations

from types import SimpleNamespace

from twisted.trial.unittest import SynchronousTestCase

from smartgo.spark.network.lag import LagListener, offsets_behind_latest

SOURCE = {
    "endOffset": {"T": {"a:0": 10, "a:1": 5}},
    "latestOffset": '{"T": {"a:0": 30, "a:1": 5, "b:0": 7}, "S": {"a:0": 3}}',
}
LAG = {
    "minOffsetsBehindLatest": "0",
    "maxOffsetsBehindLatest": "20",
    "avgOffsetsBehindLatest": "10.0",
    "offsetsBehindLatest": "20",
}


class LagTests(SynchronousTestCase):
    def test_report(self) -> None:
        """The lag is the difference of two offsets in the report, whatever form Spark gives it in."""
        self.assertEqual(offsets_behind_latest(SOURCE), LAG)
        self.assertEqual(offsets_behind_latest({"sources": [SOURCE]}), LAG)
        self.assertEqual(offsets_behind_latest(SimpleNamespace(sources=[SimpleNamespace(**SOURCE)])), LAG)

    def test_others(self) -> None:
        """Sources that are not over topics have no lag here."""
        files = {"endOffset": {"/store": 10}, "latestOffset": {"/store": 30}}
        kafka = {"endOffset": None, "latestOffset": "5"}
        self.assertEqual(offsets_behind_latest({"sources": [files, kafka, SOURCE]}), LAG)
        self.assertEqual(offsets_behind_latest({"sources": [files, kafka]}), {})

    def test_listener(self) -> None:
        """A listener keeps the lag of each query until the query ends."""
        listener = LagListener()
        progress = SimpleNamespace(id="q", name=None, sources=[SimpleNamespace(**SOURCE)])
        listener.onQueryStarted(SimpleNamespace(id="q"))  # type: ignore[arg-type]
        listener.onQueryProgress(SimpleNamespace(progress=progress))  # type: ignore[arg-type]
        listener.onQueryIdle(SimpleNamespace(id="q"))  # type: ignore[arg-type]
        self.assertEqual(listener.lag, {"q": LAG})
        listener.onQueryTerminated(SimpleNamespace(id="q"))  # type: ignore[arg-type]
        self.assertEqual(listener.lag, {})
