"""One slave's connection to a master, and that of one that is not let in."""

from __future__ import annotations

from functools import partial
from typing import Final, Protocol

from twisted.internet.interfaces import IDelayedCall, IPushProducer
from twisted.python.failure import Failure
from zope.interface import implementer

from smartgo.env.interfaces import IClock
from smartgo.errors import FramingError
from smartgo.ha.link import ReplicationLink
from smartgo.ha.transfer import MasterEnd
from smartgo.net.tls import CLIENT_HELLO, Mode, ServerTLS, readable
from smartgo.store.interfaces import IReplicatedLog

_HELLO: Final = bytes([CLIENT_HELLO])
_SLICE: Final = 1024 * 1024
"""
Bytes of the log that one slave gets in one reactor turn, so that sends go on meanwhile.

A master that is busy makes few turns a second, each of many sends: with less a slave would not keep up with them.
"""


class RateLimitedLog(Protocol):
    """Takes sentences about peers to the log, not more than one a minute and address."""

    def warn(self, ip: str, sentence: str, **fields: object) -> None:
        """Log a sentence with named fields, unless there was one about this address lately."""


class Owner(Protocol):
    """Whose connections these are: a master."""

    clock: IClock
    log: IReplicatedLog
    complaints: RateLimitedLog
    tls: ServerTLS | None

    def connected(self, link: Feed | Refused) -> None:
        """It is there."""

    def begun(self, feed: Feed) -> None:
        """It has said where to begin."""

    def reported(self, feed: Feed) -> None:
        """It has said how far it is."""

    def turn_away(self, ip: str, slave: str, why: str) -> bool:
        """One is not let in; false where so many wait in vain that this one cannot."""

    def left(self, feed: Feed) -> None:
        """It does not count any more; its connection is being ended."""

    def gone(self, link: Feed | Refused, reason: Failure) -> None:
        """Its connection is gone."""

    def bug(self, failure: Failure) -> None:
        """Something happened that should not."""


