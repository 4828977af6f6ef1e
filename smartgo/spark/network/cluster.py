"""Requests to the registries and brokers of a cluster, repeated while they fail: topics, routes, bounds of queues."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from smartgo.errors import BadBody, BadHeader, CallFailed, PeerRefused
from smartgo.schema.bodies import TopicList, TopicRouteData
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headerfields import Header
from smartgo.schema.headers.registry import RouteInfoRequest
from smartgo.schema.topics import queue_ids
from smartgo.spark.network.access import ClusterAccess
from smartgo.spark.network.queueranges import Queue
from smartgo.spark.network.wire import BlockingConnection, BlockingDial, IConnection, IPauseClock, MachineClock

_MASTER: Final = 0
_READ: Final = 4
_PAUSES: Final = (0.1, 0.2, 0.5, 1.0, 2.0)
"""Seconds between attempts; the last again and again."""
_CONNECT: Final = 5.0
"""Seconds for one attempt to connect, at most."""
_UNDER_WAY: Final = 64
"""Requests sent to a broker before the first answer is read."""

BUSY: Final = frozenset(
    {
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.BROKER_DISPATCH_NOT_COMPLETE,
        ResponseCode.FLOW_CONTROL,
        ResponseCode.GO_AWAY,
    }
)
"""Answers of a broker that has too much to do just now, or is starting or stopping."""

H = TypeVar("H", bound=Header)


class BoundedAttempts:
    """The attempts at one thing, with pauses between them, until it has taken too long."""

    def __init__(self, clock: IPauseClock, timeout: float) -> None:
        """@param timeout: seconds for all of them."""
        self._clock = clock
        self._timeout = timeout
        self.succeeded()

    @property
    def left(self) -> float:
        """Seconds that are left, a moment at least."""
        return max(0.05, self._end - self._clock.seconds())

    def succeeded(self) -> None:
        """Begin to count anew: something was brought on."""
        self._end = self._clock.seconds() + self._timeout
        self._count = 0

    def failed(self, error: CallFailed) -> None:
        """Wait a little before the next attempt. @raise CallFailed: the time is over; it is C{error}."""
        pause = _PAUSES[min(self._count, len(_PAUSES) - 1)]
        self._count += 1
        if self._clock.seconds() + pause >= self._end:
            raise error
        self._clock.pause(pause)


@dataclass(frozen=True)
class Route:
    """
    The queues of a topic that may be read.

    @ivar addresses: by broker name, C{host:port} of its master, then of its slaves by their ids.
    @ivar masters: by broker name, the master's alone; none for a broker without one.
    """

    queues: tuple[Queue, ...]
    addresses: Mapping[str, tuple[str, ...]]
    masters: Mapping[str, str]


def route_of(topic: str, data: TopicRouteData) -> Route:
    """Return the readable queues of a topic, by broker and id, from a registry's answer."""
    addresses = {
        one.broker_name: tuple(address for _, address in sorted(one.broker_addrs.items()))
        for one in data.broker_datas
        if one.broker_addrs
    }
    queues = [
        Queue(topic, one.broker_name, number)
        for one in data.queue_datas
        if one.perm & _READ and one.broker_name in addresses
        for number in queue_ids(one.read_queue_nums)
    ]
    masters = {one.broker_name: one.broker_addrs[_MASTER] for one in data.broker_datas if _MASTER in one.broker_addrs}
    return Route(tuple(sorted(queues)), addresses, masters)


