"""HTTP connections leave nothing in memory when they end, without the garbage collector: over real sockets."""

from __future__ import annotations

import os
import socket
import weakref
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from tests.ops.live import TOKEN, Live
from tests.ops.test_service import certificates
from tests.remoting.certificates import Authority
from tests.remoting.lifetime import LifetimeCase, cut, dial


def answer(peer: socket.socket, until: bytes = b"}") -> bytes:
    """Read until these bytes have come, or the end."""
    data = b""
    while until not in data:
        more = peer.recv(65536)
        if not more:
            break
        data += more
    return data


INSIDE = ("Account", "Calls", "Client", "Connection", "LengthFieldDecoder", "SendBuffer", "Link", "Server")
"""Connections inside the node, which it makes when it likes."""
KLEIN = "OpsRequest"
"""Klein keeps each request in a function that calls itself, until the collector comes; it has no connection by then."""


def _is_gone(reference: weakref.ref[Any]) -> bool:
    return reference() is None


class LifetimeTests(LifetimeCase):
    """A node with an API, and connections that end in every way."""

    async def live(self, secure: bool) -> None:
        """Start a node; it is stopped after the test."""
        folder: str = os.path.abspath(self.mktemp())
        os.makedirs(folder)
        self.node = Live(folder, **(certificates(folder, Authority()) if secure else {}))
        self.addCleanup(self.node.stop)
        self.env = self.node.env
        await self.node.start()
        self.head = f"Host: 127.0.0.1:{self.node.port}\r\nAuthorization: Bearer {TOKEN}\r\n"

        self.secure = secure

    def get(self, path: str) -> bytes:
        """A request."""
        return f"GET {path} HTTP/1.1\r\n{self.head}\r\n".encode()

    async def each(self, act: Callable[[socket.socket], Awaitable[None]], what: str) -> None:
        """Do something on a connection that ends it, plain and with TLS; nothing may be left of it."""
        for secure in (False, True):
            await self.live(secure)
            for again in (False, False, True, True):
                if again:
                    self.watch_memory()
                peer = await self.in_thread(dial, self.node.port, secure)
                await self.until(lambda: self.count() == 1, "no connection")
                transport = self.transport()
                await act(peer)
                await self.in_thread(peer.close)
                await self.until(lambda: self.count() == 0, "it is still there")
                await self.turn(3)
                if again:
                    kind = f"{what}, {'TLS' if secure else 'plain'}"
                    await self.assert_freed(kind, *INSIDE, KLEIN)
                    await self.until(partial(_is_gone, transport), f"the transport is left after {kind}")

    def count(self) -> int:
        """How many connections there are to the API."""
        ops = self.node.node.ops
        assert ops is not None
        return len(ops.site.links)

    def transport(self) -> weakref.ref[Any]:
        """The socket of the connection that there is."""
        ops = self.node.node.ops
        assert ops is not None
        (link,) = ops.site.links
        return weakref.ref(link.transport)

    async def test_kept_alive(self) -> None:
        """Three requests on one connection, which the client then closes."""

        async def act(peer: socket.socket) -> None:
            for _ in range(3):
                await self.in_thread(peer.sendall, self.get("/api/v1/health"))
                self.assertIn(b"200 OK", await self.in_thread(answer, peer))

        await self.each(act, "kept alive")

    async def test_closed_by_us(self) -> None:
        """The client asks us to close."""

        async def act(peer: socket.socket) -> None:
            await self.in_thread(
                peer.sendall, self.get("/api/v1/health").replace(b"Host", b"Connection: close\r\nHost", 1)
            )
            self.assertIn(b"200 OK", await self.in_thread(answer, peer, b"never"))

        await self.each(act, "a close by us")

    async def test_middle_of_a_body(self) -> None:
        """The client is gone in the middle of a body."""

        async def act(peer: socket.socket) -> None:
            kind = "Content-Type: application/json\r\nContent-Length: 60000\r\n\r\n"
            begin = f"POST /api/v1/topics HTTP/1.1\r\n{self.head}{kind}"
            await self.in_thread(peer.sendall, begin.encode() + bytes(30_000))
            await self.turn(20)
            await self.in_thread(cut, peer)

        await self.each(act, "the middle of a body")

    async def test_middle_of_a_head(self) -> None:
        """The client is gone in the middle of a head, or before it has said anything."""

        async def act(peer: socket.socket) -> None:
            await self.in_thread(peer.sendall, self.get("/api/v1/health")[:40])
            await self.turn(20)
            await self.in_thread(cut, peer)

        await self.each(act, "the middle of a head")

    async def test_refused(self) -> None:
        """What is no HTTP is refused."""

        async def act(peer: socket.socket) -> None:
            await self.in_thread(peer.sendall, b"\0\1\2 rubbish\r\n\r\n" + b"x" * 1000)
            self.assertIn(b"400", await self.in_thread(answer, peer))
            await self.in_thread(cut, peer)

        await self.each(act, "a refusal")

    async def test_stream(self) -> None:
        """A client listens to events, and goes."""

        async def act(peer: socket.socket) -> None:
            await self.in_thread(peer.sendall, self.get("/api/v1/events"))
            self.assertIn(b"text/event-stream", await self.in_thread(answer, peer, b"retry"))
            await self.in_thread(cut, peer)

        await self.each(act, "a stream of events")

    async def test_unsent(self) -> None:
        """A client asks for much and takes nothing of it."""

        async def act(peer: socket.socket) -> None:
            await self.in_thread(peer.setsockopt, socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            await self.in_thread(peer.sendall, self.get("/api/v1/openapi.json") * 40)
            await self.turn(50)
            await self.in_thread(cut, peer)

        await self.each(act, "unsent answers")
