"""
The queues that are assigned to a consumer; rebalanced whenever members or routes change.

Source: C{client/impl/consumer/RebalanceImpl.java}, C{RebalancePushImpl.java}.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

import msgspec
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from smartgo.client.internal.locks import QueueLocks
from smartgo.client.internal.membership import Membership
from smartgo.client.internal.outages import SilentBrokers
from smartgo.client.internal.processqueue import ProcessQueue
from smartgo.client.internal.pulling import Pulling
from smartgo.client.internal.rebalance import sorted_ids
from smartgo.client.internal.route import TopicRoute
from smartgo.errors import BadBody, CallFailed, PeerRefused
from smartgo.schema.bodies import ConsumeFromWhere, ConsumerList, MessageQueue, SubscriptionData
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headers.consumers import ConsumerListRequest
from smartgo.schema.topics import RETRY_PREFIX

HALF_AN_HOUR_MS: Final = 30 * 60 * 1000
RESTART: Final = 10.0  # seconds that listener calls get to end before a queue is read from another place

_FROM_FIRST: Final = frozenset({ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, ConsumeFromWhere.CONSUME_FROM_MIN_OFFSET})


class MakesPulling(Protocol):
    """A function that creates the pulls of a new queue."""

    def __call__(self, held: ProcessQueue, wants: SubscriptionData) -> Pulling:
        """Create the pulls, without starting them."""


class Assignment:
    """
    The assignment of queues to one consumer.

    @ivar queues: what is ours, with its pulls.
    @ivar chosen: by topic, the queues that the application chose itself; C{None} to share them with other members.
    """

    _log = Logger()

    def __init__(
        self,
        member: Membership,
        wants: Mapping[str, SubscriptionData],
        locks: QueueLocks,
        pulling: MakesPulling,
    ) -> None:
        """
        @param wants: by topic; what the consumer subscribes to, the retry topic included.
        @param locks: the group's locks on queues, at the brokers.
        """
        self.queues: dict[MessageQueue, Pulling] = {}
        self.chosen: Mapping[str, Iterable[MessageQueue]] | None = None
        self._client = client = member.client
        self._clock = client.env.clock
        self._group = member.group
        self._settings = settings = member.settings
        self._wants = wants
        self._calls = member.calls
        self._offsets = member.offsets
        self._locks = locks
        self._pulling = pulling
        self._thresholds = settings.thresholds
        if settings.orderly:  # what is held stands in order: its span is its count, but for what was filtered out
            self._thresholds = msgspec.structs.replace(settings.thresholds, span=None)
        self._begin_ms = settings.begin_ms
        if self._begin_ms is None:
            self._begin_ms = client.env.clock.wall_ms() - HALF_AN_HOUR_MS
        self._round: Deferred[None] | None = None
        self._again = False
        self._stopped = False
        self._silent = SilentBrokers(self._clock)  # in this round

    # -- sharing out -----------------------------------------------------------------------------------------

    def rebalance(self) -> Deferred[None]:
        """
        Compute the queues of this member anew; fires when that is done, and never fails. Calls during a round are
        served together by one more round after it.
        """
        if self._stopped:
            return succeed(None)
        self._again = True
        if self._round is None:
            work = Deferred.fromCoroutine(self._rebalance())
            work.addErrback(self._broke)
            if not work.called:
                self._round = work
        return self._after_round()

    def _after_round(self) -> Deferred[None]:
        """Fire when the rebalance in progress has ended."""
        waiter: Deferred[None] = Deferred()
        if self._round is None:
            waiter.callback(None)
        else:
            self._round.addBoth(lambda _: waiter.callback(None))
        return waiter

    def _broke(self, failure: Failure) -> None:
        self._log.failure("the queues of group {group} could not be assigned", failure, group=self._group)

    async def _rebalance(self) -> None:
        try:
            while self._again and not self._stopped:
                self._again = self._client.env.buggify("client.rebalance-again")
                self._silent = SilentBrokers(self._clock)
                for topic in list(self._wants):
                    try:
                        await self._share(topic)
                    except (CallFailed, BadBody) as error:
                        self._log.warn(
                            "the queues of {topic} cannot be assigned now: {error}", topic=topic, error=error
                        )
        finally:
            self._round = None

    async def _share(self, topic: str) -> None:
        if self._stopped:
            return
        route = self._client.routes.known(topic)
        if route is None:
            try:
                route = await self._client.routes.find(topic)
            except PeerRefused as refusal:
                if refusal.code == ResponseCode.TOPIC_NOT_EXIST:
                    await self._settle(topic, ())
                    return
                raise
        if self.chosen is not None:
            await self._settle(topic, self.chosen.get(topic, ()))
            return
        if not self._settings.shares:
            await self._settle(topic, route.subscribe)
            return
        members = await self._members(route)
        if members is not None:
            try:  # the strategy may be the application's, or call functions of it
                mine = self._settings.strategy.allocate(self._group, self._client.id, route.subscribe, members)
            except Exception:
                self._log.failure("the strategy of group {group} failed for {topic}", group=self._group, topic=topic)
            else:
                await self._settle(topic, mine)

    async def _members(self, route: TopicRoute) -> list[str] | None:
        """Return the group's members as a broker of the topic knows them, sorted; C{None} if no broker answers."""
        names = sorted(route.brokers)
        first = self._client.env.random.below(len(names)) if names else 0
        failure: CallFailed | None = None
        for name in [*names[first:], *names[:first]]:
            found = self._client.routes.nearest_address(name)
            if found is None or name in self._silent:
                continue
            begun = self._clock.seconds()
            header = ConsumerListRequest(consumer_group=self._group)
            command = Command.request(RequestCode.GET_CONSUMER_LIST_BY_GROUP, header)
            try:
                members = sorted_ids(
                    ConsumerList.decode((await self._client.ask(found[0], command)).body).consumer_id_list
                )
            except PeerRefused:
                members = []
            except CallFailed as error:
                failure = error
                self._silent.failed(name, begun)
                continue
            if self._client.id not in members:
                self._client.heartbeat()  # it answers by telling the group, which comes back here
            return members or None
        if failure is not None:
            raise failure
        return None

    async def _settle(self, topic: str, mine: Iterable[MessageQueue]) -> None:
        """Release the queues of a topic that are no longer assigned, and start those that are."""
        wanted = list(dict.fromkeys(mine))
        for queue in [one for one in self.queues if one.topic == topic and one not in wanted]:
            await self._give_up(queue)
        await self._take([one for one in wanted if one not in self.queues])
        ours = [pulling.held for queue, pulling in self.queues.items() if queue.topic == topic]
        for held in ours:
            held.limit(self._thresholds.of_queue(len(ours)))

    async def _take(self, fresh: list[MessageQueue]) -> None:
        """Start queues that are assigned anew; those that cannot be read now are tried again in the next round."""
        if not fresh:
            return
        if self._settings.locks:
            granted, _ = await self._locks.lock(fresh)
            fresh = [one for one in fresh if one in granted]
        for queue in fresh:
            if self._stopped:
                return
            if queue.broker_name in self._silent:
                continue
            begun = self._clock.seconds()
            try:
                offset = await self._first_offset(queue)
            except CallFailed as error:
                if isinstance(error, PeerRefused):
                    self._log.warn("{queue} cannot be consumed yet: {error}", queue=queue, error=error)
                else:
                    self._client.outages.failed(queue.broker_name, error)
                    self._silent.failed(queue.broker_name, begun)
                continue
            if self._stopped or queue in self.queues:
                continue
            held = ProcessQueue(queue, offset, self._thresholds, self._clock.seconds())
            if self._settings.locks:
                held.lock(granted=True, now=self._clock.seconds())
            self.queues[queue] = self._pulling(held, self._wants[queue.topic])
            self.queues[queue].start()

    async def _first_offset(self, queue: MessageQueue) -> int:
        known = await self._offsets.read(queue)
        if known is not None and known >= 0:
            return known
        retries = queue.topic.startswith(RETRY_PREFIX)
        begin = self._settings.begin
        if begin in _FROM_FIRST:
            return await self._calls.min_offset(queue)
        if begin == ConsumeFromWhere.CONSUME_FROM_TIMESTAMP and not retries:
            return await self._calls.offset_at(queue, self._begin_ms or 0)
        if retries and begin != ConsumeFromWhere.CONSUME_FROM_TIMESTAMP:
            return 0
        return await self._calls.max_offset(queue)

    # -- giving up -------------------------------------------------------------------------------------------

    async def _give_up(self, queue: MessageQueue) -> None:
        """Release a queue to another member, which continues at the committed offset."""
        pulling = self.queues.pop(queue)
        held = pulling.held
        self._offsets.update(queue, held.commit_offset)
        held.drop()
        pulling.stop()
        await self._offsets.persist([queue])
        self._offsets.forget(queue)
        if self._settings.locks and held.locked:
            held.idle().addCallback(lambda _: Deferred.fromCoroutine(self._locks.unlock([queue])))

    def move(self, queue: MessageQueue, offset: int) -> None:
        """Go on at another offset of an assigned queue at once: the fetched messages are dropped."""
        pulling = self.queues[queue]
        pulling.held.drop()
        pulling.stop()
        shared = self._thresholds.of_queue(sum(one.topic == queue.topic for one in self.queues))
        held = ProcessQueue(queue, offset, shared, self._clock.seconds())
        self.queues[queue] = self._pulling(held, self._wants[queue.topic])
        self.queues[queue].start()

    async def restart(self, offsets: Mapping[MessageQueue, int]) -> None:
        """
        Continue at other offsets: drop the fetched messages, wait for listener calls, commit the offsets, pull on.

        @param offsets: by queue; those that are not ours do not matter.
        """
        ours = [queue for queue in offsets if queue in self.queues]
        for queue in ours:
            self.queues[queue].held.drop()
            self.queues[queue].stop()
        for queue in ours:
            pulling = self.queues.get(queue)
            if pulling is not None:
                await self._until_idle(pulling.held, RESTART)
        for queue in ours:
            if self.queues.pop(queue, None) is not None:
                self._offsets.update(queue, offsets[queue])
        await self._offsets.persist(ours)
        for queue in ours:
            if queue not in self.queues:
                self._offsets.forget(queue)
        await self.rebalance()

    async def _until_idle(self, held: ProcessQueue, seconds: float) -> None:
        """Wait for the listener calls of a queue to end, for a limited time."""
        await held.idle().addTimeout(seconds, self._clock, onTimeoutCancel=lambda result, _: None)

    # -- time ------------------------------------------------------------------------------------------------

    def persist(self) -> Deferred[None]:
        """Commit the offsets of the assigned queues; fires when that is done, and never fails."""
        for queue, pulling in self.queues.items():
            if not pulling.held.dropped:
                self._offsets.update(queue, pulling.held.commit_offset)
        return self._offsets.persist([] if self._client.env.buggify("client.late-commit") else list(self.queues))

    async def renew_locks(self) -> None:
        """Renew the locks of the assigned queues; stop pulling a queue that another member has locked meanwhile."""
        queues = [queue for queue, pulling in self.queues.items() if not pulling.held.dropped]
        granted, unknown = await self._locks.lock(queues)
        for queue in queues:
            pulling = self.queues.get(queue)
            if pulling is not None and queue not in unknown:
                holds = queue in granted and not self._client.env.buggify("client.lost-lock")
                pulling.held.lock(holds, self._clock.seconds())

    async def stop(self, seconds: float) -> None:
        """
        Release all queues for good.

        @param seconds: that listener calls get to end.
        """
        self._stopped = True
        for pulling in self.queues.values():
            pulling.stop()
        await self._after_round()
        end = self._clock.seconds() + seconds
        for pulling in list(self.queues.values()):  # a restart under way may take some out
            await self._until_idle(pulling.held, max(0.0, end - self._clock.seconds()))
        await self.persist()
        for pulling in self.queues.values():
            pulling.held.drop()
        if self._settings.locks:
            await self._locks.unlock(list(self.queues))
        self.queues.clear()
