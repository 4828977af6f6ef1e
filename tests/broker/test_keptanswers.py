"""Answers to sends that wait for a flush or a slave, kept by a hub over real sockets; and what is made of them."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any, ClassVar

import msgspec
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.keptanswers import REMARKS, given_up, tell_when, weaker
from smartgo.core import IS_COMPILED
from smartgo.ha.master import Master
from smartgo.net.link import Link
from smartgo.remoting.dispatch import STOPPING
from smartgo.schema.batch import encode_items
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command, decode, encode
from smartgo.schema.commandlayout import BINARY, JSON
from smartgo.schema.headers.send import SendResponse
from smartgo.schema.responses import send_pieces, send_response
from smartgo.store.interfaces import PutStatus
from tests.broker.fakecluster import Cluster, send_command
from tests.broker.sendtape import split
from tests.fakes import FakeEnvironment
from tests.sockets import SocketNetwork


class WeakerTests(SynchronousTestCase):
    """What is sent in place of an answer that says 0."""

    def answers(self) -> tuple[bytes, list[tuple[Command, SendResponse]]]:
        """Some answers as a run writes them; and requests and headers of others."""
        raw = b""
        wanted: list[tuple[Command, SendResponse]] = []
        for encoding, trace_on in ((JSON, True), (BINARY, True), (JSON, False), (BINARY, False)):
            opaque = 5 + len(wanted)
            ids = ",".join([f"0A00000100002A9F{number:016X}" for number in range(len(wanted) + 1)])
            raw += send_response(encoding, opaque, ids, 3, 1 << 40, send_pieces("R1", trace_on))
            header = SendResponse(ids, 3, 1 << 40, region="R1", trace_on=trace_on)
            wanted.append((Command(RequestCode.SEND_MESSAGE, opaque, encoding=encoding), header))
        return raw, wanted

    def test_weaker(self) -> None:
        """The bytes are those of an answer with this status, its remark, and the whole header."""
        raw, wanted = self.answers()
        for status, remark in REMARKS.items():
            expected = [encode(request.answer(status, remark, header)) for request, header in wanted]
            self.assertEqual(weaker(status, raw), b"".join(expected))

    def test_given_up(self) -> None:
        """Where the server stops they are those of any request that it gave up."""
        raw, wanted = self.answers()
        self.assertEqual(given_up(raw), b"".join([encode(request.answer(14, STOPPING)) for request, _ in wanted]))
        self.assertEqual((given_up(b""), weaker(PutStatus.FLUSH_DISK_TIMEOUT, b"")), (b"", b""))

    def test_told(self) -> None:
        """Answers leave as they are where the status is good, else as weaker ones; once, and also if a policy fails."""
        raw, _ = self.answers()
        bug = Failure(ZeroDivisionError())
        cases: tuple[tuple[Deferred[Any] | None, object, PutStatus | None], ...] = (
            (None, None, None), (Deferred(), PutStatus.OK, None),
            (Deferred(), PutStatus.FLUSH_SLAVE_TIMEOUT, PutStatus.FLUSH_SLAVE_TIMEOUT),
            (Deferred(), bug, PutStatus.FLUSH_DISK_TIMEOUT),
        )  # fmt: skip
        for waiting, result, status in cases:
            told: list[Callable[[bytes], bytes] | None] = []
            tell_when(waiting, told.append)
            if waiting is not None:
                self.assertEqual(told, [])
                waiting.callback(result)
            (change,) = told
            said = raw if change is None else change(raw)
            self.assertEqual(said, raw if status is None else weaker(status, raw))
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)


class KeptCase(SynchronousTestCase):
    """A broker where answers wait, and clients over sockets."""

    settings: ClassVar[dict[str, str]] = {"flushDiskType": "SYNC_FLUSH"}

    def setUp(self) -> None:
        """Start the broker, and make a topic with a queue; count what a hub takes."""
        env = FakeEnvironment()
        self.network = env.network = SocketNetwork()
        self.cluster = Cluster(env, **self.settings)
        self.addCleanup(self.cluster.stop)
        self.threads = env.threads
        self.opaque = 100
        self.by_hub = 0
        took = Link.took

        def count(link: Link, frames: int) -> None:
            self.by_hub += frames
            took(link, frames)

        self.patch(Link, "took", count)
        self.client = self.join()
        self.write(self.client, 1)
        self.cluster.pump(8.0)  # the first is stored by the processor, and its topic saved
        self.assertEqual(len(self.read(self.client)), 1)

    def join(self) -> socket.socket:
        """One more client."""
        client = self.network.join(10911)
        self.addCleanup(client.close)
        return client

    def write(self, client: socket.socket, count: int, wait: str = "true", flag: int = 0) -> list[int]:
        """Send some messages in one write; return their opaque numbers."""
        data, numbers = b"", []
        for _ in range(count):
            self.opaque += 1
            numbers.append(self.opaque)
            request = send_command("T", b"%d" % self.opaque, properties={"UNIQ_KEY": "0", "WAIT": wait})
            request.opaque, request.flag = self.opaque, flag
            data += encode(request)
        client.send(data)
        return numbers

    def read(self, client: socket.socket) -> list[Command]:
        """The answers that came."""
        data = b""
        while True:
            try:
                found = client.recv(1 << 20)
            except BlockingIOError:
                break
            if not found:
                break
            data += found
        return [decode(frame[4:]) for frame in split(data)]

    def codes(self, client: socket.socket) -> list[tuple[int, int]]:
        """Opaque number and code of the answers that came."""
        return [(one.opaque, one.code) for one in self.read(client)]

    def links(self) -> list[Link]:
        """The links of all connections that were accepted over sockets."""
        return [one.protocol for one in self.network.transports if isinstance(one.protocol, Link)]

    def flush(self) -> None:
        """Let the flush thread do all that it has to do."""
        while self.threads.release("flush"):
            self.cluster.pump()

    def hold(self) -> None:
        """Let no flush end from now on until L{let_go}."""
        self.threads.held.add("flush")

    def let_go(self) -> None:
        """Let flushes end, those under way and all others."""
        self.threads.held.clear()
        self.flush()

    def assert_by_hub(self, frames: int) -> None:
        """So many frames were taken by the hub, where it takes any."""
        self.assertEqual(self.by_hub, frames if IS_COMPILED else 0)


class SyncFlushTests(KeptCase):
    """SYNC_FLUSH."""

    def test_waits(self) -> None:
        """Frames are taken while earlier answers wait; each flush answers what was stored before it began."""
        other = self.join()
        self.hold()
        first = self.write(self.client, 3)
        self.cluster.pump()
        second = self.write(self.client, 2)
        third = self.write(other, 1)
        self.cluster.pump()
        self.assertEqual((self.read(self.client), self.read(other)), ([], []))
        self.assert_by_hub(5)  # the first frame of a connection is not the hub's
        self.assertEqual(self.threads.release("flush", 1), 1)
        self.cluster.pump()
        self.assertEqual((self.codes(self.client), self.read(other)), ([(one, 0) for one in first], []))
        self.assertEqual(self.threads.release("flush", 1), 1)
        self.cluster.pump()
        self.assertEqual(self.codes(self.client), [(one, 0) for one in second])
        self.assertEqual(self.codes(other), [(one, 0) for one in third])
        self.let_go()

    def test_not_awaited(self) -> None:
        """WAIT=false is answered at once, before others that wait; a one-way send never."""
        self.hold()
        waiting = self.write(self.client, 1)
        self.write(self.client, 1, flag=2)
        at_once = self.write(self.client, 2, "false")
        self.cluster.pump()
        self.assertEqual(self.codes(self.client), [(one, 0) for one in at_once])
        self.assert_by_hub(4)
        self.let_go()
        self.assertEqual(self.codes(self.client), [(one, 0) for one in waiting])

    def test_batch(self) -> None:
        """A batch waits like a message, and gets all its ids."""
        self.hold()
        items = [(0, b"%d" % number, b"") for number in range(3)]
        request = send_command("T", encode_items(items), code=RequestCode.SEND_BATCH_MESSAGE)
        self.client.send(encode(request))
        self.cluster.pump()
        self.assertEqual(self.read(self.client), [])
        self.let_go()
        (answer,) = self.read(self.client)
        self.assertEqual((answer.code, len(answer.read(SendResponse).msg_id.split(","))), (0, 3))
        self.assert_by_hub(1)

    def test_failing_flush(self) -> None:
        """A flush that fails is answered 10, with the header; later sends get 14."""
        self.hold()
        numbers = self.write(self.client, 3)
        self.cluster.pump()
        self.cluster.env.files.sync_error = 5
        self.let_go()
        answers = self.read(self.client)
        self.assertEqual([(one.opaque, one.code) for one in answers], [(one, 10) for one in numbers])
        self.assertEqual([one.remark for one in answers], [REMARKS[PutStatus.FLUSH_DISK_TIMEOUT]] * 3)
        self.assertEqual([one.read(SendResponse).queue_offset for one in answers], [1, 2, 3])
        self.assert_by_hub(3)
        self.cluster.env.files.sync_error = 0
        numbers = self.write(self.client, 2)
        self.cluster.pump()
        self.assertEqual(self.codes(self.client), [(one, 14) for one in numbers])
        self.assertEqual(len(self.flushLoggedErrors()), 0)

    def test_late(self) -> None:
        """A flush that takes more than five seconds is answered 10; what it says later is not heard."""
        self.hold()
        numbers = self.write(self.client, 2)
        self.cluster.pump(4.8)
        self.assertEqual(self.read(self.client), [])
        self.cluster.pump(0.4)
        self.assertEqual(self.codes(self.client), [(one, 10) for one in numbers])
        self.let_go()
        self.assertEqual(self.read(self.client), [])

    def test_closed(self) -> None:
        """A connection that ends drops its answers, and the memory they took; others get theirs."""
        other = self.join()
        self.write(other, 1)
        self.cluster.pump()
        self.read(other)
        self.hold()
        self.write(self.client, 3)
        numbers = self.write(other, 2)
        self.cluster.pump()
        budget = self.cluster.sweeper.budget
        used = budget.used
        self.assertGreater(used, 0)
        self.client.close()
        self.cluster.pump()
        self.assertLess(budget.used, used)
        self.let_go()
        self.assertEqual(self.codes(other), [(one, 0) for one in numbers])
        self.assertEqual(budget.used, 0)

    def test_new_topic(self) -> None:
        """While a topic that was just made is not on the disk, sends wait for it, and the hub takes none (D15)."""
        self.threads.held.add("tables")
        self.client.send(encode(send_command("New")))
        self.cluster.pump()
        self.client.send(encode(send_command("New", b"1")) + encode(send_command("New", b"2")))
        self.cluster.pump()
        self.assertEqual((self.read(self.client), self.by_hub), ([], 0))
        self.threads.held.clear()
        while self.threads.release("tables"):
            self.cluster.pump()
        self.assertEqual([one.code for one in self.read(self.client)], [0, 0, 0])
        self.write(self.client, 2)
        self.cluster.pump()
        self.assert_by_hub(2)

    def test_stopping(self) -> None:
        """A broker that stops answers first what its last flush has made durable."""
        self.hold()
        numbers = self.write(self.client, 2)
        self.cluster.pump()
        stopping = self.cluster.service.stopService()
        self.cluster.pump()
        self.assertEqual(self.read(self.client), [])
        self.let_go()
        self.cluster.pump(1.0)
        self.assertEqual(self.codes(self.client), [(one, 0) for one in numbers])
        self.assertTrue(stopping.called)

    def test_given_up(self) -> None:
        """A broker that cannot wait any longer for the disk answers 14 in its place."""
        self.hold()
        numbers = self.write(self.client, 2)
        self.cluster.pump()
        for link in self.links():
            link.give_up()
        self.cluster.pump()
        self.assertEqual(self.codes(self.client), [(one, 14) for one in numbers])
        self.let_go()
        self.assertEqual(self.read(self.client), [])


class BackPressureTests(KeptCase):
    """The limit of requests in flight (L12)."""

    def setUp(self) -> None:
        """Allow four requests of each connection."""
        super().setUp()
        for link in self.links():
            link._limits = msgspec.structs.replace(link._limits, in_flight=4)
            link.session._limits = link._limits  # type: ignore[attr-defined]

    def test_in_flight(self) -> None:
        """No more are taken than may be in flight; the others wait unread, and are taken when there is room."""
        self.hold()
        numbers = self.write(self.client, 11)
        self.cluster.pump()
        stored = self.cluster.broker.stats.put.total
        self.assertEqual(stored, 1 + 4)
        self.assert_by_hub(4)
        answered = 0
        while self.threads.release("flush", 1):
            self.cluster.pump()
            answered += len(self.read(self.client))
            self.assertLessEqual(self.cluster.broker.stats.put.total - stored, answered)
        self.assertEqual(answered, 11)
        self.assertEqual(self.cluster.broker.stats.put.total, 12)
        again = self.write(self.client, 2)
        self.cluster.pump()
        self.let_go()
        self.assertEqual(self.codes(self.client), [(one, 0) for one in again])
        self.assertGreater(again[0], numbers[-1])
        self.assertEqual(self.by_hub, 6 if IS_COMPILED else 0)


class SyncMasterTests(KeptCase):
    """SYNC_MASTER, whose slave a test makes up."""

    settings: ClassVar[dict[str, str]] = {"brokerRole": "SYNC_MASTER", "slaveTimeout": "2000"}

    def test_no_slave(self) -> None:
        """Without a slave each send is answered 11 at once."""
        numbers = self.write(self.client, 3)
        self.cluster.pump()
        answers = self.read(self.client)
        self.assertEqual([(one.opaque, one.code) for one in answers], [(one, 11) for one in numbers])
        self.assertEqual([one.read(SendResponse).queue_offset for one in answers], [1, 2, 3])
        self.assert_by_hub(3)

    def test_slow_slave(self) -> None:
        """A slave that is there and confirms nothing is waited for, then the answer is 12."""
        self.patch(Master, "durable", lambda master, end: master._waiting.wait(end))
        numbers = self.write(self.client, 2)
        self.cluster.pump(1.8)
        self.assertEqual(self.read(self.client), [])
        self.assert_by_hub(2)
        self.cluster.pump(0.4)
        self.assertEqual(self.codes(self.client), [(one, 12) for one in numbers])

    def test_confirms(self) -> None:
        """What a slave has confirmed is answered 0, what comes behind it waits on."""
        asked: list[tuple[int, Deferred[PutStatus]]] = []

        def durable(_: Master, end: int) -> Deferred[PutStatus]:
            asked.append((end, Deferred()))
            return asked[-1][1]

        self.patch(Master, "durable", durable)
        first = self.write(self.client, 2)
        self.cluster.pump()
        second = self.write(self.client, 1)
        self.cluster.pump()
        for _, told in [one for one in asked if one[0] < asked[-1][0]]:
            told.callback(PutStatus.OK)
        self.cluster.pump()
        self.assertEqual(self.codes(self.client), [(one, 0) for one in first])
        asked[-1][1].callback(PutStatus.OK)
        self.cluster.pump()
        self.assertEqual(self.codes(self.client), [(one, 0) for one in second])
        if IS_COMPILED:
            self.assertEqual(len(asked), 2)
