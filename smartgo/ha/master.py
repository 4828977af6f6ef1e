"""The master's side of replication: a port of its own, and a connection for each slave that follows us."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Final

from twisted.application.service import Service
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from smartgo.env.interfaces import IEnvironment
from smartgo.ha.confirmations import Confirmations
from smartgo.ha.feed import LIMITS, Feed, Refused
from smartgo.ha.interfaces import IReplicating, SlaveSeen
from smartgo.ha.transfer import HEARTBEAT, HOUSEKEEPING, MasterEnd
from smartgo.net.alarm import NEVER, Alarm
from smartgo.net.endpoints import PeerAddress
from smartgo.net.link import Link
from smartgo.net.listener import Listener
from smartgo.net.ratelimitedlog import RateLimitedLog
from smartgo.net.session import ISession
from smartgo.net.sweeper import Sweeper
from smartgo.net.tls import ServerTLS
from smartgo.schema.hatransfer import TRANSFER_BATCH
from smartgo.store.interfaces import PutStatus
from smartgo.store.replicatedlog import IReplicatedLog

FALLBEHIND_MAX: Final = 256 * 1024 * 1024
"""A slave that is further behind does not count (C{haSlaveFallbehindMax}), in bytes."""
SLAVE_TIMEOUT: Final = 3.0
"""How long a send waits for a slave (C{slaveTimeout}), in seconds."""

_SLAVES: Final = 256  # connections
_HELD: Final = 256  # connections of peers that were not let in
_HELD_FOR: Final = 5.0  # seconds; a RocketMQ slave whose connection is closed is back within a millisecond


@dataclass(frozen=True)
class MasterSettings:
    """
    Settings of a master's port for slaves.

    @ivar sync: a SYNC_MASTER; else L{Master.durable} never asks for anything.
    @ivar allow: networks that slaves may come from (C{10.0.0.0/8}, C{::1}); none for all that reach the port.
    @ivar batch: the longest piece of the log that is sent at once, in bytes.
    @ivar heartbeat: seconds without a word of ours before a heartbeat.
    @ivar housekeeping: seconds without a word of a slave's before its connection is ended.
    @ivar fallbehind_max: a slave that is further behind does not count, in bytes.
    @ivar slave_timeout: how long a send waits for a slave, in seconds.
    """

    sync: bool = False
    allow: Collection[str] = ()
    batch: int = TRANSFER_BATCH
    heartbeat: float = HEARTBEAT
    housekeeping: float = HOUSEKEEPING
    fallbehind_max: int = FALLBEHIND_MAX
    slave_timeout: float = SLAVE_TIMEOUT


@implementer(IReplicating)
class Master(Service):
    """
    Serves slaves from a log.

    It is made as C{Master(env, log, "tcp:10912:interface=127.0.0.1", sweeper, MasterSettings(...))}, given to
    C{IMessageStore.add_ack_policy} where C{sync} is true, opened by L{open} when the store is open, and stopped before
    it.

    @ivar log: what is replicated.
    @ivar sweeper: timers, and where sentences about slaves go.
    @ivar confirmed: the highest physical offset that any slave has reported, 0 for none.
    @ivar turned_away: connections that were not let in.
    """

    _log = Logger()

    def __init__(
        self,
        env: IEnvironment,
        log: IReplicatedLog,
        description: str,
        sweeper: Sweeper,
        settings: MasterSettings | None = None,
        tls: ServerTLS | None = None,
        admits: Callable[[bytes], bool] | None = None,
    ) -> None:
        """
        @param description: a server endpoint, such as C{tcp:10912:interface=127.0.0.1}; port 0 takes a free one.
        @param sweeper: timers and the memory budget, shared with all links of the process.
        @param settings: C{None}: the defaults.
        @param tls: certificate and key, loaded; its mode says whether slaves may do without TLS.
        @param admits: whether a ticket with this word is good, such as L{smartgo.ha.guard.Guard.admits}: slaves have to
            begin with one before a byte of the log is sent (reliability X6). C{None}: they need none.
        @raise ValueError: one of C{settings.allow} is no network.
        """
        self.clock = env.clock
        self.log = log
        self.sweeper = sweeper
        self._settings = settings = MasterSettings() if settings is None else settings
        self._allow = [ipaddress.ip_network(one, strict=False) for one in settings.allow]
        self._admits = admits
        self._buggify = env.buggify
        self._waiting = Confirmations(env.clock, settings.slave_timeout)
        self._alarm = Alarm(env.clock, self._due, self._check)
        self._listener = Listener(env, sweeper, LIMITS, tls)
        self._listener.add_screened(description, self._screen)
        self._opened = False
        self._feeds: dict[Feed, None] = {}
        self._held: dict[Link, float] = {}  # who is not let in -> when it is ended
        self._best = -1  # the highest offset confirmed by a slave that is connected
        self._confirmed_from = 0  # the slave that reported C{confirmed} has the log from here on
        self._beginnings: set[int] = set()  # where slaves began that had nothing; each a log file's first offset
        self.confirmed = 0
        self.turned_away = 0
        log.follow(self._moved)

    @property
    def peer_warnings(self) -> RateLimitedLog:
        """The log for warnings about slaves."""
        return self.sweeper.peer_warnings

    # -- starting and stopping -----------------------------------------------------------------------------------

    def open(self) -> Deferred[None]:
        """
        Begin to listen; fires when the port does.

        @raise twisted.internet.error.CannotListenError: through the Deferred: the address is taken or not ours.
        """
        self._opened = True
        return self._listener.open()

    @property
    def port(self) -> int:
        """The port number; 0 while it does not listen."""
        return self._listener.ports[0]

    def startService(self) -> None:
        """Begin to listen, unless L{open} was called before."""
        super().startService()
        if not self._opened:
            self.open().addErrback(lambda failure: self._log.failure("slaves cannot connect", failure=failure))

    def stopService(self) -> Deferred[None]:
        """
        Stop listening, hand slaves what is left, close; fires when all connections are gone, in a second or so.

        Who waits for a slave is told at the end that it has timed out.
        """
        super().stopService()
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        self._alarm.stop()
        for link in list(self._held):
            link.abort()
        await self._listener.stopService()
        self._alarm.stop()
        self._waiting.stop()

    # -- slaves --------------------------------------------------------------------------------------------------

    def _screen(self, slave: PeerAddress) -> Callable[[Link], ISession] | None:
        """
        Return the factory of a new link's session: a slave's, or a refused one's; C{None} if too many are refused
        already.
        """
        if not self.allows(slave.ip):
            why = "haAllow does not name it"
        elif len(self._feeds) >= _SLAVES and not self._make_room():
            why = f"there are {_SLAVES} already"
        else:
            return self._feed
        return partial(Refused, master=self) if self.turn_away(slave.ip, slave.ip, why) else None

    def _feed(self, link: Link) -> Feed:
        settings = self._settings
        batch = 50 if self._buggify("master.small-pieces") else settings.batch
        end = MasterEnd(self.log, self.clock.seconds(), batch, settings.heartbeat, settings.housekeeping, self._admits)
        return Feed(link, self, end)

    def _make_room(self) -> bool:
        """Close the link that has had most time to show its ticket; return whether there is one."""
        late = next((feed for feed in self._feeds if not feed.admitted), None)
        if late is not None:
            late.fail("has not shown a ticket, and others want to")
        return late is not None

    def turn_away(self, ip: str, slave: str, why: str) -> bool:
        """Count one that is not let in, and say why; false where so many wait in vain that this one cannot."""
        self.turned_away += 1
        self.peer_warnings.warn(ip, "not replicating to {slave}: {why}", slave=slave, why=why)
        return len(self._held) < _HELD

    def hold(self, link: Link) -> None:
        """Keep a refused link silent, and close it after a while."""
        link.hold()
        self._held[link] = until = self.clock.seconds() + _HELD_FOR
        self._alarm.set_by(until)

    def released(self, link: Link) -> None:
        """Forget a link that waited in vain and is gone."""
        self._held.pop(link, None)

    def allows(self, ip: str) -> bool:
        """Tell whether C{allow} admits connections from an IP address."""
        place = ipaddress.ip_address(ip)
        return not self._allow or any(place in network for network in self._allow)

    def connected(self, feed: Feed) -> None:
        """Count a slave that is connected."""
        self._feeds[feed] = None
        self._alarm.set()

    def begun(self, feed: Feed) -> None:
        """
        Note where a slave begins.

        One that had nothing begins in our last file, so it confirms nothing that lies before. One that says it has the
        log up to somewhere may have begun so too, in a connection before this one.
        """
        if feed.end.begun_empty:
            self._beginnings.add(feed.end.position)
        reached = feed.end.position
        feed.holds_from = max((begin for begin in self._beginnings if begin <= reached), default=0)
        self._log.info("replicating to {slave} from {offset}", slave=feed.link.address, offset=feed.end.position)

    def reported(self, feed: Feed) -> None:
        """Note how far a slave is, and confirm the sends that waited for that."""
        confirmed = feed.end.confirmed
        if confirmed > self._best:
            self._best = confirmed
        if confirmed > self.confirmed:
            self.confirmed = confirmed
            self._confirmed_from = feed.holds_from
        self._waiting.reached(feed.holds_from, confirmed)

    def left(self, feed: Feed) -> None:
        """Count a slave no more: its connection is being ended, or is gone."""
        if feed in self._feeds:
            del self._feeds[feed]
            self._best = max((one.end.confirmed for one in self._feeds), default=-1)

    def gone(self, feed: Feed, reason: Failure) -> None:
        """Forget a slave whose connection is gone."""
        if feed in self._feeds:
            if feed.admitted:
                why = reason.getErrorMessage()
                self._log.info("no longer replicating to {slave}: {why}", slave=feed.link.address, why=why)
            self.left(feed)

    def bug(self, failure: Failure) -> None:
        """Log what should not have happened."""
        self._log.failure("sending the log failed", failure=failure)

    def slaves(self) -> list[SlaveSeen]:
        """Return the admitted slaves that are connected now."""
        now = self.clock.seconds()
        return [
            SlaveSeen(feed.link.address, feed.end.confirmed, max(0, feed.end.position), now - feed.since)
            for feed in self._feeds
            if feed.admitted
        ]

    def positions(self) -> list[int]:
        """Return the physical offsets that slaves are sent next: retention keeps these files for a time."""
        return [feed.end.position for feed in self._feeds if feed.end.position >= 0]

    def _moved(self, end: int) -> None:
        for feed in list(self._feeds):
            try:
                feed.push()
            except Exception:  # whatever becomes of its slaves, the send that called goes on
                self.bug(Failure())
                feed.fail("cannot be sent the log")

    def _due(self) -> float:
        held = next(iter(self._held.values()), NEVER)  # the one that was held first ends first
        return min([held, *(feed.end.due for feed in self._feeds)])

    def _check(self, now: float) -> None:
        for link in [link for link, until in self._held.items() if until <= now]:
            self._held.pop(link)
            link.abort()
        for feed in list(self._feeds):
            feed.check(now)

    # -- the second condition of a send --------------------------------------------------------------------------

    def durable(self, end: int) -> Deferred[PutStatus] | None:
        """
        C{None}: a slave has the log up to C{end}, or none has to. Else fires when one has, or with what happened.

        Only a slave that has reported counts as there, and only for the part of the log that it has. When the last one
        leaves, those that wait go on waiting for it until their time is over.
        """
        if not self._settings.sync or self._confirmed_from < end <= self.confirmed:
            return None
        if self._best < 0 or end - self._best >= self._settings.fallbehind_max:
            return succeed(PutStatus.SLAVE_NOT_AVAILABLE)
        return self._waiting.wait(end)

    def may_wait(self) -> bool:
        """See L{IFlushPolicy.may_wait}: not where a send waits for slaves, which are sent what is appended at once."""
        return not self._settings.sync
