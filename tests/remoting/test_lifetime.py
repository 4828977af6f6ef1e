"""A connection that is gone leaves nothing in memory, without the garbage collector: over real sockets."""

from __future__ import annotations

import socket
import struct
import weakref
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred

from smartgo.env.real import RealEnvironment
from smartgo.errors import NotConnected
from smartgo.net.limits import CLIENT, Limits
from smartgo.net.tls import ClientTLS, KeyFiles, Mode, ServerTLS
from smartgo.remoting.client import CallSecurity, RemotingClient
from smartgo.remoting.dispatch import Dispatcher, LongPoll
from smartgo.remoting.plainrefusal import REMARK
from smartgo.remoting.server import RemotingServer
from smartgo.schema.command import encode
from tests.remoting.certificates import Authority
from tests.remoting.doubles import ECHO, LATE, OTHER, Doing, Lates, echo, request, sweeper_of
from tests.remoting.lifetime import LifetimeCase, cut, dial

MIB = 1 << 20

Peer = socket.socket
Act = Callable[[Peer], Awaitable[None]]


class Case(LifetimeCase):
    """A server on a free port."""

    def setUp(self) -> None:
        self.env = RealEnvironment(reactor)
        authority = Authority()
        self.paths = []
        for data in (*authority.issue("localhost", "127.0.0.1"), authority.pem):
            self.paths.append(self.mktemp())
            self.env.files.create(self.paths[-1], data)
        self.late, self.held = Lates(), Lates(LongPoll)
        self.processors = [echo(), Doing(LATE, self.late), Doing(OTHER, self.held)]
        self.processors.append(Doing(310, lambda _, asked: asked.answer(body=bytes(MIB))))
        self.client: RemotingClient | None = None

    async def serve(self, mode: Mode = Mode.PERMISSIVE, limits: Limits | None = None) -> None:
        """Listen."""
        self.server = RemotingServer(
            self.env,
            "tcp:0:interface=127.0.0.1",
            Dispatcher(self.processors),
            sweeper_of(self.env.clock),
            limits=limits or Limits(),
            tls=ServerTLS(self.env, KeyFiles(self.paths[0], self.paths[1]), mode=mode),
        )
        await self.server.open()
        self.server.startService()
        self.port = self.server.ports[0]

    def tearDown(self) -> Deferred[None]:  # type: ignore[override]
        """Stop all."""
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        if self.client is not None:
            await self.client.stop()
        for connection in self.server.connections:
            connection.link.abort()
        await self.server.stopService()
        await self.env.threads.stop()

    async def first(self) -> Any:
        """Return the server's connection once it is there."""
        await self.until(lambda: bool(self.server.connections), "no connection")
        return self.server.connections[0]


