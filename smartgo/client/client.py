"""
One client: what all producers and consumers of a process share.

    >>> from twisted.internet import reactor
    >>> from smartgo.env.real import RealEnvironment
    >>> client = Client(RealEnvironment(reactor), "127.0.0.1:9876")

Producers (L{smartgo.client.producer}), consumers (L{smartgo.client.consumer}, L{smartgo.client.pullconsumer}) and
administration (L{smartgo.client.admin}) are made of a client. They share one connection to each broker, the routes,
and the heartbeats that tell brokers who is a member of which group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from twisted.internet.defer import Deferred, DeferredList, succeed
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from smartgo.client.internal.groupmember import GroupConsumer, GroupProducer
from smartgo.client.internal.identity import DEFAULT_INSTANCE, UniqueIds, client_id
from smartgo.client.internal.route import RouteCache, parse_registries
from smartgo.client.internal.served import ServedRequests
from smartgo.env.interfaces import IEnvironment
from smartgo.errors import BadHeader, CallFailed, PeerRefused, SettingError
from smartgo.net.memorybudget import MemoryBudget
from smartgo.net.sweeper import Sweeper
from smartgo.net.tls import ClientTLS
from smartgo.remoting.client import RemotingClient
from smartgo.remoting.dispatch import Dispatcher
from smartgo.remoting.interfaces import IPeer
from smartgo.remoting.listeners import NullListener
from smartgo.schema.address import parse_address
from smartgo.schema.bodies import (
    HeartbeatData,
    ProducerData,
)
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headerfields import Header
from smartgo.schema.headers.consumers import UnregisterClientRequest

HEARTBEAT: Final = 30.0  # seconds
TIMEOUT: Final = 3.0  # seconds for a broker to answer

H = TypeVar("H", bound=Header)
T = TypeVar("T")


class _Reconnections(NullListener):
    """Brokers forget the members of groups with their connections: a new connection begins with a heartbeat."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def connected(self, peer: IPeer) -> None:
        """Introduce ourselves."""
        self._client.introduce(peer.address)


