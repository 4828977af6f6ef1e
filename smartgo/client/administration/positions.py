"""
Resets of the offsets of a group in a topic: planned first, then applied, and undone by the plan that was saved.

    >>> async def rewind(admin: Admin) -> None:
    ...     plan = await admin.positions.plan("audit", "Orders", ResetTarget("earliest"))
    ...     kept = plan.encode()
    ...     await admin.positions.apply(plan)
    ...     await admin.positions.apply(ResetPlan.decode(kept).undone())

A group without members is moved by writing its positions. Where members are connected, they would write over that with
their next report: the broker is asked to tell them (222). RocketMQ's own cannot do that for single queues and
offsets, only for a time; that is found out first, and nothing is moved then.

Only masters are asked to change offsets: what is written at a slave does not reach the master when it is back, unless
it is larger than what the master has. While a broker has no master, its queues can be neither planned nor reset.

Source: C{tools/admin/DefaultMQAdminExtImpl.java}, C{resetOffsetByTimestamp} and C{resetOffsetByQueueId}.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import msgspec
from twisted.internet.defer import Deferred, gatherResults

from smartgo.client.administration.asking import Asking, body_of, deferred, named
from smartgo.client.administration.groups import Groups
from smartgo.client.administration.queues import Queues
from smartgo.client.administration.resetplan import Applied, Move, ResetPlan, ResetTarget
from smartgo.client.internal.route import MASTER, READ
from smartgo.errors import CallFailed, NotConnected, PeerRefused, SettingError
from smartgo.schema.bodies import MessageQueue, ResetOffsetBody, TopicRouteData
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.headerfields import INT32_MAX
from smartgo.schema.headers.consumers import ResetOffsetRequest
from smartgo.schema.headers.groups import CloneGroupOffsetRequest
from smartgo.schema.headers.offsets import UpdateOffsetRequest
from smartgo.schema.headers.registry import RouteInfoRequest
from smartgo.schema.topics import check_group, check_topic, queue_ids

END: Final = -1
"""The time that stands for the end of each queue (222)."""

_BOUNDS: Final = {"earliest": 0, "latest": END}  # times that mean the same to every broker
_NOBODY: Final = "smartgo-no-group"

_Places = dict[tuple[str, int], Mapping[int, str]]


class Positions:
    """Queries and resets of group offsets. The methods fail as L{smartgo.client.admin.Admin} says."""

    def __init__(self, asking: Asking, groups: Groups) -> None:
        self._asking = asking
        self._queues = Queues(asking)
        self._groups = groups

    # -- plans -----------------------------------------------------------------------------------------------

    @deferred
    async def plan(
        self, group: str, topic: str, target: ResetTarget, queues: Collection[tuple[str, int]] | None = None
    ) -> ResetPlan:
        """
        Return the plan of a reset, and change nothing.

        @param queues: the broker names and ids of the queues to reset; by default all.
        @raise PeerRefused: through the Deferred: code 17, there is no such topic.
        @raise SettingError: through the Deferred: the topic has no such queue.
        @raise NotConnected: through the Deferred: a broker that has one of the queues has no master.
        """
        check_group(group)
        wanted = _masters(_chosen(await self._places(topic), queues, topic))
        moves = await gatherResults(
            [
                Deferred.fromCoroutine(self._move(address, broker, queue_id, group, topic, target))
                for (broker, queue_id), address in wanted.items()
            ],
            consumeErrors=True,
        )
        return await self._made(group, topic, target if queues is None else None, moves)

    @deferred
    async def plan_copy(self, source: str, group: str, topic: str) -> ResetPlan:
        """Return the plan that copies the offsets of another group in a topic, and change nothing."""
        wanted = {}
        for (broker, queue_id), addresses in (await self._places(topic)).items():
            stands = await self._queues.committed(_first(addresses), source, topic, queue_id)
            if stands is not None:
                wanted[broker, queue_id] = stands
        if not wanted:
            raise CallFailed(f"group {source} has no offset in topic {topic}")
        return await self.plan_to(group, topic, wanted)

    @deferred
    async def plan_to(self, group: str, topic: str, offsets: Mapping[tuple[str, int], int]) -> ResetPlan:
        """
        Return the plan that sets a given offset in each queue, and change nothing.

        @param offsets: by broker name and queue id.
        @raise SettingError: through the Deferred: the topic has no such queue.
        @raise NotConnected: through the Deferred: a broker that has one of the queues has no master.
        """
        check_group(group)
        places = _masters(_chosen(await self._places(topic), offsets, topic))
        moves = [
            await self._move(address, *queue, group, topic, ResetTarget("offset", offsets[queue]))
            for queue, address in places.items()
        ]
        return await self._made(group, topic, None, moves)

    @deferred
    async def from_here(self, plan: ResetPlan) -> ResetPlan:
        """Return the plan that leads from the group's offsets of now to those of an earlier plan."""
        places = await self._places(plan.topic)

        async def stood(one: Move) -> Move:
            addresses = places.get((one.broker, one.queue_id))
            if addresses is None:  # whoever applies the plan hears of it
                return one
            before = await self._queues.committed(_first(addresses), plan.group, plan.topic, one.queue_id)
            return msgspec.structs.replace(one, before=before)

        moves = await gatherResults([Deferred.fromCoroutine(stood(one)) for one in plan.moves], consumeErrors=True)
        return msgspec.structs.replace(plan, moves=tuple(moves))

    async def _made(self, group: str, topic: str, target: ResetTarget | None, moves: Collection[Move]) -> ResetPlan:
        connection = await self._groups.connections(group)
        known = connection is not None or any(one.before is not None for one in moves)
        return ResetPlan(
            group=group,
            topic=topic,
            target=target,
            made_ms=self._asking.client.env.clock.wall_ms(),
            members=len(connection.connection_set) if connection is not None else 0,
            moves=tuple(moves),
            new_group=not (known or await self._groups.config(group)),
        )

    async def _move(
        self, address: str, broker: str, queue_id: int, group: str, topic: str, target: ResetTarget
    ) -> Move:
        low, high = await self._queues.bounds(address, topic, queue_id)
        before = await self._queues.committed(address, group, topic, queue_id)
        if target.kind == "time":
            after = await self._queues.nearest(address, topic, queue_id, target.value, "LOWER")
        else:
            begin = low if before is None else before
            after = {
                "earliest": low,
                "latest": high,
                "offset": target.value,
                "shift": begin + target.value,
            }[target.kind]
        return Move(broker, queue_id, before, min(max(after, low), high), low, high)

    # -- moves -----------------------------------------------------------------------------------------------

    @deferred
    async def apply(self, plan: ResetPlan) -> Applied:
        """
        Reset the offsets as planned. Queues that have the planned offset already are not changed.

        @raise SettingError: through the Deferred: a queue is gone; nothing was changed.
        @raise NotConnected: through the Deferred: a broker has no master; nothing was changed.
        @raise CallFailed: through the Deferred: a broker failed; the message names it.
        """
        changed = [one for one in plan.moves if one.before != one.after]
        places = await self._places(plan.topic)
        for one in changed:
            if (one.broker, one.queue_id) not in places:
                raise SettingError(f"topic {plan.topic} has no queue {one.queue_id} at broker {one.broker} any more")
        masters = _masters({(one.broker, one.queue_id): places[one.broker, one.queue_id] for one in changed})
        online = {
            name
            for name, found in (await self._groups.connections_by_broker(plan.group)).items()
            if found.connection_set and (plan.topic in found.subscription_table or not found.subscription_table)
        }
        written: list[str] = []
        told: list[str] = []
        for broker in sorted({one.broker for one in changed}):
            moves = [one for one in changed if one.broker == broker]
            address = masters[broker, moves[0].queue_id]
            try:
                there = broker in online and await self._tell(address, broker, plan, moves)
                if not there:
                    await self._write(address, plan, moves)
                (told if there else written).append(broker)
            except PeerRefused as error:
                raise named(f"broker {broker}", error) from None
        return Applied(tuple(written), tuple(told))

    async def _write(self, address: str, plan: ResetPlan, moves: Collection[Move]) -> None:
        for one in moves:
            header = UpdateOffsetRequest(
                consumer_group=plan.group, topic=plan.topic, queue_id=one.queue_id, commit_offset=one.after
            )
            await self._asking.broker(address, RequestCode.UPDATE_CONSUMER_OFFSET, header)

    async def _tell(self, address: str, broker: str, plan: ResetPlan, moves: Collection[Move]) -> bool:
        """Make a broker inform the members; return whether there were any."""
        target = plan.target
        try:
            if target is not None and target.kind in _BOUNDS:
                await self._reset(address, plan, _BOUNDS[target.kind], force=True)
            elif await self._knows_queues(address, plan):
                for one in moves:
                    await self._reset(address, plan, END, force=True, queue_id=one.queue_id, offset=one.after)
            elif target is not None and target.kind == "time":
                await self._reset(address, plan, target.value, force=True)
            else:
                raise CallFailed(
                    f"broker {broker} cannot reset single queues of a group that has members; stop them first, "
                    "or reset the group to a time"
                )
        except PeerRefused as refusal:
            if refusal.code == ResponseCode.CONSUMER_NOT_ONLINE:
                return False  # the last one has just left
            raise
        return True

    async def _knows_queues(self, address: str, plan: ResetPlan) -> bool:
        """
        Tell whether a broker can move single queues of a group that has members.

        It is asked for a queue that no topic has, of a group that is not there. One that knows the field refuses the
        queue, another the group: nothing moves, and no member hears of it.
        """
        try:
            await self._reset(address, plan, END, force=False, group=_NOBODY, queue_id=INT32_MAX, offset=0)
        except PeerRefused as refusal:
            return refusal.code == ResponseCode.SYSTEM_ERROR and "queueId" in refusal.remark
        return False

    async def _reset(
        self,
        address: str,
        plan: ResetPlan,
        timestamp: int,
        force: bool,
        group: str | None = None,
        queue_id: int | None = None,
        offset: int | None = None,
    ) -> dict[MessageQueue, int]:
        header = ResetOffsetRequest(
            topic=plan.topic,
            group=group or plan.group,
            timestamp=timestamp,
            is_force=force,
            queue_id=queue_id,
            offset=offset,
        )
        answer = await self._asking.broker(address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
        return body_of(ResetOffsetBody, answer).offset_table

    @deferred
    async def clone(self, source: str, group: str, topic: str | None = None, offline: bool = True) -> list[str]:
        """
        Copy the offsets of another group at all brokers; return their names.

        L{plan_copy} does the same for one topic, and can be undone.

        @param topic: only in this topic; by default in all topics where the other group has offsets.
        @param offline: also in topics that the other group no longer subscribes to.
        @raise CallFailed: through the Deferred: a broker has no master, and nothing was changed; or a broker failed.
        """
        check_group(group)
        masters = await self._asking.masters((await self._asking.cluster()).broker_addr_table)
        header = CloneGroupOffsetRequest(src_group=source, dest_group=group, topic=topic, offline=offline)
        await self._asking.order(masters, RequestCode.CLONE_GROUP_OFFSET, header)
        return list(masters)

    # -- single questions ------------------------------------------------------------------------------------

    async def _places(self, topic: str) -> _Places:
        """Return who has which queue: (broker name, queue id), the broker's addresses by id."""
        check_topic(topic)
        answer = await self._asking.registry(RequestCode.GET_ROUTEINFO_BY_TOPIC, RouteInfoRequest(topic=topic))
        route = body_of(TopicRouteData, answer)
        addresses = {one.broker_name: one.broker_addrs for one in route.broker_datas}
        found: _Places = {}
        for one in sorted(route.queue_datas, key=lambda one: one.broker_name):
            ids = addresses.get(one.broker_name)
            if ids and one.perm & READ:
                for queue_id in queue_ids(one.read_queue_nums):
                    found[one.broker_name, queue_id] = ids
        return found


def _first(addresses: Mapping[int, str]) -> str:
    """Return the address of a broker's master, or where there is none that of its first slave."""
    return addresses[min(addresses)]


def _masters(places: _Places) -> dict[tuple[str, int], str]:
    """Return the addresses of the masters. @raise NotConnected: a broker has none."""
    for broker, queue_id in places:
        if MASTER not in places[broker, queue_id]:
            raise NotConnected(
                f"broker {broker} has no master now, and a slave does not keep offsets that are reset: start the "
                "master, or choose queues of other brokers (nothing was changed)"
            )
    return {queue: addresses[MASTER] for queue, addresses in places.items()}


def _chosen(places: _Places, queues: Collection[tuple[str, int]] | None, topic: str) -> _Places:
    if queues is None:
        return places
    for queue in queues:
        if queue not in places:
            raise SettingError(f"topic {topic} has no queue {queue[1]} to read at broker {queue[0]}")
    return {queue: places[queue] for queue in sorted(set(queues))}
