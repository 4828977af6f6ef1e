"""
The routes of topics from the registries: looked up when first needed, every 30 s, soon after a broker could not be
reached, and every 2 s while a topic that a consumer wants does not exist.

What is known stays in use while no registry answers (reliability H7). A topic is forgotten when no registry has known
it for a while: one that has begun anew is empty for some seconds.

Source: C{client/impl/factory/MQClientInstance.java}, C{topicRouteData2TopicPublishInfo} and its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from smartgo.client.internal.missingtopics import SOON as CREATED_SOON
from smartgo.client.internal.missingtopics import MissingTopics
from smartgo.client.internal.rebalance import sorted_queues
from smartgo.client.internal.registrycalls import Asks, RegistryCalls
from smartgo.env.interfaces import IEnvironment
from smartgo.env.timedloop import TimedLoop
from smartgo.errors import CallFailed, PeerRefused
from smartgo.observer import OneShotObserver
from smartgo.schema.bodies import MessageQueue, TopicRouteData
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headers.registry import RouteInfoRequest
from smartgo.schema.topics import TEMPLATE_TOPIC, queue_ids

READ: Final = 4  # bits of a topic's permission
WRITE: Final = 2
MASTER: Final = 0  # broker id

REFRESH: Final = 30.0  # seconds
GONE: Final = 25.0  # seconds for which no registry knows a topic before it is forgotten
SOON: Final = 3.0  # seconds from a broker that is not reached to a refresh, at most
_DIGITS: Final = 9  # of a number of queues; more are far beyond what any topic has
NEW_TOPIC_QUEUES: Final = 4


class TopicRoute(msgspec.Struct, frozen=True):
    """
    The route of one topic: its brokers and queues.

    @ivar publish: the queues that messages may be sent to.
    @ivar subscribe: the queues that messages may be read from, sorted.
    @ivar brokers: broker name, broker id (0 the master), C{host:port}.
    """

    publish: tuple[MessageQueue, ...]
    subscribe: tuple[MessageQueue, ...]
    brokers: dict[str, dict[int, str]]


def publish_queues(topic: str, data: TopicRouteData) -> tuple[MessageQueue, ...]:
    """
    Return the queues to send to: those that the order setting names, exactly, or else all writable ones of brokers
    that have a master, by broker name.
    """
    if data.order_topic_conf:
        queues = []
        for part in data.order_topic_conf.split(";"):
            broker, _, count = part.partition(":")
            if broker and count.isdecimal():
                queues += [MessageQueue(topic, broker, number) for number in queue_ids(int(count[:_DIGITS]))]
        return tuple(queues)
    masters = {one.broker_name for one in data.broker_datas if MASTER in one.broker_addrs}
    return tuple(
        MessageQueue(topic, one.broker_name, number)
        for one in sorted(data.queue_datas, key=lambda one: one.broker_name)
        if one.perm & WRITE and one.broker_name in masters
        for number in queue_ids(one.write_queue_nums)
    )


def subscribe_queues(topic: str, data: TopicRouteData) -> tuple[MessageQueue, ...]:
    """Return the queues to read from: all queues of the brokers where the topic is readable."""
    return tuple(
        sorted_queues(
            MessageQueue(topic, one.broker_name, number)
            for one in data.queue_datas
            if one.perm & READ
            for number in queue_ids(one.read_queue_nums)
        )
    )


def route_of(topic: str, data: TopicRouteData) -> TopicRoute:
    """Return the route of a topic from the registry's data."""
    brokers = {one.broker_name: dict(one.broker_addrs) for one in data.broker_datas if one.broker_addrs}
    return TopicRoute(publish_queues(topic, data), subscribe_queues(topic, data), brokers)


def template_route(topic: str, data: TopicRouteData) -> TopicRoute:
    """
    Return the route for a topic that does not exist yet, from the template's: a send will create it with at most
    L{NEW_TOPIC_QUEUES} queues at each broker. There is nothing to read.
    """
    for one in data.queue_datas:
        one.read_queue_nums = one.write_queue_nums = min(NEW_TOPIC_QUEUES, one.read_queue_nums)
    route = route_of(topic, data)
    return TopicRoute(route.publish, (), route.brokers)


