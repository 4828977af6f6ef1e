"""Pollers over a real reactor."""

from __future__ import annotations

import select
import socket
from typing import Any, cast
from unittest import SkipTest

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import Clock
from twisted.trial.unittest import TestCase

from smartgo.env.poller import EpollPoller, epoll_poller


class PollerTests(TestCase):
    def test_called(self) -> Deferred[None]:
        """The reactor calls it while a socket can be read, and no more once it is closed."""
        ours, theirs = socket.socketpair()
        self.addCleanup(ours.close)
        self.addCleanup(theirs.close)
        done: Deferred[None] = Deferred()
        called: list[list[int]] = []

        def ready() -> None:
            called.append(poller.readable(10))
            if len(called) == 2:  # nobody has read what is there
                poller.remove(theirs.fileno())
                poller.close()
                done.callback(None)

        poller: Any = epoll_poller(reactor, ready)
        poller.add(theirs.fileno())
        self.assertEqual(poller.readable(10), [])
        ours.send(b"x")
        return done.addCallback(lambda _: self.assertEqual((called, poller.fileno()), ([[theirs.fileno()]] * 2, -1)))

    def test_removed(self) -> None:
        """A socket that was closed before can be removed; a reactor without descriptors has no poller."""
        poller: Any = epoll_poller(reactor, lambda: None)
        self.addCleanup(poller.close)
        ours, theirs = socket.socketpair()
        fd = theirs.fileno()
        poller.add(fd)
        ours.close()
        theirs.close()
        poller.remove(fd)
        self.assertEqual(poller.readable(1), [])
        self.assertIsNone(epoll_poller(Clock(), lambda: None))

    def test_bug(self) -> Deferred[None]:
        """An exception is logged, and the sockets are polled as before."""
        ours, theirs = socket.socketpair()
        self.addCleanup(ours.close)
        self.addCleanup(theirs.close)
        done: Deferred[None] = Deferred()
        called: list[int] = []

        def ready() -> None:
            called.append(1)
            if len(called) == 3:
                poller.close()
                reactor.callLater(0, done.callback, None)
            raise ValueError("a bug")

        poller: Any = epoll_poller(reactor, ready)
        poller.add(theirs.fileno())
        ours.send(b"x")
        return done.addCallback(lambda _: self.assertEqual(len(self.flushLoggedErrors(ValueError)), 3))

    def test_reactor(self) -> None:
        """It tells what the reactor polls, and when its next timer is due."""
        poller: Any = epoll_poller(reactor, lambda: None)
        self.addCleanup(poller.close)
        around = poller.watched()
        if around < 0 and type(reactor).__name__ != "EPollReactor":
            raise SkipTest("this reactor has no epoll instance")
        ours, theirs = socket.socketpair()
        self.addCleanup(ours.close)
        self.addCleanup(theirs.close)
        poller.add(theirs.fileno())
        self.assertEqual(select.select([around], [], [], 0)[0], [])
        ours.send(b"x")
        self.assertEqual(select.select([around], [], [], 0)[0], [around])
        call = cast(IReactorTime, reactor).callLater(0.5, int)
        self.assertLessEqual(poller.spare(), 0.5)
        call.reset(0)
        self.assertEqual(poller.spare(), 0.0)
        call.cancel()

    def test_other_reactors(self) -> None:
        """Of a reactor without an epoll instance or without known timers nothing is expected."""
        poller = EpollPoller(_OtherReactor(), lambda: None)
        self.addCleanup(poller.close)
        self.assertEqual((poller.watched(), poller.spare()), (-1, 0.0))


class _OtherReactor:
    """A reactor that keeps its ways to itself."""

    def addReader(self, reader: object) -> None:
        """Poll it."""

    removeReader = addReader