class ServerTests(Case):
    """Connections that were accepted."""

    async def each_way(self, act: Act, what: str, secure: tuple[bool, ...] = (False, True)) -> None:
        """Do something on a connection that ends it, plain and with TLS; nothing may be left of it."""
        await self.serve()
        for with_tls in secure:  # once to warm up what is made once and stays
            await self._one(act, with_tls)
        self.watch_memory()
        for with_tls in secure:
            ended = await self._one(act, with_tls)
            await self.assert_freed(f"{what}, {'TLS' if with_tls else 'plain'}")
            self.assertEqual(ended(), None)
            self.assertEqual(self.server.sweeper.budget.used, 0)

    async def _one(self, act: Act, secure: bool) -> Any:
        peer = await self.in_thread(dial, self.port, secure)
        connection = await self.first()
        ended = weakref.ref(connection)
        del connection
        await act(peer)
        await self.until(lambda: not self.server.connections, "it is still there")
        await self.in_thread(peer.close)
        self.late.pending.clear()
        self.late.requests.clear()
        self.held.pending.clear()
        self.held.requests.clear()
        await self.turn(3)
        return ended

    async def say(self, peer: Peer, *requests: Any) -> None:
        """Send requests."""
        await self.in_thread(peer.sendall, b"".join(map(encode, requests)))

    async def test_peer_closes(self) -> None:
        """After an answer the peer closes."""

        async def act(peer: Peer) -> None:
            await self.say(peer, request(ECHO, body=bytes(100)))
            await self.in_thread(peer.recv, 1000)
            await self.in_thread(peer.close)

        await self.each_way(act, "a close by the peer")

    async def test_we_close(self) -> None:
        """After an answer we close."""

        async def act(peer: Peer) -> None:
            await self.say(peer, request(ECHO))
            await self.in_thread(peer.recv, 1000)
            (await self.first()).close("test")
            await self.in_thread(peer.recv, 1000)
            await self.in_thread(peer.close)

        await self.each_way(act, "a close by us")

    async def test_middle_of_a_frame(self) -> None:
        """The peer sends the beginning of a long frame and is gone; so an attacker filled the memory."""

        async def act(peer: Peer) -> None:
            await self.in_thread(peer.sendall, struct.pack(">i", 16 * MIB) + bytes(MIB))
            await self.until(lambda: self.server.sweeper.budget.used > MIB, "the bytes did not arrive")
            await self.in_thread(cut, peer)

        await self.each_way(act, "the middle of a frame")

    async def test_aborted_by_us(self) -> None:
        """We cut a peer in the middle of a frame."""

        async def act(peer: Peer) -> None:
            await self.in_thread(peer.sendall, struct.pack(">i", 16 * MIB) + bytes(MIB))
            await self.until(lambda: self.server.sweeper.budget.used > MIB, "the bytes did not arrive")
            (await self.first()).link.abort()

        await self.each_way(act, "an abort by us")

    async def test_garbage(self) -> None:
        """The peer sends what is no frame."""

        async def act(peer: Peer) -> None:
            await self.in_thread(peer.sendall, b"GET / HTTP/1.1\r\n\r\n")
            await self.in_thread(peer.recv, 1000)
            await self.in_thread(peer.close)

        await self.each_way(act, "garbage")

    async def test_held(self) -> None:
        """The peer goes while long polls are held."""

        async def act(peer: Peer) -> None:
            await self.say(peer, *(request(OTHER, number, bytes(1000)) for number in range(10)))
            await self.until(lambda: len(self.held.pending) == 10, "not held")
            await self.in_thread(cut, peer)

        await self.each_way(act, "held pulls")

    async def test_in_flight(self) -> None:
        """The peer goes while requests are in flight, which nobody ever answers."""
        kept: list[Any] = []

        async def act(peer: Peer) -> None:
            await self.say(peer, *(request(LATE, number, bytes(1000)) for number in range(10)))
            await self.until(lambda: len(self.late.pending) == 10, "not in flight")
            kept.extend(self.late.pending)
            await self.in_thread(cut, peer)

        await self.serve()
        peer = await self.in_thread(dial, self.port)
        ended = weakref.ref(await self.first())
        await act(peer)
        await self.until(lambda: not self.server.connections, "it is still there")
        await self.turn(3)
        self.assertEqual((ended(), len(kept)), (None, 10))
        for one in kept:
            one.callback(None)

    async def test_unsent(self) -> None:
        """The peer asks for more than it reads, and goes."""

        async def act(peer: Peer) -> None:
            await self.say(peer, *(request(310, number) for number in range(40)))
            await self.first()
            await self.until(lambda: self.server.connections[0].unsent > 0, "all was sent")
            await self.in_thread(cut, peer)

        await self.each_way(act, "unsent answers")

    async def test_calls(self) -> None:
        """The peer goes while we wait for its answer."""

        async def act(peer: Peer) -> None:
            await self.say(peer, request(ECHO))
            await self.in_thread(peer.recv, 1000)
            waiting = (await self.first()).ask(request(ECHO), 30.0)
            await self.in_thread(peer.recv, 1000)
            await self.in_thread(cut, peer)
            await self.assertFailure(waiting, NotConnected)

        await self.each_way(act, "outstanding calls")

    async def test_handshake(self) -> None:
        """The peer begins a handshake and goes, or says nothing at all."""
        for hello in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", b""):

            async def act(peer: Peer, hello: bytes = hello) -> None:
                if hello:
                    await self.in_thread(peer.sendall, hello)
                    await self.turn(5)
                await self.in_thread(cut, peer)

            await self.each_way(act, "a handshake", (False,))
            await self.server.stopService()

    async def test_refused(self) -> None:
        """A plain peer on a port that wants TLS."""
        await self.serve(Mode.ENFORCING)
        for again in (False, True):
            if again:
                self.watch_memory()
            peer = await self.in_thread(dial, self.port)
            await self.in_thread(peer.sendall, encode(request(ECHO)) + bytes(1000))
            self.assertIn(REMARK.encode(), await self.in_thread(self.rest, peer))
            await self.in_thread(peer.close)
            await self.until(lambda: not self.server.connections, "it is still there")
            await self.turn(3)
        await self.assert_freed("a refusal")

    @staticmethod
    def rest(peer: Peer) -> bytes:
        """Read to the end."""
        try:
            return peer.recv(1000)
        except ConnectionResetError:
            return b""


