"""Counting what connections leave in memory, with the garbage collector off."""

from __future__ import annotations

import gc
import socket
import ssl
import struct
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.tcp import Client, Server
from twisted.trial.unittest import TestCase

from smartgo.env.interfaces import IEnvironment
from smartgo.ha.feed import Feed, Refused
from smartgo.ha.stream import Stream
from smartgo.net.account import Account
from smartgo.net.link import Link
from smartgo.net.sendbuffer import SendBuffer
from smartgo.net.tlslayer import TLSLayer
from smartgo.ops.web.channel import Channel
from smartgo.ops.web.httpsession import HttpSession
from smartgo.ops.web.linktransport import LinkTransport
from smartgo.ops.web.request import OpsRequest
from smartgo.ops.web.streams import EventStream
from smartgo.remoting.calls import Calls
from smartgo.remoting.connection import Connection
from smartgo.remoting.dispatch import Later
from smartgo.remoting.framing import LengthFieldDecoder

T = TypeVar("T")

KINDS = frozenset(
    {
        Account, Calls, Channel, Client, Connection, EventStream, Feed, HttpSession, Later, LengthFieldDecoder,
        LinkTransport, OpsRequest, SendBuffer, Refused, Link, Server, Stream, TLSLayer,
    }
)  # fmt: skip
"""What there is one of, or several, for each connection."""

GRACE = 10.0  # seconds for a connection to be seen as gone; no test waits for it where all is well


def live() -> Counter[str]:
    """Count the objects of these kinds that are in memory."""
    return Counter(type(one).__name__ for one in gc.get_objects() if type(one) in KINDS)


class LifetimeCase(TestCase):
    """Compares what is in memory before and after, with the collector off; peers are sockets in a thread."""

    timeout = 120
    env: IEnvironment

    def watch_memory(self) -> None:
        """Begin to compare: from here on nothing may be left but by reference counting."""
        gc.collect()
        gc.disable()
        self.addCleanup(gc.enable)
        self._before = live()

    async def in_thread(self, function: Callable[..., T], *args: Any) -> T:
        """Do what may block in a thread, while the reactor goes on."""
        done: T = await self.env.threads.run("peer", function, *args)
        return done

    async def turn(self, times: int = 1) -> None:
        """Let the reactor turn."""
        for _ in range(times):
            passed: Deferred[None] = Deferred()
            self.env.clock.callLater(0, passed.callback, None)
            await passed

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Let the reactor turn until something is so."""
        end = self.env.clock.seconds() + GRACE
        while not condition():
            self.assertLess(self.env.clock.seconds(), end, what)
            passed: Deferred[None] = Deferred()
            self.env.clock.callLater(0.001, passed.callback, None)
            await passed

    async def assert_freed(self, what: str, *besides: str) -> None:
        """
        Fail where anything is left that was not there before.

        @param besides: the kinds of which some may be left.
        """
        end = self.env.clock.seconds() + GRACE
        while True:  # what runs just now may have a connection in hand for some turns more
            await self.turn(3)
            left = live() - self._before
            for kind in besides:
                left.pop(kind, None)
            if not left or self.env.clock.seconds() >= end:
                break
        self.assertEqual(left, Counter(), f"left after {what}")


def dial(port: int, secure: bool = False) -> socket.socket:
    """Connect; C{secure}: with TLS, whoever answers."""
    plain = socket.create_connection(("127.0.0.1", port), timeout=30)
    if not secure:
        return plain
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(plain)


def cut(peer: socket.socket) -> None:
    """End a connection by a reset."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
