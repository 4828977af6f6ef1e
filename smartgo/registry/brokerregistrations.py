"""
Requests of brokers to register, unregister and compare versions (103, 104, 322).

A registration belongs to the connection that it came over: over any other one a broker can neither be removed nor
changed while the first is alive (L{BrokerRegistrations._ask}). Large tables are read in a thread: a body of 16 MiB
takes longer than clients should wait. What one connection sends is taken in order all the same.
"""

from __future__ import annotations

import hashlib
import zlib
from collections import Counter
from typing import Any, Final, NamedTuple, cast

from twisted.internet.defer import Deferred, DeferredLock
from twisted.logger import Logger

from smartgo.env.interfaces import IEnvironment
from smartgo.errors import CallFailed, NoPermission, QueryNotFound, RequestRefused
from smartgo.net.tokenbuckets import TokenBuckets
from smartgo.registry.access import Access
from smartgo.registry.contenders import Contenders
from smartgo.registry.kvconfig import ORDER_TOPICS, KvConfig
from smartgo.registry.leases import Leases
from smartgo.registry.registration import MASTER, AddressHeld, NameTaken, Registration, queues_of
from smartgo.registry.routes import RouteTable
from smartgo.registry.stoppedbrokers import StoppedBrokers
from smartgo.remoting.interfaces import Answer, IPeer
from smartgo.remoting.origin import asker
from smartgo.schema import bodies
from smartgo.schema.address import is_loopback
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headers import registry as headers

LANE: Final = "registrations"
"""The thread lane that reads large registrations."""
LARGE: Final = 64 * 1024
"""Bytes of a body that are read on the reactor thread, at most."""
LARGE_COMPRESSED: Final = 4 * 1024
"""The same where they are compressed."""
READING: Final = 32
"""Large registrations that are read or wait for it, at most; of one address at most as many as places are left."""
READ_RATE, READ_BURST = 4 * 1024 * 1024, 64 * 1024 * 1024
"""Bytes of large registrations that are read for one address: in a second, and at once."""
ANSWER: Final = 3.0
"""Seconds in which a broker has to show that its connection is alive."""

_TYPED_BODY_FROM: Final = 37
"""Request version from which the body of 103 is a RegisterBrokerBody (V3_0_11)."""


class _Read(NamedTuple):
    """The content of a registration's body."""

    version: bodies.DataVersion
    queues: Any


