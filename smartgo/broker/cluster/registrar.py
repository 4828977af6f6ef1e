"""
Registration with every registry: at start, every 30 s, after each new or changed topic; farewell at stop.

Rules: docs/spec/broker#registration, docs/spec/registry#registration. Requests to one registry follow one another, so
an older table never overtakes a newer one. No registry waits for another: one that does not answer, refuses, or whose
connection ended is asked again after 1 s, 2 s, 4 s and so on to 10 s, less up to a half by chance, so that one that
comes back is whole long before the next round and not asked by all brokers at once.

A master that a registry refuses, as another has its name, takes no messages: see L{smartgo.broker.cluster.masterlease}.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, NamedTuple

from twisted.application.service import Service
from twisted.internet.defer import Deferred, DeferredLock, gatherResults
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from smartgo.broker.cluster.masterlease import LeaseState, MasterLease
from smartgo.broker.cluster.registration import MASTER, Announcement, Identity
from smartgo.broker.tables.topics import READ, WRITE, TopicTable
from smartgo.env.interfaces import IClock
from smartgo.errors import BadBody, BadHeader, CallFailed, PeerRefused
from smartgo.remoting.interfaces import IConnectionListener, IPeer
from smartgo.remoting.listeners import NullListener
from smartgo.schema.bodies import DataVersion, KVTable
from smartgo.schema.codes import ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headers.registry import LEASE, NAME_TAKEN, QueryDataVersionResponse, RegisterBrokerResponse

FIRST_DELAY: Final = 10.0
"""Seconds from the start to the first registration after the one at the start."""
FAREWELL_TIMEOUT: Final = 3.0
"""Seconds that a stop waits for the registries."""
RETRY: Final = 1.0
"""Seconds before a registry that failed is asked again, at most; twice as many each time it fails anew."""
RETRY_MOST: Final = 10.0
"""Seconds that these become at most."""
TELL: Final = 2.0
"""Seconds that whoever changes a topic waits for registries to hear of it; the official tools wait 5 for the answer."""
_DOUBLINGS: Final = 4  # after which the pause is RETRY_MOST

Ask = Callable[[str, Command, float], "Deferred[Command]"]
"""C{ask(address, command, timeout)} of a remoting client."""


class Registered(NamedTuple):
    """What a registry answered; of use to slaves."""

    master_address: str | None
    ha_address: str | None


class _Registry:
    """What is known about one registry."""

    __slots__ = ("failures", "lease", "lock", "names", "retry", "unreadable", "up", "waiting")

    def __init__(self) -> None:
        self.lock = DeferredLock()
        self.names: set[str] = set()  # changed, and not yet sent
        self.waiting: list[Deferred[None]] = []  # for all that has changed so far to be sent
        self.up: bool | None = None  # whether it has us; None: never asked
        self.unreadable = False  # what it answered last
        self.failures = 0  # one after another
        self.lease = ""  # what it answered last, of a master
        self.retry: IDelayedCall | None = None

    def rest(self) -> None:
        """Do not ask it before the next round."""
        if self.retry is not None:
            self.retry.cancel()
            self.retry = None

    def sent(self) -> None:
        """Let the next one register; where nothing is left to send, those who wait for that are told first."""
        if not self.names:
            waiting, self.waiting = self.waiting, []
            for each in waiting:
                each.callback(None)
        self.lock.release()


class _Round:
    """Registrations that go out together."""

    __slots__ = ("first", "told")

    def __init__(self) -> None:
        self.first: Registered | None = None  # the first answer that can be read
        self.told = False  # whether a master that an answer names was passed on


class _Lost(NullListener):
    """Hears of connections to registries that end."""

    def __init__(self, lost: Callable[[str], None]) -> None:
        self._lost = lost

    def disconnected(self, peer: IPeer, reason: Failure) -> None:
        """The registry forgets us."""
        self._lost(peer.address)

    def closed(self, peer: IPeer) -> None:
        """The registry forgets us."""
        self._lost(peer.address)


class Registrar(Service):
    """
    Keep every registry informed of one broker.

    @ivar first_round: fires after the registration at start with how many registries took it.
    @ivar listener: to be told of the connections that C{ask} makes.
    """

    _log = Logger()

    def __init__(
        self,
        clock: IClock,
        ask: Ask,
        topics: TopicTable,
        addresses: Callable[[], Sequence[str]],
        identity: Identity,
        *,
        fraction: Callable[[], float],
        period: float = 30.0,
        timeout: float = 6.0,
        force: bool = True,
        compressed: bool = False,
        permission: Callable[[], int] = lambda: READ | WRITE,
        on_registered: Callable[[Registered], object] = lambda registered: None,
        on_standing: Callable[[str | None], object] = lambda reason: None,
    ) -> None:
        """
        @param addresses: the registries' C{host:port}s; asked each time, so that the list may change.
        @param fraction: a number from 0 to 1, by chance.
        @param period: seconds between two registrations, held within 10 to 60.
        @param timeout: seconds to wait for a registry.
        @param force: register each period; otherwise ask each registry first whether its version differs (322).
        @param compressed: send tables compressed.
        @param permission: the broker's permission now; short of read or write, it is announced for every topic.
        @param on_registered: hears of every round what the first answer that names a master says, or that none does.
        @param on_standing: hears why a master may take no messages now, and C{None} when it may again.
        """
        self._clock = clock
        self._ask = ask
        self._topics = topics
        self._addresses = addresses
        self._words = Announcement(identity, topics, permission, compressed)
        self._is_master = identity.broker_id == MASTER
        self._fraction = fraction
        self._period = min(60.0, max(10.0, period))
        self._timeout = timeout
        self._force = force
        self._on_registered = on_registered
        self._on_standing = on_standing
        self._claim = MasterLease(clock.seconds, fraction)
        self._told: str | None = None  # why no messages are taken, as we have said it
        self._stood_back = False
        self._registries: dict[str, _Registry] = {}
        self._timer: IDelayedCall | None = None
        self.first_round: Deferred[int] = Deferred()
        self.listener: IConnectionListener = _Lost(self._lost)
        topics.when_changed(self.changed)

    @property
    def refusal(self) -> str | None:
        """Why this broker may take no messages as a master; C{None} where it may, and for slaves."""
        return self._claim.reason

    def startService(self) -> None:
        """Register now, whatever C{force} says, and go on doing so."""
        super().startService()
        if self._is_master:
            self._claim.begin(self._known())
            self._tell_standing()
        self.register().addCallback(self.first_round.callback)
        self._timer = self._clock.callLater(FIRST_DELAY, self._round)

    def stopService(self) -> Deferred[None]:
        """Say farewell (104) to every registry; fires when all have answered or 3 s have passed. Never fails."""
        super().stopService()
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        for registry in self._registries.values():
            registry.rest()
        farewells = [self._watched(self._farewell(one)) for one in self._known()]
        return gatherResults(farewells).addCallback(lambda _: None)

    @property
    def without_us(self) -> int:
        """How many registries did not take our last registration."""
        return sum(one.up is False for one in self._registries.values())

    def register(self) -> Deferred[int]:
        """Send the full table to every registry; fires with how many took it. Never fails."""
        return self._to_all(ask_first=False)

    def changed(self, topic: str) -> None:
        """Tell every registry of a topic that was created or changed; does nothing while stopped."""
        if self.running and topic in self._topics:
            for address, registry in self._registries.items():
                registry.names.add(topic)
                if not registry.lock.waiting:  # who waits there will take it along
                    self._watched(self._send_changed(address))

    def told(self) -> Deferred[None] | None:
        """
        Wait until every registry that has us was told of all that changed so far.

        @return: fires then, or after L{TELL} s, and never fails; C{None} where nobody is being told of anything.
        """
        waiting: list[Deferred[None]] = []
        for registry in self._registries.values():
            if registry.up and registry.lock.locked:
                registry.waiting.append(Deferred())
                waiting.append(registry.waiting[-1])
        if not waiting:
            return None
        told = gatherResults(waiting, consumeErrors=True).addCallback(lambda _: None)
        return told.addTimeout(TELL, self._clock, onTimeoutCancel=lambda _, __: None)

    def stood_still(self, seconds: float) -> None:
        """This process did nothing for so long; what was sent to it meanwhile has not been looked at yet."""
        if self.running and self._is_master and self._claim.lapsed(seconds):
            self._log.warn("stood still for {seconds:.0f} s: asking who has our name", seconds=seconds)
            self._tell_standing()
            self.register()

    # -- rounds --------------------------------------------------------------------------------------------

    def _known(self) -> list[str]:
        return list(dict.fromkeys(self._addresses()))

    def _round(self) -> None:
        self._timer = self._clock.callLater(self._period, self._round)
        self._to_all(ask_first=not self._force)

    def _to_all(self, ask_first: bool) -> Deferred[int]:
        addresses = self._known()
        for gone in self._registries.keys() - set(addresses):
            self._registries.pop(gone).rest()
        for address in addresses:
            self._registries.setdefault(address, _Registry())
        self._claim.only(addresses)
        together = _Round()
        asked = [one for one in addresses if self._claim.may_ask(one)]
        sent = [self._watched(self._send_all(one, together, ask_first)) for one in asked]
        return gatherResults(sent).addCallback(self._round_ended, together)

    def _round_ended(self, took: list[bool], together: _Round) -> int:
        if together.first is not None and not together.told and self.running:
            self._on_registered(together.first)
        return sum(took)

    async def _send_all(self, address: str, together: _Round, ask_first: bool = False) -> bool:
        """
        Register with all topics; return whether the registry has them now.

        @param ask_first: do it only where the registry has others.
        """
        registry = self._registries[address]
        registry.rest()
        await registry.lock.acquire()
        try:
            if not self._wanted(address, registry):
                return False
            if ask_first and not await self._has_other(address):
                return True
            registry.names.clear()
            answer = await self._send(address, registry, self._words.full(registry.lease))
        finally:
            registry.sent()
        if answer is not None and self.running:
            self._use(address, registry, answer, together)
        return answer is not None

    async def _send_changed(self, address: str) -> bool:
        registry = self._registries[address]
        await registry.lock.acquire()
        try:
            names = sorted(registry.names)
            registry.names.clear()
            if not names or not self._wanted(address, registry):
                return False
            return await self._send(address, registry, self._words.increment(names, registry.lease)) is not None
        finally:
            registry.sent()

    def _wanted(self, address: str, registry: _Registry) -> bool:
        """Whether a registration that may have had to wait is still to be made."""
        return bool(self.running) and self._registries.get(address) is registry and self._claim.may_ask(address)

    async def _has_other(self, address: str) -> bool:
        """Ask a registry whether it has another version of our topics; so it has where it does not say."""
        version = self._topics.version
        asked = self._clock.seconds()
        try:
            answer = await self._ask(address, self._words.question(), self._timeout)
            if answer.code != ResponseCode.SUCCESS or answer.read(QueryDataVersionResponse).changed:
                return True
            if answer.body and DataVersion.decode(answer.body) != version:
                return True
        except (CallFailed, BadHeader, BadBody):
            return True
        self._claim.taken(address, asked)
        self._reconsider()
        return False

    async def _send(self, address: str, registry: _Registry, request: Command) -> Command | None:
        """Make a registration; C{None} where the registry did not take it."""
        asked = self._clock.seconds()
        try:
            answer = await self._ask(address, request, self._timeout)
        except CallFailed as error:
            self._down(address, registry, str(error))
            self._claim.missed(address)
            self._reconsider()
            return None
        if answer.code != ResponseCode.SUCCESS:
            self._down(address, registry, str(PeerRefused(answer.code, answer.remark or "")))
            if self._is_master and NAME_TAKEN in answer.fields:
                registry.lease = ""
                self._claim.refused(address, answer.remark or "")
            else:
                self._claim.missed(address)
            self._reconsider()
            return None
        if not registry.up:
            self._log.info("registered with {address}", address=address)
        registry.up = True
        registry.lease = answer.fields.get(LEASE, "")
        registry.failures = 0
        registry.rest()
        self._claim.taken(address, asked)
        self._reconsider()
        return answer

    def _use(self, address: str, registry: _Registry, answer: Command, together: _Round) -> None:
        """Take the order topics of a round's first answer that can be read, and the first master that one names."""
        try:
            header = answer.read(RegisterBrokerResponse)
            ordered = KVTable.decode(answer.body).table if answer.body else None
        except (BadHeader, BadBody) as error:
            if not registry.unreadable:
                self._log.warn("what registry {address} answers cannot be read: {error}", address=address, error=error)
            registry.unreadable = True
            return
        registry.unreadable = False
        said = Registered(header.master_addr, header.ha_server_addr)
        if together.first is None:
            together.first = said
            if ordered is not None:
                self._topics.apply_order(ordered.keys())
        if said.master_address and not together.told:
            together.told = True
            self._on_registered(said)

    async def _farewell(self, address: str) -> bool:
        try:
            await self._ask(address, self._words.farewell(), FAREWELL_TIMEOUT)
        except CallFailed as error:
            self._log.info("no farewell to registry {address}: {error}", address=address, error=error)
            return False
        return True

    # -- registries that fail --------------------------------------------------------------------------------

    def _down(self, address: str, registry: _Registry, why: str) -> None:
        """A registry does not have us: say so if that is new, and ask it again in a while."""
        if registry.up is not False:
            self._log.warn("registry {address} does not have our topics: {why}", address=address, why=why)
        registry.up = False
        if self.running and self._registries.get(address) is registry:
            delay = min(RETRY_MOST, RETRY * 2**registry.failures) * (1 - self._fraction() / 2)
            registry.failures = min(registry.failures + 1, _DOUBLINGS)
            registry.rest()
            registry.retry = self._clock.callLater(delay, self._retry, address, registry)

    def _retry(self, address: str, registry: _Registry) -> None:
        registry.retry = None
        if self._wanted(address, registry):
            together = _Round()
            self._watched(self._send_all(address, together))

    def _lost(self, address: str) -> None:
        """A connection ended; a registry at its other end has forgotten us."""
        registry = self._registries.get(address)
        if self.running and registry is not None and registry.up:
            self._down(address, registry, "the connection ended")

    # -- our name ------------------------------------------------------------------------------------------

    def _reconsider(self) -> None:
        """A registry has said something about our name: do what follows from it."""
        if self.running and self._claim.again(list(self._registries)):
            self.register()
        for address in self._claim.left():
            self._watched(self._leave(address))
        self._tell_standing()

    async def _leave(self, address: str) -> bool:
        """We may not be the master: let a registry forget us, after what it is being told just now."""
        registry = self._registries[address]
        await registry.lock.acquire()
        try:
            registry.up = None
            registry.lease = ""
            return await self._farewell(address)
        finally:
            registry.sent()

    def _tell_standing(self) -> None:
        back = self._claim.standing is LeaseState.STANDING_BACK
        if back:
            for registry in self._registries.values():
                registry.lease = ""  # the name is another one's, and is not taken back
        reason = self._claim.reason
        if reason == self._told:
            return
        if back and not self._stood_back:
            self._log.error("no messages are taken: {reason}", reason=reason)
        elif reason is None and self._stood_back:
            self._log.info("messages are taken again")
            self._stood_back = False
        self._stood_back = self._stood_back or back
        self._told = reason
        self._on_standing(reason)

    def _watched(self, work: Coroutine[Any, Any, bool]) -> Deferred[bool]:
        """Run it; what it was not made for is logged, and counts as not done."""

        def failed(failure: Failure) -> bool:
            self._log.failure("registration failed", failure)
            return False

        return Deferred.fromCoroutine(work).addErrback(failed)
