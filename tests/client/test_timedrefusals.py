"""Refusals of timed messages and of recalls, in words."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.stages.timed import illegal
from smartgo.client.timedrefusals import late_recall_ms, limit_in_words
from smartgo.errors import CallFailed, PeerRefused
from smartgo.schema.recallhandle import RecallHandle

__doctests__ = ["smartgo.client.timedrefusals"]


class RefusalTests(SynchronousTestCase):
    def test_limit(self) -> None:
        """What a broker says of a delivery time that is too far ahead is told with the limit in its largest unit."""
        for seconds, words in ((40 * 86_400, "40 days"), (3600, "1 hour"), (90, "90 seconds"), (0.5, "500 millisec")):
            refusal = PeerRefused(13, str(illegal(seconds)))
            self.assertIn(f"up to {words}", limit_in_words(refusal) or "", seconds)
        self.assertIsNone(limit_in_words(PeerRefused(13, "the body is empty")))
        self.assertIsNone(limit_in_words(CallFailed("no answer")))

    def test_late(self) -> None:
        """A recall is late if the broker refuses it after the time in its handle, by our clock."""
        handle = RecallHandle("T", "broker-a", "5000", "00").format()
        refused = PeerRefused(604, "recall failed, timestamp invalid")
        self.assertEqual(late_recall_ms(refused, handle, 5000), 5000)
        self.assertIsNone(late_recall_ms(refused, handle, 4999))
        self.assertIsNone(late_recall_ms(refused, "nonsense", 5000))
        self.assertIsNone(late_recall_ms(PeerRefused(16, "forbidden"), handle, 5000))
