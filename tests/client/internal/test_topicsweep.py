"""The search of a message in one topic after another: its order, its bounds, what fails."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from smartgo.client.internal.records import FoundMessage
from smartgo.client.internal.topicsweep import AT_ONCE, Swept, in_order, sweep
from smartgo.errors import CallTimedOut, PeerRefused
from smartgo.schema.codes import ResponseCode


class SweepTests(SynchronousTestCase):
    """Topics whose search is told."""

    def setUp(self) -> None:
        self.asked: list[str] = []
        self.errors: dict[str, Exception] = {}

    async def search(self, topic: str) -> list[FoundMessage]:
        """Find nothing, or fail."""
        self.asked.append(topic)
        if topic in self.errors:
            raise self.errors[topic]
        return []

    def sweep(self, topics: list[str]) -> Deferred[Swept]:
        """Search topics."""
        return Deferred.fromCoroutine(sweep(topics, self.search))

    def test_order(self) -> None:
        """Topics of applications come first, then those of retries, dead letters, and of the brokers."""
        names = ["%DLQ%g", "%RETRY%g", "SYSTEM", "b", "a"]
        self.assertEqual(in_order(names, ["SYSTEM"]), ["a", "b", "%RETRY%g", "%DLQ%g", "SYSTEM"])

    def test_all(self) -> None:
        """Where nothing is found, all are searched."""
        names = [f"t{number}" for number in range(2 * AT_ONCE + 1)]
        self.assertEqual(self.successResultOf(self.sweep(names)), Swept([], len(names), len(names)))
        self.assertEqual(self.asked, names)

    def test_declined(self) -> None:
        """A topic that its broker declines to search does not end the search of the others."""
        self.errors["b"] = PeerRefused(ResponseCode.NO_PERMISSION, "no")
        self.assertEqual(self.successResultOf(self.sweep(["a", "b", "c"])), Swept([], 3, 3))

    def test_silent(self) -> None:
        """A broker that does not answer ends it: what it has was not searched."""
        self.errors["b"] = CallTimedOut("a search", 3.0)
        self.failureResultOf(self.sweep(["a", "b", "c"]), CallTimedOut)
