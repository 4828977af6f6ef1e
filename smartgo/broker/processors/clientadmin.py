"""
Requests of administrators that connected consumers have a part in: 222 (220 to the members), 223 (221), 307.

Rules: docs/spec/broker#calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from twisted.internet.defer import Deferred, DeferredList
from twisted.logger import Logger
from zope.interface import implementer

from smartgo.broker.interfaces import IBroker
from smartgo.broker.processors.requestcodes import answered_by
from smartgo.broker.tables.consumers import ConsumerTable
from smartgo.broker.tables.producers import ClientMember
from smartgo.errors import BadBody, CallFailed, CallTimedOut, ConsumerNotOnline, RequestRefused
from smartgo.remoting.interfaces import Answer, IPeer, IRequestProcessor
from smartgo.remoting.processor import Processor
from smartgo.schema.bodies import ConsumerStatusBody, MessageQueue, ResetOffsetBody, TopicConfig
from smartgo.schema.codes import LanguageCode, RequestCode, ResponseCode, Version
from smartgo.schema.command import Command
from smartgo.schema.headers.consumers import ConsumerStatusRequest, ResetOffsetRequest, RunningInfoRequest
from smartgo.schema.topics import queue_ids

RELAY_TIMEOUT: Final = 10.0
"""Seconds that a consumer gets to answer what is relayed to it."""
STATUS_TIMEOUT: Final = 5.0
"""Seconds that each member of a group gets to say where it stands."""

_TO_THE_END: Final = -1  # as a time


@implementer(IRequestProcessor)
class ClientAdmin(Processor):
    """Reset the offsets of groups, and ask their members."""

    codes = answered_by("clientadmin")

    _log = Logger()

    def __init__(self, broker: IBroker) -> None:
        self._slave = broker.is_slave
        self._topics = broker.topics
        self._offsets = broker.offsets
        self._consumers = broker.consumers
        self._store = broker.store
        self._progress = broker.group_progress
        self._handlers: dict[int, Callable[[IPeer, Command], Deferred[Answer]]] = {
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: self._reset,
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: self._status,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self._running_info,
        }

    def process(self, peer: IPeer, request: Command) -> Deferred[Answer]:
        """
        Answer when the store or the clients have.

        @raise RequestRefused: as docs/spec/broker says.
        """
        return self._handlers[request.code](peer, request)

    # -- moving a group ------------------------------------------------------------------------------------

    def _reset(self, peer: IPeer, request: Command) -> Deferred[Answer]:
        if self._slave:
            raise RequestRefused("can't modify consumer offsets on a slave, ask the master")
        header = request.read(ResetOffsetRequest)
        config = self._topics.get(header.topic)
        if config is None:
            raise RequestRefused(
                f"[reset-offset] reset offset failed, no topic in this broker. topic={header.topic[:127]}"
            )
        return Deferred.fromCoroutine(self._reset_members(peer, request, header, config))

    async def _reset_members(
        self, peer: IPeer, request: Command, header: ResetOffsetRequest, config: TopicConfig
    ) -> Answer:
        table = await self._targets(header, config)
        group = self._consumers.get(header.group)
        if group is None:
            raise ConsumerNotOnline(
                "Consumer not online, so can not reset offset, "
                f"Group: {header.group} Topic: {header.topic} Timestamp: {header.timestamp}"
            )
        members = list(group.members.values())
        for member in members:
            _check_version(member, Version.V3_0_7_SNAPSHOT)
        body = ResetOffsetBody(offset_table=table).encode(as_list=request.language == LanguageCode.CPP)
        told = ResetOffsetRequest(
            topic=header.topic, group=header.group, timestamp=header.timestamp, is_force=header.is_force
        )
        for member in members:
            member.peer.tell(Command.request(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, told, body, one_way=True))
        self._log.info(
            "{peer} reset the offsets of group {group} in {topic}: {offsets}",
            peer=peer.address,
            group=header.group,
            topic=header.topic,
            offsets={queue.queue_id: offset for queue, offset in table.items()},
        )
        return request.answer(body=body)

    async def _targets(self, header: ResetOffsetRequest, config: TopicConfig) -> dict[MessageQueue, int]:
        """Return the new offset of each queue: never past the group's own, unless the request forces it."""
        wanted = queue_ids(config.write_queue_nums)
        if header.queue_id is not None and header.queue_id >= 0:
            if header.queue_id >= config.write_queue_nums:
                raise RequestRefused(f"queueId[{header.queue_id}] is illegal, topic: {header.topic}")
            wanted = range(header.queue_id, header.queue_id + 1)
        table = {}
        for queue_id in wanted:
            stands = self._offsets.query(header.group, header.topic, queue_id)
            if stands is None:
                raise RequestRefused(f"THe consumer group <{header.group}> not exist")
            target = await self._target(header, queue_id)
            table[self._progress.queue(header.topic, queue_id)] = target if header.is_force else min(target, stands)
        return table

    async def _target(self, header: ResetOffsetRequest, queue_id: int) -> int:
        minimum, maximum = self._store.bounds(header.topic, queue_id)
        if header.offset is not None and header.offset >= 0 and header.queue_id == queue_id:
            if not minimum <= header.offset <= maximum:
                raise RequestRefused(f"Target offset {header.offset} not in consume queue range [{minimum}-{maximum}]")
            return header.offset
        if header.timestamp == _TO_THE_END:
            return maximum
        return max(0, await self._store.offset_at(header.topic, queue_id, header.timestamp))

    # -- asking its members --------------------------------------------------------------------------------

    def _status(self, peer: IPeer, request: Command) -> Deferred[Answer]:
        header = request.read(ConsumerStatusRequest)
        group = self._consumers.get(header.group)
        if group is None:
            raise RequestRefused(f"No Any Consumer online in the consumer group: [{header.group}]")
        wanted = header.client_addr if header.client_addr and header.client_addr.strip() else None
        members = [one for one in group.members.values() if wanted in (None, one.client_id)]
        for member in members:
            _check_version(member, Version.V3_0_7_SNAPSHOT)
        return Deferred.fromCoroutine(self._ask_members(request, header, members))

    async def _ask_members(
        self, request: Command, header: ConsumerStatusRequest, members: list[ClientMember]
    ) -> Answer:
        asked = [
            member.peer.ask(
                Command.request(
                    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
                    ConsumerStatusRequest(topic=header.topic, group=header.group),
                ),
                STATUS_TIMEOUT,
            )
            for member in members
        ]
        body = ConsumerStatusBody()
        answers = await DeferredList(asked, consumeErrors=True)
        for member, (answered, answer) in zip(members, answers, strict=True):
            try:
                if answered and answer.code == ResponseCode.SUCCESS:
                    body.consumer_table[member.client_id] = ConsumerStatusBody.decode(answer.body).message_queue_table
                    continue
            except BadBody:
                pass
            self._log.warn(
                "consumer {client} of group {group} does not report its offsets",
                client=member.client_id,
                group=header.group,
            )
        return request.answer(body=body.encode())

    def _running_info(self, peer: IPeer, request: Command) -> Deferred[Answer]:
        header = request.read(RunningInfoRequest)
        return relay(self._consumers, request, header.consumer_group, header.client_id, request.fields, request.body)


