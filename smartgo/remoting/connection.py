"""
One connection, accepted or dialled: its life, its way in and out, and when it takes requests.

Bytes come from and go to L{smartgo.remoting.protocol}; what a request means is the business of
L{smartgo.remoting.dispatch}, what we ask of the peer that of L{smartgo.remoting.calls}, and how long to wait for it
that of L{smartgo.net.deadlines}.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, Protocol

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from smartgo.errors import BadHeader, FramingError, NoRoom, PeerTooSlow
from smartgo.net.account import Account
from smartgo.net.deadlines import AT_ONCE, Deadlines
from smartgo.net.limits import NEVER, Limits
from smartgo.net.sendbuffer import SendBuffer
from smartgo.net.slowturns import LIMIT
from smartgo.net.sweeper import Sweeper
from smartgo.remoting.calls import Calls
from smartgo.remoting.dispatch import Dispatcher, Later
from smartgo.remoting.interfaces import IConnectionListener, IPeer
from smartgo.remoting.states import TRANSITIONS, Event, State
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import RESPONSE, Command, decode

# Why no requests are taken from a connection just now; any number of these bits.
_FULL: Final = 1  # too many in flight (L12)
_CLOGGED: Final = 2  # too much unsent (L13)
_ENDING: Final = 4  # draining or closing

CODES: Final = frozenset(int(one) for one in RequestCode)
FRAMES_A_TURN: Final = 64
"""Requests of one connection that are processed before it is another one's turn."""

_LARGE: Final = 16384  # bytes in pieces; to copy as much together costs more than to have the kernel gather it
_FEW: Final = 256  # pieces; a system has a limit to how many it gathers


def _kind_of(frame: bytes) -> str:
    """Name a frame that took long: one of a few names, whatever a peer makes up."""
    try:
        command = decode(frame)
    except (FramingError, BadHeader):
        return "unreadable request"
    if command.flag & RESPONSE:
        return "answer to a call of ours"
    return f"request {command.code}" if command.code in CODES else "request of an unknown code"


class Owner(Protocol):
    """Who has this connection: a server or a client."""

    def leaving(self, connection: Connection) -> None:
        """It will take no more calls; called once, before C{ended}."""

    def ended(self, connection: Connection) -> None:
        """It is gone; called once, after everybody else has heard."""


