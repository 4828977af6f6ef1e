"""Live tails, and pieces of queues."""

from __future__ import annotations

from typing import Any, cast

from twisted.internet.defer import Deferred, fail
from zope.interface.verify import verifyObject

from smartgo.errors import NotConnected, PeerRefused
from smartgo.ops.reading.inflating import Inflater
from smartgo.ops.reading.matching import Filter, FilterTerms
from smartgo.ops.reading.queuereader import ClusterQueueReader
from smartgo.ops.resources import tail
from smartgo.ops.resources.tail import QUEUES, SECONDS, SHARE, TAILS, LiveTail, TailQuery
from smartgo.ops.web.streams import IStreamSource
from smartgo.remoting.client import RemotingClient
from smartgo.schema.bodies import MessageQueue
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from tests.broker.fakecluster import BROKER, send_command
from tests.ops.front import HOST, Line, parsed
from tests.ops.resources.test_figures import events
from tests.ops.resources.test_messages import MessageCase


class PeekTests(MessageCase):
    """Pieces of queues."""

    def peek(self, query: str = "") -> tuple[list[int], Any]:
        """The offsets of a piece of queue 0, and all of it."""
        page = self.get(f"/messages/peek?topic=Orders&broker=broker-a&queueId=0{query}")
        return [one["queueOffset"] for one in page["items"]], page

    def test_pages(self) -> None:
        """A queue is shown piece by piece, forwards and backwards; by default from its end."""
        for number in range(4, 14, 2):
            self.send(number % 10)
        self.cluster.pump(1.0)
        found, page = self.peek("&count=3")
        self.assertEqual((found, page["minimum"], page["maximum"]), ([4, 5, 6], 0, 7))
        self.assertEqual((page["nextOffset"], page["previousOffset"]), (None, 1))
        found, page = self.peek("&count=3&offset=1")
        self.assertEqual((found, page["nextOffset"], page["previousOffset"]), ([1, 2, 3], 4, 0))
        self.assertEqual(self.peek("&offset=99")[0], [])
        self.assertEqual(self.peek("&count=64&offset=0")[0], list(range(7)))

    def test_refused(self) -> None:
        """More than 64 at once, or a queue that is not there, cannot be looked at."""
        place = "/messages/peek?topic=Orders&broker=broker-a"
        self.assertEqual(self.order("GET", f"{place}&queueId=0&count=65")[0], 400)
        self.assertEqual(self.order("GET", f"{place}&queueId=2")[1]["code"], "queue-not-found")
        self.assertEqual(self.order("GET", f"{place}&queueId=0".replace("-a", "-x"))[1]["code"], "queue-not-found")


