"""
The session of remoting on a link: from bytes to frames, whose turn they are, and which answers are outstanding.

What a request means is the business of L{smartgo.remoting.dispatch}, what we ask of the peer that of
L{smartgo.remoting.calls}; bytes, TLS, limits and the end of it are that of L{smartgo.net.link}.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionAborted, ConnectionDone, ConnectionLost
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from smartgo.errors import BadHeader, NotConnected
from smartgo.net.hub import KeptAnswers, RunSource
from smartgo.net.limits import Limits
from smartgo.net.link import BACKLOG, IN_FLIGHT, Link
from smartgo.net.session import ISession
from smartgo.net.slowturns import LIMIT
from smartgo.net.states import State
from smartgo.net.sweeper import Sweeper
from smartgo.net.tls import HandshakeFailed
from smartgo.net.turns import FRAMES_A_TURN
from smartgo.remoting.calls import Calls
from smartgo.remoting.dispatch import Dispatcher
from smartgo.remoting.framenames import frame_name
from smartgo.remoting.framing import LengthFieldDecoder
from smartgo.remoting.interfaces import IConnectionListener, IDispatchedPeer, IOutstanding
from smartgo.remoting.plainrefusal import refusal
from smartgo.schema.command import Command

SHORTEST: Final = 4
"""Bytes of a frame: its header word."""

_NO_FRAMES: Final = LengthFieldDecoder(0)  # of a connection that is over; nothing is fed to it


def connections(
    sweeper: Sweeper, limits: Limits, dispatcher: Dispatcher, listener: IConnectionListener
) -> Callable[[Link], Connection]:
    """Return what makes the sessions of a server's or a client's links."""
    return partial(Connection, sweeper=sweeper, limits=limits, dispatcher=dispatcher, listener=listener)


@implementer(ISession, IDispatchedPeer)
class Connection:
    """
    One connection.

    @ivar link: the bytes of it.
    @ivar dialled: whether we made it.
    @ivar address: the remote address as C{host:port}.
    @ivar ip: the remote IP address alone.
    @ivar host: the remote address as a record stores it.
    @ivar local_ip: the IP address of ours that was dialled, or empty.
    @ivar local_port: the port of ours that was dialled, or C{0}.
    @ivar certificate_names: the names of the client certificate that TLS has verified; empty where there is none.
    @ivar calls: what we asked of the peer.
    @ivar heard: takes an answer to one of these.
    @ivar outstanding: requests whose answers are outstanding.
    @ivar in_flight: how many those are, long polls not counted.
    @ivar frames: how many whole frames came.
    """

    _log = Logger()

    __slots__ = (
        "__weakref__", "_decoder", "_dispatcher", "_limits", "_listener", "_sweeper", "_turns", "_waiting", "address",
        "calls", "certificate_names", "dialled", "frames", "heard", "host", "in_flight", "ip", "link", "local_ip",
        "local_port", "outstanding",
    )  # fmt: skip

    def __init__(
        self, link: Link, sweeper: Sweeper, limits: Limits, dispatcher: Dispatcher, listener: IConnectionListener
    ) -> None:
        self.link = link
        self._sweeper = sweeper
        self._turns = sweeper.turns
        self._limits = limits
        self._dispatcher = dispatcher
        self._listener = listener
        self._decoder = LengthFieldDecoder(limits.frame, SHORTEST)
        self._waiting: list[bytes] = []  # frames read and not taken yet
        self.calls = Calls(link, sweeper, limits)
        self.heard = self.calls.answered
        self.dialled = link.dialled
        self.address = link.address
        self.ip = ""
        self.host = b""
        self.local_ip = ""
        self.local_port = 0
        self.certificate_names: tuple[str, ...] = ()
        self.outstanding: dict[IOutstanding | KeptAnswers, None] = {}
        self.in_flight = 0
        self.frames = 0

    def __repr__(self) -> str:
        return f"<connection {'to' if self.dialled else 'from'} {self.address}, {self.link.state.value}>"

    @property
    def open(self) -> bool:
        """False once nothing more can be sent."""
        return not self.link.state.over

    @property
    def secure(self) -> bool:
        """Tell whether the connection uses TLS."""
        return self.link.secure

    @property
    def held(self) -> int:
        """The number of held long polls of this peer."""
        return sum(1 for later in self.outstanding if later.held)

    @property
    def unsent(self) -> int:
        """The number of bytes waiting to be sent."""
        return self.link.unsent

    @property
    def full(self) -> bool:
        """Tell whether too many requests are in flight."""
        return self.link.blocks & IN_FLIGHT != 0

    @property
    def pending(self) -> int:
        """The number of bytes of an unfinished frame that have arrived."""
        return self._decoder.pending

    @property
    def missing(self) -> int:
        """The number of bytes that an unfinished frame lacks: 0 between two frames, -1 while that is not known."""
        return self._decoder.missing

    @property
    def run_sources(self) -> tuple[RunSource, ...]:
        """The processors that take runs of plain requests, where no hook has to see them."""
        return () if self.dialled else self._dispatcher.run_sources

    # -- beginning -----------------------------------------------------------------------------------------------

    def connected(self) -> None:
        """Take the addresses, and tell the listener."""
        link = self.link
        self.address = link.address
        self.ip = link.ip
        self.host = link.host
        self.local_ip = link.local_ip
        self.local_port = link.local_port
        self._tell("connected" if self.dialled else "active")

    def opened(self) -> None:
        """Send the calls that waited for this; the peer is verified now."""
        self.certificate_names = self.link.client_names
        self.calls.begin()

    # -- in --------------------------------------------------------------------------------------------------------

    def received(self, data: bytes) -> None:
        """
        Process the whole frames of one read; L{FRAMES_A_TURN} at once, the others in their turn.

        @raise FramingError: what follows them is no frame.
        """
        decoder = self._decoder
        link = self.link
        frames = decoder.frames(data)
        unfinished = decoder.pending
        if unfinished or link.account.unfinished:
            link.gathered(unfinished, bool(frames))
        if not frames:
            return
        first = not self.frames
        self.frames += len(frames)
        if first and link.state.takes:
            link.heard_first()
            self._tell("first_frame")
        if link.blocks or link.at_work or not link.state.takes:
            self._line_up(frames)
        elif len(frames) <= FRAMES_A_TURN:
            self._work(frames)
        else:
            self._work(frames[:FRAMES_A_TURN])
            self._line_up(frames[FRAMES_A_TURN:])
        if decoder.broken is not None:
            raise decoder.broken

    def _line_up(self, frames: list[bytes]) -> None:
        """Let frames wait for their turn; nothing more is read meanwhile."""
        link = self.link
        if link.state.takes:
            self._waiting += frames
            link.account.keep(frames)
            link.backlog()

    def turn(self) -> int:
        """Process some of the frames that wait; return how many. Their answers leave by L{Link.flush}."""
        link = self.link
        frames = self._waiting[:FRAMES_A_TURN]
        taken = 0
        link.at_work = True
        try:
            taken = self._dispatcher.run(self, frames, self._turns.begun)
        except Exception as error:
            link.fail(Failure(error))
        finally:
            link.at_work = False
            seconds = self._sweeper.clock.seconds() - self._turns.began_at
            if seconds >= LIMIT:
                self._note_slow(frames, seconds)
        if link.state.over:
            link.settle()
        elif self._waiting:
            link.account.take_out(frames[:taken])
            del self._waiting[:taken]
            if not self._waiting:
                link.unblock(BACKLOG)
        return taken

    def _work(self, frames: list[bytes]) -> None:
        """Answer frames until there are none, or something stops us; what is left waits."""
        link = self.link
        turns = self._turns
        all_frames = frames
        link.at_work = True
        try:
            while True:
                taken = self._dispatcher.run(self, frames, turns.begun)
                turns.read(link, taken)
                if turns.together and taken == len(frames) and link.state.takes and not link.blocks:
                    link.wake()
                    break
                link.flush()
                if taken == len(frames) or link.state.over:
                    break
                frames = frames[taken:]
                if link.stopped:
                    self._line_up(frames)
                    break
        except Exception as error:
            link.fail(Failure(error))
        finally:
            link.at_work = False
            if turns.begun and not link.woken:
                turns.end_runs()
            seconds = self._sweeper.clock.seconds() - turns.began_at
            if seconds >= LIMIT:
                self._note_slow(all_frames, seconds)
        if link.state.over:
            link.settle()

    def _note_slow(self, frames: list[bytes], seconds: float) -> None:
        """Count frames that held the reactor up for long, under the name that most of them have."""
        seconds = min(seconds, self._sweeper.slow.since(self._turns.began_at))
        if seconds < LIMIT:
            return  # answers, which led to what was counted by itself
        names = Counter(map(frame_name, frames))
        detail = ", ".join(f"{count} of {name}" for name, count in names.most_common(3))
        self._sweeper.slow.note(names.most_common(1)[0][0], seconds, f"{detail}, with {self.address}")

    def unreadable(self, error: BadHeader) -> None:
        """Note a frame whose header could not be read."""
        self.link.counts.unreadable += 1
        self._sweeper.peer_warnings.warn(
            self.ip, "unreadable header from {peer}: {error}", peer=self.address, error=str(error)
        )

    # -- requests in flight ----------------------------------------------------------------------------------------

    def begun(self, later: IOutstanding | KeptAnswers) -> None:
        """Note a request that waits for its answer."""
        self.outstanding[later] = None
        self.link.account.begin(later.size, later.held)
        if not later.held:
            self.in_flight += later.count
            if self.in_flight >= self._limits.in_flight:
                self.link.block(IN_FLIGHT)

    def done(self, later: IOutstanding | KeptAnswers) -> bool:
        """Note that an answer is there; false where nobody wants it any more."""
        if later not in self.outstanding:
            return False
        link = self.link
        del self.outstanding[later]
        link.account.end(later.size, later.held)
        if not later.held:
            self.in_flight -= later.count
            if link.blocks & IN_FLIGHT and self.in_flight <= self._limits.in_flight // 2:
                link.unblock(IN_FLIGHT)
        if link.state is State.DRAINING and not self.outstanding:
            link.wake()
        return self.open

    def busy(self) -> bool:
        """Tell whether answers are outstanding."""
        return bool(self.outstanding)

    def writable(self) -> None:
        """Do nothing: what waits goes on by itself when reading does."""

    # -- requests of ours ------------------------------------------------------------------------------------------

    def ask(self, command: Command, timeout: float) -> Deferred[Command]:
        """Send a request and fire with the response; see L{Calls.ask}."""
        return self.calls.ask(command, timeout)

    def tell(self, command: Command) -> None:
        """Send a request that wants no answer; dropped silently when the connection is gone."""
        if self.open:
            self.calls.send(command)

    # -- ending ----------------------------------------------------------------------------------------------------

    def close(self, reason: str) -> None:
        """End the connection after what was put is sent; C{reason} goes to the log."""
        self.link.close(reason)

    def refusal(self, data: bytes) -> bytes:
        """Return the answer to the first request of a client without TLS, where TLS is enforced."""
        return refusal(data)

    def draining(self) -> None:
        """Take no more requests, and let long polls go."""
        self._drop_waiting()
        for later in [later for later in self.outstanding if later.held]:
            later.cancel()

    def give_up(self) -> None:
        """Answer what is in flight in the processors' place."""
        for later in list(self.outstanding):
            later.give_up()

    def ending(self) -> None:
        """Drop the frames that wait, and what was gathered of another."""
        self._drop_waiting()
        self._decoder = _NO_FRAMES

    def _drop_waiting(self) -> None:
        frames, self._waiting = self._waiting, []
        self.link.account.take_out(frames)

    def failed(self, failure: Failure) -> bool:
        """Tell the listener; the link logs it."""
        self._tell("failed", failure)
        return False

    def explained(self, reason: Failure) -> Failure:
        """Guess why a peer that we dialled has closed the connection before it said anything."""
        link = self.link
        if not self.dialled or not self.open or not reason.check(ConnectionDone, ConnectionLost):
            return reason
        if link.tls is not None and not link.secure:
            return Failure(HandshakeFailed("it was closed before TLS was agreed on; does the port speak TLS?"))
        if link.tls is None and not self.frames:
            return Failure(NotConnected("it was closed before anything was answered; does the port want TLS?"))
        return reason

    def idle(self, seconds: float) -> bool:
        """Report to the listener that the connection is idle; return false: it is closed."""
        self._tell("idle", seconds)
        return False

    def lost(self, reason: Failure) -> None:
        """Tell the listener, fail our calls, and forget the requests of the peer."""
        reached = self.link.reached
        if reached and self.link.state is State.CLOSED:
            self._tell("closed")
        elif reached:
            self._tell("disconnected", reason)
        why = "it was given up" if reason.check(ConnectionAborted) else reason.getErrorMessage()
        self.calls.end(f"{'lost' if reached else 'cannot connect to'} {self.address}: {why}")
        outstanding, self.outstanding = self.outstanding, {}
        self.in_flight = 0
        for later in outstanding:
            if later.held:
                later.cancel()
            later.forget()

    def _tell(self, event: str, *details: object) -> None:
        """Call a listener; what it raises is its own bug and stops nobody."""
        try:
            getattr(self._listener, event)(self, *details)
        except Exception:
            self._log.failure("a connection listener failed at {event}", event=event)