class ClientTests(Case):
    """Connections that we dialled."""

    async def each_way(self, act: Callable[[RemotingClient, str], Awaitable[None]], what: str, *besides: str) -> None:
        """Do something with a client that ends its connection, plain and with TLS."""
        await self.serve(limits=Limits(stop=0.01))
        clients = []
        for tls in (None, ClientTLS(self.env, trust=self.paths[2])):
            clients.append(
                RemotingClient(self.env, sweeper_of(self.env.clock), security=CallSecurity(tls), limits=CLIENT)
            )
        for again in (False, True):
            if again:
                self.watch_memory()
            for client in clients:
                await act(client, f"127.0.0.1:{self.port}")
                await self.until(lambda: not self.server.connections, "it is still there")
                await self.until(partial(self.over, client), "it is still there")
                self.late.pending.clear()
                self.late.requests.clear()
                await self.turn(3)
        await self.assert_freed(what, *besides)
        for client in clients:
            await client.stop()

    @staticmethod
    def over(client: RemotingClient) -> bool:
        """Tell whether a client has no connection."""
        return not client._alive

    async def test_hangs_up(self) -> None:
        """We ask, are answered, and hang up."""

        async def act(client: RemotingClient, address: str) -> None:
            self.assertEqual(len((await client.ask(address, request(ECHO, body=bytes(MIB)), 30.0)).body), MIB)
            client.hang_up(address, "test")

        await self.each_way(act, "hanging up")

    async def test_lost(self) -> None:
        """The server cuts the connection while we wait for an answer."""

        async def act(client: RemotingClient, address: str) -> None:
            waiting = client.ask(address, request(LATE, body=bytes(1000)), 30.0)
            await self.until(lambda: bool(self.late.pending), "not in flight")
            self.server.connections[0].link.abort()
            await self.assertFailure(waiting, NotConnected)

        await self.each_way(act, "a lost connection")

    async def test_nobody(self) -> None:
        """Nobody listens there: what Twisted made for the attempt alone is left to the collector, without a buffer."""
        nowhere = f"127.0.0.1:{self.env.network.free_port()}"

        async def act(client: RemotingClient, address: str) -> None:
            await self.assertFailure(client.ask(nowhere, request(ECHO, body=bytes(MIB)), 30.0), NotConnected)

        await self.each_way(act, "a refused connection", "Client")

    async def test_distrusted(self) -> None:
        """The server's certificate is not one that we trust."""
        other = self.mktemp()
        self.env.files.create(other, Authority().pem)
        client = RemotingClient(
            self.env, sweeper_of(self.env.clock), security=CallSecurity(ClientTLS(self.env, trust=other))
        )
        await self.serve()
        for again in (False, True):
            if again:
                self.watch_memory()
            await self.assertFailure(client.ask(f"127.0.0.1:{self.port}", request(ECHO), 30.0), NotConnected)
            await self.until(lambda: not self.server.connections and not client._alive, "it is still there")
            await self.turn(3)
        await self.assert_freed("a certificate that is not trusted")
        await client.stop()
