"""
Questions and orders to registries and brokers: topics, the cluster, single messages.

Source: C{client/impl/MQAdminImpl.java}, C{tools/admin/DefaultMQAdminExtImpl.java}.
"""

from __future__ import annotations

from typing import Final, TypeVar

from twisted.internet.defer import Deferred

from smartgo.client.instance import Client
from smartgo.client.messages import ReceivedMessage, received
from smartgo.client.route import MASTER, READ, WRITE
from smartgo.errors import BadBody, BadCompression, BadRecord, BodyTooLong, CallFailed
from smartgo.schema.bodies import Body, ClusterInfo, TopicList, TopicRouteData
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.messages import ViewMessageRequest
from smartgo.schema.headers.registry import RouteInfoRequest
from smartgo.schema.headers.topics import CreateTopicRequest
from smartgo.schema.message import parse_message_id, unpack_host
from smartgo.schema.record import decode
from smartgo.schema.topics import TEMPLATE_TOPIC, check_topic

TIMEOUT: Final = 5.0  # seconds
DEFAULT_QUEUES: Final = 8

B = TypeVar("B", bound=Body)


class Admin:
    """
    Asks on behalf of a person or a tool. All methods fail with L{PeerRefused<smartgo.errors.PeerRefused>}
    where they are declined, and with L{CallFailed} where nobody answers.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    def topics(self) -> Deferred[list[str]]:
        """Return the names of all topics that brokers have registered, sorted; the system's own too."""
        return Deferred.fromCoroutine(self._topics())

    async def _topics(self) -> list[str]:
        answer = await self._client.routes.ask_registry(Command.request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER))
        return sorted(_body(TopicList, answer).topic_list)

    def cluster(self) -> Deferred[ClusterInfo]:
        """Return all brokers: by name, and which names form which cluster."""
        return Deferred.fromCoroutine(self._cluster())

    async def _cluster(self) -> ClusterInfo:
        answer = await self._client.routes.ask_registry(Command.request(RequestCode.GET_BROKER_CLUSTER_INFO))
        return _body(ClusterInfo, answer)

    def route(self, topic: str) -> Deferred[TopicRouteData]:
        """Return where a topic's queues are, as the registry says; declined with 17 where there is no such topic."""
        return Deferred.fromCoroutine(self._route(topic))

    async def _route(self, topic: str) -> TopicRouteData:
        command = Command.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, RouteInfoRequest(topic=topic))
        return _body(TopicRouteData, await self._client.routes.ask_registry(command))

    def create_topic(
        self, topic: str, queues: int = DEFAULT_QUEUES, perm: int = READ | WRITE, broker: str | None = None
    ) -> Deferred[list[str]]:
        """
        Create a topic, or give it these settings; return the names of the brokers that did.

        @param queues: queues to read and write at each broker.
        @param perm: 4 read, 2 write, 6 both.
        @param broker: at this broker; C{None} for all.
        @raise BadName: through the Deferred: the topic's name breaks the rules.
        """
        return Deferred.fromCoroutine(self._create_topic(topic, queues, perm, broker))

    async def _create_topic(self, topic: str, queues: int, perm: int, broker: str | None) -> list[str]:
        check_topic(topic)
        brokers = (await self._cluster()).broker_addr_table
        header = CreateTopicRequest(
            topic=topic,
            default_topic=TEMPLATE_TOPIC,
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=perm,
            topic_filter_type="SINGLE_TAG",
            order=False,
            topic_sys_flag=0,
        )
        done = []
        for name, data in sorted(brokers.items()):
            address = data.broker_addrs.get(MASTER)
            if address is None or broker not in (None, name):
                continue
            await self._client.ask(address, Command.request(RequestCode.UPDATE_AND_CREATE_TOPIC, header), TIMEOUT)
            done.append(name)
        if not done:
            raise CallFailed(f"there is no broker {broker} with a master" if broker else "there is no broker")
        return done

    def message(self, offset_id: str) -> Deferred[ReceivedMessage]:
        """
        Return a message by its offset id (L{smartgo.client.messages.SendResult.offset_id}); the id names the broker.

        @raise BadHeader: through the Deferred: that is no message id.
        """
        return Deferred.fromCoroutine(self._message(offset_id))

    async def _message(self, offset_id: str) -> ReceivedMessage:
        host, offset = parse_message_id(offset_id)
        address, port = unpack_host(host)
        place = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        command = Command.request(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequest(offset=offset))
        answer = await self._client.ask(place, command, TIMEOUT)
        try:
            return received(decode(answer.body), "")
        except (BadRecord, BadCompression, BodyTooLong) as error:
            raise CallFailed(f"message {offset_id} cannot be read: {error}") from None


def _body(kind: type[B], answer: Command) -> B:
    try:
        return kind.decode(answer.body)
    except BadBody as error:
        raise CallFailed(f"an answer cannot be read: {error}") from None
