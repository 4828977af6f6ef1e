"""A slave's connection to its master: a session on a link."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from smartgo.env.interfaces import IClock
from smartgo.errors import NotConnected, PeerTooSlow, SmartgoError
from smartgo.ha.transfer import SlaveEnd
from smartgo.net.alarm import NEVER, Alarm
from smartgo.net.limits import Limits
from smartgo.net.link import Link
from smartgo.net.session import NullSession
from smartgo.net.tls import HandshakeFailed
from smartgo.observer import OneShotObserver

LIMITS: Final = Limits(first_frame=NEVER, idle=NEVER, unsent_seconds=NEVER, linger=1.0)
"""Of the connection to a master. The deadlines, but for the handshake's, are those of L{SlaveEnd}."""


class Stream(NullSession):
    """
    A slave's connection to its master: appends what arrives, and reports it.

    @ivar link: the connection.
    @ivar end: the logic of it.
    @ivar over: fires when it is over, with why.
    @ivar gone: happens when the connection is gone.
    """

    def __init__(self, link: Link, clock: IClock, end: SlaveEnd, heard: Callable[[], None]) -> None:
        """
        @param heard: called after each chunk.
        """
        self.link = link
        self._clock = clock
        self.end = end
        self._heard = heard
        self._alarm = Alarm(clock, self._due, self._check)
        self.over: Deferred[SmartgoError] = Deferred()
        self.gone: OneShotObserver[None] = OneShotObserver()

    def opened(self) -> None:
        """Send the first report, which asks for what comes after our log."""
        self._write(self.end.begin(self._clock.seconds()))
        self._alarm.set()

    def received(self, data: bytes) -> None:
        """Append all of it, then report once."""
        try:
            self.end.receive(data, self._clock.seconds())
        except SmartgoError as error:
            self.fail(error)
            return
        self.report()
        self._heard()

    def _write(self, data: bytes) -> None:
        """Send at once: these are whole messages, and somebody waits for them."""
        if data:
            self.link.send(data)

    def report(self) -> None:
        """Report our end of the log, if it has moved since the last report."""
        if self.link.ready:
            self._write(self.end.report(self._clock.seconds()))

    def fail(self, error: SmartgoError) -> None:
        """Cut the connection, for this reason."""
        self._alarm.stop()
        self.link.abort()
        self._over(error)

    def leave(self) -> None:
        """Close the connection after what was put is sent."""
        self._alarm.stop()
        self.link.end()

    def failed(self, failure: Failure) -> bool:
        """Record why the link ends the stream; the follower logs it. Bugs are left to the link to log."""
        error = failure.value
        if isinstance(error, PeerTooSlow):
            self._over(NotConnected(f"there is no TLS within {LIMITS.handshake:g} s"))
        return isinstance(error, SmartgoError) or self._unagreed

    @property
    def _unagreed(self) -> bool:
        """Tell whether a TLS handshake was due and did not succeed."""
        return self.link.tls is not None and not self.link.secure

    def ending(self) -> None:
        """Set no more timers, and keep nothing that leads back here."""
        self._alarm.end()

    def lost(self, reason: Failure) -> None:
        """Report why the stream is over."""
        why = f"the connection was lost: {reason.getErrorMessage()}"
        if self._unagreed and not reason.check(HandshakeFailed):
            why = "the connection was lost before TLS was agreed on; does the master speak TLS (tls.server.certPath)?"
        self._over(NotConnected(why))
        self.gone.fire(None)

    def _over(self, error: SmartgoError) -> None:
        if not self.over.called:
            self.over.callback(error)

    def _due(self) -> float:
        return self.end.due if self.link.open else NEVER

    def _check(self, now: float) -> None:
        try:
            self._write(self.end.check(now))
        except SmartgoError as error:
            self.fail(error)