class TailTests(MessageCase):
    """Messages as they come."""

    def listen(self, query: str = "") -> Line:
        """Open a tail of Orders."""
        line = self.front.connect()
        head = f"GET /api/v1/tail?topic=Orders{query} HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {self.token}"
        cast("Any", line.transport).write(f"{head}\r\n\r\n".encode())
        self.cluster.pump(0.5)
        return line

    def numbers(self, line: Line) -> list[int]:
        """The numbers of the messages that were sent, in order."""
        return [int(data["messageId"][-1]) for kind, data in events(line) if kind == "message"]

    def test_follows(self) -> None:
        """What comes after the tail began is sent, of all queues, and no group has a position for it."""
        line = self.listen()
        for number in (4, 5, 6):
            self.send(number)
        self.cluster.pump(1.0)
        self.assertEqual(self.numbers(line), [4, 5, 6])
        self.assertEqual(events(line)[0], ("begun", {"topic": "Orders", "queues": 2}))
        self.assertEqual(parsed(line.received).headers["content-type"], "text/event-stream")
        self.cluster.pump(30.0)
        self.send(7)
        self.cluster.pump(1.0)
        self.assertEqual(self.numbers(line), [4, 5, 6, 7])
        self.assertEqual(self.get("/topics/Orders/groups")["items"], [])

    def test_filters(self) -> None:
        """Tag, key, body, queue and the last few narrow and widen what is sent."""
        self.patch(tail, "SHARE", TAILS)
        tag, key, body = self.listen("&tag=odd"), self.listen("&key=order-4"), self.listen("&body=%3A+5")
        queue, last = self.listen("&queueId=1&broker=broker-a"), self.listen("&last=1")
        for number in (4, 5, 6):
            self.send(number)
        self.cluster.pump(1.0)
        self.assertEqual(list(map(self.numbers, (tag, key, body, queue))), [[5], [4], [5], [5]])
        self.assertEqual(sorted(self.numbers(last)), [2, 3, 4, 5, 6])

    def test_count(self) -> None:
        """A tail ends, in order, after so many messages, or after an hour."""
        line = self.listen("&last=2&count=3")
        self.assertEqual((len(self.numbers(line)), events(line)[-1]), (3, ("ended", {"why": "count", "detail": None})))
        other = self.listen()
        self.cluster.pump(SECONDS + 20, 10.0)
        self.assertEqual(events(other)[-1], ("ended", {"why": "time", "detail": None}))
        self.assertEqual(len(self.front.ops.streams), 0)

    def test_rate(self) -> None:
        """What comes faster than the tail may send is left out and counted, and what comes later is sent again."""
        line = self.listen("&rate=2&queueId=0")
        for _ in range(100):
            self.cluster.send("Orders", b"x", 0)
        self.cluster.pump(4.0)
        shown = sum(kind == "message" for kind, _ in events(line))
        skipped = sum(data["count"] for kind, data in events(line) if kind == "skipped")
        self.assertLessEqual(shown, 10)
        self.assertGreaterEqual(shown, 2)
        self.cluster.pump(60.0)
        shown = sum(kind == "message" for kind, _ in events(line))
        skipped = sum(data["count"] for kind, data in events(line) if kind == "skipped")
        self.assertEqual(shown + skipped, 100)
        self.send(8)
        self.cluster.pump(1.0)
        self.assertEqual(events(line)[-1][1]["messageId"][-1], "8")

    def test_sight(self) -> None:
        """What comes faster than a tail may look at is left out and counted, though its filter lets none of it in."""
        self.patch(tail, "LOOKED_AT", 40)
        line = self.listen("&key=order-8&queueId=0")
        for _ in range(200):
            self.cluster.client.ask(BROKER, send_command("Orders", b"x", 0), 3.0)
        self.cluster.pump(10.0)
        skipped = sum(data["count"] for kind, data in events(line) if kind == "skipped")
        self.assertGreater(skipped, 50)
        self.assertLess(skipped, 200)
        self.send(8)
        self.cluster.pump(2.0)
        self.assertEqual(self.numbers(line), [8])

    def test_left(self) -> None:
        """Where the client goes, nothing of its tail is left."""
        line = self.listen()
        before = len(self.front.env.clock.getDelayedCalls())
        cast("Any", line.transport).loseConnection()
        self.cluster.pump()
        self.assertLess(len(self.front.env.clock.getDelayedCalls()), before)
        self.assertEqual(len(self.front.ops.streams), 0)
        asked: list[Command] = []
        remoting = self.front.ops.client.remoting

        def ask(address: str, command: Command, *more: Any) -> Deferred[Command]:
            asked.append(command)
            return RemotingClient.ask(remoting, address, command, *more)

        self.patch(remoting, "ask", ask)
        self.send(4)
        self.cluster.pump(30.0)
        self.assertNotIn(RequestCode.PULL_MESSAGE, [one.code for one in asked])

    def test_trouble(self) -> None:
        """A broker that does not answer is told of and asked again; one that declines ends the tail."""
        remoting = self.front.ops.client.remoting
        failure: Any = NotConnected("nobody there")

        def ask(address: str, command: Command, *more: Any) -> Deferred[Command]:
            if command.code == RequestCode.PULL_MESSAGE and failure is not None:
                return fail(failure)
            return RemotingClient.ask(remoting, address, command, *more)

        self.patch(remoting, "ask", ask)
        line = self.listen("&queueId=0")
        self.assertEqual(events(line)[-1], ("trouble", {"broker": "broker-a", "error": "nobody there"}))
        failure = None
        self.cluster.pump(1.0)
        self.send(4)
        self.cluster.pump(1.0)
        self.assertEqual(self.numbers(line), [4])
        failure = PeerRefused(2, "busy")
        self.cluster.pump(11.0)
        self.assertEqual(events(line)[-1][0], "trouble")
        failure = PeerRefused(16, "forbidden")
        self.cluster.pump(20.0)
        self.assertEqual((events(line)[-1][0], events(line)[-1][1]["why"]), ("ended", "declined"))

    def test_bounds(self) -> None:
        """There are eight tails at once, four of one asker, and none of too many queues, or of what is not there."""
        self.assertEqual(self.order("GET", "/tail?topic=Other")[1]["code"], "topic-not-found")
        mine = self.token
        self.token = self.front.ops.tokens.create("other", ["read"])[1]
        self.cluster.pump()
        for token in (self.token, mine):
            self.token = token
            for _ in range(SHARE):
                self.listen()
            answer = self.front.ask("GET", "/tail?topic=Orders", token=self.token)
            self.assertEqual((answer.status, answer.code), (503, "too-many-tails"))
        self.assertEqual(len(self.front.ops.streams), TAILS)

    def test_bounds_at_once(self) -> None:
        """There are no more either where all begin at the same time."""
        lines = []
        for _ in range(SHARE + 2):
            lines.append(self.front.connect())
            target = "GET /api/v1/tail?topic=Orders HTTP/1.1\r\nHost: 127.0.0.1:10913\r\n"
            head = f"{target}Authorization: Bearer {self.token}\r\n\r\n"
            cast("Any", lines[-1].transport).write(head.encode())
        self.cluster.pump()
        self.cluster.pump(1.0)
        statuses = sorted(line.received.split(b" ", 2)[1] for line in lines)
        self.assertEqual(statuses, [b"200"] * SHARE + [b"503"] * 2)

    def test_wide(self) -> None:
        """A topic of too many queues is not followed as a whole."""
        self.order("POST", "/topics", {"name": "Wide", "readQueues": QUEUES + 1, "writeQueues": 1})
        self.assertEqual(self.order("GET", "/tail?topic=Wide")[1]["code"], "too-many-queues")

    def test_interface(self) -> None:
        """A tail is what feeds a stream."""
        reader = ClusterQueueReader(self.front.ops.view)
        queue = MessageQueue("Orders", "broker-a", 0)
        wanted = Filter(Inflater(self.front.env), FilterTerms())
        one = LiveTail(self.front.env.clock, reader, [queue], TailQuery(topic="Orders"), wanted, set())
        self.assertTrue(verifyObject(IStreamSource, one))
