"""The slave's side of replication: keeps our log equal to that of a master."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectError
from twisted.internet.interfaces import IAddress, IDelayedCall
from twisted.internet.protocol import Factory
from twisted.internet.task import LoopingCall, deferLater
from twisted.logger import Logger
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.python.failure import Failure
from zope.interface import implementer

from smartgo.env.interfaces import IClock, IEnvironment
from smartgo.errors import CallFailed, LogsDiffer, LogTorn, NotConnected, PeerRefused, ServiceNotAvailable, SmartgoError
from smartgo.ha.backoff import LATE, SOON, Backoff
from smartgo.ha.compare import Verdict, compare, uncancelled
from smartgo.ha.interfaces import IFollowing, IMasterTail, SlaveState, Tail
from smartgo.ha.link import ReplicationLink
from smartgo.ha.transfer import HEARTBEAT, HOUSEKEEPING, SlaveEnd
from smartgo.net.alarm import NEVER, Alarm
from smartgo.net.tls import ClientTLS, HandshakeFailed, readable
from smartgo.schema.address import parse_address
from smartgo.schema.codes import ResponseCode
from smartgo.store.interfaces import IReplicatedLog

_CONNECT: Final = 5.0  # seconds to make a connection
_HANDSHAKE: Final = 10.0  # seconds to agree on TLS
_GOOD: Final = 10.0  # seconds; a stream that lasted so long, or brought something, was a good one
_ASK_AGAIN: Final = 60.0  # seconds between two looks at a log that differs
_REFRESH: Final = 5.0  # seconds between two questions for the master's end
_NEAR: Final = 1024 * 1024  # bytes; further behind than this we are catching up


class Stream(ReplicationLink):
    """
    One connection to a master: what comes is appended, and reported.

    @ivar end: the logic of it.
    @ivar over: fires when it is over, with why.
    """

    def __init__(
        self, clock: IClock, end: SlaveEnd, heard: Callable[[], None], tls: TLSMemoryBIOFactory | None = None
    ) -> None:
        """
        @param heard: called after each chunk.
        @param tls: makes a layer of TLS; C{None}: there is none.
        """
        super().__init__(clock)
        self.end = end
        self._heard = heard
        self._tls = tls
        self._handshake: IDelayedCall | None = None  # when it has taken too long
        self._alarm = Alarm(clock, self._due, self._look)
        self.over: Deferred[SmartgoError] = Deferred()

    def connectionMade(self) -> None:
        """Begin, with TLS where we have to."""
        super().connectionMade()
        if self._tls is None:
            self.secured()
        else:
            error = NotConnected(f"there is no TLS within {_HANDSHAKE:g} s")
            self._handshake = self.clock.callLater(_HANDSHAKE, self._too_slow, error)
            self.secure(self._tls)

    def _too_slow(self, error: SmartgoError) -> None:
        self._handshake = None
        self.fail(error)

    def _no_handshake(self) -> bool:
        """Wait for TLS no more; return whether we did until now."""
        waited, self._handshake = self._handshake, None
        if waited is not None:
            waited.cancel()
        return waited is not None

    def secured(self) -> None:
        """Say where we stand."""
        self._no_handshake()
        if not self.open:
            return
        self.write(self.end.begin(self.clock.seconds()))
        self._alarm.set()

    def dataReceived(self, data: bytes) -> None:
        """Append all of it, then report once."""
        if not self.open:
            return
        try:
            self.end.receive(data, self.clock.seconds())
        except SmartgoError as error:
            self.fail(error)
            return
        self.report()
        self._heard()

    def report(self) -> None:
        """Tell how far we are, if that is farther than before."""
        if self.open:
            self.write(self.end.report(self.clock.seconds()))

    def fail(self, error: SmartgoError) -> None:
        """End it for this reason."""
        self._alarm.stop()
        self._no_handshake()
        self.abort()
        self._over(error)

    def leave(self) -> None:
        """End it in peace."""
        self._alarm.stop()
        self._no_handshake()
        self.close()

    def ended(self, reason: Failure) -> None:
        """Set no more timers, and tell why the stream is over."""
        self._alarm.end()
        during = self._no_handshake()
        super().ended(reason)
        reason = readable(reason)
        why = f"the connection was lost: {reason.getErrorMessage()}"
        if during and not reason.check(HandshakeFailed):
            why = "the connection was lost before TLS was agreed on; does the master speak TLS (tls.server.certPath)?"
        self._over(NotConnected(why))

    def _over(self, error: SmartgoError) -> None:
        if not self.over.called:
            self.over.callback(error)

    def _due(self) -> float:
        return self.end.due if self.open else NEVER

    def _look(self, now: float) -> None:
        try:
            self.write(self.end.check(now))
        except SmartgoError as error:
            self.fail(error)


@implementer(IFollowing)
class Slave(Service):
    """
    Follows a master.

    It is made as C{Slave(env, log, tail, ack_flushed=..., ...)}, started when the store is open, told whom to follow by
    L{follow} (before or after that), and stopped before the store.

    @ivar state: L{SlaveState}.
    @ivar reason: one sentence on why we are not following; empty while we are.
    @ivar master: C{host:port} of the master's replication port; C{None} while unknown.
    """

    _log = Logger()

    def __init__(
        self,
        env: IEnvironment,
        log: IReplicatedLog,
        tail: IMasterTail,
        *,
        ack_flushed: bool = False,
        heartbeat: float = HEARTBEAT,
        housekeeping: float = HOUSEKEEPING,
        tls: ClientTLS | None = None,
    ) -> None:
        """
        @param tail: asks a master's main port.
        @param tls: how masters are spoken to, where that is by TLS. A master that does not know the question, a
            RocketMQ broker, has none at its port for slaves: it is followed without.
        @param ack_flushed: report what is flushed, not what is appended (C{haAckMode=flush}); the store should flush
            after each run of appends then, or the master waits for its half second.
        """
        self._env = env
        self._replicated = log
        self._tail = tail
        self._ack_flushed = ack_flushed
        self._heartbeat = heartbeat
        self._housekeeping = housekeeping
        self._tls = tls
        self._main: str | None = None
        self._master_end = -1
        self._task: Deferred[None] | None = None
        self._turn = 0  # of the task; another than the present one has nothing more to do
        self._stream: Stream | None = None
        self._links: set[Stream] = set()  # those that are not gone yet
        self._all_flushed: Deferred[None] | None = None
        self._callbacks: list[Callable[[], None]] = []
        self.master: str | None = None
        self.state = SlaveState.STOPPED
        self.reason = "not started"
        if ack_flushed:
            log.follow_flushes(self._flushed)

    # -- for the broker ------------------------------------------------------------------------------------------

    def follow(self, replication_address: str | None, master_address: str | None) -> None:
        """Follow this master from now on; the same as before changes nothing."""
        if (replication_address, master_address) != (self.master, self._main):
            self.master = replication_address
            self._main = master_address
            self._master_end = -1
            if self.running:
                self._begin()

    @property
    def behind(self) -> int:
        """Bytes of the master's log that we lack, as far as known; -1 for unknown."""
        if self._master_end < 0:
            return -1
        return max(0, self._master_end - self._replicated.log_bounds()[1])

    def when_changed(self, callback: Callable[[], None]) -> None:
        """Call back after each change of C{state} or C{reason}; not the place to call L{follow}."""
        self._callbacks.append(callback)

    def startService(self) -> None:
        """Begin to follow."""
        super().startService()
        self._begin()

    def stopService(self) -> Deferred[None]:
        """Follow no more; fires when no connection is left."""
        super().stopService()
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        self._end()
        for stream in list(self._links):
            await stream.lost
        self._set(SlaveState.STOPPED, "stopped")

    def _set(self, state: SlaveState, reason: str = "") -> None:
        if (state, reason) != (self.state, self.reason):
            self.state = state
            self.reason = reason
            for callback in self._callbacks:
                try:
                    callback()
                except Exception:  # it is the callback's own bug
                    self._log.failure("a callback failed at {state}", state=state)

    def _begin(self) -> None:
        self._end()
        if self.master is None:
            self._set(SlaveState.NO_MASTER, "no master is known")
        else:
            self._set(SlaveState.CONNECTING, "connecting")
            self._task = Deferred.fromCoroutine(self._follow(self.master, self._main, self._turn))
            self._task.addErrback(lambda failure: failure.trap(CancelledError))
            self._task.addErrback(lambda failure: self._log.failure("following ended", failure=failure))

    def _end(self) -> None:
        self._turn += 1
        task, self._task = self._task, None
        if task is not None:
            task.cancel()

    # -- attempts ------------------------------------------------------------------------------------------------

    async def _follow(self, address: str, main: str | None, turn: int) -> None:
        """Follow one master, until it is another's turn."""
        backoff = Backoff(self._env.random)
        clock = self._env.clock
        while turn == self._turn:
            began, end = clock.seconds(), self._replicated.log_bounds()[1]
            longest = SOON
            try:
                why = await self._attempt(address, main)
            except Exception as error:
                if turn != self._turn:  # what was waited for is cancelled, and raises what it likes
                    return
                why = str(error)
                if isinstance(error, PeerRefused) and error.code == ResponseCode.NO_PERMISSION:
                    longest = LATE
                elif not isinstance(error, (SmartgoError, ConnectError, OSError)):
                    self._log.failure("following {master} failed", master=address)
                    why = repr(error)
            if self._replicated.log_bounds()[1] != end or clock.seconds() - began >= _GOOD:
                backoff.reset()
            if self.state is SlaveState.DIVERGED:
                pause = _ASK_AGAIN
                self._log.error(
                    "not following {master}: {why}; nothing is copied or removed until somebody empties the wrong store"
                    " or brings the right one back", master=address, why=self.reason,
                )  # fmt: skip
            else:
                pause = backoff.pause(longest)
                self._log.warn("not following {master}: {why}; again in {s:.0f} s", master=address, why=why, s=pause)
                self._set(SlaveState.CONNECTING, why)
            await deferLater(clock, pause)

    async def _attempt(self, address: str, main: str | None) -> str:
        """Compare the logs, then append what the master sends until that ends; return why it did, in a sentence."""
        log = self._replicated
        clock = self._env.clock
        try:
            host, port = parse_address(address)
        except ValueError as no_address:
            raise NotConnected(str(no_address)) from None
        while self._ack_flushed and log.flushed < log.log_bounds()[1]:  # the first report is a confirmation, too
            self._all_flushed = Deferred()
            await self._all_flushed
        asked = main
        verdict = Verdict("", None)
        if main is not None:
            verdict = await compare(log, self._tail, main)
            if verdict.master_end is None:
                asked = None
            else:
                self._master_end = verdict.master_end
            if verdict.difference:
                self._set(SlaveState.DIVERGED, verdict.difference)
                return verdict.difference
        end = SlaveEnd(
            log,
            clock.seconds(),
            self._ack_flushed,
            self._heartbeat,
            self._housekeeping,
            verdict.ticket,
            verdict.master_minimum,
        )
        if self.state is SlaveState.DIVERGED and end.doubt is None:
            self._set(SlaveState.CONNECTING, "connecting")
        stream = Stream(clock, end, self._heard, self._layers(host, main is not None and asked is None, address))
        await self._env.network.connect(host, port, _Dial(stream), _CONNECT)
        self._links.add(stream)
        stream.lost.addCallback(lambda _: self._links.discard(stream))
        self._stream = stream
        asking = LoopingCall(self._ask_end, asked)
        asking.clock = clock
        if asked is not None:
            asking.start(_REFRESH, now=False)
        self._log.info("following {master} from {offset} on", master=address, offset=end.end)
        try:
            if end.doubt is None:
                self._set(SlaveState.CATCHING_UP)
            error = await stream.over
        finally:
            self._stream = None
            if asking.running:
                asking.stop()
            stream.leave()
        try:
            if isinstance(error, LogTorn):
                await uncancelled(log.repair(error.records))
                self._set(SlaveState.CONNECTING, str(error))
        except LogsDiffer as difference:
            error = difference
        if isinstance(error, LogsDiffer):
            self._set(SlaveState.DIVERGED, str(error))
        if isinstance(error, ServiceNotAvailable):
            return f"our own store takes nothing: {error}"
        return f"{address}: {error}"

    def _layers(self, host: str, rocketmq: bool, address: str) -> TLSMemoryBIOFactory | None:
        """Return what makes TLS towards a master; C{None} for none."""
        if self._tls is None:
            return None
        if rocketmq:
            self._log.warn(
                "following {master} without TLS: it is a RocketMQ broker, which has none at its port for slaves",
                master=address,
            )
            return None
        return self._tls.factory(host)

    # -- while it goes on ----------------------------------------------------------------------------------------

    def _heard(self) -> None:
        """Something came."""
        if self._stream is not None:
            self._master_end = max(self._master_end, self._stream.end.master_end)
            if self.state in (SlaveState.CONNECTING, SlaveState.DIVERGED) and self._stream.end.doubt is None:
                self._set(SlaveState.CATCHING_UP)
            if self.state is SlaveState.CATCHING_UP and self.behind == 0:
                self._set(SlaveState.FOLLOWING)

    def _flushed(self, end: int) -> None:
        """More of our log is on the disk."""
        waiting, self._all_flushed = self._all_flushed, None
        if waiting is not None:
            waiting.callback(None)
        if self._stream is not None:
            self._stream.report()

    def _ask_end(self, main: str) -> Deferred[None]:
        """Ask how far the master's log goes: while we catch up the stream does not tell."""
        end = self._replicated.log_bounds()[1]
        asked = self._tail.ask(main, end, end)
        told: Deferred[None] = asked.addCallback(self._told_end, main)
        told.addErrback(lambda failure: failure.trap(CallFailed) and None)  # the stream knows best whether it is there
        return told.addErrback(lambda failure: self._log.failure("asking {master} failed", failure, master=main))

    def _told_end(self, tail: Tail | None, main: str) -> None:
        if tail is not None and self._stream is not None and main == self._main:
            self._master_end = max(self._master_end, tail.end)
            if self.state is SlaveState.FOLLOWING and self.behind > _NEAR:
                self._set(SlaveState.CATCHING_UP)


class _Dial(Factory):
    """Makes the one protocol of an attempt to connect."""

    noisy = False

    def __init__(self, stream: Stream) -> None:
        self._stream: Stream | None = stream

    def buildProtocol(self, addr: IAddress | None) -> Stream | None:
        """Hand the stream over: Twisted keeps the factory longer than the connection lasts."""
        stream, self._stream = self._stream, None
        return stream