@implementer(IPeer)
class Connection:
    """
    One connection.

    @ivar state: see L{smartgo.remoting.states}.
    @ivar open: false once nothing more can be sent.
    @ivar dialled: whether we made it.
    @ivar secure: whether there is TLS on it.
    @ivar address: the remote address as C{host:port}.
    @ivar ip: the remote IP address alone.
    @ivar host: the remote address as a record stores it.
    @ivar local_ip: the IP address of ours that was dialled, or empty.
    @ivar local_port: the port of ours that was dialled, or C{0}.
    @ivar calls: what we asked of the peer.
    @ivar out: encoded answers and requests that leave with the next write, in order.
    @ivar undone: requests whose answers are outstanding.
    @ivar in_flight: how many those are, held ones not counted.
    @ivar chunks: how many chunks were read.
    @ivar frames: how many whole frames came in them.
    """

    _log = Logger()

    __slots__ = (
        "__weakref__",
        "_account",
        "_cut_at",
        "_dispatcher",
        "_handshaking",
        "_limits",
        "_listener",
        "_outflow",
        "_owner",
        "_paused",
        "_protocol",
        "_queued",
        "_rounds",
        "_running",
        "_size",
        "_stops",
        "_waiting",
        "_watch",
        "_woken",
        "address",
        "calls",
        "chunks",
        "dialled",
        "frames",
        "host",
        "in_flight",
        "ip",
        "local_ip",
        "local_port",
        "open",
        "out",
        "secure",
        "state",
        "undone",
    )  # fmt: skip

    def __init__(
        self,
        rounds: Sweeper,
        limits: Limits,
        dispatcher: Dispatcher,
        listener: IConnectionListener,
        owner: Owner,
        dial: str = "",
    ) -> None:
        """
        @param dial: the address we are about to dial, as C{host:port}; empty for one that was accepted.
        """
        self._rounds = rounds
        self._limits = limits
        self._dispatcher = dispatcher
        self._listener = listener
        self._owner = owner
        self._protocol: Any = None
        self._outflow = SendBuffer(self._moved)
        self._watch = Deadlines(limits)
        self._account = Account(rounds.budget, self, bool(dial))
        self.calls = Calls(self, rounds, limits)
        self.state = State.DIALLING if dial else State.OPEN
        self.open = True
        self.dialled = bool(dial)
        self.secure = False
        self.address = dial
        self.ip = ""
        self.host = b""
        self.local_ip = ""
        self.local_port = 0
        self.out: list[bytes | memoryview] = []
        self._size = 0  # bytes that were put into out beside the dispatcher's fast path
        self.undone: set[Later] = set()
        self.in_flight = 0
        self.chunks = 0
        self.frames = 0
        self._waiting: list[bytes] = []  # frames read and not taken yet
        self._stops = 0
        self._paused = False  # the transport was told not to read
        self._running = False  # frames are being taken right now
        self._woken = False  # turn() will be called
        self._queued = False  # more() will be called
        self._handshaking = False
        self._cut_at = NEVER

    def __repr__(self) -> str:
        return f"<connection {'to' if self.dialled else 'from'} {self.address}, {self.state.value}>"

    @property
    def held(self) -> int:
        """How many long polls of this peer are held."""
        return len(self.undone) - self.in_flight

    @property
    def unsent(self) -> int:
        """How many bytes wait to be sent."""
        return self._outflow.unsent + self._size

    @property
    def room(self) -> int:
        """How many bytes of answers may be made before some must be sent."""
        return self._limits.unsent_pause - self._outflow.unsent

    @property
    def full(self) -> bool:
        """Whether too many requests are in flight."""
        return self._stops & _FULL != 0

    @property
    def check_at(self) -> float:
        """When L{check} is due."""
        return self._watch.look_at if self.open else self._cut_at

    def _go(self, event: Event) -> bool:
        """Move on in the table; false where the event means nothing here."""
        following = TRANSITIONS.get((self.state, event))
        if following is None:
            return False
        self.state = following
        return True

    # -- beginning -----------------------------------------------------------------------------------------------

    def up(
        self, protocol: Any, address: str, ip: str, host: bytes, local_port: int, securing: bool, local_ip: str = ""
    ) -> None:
        """
        The transport is there.

        @param protocol: has C{transport}, C{pending}, C{pause_reading} and C{resume_reading}.
        @param securing: a TLS handshake comes first, or may come.
        """
        self._protocol = protocol
        self.ip = ip
        self.host = host
        if self.dialled:
            self._rounds.counts.dialled += 1
        else:
            self._rounds.counts.accepted += 1
            self.address = address
            self.local_ip = local_ip
            self.local_port = local_port
        if securing:
            self._watch.expect_handshake(self._rounds.clock.seconds())
        self._rounds.join(self)
        reached = self._go(Event.UP) or not self.dialled
        self._tell("connected" if self.dialled else "active")
        if not reached:  # closed while dialling
            self._cut()

    def handshake_begun(self) -> None:
        """TLS it is."""
        self._handshaking = True

    def ready(self, transport: Any, secure: bool) -> None:
        """Bytes of ours may be written to this transport now."""
        if not self.open:
            return
        self._handshaking = False
        self.secure = secure
        self._watch.expect_frame(self._rounds.clock.seconds())
        self._outflow.open(transport)
        self.calls.begin()

    # -- in --------------------------------------------------------------------------------------------------------

    def heard_chunk(self, partial: int, whole: bool) -> None:
        """
        Bytes came.

        @param partial: how many bytes of a frame that is not whole are here now.
        @param whole: whether the end of a frame came.
        """
        rounds = self._rounds
        now = rounds.now = rounds.clock.seconds()
        if now > rounds.overdue:
            rounds.stood_still(now)
        self.chunks += 1
        self._watch.heard_at = rounds.stamp
        if partial or self._account.unfinished:
            self._watch.look_at = AT_ONCE
            self._account.read(partial, whole)

    def receive(self, frames: list[bytes]) -> None:
        """Take the whole frames of one read."""
        self.frames += len(frames)
        if self.state is State.OPEN and self._go(Event.FRAME):
            self._watch.expect_nothing()
            self._tell("first_frame")
        if self._running or self._stops or self._waiting:
            self._line_up(frames)
        elif len(frames) <= FRAMES_A_TURN:
            self._work(frames)
        else:
            self._work(frames[:FRAMES_A_TURN])
            self._line_up(frames[FRAMES_A_TURN:])

    def _line_up(self, frames: list[bytes]) -> None:
        """Let frames wait for their turn; nothing more is read meanwhile."""
        if self.open:
            self._waiting += frames
            self._account.keep(frames)
            self._stand()
            self._ask_for_turn()

    def _ask_for_turn(self) -> None:
        if not self._queued and not self._stops:
            self._queued = True
            self._rounds.queue(self)

    def _next_frames(self) -> list[bytes]:
        """Return the frames whose turn it is; none where something stops us."""
        return self._waiting[:FRAMES_A_TURN] if self.open and not self._stops else []

    def more(self) -> int:
        """Process some of the frames that wait; return how many. Their answers leave by L{flush}."""
        self._queued = False
        frames = self._next_frames()
        if not frames:
            return 0
        taken = 0
        self._running = True
        try:
            taken = self._dispatcher.run(self, frames, self._rounds.begun)
        except Exception as error:
            self.fail(Failure(error))
        finally:
            self._running = False
            took = self._rounds.clock.seconds() - self._rounds.now
            if took >= LIMIT:
                self._note_slow(frames, took)
        if not self.open:
            self._part()
            return taken
        self._account.take_out(frames[:taken])
        del self._waiting[:taken]
        if self._stops:
            self._stand()
        elif self._waiting:
            self._ask_for_turn()
        else:
            self._wake()  # to read on
        return taken

    def _work(self, frames: list[bytes]) -> None:
        """Answer frames until there are none, or something stops us; what is left waits."""
        self._running = True
        rounds = self._rounds
        all_frames = frames
        try:
            while True:
                taken = self._dispatcher.run(self, frames, rounds.begun)
                rounds.read(self, taken)
                if rounds.together and taken == len(frames) and self.open and not self._stops:
                    self._wake()
                    break
                self.flush()
                if taken == len(frames) or not self.open:
                    break
                frames = frames[taken:]
                if self._stops:
                    self._line_up(frames)
                    break
        except Exception as error:
            self.fail(Failure(error))
        finally:
            self._running = False
            if rounds.begun and not self._woken:
                rounds.end_runs()
            took = rounds.clock.seconds() - rounds.now
            if took >= LIMIT:
                self._note_slow(all_frames, took)
        if not self.open:
            self._part()
        elif self._stops:
            self._stand()

    def _note_slow(self, frames: list[bytes], seconds: float) -> None:
        """Count frames that held the reactor up, under the name that most of them have."""
        names = Counter(map(_kind_of, frames))
        detail = ", ".join(f"{count} of {name}" for name, count in names.most_common(3))
        self._rounds.slow.note(names.most_common(1)[0][0], seconds, f"{detail}, with {self.address}")

    def heard(self, answer: Command) -> None:
        """Take an answer to a call of ours."""
        self.calls.answered(answer)

    def unreadable(self, error: BadHeader) -> None:
        """Note a frame whose header could not be read."""
        self._rounds.counts.unreadable += 1
        self._rounds.complaints.warn(
            self.ip, "unreadable header from {peer}: {error}", peer=self.address, error=str(error)
        )

    # -- requests in flight ----------------------------------------------------------------------------------------

    def begun(self, later: Later) -> None:
        """A request waits for its answer."""
        self.undone.add(later)
        self._account.begin(later.size, later.held)
        if not later.held:
            self.in_flight += 1
            if self.in_flight >= self._limits.in_flight:
                self._stop(_FULL)

    def done(self, later: Later) -> bool:
        """Its answer is there; false where nobody wants it any more."""
        if later not in self.undone:
            return False
        self.undone.discard(later)
        self._account.end(later.size, later.held)
        if not later.held:
            self.in_flight -= 1
            if self._stops & _FULL and self.in_flight <= self._limits.in_flight // 2:
                self._go_on(_FULL)
        if self.state is State.DRAINING and not self.undone:
            self._wake()
        return self.open

    # -- out -------------------------------------------------------------------------------------------------------

    def put(self, frame: bytes) -> int:
        """Send an encoded frame with the next write; return its size in bytes."""
        size = len(frame)
        self.out.append(frame)
        self._size += size
        if not self._running:
            self._soon()
        return size

    def put_pieces(self, pieces: Sequence[bytes | memoryview]) -> int:
        """Send an encoded frame that is in pieces with the next write; return its size in bytes."""
        size = 0
        for piece in pieces:
            size += len(piece)
        self.out.extend(pieces)
        self._size += size
        if not self._running:
            self._soon()
        return size

    def _soon(self) -> None:
        if self._size > self._limits.unsent_pause:
            self.flush()
        else:
            self._wake()

    def _wake(self) -> None:
        if not self._woken:
            self._woken = True
            self._rounds.wake(self)

    def turn(self) -> None:
        """Do what waited for the end of this reactor turn."""
        self._woken = False
        if not self.open:
            return
        self.flush()
        if self.state is State.DRAINING and not self.undone:
            self.end()
            return
        if not self._stops and self._waiting:
            self._ask_for_turn()
        if self._paused and not self._stops and not self._waiting and not self._account.paused:
            self._paused = False
            self._protocol.resume_reading()

    def flush(self) -> None:
        """Write what was put, in one piece."""
        if self._rounds.begun:
            self._rounds.end_runs()
        out = self.out
        if not out:
            return
        outflow = self._outflow
        size = self._size
        unsent = outflow.unsent + size
        self._size = 0
        if unsent > self._limits.unsent_close:  # before all of it is copied together
            out.clear()
            self._too_slow(f"{unsent} B unsent")
            return
        self._watch.moved_at = self._rounds.stamp
        if size >= _LARGE and len(out) <= _FEW:
            pieces = out[:]
            out.clear()
            outflow.write_pieces(pieces, sum(map(len, pieces)))
        else:
            data = b"".join(out)
            out.clear()
            outflow.write(data)
        # A dialled connection reads on: two ends that each wait for the other to read would wait for ever.
        if outflow.unsent > self._limits.unsent_pause and self.open and not self.dialled:
            if self._watch.full_since == NEVER:
                self._watch.full_since = self._rounds.stamp
                self._watch.look_at = AT_ONCE
            self._stop(_CLOGGED)
        if outflow.unsent or unsent != size:
            self._account.unsent(outflow.unsent)

    def _moved(self) -> None:
        """The transport has sent something."""
        self._watch.moved_at = self._rounds.stamp
        unsent = self._outflow.unsent
        self._account.unsent(unsent)
        if unsent <= self._limits.unsent_pause:
            self._watch.full_since = NEVER
        if self._stops & _CLOGGED and unsent <= self._limits.unsent_resume:
            self._go_on(_CLOGGED)

    def _stop(self, why: int) -> None:
        """Take no more requests, for this reason too."""
        self._stops |= why
        if not self._running:
            self._stand()

    def _stand(self) -> None:
        if not self._paused and self.open and self.calls.ready:
            self._paused = True
            self._protocol.pause_reading()

    # -- room in memory --------------------------------------------------------------------------------------------

    def stop_reading(self) -> None:
        """Take nothing from the socket: there is no room for it. Frames that are whole are processed."""
        self._stand()

    def read_on(self) -> None:
        """There is room again."""
        self._wake()

    def no_room(self, why: str) -> None:
        """Give up the connection: there is no room for what it sends."""
        self.fail(Failure(NoRoom(why)))
        self._cut()
        self._account.unsent(0)  # nothing of it is kept until the transport is gone

    def _go_on(self, why: int) -> None:
        """This reason is gone; go on next turn where it was the last."""
        self._stops &= ~why
        if not self._stops:
            self._wake()

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
        if self.end():
            self._log.info("closing {peer}: {reason}", peer=self.address, reason=reason)

    def fail(self, failure: Failure) -> None:
        """End the connection because something went wrong on it: a broken stream, a limit passed, a bug of ours."""
        if not self.open:
            return
        counts = self._rounds.counts
        if failure.check(PeerTooSlow):
            counts.slow += 1
        elif failure.check(NoRoom):
            pass  # the budget counts them
        elif failure.check(FramingError):
            counts.broken += 1
        if failure.check(FramingError):
            self._complain("closing {peer}: {error}", failure)
        else:
            self._log.failure("closing {peer}", failure=failure, peer=self.address)
        self._tell("failed", failure)
        self.end()

    def drain(self) -> None:
        """Take no more requests, let go of held ones, and close when those in flight are answered."""
        if not self._go(Event.DRAIN):
            self.end()
            return
        self._drop_waiting()
        self._stop(_ENDING)
        for later in [later for later in self.undone if later.held]:
            later.cancel()
        if not self.undone:
            self._wake()

    def give_up(self) -> None:
        """Answer what is in flight in the processors' place, and close."""
        for later in list(self.undone):
            later.give_up()
        self.end()

    def abort(self) -> None:
        """End the connection at once; what is unsent is lost."""
        self.end()
        self._cut()

    def end(self) -> bool:
        """End the connection after what was put is sent, without a word; false where that was done before."""
        if not self._go(Event.CLOSE):
            return False
        self.open = False
        self._drop_waiting()
        if self._protocol is not None:
            self._protocol.stop_taking()
            self._account.read(0, False)
        self._stops |= _ENDING
        if self._paused:  # TLS ends when the peer has said so too, which must be read
            self._paused = False
            self._protocol.resume_reading()
        self._owner.leaving(self)
        self._cut_at = self._rounds.clock.seconds() + self._limits.farewell
        if not self._running:
            self._part()
        return True

    def _drop_waiting(self) -> None:
        frames, self._waiting = self._waiting, []
        self._account.take_out(frames)

    def _part(self) -> None:
        """Send the last words and let the transport go."""
        if self.calls.ready:
            self.flush()
            self._outflow.finish()
        elif self._protocol is not None:  # not a word was said
            self._protocol.transport.loseConnection()

    def _cut(self) -> None:
        self._outflow.stopProducing()
        if self._protocol is not None:
            self._protocol.transport.abortConnection()

    def _too_slow(self, why: str) -> None:
        self.fail(Failure(PeerTooSlow(why)))
        self._cut()

    def gone(self, reason: Failure) -> None:
        """The transport is gone, or was never reached."""
        reached = self._protocol is not None
        left = self.open
        if not self._go(Event.GONE):
            return
        self.open = False
        self._outflow.stopProducing()
        self._waiting.clear()
        self.out.clear()
        self._account.close()
        self._rounds.leave(self)
        self._rounds.sleep(self)
        if self._queued:
            self._queued = False
            self._rounds.leave_queue(self)
        if left:
            self._owner.leaving(self)
        if reached:
            if self._handshaking and left:
                self._rounds.counts.broken += 1
                self._complain("{peer}: {error}", reason)
                self._tell("failed", reason)
            if self.state is State.CLOSED:
                self._tell("closed")
            else:
                self._tell("disconnected", reason)
        self.calls.end(f"{'lost' if reached else 'cannot connect to'} {self.address}: {reason.getErrorMessage()}")
        undone, self.undone = self.undone, set()
        self.in_flight = 0
        for later in undone:
            if later.held:
                later.cancel()
            later.forget()
        self._owner.ended(self)
        self._protocol = None

    def _complain(self, sentence: str, failure: Failure) -> None:
        self._rounds.complaints.warn(self.ip, sentence, peer=self.address, error=failure.getErrorMessage())

    def _tell(self, event: str, *details: object) -> None:
        """Call a listener; what it raises is its own bug and stops nobody."""
        try:
            getattr(self._listener, event)(self, *details)
        except Exception:
            self._log.failure("a connection listener failed at {event}", event=event)

    # -- time ------------------------------------------------------------------------------------------------------

    def check(self, now: float) -> None:
        """Look at what this connection may have missed."""
        if not self.open:
            self._cut_at = NEVER
            self._cut()
            return
        partial = 0 if self._stops else self._protocol.pending
        if self._account.paused:
            partial = 0
            self._watch.not_read(now)
        late = self._watch.look(now, self.frames, partial, self._outflow.unsent)
        if late:
            self._too_slow(late)
            return
        idle = self._watch.idle_for(now)
        if idle >= self._limits.idle:
            self._rounds.counts.idle += 1
            self._tell("idle", idle)
            self.end()