class BrokerRegistrations:
    """
    Registers and unregisters brokers.

    @ivar contenders: the masters that were refused.
    @ivar stopped: the brokers that unregistered.
    """

    _log = Logger()

    def __init__(
        self,
        env: IEnvironment,
        routes: RouteTable,
        kv: KvConfig,
        access: Access,
        leases: Leases,
    ) -> None:
        self._env = env
        self._routes = routes
        self._kv = kv
        self._access = access
        self._leases = leases
        self._reading: Counter[str] = Counter()  # large registrations, by IP address
        self._bytes = TokenBuckets(READ_RATE, READ_BURST)
        self._locks: dict[IPeer, DeferredLock] = {}  # of connections whose registrations are being read
        self._asked: set[IPeer] = set()  # whether they are alive
        self.contenders = Contenders(env.clock.seconds)
        self.stopped = StoppedBrokers(env.clock.wall_ms)

    # -- 103 ---------------------------------------------------------------------------------------------------

    def register(self, peer: IPeer, request: Command) -> Answer | Deferred[Answer]:
        """Register a broker."""
        self._access.check_broker(asker(peer))
        header = request.read(headers.RegisterBrokerRequest)
        digest = _digest(request, header)
        if header.body_crc32 and zlib.crc32(request.body) & 0x7FFFFFFF != header.body_crc32:
            raise RequestRefused("crc32 not match")
        version = self._routes.repeats(header.broker_addr, digest)
        if version is not None:  # a repetition: whatever its topics are, they are known
            read = _Read(version, {})
        elif len(request.body) <= (LARGE_COMPRESSED if header.compressed else LARGE) and peer not in self._locks:
            read = _read(request, header)
        else:
            return Deferred.fromCoroutine(self._read_later(peer, request, header, digest))
        return self._take(peer, request, header, digest, read)

    async def _read_later(
        self, peer: IPeer, request: Command, header: headers.RegisterBrokerRequest, digest: bytes
    ) -> Answer:
        ip, size = asker(peer).ip, len(request.body)
        if self._reading[ip] >= READING - self._reading.total():
            raise TooManyRegistrations(
                f"{self._reading.total()} large registrations are being read, {self._reading[ip]} of {ip}; try again"
            )
        if not self._bytes.take(ip, self._env.clock.seconds(), size):
            raise TooManyRegistrations(f"more than {READ_RATE} B of registrations a second from {ip}; try again")
        self._reading[ip] += 1
        lock = self._locks.setdefault(peer, DeferredLock())
        try:
            await lock.acquire()
            try:
                read = await self._env.threads.run(LANE, _read, request, header)
                answer = self._take(peer, request, header, digest, read) if peer.open else None
            finally:
                lock.release()
        finally:
            self._reading[ip] -= 1
            if not self._reading[ip]:
                del self._reading[ip]
            if not lock.locked:
                self._locks.pop(peer, None)
        return await answer if isinstance(answer, Deferred) else answer

    def _take(
        self, peer: IPeer, request: Command, header: headers.RegisterBrokerRequest, digest: bytes, read: _Read
    ) -> Answer | Deferred[Answer]:
        where = asker(peer)
        master = header.broker_id == MASTER
        one = Registration(
            header.cluster_name,
            header.broker_name,
            header.broker_id,
            header.broker_addr,
            header.ha_server_addr,
            read.version,
            {},
            digest,
            header.advertised or "",
            header.ha_advertised or "",
            self._leases.since(header.lease, header.broker_name, header.broker_addr) if master else None,
            header.lease is not None,
            read.queues,
            peer.address if is_loopback(where.ip) else where.ip,
        )
        try:
            incumbents = self._routes.incumbents(one, peer)
            if incumbents:
                return Deferred.fromCoroutine(self._ask(peer, request, one, cast("list[IPeer]", incumbents)))
            return self._answer(peer, request, one)
        except NameTaken as taken:
            return self._refuse(peer, request, one, taken)

    async def _ask(self, peer: IPeer, request: Command, one: Registration, incumbents: list[IPeer]) -> Answer:
        """
        Find out whether the connections over which others registered what this one claims are alive; if not, end them.

        Any answer will do: RocketMQ's brokers answer 3 to this question.
        """
        for other in incumbents:
            if not other.open:
                continue
            if other in self._asked:
                raise AddressHeld(f"another connection may hold {one.address}, which is being checked; try again")
            self._asked.add(other)
            try:
                await other.ask(Command.request(RequestCode.GET_BROKER_RUNTIME_INFO), ANSWER)
            except CallFailed as error:
                other.close(f"no answer ({error}), and {one.address} has registered over another connection")
            else:
                raise AddressHeld(
                    f"{one.address}, id {one.broker_id} of broker {one.name}, is registered over another connection,"
                    f" from {other.address}, which is alive"
                )
            finally:
                self._asked.discard(other)
        if not peer.open:
            return None
        try:
            if any(cast(IPeer, other).open for other in self._routes.incumbents(one, peer)):
                raise AddressHeld(f"{one.address} was registered over another connection meanwhile")
            return self._answer(peer, request, one)
        except NameTaken as taken:
            return self._refuse(peer, request, one, taken)

    def _refuse(self, peer: IPeer, request: Command, one: Registration, taken: NameTaken) -> Command:
        if one.broker_id == MASTER:
            self.contenders.refused(one.name, one.address, peer)
        return request.answer(taken.code, str(taken), fields={headers.NAME_TAKEN: taken.holder})

    def _answer(self, peer: IPeer, request: Command, one: Registration) -> Answer:
        new = self._routes.version(one.address) is None
        master = self._routes.register(one, peer)
        self.stopped.registered(one.name, one.broker_id)
        if one.broker_id == MASTER:
            self.contenders.admitted(one.name, one.address)
        where = asker(peer)
        if new:
            self._log.info(
                "broker {name} of {cluster}, id {broker_id}, registered from {address}",
                name=one.name,
                cluster=one.cluster,
                broker_id=one.broker_id,
                address=one.address,
                peer=peer.address,
            )
        for seen, channel in self._routes.displaced:
            self._log.warn(
                "broker {name} is at {address} again, which held the name before {other} did",
                name=seen.name,
                address=one.address,
                other=seen.address,
                peer=peer.address,
            )
            if channel is not peer:  # so that it asks again, and is told, at once
                cast(IPeer, channel).close(f"{one.address} has the name {seen.name}")
        answer = headers.RegisterBrokerResponse()
        if master is not None:
            answer.ha_server_addr = self._routes.told_ha(master, where)
            answer.master_addr = self._routes.told(master, where)
        if one.leased and one.broker_id == MASTER:
            answer.lease = self._leases.grant(one.name, one.address, self._routes.since(one.address))
        try:
            order = bodies.KVTable(self._kv.namespace(ORDER_TOPICS)).encode()
        except QueryNotFound:
            order = b""
        return request.answer(header=answer, body=order)

    # -- 104, 322 ----------------------------------------------------------------------------------------------

    def unregister(self, peer: IPeer, request: Command) -> Answer:
        """Unregister a broker; only over the connection that it registered over."""
        header = request.read(headers.UnregisterBrokerRequest)
        if self._routes.holds(header.broker_addr, peer) is False:
            raise NoPermission(f"{header.broker_addr} was registered over another connection")
        if self._routes.unregister(header.broker_addr, header.broker_name, header.broker_id):
            self.stopped.unregistered(header.broker_name, header.broker_id)
            self._log.info(
                "broker {name} at {address} has unregistered",
                name=header.broker_name,
                address=header.broker_addr,
                peer=peer.address,
            )
        return request.answer()

    def data_version(self, peer: IPeer, request: Command) -> Answer:
        """Answer whether a broker's version of topics is known; from the broker itself this is a sign of life."""
        header = request.read(headers.QueryDataVersionRequest)
        asked = bodies.DataVersion.decode(request.body)
        known = self._routes.version(header.broker_addr)
        changed = known != asked or self._routes.lacks(header.broker_addr)
        if not changed and self._routes.holds(header.broker_addr, peer):
            self._routes.heard(header.broker_addr)
        body = b"" if known is None else known.encode()
        return request.answer(header=headers.QueryDataVersionResponse(changed=changed), body=body)


