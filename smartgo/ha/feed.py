"""Sessions of slaves: the connection of a slave to its master, and that of a refused slave."""

from __future__ import annotations

from typing import Final, Protocol

from twisted.internet.error import ConnectionClosed
from twisted.python.failure import Failure

from smartgo.env.interfaces import IClock
from smartgo.errors import FramingError
from smartgo.ha.transfer import MasterEnd
from smartgo.net.limits import MIB, NEVER, Limits
from smartgo.net.link import Link
from smartgo.net.ratelimitedlog import RateLimitedLog
from smartgo.net.session import NullSession
from smartgo.net.sweeper import Sweeper
from smartgo.net.tls import CLIENT_HELLO, HandshakeFailed
from smartgo.store.replicatedlog import IReplicatedLog

SLICE: Final = 1 * MIB
"""
Bytes of the log that one slave gets in one reactor turn, so that sends go on meanwhile.

A master that is busy makes few turns a second, each of many sends: with less a slave would not keep up with them.
"""
LIMITS: Final = Limits(
    handshake=NEVER,
    first_frame=NEVER,
    idle=NEVER,
    spare_descriptors=0,
    unsent_pause=4 * SLICE,
    unsent_resume=0,
    unsent_seconds=NEVER,
    slice=SLICE,
    smallest_slice=256,
    reads_on=True,
    stop=0.0,
)
"""
Of connections of slaves: their reports are read at any time. The deadlines are those of L{MasterEnd}. Slaves may take
the descriptors that clients must leave free: a SYNC_MASTER without its slave confirms no send. The smallest slice of a
simulation carries whole files of the log in time, on the slowest of its networks too.
"""

_HELLO: Final = bytes([CLIENT_HELLO])


class SlaveOwner(Protocol):
    """The owner of slaves' connections: a master."""

    clock: IClock
    sweeper: Sweeper
    log: IReplicatedLog

    @property
    def peer_warnings(self) -> RateLimitedLog:
        """The log for warnings about slaves."""

    def connected(self, feed: Feed) -> None:
        """Count a slave that is connected."""

    def begun(self, feed: Feed) -> None:
        """Note that a slave has said where to begin."""

    def reported(self, feed: Feed) -> None:
        """Note that a slave has said how far it is."""

    def turn_away(self, ip: str, slave: str, why: str) -> bool:
        """Count one that is not let in; false where so many wait in vain that this one cannot."""

    def hold(self, link: Link) -> None:
        """Keep a refused link silent, and close it after a while."""

    def released(self, link: Link) -> None:
        """Forget a link that waited in vain and is gone."""

    def left(self, feed: Feed) -> None:
        """Count a slave no more: its connection is being ended."""

    def gone(self, feed: Feed, reason: Failure) -> None:
        """Forget a slave whose connection is gone."""

    def bug(self, failure: Failure) -> None:
        """Log what should not have happened."""


