"""The slave's side of replication: keeps our log equal to that of a master."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, cast

from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectError
from twisted.internet.task import LoopingCall, deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from smartgo.env.interfaces import IEnvironment
from smartgo.errors import (
    BadRecord,
    CallFailed,
    LogsDiffer,
    LogTorn,
    MessagesKept,
    NotConnected,
    OutOfPlace,
    PeerRefused,
    ServiceNotAvailable,
    SmartgoError,
)
from smartgo.ha.backoff import LATE, SOON, Backoff
from smartgo.ha.compare import Verdict, compare, uncancelled
from smartgo.ha.interfaces import IFollowing, IMasterTail, SlaveState, Tail
from smartgo.ha.masterdamage import expect_damage, explain_doubt, pass_unreadable
from smartgo.ha.masterminimum import MasterMinimum
from smartgo.ha.stream import LIMITS, Stream
from smartgo.ha.transfer import HEARTBEAT, HOUSEKEEPING, SlaveEnd
from smartgo.net.counts import Counts
from smartgo.net.dial import Dial
from smartgo.net.link import Link
from smartgo.net.sweeper import Sweeper
from smartgo.net.tls import ClientTLS
from smartgo.observer import ObserverList
from smartgo.schema.address import parse_address
from smartgo.schema.codes import ResponseCode
from smartgo.store.replicatedlog import IReplicatedLog

_CONNECT: Final = 5.0  # seconds to make a connection
_GOOD: Final = 10.0  # seconds; a stream that lasted so long, or brought something, was a good one
_ASK_AGAIN: Final = 60.0  # seconds between two looks at a log that differs
_REFRESH: Final = 5.0  # seconds between two questions for the master's end
_NEAR: Final = 1024 * 1024  # bytes; further behind than this we are catching up


@dataclass(frozen=True)
class SlaveSettings:
    """
    Settings of a slave's replication.

    @ivar ack_flushed: report what is flushed, not what is appended (C{haAckMode=flush}); the store should flush after
        each run of appends then, or the master waits for its half second.
    @ivar begin_anew: tells whether a log that ends before the master's begins goes though its messages have not expired
        (C{haBeginAnew}); asked each time.
    @ivar heartbeat: seconds without a word of ours before the last report is sent again.
    @ivar housekeeping: seconds without a word of the master's before the connection is ended.
    """

    ack_flushed: bool = False
    begin_anew: Callable[[], bool] = lambda: False
    heartbeat: float = HEARTBEAT
    housekeeping: float = HOUSEKEEPING


@implementer(IFollowing)
class Slave(Service):
    """
    The replication service of a slave: follows a master.

    It is made as C{Slave(env, log, tail, sweeper, SlaveSettings(...))}, started when the store is open, told whom to
    follow by L{follow} (before or after that), and stopped before the store.

    @ivar state: L{SlaveState}.
    @ivar counts: what happened to the connections to masters.
    @ivar reason: one sentence on why we are not following; empty while we are.
    @ivar master: C{host:port} of the master's replication port; C{None} while unknown.
    @ivar minimum: up to where old files of our log may be removed by age.
    """

    _log = Logger()

    def __init__(
        self,
        env: IEnvironment,
        log: IReplicatedLog,
        tail: IMasterTail,
        sweeper: Sweeper,
        settings: SlaveSettings | None = None,
        tls: ClientTLS | None = None,
    ) -> None:
        """
        @param tail: asks a master's main port.
        @param sweeper: timers and the memory budget, shared with all links of the process.
        @param settings: C{None}: the defaults.
        @param tls: how masters are spoken to, where that is by TLS. A master that does not know the question, a
            RocketMQ broker, has none at its port for slaves: it is followed without.
        """
        self._env = env
        self._replicated = log
        self._tail = tail
        self._sweeper = sweeper
        self.counts = Counts()
        self._settings = SlaveSettings() if settings is None else settings
        self._tls = tls
        self._main: str | None = None
        self._master_end = -1
        self._tells_nothing = False  # the master does not know the question, and has sent nothing yet
        self._task: Deferred[None] | None = None
        self._turn = 0  # of the task; another than the present one has nothing more to do
        self._stream: Stream | None = None
        self._streams: set[Stream] = set()  # those that are not gone yet
        self._all_flushed: Deferred[None] | None = None
        self._compared_to = -1  # physical offset at which the last comparison of what is in doubt ended
        self._changes: ObserverList[[]] = ObserverList("the state of replication")
        self.minimum = MasterMinimum(lambda: log.flushed)
        self.master: str | None = None
        self.state = SlaveState.STOPPED
        self.reason = "not started"
        if self._settings.ack_flushed:
            log.follow_flushes(self._flushed)

    # -- for the broker ------------------------------------------------------------------------------------------

    def follow(self, replication_address: str | None, master_address: str | None) -> None:
        """Follow this master from now on; the same as before changes nothing."""
        if (replication_address, master_address) != (self.master, self._main):
            self.master = replication_address
            self._main = master_address
            self._master_end = -1
            self.minimum.forget()
            if self.running:
                self._begin()

    @property
    def behind(self) -> int:
        """Bytes of the master's log that we lack, as far as known; -1 for unknown."""
        if self._master_end < 0:
            return -1
        return max(0, self._master_end - self._replicated.log_bounds()[1])

    @property
    def master_ip(self) -> str | None:
        """The IP address of the master whose log is streamed now; C{None} while none is."""
        return None if self._stream is None else self._stream.link.ip

    def when_changed(self, callback: Callable[[], None]) -> None:
        """Call back after each change of C{state} or C{reason}; not the place to call L{follow}."""
        self._changes.add(callback)

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
        for stream in list(self._streams):
            await stream.gone.when()
        self._set(SlaveState.STOPPED, "stopped")

    def _set(self, state: SlaveState, reason: str = "") -> None:
        if (state, reason) != (self.state, self.reason):
            self.state = state
            self.reason = reason
            self._changes.tell()

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
                pause = backoff.pause(LATE if self._env.buggify("slave.long-pause") else longest)
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
        while (
            self._settings.ack_flushed and log.flushed < log.log_bounds()[1]
        ):  # the first report is a confirmation, too
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
            if verdict.is_too_old:
                verdict = await self._begin_anew(verdict, main)
            if verdict.difference:
                self.minimum.forget()
                self._set(SlaveState.DIVERGED, verdict.difference)
                return verdict.difference
        await uncancelled(log.learn_marks(verdict.marked_from))
        self._tells_nothing = verdict.master_end is None
        if verdict.master_end is not None:
            self.minimum.tell(verdict.master_minimum, verdict.master_end)
        end = SlaveEnd(
            log,
            clock.seconds(),
            self._settings.ack_flushed,
            0.2 if self._env.buggify("slave.many-reports") else self._settings.heartbeat,
            self._settings.housekeeping,
            verdict.ticket,
            verdict.master_minimum,
        )
        began = end.end
        if self.state is SlaveState.DIVERGED and end.doubt is None:
            self._set(SlaveState.CONNECTING, "connecting")
        sessions = partial(Stream, clock=clock, end=end, heard=self._heard)
        link = Link(
            sessions, LIMITS, self._sweeper, self, self._tls_for(main is not None and asked is None, address), address
        )
        stream = cast("Stream", link.session)
        factory = Dial(link)
        try:
            await self._env.network.connect(host, port, factory, _CONNECT)
        except BaseException:
            factory.forget()
            link.missed(Failure())
            raise
        self._streams.add(stream)
        stream.gone.when().addCallback(lambda _: self._streams.discard(stream))
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
        if isinstance(error, BadRecord) and asked is not None:
            await expect_damage(log, self._tail, asked)
        elif isinstance(error, NotConnected) and asked is not None:
            why = ""
            if end.doubt is not None:
                stuck, self._compared_to = self._compared_to == end.doubt.position, end.doubt.position
                why = await explain_doubt(self._tail, asked, end.doubt.position) if stuck else ""
            elif end.end == began:
                why = await pass_unreadable(clock, log, self._tail, asked)
            if why:
                return why
        if isinstance(error, ServiceNotAvailable):
            return f"our own store takes nothing: {error}"
        return f"{address}: {error}"

    async def _begin_anew(self, verdict: Verdict, main: str) -> Verdict:
        """Begin where the master's log does, unless our messages are kept; return how the logs compare then."""
        try:
            await uncancelled(self._replicated.begin_anew(verdict.master_minimum, self._settings.begin_anew()))
        except (MessagesKept, OutOfPlace) as kept:
            way = "haBeginAnew=true lets our log begin anew without them" if isinstance(kept, MessagesKept) else ""
            return verdict._replace(difference=f"{verdict.difference}, but {kept}; {way}".rstrip("; "))
        return await compare(self._replicated, self._tail, main)

    def _tls_for(self, rocketmq: bool, address: str) -> ClientTLS | None:
        """Return how TLS is spoken to a master; C{None}: not at all."""
        if self._tls is not None and rocketmq:
            self._log.warn(
                "following {master} without TLS: it is a RocketMQ broker, which has none at its port for slaves",
                master=address,
            )
            return None
        return self._tls

    def leaving(self, link: Link) -> None:
        """Do nothing: the stream says why."""

    def ended(self, link: Link) -> None:
        """Do nothing: the stream says so."""

    # -- while it goes on ----------------------------------------------------------------------------------------

    def _heard(self) -> None:
        """Record how far the master is, and whether we have caught up."""
        if self._stream is not None:
            if self._tells_nothing:
                self._tells_nothing = False
                self.minimum.tell_nothing()
            self._master_end = max(self._master_end, self._stream.end.master_end)
            if self.state in (SlaveState.CONNECTING, SlaveState.DIVERGED) and self._stream.end.doubt is None:
                self._set(SlaveState.CATCHING_UP)
            if self.state is SlaveState.CATCHING_UP and self.behind == 0:
                self._set(SlaveState.FOLLOWING)

    def _flushed(self, end: int) -> None:
        """Report what is flushed now, and go on where that was waited for."""
        waiting, self._all_flushed = self._all_flushed, None
        if waiting is not None:
            waiting.callback(None)
        if self._stream is not None and not self._env.buggify("slave.late-report"):
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
            self.minimum.tell(tail.minimum, tail.end)
            if self._env.buggify("slave.reconnect"):
                self._stream.fail(NotConnected("the simulator ends the connection"))
            if self.state is SlaveState.FOLLOWING and self.behind > _NEAR:
                self._set(SlaveState.CATCHING_UP)