def relay(
    consumers: ConsumerTable, request: Command, group: str, client_id: str, fields: Mapping[str, str], body: bytes
) -> Deferred[Answer]:
    """
    Ask one member of a group what an administrator asks, and pass on its code, remark and body.

    @param fields: ext fields of the member's request, which has the code of C{request}.
    @raise RequestRefused: it is not connected, or too old.
    """
    members = consumers.get(group)
    peer = None if members is None else members.peer_of(client_id)
    if members is None or peer is None:
        raise RequestRefused(f"The Consumer <{group}> <{client_id}> not online")
    if members.members[peer].version < Version.V3_1_8_SNAPSHOT:
        raise RequestRefused(
            f"The Consumer <{client_id}> Version <{members.members[peer].version}> too low to finish, "
            "please upgrade it to V3_1_8_SNAPSHOT"
        )
    asked = peer.ask(Command.request(request.code, fields=dict(fields), body=body), RELAY_TIMEOUT)
    return Deferred.fromCoroutine(_hand_on(request, asked, group, client_id))


async def _hand_on(request: Command, asked: Deferred[Command], group: str, client_id: str) -> Answer:
    try:
        answer = await asked
    except CallTimedOut as error:
        return request.answer(ResponseCode.CONSUME_MSG_TIMEOUT, f"consumer <{group}> <{client_id}> Timeout: {error}")
    except CallFailed as error:
        raise RequestRefused(f"invoke consumer <{group}> <{client_id}> Exception: {error}") from None
    return request.answer(answer.code, answer.remark, body=answer.body)


def _check_version(member: ClientMember, oldest: Version) -> None:
    if member.version < oldest:
        raise RequestRefused(f"the client does not support this feature. version={member.version}")
