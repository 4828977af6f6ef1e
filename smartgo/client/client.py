"""
The client: connections, routes and heartbeats, which all producers and consumers of a process share.

    >>> from twisted.internet import reactor
    >>> from smartgo import Client, RealEnvironment
    >>> client = Client(RealEnvironment(reactor), "127.0.0.1:9876")

Producers (L{smartgo.client.producer}), consumers (L{smartgo.client.consumer}, L{smartgo.client.pullconsumer}) and
administration (L{smartgo.client.admin}) take a client as their first argument. They share one connection to each
broker, the routes, and the heartbeats that tell brokers who is a member of which group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeVar

from twisted.internet.defer import Deferred, DeferredList, succeed
from twisted.logger import Logger

from smartgo.client.internal.events import Events
from smartgo.client.internal.groupmember import GroupConsumer, GroupProducer
from smartgo.client.internal.identity import DEFAULT_INSTANCE, UniqueIds, client_id
from smartgo.client.internal.outages import BrokerOutages
from smartgo.client.internal.pauses import Pauses
from smartgo.client.internal.replies import AwaitedReplies
from smartgo.client.internal.route import RouteCache
from smartgo.client.internal.served import ServedRequests
from smartgo.client.tracesettings import Tracing, tracing_of
from smartgo.env.interfaces import IEnvironment
from smartgo.env.timedloop import TimedLoop
from smartgo.errors import BadHeader, CallFailed, PeerRefused, SettingError
from smartgo.net.memorybudget import MemoryBudget
from smartgo.net.sweeper import Sweeper
from smartgo.net.tls import ClientTLS
from smartgo.remoting.client import CallSecurity, RemotingClient
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
from smartgo.schema.registryaddresses import registry_addresses
from smartgo.schema.signature import AccessKey

HEARTBEAT: Final = 30.0  # seconds
TIMEOUT: Final = 3.0  # seconds for a broker to answer

H = TypeVar("H", bound=Header)
T = TypeVar("T")


class _Reconnections(NullListener):
    """Brokers forget the members of groups with their connections: a new connection begins with a heartbeat."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def connected(self, peer: IPeer) -> None:
        """Send a heartbeat over the new connection."""
        self._client.introduce(peer.address)


class Embedding(NamedTuple):
    """
    The parts of a process that a client in it shares.

    @ivar reaches: returns whether the client may connect to a broker's C{host:port}, as a registry names it; C{None} to
        let it connect to every one.
    @ivar sweeper: the timers and the memory budget of connections; C{None} for ones of the client's own.
    """

    reaches: Callable[[str], bool] | None = None
    sweeper: Sweeper | None = None


