"""A reactor on an asyncio loop that runs already: what it does to the loop, and what it leaves there."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Coroutine
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import TestCase

from smartgo.env.loopreactor import LoopReactor


def on_loop(work: Coroutine[Any, Any, None]) -> Deferred[None]:
    """Run a coroutine by C{asyncio.run} in a thread."""
    return deferToThread(asyncio.run, work)


def sockets() -> set[str]:
    """Return the open sockets of this process."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # that of the listing itself
            found.add(os.readlink(f"/proc/self/fd/{name}"))
    return {one for one in found if one.startswith("socket:")}


async def ended(reactor: LoopReactor) -> None:
    """End a reactor, and wait for that."""
    await reactor.end().asFuture(asyncio.get_running_loop())


class LoopReactorTests(TestCase):
    def test_no_loop(self) -> None:
        """Without a running loop there is no reactor."""
        self.assertRaises(RuntimeError, LoopReactor)

    def test_loop_goes_on(self) -> Deferred[None]:
        """The end of a reactor neither stops its loop nor disturbs another reactor on it; none is installed."""
        installed = sys.modules.get("twisted.internet.reactor")

        async def work() -> None:
            first, second = LoopReactor(), LoopReactor()
            fired: asyncio.Queue[int] = asyncio.Queue()
            first.callLater(3600, fired.put_nowait, 1)
            second.callLater(0.01, fired.put_nowait, 2)
            await ended(first)
            self.assertEqual(first.getDelayedCalls(), [])
            self.assertEqual(await fired.get(), 2)
            await ended(second)
            self.assertFalse(first.running or second.running)

        return on_loop(work()).addCallback(
            lambda _: self.assertIs(sys.modules.get("twisted.internet.reactor"), installed)
        )

    def test_threads(self) -> Deferred[None]:
        """What a thread asks for is called on the loop's thread, and threads have ended with the reactor."""

        async def work() -> None:
            reactor = LoopReactor()
            loop = asyncio.get_running_loop()
            called = loop.create_future()
            await in_thread_of(reactor, lambda: reactor.callFromThread(called.set_result, True))
            self.assertTrue(await called)
            pool = reactor.getThreadPool()
            await ended(reactor)
            self.assertEqual([one for one in pool.threads if one.is_alive()], [])
            self.assertTrue(pool.threads)

        return on_loop(work())

    def test_sockets(self) -> Deferred[None]:
        """A port and its connections work on the loop; the end of the reactor closes their file descriptors."""

        async def work() -> None:
            before = sockets()
            reactor = LoopReactor()
            arrived: asyncio.Queue[bytes] = asyncio.Queue()

            class Receiver(Protocol):
                def dataReceived(self, data: bytes) -> None:
                    arrived.put_nowait(data)

            port = reactor.listenTCP(0, Factory.forProtocol(Receiver), interface="127.0.0.1")
            _, writer = await asyncio.open_connection("127.0.0.1", port.getHost().port)
            writer.write(b"hello")
            self.assertEqual(await arrived.get(), b"hello")
            await ended(reactor)
            writer.close()
            await writer.wait_closed()
            self.assertEqual(sockets(), before)

        return on_loop(work())

    def test_signals(self) -> None:
        """Signal handlers stay the program's."""
        before = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)]

        async def work() -> None:
            reactor = LoopReactor()
            self.assertEqual([signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)], before)
            await ended(reactor)

        loop = asyncio.new_event_loop()
        try:
            loop.run_until_complete(work())
        finally:
            loop.close()


def in_thread_of(reactor: LoopReactor, function: Any) -> asyncio.Future[Any]:
    """Call a function in a thread of a reactor."""
    done: Deferred[Any] = Deferred()
    reactor.callInThread(lambda: reactor.callFromThread(done.callback, function()))
    return done.asFuture(asyncio.get_running_loop())
