"""The problem of each error (reliability L22)."""

from __future__ import annotations

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import CallTimedOut, NotConnected, PeerRefused, TopicNotExist
from smartgo.ops.problems import problem_of


class ProblemTests(SynchronousTestCase):
    """The problem of each error."""

    def test_mapping(self) -> None:
        """Refusals of brokers, silence and wrong names have codes of their own."""
        for error, status, code in (
            (PeerRefused(17, "no topic"), 404, "topic-not-exist"),
            (PeerRefused(26, "no group"), 404, "subscription-group-not-exist"),
            (PeerRefused(16, "no"), 403, "no-permission"),
            (PeerRefused(2, "busy"), 503, "system-busy"),
            (PeerRefused(1, "whatever"), 409, "system-error"),
            (PeerRefused(7777, "whatever"), 409, "conflict"),
            (TopicNotExist("no topic"), 404, "topic-not-exist"),
            (CallTimedOut("a call", 3.0), 504, "gateway-timeout"),
            (NotConnected("nobody there"), 502, "bad-gateway"),
        ):
            problem = problem_of(error)
            assert problem is not None
            self.assertEqual((problem.status, problem.code), (status, code), error)
        self.assertIsNone(problem_of(RuntimeError()))

    def test_text(self) -> None:
        """Words of peers are cut, and stay on one line."""
        problem = problem_of(PeerRefused(1, "a\r\nb" + "c" * 10_000))
        assert problem is not None
        detail = msgspec.json.decode(problem.body("1"))["detail"]
        self.assertTrue(detail.startswith("a  b"))
        self.assertLessEqual(len(detail), 512)