class Feed(NullSession):
    """
    One slave's connection: sends whenever there is something and the transport has taken what was sent before.

    @ivar link: the connection; C{ip} and C{address} are the slave's.
    @ivar end: the logic of it.
    @ivar since: when it was made, in seconds of the clock.
    @ivar holds_from: physical offset from which on the slave has the log for certain; the master says.
    """

    def __init__(self, link: Link, master: SlaveOwner, end: MasterEnd) -> None:
        self.link = link
        self._master = master
        self._turns = master.sweeper.turns
        self.end = end
        self.since = master.clock.seconds()
        self.holds_from = 0
        self._agreed = False  # it is known whether there is TLS, and with whom
        self._reading = False  # the disk is read for it
        self._queued = False  # more() will be called

    @property
    def open(self) -> bool:
        """Tell whether the feed has not been ended."""
        return self.link.open

    @property
    def admitted(self) -> bool:
        """Tell whether the slave may be sent the log: it has proved its identity, and speaks TLS if TLS is required."""
        return self._agreed and self.end.admitted

    def connected(self) -> None:
        """Wait for the first report, or for a TLS handshake where there may be one."""
        # Of its own accord Twisted hands the kernel 128 KiB a turn, and has enough when 64 KiB wait.
        self.link.transport.bufferSize = self.link.transport.SEND_LIMIT = SLICE
        self._master.connected(self)

    def opened(self) -> None:
        """Note that there is TLS, or that none is needed: what there is to send may be sent."""
        self._agreed = True

    def received(self, data: bytes) -> None:
        """Read reports; the first begins the stream."""
        begun = self.end.position >= 0
        if not begun and not self.link.secure and data.startswith(_HELLO):
            self.fail("speaks TLS, which is off here (tls.server.mode, tls.server.certPath)")
            return
        try:
            reported = self.end.receive(data, self._master.clock.seconds())
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

    def failed(self, failure: Failure) -> bool:
        """
        End the feed, or turn the peer away, because of a fault of the peer; return whether it was the peer's fault.
        """
        if failure.check(FramingError) is None:
            # Who leaves within a handshake is no news; a bug of ours is.
            return not self._agreed and failure.check(ConnectionClosed) is not None
        if self.open:
            self.fail(failure.getErrorMessage())
        elif failure.check(HandshakeFailed):
            self._master.turn_away(self.link.ip, self.link.address, failure.getErrorMessage())
        return True

    def fail(self, why: str) -> None:
        """End it because of something the slave did."""
        link, master = self.link, self._master
        if not link.open:
            return
        if self.admitted:
            master.peer_warnings.warn(
                link.ip, "no longer replicating to {slave}: it {why}", slave=link.address, why=why.removeprefix("it ")
            )
            link.abort()
        elif master.turn_away(link.ip, link.address, f"it {why.removeprefix('it ')}"):
            master.hold(link)
        else:
            link.abort()
        master.left(self)

    def draining(self) -> None:
        """End it in peace: with what there is to send, as far as it is at hand."""
        self.push()
        self.link.end()

    def ending(self) -> None:
        """Cancel the requested turn."""
        if self._queued:
            self._queued = False
            self._turns.leave_queue(self)

    def lost(self, reason: Failure) -> None:
        """Remove the slave from the master's list."""
        self._master.released(self.link)
        self._master.gone(self, reason)

    # -- out -----------------------------------------------------------------------------------------------------

    @property
    def _full(self) -> bool:
        """Tell whether the transport has not accepted all of what was sent before."""
        return self.link.unsent > 0

    def _write(self, data: bytes) -> None:
        """Send at once: these are whole messages, and somebody waits for them."""
        if data:
            self.link.send(data)

    def push(self) -> None:
        """Send what there is, one slice of it at most; the next follows when the transport has taken this one."""
        if self._full or self._reading or self._queued or not self.open:
            return
        try:
            self._write(self.end.send(SLICE, self._master.clock.seconds()))
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
        """Continue in the next turn, unless the transport has enough."""
        if not self._full and not self._queued and self.open:
            self._queued = True
            self._turns.queue(self)

    def more(self) -> int:
        """Send the next slice: it is this slave's turn."""
        self._queued = False
        self.push()
        return 1

    def flush(self) -> None:
        """Do nothing: what was sent in our turn is written."""

    def writable(self) -> None:
        """Continue: the transport has taken all bytes."""
        self.push()

    def _read(self) -> None:
        self._reading = True
        reading = self._master.log.piece_cold(self.end.position, SLICE)
        reading.addCallbacks(self._was_read, self._unreadable)
        reading.addErrback(self._master.bug)

    def _was_read(self, data: bytes) -> None:
        self._reading = False
        if self.open:
            self._write(self.end.send_cold(data, self._master.clock.seconds()))
            if self.end.more:
                self._soon()

    def _unreadable(self, failure: Failure) -> None:
        self._reading = False
        self.fail(f"is at {self.end.position}, where the log cannot be read: {failure.getErrorMessage()}")

    # -- time ----------------------------------------------------------------------------------------------------

    def check(self, now: float) -> None:
        """Apply the deadlines that are due: a slave that says nothing is let go, one that is told nothing hears us."""
        try:
            self.end.check(now)
        except FramingError as error:
            self.fail(str(error))
            return
        self.beat()

    def beat(self) -> None:
        """Send a heartbeat where one is due; a full transport has enough to tell the slave that we are there."""
        data = self.end.heartbeat(self._master.clock.seconds())
        if self._agreed and not self._full:
            self._write(data)


class Refused(NullSession):
    """The session of somebody who is not let in: nothing is read or said, and it is closed after a while."""

    def __init__(self, link: Link, master: SlaveOwner) -> None:
        self.link = link
        self._master = master

    def connected(self) -> None:
        """Start nothing: the peer is neither read nor answered."""
        self._master.hold(self.link)

    def lost(self, reason: Failure) -> None:
        """Remove the link from the master's list."""
        self._master.released(self.link)