class Cluster:
    """The registries and brokers of a cluster, asked over blocking connections that stay open until L{close}."""

    def __init__(
        self, access: ClusterAccess, dial: BlockingDial = BlockingConnection, clock: IPauseClock | None = None
    ) -> None:
        self.access = access
        self._dial = dial
        self._clock = MachineClock() if clock is None else clock
        self._connections: dict[str, IConnection] = {}
        self._addresses: dict[str, tuple[str, ...]] = {}
        self._masters: dict[str, str] = {}
        self._answered: dict[str, str] = {}

    def close(self) -> None:
        """Close all connections; the next request opens new ones."""
        while self._connections:
            self._connections.popitem()[1].close()

    def attempts(self) -> BoundedAttempts:
        """Return attempts at something new."""
        return BoundedAttempts(self._clock, self.access.timeout)

    # -- registries --------------------------------------------------------------------------------------------

    def topics(self) -> list[str]:
        """Return the names of all topics. @raise CallFailed: no registry tells."""
        answer = self._ask_registry(Command.request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER))
        try:
            return sorted(TopicList.decode(answer.body).topic_list)
        except BadBody as error:
            raise CallFailed(f"the registry's list of topics cannot be read: {error}") from None

    def route(self, topic: str) -> Route | None:
        """Return where a topic's queues are, C{None} if no registry knows it. @raise CallFailed: none tells."""
        request = RouteInfoRequest(topic=topic, accept_standard_json_only=True)
        try:
            answer = self._ask_registry(Command.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, request))
        except PeerRefused as refusal:
            if refusal.code == ResponseCode.TOPIC_NOT_EXIST:
                return None
            raise
        try:
            found = route_of(topic, TopicRouteData.decode(answer.body))
        except BadBody as error:
            raise CallFailed(f"the route of topic {topic} cannot be read: {error}") from None
        self._addresses.update(found.addresses)
        self._masters.update(found.masters)
        return found

    def _ask_registry(self, request: Command) -> Command:
        """Ask one registry after the other; return a success. @raise PeerRefused @raise CallFailed"""
        attempts = self.attempts()
        while True:
            refusal: PeerRefused | None = None
            failure = CallFailed("no registry is given")
            for address in self.access.registries:
                try:
                    answer = self._ask(address, [request], attempts)[0]
                except CallFailed as error:
                    failure = error
                    continue
                if answer.code == ResponseCode.SUCCESS:
                    return answer
                refusal = refusal or PeerRefused(answer.code, answer.remark or "")
            if refusal is not None and refusal.code not in BUSY:
                raise refusal
            attempts.failed(CallFailed(f"no registry answers: {refusal or failure}"))

    # -- brokers -----------------------------------------------------------------------------------------------

    def addresses(self, broker: str) -> tuple[str, ...]:
        """Return C{host:port} of a broker's master and slaves, as the last route told."""
        return self._addresses.get(broker, ())

    def ask_all(self, requests: Mapping[Queue, Command], header: type[H]) -> dict[Queue, H | PeerRefused]:
        """
        Send a request for each queue to its broker; return the answers' headers, or what they were refused with.

        @raise CallFailed: a broker does not answer, nor does a slave of it.
        """
        by_broker: dict[str, list[Queue]] = defaultdict(list)
        for queue in requests:
            by_broker[queue.broker].append(queue)
        found: dict[Queue, H | PeerRefused] = {}
        for broker, queues in by_broker.items():
            answers = self.ask_broker(broker, [requests[queue] for queue in queues])
            for queue, answer in zip(queues, answers, strict=True):
                found[queue] = _header_of(answer, header, queue)
        return found

    def is_master(self, broker: str) -> bool:
        """Tell whether it was a broker's master that answered last."""
        return self._answered.get(broker) == self._masters.get(broker, "")

    def ask_broker(self, broker: str, requests: Sequence[Command], timeout: float | None = None) -> list[Command]:
        """
        Send requests to a broker's master, or to a slave if the master cannot be reached; return the answers in order.

        @param timeout: seconds, C{None} for those of the options.
        @raise CallFailed: none of them answers.
        """
        attempts = BoundedAttempts(self._clock, self.access.timeout if timeout is None else timeout)
        while True:
            failure = CallFailed(f"no address of broker {broker} is known")
            for address in self.addresses(broker):
                try:
                    answers = self._ask(address, requests, attempts)
                except CallFailed as error:
                    failure = CallFailed(f"broker {broker}: {error}")
                    continue
                busy = next((one for one in answers if one.code in BUSY), None)
                if busy is None:
                    self._answered[broker] = address
                    return answers
                failure = PeerRefused(busy.code, busy.remark or "")
            attempts.failed(failure)

    def _ask(self, address: str, requests: Sequence[Command], attempts: BoundedAttempts) -> list[Command]:
        """Send requests to an address, many before the first answer; return the answers in order. @raise CallFailed"""
        connection = self._connections.get(address)
        try:
            if connection is None:
                connection = self._dial(address, self.access, min(_CONNECT, attempts.left))
                self._connections[address] = connection
            return _exchange(connection, requests, attempts)
        except CallFailed:
            self._connections.pop(address, None)
            if connection is not None:
                connection.close()
            raise


def _exchange(connection: IConnection, requests: Sequence[Command], attempts: BoundedAttempts) -> list[Command]:
    answers: dict[int, Command] = {}
    numbers: list[int] = []
    for request in requests:
        if len(numbers) - len(answers) >= _UNDER_WAY:
            answer = connection.receive(attempts.left)
            answers[answer.opaque] = answer
        numbers.append(connection.send(request))
    while len(answers) < len(numbers):
        answer = connection.receive(attempts.left)
        answers[answer.opaque] = answer
    return [answers[number] for number in numbers]


def _header_of(answer: Command, header: type[H], queue: Queue) -> H | PeerRefused:
    if answer.code != ResponseCode.SUCCESS:
        return PeerRefused(answer.code, f"{queue}: {answer.remark or ''}")
    try:
        return answer.read(header)
    except BadHeader as error:
        raise CallFailed(f"{queue}: the broker's answer cannot be read: {error}") from None
