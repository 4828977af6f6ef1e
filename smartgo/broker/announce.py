"""
Registration with every registry: at start, every 30 s, after each new or changed topic; farewell at stop.

Rules: C{broker.md} section 1, C{registry.md} section 3. Requests to one registry follow one another, so an older table
never overtakes a newer one.

A registry takes topics over only where the DataVersion differs from the last one it saw. An increment (only what
changed) therefore must not carry the table's own version: a registry that missed an earlier increment, or was
restarted, would hold all later full tables for known, and would not learn the rest before the next change. It is
sent one millisecond older, so that the next full table always counts.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any, NamedTuple

import msgspec
from twisted.application.service import Service
from twisted.internet.defer import Deferred, DeferredLock, gatherResults
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from smartgo.broker.topics import READ, WRITE, TopicTable
from smartgo.env.interfaces import IClock
from smartgo.errors import BadBody, BadHeader, CallFailed, PeerRefused
from smartgo.schema.bodies import DataVersion, KVTable, RegisterBrokerBody, TopicConfigSerializeWrapper
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headers.registry import (
    QueryDataVersionRequest,
    QueryDataVersionResponse,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
    UnregisterBrokerRequest,
)

FIRST_DELAY = 10.0
"""Seconds from the start to the first registration after the one at the start."""
FAREWELL_TIMEOUT = 3.0
"""Seconds that a stop waits for the registries."""

Ask = Callable[[str, Command, float], "Deferred[Command]"]
"""C{ask(address, command, timeout)} of a remoting client."""


class Identity(NamedTuple):
    """How a broker calls itself."""

    cluster: str
    name: str
    broker_id: int
    address: str
    """C{host:port} for clients."""
    ha_address: str
    """C{host:port} for slaves."""


class Registered(NamedTuple):
    """What the first registry of a round answered; of use to slaves."""

    master_address: str | None
    ha_address: str | None


class _Registry:
    """What is known about one registry."""

    __slots__ = ("lock", "names", "up")

    def __init__(self) -> None:
        self.lock = DeferredLock()
        self.names: set[str] = set()  # changed, and not yet sent
        self.up: bool | None = None  # None: never asked


class Announcer(Service):
    """
    Keep every registry informed of one broker.

    @ivar first_round: fires after the registration at start with how many registries took it.
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
        period: float = 30.0,
        timeout: float = 6.0,
        force: bool = True,
        compressed: bool = False,
        permission: Callable[[], int] = lambda: READ | WRITE,
        on_registered: Callable[[Registered], None] | None = None,
    ) -> None:
        """
        @param addresses: the registries' C{host:port}s; asked each time, so that the list may change.
        @param period: seconds between two registrations, held within 10 to 60.
        @param timeout: seconds to wait for a registry.
        @param force: register each period; otherwise ask first whether a registry's version differs (322).
        @param compressed: send tables compressed.
        @param permission: the broker's permission now; short of read or write, it is announced for every topic.
        @param on_registered: hears the first answer of every round.
        """
        self._clock = clock
        self._ask = ask
        self._topics = topics
        self._addresses = addresses
        self._identity = identity
        self._period = min(60.0, max(10.0, period))
        self._timeout = timeout
        self._force = force
        self._compressed = compressed
        self._permission = permission
        self._on_registered = on_registered
        self._registries: dict[str, _Registry] = {}
        self._timer: IDelayedCall | None = None
        self._encoded: tuple[tuple[DataVersion, int], bytes] | None = None
        self.first_round: Deferred[int] = Deferred()
        topics.when_changed(self.changed)

    def startService(self) -> None:
        """Register now, whatever C{force} says, and go on doing so."""
        super().startService()
        self.register().addCallback(self.first_round.callback)
        self._timer = self._clock.callLater(FIRST_DELAY, self._round)

    def stopService(self) -> Deferred[None]:
        """Say farewell (104) to every registry; fires when all have answered or 3 s have passed. Never fails."""
        super().stopService()
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        return Deferred.fromCoroutine(self._farewells())

    async def _farewells(self) -> None:
        await gatherResults([self._watched(self._farewell(one)) for one in dict.fromkeys(self._addresses())])

    def register(self) -> Deferred[int]:
        """Send the full table to every registry; fires with how many took it. Never fails."""
        addresses = list(dict.fromkeys(self._addresses()))
        self._registries = {one: self._registries.get(one) or _Registry() for one in addresses}
        first: list[Registered] = []
        rounds = [self._watched(self._send_all(one, first)) for one in addresses]
        return gatherResults(rounds).addCallback(sum)

    def changed(self, topic: str) -> None:
        """Tell every registry of a topic that was created or changed; does nothing while stopped."""
        if self.running and topic in self._topics:
            for address, registry in self._registries.items():
                registry.names.add(topic)
                if not registry.lock.waiting:  # who waits there will take it along
                    self._watched(self._send_changed(address))

    # -- rounds --------------------------------------------------------------------------------------------

    def _round(self) -> None:
        self._timer = self._clock.callLater(self._period, self._round)
        self._watched(self._periodic())

    async def _periodic(self) -> bool:
        if self._force or await self._differs():
            await self.register()
        return True

    async def _differs(self) -> bool:
        """Ask every registry whether it has our version; one that does not answer may not."""
        asked = [self._watched(self._has_other(one), True) for one in self._addresses()]
        differing: list[bool] = await gatherResults(asked)
        return any(differing)

    async def _has_other(self, address: str) -> bool:
        me = self._identity
        header = QueryDataVersionRequest(
            broker_name=me.name, broker_addr=me.address, cluster_name=me.cluster, broker_id=me.broker_id
        )
        version = self._topics.version
        request = Command.request(RequestCode.QUERY_DATA_VERSION, header, body=version.encode())
        try:
            answer = await self._ask(address, request, self._timeout)
            if answer.code != ResponseCode.SUCCESS or answer.read(QueryDataVersionResponse).changed:
                return True
            return bool(answer.body) and DataVersion.decode(answer.body) != version
        except (CallFailed, BadHeader, BadBody):
            return True

    async def _send_all(self, address: str, first: list[Registered]) -> bool:
        registry = self._registries[address]
        await registry.lock.acquire()
        try:
            if not self.running:
                return False
            registry.names.clear()
            answer = await self._send(address, registry, self._full_body())
        finally:
            registry.lock.release()
        if answer is not None and not first:
            self._use(answer, first)
        return answer is not None

    async def _send_changed(self, address: str) -> bool:
        registry = self._registries[address]
        await registry.lock.acquire()
        try:
            names = sorted(registry.names)
            registry.names.clear()
            if not names or not self.running:
                return False
            return await self._send(address, registry, self._increment(names)) is not None
        finally:
            registry.lock.release()

    async def _send(self, address: str, registry: _Registry, body: bytes) -> Command | None:
        """Register with one table; C{None} where the registry did not take it."""
        me = self._identity
        header = RegisterBrokerRequest(
            broker_name=me.name,
            broker_addr=me.address,
            cluster_name=me.cluster,
            ha_server_addr=me.ha_address,
            broker_id=me.broker_id,
            compressed=self._compressed,
            body_crc32=zlib.crc32(body) & 0x7FFFFFFF,
        )
        try:
            answer = await self._ask(
                address, Command.request(RequestCode.REGISTER_BROKER, header, body=body), self._timeout
            )
            if answer.code != ResponseCode.SUCCESS:
                raise PeerRefused(answer.code, answer.remark or "")
        except CallFailed as error:
            if registry.up is not False:
                self._log.warn("registry {address} did not take our topics: {error}", address=address, error=error)
            registry.up = False
            return None
        if not registry.up:
            self._log.info("registered with {address}", address=address)
        registry.up = True
        return answer

    def _use(self, answer: Command, first: list[Registered]) -> None:
        """Take what the first answer of a round says; the others of that round say the same, or are wrong."""
        try:
            header = answer.read(RegisterBrokerResponse)
            ordered = KVTable.decode(answer.body).table if answer.body else None
        except (BadHeader, BadBody) as error:
            self._log.warn("a registry's answer cannot be read: {error}", error=error)
            return
        first.append(Registered(header.master_addr, header.ha_server_addr))
        if ordered is not None:
            self._topics.apply_order(ordered.keys())
        if self._on_registered is not None:
            self._on_registered(first[0])

    async def _farewell(self, address: str) -> bool:
        me = self._identity
        header = UnregisterBrokerRequest(
            broker_name=me.name, broker_addr=me.address, cluster_name=me.cluster, broker_id=me.broker_id
        )
        try:
            await self._ask(address, Command.request(RequestCode.UNREGISTER_BROKER, header), FAREWELL_TIMEOUT)
        except CallFailed as error:
            self._log.info("no farewell to registry {address}: {error}", address=address, error=error)
            return False
        return True

    # -- bodies --------------------------------------------------------------------------------------------

    def _full_body(self) -> bytes:
        key = (self._topics.version, self._permission())
        if self._encoded is None or self._encoded[0] != key:
            self._encoded = (key, self._body(self._topics.wrapper()))
        return self._encoded[1]

    def _increment(self, names: Collection[str]) -> bytes:
        wrapper = self._topics.wrapper(names)
        older = msgspec.structs.replace(wrapper.data_version, timestamp=wrapper.data_version.timestamp - 1)
        return self._body(msgspec.structs.replace(wrapper, data_version=older))

    def _body(self, wrapper: TopicConfigSerializeWrapper) -> bytes:
        permission = self._permission()
        if permission & (READ | WRITE) != READ | WRITE:
            table = {
                name: msgspec.structs.replace(config, perm=permission)
                for name, config in wrapper.topic_config_table.items()
            }
            wrapper = msgspec.structs.replace(wrapper, topic_config_table=table)
        return RegisterBrokerBody(topic_config_serialize_wrapper=wrapper).encode(self._compressed)

    def _watched(self, work: Coroutine[Any, Any, bool], otherwise: bool = False) -> Deferred[bool]:
        """Run it; what it was not made for is logged and counts as C{otherwise}."""

        def failed(failure: Failure) -> bool:
            self._log.failure("registration failed", failure)
            return otherwise

        return Deferred.fromCoroutine(work).addErrback(failed)
