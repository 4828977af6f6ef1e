"""HTTP connections on links: their time, memory and end; and HTTPS as programs of others speak it."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import sys
from shutil import which
from typing import Final

from twisted.internet.address import IPv4Address
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import SynchronousTestCase, TestCase
from zope.interface.verify import verifyObject

from smartgo.net.limits import MIB
from smartgo.net.link import Link
from smartgo.net.memorybudget import Kind, MemoryBudget
from smartgo.net.session import ISession
from smartgo.net.sweeper import Sweeper
from smartgo.ops.problems import Problem
from smartgo.ops.web.httpsession import REQUEST_SECONDS
from smartgo.ops.web.request import OpsRequest
from smartgo.ops.web.routes import PUBLISH_LIMIT
from smartgo.ops.web.site import HttpLimits, HttpSite
from tests.fakes import FakeEnvironment
from tests.ops.live import TOKEN, Live
from tests.ops.test_service import certificates
from tests.remoting.certificates import Authority
from tests.remoting.doubles import Wire

CURL: Final = which("curl")
OPENSSL: Final = which("openssl")
SECONDS: Final = 60


GET: Final = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
BUDGET: Final = 64 * MIB


class HttpSessionTests(SynchronousTestCase):
    """A site whose requests a test answers, and connections to it in memory."""

    def setUp(self) -> None:
        self.env = FakeEnvironment()
        self.clock = self.env.clock
        self.budget = MemoryBudget(self.clock, BUDGET)
        self.asked: list[OpsRequest] = []
        sweeper = Sweeper(self.clock, self.budget)
        limits = HttpLimits(4, 3)
        self.site = HttpSite(
            self.env, sweeper, "tcp:10913", self.asked.append, lambda method, url: PUBLISH_LIMIT, limits=limits
        )
        self.successResultOf(self.site.open())

    def arrive(self, ip: str = "10.0.0.1") -> Wire | None:
        """Let a client connect; C{None}: it is turned away."""
        link: Link | None = self.site._ports[0].buildProtocol(IPv4Address("TCP", ip, 5000))
        if link is None:
            return None
        wire = Wire(IPv4Address("TCP", ip, 5000))
        wire.protocol = link
        link.makeConnection(wire)
        return wire

    def connect(self) -> Wire:
        """Let a client connect that is let in."""
        wire = self.arrive()
        assert wire is not None
        return wire

    def hear(self, wire: Wire, *data: bytes) -> None:
        """Let bytes arrive, and the turn end."""
        for one in data:
            wire.protocol.dataReceived(one)
        self.clock.advance(0)

    def seconds(self, count: float) -> None:
        """Let seconds pass, one by one."""
        for _ in range(round(count)):
            self.clock.advance(1)

    def answer(self, body: bytes = b"done") -> None:
        """Answer the request that came first."""
        request = self.asked.pop(0)
        request.write(body)
        request.finish()
        self.clock.advance(0)

    def taken(self) -> tuple[int, int, int]:
        """The bytes of requests that are not whole, of those that are served, and of answers."""
        return self.budget.taken(Kind.HTTP_BODIES), self.budget.taken(Kind.REQUESTS), self.budget.taken(Kind.ANSWERS)

    def test_interface(self) -> None:
        """It is what a link asks for."""
        verifyObject(ISession, self.connect().protocol.session)

    def test_counted(self) -> None:
        """A request counts in the memory budget while it comes, while it is served, and no longer (L14)."""
        wire = self.connect()
        self.hear(wire, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
        head = self.taken()[0]
        self.assertGreater(head, 0)
        self.hear(wire, bytes(60_000))
        self.assertEqual(self.taken(), (head + 60_000, 0, 0))
        self.hear(wire, bytes(40_000))
        self.assertEqual(self.taken(), (0, head + 100_000, 0))
        self.answer()
        self.assertEqual((self.taken(), self.budget.used), ((0, 0, 0), 0))
        self.assertTrue(b"".join(wire.writes).endswith(b"done\r\n0\r\n\r\n"))

    def test_later_requests(self) -> None:
        """What comes after the request that is served counts too; after 16 KiB the client is not read."""
        wire = self.connect()
        self.hear(wire, GET)
        self.hear(wire, GET)
        self.assertEqual((self.taken()[0], wire.reading), (len(GET), True))
        self.hear(wire, GET * 800)
        self.assertFalse(wire.reading)
        for _ in range(802):
            self.answer()
        self.assertEqual((self.taken(), wire.reading, self.asked), ((0, 0, 0), True, []))

    def test_lost(self) -> None:
        """Nothing is counted of a connection that is lost, whatever was going on; requests hear of it."""
        for data in (b"GET / HT", b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n123", GET, GET + GET):
            wire = self.connect()
            self.hear(wire, data)
            self.assertGreater(self.budget.used, 0)
            gone = [request.notifyFinish() for request in self.asked]
            self.asked.clear()
            wire.protocol.connectionLost()
            for one in gone:
                self.failureResultOf(one)
            self.assertEqual((self.budget.used, self.site.receiving, self.site.links), (0, 0, []), data)

    def test_memory_short(self) -> None:
        """A client whose body has no room is not read, has time nevertheless, and goes on where there is room."""
        other, wire = self.connect(), self.connect()
        for one in (other, wire):
            self.hear(one, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
        self.seconds(REQUEST_SECONDS - 1)
        self.budget.take(Kind.LOCKS, BUDGET)
        for one in (other, wire):  # the first has the reserve for 3 s
            self.hear(one, bytes(900))
        self.assertFalse(wire.reading)
        self.seconds(2)
        self.assertIn(b" 408 ", b"".join(other.writes))
        self.assertEqual((wire.writes, wire.aborted, wire.reading), ([], False, False))
        self.budget.give(Kind.LOCKS, BUDGET)
        self.seconds(1)
        self.hear(wire, bytes(100))
        self.assertEqual(len(self.asked), 1)

    def test_no_room(self) -> None:
        """A client whose body had no room for too long is closed, so that others go on."""
        self.budget.take(Kind.LOCKS, BUDGET)
        wire = self.connect()
        self.hear(wire, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", bytes(900))
        self.seconds(40)
        self.assertTrue(wire.aborted)
        wire.protocol.connectionLost()
        self.assertEqual(self.budget.used, BUDGET)

    def test_slow_client(self) -> None:
        """A producer of an answer waits for the client; what waits counts in the memory budget."""
        wire = self.connect()
        self.hear(wire, GET)
        (request,) = self.asked
        told: list[str] = []

        class Lines:
            """A producer."""

            def pauseProducing(self) -> None:
                """Note it."""
                told.append("pause")

            def resumeProducing(self) -> None:
                """Note it."""
                told.append("resume")

        request.registerProducer(Lines(), True)
        request.write(bytes(200_000))
        self.assertEqual(told, [])
        wire.full = True
        request.write(bytes(200_000))
        self.assertEqual((told, self.taken()[2] > 200_000, wire.reading), (["pause"], True, True))
        wire.full = False
        wire.drained()
        self.clock.advance(0)
        self.assertEqual((told, self.taken()[2]), (["pause", "resume"], 0))
        request.unregisterProducer()
        request.finish()

    def test_answer_not_taken(self) -> None:
        """A client that takes nothing of its answer is closed when nothing moved for a minute, then cut."""
        wire = self.connect()
        self.hear(wire, GET)
        wire.full = True
        self.answer(bytes(3 * MIB))
        self.seconds(58)
        self.assertTrue(wire.protocol.open)
        self.seconds(4)
        self.assertFalse(wire.protocol.open)
        self.seconds(31)
        self.assertTrue(wire.aborted)
        wire.protocol.connectionLost()
        self.assertEqual(self.budget.used, 0)

    def test_last_answer_slowly_taken(self) -> None:
        """The last answer of a connection is not cut while the client takes any of it, however long that takes."""
        wire = self.connect()
        self.hear(wire, GET.replace(b"Host", b"Connection: close\r\nHost"))
        wire.full = True
        self.answer(bytes(MIB))
        for _ in range(4):
            self.seconds(50)
            self.assertFalse(wire.disconnecting or wire.aborted)
            wire.drained()
        wire.full = False
        wire.drained()
        self.clock.advance(0)
        self.assertTrue(wire.disconnecting)
        self.assertGreater(len(b"".join(wire.writes)), MIB)

    def test_served_long(self) -> None:
        """A connection whose request is served is not idle, however long nothing is written; after the answer it is."""
        wire = self.connect()
        self.hear(wire, GET)
        self.seconds(200)
        self.assertEqual((wire.protocol.open, self.site.counts.idle), (True, 0))
        self.answer()
        self.seconds(58)
        self.assertTrue(wire.protocol.open)
        self.seconds(4)
        self.assertEqual((wire.protocol.open, self.site.counts.idle), (False, 1))

    def test_full(self) -> None:
        """Who is too many takes the place of an idle one of its address; where all are served it is turned away."""
        wires = [self.connect() for _ in range(3)]
        self.hear(wires[0], GET)
        self.hear(wires[1], b"GET /")
        self.connect()
        self.assertEqual([wire.aborted for wire in wires], [False, False, True])
        self.hear(wires[1], b" HTTP/1.1\r\nHost: x\r\n\r\n")
        third = self.connect()
        self.hear(third, GET)
        self.assertIsNone(self.arrive())
        self.assertEqual(self.site.counts.turned_away, 1)
        self.assertIsNotNone(self.arrive("10.0.0.2"))

    def test_descriptors(self) -> None:
        """Nobody is let in while fewer than 32 descriptors are free, and again once there are more (L8)."""
        host = self.env.host
        host.files_open = host.open_file_limit() - 33
        self.assertIsNotNone(self.arrive())
        host.files_open += 1
        self.seconds(1)
        for _ in range(16):  # they are counted after so many
            wire = self.arrive()
            if wire is not None:
                wire.protocol.connectionLost()
        self.assertIsNone(self.arrive())
        self.assertEqual(self.site.counts.waits, 1)
        host.files_open = 10
        self.seconds(1)
        self.assertIsNotNone(self.arrive())

    def test_many_answers(self) -> None:
        """The pieces of one answer leave in one write."""
        wire = self.connect()
        self.hear(wire, GET)
        request = self.asked.pop()
        request.setHeader(b"Content-Length", b"6")
        for piece in (b"a", b"bc", b"def"):
            request.write(piece)
        request.finish()
        self.clock.advance(0)
        self.assertEqual((len(wire.writes), wire.writes[0].endswith(b"\r\n\r\nabcdef")), (1, True))

    def test_refused(self) -> None:
        """An error of ours in a resource is no end of the connection."""
        wire = self.connect()
        self.hear(wire, GET)
        self.asked.pop().answer_problem(Problem(404, "there is nothing"))
        self.clock.advance(0)
        self.hear(wire, GET)
        self.assertEqual((len(self.asked), wire.protocol.open), (1, True))


class HttpsTests(TestCase):
    """A node with a certificate, and programs that know its authority."""

    timeout = 300

    async def live(self) -> Live:
        """Start a node; it is stopped after the test."""
        self.folder: str = os.path.abspath(self.mktemp())
        os.makedirs(self.folder)
        self.authority = Authority()
        live = Live(self.folder, **certificates(self.folder, self.authority))
        self.trust = os.path.join(self.folder, "ca.pem")
        self.addCleanup(live.stop)
        await live.start()
        return live

    async def run_program(self, *words: str, given: str = "", **variables: str) -> str:
        """Run a program; return what it wrote."""
        done = await deferToThread(
            subprocess.run,
            words,
            input=given,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
            env={**os.environ, **variables},
        )
        self.assertEqual(done.returncode, 0, (words, done.stdout, done.stderr))
        said: str = done.stdout + done.stderr
        return said

    async def test_curl(self) -> None:
        """curl gets an answer, whatever version of HTTP it would like best."""
        if CURL is None:
            self.skipTest("curl is not installed")
        live = await self.live()
        for more in ((), ("--http1.1",), ("--no-alpn",), ("--tls-max", "1.2")):
            said = await self.run_program(
                CURL, "-sS", "--cacert", self.trust, *more, "-H", f"Authorization: Bearer {TOKEN}", "-w",
                " %{http_code} %{http_version}", f"{live.url}/api/v1/brokers",
            )  # fmt: skip
            self.assertIn("broker-a", said)
            self.assertTrue(said.endswith(" 200 1.1"), said)

    async def test_urllib(self) -> None:
        """Python's urllib gets an answer with the context that it makes by itself, which offers http/1.1."""
        live = await self.live()
        program = (
            "import sys, urllib.request\n"
            "with urllib.request.urlopen(sys.argv[1], timeout=50) as answer:\n    print(answer.status)\n"
        )
        said = await self.run_program(
            sys.executable, "-c", program, f"{live.url}/api/v1/health", SSL_CERT_FILE=self.trust, NO_PROXY="127.0.0.1"
        )
        self.assertEqual(said, "200\n")

    async def test_openssl(self) -> None:
        """openssl s_client is told http/1.1 among others, with TLS 1.2 and 1.3, and nothing without forward secrecy."""
        if OPENSSL is None:
            self.skipTest("openssl is not installed")
        live = await self.live()
        for version in ("-tls1_2", "-tls1_3"):
            said = await self.run_program(
                OPENSSL, "s_client", "-connect", f"127.0.0.1:{live.port}", "-CAfile", self.trust,
                "-verify_return_error", version, "-alpn", "h2,http/1.1",
            )  # fmt: skip
            self.assertIn("ALPN protocol: http/1.1", said)
            self.assertIn("Verify return code: 0 (ok)", said)
            if version == "-tls1_2":
                self.assertRegex(said, "Cipher +: ECDHE-ECDSA-.*GCM-SHA")

    async def test_every_port(self) -> None:
        """Clients that offer protocols get through on the ports of registry and broker, where none is chosen."""
        live = await self.live()
        broker = int(live.node.broker.rpartition(":")[2])

        def offer(port: int, offered: list[str]) -> str | None:
            context = ssl.create_default_context(cadata=self.authority.pem.decode())
            context.set_alpn_protocols(offered)
            with (
                socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as plain,
                context.wrap_socket(plain, server_hostname="127.0.0.1") as secure,
            ):
                return secure.selected_alpn_protocol()

        for offered in (["http/1.1"], ["h2", "http/1.1"], ["h2"], ["redis"]):
            for port in (live.registry_port, broker):
                self.assertIsNone(await deferToThread(offer, port, offered))
            chosen = "http/1.1" if "http/1.1" in offered else None
            self.assertEqual(await deferToThread(offer, live.port, offered), chosen)