class RouteCache:
    """
    A cache of the routes of all topics in use.

    @ivar on_change: called with a topic's name when its route is known for the first time or has changed.
    """

    _log = Logger()

    def __init__(self, env: IEnvironment, client: Asks, registries: Sequence[str]) -> None:
        """
        @param registries: C{host:port} of each.
        """
        self._clock = env.clock
        self._random = env.random
        self._buggify = env.buggify
        self._registries = RegistryCalls(client, registries, env.random)
        self._routes: dict[str, TopicRoute] = {}
        self._templates: set[str] = set()  # topics whose route is the template's
        self._missing: dict[str, float] = {}  # topics of known routes to when no registry knew them first, in seconds
        self._wanted: dict[str, set[object]] = {}  # topics to who wants them
        self._deaf = False  # no registry answered the last time
        self._asking: dict[str, OneShotObserver[TopicRoute]] = {}
        self._brokers: dict[str, dict[int, str]] = {}
        self._loop = TimedLoop(env.clock, self.refresh)
        self._looks = MissingTopics(env.clock, env.random, self._missing_wanted, self._look_again)
        self._soon: IDelayedCall | None = None
        self._stopped = False
        self.on_change: Callable[[str], None] = lambda topic: None

    def start(self) -> None:
        """Start the periodic refresh, unless it runs or was stopped."""
        if not self._loop.running and not self._stopped:
            self._loop.start(REFRESH, now=False)

    def stop(self) -> None:
        """Stop the periodic refresh for good."""
        self._stopped = True
        self._looks.stop()
        if self._loop.running:
            self._loop.stop()
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None

    def doubt(self) -> None:
        """A broker of a known route could not be reached: refresh soon, as there may be another in its place."""
        if self._soon is None and self._loop.running:
            self._soon = self._clock.callLater(SOON * (0.5 + self._random.fraction() / 2), self._again)

    def _again(self) -> None:
        self._soon = None
        self._loop.reset()
        self.refresh()

    # -- what is known ---------------------------------------------------------------------------------------

    def known(self, topic: str) -> TopicRoute | None:
        """Return the cached route of a topic; C{None} if there is none."""
        return None if topic in self._templates else self._routes.get(topic)

    def address(self, broker_name: str, broker_id: int = MASTER) -> str | None:
        """Return the address of a broker of a known route; C{None} if there is no broker of that id."""
        return self._brokers.get(broker_name, {}).get(broker_id)

    def nearest_address(self, broker_name: str, broker_id: int = MASTER) -> tuple[str, int] | None:
        """Return address and id to read from: of the id asked for, or the next above, or any; C{None} for none."""
        addresses = self._brokers.get(broker_name)
        if not addresses:
            return None
        for one in (broker_id, broker_id + 1):
            if one in addresses:
                return addresses[one], one
        found = min(addresses)
        return addresses[found], found

    def addresses(self, slaves: bool = True) -> list[str]:
        """Return the addresses of all brokers of known routes."""
        return [
            address
            for ids in self._brokers.values()
            for broker_id, address in ids.items()
            if slaves or broker_id == MASTER
        ]

    def broker_at(self, address: str) -> str:
        """Return the name of the broker at an address of a known route, a slave's with its id; else the address."""
        for name, ids in self._brokers.items():
            for broker_id, one in ids.items():
                if one == address:
                    return name if broker_id == MASTER else f"{name}, slave {broker_id},"
        return address

    # -- asking ----------------------------------------------------------------------------------------------

    def want(self, topic: str, who: object) -> None:
        """
        Keep a topic in every refresh, and while it does not exist look for it every 1 to 2 s.

        @param who: the consumer that wants the topic.
        """
        self._wanted.setdefault(topic, set()).add(who)
        if self.known(topic) is None:
            self._looks.look()

    def unwant(self, topic: str, who: object) -> None:
        """Undo L{want}."""
        wanting = self._wanted.get(topic, set())
        wanting.discard(who)
        if not wanting:
            self._wanted.pop(topic, None)

    def _missing_wanted(self) -> list[str]:
        """Return the topics that are wanted and have no route."""
        return [topic for topic in self._wanted if self.known(topic) is None]

    def _look_again(self, topic: str) -> Deferred[object]:
        return Deferred.fromCoroutine(self._ask(topic))

    def find(self, topic: str) -> Deferred[TopicRoute]:
        """
        Return the route of a topic, from the cache or the registry. The Deferred cannot be cancelled.

        @raise PeerRefused: through the Deferred: with code 17, no broker has this topic.
        @raise NotConnected: through the Deferred: no registry can be reached.
        """
        return Deferred.fromCoroutine(self._find(topic))

    async def _find(self, topic: str) -> TopicRoute:
        return self.known(topic) or await self._ask(topic)

    def known_for_sending(self, topic: str) -> TopicRoute | None:
        """Return the cached route of a topic, the template's too; C{None} if there is none."""
        return self._routes.get(topic)

    def find_for_sending(self, topic: str) -> Deferred[TopicRoute]:
        """
        Return the route of a topic, or the template's if there is no such topic and the first send creates it.

        @raise PeerRefused: through the Deferred: with code 17, neither exists.
        @raise NotConnected: through the Deferred: no registry can be reached.
        """
        return Deferred.fromCoroutine(self._find_for_sending(topic))

    async def _find_for_sending(self, topic: str) -> TopicRoute:
        route = self._routes.get(topic)
        if route is not None:
            return route
        try:
            return await self._ask(topic)
        except PeerRefused as refusal:
            if refusal.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
            missing = refusal
        if topic == TEMPLATE_TOPIC:
            raise missing
        try:
            data = await self._data(TEMPLATE_TOPIC)
        except PeerRefused:
            raise missing from None
        route = self._routes.get(topic)  # another send may have been quicker
        if route is None:
            route = template_route(topic, data)
            self._templates.add(topic)
            self._learn(topic, route)
            if topic in self._wanted:
                self._looks.look(CREATED_SOON)
        return route

    def refresh(self) -> Deferred[None]:
        """Refresh the routes of all topics in use; fires when that is done, and never fails."""
        return Deferred.fromCoroutine(self._refresh())

    async def _refresh(self) -> None:
        for topic in [*dict.fromkeys([*self._routes, *self._wanted])]:
            if self._buggify("client.stale-route"):
                continue
            try:
                await self._ask(topic)
            except PeerRefused as refusal:
                if refusal.code != ResponseCode.TOPIC_NOT_EXIST:
                    self._log.warn("no route of {topic} now: {error}", topic=topic, error=refusal)
                elif topic in self._routes:
                    self._missed(topic)
            except CallFailed as error:
                if not self._deaf:
                    self._deaf = True
                    why = error.__cause__ or error
                    self._log.warn("no registry answers; the known routes stay in use: {error}", error=why)
                return
        if self._deaf:
            self._deaf = False
            self._log.info("a registry answers again")

    def _missed(self, topic: str) -> None:
        """Handle a cached topic that no registry knows any more."""
        now = self._clock.seconds()
        if now - self._missing.setdefault(topic, now) >= GONE:
            self._forget(topic)

    def _forget(self, topic: str) -> None:
        """No broker has this topic any more, or none that there was when it was to be made."""
        self._templates.discard(topic)
        del self._missing[topic]
        del self._routes[topic]
        self._gather_brokers()
        self.on_change(topic)
        if topic in self._wanted:
            self._looks.look()

    async def _ask(self, topic: str) -> TopicRoute:
        """Ask for the route of a topic; callers that ask meanwhile get the same answer."""
        asked = self._asking.get(topic)
        if asked is None:
            asked = self._asking[topic] = OneShotObserver()
            Deferred.fromCoroutine(self._look_up(topic)).addBoth(asked.fire)
        return await asked.when()

    async def _look_up(self, topic: str) -> TopicRoute:
        try:
            route = route_of(topic, await self._data(topic))
            self._templates.discard(topic)
            self._missing.pop(topic, None)
            self._learn(topic, route)
            return route
        finally:
            del self._asking[topic]

    def _learn(self, topic: str, route: TopicRoute) -> None:
        if self._routes.get(topic) == route:
            return
        self._routes[topic] = route
        self._gather_brokers()
        self.on_change(topic)

    def _gather_brokers(self) -> None:
        brokers: dict[str, dict[int, str]] = {}
        for route in self._routes.values():
            for name, addresses in route.brokers.items():
                brokers.setdefault(name, {}).update(addresses)
        self._brokers = brokers

    async def _data(self, topic: str) -> TopicRouteData:
        command = Command.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, RouteInfoRequest(topic=topic))
        return await self._registries.read(command, lambda answer: TopicRouteData.decode(answer.body))

    async def ask_registry(self, command: Command) -> Command:
        """
        Send a request to one registry; return its response, a success.

        @raise PeerRefused: all that answered did so with an error code.
        @raise CallFailed: none of them answered.
        """
        return await self._registries.ask(command)
