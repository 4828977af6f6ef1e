"""Streams of figures, and the bounds of streams."""

from __future__ import annotations

from typing import Any, cast

import msgspec
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from smartgo.ops.resources.figures import FiguresSource
from smartgo.ops.web.streams import QUEUE, SHARE, STREAMS, STUCK_SECONDS, EventStream, IStreamSource
from tests.fakes import FakeEnvironment
from tests.ops.front import HOST, Front, Line, parsed


def events(line: Line) -> list[tuple[str, Any]]:
    """The events that a client has heard."""
    found = []
    for part in parsed(line.received).content.decode().split("\n\n"):
        fields = dict(one.split(": ", 1) for one in part.split("\n") if ": " in one and not one.startswith(":"))
        if "event" in fields:
            found.append((fields["event"], msgspec.json.decode(fields["data"])))
    return found


class EventsTests(SynchronousTestCase):
    """Figures as they come."""

    def setUp(self) -> None:
        self.front = Front()
        self.addCleanup(self.front.stop)

    def listen(self, query: str = "", headers: str = "") -> Line:
        """Open a stream."""
        line = self.front.connect()
        request = f"GET /api/v1/events{query} HTTP/1.1\r\nHost: {HOST}\r\n{headers}\r\n"
        cast("Any", line.transport).write(request.encode())
        self.front.cluster.pump()
        return line

    def test_cluster(self) -> None:
        """Each second what all brokers do."""
        line = self.listen()
        self.front.cluster.pump(5.05)
        found = [data for kind, data in events(line) if kind == "cluster"]
        self.assertGreaterEqual(len(found), 5)
        self.assertLessEqual(len(found), 7)
        self.assertEqual(found[0]["brokers"][0]["name"], "broker-a")
        self.assertTrue(found[0]["brokers"][0]["up"])
        headers = parsed(line.received).headers
        self.assertEqual((headers["content-type"], headers["cache-control"]), ("text/event-stream", "no-store"))

    def test_asked(self) -> None:
        """Topics and groups that were asked for are told of, others not."""
        self.front.cluster.send("Orders")
        self.front.cluster.heartbeat("audit", "Orders")
        line = self.listen("?topic=Orders&topic=Nothing&group=audit")
        self.front.cluster.pump(40.0, 1.0)
        found = dict(events(line))
        self.assertEqual([one["name"] for one in found["topics"]], ["Orders", "Nothing"])
        self.assertEqual([one["name"] for one in found["groups"]], ["audit"])
        self.assertEqual(found["groups"][0]["progress"]["lag"], 0)

    def test_bounds(self) -> None:
        """Sixteen topics can be asked for, and no more; names must be names."""
        many = "&".join(f"topic=T{number}" for number in range(17))
        self.assertEqual(self.front.ask("GET", f"/events?{many}").status, 400)
        self.assertEqual(self.front.ask("GET", "/events?topic=a%2Fb").status, 400)

    def test_left(self) -> None:
        """Nobody is told who has gone; looks become rare again."""
        line = self.listen()
        self.front.cluster.pump(2.0)
        cast("Any", line.transport).loseConnection()
        self.front.cluster.pump()
        self.assertEqual(self.front.ops.sampler._listeners, [])
        self.assertEqual(len(self.front.ops.streams), 0)

    def test_not_counted(self) -> None:
        """Streams do not take the place of requests; one asker has a quarter of them at most, as do others then."""
        self.assertEqual(STREAMS // SHARE, 16)
        for _ in range(STREAMS // SHARE):
            self.listen()
        self.assertEqual(self.front.ops.site.busy, 0)
        answer = self.front.ask("GET", "/events")
        self.assertEqual((answer.status, answer.code), (503, "too-many-streams"))
        self.assertIn("you have more", answer.json["detail"])
        self.assertEqual(self.front.ask("GET", "/health").status, 200)
        boss = self.front.admin()
        head = self.front.ask("HEAD", "/events", token=boss)
        self.assertEqual(head.status, 200)
        streams = self.front.ops.streams
        for number in range(STREAMS - STREAMS // SHARE):
            streams._streams[cast("Any", object())] = f"somebody {number}"
        answer = self.front.ask("GET", "/events", token=boss)
        self.assertEqual((answer.status, answer.code), (503, "too-many-streams"))
        self.assertIn("more than 64", answer.json["detail"])
        streams._streams.clear()

    def test_head(self) -> None:
        """HEAD gives the head, and no stream."""
        answer = self.front.ask("HEAD", "/events")
        self.assertEqual((answer.status, answer.content, len(self.front.ops.streams)), (200, b"", 0))

    def test_stop(self) -> None:
        """A stop ends streams that are open."""
        line = self.listen()
        self.front.ops.streams.stop()
        self.front.cluster.pump()
        self.assertTrue(line.closed)

    def test_let_out(self) -> None:
        """A stream ends within 15 s after the session or the token that it was asked for with."""
        ops = self.front.ops
        self.listen()
        boss = self.front.admin()
        session = self.front.ask("POST", "/session", {"token": boss}).headers["set-cookie"].split(";")[0]
        self.listen(headers=f"Cookie: {session}\r\n")
        self.listen(headers=f"Authorization: Bearer {boss}\r\n")
        self.assertEqual(len(ops.streams), 3)
        self.front.cluster.pump(16.0, 1.0)
        self.assertEqual(len(ops.streams), 2)  # nobody gets in without a token any more
        cookie = {"Cookie": session}
        csrf = {"X-CSRF-Token": self.front.get("/session", headers=cookie)["csrfToken"]}
        self.assertEqual(self.front.ask("DELETE", "/session", headers=cookie | csrf).status, 204)
        self.front.cluster.pump(16.0, 1.0)
        self.assertEqual(len(ops.streams), 1)
        self.assertEqual(self.front.ask("DELETE", "/tokens/boss", token=boss).status, 204)
        self.front.cluster.pump(16.0, 1.0)
        self.assertEqual(len(ops.streams), 0)

    def test_heartbeat(self) -> None:
        """A stream that has nothing to say says so every 15 s, so that proxies leave it alone."""
        self.front.ops.sampler.history.add("cluster", 1, ("a",), (1.0,))
        line = self.listen()
        self.front.cluster.pump(16.0, 1.0)
        self.assertIn(b"\n: \n\n", line.received.replace(b"\r\n", b"\n"))


class FakeRequest:
    """As much of a request as a stream uses."""

    def __init__(self) -> None:
        from twisted.internet.defer import Deferred

        self.over: Any = Deferred()
        self.written: list[bytes] = []
        self.producer: Any = None
        self.finished = False
        self.aborted = False
        self.transport = self

    def setHeader(self, name: bytes, value: bytes) -> None:
        """Ignored."""

    def notifyFinish(self) -> Any:
        """Fires at the end."""
        return self.over

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """Keep it."""
        self.producer = producer

    def unregisterProducer(self) -> None:
        """Forget it."""
        self.producer = None

    def write(self, data: bytes) -> None:
        """Keep it."""
        self.written.append(data)

    def finish(self) -> None:
        """End."""
        self.finished = True
        self.over.callback(None)

    def abortConnection(self) -> None:
        """Cut."""
        self.aborted = True
        self.over.callback(None)


class Source:
    """A source that remembers."""

    def __init__(self) -> None:
        self.stream: EventStream | None = None
        self.stops = 0

    def started(self, stream: EventStream) -> None:
        """Keep it."""
        self.stream = stream

    def stopped(self) -> None:
        """Count."""
        self.stops += 1


class StreamTests(SynchronousTestCase):
    """One stream to a client that is slow."""

    def setUp(self) -> None:
        self.env = FakeEnvironment()
        self.request = FakeRequest()
        self.source = Source()
        self.ended: list[EventStream] = []
        self.stream = EventStream(
            self.env.clock, cast("Any", self.request), self.source, self.ended.append, lambda: True
        )
        self.stream.begin()

    def test_interface(self) -> None:
        """The source of figures is one."""
        verifyObject(IStreamSource, FiguresSource(cast("Any", None), (), ()))

    def test_slow(self) -> None:
        """Who reads slowly loses the oldest events, and hears how many."""
        self.stream.pauseProducing()
        before = len(self.request.written)
        for number in range(QUEUE + 5):
            self.stream.send("n", number)
        self.assertEqual(len(self.request.written), before)
        self.stream.resumeProducing()
        self.assertEqual(self.request.written[before], b'event: dropped\ndata: {"count":5}\n\n')
        self.assertEqual(len(self.request.written), before + 1 + QUEUE)
        self.assertIn(b"data: 5\n", self.request.written[before + 1])

    def test_stuck(self) -> None:
        """Who reads nothing is cut, and nothing is left of it."""
        self.stream.pauseProducing()
        self.env.clock.advance(STUCK_SECONDS + 1)
        self.assertTrue(self.request.aborted)
        self.assertEqual((self.source.stops, self.ended), (1, [self.stream]))
        self.assertEqual(self.env.clock.getDelayedCalls(), [])

    def test_lifetime(self) -> None:
        """A stream ends after an hour, so that whoever is no longer let in hears no more."""
        self.env.clock.pump([10.0] * 368)
        self.assertTrue(self.request.finished)
        self.assertEqual((self.source.stops, self.env.clock.getDelayedCalls()), (1, []))

    def test_end(self) -> None:
        """A source can end its stream; what comes later is dropped."""
        self.stream.end()
        self.stream.send("n", 1)
        self.assertTrue(self.request.finished)
        self.assertEqual(self.env.clock.getDelayedCalls(), [])