class TooManyRegistrations(RequestRefused):
    """More large registrations at once than are read."""

    code = ResponseCode.SYSTEM_BUSY


def _digest(request: Command, header: headers.RegisterBrokerRequest) -> bytes:
    """Return what tells this registration from any other; a table of many topics takes much longer to read."""
    who = (header.cluster_name, header.broker_name, str(header.broker_id), header.broker_addr, header.ha_server_addr)
    how = f"{request.version < _TYPED_BODY_FROM} {header.compressed} {header.advertised} {header.ha_advertised}"
    seen = hashlib.blake2b(request.body, digest_size=32)
    seen.update("\0".join((*who, how)).encode("utf-8", "surrogatepass"))
    return seen.digest()


def _read(request: Command, header: headers.RegisterBrokerRequest) -> _Read:
    """Read a body. Runs in any thread."""
    wrapper = _topics(request, header.compressed)
    return _Read(wrapper.data_version, queues_of(header.broker_name, wrapper.topic_config_table))


def _topics(request: Command, compressed: bool) -> bodies.TopicConfigSerializeWrapper:
    if not request.body:
        return bodies.TopicConfigSerializeWrapper()
    if request.version < _TYPED_BODY_FROM:
        return bodies.TopicConfigSerializeWrapper.decode(request.body)
    if compressed:
        return bodies.RegisterBrokerBody.decode(request.body, compressed=True).topic_config_serialize_wrapper
    return bodies.RegisteredTopics.decode(request.body).topic_config_serialize_wrapper
