"""The same over real sockets of the loopback interface, plain and under TLS."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.protocol import ClientFactory, Protocol
from twisted.trial.unittest import TestCase

from smartgo.env.real import RealEnvironment
from smartgo.errors import CallTimedOut, NotConnected, SettingError
from smartgo.net.limits import CLIENT, Limits
from smartgo.net.tls import ClientTLS, KeyFiles, Mode, ServerTLS
from smartgo.remoting.client import CallSecurity, RemotingClient
from smartgo.remoting.dispatch import Dispatcher
from smartgo.remoting.framing import LengthFieldDecoder
from smartgo.remoting.plainrefusal import REMARK
from smartgo.remoting.server import RemotingServer
from smartgo.schema.command import Command, decode, encode
from tests.remoting.certificates import Authority
from tests.remoting.doubles import ECHO, LATE, Doing, Hearing, Lates, echo, request, sweeper_of

MIB = 1 << 20


class Raw(Protocol):
    """
    A client by hand: reads when told.

    @ivar answers: what came.
    """

    transport: Any

    def __init__(self, paused: bool) -> None:
        self._paused = paused
        self._decoder = LengthFieldDecoder(16 * MIB)
        self.answers: list[Command] = []
        self.lost: Deferred[None] = Deferred()
        self._wanted = 0
        self._enough: Deferred[None] = Deferred()

    def connectionMade(self) -> None:
        """Read, or not yet."""
        if self._paused:
            self.transport.pauseProducing()

    def dataReceived(self, data: bytes) -> None:
        """Decode."""
        self.answers += [decode(frame) for frame in self._decoder.frames(data)]
        if self._wanted and len(self.answers) >= self._wanted:
            self._wanted = 0
            self._enough.callback(None)

    def enough(self, count: int) -> Deferred[None]:
        """Fire when so many answers are here."""
        self._wanted = count
        self.dataReceived(b"")
        return self._enough

    def connectionLost(self, reason: Any = None) -> None:
        """Tell."""
        self.lost.callback(None)


class Case(TestCase):
    """A server on a free port, and clients; nothing of them stays, or trial says so."""

    timeout = 300

    def setUp(self) -> None:
        self.env = RealEnvironment(reactor)
        self.hearing = Hearing()
        self._ends: list[Callable[[], Any]] = []

    async def _end(self) -> None:
        for end in reversed(self._ends):
            await end()

    def tearDown(self) -> Deferred[None]:  # type: ignore[override]
        """End all in the opposite order."""
        return Deferred.fromCoroutine(self._end())

    async def serve(self, *processors: Any, tls: ServerTLS | None = None, limits: Limits | None = None) -> str:
        """Listen; return the address."""
        self.server = RemotingServer(
            self.env,
            "tcp:0:interface=127.0.0.1",
            Dispatcher(processors),
            sweeper_of(self.env.clock),
            self.hearing,
            limits or Limits(),
            tls,
        )
        await self.server.open()
        self.server.startService()
        self._ends.append(self.server.stopService)
        return f"127.0.0.1:{self.server.ports[0]}"

    def client(self, tls: ClientTLS | None = None, limits: Limits = CLIENT) -> RemotingClient:
        """One more client."""
        client = RemotingClient(self.env, sweeper_of(self.env.clock), security=CallSecurity(tls), limits=limits)
        self._ends.append(client.stop)
        return client

    async def raw(self, address: str, paused: bool = False) -> Raw:
        """A client by hand."""
        made = Raw(paused)
        factory: Any = ClientFactory()
        factory.noisy = False
        factory.buildProtocol = lambda _: made
        await self.env.network.connect("127.0.0.1", int(address.rpartition(":")[2]), factory, 3.0)

        async def end() -> None:
            made.transport.abortConnection()
            await made.lost

        self._ends.append(end)
        return made

    async def wait(self, seconds: float) -> None:
        """Let the reactor turn for a moment."""
        passed: Deferred[None] = Deferred()
        self.env.clock.callLater(seconds, passed.callback, None)
        await passed


class PlainTests(Case):
    """Plain TCP."""

    async def test_echo(self) -> None:
        """Requests large and small, one by one and many at once, come back whole."""
        address = await self.serve(echo())
        client = self.client()
        for size in (0, 1, 100_000, 8 * MIB):
            answer = await client.ask(address, request(body=bytes(size)), 60.0)
            self.assertEqual(len(answer.body), size)
        bodies = [b"%d" % number * (number % 500) for number in range(2000)]
        answers = await gatherResults([client.ask(address, request(body=body), 60.0) for body in bodies])
        self.assertEqual([answer.body for answer in answers], bodies)
        self.assertEqual(self.hearing.events, ["active", "first_frame"])
        self.assertEqual(len(self.server.connections), 1)

    async def test_written_directly(self) -> None:
        """On a real TCP transport answers go straight into the socket."""
        address = await self.serve(echo())
        await self.client().ask(address, request())
        (connection,) = self.server.connections
        self.assertTrue(connection.link._send_buffer._direct)
        self.assertTrue(connection.link.transport.getTcpNoDelay())

    async def test_does_not_read(self) -> None:
        """A client that asks for 64 MiB and does not read costs the server little; when it reads it gets all of it."""
        made: list[int] = []

        def big(_: Any, asked: Command) -> bytes:
            made.append(asked.opaque)
            return encode(asked.answer(body=bytes(MIB)))

        address = await self.serve(Doing(ECHO, big))
        other = self.client()
        client = await self.raw(address, paused=True)
        client.transport.write(b"".join(encode(request(ECHO, number)) for number in range(64)))
        await self.wait(0.2)
        (connection,) = self.server.connections
        self.assertLess(len(made), 16)  # a few MiB are in the kernel's buffers
        self.assertLess(connection.unsent, 3 * MIB)
        self.assertEqual((await other.ask(address, request())).code, 0)
        client.transport.resumeProducing()
        await client.enough(64)
        self.assertEqual([answer.opaque for answer in client.answers], list(range(64)))
        self.assertEqual({len(answer.body) for answer in client.answers}, {MIB})
        self.assertEqual(connection.unsent, 0)

    async def test_late(self) -> None:
        """Late answers arrive when they are there."""
        lates = Lates()
        address = await self.serve(Doing(LATE, lates))
        client = self.client()
        answers = [client.ask(address, request(LATE, body=b"%d" % number)) for number in range(3)]
        while len(lates.pending) < 3:
            await self.wait(0.01)
        lates.fire(2)
        lates.fire(0)
        self.assertEqual((await answers[2]).body, b"2")
        self.assertEqual((await answers[0]).body, b"0")
        lates.fire()
        await answers[1]

    async def test_times_out(self) -> None:
        """A call that nobody answers fails in time."""
        address = await self.serve(Doing(LATE, Lates()))
        error: Any = await self.assertFailure(self.client().ask(address, request(LATE), 0.2), CallTimedOut)
        self.assertEqual(error.timeout, 0.2)
        for later in list(self.server.connections[0].outstanding):
            later.give_up()

    async def test_garbage(self) -> None:
        """A client that sends no frames is closed; another is served meanwhile."""
        address = await self.serve(echo())
        client = self.client()
        await client.ask(address, request())
        garbage = await self.raw(address)
        garbage.transport.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await garbage.lost
        self.assertEqual((await client.ask(address, request(body=b"x"))).body, b"x")
        self.assertEqual(self.hearing.events.count("failed"), 1)

    async def test_nobody(self) -> None:
        """Where nobody listens calls fail at once."""
        address = f"127.0.0.1:{self.env.network.free_port()}"
        await self.assertFailure(self.client().ask(address, request()), NotConnected)

    async def test_turned_away(self) -> None:
        """A connection beyond the limit is accepted and closed."""
        address = await self.serve(echo(), limits=Limits(connections=1))
        await self.client().ask(address, request())
        second = await self.raw(address)
        await second.lost
        self.assertEqual((second.answers, self.server.counts.turned_away), ([], 1))

    async def test_pause_accepting(self) -> None:
        """While descriptors are scarce nothing is accepted; what came meanwhile is accepted afterwards."""
        address = await self.serve(echo())
        host: Any = self.env.host
        self.patch(host, "open_files", lambda: host.open_file_limit() - 10)
        first = await self.raw(address)
        await first.lost
        answer = self.client().ask(address, request(), 60.0)
        await self.wait(0.1)
        self.assertEqual(self.server.connections, [])
        self.patch(host, "open_files", lambda: 100)
        self.assertEqual((await answer).code, 0)

    async def test_stop_with_big_answers(self) -> None:
        """Answers that a client is still reading when the server stops arrive whole."""
        address = await self.serve(Doing(ECHO, lambda _, asked: asked.answer(body=bytes(4 * MIB))))
        client = await self.raw(address, paused=True)
        client.transport.write(encode(request(ECHO, 1)))
        while not self.hearing.events.count("first_frame"):
            await self.wait(0.01)
        stopped = self.server.stopService()
        await self.wait(0.05)
        client.transport.resumeProducing()
        await stopped
        await client.lost
        self.assertEqual([len(answer.body) for answer in client.answers], [4 * MIB])


class TlsTests(Case):
    """TLS."""

    def setUp(self) -> None:
        super().setUp()
        authority = Authority()
        certificate, key = authority.issue("localhost", "127.0.0.1")
        self.paths = []
        for data in (certificate, key, authority.pem):
            self.paths.append(self.mktemp())
            self.env.files.create(self.paths[-1], data)

    async def test_echo(self) -> None:
        """A permissive port answers TLS and plain clients, large requests too."""
        address = await self.serve(echo(), tls=ServerTLS(self.env, KeyFiles(self.paths[0], self.paths[1])))
        for client in (self.client(ClientTLS(self.env, trust=self.paths[2])), self.client()):
            for size in (0, 1, 100_000, 8 * MIB):
                self.assertEqual(len((await client.ask(address, request(body=bytes(size)), 60.0)).body), size)
        self.assertEqual([one.secure for one in self.server.connections], [True, False])
        self.assertEqual([one.link._send_buffer._direct for one in self.server.connections], [False, True])

    async def test_ends_politely(self) -> None:
        """Both sides say goodbye, so that neither has to wait for the other to be cut."""
        patient = Limits(linger=100.0)
        tls = ServerTLS(self.env, KeyFiles(self.paths[0], self.paths[1]))
        address = await self.serve(echo(), tls=tls, limits=patient)
        for client_first in (True, False):
            client = self.client(ClientTLS(self.env, trust=self.paths[2]), patient)
            await client.ask(address, request(body=bytes(MIB)), 60.0)
            before = self.env.clock.seconds()
            await (client.stop() if client_first else self.server.stopService())
            self.assertLess(self.env.clock.seconds() - before, 60)
        self.assertEqual((self.hearing.events.count("failed"), self.server.connections), (0, []))

    async def test_does_not_read(self) -> None:
        """Back-pressure reaches through TLS: unsent answers are counted, and no more are made."""
        made: list[int] = []

        def big(_: Any, asked: Command) -> bytes:
            made.append(asked.opaque)
            return encode(asked.answer(body=bytes(MIB)))

        address = await self.serve(Doing(ECHO, big), tls=ServerTLS(self.env, KeyFiles(self.paths[0], self.paths[1])))
        client = self.client(ClientTLS(self.env, trust=self.paths[2]))
        await client.ask(address, request())
        (ours,), (theirs,) = client.connections, self.server.connections
        ours.link.transport.pauseProducing()
        answers = [client.ask(address, request(), 120.0) for _ in range(64)]
        await self.wait(0.2)
        self.assertLess(len(made), 24)
        self.assertLess(theirs.unsent, 3 * MIB)
        ours.link.transport.resumeProducing()
        self.assertEqual({len(answer.body) for answer in await gatherResults(answers)}, {MIB})

    async def test_key_readable_by_others(self) -> None:
        """The mode of a real key file is looked at."""
        os.chmod(self.paths[1], 0o644)
        self.assertRaises(SettingError, ServerTLS, self.env, KeyFiles(self.paths[0], self.paths[1]))

    async def test_enforcing(self) -> None:
        """An enforcing port tells plain clients that it wants TLS, and closes."""
        tls = ServerTLS(self.env, KeyFiles(self.paths[0], self.paths[1]), mode=Mode.ENFORCING)
        address = await self.serve(echo(), tls=tls)
        self.assertEqual((await self.client().ask(address, request())).remark, REMARK)
        secure = self.client(ClientTLS(self.env, trust=self.paths[2]))
        self.assertEqual((await secure.ask(address, request())).code, 0)
