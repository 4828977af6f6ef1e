"""
The link: a connection of any protocol, accepted or dialled, with its states, TLS, and the limits on its peer.

A link knows bytes and no frames; what they mean is the business of its L{ISession<smartgo.net.session.ISession>}. Its
life is the table in L{smartgo.net.states}. What it takes care of:

 - what is unsent is counted and bounded, and a peer that does not take it is not read, then cut (L13)
 - deadlines for the handshake, the first unit, a unit that grows too slowly, and silence (L9 to L11)
 - the memory that unfinished work takes (L14), and fair turns among links
 - TLS, told by the first byte where a listener takes both
 - an end that says the last words first, and leaves nothing to the garbage collector

Longer than 400 lines because each of these changes the one state of the link, or ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Protocol

from OpenSSL.crypto import X509
from twisted.internet import protocol
from twisted.internet.interfaces import ITCPTransport
from twisted.internet.protocol import connectionDone
from twisted.logger import Logger
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.python.failure import Failure

from smartgo.errors import FramingError, NoRoom, PeerTooSlow
from smartgo.net.account import Account
from smartgo.net.certificatenames import certificate_names
from smartgo.net.counts import Counts
from smartgo.net.deadlines import AT_ONCE, Deadlines
from smartgo.net.endpoints import peer_address, port_number
from smartgo.net.hub import KeptAnswers
from smartgo.net.limits import NEVER, Limits
from smartgo.net.sendbuffer import SendBuffer
from smartgo.net.session import OVER, ISession
from smartgo.net.states import TRANSITIONS, Event, State
from smartgo.net.sweeper import Sweeper
from smartgo.net.tls import (
    CLIENT_HELLO,
    ClientTLS,
    Mode,
    PlainRefused,
    ServerTLS,
    TLSRefused,
    readable,
    wrap,
)
from smartgo.schema.address import parse_address

# Why the transport is not read; any number of these bits.
IN_FLIGHT: Final = 1
"""The session waits for too many answers (L12)."""
SEND_BUFFER: Final = 2
"""More is unsent than C{limits.unsent_pause} (L13)."""
BACKLOG: Final = 4
"""Whole units wait for their turn. The only reason that does not keep them from being processed."""

_OPEN: Final = State.OPEN
_LARGE: Final = 16384  # bytes in pieces; to copy as much together costs more than to have the kernel gather it
_FEW: Final = 256  # pieces; a system has a limit to how many it gathers


class Owner(Protocol):
    """
    The owner of a link: a listening port or a client.

    @ivar counts: what happened to all of its links.
    """

    counts: Counts

    def leaving(self, link: Link) -> None:
        """Handle the draining of a link: it accepts nothing more; called once, before C{ended}."""

    def ended(self, link: Link) -> None:
        """Handle the end of a link; called once, after its session has been told."""


class Link(protocol.Protocol):
    """
    A connection of any protocol.

    What C{dataReceived} is depends on what was heard: a listener that may speak TLS looks at the first byte, then the
    attribute is replaced by the method that is right from there on. So the plain path pays nothing for it.

    @ivar session: what the bytes mean; until the link is gone.
    @ivar state: see L{smartgo.net.states}.
    @ivar blocks: why the transport is not read, as bits: L{IN_FLIGHT}, L{SEND_BUFFER}, L{BACKLOG}.
    @ivar account: what the peer has of the memory budget.
    @ivar out: bytes that leave with the next write, in order.
    @ivar woken: whether L{turn} will be called at the end of this reactor turn.
    @ivar at_work: set by a session around work in which it puts much: what it ends or puts takes effect afterwards,
        when it calls L{settle}.
    @ivar counts: what happened to all links of its owner.
    @ivar chunks: how many chunks were read.
    @ivar tls: how TLS is spoken or taken; C{None}: not at all.
    @ivar dialled: whether we made it.
    @ivar secure: whether there is TLS on it.
    @ivar address: the remote address as C{host:port}; of a dialled link what was dialled.
    @ivar ip: the remote IP address alone.
    @ivar host: the remote address as a record stores it.
    @ivar local_ip: the IP address of ours that was dialled, or empty.
    @ivar local_port: the port of ours that was dialled, or C{0}.
    """

    _log = Logger()
    transport: Any
    secure = False
    ip = ""
    host = b""
    local_ip = ""
    local_port = 0

    def __init__(
        self,
        session: Callable[[Link], ISession],
        limits: Limits,
        sweeper: Sweeper,
        owner: Owner,
        tls: ServerTLS | ClientTLS | None = None,
        dial: str = "",
    ) -> None:
        """
        @param session: makes the session of this link.
        @param sweeper: timers and the memory budget, shared with all links of the process.
        @param tls: C{None}: plain only.
        @param dial: the address we are about to dial, as C{host:port}; empty for a link that was accepted.
        """
        self._limits = limits
        self._sweeper = sweeper
        self._turns = sweeper.turns
        self._owner = owner
        self.counts = owner.counts
        self.tls = tls
        self._layer: Any = None  # TLS, once it is there
        self._send_buffer = SendBuffer(self._moved, limits.slice)
        self._deadlines = Deadlines(limits)
        self.account = Account(sweeper.budget, self, bool(dial) or limits.reads_on, limits.unit_kind)
        self.state = State.DIALLING if dial else State.HANDSHAKING
        self.dialled = bool(dial)
        self.address = dial
        self.out: list[bytes | memoryview] = []
        self.blocks = 0
        self.chunks = 0
        self.at_work = False
        self._size = 0  # bytes that were put, other than by a session into out itself
        self.woken = False
        self._queued = False  # more() will be called
        self._cut_at = NEVER
        self._lane: Any = None  # in the hub
        self.session: ISession = session(self)

    def __repr__(self) -> str:
        return f"<link {'to' if self.dialled else 'from'} {self.address}, {self.state.value}>"

    @property
    def open(self) -> bool:
        """False once nothing more can be sent."""
        return not self.state.over

    @property
    def ready(self) -> bool:
        """Tell whether bytes go to the transport now; before that a session keeps them."""
        return self.state.ready

    @property
    def reached(self) -> bool:
        """Tell whether there is a transport, or was one until now."""
        return self.transport is not None

    @property
    def certificate(self) -> X509 | None:
        """The certificate of the peer that TLS has verified; C{None} where it has shown none."""
        return self._layer.getPeerCertificate() if self.secure and self._layer is not None else None

    @property
    def client_names(self) -> tuple[str, ...]:
        """The names of the client certificate that TLS has verified; see L{smartgo.net.certificatenames}."""
        certificate = None if self.dialled else self.certificate
        return () if certificate is None else certificate_names(certificate)

    @property
    def unsent(self) -> int:
        """The number of bytes waiting to be sent."""
        return self._send_buffer.unsent + self._size

    @property
    def room(self) -> int:
        """The number of bytes that may be put before some must be sent."""
        return self._limits.unsent_pause - self._send_buffer.unsent

    @property
    def check_at(self) -> float:
        """The time at which L{check} is due."""
        return self._cut_at if self.state.over else self._deadlines.look_at

    def _go(self, event: Event) -> bool:
        """Move on in the table; false where the event means nothing here."""
        following = TRANSITIONS.get((self.state, event))
        if following is None:
            return False
        self.state = following
        return True

    # -- beginning -----------------------------------------------------------------------------------------------

    def connectionMade(self) -> None:
        """Greet the session, and find out whether the peer wants TLS."""
        transport, tls = self.transport, self.tls
        if ITCPTransport.providedBy(transport):
            transport.setTcpNoDelay(True)
        remote = peer_address(transport.getPeer())
        self.ip = remote.ip
        self.host = remote.host
        if self.dialled:
            self.counts.dialled += 1
        else:
            self.counts.accepted += 1
            local = transport.getHost()
            self.address = remote.text
            self.local_ip = peer_address(local).ip
            self.local_port = port_number(local)
        sniffs = tls if isinstance(tls, ServerTLS) and tls.mode is not Mode.DISABLED else None
        if sniffs is not None or isinstance(tls, ClientTLS):
            self._deadlines.expect_handshake(self._sweeper.clock.seconds())
        self._sweeper.join(self)
        reached = not self.dialled or self._go(Event.UP)
        self.session.connected()
        if not reached:  # closed while it was being dialled
            self._cut()
        if self.state.over:
            return
        if isinstance(tls, ClientTLS):
            self._secure(tls.factory(parse_address(self.address)[0]))
        elif sniffs is not None:
            self.dataReceived = partial(self._sniff, sniffs)  # type: ignore[method-assign]
        else:
            self._ready(transport)

    def _ready(self, transport: Any) -> None:
        """Send our bytes to this transport from now on."""
        if not self._go(Event.READY):
            return
        self.secure = transport is self._layer
        self._deadlines.expect_frame(self._sweeper.clock.seconds())
        self._send_buffer.open(transport)
        self.session.opened()

    def _sniff(self, tls: ServerTLS, data: bytes) -> None:
        """Detect by the first byte whether the peer speaks TLS."""
        if data[0] == CLIENT_HELLO:
            self._secure(tls.factory())
            self.dataReceived(data)
        elif tls.mode is Mode.ENFORCING:
            self.transport.write(self.session.refusal(data))
            self.fail(Failure(PlainRefused("it speaks no TLS, which is enforced here (tls.server.mode)")))
        else:
            del self.dataReceived
            self._ready(self.transport)
            self.dataReceived(data)

    def _secure(self, factory: TLSMemoryBIOFactory) -> None:
        """Put TLS between the transport and us."""
        self._layer = wrap(factory, partial(Link.dataReceived, self), self._secured, self._gone)
        self.dataReceived = self._layer.dataReceived  # type: ignore[method-assign]
        self._layer.makeConnection(self.transport)

    def _secured(self) -> None:
        """Open the link over TLS: the handshake succeeded, and the peer is who it must be."""
        self._ready(self._layer)

    # -- in --------------------------------------------------------------------------------------------------------

    def dataReceived(self, data: bytes) -> None:
        """Pass received bytes to the session, deciphered where there is TLS; end the link if the stream is broken."""
        if self.state.over:
            return
        sweeper = self._sweeper
        now = self._turns.began_at = sweeper.clock.seconds()
        if now > sweeper.overdue:
            sweeper.stood_still(now)
        self.chunks += 1
        self._deadlines.heard_at = sweeper.stamp
        try:
            self.session.received(data)
        except FramingError as broken:  # whose traceback would lead back to this frame and the session
            reason: FramingError = broken.with_traceback(None)
            if data[0] == CLIENT_HELLO and not self.session.frames and not self.dialled:
                reason = TLSRefused("it speaks TLS, which is off here (tls.server.mode, tls.server.certPath)")
            self.fail(Failure(reason))
        except Exception:
            self.fail(Failure())

    def gathered(self, size: int, whole: bool) -> None:
        """
        Count what a read has left; to be called where that is not C{0} or was not C{0}.

        @param size: how many bytes of a unit that is not whole the session keeps.
        @param whole: whether the end of a unit came.
        """
        self._deadlines.look_at = AT_ONCE
        self.account.read(size, whole)

    def heard_first(self) -> None:
        """Note that the first whole unit has come, in time (L9)."""
        self._deadlines.expect_nothing()
        self._join_hub()

    # -- why the transport is not read -----------------------------------------------------------------------------

    def block(self, why: int) -> None:
        """Read no more, for this reason too."""
        self.blocks |= why
        self._stop_reading()

    def unblock(self, why: int) -> None:
        """Remove a reason for not reading; if it was the last, reading resumes at the end of this turn."""
        self.blocks &= ~why
        if not self.blocks & ~BACKLOG:
            self.wake()

    def backlog(self) -> None:
        """Read no more until units that wait are processed: C{session.turn()} is called when it is our turn."""
        self.block(BACKLOG)
        self._ask_for_turn()

    @property
    def stopped(self) -> bool:
        """Tell whether even units that have arrived must not be processed now."""
        return self.blocks & ~BACKLOG != 0 or self.state is State.DRAINING

    def _stop_reading(self) -> None:
        if self._go(Event.BLOCK):
            self._leave_hub()
            self.transport.pauseProducing()

    def _ask_for_turn(self) -> None:
        if not self._queued and self.blocks == BACKLOG and self.state is State.BLOCKED:
            self._queued = True
            self._turns.queue(self)

    def more(self) -> int:
        """Process some waiting units; return how many. The answers leave by L{flush}."""
        self._queued = False
        if self.state.over or self.stopped:
            return 0
        taken = 0
        try:
            taken = self.session.turn()
        except Exception:
            self.fail(Failure())
        self._ask_for_turn()
        return taken

    # -- the hub ---------------------------------------------------------------------------------------------------

    def _join_hub(self) -> bool:
        """Let the hub read, where nothing but requests is to be read; return whether it does."""
        sources = self.session.run_sources
        if not sources or self.dialled or self.state is not _OPEN or not self._send_buffer.direct:
            return False
        if self._lane is None:
            self._lane = self._sweeper.hub.attach(self, self.transport.getHandle(), sources)
            if self._lane is not None:
                self.transport.stopReading()
        return self._lane is not None

    def _leave_hub(self) -> bool:
        """Let nobody read; return whether the hub did."""
        lane, self._lane = self._lane, None
        if lane is None:
            return False
        self._sweeper.hub.detach(lane)
        return True

    def give_back(self) -> None:
        """Let the transport read in the hub's place: there is an end or an error to be found."""
        if self._leave_hub():
            self.transport.resumeProducing()

    def broke(self) -> None:
        """End the link: an exception that is being handled has come out of its reading."""
        self.fail(Failure())

    @property
    def missing(self) -> int:
        """The number of bytes that an unfinished unit lacks: 0 between two units, -1 while that is not known."""
        missing: int = self.session.missing
        return missing

    def took(self, frames: int) -> None:
        """Count frames that the hub has read, and that were taken in a run."""
        deadlines = self._deadlines
        self.chunks += 1
        deadlines.heard_at = deadlines.moved_at = self._sweeper.stamp
        self.session.frames += frames

    @property
    def spare(self) -> int:
        """The number of requests whose answers may wait besides those that do."""
        in_flight: int = self.session.in_flight
        return self._limits.in_flight - in_flight

    def begun(self, kept: KeptAnswers) -> None:
        """Note answers to frames that the hub has read; they wait."""
        self.session.begun(kept)

    def done(self, kept: KeptAnswers) -> bool:
        """Note that these may leave; false where nobody wants them any more."""
        self._deadlines.moved_at = self._sweeper.stamp
        wanted: bool = self.session.done(kept)
        return wanted

    def wrote(self, data: bytes, sent: int) -> None:
        """Take over answers of which the socket took only so much; nothing was unsent before them."""
        self._send_buffer.clog(data, sent)
        self._check_unsent(False)

    # -- out -------------------------------------------------------------------------------------------------------

    def put(self, data: bytes) -> int:
        """Send bytes with the next write; return how many these are."""
        size = len(data)
        self.out.append(data)
        self._size += size
        if not self.at_work:
            self._soon()
        return size

    def put_pieces(self, pieces: Sequence[bytes | memoryview]) -> int:
        """Send bytes that are in pieces with the next write; return how many these are."""
        size = 0
        for piece in pieces:
            size += len(piece)
        self.out.extend(pieces)
        self._size += size
        if not self.at_work:
            self._soon()
        return size

    def send(self, data: bytes) -> None:
        """Send bytes now, with what was put before: for whole messages that somebody waits for."""
        self.out.append(data)
        self._size += len(data)
        self.flush()

    def _soon(self) -> None:
        if self._size > self._limits.unsent_pause:
            self.flush()
        else:
            self.wake()

    def wake(self) -> None:
        """Request a call of L{turn} at the end of this reactor turn, unless the link is over."""
        if not self.woken and not self.state.over:
            self.woken = True
            self._turns.wake(self)

    def turn(self) -> None:
        """Do what waited for the end of this reactor turn."""
        self.woken = False
        if self.state.over:
            return
        self.flush()
        state = self.state
        if state is _OPEN:
            return
        if state is State.DRAINING and not self.session.busy():
            self.end()
        elif state is State.BLOCKED:
            self._ask_for_turn()
            if not self.blocks and not self.account.paused:
                self._go(Event.RESUME)
                if not self._join_hub():
                    self.transport.resumeProducing()

    def flush(self) -> None:
        """Write what was put, in one piece."""
        if self._turns.begun:
            self._turns.end_runs()
        out = self.out
        if not out:
            return
        buffer = self._send_buffer
        limits = self._limits
        size = self._size
        unsent = buffer.unsent + size
        self._size = 0
        if unsent > limits.unsent_close:  # before all of it is copied together
            out.clear()
            self._too_slow(f"{unsent} B unsent")
            return
        self._deadlines.moved_at = self._sweeper.stamp
        if size >= _LARGE and len(out) <= _FEW:
            pieces = out[:]
            out.clear()
            buffer.write_pieces(pieces, sum(map(len, pieces)))
        else:
            data = b"".join(out)
            out.clear()
            buffer.write(data)
        self._check_unsent(unsent != size)

    def _check_unsent(self, before: bool) -> None:
        """
        Count what the transport has not taken of a write, and read no more where it is too much.

        @param before: whether anything was unsent before it.
        """
        buffer, limits = self._send_buffer, self._limits
        # A dialled link reads on: two ends that each wait for the other to read would wait for ever.
        if buffer.unsent > limits.unsent_pause and not (self.dialled or limits.reads_on) and not self.state.over:
            if self._deadlines.full_since == NEVER:
                self._deadlines.full_since = self._sweeper.stamp
                self._deadlines.look_at = AT_ONCE
            self.block(SEND_BUFFER)
        if buffer.unsent or before:
            self.account.unsent(buffer.unsent)

    def _moved(self) -> None:
        """Count what the transport has sent; read on where little enough is unsent."""
        self._deadlines.moved_at = self._sweeper.stamp
        unsent = self._send_buffer.unsent
        self.account.unsent(unsent)
        if unsent <= self._limits.unsent_pause:
            self._deadlines.full_since = NEVER
        if unsent <= self._limits.unsent_resume:
            if self.blocks & SEND_BUFFER:
                self.unblock(SEND_BUFFER)
            if not self.state.over:
                self.session.writable()

    # -- room in memory --------------------------------------------------------------------------------------------

    def stop_reading(self) -> None:
        """Stop reading from the socket: there is no room. Units that are whole are processed."""
        self._stop_reading()

    def read_on(self) -> None:
        """Read on at the end of this turn: there is room again."""
        self.wake()

    def no_room(self, why: str) -> None:
        """Close the link: there is no room for what the peer sends."""
        self.fail(Failure(NoRoom(why)))
        self._cut()
        self.account.unsent(0)  # nothing of it is kept until the transport is gone

    # -- ending ----------------------------------------------------------------------------------------------------

    def close(self, reason: str) -> None:
        """End the link after what was put is sent; C{reason} goes to the log."""
        if self.end():
            self._log.info("closing {peer}: {reason}", peer=self.address, reason=reason)

    def fail(self, failure: Failure) -> None:
        """End the link because something went wrong on it: a broken stream, a limit passed, a bug of ours."""
        if self.state.over:
            return
        counts = self.counts
        if failure.check(PeerTooSlow):
            counts.slow += 1
        elif failure.check(NoRoom):
            pass  # the budget counts them
        elif failure.check(FramingError):
            counts.broken += 1
        if not self.session.failed(failure):
            if failure.check(FramingError):
                self._complain("closing {peer}: {error}", failure)
            else:
                self._log.failure("closing {peer}", failure=failure, peer=self.address)
        self.end()

    def drain(self) -> None:
        """Accept nothing more, let the session finish what is in flight, then close."""
        reading = self.state is State.OPEN
        if not self._go(Event.DRAIN):
            self.end()
            return
        if reading:
            self._leave_hub()
            self.transport.pauseProducing()
        self.session.draining()
        if not self.session.busy():
            self.wake()

    def give_up(self) -> None:
        """Let the session answer what is in flight as it can, and close."""
        if not self.state.over:
            self.session.give_up()
        self.end()

    def abort(self) -> None:
        """End the link at once; what is unsent is lost."""
        self.end()
        self._cut()

    def end(self) -> bool:
        """End the link after what was put is sent, without a word; false where that was done before."""
        paused = self.state in (State.BLOCKED, State.DRAINING)
        if not self._go(Event.CLOSE):
            return False
        paused = self._leave_hub() or paused
        self.session.ending()
        if self.transport is not None:
            if self._layer is None:  # no more looking at first bytes
                vars(self).pop("dataReceived", None)
            self.account.read(0, False)
        if paused:  # TLS ends when the peer has said so too, which must be read
            self.transport.resumeProducing()
        self._owner.leaving(self)
        self._cut_at = self._sweeper.clock.seconds() + self._limits.linger
        if not self.at_work:
            self._part()
        return True

    def hold(self) -> None:
        """
        Stop reading and sending but keep the link open: a peer that is disconnected would be back at once.

        Whoever calls this ends the link later, by L{abort}.
        """
        if self._go(Event.CLOSE):
            self._leave_hub()
            self.session.ending()
            self._owner.leaving(self)
            self.transport.pauseProducing()

    def settle(self) -> None:
        """Carry out an end that was decided while the session was at work."""
        if self.state is State.CLOSING:
            self._part()

    def _part(self) -> None:
        """Send the last words and let the transport go."""
        if self._send_buffer.opened:
            self.flush()
            self._send_buffer.finish()
        elif self.transport is not None:  # not a word was said
            self.transport.loseConnection()

    def _cut(self) -> None:
        self._send_buffer.stopProducing()
        if self.transport is not None:
            self.transport.abortConnection()

    def _too_slow(self, why: str) -> None:
        self.fail(Failure(PeerTooSlow(why)))
        self._cut()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """End the layer of TLS with its transport, where there is one; it comes back to L{_gone}."""
        if self._layer is not None:
            self._layer.connectionLost(reason)  # comes back to _gone()
        else:
            self._gone(reason)

    def missed(self, reason: Failure) -> None:
        """Note that the peer was never reached."""
        self._gone(reason)

    def _gone(self, reason: Failure) -> None:
        """
        End the link: the transport, and TLS on it, are gone.

        What leads in a circle is cut here, so that link, session and buffers are freed now and not when the garbage
        collector comes by.
        """
        reason = self.session.explained(readable(reason))
        left = not self.state.over
        unagreed = self._layer is not None and self.state is State.HANDSHAKING
        if not self._go(Event.GONE):
            return
        session = self.session
        self._leave_hub()
        self._send_buffer.stopProducing()
        self.out.clear()
        if left:
            session.ending()
        self.account.close()
        self._sweeper.leave(self)
        self._turns.forget_reader(self)
        self._turns.sleep(self)
        if self._queued:
            self._queued = False
            self._turns.leave_queue(self)
        if left:
            self._owner.leaving(self)
        if unagreed:
            self.counts.broken += 1
            if not session.failed(reason):
                self._complain("{peer}: {error}", reason)
        session.lost(reason)
        self._owner.ended(self)
        self.session = OVER
        self.transport = None
        self._layer = None
        vars(self).pop("dataReceived", None)

    def _complain(self, sentence: str, failure: Failure) -> None:
        self._sweeper.peer_warnings.warn(self.ip, sentence, peer=self.address, error=failure.getErrorMessage())

    # -- time ------------------------------------------------------------------------------------------------------

    def check(self, now: float) -> None:
        """Apply the deadlines that are due."""
        if self.state.over:
            self._cut_at = NEVER
            self._cut()
            return
        partial = 0 if self.stopped else self.session.pending
        if self.account.paused:
            partial = 0
            self._deadlines.not_read(now)
        late = self._deadlines.look(now, self.session.frames, partial, self._send_buffer.unsent)
        if late:
            self._too_slow(late)
            return
        idle = self._deadlines.idle_for(now)
        if idle >= self._limits.idle and not self.session.idle(idle):
            self.counts.idle += 1
            self.end()
