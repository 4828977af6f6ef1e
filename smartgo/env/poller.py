"""A set of sockets behind one descriptor of the reactor: an epoll instance, which can itself be polled."""

from __future__ import annotations

import select
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import Any

from twisted.internet.interfaces import IReactorFDSet, IReadDescriptor
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from smartgo.env.interfaces import IPoller


def epoll_poller(reactor: Any, ready: Callable[[], None]) -> IPoller | None:
    """Make an epoll instance that a reactor polls; C{None} where the system or the reactor has no such thing."""
    if not hasattr(select, "epoll") or not IReactorFDSet.providedBy(reactor):
        return None
    return EpollPoller(reactor, ready)


@implementer(IPoller, IReadDescriptor)
class EpollPoller:
    """One descriptor for the reactor, which can be read while a socket in its epoll instance can."""

    _log = Logger()

    def __init__(self, reactor: Any, ready: Callable[[], None]) -> None:
        self._reactor = reactor
        self._ready = ready
        self._epoll = select.epoll()
        reactor.addReader(self)

    def doRead(self) -> None:
        """Have the sockets read. An exception must not reach the reactor, which would poll none of them any more."""
        try:
            self._ready()
        except Exception:
            self._log.failure("reading sockets failed")

    def fileno(self) -> int:
        """Return the epoll instance's; -1 once it is closed."""
        return self._epoll.fileno() if not self._epoll.closed else -1

    def watched(self) -> int:
        """Return the descriptor of the reactor's own epoll instance, which holds this one; -1: it has none."""
        poller = getattr(self._reactor, "_poller", None)  # a private name of Twisted's: a test notices a change
        return poller.fileno() if isinstance(poller, select.epoll) else -1

    def spare(self) -> float:
        """Return the seconds until the reactor's next timer."""
        timeout = getattr(self._reactor, "timeout", None)
        seconds: float | None = 0.0 if timeout is None else timeout()
        return inf if seconds is None else seconds

    def logPrefix(self) -> str:
        """Name it in the log."""
        return "poller"

    def connectionLost(self, reason: Failure) -> None:
        """Close: the reactor has ended."""
        self.close()

    def add(self, fd: int) -> None:
        """Add a socket."""
        self._epoll.register(fd, select.EPOLLIN)

    def remove(self, fd: int) -> None:
        """Remove a socket."""
        with suppress(OSError, ValueError):
            self._epoll.unregister(fd)

    def readable(self, limit: int) -> list[int]:
        """Return sockets that can be read."""
        return [fd for fd, _ in self._epoll.poll(0, limit)]

    def close(self) -> None:
        """Leave the reactor."""
        self._reactor.removeReader(self)
        self._epoll.close()