class Client:
    """
    A client of a cluster: one connection to each broker, the routes of topics, and heartbeats.

    A process needs one; producers, consumers and administration are made with it and share it. Use it on the reactor
    thread, and L{stop} it in the end.

    @ivar env: the environment.
    @ivar id: the client id that brokers see: C{address@instance}.
    @ivar stable_id: the same id in every run; the offset files of broadcast consumers are in a folder of this name.
    @ivar registries: C{host:port} of each registry.
    @ivar remoting: the connections to registries and brokers.
    @ivar routes: the brokers and queues of each topic.
    @ivar outages: the brokers that do not answer.
    @ivar unique_ids: generates the unique ids of messages.
    @ivar events: those that hear of all sends and of all consumption.
    @ivar replies: the requests of producers that wait for replies.
    @ivar pauses: the pauses between the attempts of sends.
    """

    _log = Logger()

    def __init__(
        self,
        env: IEnvironment,
        registries: str | Sequence[str],
        instance: str | None = None,
        tls: ClientTLS | None = None,
        embedding: Embedding | None = None,
        access_key: AccessKey | None = None,
        trace: bool | str | Tracing = False,
    ) -> None:
        """
        @param env: clock, network, threads and files: L{RealEnvironment<smartgo.env.real.RealEnvironment>}, outside of
            tests.
        @param registries: C{host:port} of each registry: a list, or a text with semicolons between them. A port that
            is missing is 9876; C{rocketmq://}, C{tcp://} and C{http://} before an address are dropped.
        @param instance: the name of this client, unique on this machine; generated by default.
        @param tls: the certificates for TLS with registries and brokers; by default connections are plain.
        @param embedding: the parts of a process that the client shares; by default it has its own.
        @param access_key: signs each request, for registries and brokers with access control; by default none is
            signed.
        @param trace: write message traces (C{docs/tracing.rst}): to C{RMQ_SYS_TRACE_TOPIC}, or to the topic of this
            name. L{Tracing<smartgo.client.tracesettings.Tracing>} can also ask for OpenTelemetry spans.
        @raise SettingError: no registry is given, or an address cannot be read.
        @raise BadName: the name of the topic of traces breaks the rules.
        """
        self.env = env
        self.events = Events(tracing_of(trace))
        embedding = Embedding() if embedding is None else embedding
        self.registries = registry_addresses(registries)
        address: str = env.host.address_towards(*parse_address(self.registries[-1]))
        self.id = client_id(env, address, instance)
        self.stable_id = client_id(env, address, instance or DEFAULT_INSTANCE)
        self.unique_ids = UniqueIds(env, address)
        self.consumers: dict[str, GroupConsumer] = {}
        self._producers: dict[str, GroupProducer] = {}
        self.replies = AwaitedReplies(env.clock)
        self.pauses = Pauses(env.clock)
        self.remoting = RemotingClient(
            env,
            embedding.sweeper or Sweeper(env.clock, MemoryBudget(env.clock)),
            Dispatcher([ServedRequests(self.consumers, self._producers, self.replies)]),
            _Reconnections(self),
            CallSecurity(
                tls,
                None if embedding.reaches is None else self._reaches(embedding.reaches),
                None if access_key is None else access_key.sign_unsigned,
            ),
        )
        self.routes = RouteCache(env, self.remoting, self.registries)
        self.routes.on_change = self._route_changed
        self._loop = TimedLoop(env.clock, self.heartbeat)
        self.outages = BrokerOutages()
        self._refused: dict[str, PeerRefused] = {}  # by address, where the last heartbeat was refused
        self._beating: set[str] = set()  # addresses whose answers to heartbeats are awaited
        self._stopped = False

    def _reaches(self, brokers: Callable[[str], bool]) -> Callable[[str], bool]:
        return lambda place: place in self.registries or brokers(place)

    # -- members ---------------------------------------------------------------------------------------------

    def join(self, producer: GroupProducer | None = None, consumer: GroupConsumer | None = None) -> None:
        """
        Add a producer or a consumer to the members that heartbeats report.

        @raise SettingError: this client has one of this group already, or was stopped.
        """
        if self._stopped:
            raise SettingError("the client was stopped; create a new one")
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
        Unregister a member from all brokers; fires when they have answered or failed to, and never fails.

        @param producer: the group of the producer that leaves.
        @param consumer: the group of the consumer that leaves.
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
        """
        Stop all consumers at once, then all producers, then close all connections; fires when that is done. Calls that
        wait fail with L{CallFailed}.
        """
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        self._stopped = True
        await _all_ended([consumer.stop() for consumer in list(self.consumers.values())])
        await _all_ended([producer.stop() for producer in list(self._producers.values())])  # listeners may have sent
        await self.events.end()
        if self._loop.running:
            self._loop.stop()
        self.routes.stop()
        gone = self.remoting.stop()
        self.pauses.end()  # sends that are tried again fail now
        self.replies.end()
        await gone

    # -- heartbeats ------------------------------------------------------------------------------------------

    def heartbeat(self) -> Deferred[None]:
        """
        Send a heartbeat to all brokers of known routes; fires when they have answered or failed to, and never fails.

        Slaves get heartbeats only if there are consumers.
        """
        if not self.consumers and not self._producers:
            return succeed(None)
        addresses = self.routes.addresses(slaves=bool(self.consumers))
        beats = [self._beat(one) for one in addresses * (2 if self.env.buggify("client.two-heartbeats") else 1)]
        return Deferred.fromCoroutine(_all_ended(beats))

    def refusal(self, topic: str) -> PeerRefused | None:
        """
        Return why all brokers of a topic refuse this client's heartbeats; C{None} if one takes them, or if the topic
        has no route.
        """
        route = self.routes.known(topic)
        addresses = [] if route is None else [one for ids in route.brokers.values() for one in ids.values()]
        if not addresses or not self._refused.keys() >= set(addresses):
            return None
        return self._refused[addresses[0]]

    def introduce(self, address: str) -> None:
        """Send a heartbeat to the peer of a new connection if it is a broker."""
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
        broker = self.routes.broker_at(address)
        try:
            answer = await self.remoting.ask(address, command, TIMEOUT)
            self.outages.answered(broker)
            if answer.code != ResponseCode.SUCCESS:
                self._refused[address] = PeerRefused(answer.code, answer.remark or "")
                self._log.error(
                    "broker {address} refuses this client: {code} {remark}",
                    address=address,
                    code=answer.code,
                    remark=answer.remark,
                )
            else:
                self._refused.pop(address, None)
        except CallFailed as error:
            if not self._stopped:
                self.outages.failed(broker, error)
        finally:
            self._beating.discard(address)

    def _route_changed(self, topic: str) -> None:
        for consumer in list(self.consumers.values()):
            consumer.route_changed(topic)

    # -- asking brokers --------------------------------------------------------------------------------------

    def ask(self, address: str, command: Command, timeout: float = TIMEOUT) -> Deferred[Command]:
        """
        Send a request to a broker; fires with the response, which is a success.

        @param address: C{host:port} of the broker.
        @param timeout: seconds to wait for the response.
        @raise PeerRefused: through the Deferred: the broker answered with an error code.
        @raise CallFailed: through the Deferred: the broker did not answer.
        """
        return self.remoting.ask(address, command, timeout).addCallback(succeeded)


def succeeded(answer: Command) -> Command:
    """
    Return the response if it is a success.

    @raise PeerRefused: it is an error code.
    """
    if answer.code != ResponseCode.SUCCESS:
        raise PeerRefused(answer.code, answer.remark or "")
    return answer


def header_of(kind: type[H], answer: Command) -> H:
    """
    Return the header of a response.

    @raise CallFailed: the response has no header of that kind.
    """
    try:
        return answer.read(kind)
    except BadHeader as error:
        raise CallFailed(f"an answer cannot be read: {error}") from None


async def _all_ended(waits: Iterable[Deferred[T]]) -> None:
    await DeferredList(list(waits), consumeErrors=True)