@implementer(IPushProducer)
class Feed(ReplicationLink):
    """
    One slave's connection: sends whenever there is something and the transport takes it.

    @ivar ip: the slave's IP address; C{address}: the same with its port.
    @ivar end: the logic of it.
    @ivar since: when it was made, in seconds of the clock.
    @ivar holds_from: physical offset from which on the slave has the log for certain; the master says.
    """

    def __init__(self, master: Owner, ip: str, address: str, end: MasterEnd) -> None:
        self.since = master.clock.seconds()
        super().__init__(master.clock)
        self._master = master
        self.ip = ip
        self.address = address
        self.end = end
        self.holds_from = 0
        self._ready = False  # it is known whether there is TLS, and with whom
        self._full = False  # the transport takes no more for now
        self._reading = False  # the disk is read for it
        self._next: IDelayedCall | None = None

    @property
    def admitted(self) -> bool:
        """Whether the slave may be sent the log: it is who it must be, and speaks TLS where it has to."""
        return self._ready and self.end.admitted

    def connectionMade(self) -> None:
        """Wait for the first report, or for a TLS handshake where there may be one."""
        super().connectionMade()
        # Of its own accord Twisted hands the kernel 128 KiB a turn, and has enough when 64 KiB wait.
        self.transport.bufferSize = self.transport.SEND_LIMIT = _SLICE
        tls = self._master.tls
        if tls is None or tls.mode is Mode.DISABLED:
            self.secured()
        else:
            self.dataReceived = partial(self._sniff, tls)  # type: ignore[method-assign]
        self._master.connected(self)

    def _sniff(self, tls: ServerTLS, data: bytes) -> None:
        """Tell by the first byte whether the slave speaks TLS."""
        if not self.open:
            return
        if data[0] == CLIENT_HELLO:
            self.secure(tls.factory())
            self.dataReceived(data)
        elif tls.mode is Mode.ENFORCING:
            self.fail("speaks no TLS, which is enforced here (tls.server.mode)")
        else:
            del self.dataReceived
            self.secured()
            self.dataReceived(data)

    def secured(self) -> None:
        """There is TLS, or none is needed: what there is to send may be sent."""
        self._ready = True
        self.transport.registerProducer(self, True)

    def dataReceived(self, data: bytes) -> None:
        """Take reports; the first begins the stream."""
        if not self.open:
            return
        begun = self.end.position >= 0
        if not begun and self._layer is None and data.startswith(_HELLO):
            self.fail("speaks TLS, which is off here (tls.server.mode, tls.server.certPath)")
            return
        try:
            reported = self.end.receive(data, self.clock.seconds())
        except FramingError as error:
            self.fail(str(error))
            return
        if reported:
            if not begun:
                self._master.begun(self)
                self.beat()
                self.push()
            if self.open:
                self._master.reported(self)

    def ended(self, reason: Failure) -> None:
        """Forget the slave."""
        self._stop()
        super().ended(reason)
        self._master.gone(self, readable(reason))

    def fail(self, why: str) -> None:
        """End it because of something the slave did."""
        if not self.open:
            return
        self._stop()
        if self.admitted:
            self._master.complaints.warn(
                self.ip, "no longer replicating to {slave}: it {why}", slave=self.address, why=why
            )
            self.abort()
        elif self._master.turn_away(self.ip, self.address, f"it {why}"):
            self.hold()
        else:
            self.abort()
        self._master.left(self)

    def finish(self) -> None:
        """End it in peace: with what there is to send, as far as it is at hand."""
        self.push()
        self._stop()
        self.close()

    def _stop(self) -> None:
        if self._next is not None:
            self._next.cancel()
            self._next = None

    # -- out -----------------------------------------------------------------------------------------------------

    def push(self) -> None:
        """Send what there is, one slice of it at most; the next follows when the transport has taken this one."""
        if self._full or self._reading or self._next is not None or not self.open:
            return
        try:
            self.write(self.end.send(_SLICE, self.clock.seconds()))
        except FramingError as error:
            self.fail(str(error))
            return
        except OSError as error:
            self._unreadable(Failure(error))
            return
        if self.end.cold:
            self._read()
        elif self.end.more:
            self._soon()

    def _soon(self) -> None:
        """Go on in the next turn, unless the transport says before that it is full."""
        if not self._full and self._next is None:
            self._next = self.clock.callLater(0, self._go_on)

    def _go_on(self) -> None:
        self._next = None
        self.push()

    def _read(self) -> None:
        self._reading = True
        reading = self._master.log.piece_cold(self.end.position, _SLICE)
        reading.addCallbacks(self._was_read, self._unreadable)
        reading.addErrback(self._master.bug)

    def _was_read(self, data: bytes) -> None:
        self._reading = False
        if self.open:
            self.write(self.end.send_cold(data, self.clock.seconds()))
            if self.end.more:
                self._soon()

    def _unreadable(self, failure: Failure) -> None:
        self._reading = False
        self.fail(f"is at {self.end.position}, where the log cannot be read: {failure.getErrorMessage()}")

    def pauseProducing(self) -> None:
        """The transport has enough."""
        self._full = True

    def resumeProducing(self) -> None:
        """The transport has room."""
        self._full = False
        self.push()

    def stopProducing(self) -> None:
        """The connection is gone; L{ended} follows."""

    # -- time ----------------------------------------------------------------------------------------------------

    def look(self, now: float) -> None:
        """Do what is due."""
        try:
            self.end.check(now)
        except FramingError as error:
            self.fail(str(error))
            return
        self.beat()

    def beat(self) -> None:
        """Send a heartbeat where one is due; a full transport has enough to tell the slave that we are there."""
        data = self.end.heartbeat(self.clock.seconds())
        if not self._full:
            self.write(data)


class Refused(ReplicationLink):
    """The connection of somebody who is not let in: nothing is read or said, and it is closed after a while."""

    def __init__(self, master: Owner) -> None:
        super().__init__(master.clock)
        self._master = master

    def connectionMade(self) -> None:
        """Wait."""
        super().connectionMade()
        self.hold()
        self._master.connected(self)

    def ended(self, reason: Failure) -> None:
        """Tell the master that the connection is gone."""
        super().ended(reason)
        self._master.gone(self, reason)
