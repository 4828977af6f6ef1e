"""Clients: who is connected, as a producer or as a consumer."""

from __future__ import annotations

import msgspec

from smartgo.client.administration.asking import Asking, deferred
from smartgo.client.administration.groups import Groups
from smartgo.schema.bodies import ConnectedClient, ProducerConnection, ProducerTableInfo
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.headers.consumers import ProducerConnectionRequest


class GroupMember(msgspec.Struct, frozen=True, kw_only=True):
    """
    One client in one group.

    @ivar role: C{producer} or C{consumer}.
    @ivar address: C{ip:port} of a consumer as its broker sees it, the IP of a producer.
    @ivar language: the name of its language; C{version} the number of its protocol.
    @ivar brokers: names of the brokers where it is connected.
    @ivar last_beat_ms: a producer's last heartbeat, wall clock; C{None} if the brokers do not report it.
    """

    client_id: str
    role: str
    group: str
    address: str
    language: str
    version: int
    brokers: tuple[str, ...]
    last_beat_ms: int | None = None


class Clients:
    """Queries of connected clients. The methods fail as L{smartgo.client.admin.Admin} says."""

    def __init__(self, asking: Asking, groups: Groups) -> None:
        self._asking = asking
        self._groups = groups

    @deferred
    async def producers(self) -> list[GroupMember]:
        """Return all connected producers of brokers that report them (4.9.2 and later)."""
        answers = await self._asking.bodies(
            ProducerTableInfo, await self._asking.readable(), RequestCode.GET_ALL_PRODUCER_INFO, unable={}
        )
        found: dict[tuple[str, str], GroupMember] = {}
        for broker, answer in answers.items():
            for group, members in answer.data.items():
                for one in members:
                    member = GroupMember(
                        client_id=one.client_id,
                        role="producer",
                        group=group,
                        address=one.remote_ip,
                        language=one.language,
                        version=one.version,
                        brokers=(broker,),
                        last_beat_ms=one.last_update_timestamp,
                    )
                    found[group, one.client_id] = _also(found.get((group, one.client_id)), member)
        return [found[key] for key in sorted(found)]

    @deferred
    async def producers_of(self, group: str) -> list[ConnectedClient]:
        """Return the connected producers of one group."""
        answers = await self._asking.bodies(
            ProducerConnection,
            await self._asking.readable(),
            RequestCode.GET_PRODUCER_CONNECTION_LIST,
            ProducerConnectionRequest(producer_group=group),
            none=(ResponseCode.SYSTEM_ERROR,),
        )
        found = {one.client_id: one for answer in answers.values() for one in answer.connection_set}
        return [found[name] for name in sorted(found)]

    @deferred
    async def consumers(self, group: str | None = None) -> list[GroupMember]:
        """
        Return all connected consumers.

        @param group: only of this group; by default of every group.
        """
        names = [group] if group is not None else await self._groups.names()
        found = []
        for name in names:
            found += await self._consumers_of(name)
        return found

    async def _consumers_of(self, group: str) -> list[GroupMember]:
        found: dict[str, GroupMember] = {}
        for broker, connection in (await self._groups.connections_by_broker(group)).items():
            for one in connection.connection_set:
                member = GroupMember(
                    client_id=one.client_id,
                    role="consumer",
                    group=group,
                    address=one.client_addr,
                    language=one.language,
                    version=one.version,
                    brokers=(broker,),
                )
                found[one.client_id] = _also(found.get(one.client_id), member)
        return [found[name] for name in sorted(found)]

    @deferred
    async def all(self) -> list[GroupMember]:
        """Return all clients: the producers, then the consumers."""
        return [*await self.producers(), *await self.consumers()]


def _also(known: GroupMember | None, member: GroupMember) -> GroupMember:
    """Return what is known of a client, with what one more broker tells of it."""
    if known is None:
        return member
    beats = [one for one in (known.last_beat_ms, member.last_beat_ms) if one is not None]
    return msgspec.structs.replace(
        member, brokers=known.brokers + member.brokers, last_beat_ms=max(beats) if beats else None
    )
