"""
A master's repair of its damaged log with the bytes of a slave.

A slave that follows asks at the master's main port every few seconds how far the log goes, and names its own main port
(L{smartgo.broker.processors.logend}). Such a question has passed C{haAllow} and, where there is one, the key. While the
log has damage the slave is asked for the bytes there, at the address that its question came from: nobody can point a
master at somebody else. RocketMQ's slaves ask no such question, and are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from smartgo.broker.cluster.damagefetcher import DamageFetcher
from smartgo.errors import CallFailed
from smartgo.store.backgroundtask import BackgroundTask

AGAIN: Final = 60.0
"""Seconds until a slave that could not be asked is asked again."""
_MOST: Final = 256  # slaves that could not be asked


class ReplicaRepair:
    """Asks slaves for the bytes of damaged regions of a master's log."""

    _log = Logger()

    def __init__(
        self, seconds: Callable[[], float], fetcher: DamageFetcher, connected: Callable[[], Collection[str]]
    ) -> None:
        """
        @param seconds: the monotonic clock.
        @param connected: returns the IP addresses of the slaves that follow now.
        """
        self._seconds = seconds
        self._fetcher = fetcher
        self._connected = connected
        self._task = BackgroundTask("the repair from a slave")
        self._working = self._stopped = False
        self._later: dict[str, float] = {}  # who could not be asked -> when it is asked again

    def heard(self, ip: str, port: int) -> None:
        """Ask a slave that has named its main port, if there is damage that it may put right."""
        peer = f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"
        if self._working or self._stopped or not self._fetcher.wanted(peer):
            return
        if ip not in self._connected() or self._seconds() < self._later.get(peer, 0.0):
            return
        self._working = True
        work = Deferred.fromCoroutine(self._repair(peer))
        self._task.follow(work, lambda _: None).addCallback(self._ended)

    async def _repair(self, peer: str) -> None:
        try:
            await self._fetcher.repair(peer)
            self._later.pop(peer, None)
        except CallFailed as error:
            if len(self._later) >= _MOST:
                self._later.clear()
            self._later[peer] = self._seconds() + AGAIN
            self._log.warn(
                "the slave {peer} cannot be asked for what is damaged here: {error}; again in {s:.0f} s",
                peer=peer,
                error=str(error),
                s=AGAIN,
            )

    def _ended(self, _: None) -> None:
        self._working = False

    async def stop(self) -> None:
        """Ask nobody any more; return when nothing runs."""
        self._stopped = True
        await self._task.idle()
