"""
Notification of the program that started the process: systemd's C{Type=notify}, and others that speak it.

C{NOTIFY_SOCKET} names a datagram socket that takes C{NAME=VALUE} lines: C{READY=1} once clients can connect,
C{RELOADING=1} and C{READY=1} again around a reload, C{STOPPING=1}, and C{WATCHDOG=1} at half of C{WATCHDOG_USEC}, which
the reactor sends and so ceases with it. Source: C{sd_notify(3)}, C{sd_watchdog_enabled(3)}.
"""

from __future__ import annotations

from typing import Final

from twisted.application.service import Service
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from smartgo.env.interfaces import IEnvironment

_SHORTEST_BEAT: Final = 0.1  # seconds


class Notifier(Service):
    """
    Speaks to the socket, where there is one; without it every method does nothing.

    @ivar beat: seconds between two signs of life; 0 where nobody waits for them.
    """

    _log = Logger()

    def __init__(self, env: IEnvironment) -> None:
        self._env = env
        self._path = env.host.variable("NOTIFY_SOCKET") or ""
        self._call: IDelayedCall | None = None
        self._stopped = False
        self.beat = self._beat()

    def _beat(self) -> float:
        text = self._env.host.variable("WATCHDOG_USEC") or ""
        meant_for = self._env.host.variable("WATCHDOG_PID") or ""
        if not self._path or not text.isdecimal() or not int(text):
            return 0.0
        if meant_for and meant_for != str(self._env.host.pid):
            return 0.0  # inherited from a parent that is watched
        return max(_SHORTEST_BEAT, int(text) / 2_000_000)

    def ready(self) -> None:
        """Report that all parts serve; begin to send keep-alives."""
        if self._stopped:
            return
        self._tell("READY=1")
        if self.beat and self._call is None:
            self._next()

    def reloading(self) -> None:
        """Settings are read anew; C{ready} says that this is over."""
        self._tell(f"RELOADING=1\nMONOTONIC_USEC={round(self._env.clock.seconds() * 1e6)}")

    def stopService(self) -> None:
        """Report that the process stops, and send nothing from then on."""
        super().stopService()
        self._stopped = True
        if self._call is not None:
            self._call.cancel()
            self._call = None
        self._tell("STOPPING=1")

    def _next(self) -> None:
        self._call = self._env.clock.callLater(self.beat, self._alive)

    def _alive(self) -> None:
        self._next()
        self._tell("WATCHDOG=1")

    def _tell(self, words: str) -> None:
        if not self._path:
            return
        try:
            self._env.network.tell(self._path, words.encode())
        except OSError as error:
            self._log.warn(
                "{words}: could not be reported to {path}: {error}", words=words, path=self._path, error=str(error)
            )