class Client:
    """
    One client.

    @ivar env: the environment.
    @ivar id: what brokers know it by: C{address@instance}.
    @ivar stable_id: a name that stays the same from run to run; files of broadcast consumers lie below it.
    @ivar registries: C{host:port} of each.
    @ivar remoting: its connections.
    @ivar routes: where queues are.
    @ivar unique_ids: makes ids of messages.
    """

    _log = Logger()

    def __init__(
        self,
        env: IEnvironment,
        registries: str | Sequence[str],
        instance: str | None = None,
        tls: ClientTLS | None = None,
        reaches: Callable[[str], bool] | None = None,
    ) -> None:
        """
        @param registries: C{host:port} of each registry: a list, or a text with semicolons between them.
        @param instance: a name for this client, unlike that of any other on this machine; made up by default.
        @param tls: how to speak TLS with registries and brokers; by default not at all.
        @param reaches: whether a broker's C{host:port}, as a registry names it, may be connected to; by default every
            one.
        @raise SettingError: no registry, or an address that cannot be read.
        """
        self.env = env
        self.registries = parse_registries(registries) if isinstance(registries, str) else tuple(registries)
        if not self.registries:
            raise SettingError("no registry is named: give HOST:PORT of one at least")
        for one in self.registries:
            try:
                host, port = parse_address(one)
            except ValueError as error:
                raise SettingError(f"registry: {error}") from None
        address: str = env.host.address_towards(host, port)
        self.id = client_id(env, address, instance)
        self.stable_id = client_id(env, address, instance or DEFAULT_INSTANCE)
        self.unique_ids = UniqueIds(env, address)
        self.consumers: dict[str, GroupConsumer] = {}
        self._producers: dict[str, GroupProducer] = {}
        self.remoting = RemotingClient(
            env,
            Sweeper(env.clock, MemoryBudget(env.clock)),
            Dispatcher([ServedRequests(self.consumers)]),
            _Reconnections(self),
            tls,
            reaches=None if reaches is None else lambda place: place in self.registries or reaches(place),
        )
        self.routes = RouteCache(env, self.remoting, self.registries)
        self.routes.on_change = self._route_changed
        self._loop = LoopingCall(self.heartbeat)
        self._loop.clock = env.clock
        self._beating: set[str] = set()  # addresses whose answers to heartbeats are awaited
        self._stopped = False

    # -- members ---------------------------------------------------------------------------------------------

    def join(self, producer: GroupProducer | None = None, consumer: GroupConsumer | None = None) -> None:
        """
        Let a producer or a consumer be a member of its group; heartbeats will tell.

        @raise SettingError: this client has one of this group already, or was stopped.
        """
        if self._stopped:
            raise SettingError("the client was stopped; make another one")
        if producer is not None:
            if producer.group in self._producers:
                raise SettingError(f"this client has a producer of group {producer.group} already")
            self._producers[producer.group] = producer
        if consumer is not None:
            if consumer.group in self.consumers:
                raise SettingError(f"this client has a consumer of group {consumer.group} already")
            self.consumers[consumer.group] = consumer
        self.routes.start()
        if not self._loop.running:
            self._loop.start(HEARTBEAT, now=False)

    def leave(self, producer: str | None = None, consumer: str | None = None) -> Deferred[None]:
        """
        End a membership; fires when the brokers were told, and never fails.

        @param producer: the group in which we are a producer.
        @param consumer: the group in which we are a consumer.
        """
        if producer is not None:
            self._producers.pop(producer, None)
        if consumer is not None:
            self.consumers.pop(consumer, None)
        header = UnregisterClientRequest(client_id=self.id, producer_group=producer, consumer_group=consumer)
        asked = [
            self.remoting.ask(address, Command.request(RequestCode.UNREGISTER_CLIENT, header), TIMEOUT)
            for address in self.routes.addresses()
        ]
        return Deferred.fromCoroutine(_all_ended(asked))

    def stop(self) -> Deferred[None]:
        """Stop all producers and consumers, then close the connections; fires when nothing is left."""
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        self._stopped = True
        members: list[GroupConsumer | GroupProducer] = [*self.consumers.values(), *self._producers.values()]
        for member in members:
            await member.stop()
        if self._loop.running:
            self._loop.stop()
        self.routes.stop()
        await self.remoting.stop()

    # -- heartbeats ------------------------------------------------------------------------------------------

    def heartbeat(self) -> Deferred[None]:
        """
        Tell all brokers of known routes who we are; fires when they have answered or failed to, and never fails.

        Slaves are told of consumers alone.
        """
        if not self.consumers and not self._producers:
            return succeed(None)
        beats = [self._beat(address) for address in self.routes.addresses(slaves=bool(self.consumers))]
        return Deferred.fromCoroutine(_all_ended(beats))

    def introduce(self, address: str) -> None:
        """A connection came up: tell who we are where that is a broker."""
        if address in self.routes.addresses(slaves=bool(self.consumers)) and address not in self._beating:
            self._beat(address)

    def _beat(self, address: str) -> Deferred[None]:
        data = HeartbeatData(
            client_id=self.id,
            producer_data_set=[ProducerData(group) for group in self._producers],
            consumer_data_set=[one.heartbeat_data() for one in self.consumers.values()],
        )
        command = Command.request(RequestCode.HEART_BEAT, body=data.encode())
        self._beating.add(address)
        return Deferred.fromCoroutine(self._await_beat(address, command))

    async def _await_beat(self, address: str, command: Command) -> None:
        try:
            answer = await self.remoting.ask(address, command, TIMEOUT)
            if answer.code != ResponseCode.SUCCESS:
                self._log.error(
                    "broker {address} refuses us: {code} {remark}",
                    address=address,
                    code=answer.code,
                    remark=answer.remark,
                )
        except CallFailed as error:
            if not self._stopped:
                self._log.warn("no heartbeat to broker {address}: {error}", address=address, error=error)
        finally:
            self._beating.discard(address)

    def _route_changed(self, topic: str) -> None:
        for consumer in list(self.consumers.values()):
            consumer.route_changed(topic)

    # -- asking brokers --------------------------------------------------------------------------------------

    def ask(self, address: str, command: Command, timeout: float = TIMEOUT) -> Deferred[Command]:
        """
        Ask a broker; fires with the response, a success.

        @raise PeerRefused: through the Deferred: it answered with an error code.
        @raise CallFailed: through the Deferred: it did not answer.
        """
        return self.remoting.ask(address, command, timeout).addCallback(succeeded)


def succeeded(answer: Command) -> Command:
    """Let a success pass. @raise PeerRefused: the answer is an error code."""
    if answer.code != ResponseCode.SUCCESS:
        raise PeerRefused(answer.code, answer.remark or "")
    return answer


def header_of(kind: type[H], answer: Command) -> H:
    """Return an answer's header. @raise CallFailed: it is no such header."""
    try:
        return answer.read(kind)
    except BadHeader as error:
        raise CallFailed(f"an answer cannot be read: {error}") from None


async def _all_ended(waits: Iterable[Deferred[T]]) -> None:
    await DeferredList(list(waits), consumeErrors=True)
