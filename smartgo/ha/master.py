"""The master's side of replication: a port of its own, and a connection for each slave that follows us."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Collection
from typing import Any, Final

from twisted.application.service import Service
from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.internet.interfaces import IAddress, IListeningPort
from twisted.internet.protocol import Factory
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from smartgo.env.interfaces import IEnvironment
from smartgo.ha.confirmations import Confirmations
from smartgo.ha.feed import Feed, RateLimitedLog, Refused
from smartgo.ha.interfaces import IReplicating, SlaveSeen
from smartgo.ha.transfer import HEARTBEAT, HOUSEKEEPING, MasterEnd
from smartgo.net.alarm import NEVER, Alarm
from smartgo.net.tls import HandshakeFailed, ServerTLS
from smartgo.schema.hatransfer import TRANSFER_BATCH
from smartgo.schema.message import host_text, pack_host, unpack_host
from smartgo.store.interfaces import IReplicatedLog, PutStatus

FALLBEHIND_MAX: Final = 256 * 1024 * 1024
"""A slave that is further behind does not count (C{haSlaveFallbehindMax}), in bytes."""
SLAVE_TIMEOUT: Final = 3.0
"""How long a send waits for a slave (C{slaveTimeout}), in seconds."""

_SLAVES: Final = 256  # connections
_PENITENTS: Final = 256  # connections


@implementer(IReplicating)
class Master(Service):
    """
    Serves slaves from a log.

    It is made as C{Master(env, log, "tcp:10912:interface=127.0.0.1", complaints, sync=..., allow=..., ...)}, given to
    C{IMessageStore.demand} where C{sync} is true, opened by L{open} when the store is open, and stopped before it.

    @ivar log: what is replicated.
    @ivar tls: how TLS is spoken, if it is.
    @ivar confirmed: the highest physical offset that any slave has reported, 0 for none.
    @ivar turned_away: connections that were not let in.
    """

    _log = Logger()

    def __init__(
        self,
        env: IEnvironment,
        log: IReplicatedLog,
        description: str,
        complaints: RateLimitedLog,
        *,
        sync: bool = False,
        allow: Collection[str] = (),
        admits: Callable[[bytes], bool] | None = None,
        tls: ServerTLS | None = None,
        batch: int = TRANSFER_BATCH,
        heartbeat: float = HEARTBEAT,
        housekeeping: float = HOUSEKEEPING,
        fallbehind_max: int = FALLBEHIND_MAX,
        slave_timeout: float = SLAVE_TIMEOUT,
    ) -> None:
        """
        @param description: a server endpoint, such as C{tcp:10912:interface=127.0.0.1}; port 0 takes a free one.
        @param complaints: such as C{smartgo.net.sweeper.Sweeper.complaints}.
        @param sync: a SYNC_MASTER; else L{durable} never asks for anything.
        @param allow: networks that slaves may come from (C{10.0.0.0/8}, C{::1}); none for all that reach the port.
        @param admits: whether a ticket with this word is good, such as L{smartgo.ha.guard.Guard.admits}: slaves have to
            begin with one before a byte of the log is sent (reliability X6). C{None}: they need none.
        @param tls: certificate and key, loaded; its mode says whether slaves may do without TLS.
        @raise ValueError: one of C{allow} is no network.
        """
        self._env = env
        self.clock = env.clock
        self.log = log
        self._description = description
        self.complaints = complaints
        self.tls = tls
        self._sync = sync
        self._allow = [ipaddress.ip_network(one, strict=False) for one in allow]
        self._admits = admits
        self._batch = batch
        self._heartbeat = heartbeat
        self._housekeeping = housekeeping
        self._fallbehind_max = fallbehind_max
        self._waiting = Confirmations(env.clock, slave_timeout)
        self._alarm = Alarm(env.clock, self._due, self._look)
        self._feeds: dict[Feed, None] = {}
        self._links: dict[Feed | Refused, None] = {}  # those that are being ended, too
        self._listening: IListeningPort | None = None
        self._opened = False
        self._best = -1  # the highest offset confirmed by a slave that is connected
        self._confirmed_from = 0  # the slave that reported C{confirmed} has the log from here on
        self._beginnings: set[int] = set()  # where slaves began that had nothing; each a log file's first offset
        self.confirmed = 0
        self.turned_away = 0
        log.follow(self._moved)

    # -- starting and stopping -----------------------------------------------------------------------------------

    def open(self) -> Deferred[None]:
        """
        Begin to listen; fires when the port does.

        @raise twisted.internet.error.CannotListenError: through the Deferred: the address is taken or not ours.
        """
        self._opened = True
        return Deferred.fromCoroutine(self._open())

    async def _open(self) -> None:
        listening = await self._env.network.listen(self._description, _Door(self))
        if self._opened:
            self._listening = listening
        else:
            await maybeDeferred(listening.stopListening)

    @property
    def port(self) -> int:
        """The port number; 0 while it does not listen."""
        address: Any = None if self._listening is None else self._listening.getHost()
        return 0 if address is None else int(address.port)

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
        self._opened = False
        listening, self._listening = self._listening, None
        if listening is not None:
            await maybeDeferred(listening.stopListening)
        self._alarm.stop()
        for link in list(self._links):
            if isinstance(link, Feed) and link in self._feeds:
                link.finish()
            else:
                link.hurry()
        for link in list(self._links):
            await link.lost
        self._waiting.stop()

    # -- slaves --------------------------------------------------------------------------------------------------

    def accept(self, address: Any) -> Feed | Refused | None:
        """Let one in, or wait in vain; C{None} where too many do that."""
        raw = pack_host(address.host, address.port)
        ip = unpack_host(raw)[0]
        if not self.allows(ip):
            why = "haAllow does not name it"
        elif len(self._feeds) >= _SLAVES and not self._make_room():
            why = f"there are {_SLAVES} already"
        else:
            now = self.clock.seconds()
            end = MasterEnd(self.log, now, self._batch, self._heartbeat, self._housekeeping, self._admits)
            return Feed(self, ip, host_text(raw), end)
        return Refused(self) if self.turn_away(ip, ip, why) else None

    def _make_room(self) -> bool:
        """Let the one go that has had most time to show its ticket, if there is one."""
        late = next((feed for feed in self._feeds if not feed.admitted), None)
        if late is not None:
            late.fail("has not shown a ticket, and others want to")
        return late is not None

    def turn_away(self, ip: str, slave: str, why: str) -> bool:
        """Count one that is not let in, and say why; false where so many wait in vain that this one cannot."""
        self.turned_away += 1
        self.complaints.warn(ip, "not replicating to {slave}: {why}", slave=slave, why=why)
        return len(self._links) - len(self._feeds) < _PENITENTS

    def allows(self, ip: str) -> bool:
        """Whether C{allow} lets in who comes from an IP address."""
        place = ipaddress.ip_address(ip)
        return not self._allow or any(place in network for network in self._allow)

    def connected(self, link: Feed | Refused) -> None:
        """It is connected."""
        self._links[link] = None
        if isinstance(link, Feed):
            self._feeds[link] = None
            self._alarm.set()

    def begun(self, feed: Feed) -> None:
        """
        It has said where to begin.

        One that had nothing begins in our last file, so it confirms nothing that lies before. One that says it has the
        log up to somewhere may have begun so too, in a connection before this one.
        """
        if feed.end.begun_empty:
            self._beginnings.add(feed.end.position)
        reached = feed.end.position
        feed.holds_from = max((begin for begin in self._beginnings if begin <= reached), default=0)
        self._log.info("replicating to {slave} from {offset}", slave=feed.address, offset=feed.end.position)

    def reported(self, feed: Feed) -> None:
        """It has said how far it is."""
        confirmed = feed.end.confirmed
        if confirmed > self._best:
            self._best = confirmed
        if confirmed > self.confirmed:
            self.confirmed = confirmed
            self._confirmed_from = feed.holds_from
        self._waiting.reached(feed.holds_from, confirmed)

    def left(self, feed: Feed) -> None:
        """It does not count any more."""
        if feed in self._feeds:
            del self._feeds[feed]
            self._best = max((one.end.confirmed for one in self._feeds), default=-1)

    def gone(self, link: Feed | Refused, reason: Failure) -> None:
        """Its connection is gone."""
        del self._links[link]
        if isinstance(link, Feed) and link in self._feeds:
            if link.admitted:
                why = reason.getErrorMessage()
                self._log.info("no longer replicating to {slave}: {why}", slave=link.address, why=why)
            elif reason.check(HandshakeFailed):
                self.turn_away(link.ip, link.address, reason.getErrorMessage())
            self.left(link)

    def bug(self, failure: Failure) -> None:
        """Log what should not have happened."""
        self._log.failure("sending the log failed", failure=failure)

    def slaves(self) -> list[SlaveSeen]:
        """Those connected now that were let in."""
        now = self.clock.seconds()
        return [
            SlaveSeen(feed.address, feed.end.confirmed, max(0, feed.end.position), now - feed.since)
            for feed in self._feeds
            if feed.admitted
        ]

    def _moved(self, end: int) -> None:
        for feed in list(self._feeds):
            try:
                feed.push()
            except Exception:  # whatever becomes of its slaves, the send that called goes on
                self.bug(Failure())
                feed.fail("cannot be sent the log")

    def _due(self) -> float:
        return min((feed.end.due for feed in self._feeds), default=NEVER)

    def _look(self, now: float) -> None:
        for feed in list(self._feeds):
            feed.look(now)

    # -- the second condition of a send --------------------------------------------------------------------------

    def durable(self, end: int) -> Deferred[PutStatus] | None:
        """
        C{None}: a slave has the log up to C{end}, or none has to. Else fires when one has, or with what happened.

        Only a slave that has reported counts as there, and only for the part of the log that it has. When the last one
        leaves, those that wait go on waiting for it until their time is over.
        """
        if not self._sync or self._confirmed_from < end <= self.confirmed:
            return None
        if self._best < 0 or end - self._best >= self._fallbehind_max:
            return succeed(PutStatus.SLAVE_NOT_AVAILABLE)
        return self._waiting.wait(end)


class _Door(Factory):
    """Makes connections for a master."""

    noisy = False

    def __init__(self, master: Master) -> None:
        self._master = master

    def buildProtocol(self, addr: IAddress | None) -> Feed | Refused | None:
        """Let a slave in; C{None} makes Twisted close the socket at once."""
        return self._master.accept(addr)
