"""
Registration with every registry: at start, every 30 s, after each new or changed topic; unregistration at stop.

Rules: docs/spec/broker#registration, docs/spec/registry#registration. Requests to one registry follow one another, so
an older table never overtakes a newer one. No registry waits for another: one that does not answer, refuses, or whose
connection ended is asked again after 1 s, 2 s, 4 s and so on to 10 s, less up to a half by chance, so that one that
comes back is whole long before the next round and not asked by all brokers at once.

A master that a registry refuses, as another has its name, takes no messages: see L{smartgo.broker.cluster.masterlease}.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

from twisted.application.service import Service
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from smartgo.broker.cluster.masterlease import LeaseState, MasterLease
from smartgo.broker.cluster.registration import MASTER, Identity, RegistrationRequests
from smartgo.broker.cluster.registrystate import LostRegistries, Registered, RegistrationRound, RegistryState
from smartgo.broker.settings.current import CurrentSettings
from smartgo.broker.tables.topics import TopicTable
from smartgo.env.interfaces import IClock
from smartgo.errors import BadBody, BadHeader, CallFailed, PeerRefused
from smartgo.observer import ObserverList
from smartgo.remoting.interfaces import IConnectionListener
from smartgo.schema.bodies import DataVersion, KVTable
from smartgo.schema.codes import ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headers.registry import LEASE, NAME_TAKEN, QueryDataVersionResponse, RegisterBrokerResponse

FIRST_DELAY: Final = 10.0
"""Seconds from the start to the first registration after the one at the start."""
UNREGISTER_TIMEOUT: Final = 3.0
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


class Registrar(Service):
    """
    Keep every registry informed of one broker.

    @ivar first_round: fires after the registration at start with how many registries took it.
    @ivar registered: told, after each round, what the first answer says that names a master, or that none names one.
    @ivar lease_changed: told why a master may take no messages from now on, and C{None} when it may again.
    @ivar listener: to be told of the connections that C{ask} makes.
    """

    _log = Logger()

    def __init__(
        self,
        clock: IClock,
        ask: Ask,
        topics: TopicTable,
        identity: Identity,
        settings: CurrentSettings,
        fraction: Callable[[], float],
        buggify: Callable[[str], bool] = lambda name: False,
    ) -> None:
        """
        @param ask: asks registries.
        @param settings: the registries, how often and how to register, and the broker's permission; short of read or
            write, the permission is announced for every topic.
        @param fraction: a number from 0 to 1, by chance.
        @param buggify: see L{smartgo.env.interfaces.IEnvironment.buggify}.
        """
        self._clock = clock
        self._ask = ask
        self._topics = topics
        self._settings = settings
        self._requests = RegistrationRequests(identity, topics, settings)
        self._is_master = identity.broker_id == MASTER
        self._fraction = fraction
        self._buggify = buggify
        self.registered: ObserverList[[Registered]] = ObserverList("a registration")
        self.lease_changed: ObserverList[[str | None]] = ObserverList("a change of the master's lease")
        self._lease = MasterLease(clock.seconds, fraction)
        self._reason: str | None = None  # why no messages are taken, as the listeners know it
        self._stepped_down = False
        self._registries: dict[str, RegistryState] = {}
        self._timer: IDelayedCall | None = None
        self.first_round: Deferred[int] = Deferred()
        self.listener: IConnectionListener = LostRegistries(self._lost)
        topics.when_changed(self.changed)

    @property
    def refusal(self) -> str | None:
        """The reason why this broker may not accept messages as a master; C{None} where it may, and for slaves."""
        return self._lease.reason

    def startService(self) -> None:
        """Register now, whatever C{forceRegister} says, and go on doing so."""
        super().startService()
        if self._is_master:
            self._lease.begin(self._known())
            self._tell_lease()
        self.register().addCallback(self.first_round.callback)
        self._timer = self._clock.callLater(FIRST_DELAY, self._round)

    def stopService(self) -> Deferred[None]:
        """Unregister (104) from every registry; fires when all have answered or 3 s have passed. Never fails."""
        self.end()
        unregistered = [self._watched(self._unregister(one)) for one in self._known()]
        return gatherResults(unregistered).addCallback(lambda _: None)

    def end(self) -> None:
        """
        Stop without unregistering.

        That is for a broker that fails: registries drop it when its connections end, and do not note that it was
        stopped in order.
        """
        super().stopService()
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        for registry in self._registries.values():
            registry.rest()

    @property
    def without_us(self) -> int:
        """The number of registries that did not accept the last registration."""
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

    def informed(self) -> Deferred[None] | None:
        """
        Wait until every registry that has us was told of all that changed so far.

        @return: fires then, or after L{TELL} s, and never fails; C{None} where nobody is being told of anything.
        """
        told = [one for one in self._registries.values() if one.up and one.lock.locked]
        waiting = [one.all_sent.wait() for one in told]
        if not waiting:
            return None
        informed = gatherResults(waiting, consumeErrors=True).addCallback(lambda _: None)
        return informed.addTimeout(TELL, self._clock, onTimeoutCancel=lambda _, __: None)

    def stood_still(self, seconds: float) -> None:
        """Ask the registries anew after the process stood still; what came meanwhile has not been read yet."""
        if self.running and self._is_master and self._lease.lapsed(seconds):
            self._log.warn(
                "the process stood still for {seconds:.0f} s: asking the registries who holds our name", seconds=seconds
            )
            self._tell_lease()
            self.register()

    # -- rounds --------------------------------------------------------------------------------------------

    def _known(self) -> list[str]:
        return list(dict.fromkeys(self._settings.broker.namesrv_addr))

    def _period(self) -> float:
        """Return the seconds between two registrations, held within 10 to 60."""
        return min(60.0, max(10.0, self._settings.broker.register_name_server_period))

    def _round(self) -> None:
        self._timer = self._clock.callLater(self._period(), self._round)
        self._to_all(ask_first=not self._settings.broker.force_register or self._buggify("registrar.ask-first"))
        if self._buggify("registrar.twice"):
            self.register()

    def _to_all(self, ask_first: bool) -> Deferred[int]:
        addresses = self._known()
        for gone in self._registries.keys() - set(addresses):
            self._registries.pop(gone).rest()
        for address in addresses:
            self._registries.setdefault(address, RegistryState())
        self._lease.only(addresses)
        together = RegistrationRound()
        asked = [one for one in addresses if self._lease.may_ask(one)]
        sent = [self._watched(self._send_all(one, together, ask_first)) for one in asked]
        return gatherResults(sent).addCallback(self._round_ended, together)

    def _round_ended(self, took: list[bool], together: RegistrationRound) -> int:
        if together.first is not None and not together.named_master and self.running:
            self.registered.tell(together.first)
        return sum(took)

    async def _send_all(self, address: str, together: RegistrationRound, ask_first: bool = False) -> bool:
        """
        Register with all topics; return whether the registry has them now.

        @param ask_first: do it only where the registry has others.
        """
        registry = self._registries[address]
        registry.rest()
        await registry.lock.acquire()
        try:
            if not self._is_due(address, registry):
                return False
            if ask_first and not await self._has_other(address):
                return True
            registry.names.clear()
            answer = await self._send(address, registry, self._requests.full(registry.lease))
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
            if not names or not self._is_due(address, registry):
                return False
            return await self._send(address, registry, self._requests.increment(names, registry.lease)) is not None
        finally:
            registry.sent()

    def _is_due(self, address: str, registry: RegistryState) -> bool:
        """Tell whether a registration that may have had to wait is still to be made."""
        return bool(self.running) and self._registries.get(address) is registry and self._lease.may_ask(address)

    async def _has_other(self, address: str) -> bool:
        """Ask a registry whether it has another version of our topics; so it has where it does not say."""
        version = self._topics.version
        asked = self._clock.seconds()
        try:
            answer = await self._ask(
                address, self._requests.question(), self._settings.broker.register_broker_timeout_mills
            )
            if answer.code != ResponseCode.SUCCESS or answer.read(QueryDataVersionResponse).changed:
                return True
            if answer.body and DataVersion.decode(answer.body) != version:
                return True
        except (CallFailed, BadHeader, BadBody):
            return True
        self._lease.taken(address, asked)
        self._reconsider()
        return False

    async def _send(self, address: str, registry: RegistryState, request: Command) -> Command | None:
        """Make a registration; C{None} where the registry did not take it."""
        asked = self._clock.seconds()
        try:
            answer = await self._ask(address, request, self._settings.broker.register_broker_timeout_mills)
        except CallFailed as error:
            self._down(address, registry, str(error))
            self._lease.missed(address)
            self._reconsider()
            return None
        if answer.code != ResponseCode.SUCCESS:
            self._down(address, registry, str(PeerRefused(answer.code, answer.remark or "")))
            if self._is_master and NAME_TAKEN in answer.fields:
                registry.lease = ""
                self._lease.refused(address, answer.remark or "")
            else:
                self._lease.missed(address)
            self._reconsider()
            return None
        if not registry.up:
            self._log.info("registered with {address}", address=address)
        registry.up = True
        registry.lease = answer.fields.get(LEASE, "")
        registry.failures = 0
        registry.rest()
        self._lease.taken(address, asked)
        self._reconsider()
        return answer

    def _use(self, address: str, registry: RegistryState, answer: Command, together: RegistrationRound) -> None:
        """Take the order topics of a round's first answer that can be read, and the first master that one names."""
        try:
            header = answer.read(RegisterBrokerResponse)
            ordered = KVTable.decode(answer.body).table if answer.body else None
        except (BadHeader, BadBody) as error:
            if not registry.unreadable:
                self._log.warn("the answer of registry {address} cannot be read: {error}", address=address, error=error)
            registry.unreadable = True
            return
        registry.unreadable = False
        said = Registered(header.master_addr, header.ha_server_addr)
        if together.first is None:
            together.first = said
            if ordered is not None:
                self._topics.apply_order(ordered.keys())
        if said.master_address and not together.named_master:
            together.named_master = True
            self.registered.tell(said)

    async def _unregister(self, address: str) -> bool:
        try:
            await self._ask(address, self._requests.unregistration(), UNREGISTER_TIMEOUT)
        except CallFailed as error:
            self._log.info("could not unregister from {address}: {error}", address=address, error=error)
            return False
        return True

    # -- registries that fail --------------------------------------------------------------------------------

    def _down(self, address: str, registry: RegistryState, why: str) -> None:
        """Note that a registry does not have us; log it if that is new, and ask the registry again in a while."""
        if registry.up is not False:
            self._log.warn("registry {address} did not accept our registration: {why}", address=address, why=why)
        registry.up = False
        if self.running and self._registries.get(address) is registry:
            delay = min(RETRY_MOST, RETRY * 2**registry.failures) * (1 - self._fraction() / 2)
            registry.failures = min(registry.failures + 1, _DOUBLINGS)
            registry.rest()
            registry.retry = self._clock.callLater(delay, self._retry, address, registry)

    def _retry(self, address: str, registry: RegistryState) -> None:
        registry.retry = None
        if self._is_due(address, registry):
            together = RegistrationRound()
            self._watched(self._send_all(address, together))

    def _lost(self, address: str) -> None:
        """Note that a connection ended: a registry at its other end has forgotten us."""
        registry = self._registries.get(address)
        if self.running and registry is not None and registry.up:
            self._down(address, registry, "the connection ended")

    # -- our name ------------------------------------------------------------------------------------------

    def _reconsider(self) -> None:
        """Do what follows from what a registry said about our name."""
        if self.running and self._lease.again(list(self._registries)):
            self.register()
        for address in self._lease.left():
            self._watched(self._leave(address))
        self._tell_lease()

    async def _leave(self, address: str) -> bool:
        """Unregister from a registry that has us as a master, after what it is being sent just now."""
        registry = self._registries[address]
        await registry.lock.acquire()
        try:
            registry.up = None
            registry.lease = ""
            return await self._unregister(address)
        finally:
            registry.sent()

    def _tell_lease(self) -> None:
        stepped_down = self._lease.state is LeaseState.STEPPED_DOWN
        if stepped_down:
            for registry in self._registries.values():
                registry.lease = ""  # the name is another one's, and is not taken back
        reason = self._lease.reason
        if reason == self._reason:
            return
        if stepped_down and not self._stepped_down:
            self._log.error("no messages are accepted: {reason}", reason=reason)
        elif reason is None and self._stepped_down:
            self._log.info("messages are accepted again")
            self._stepped_down = False
        self._stepped_down = self._stepped_down or stepped_down
        self._reason = reason
        self.lease_changed.tell(reason)

    def _watched(self, work: Coroutine[Any, Any, bool]) -> Deferred[bool]:
        """Run a coroutine; a failure that it does not expect is logged and counts as not registered."""

        def failed(failure: Failure) -> bool:
            self._log.failure("registration failed", failure)
            return False

        return Deferred.fromCoroutine(work).addErrback(failed)
