"""
A slave's copy of its master's tables: topics (21), consumer offsets (43), delivery positions (45), groups (201).

Rules: docs/spec/ha#tables, reliability H5. The master's main port is asked 3 s after the start and every 10 s,
sooner for a topic that the log has and the table lacks. Three rules are stricter than RocketMQ's:

 - Tables come only from a master whose log is followed just now, and goes as far as ours (28). One that came back with
   an empty disk would otherwise empty the tables of the only broker that still has them.
 - Offsets that groups committed here while the master was away are given to it before its own older ones count.
 - Delivery positions count when our log has come as far as the master's was then. What it had delivered may not have
   come yet: should we become the master before, nobody would deliver that again.

Queues of topics that were deleted between two copies are found by asking for queues
(L{smartgo.broker.cluster.deletedqueues}).

After the tables, damaged regions of our log are put right with the master's bytes
(L{smartgo.broker.cluster.damagefetcher}).

What is answered byte by byte as the last time is not even read, unless our own table has changed meanwhile.

While no master can be asked, a topic of which the log brought messages is readable with default settings: it was
created after the last copy, and its messages may be nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from twisted.application.service import Service
from twisted.internet.defer import Deferred, DeferredList, succeed
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from smartgo.broker.cluster.damagefetcher import DamageFetcher
from smartgo.broker.cluster.deletedqueues import DeletedQueues
from smartgo.broker.cluster.registrar import Ask
from smartgo.broker.tables.adoption import adopt
from smartgo.broker.tables.groups import GroupTable
from smartgo.broker.tables.offsets import OffsetTable, Owed
from smartgo.broker.tables.topics import TopicTable
from smartgo.env.interfaces import IClock
from smartgo.errors import BadBody, CallFailed, PeerRefused
from smartgo.schema.bodies import (
    ConsumerOffsetTable,
    DelayOffsetTable,
    KVTable,
    SubscriptionGroupWrapper,
    TopicConfigSerializeWrapper,
)
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headers.offsets import UpdateOffsetRequest
from smartgo.store.interfaces import IArrivalListener
from smartgo.store.openstore import OpenStore

FIRST: Final = 3.0
"""Seconds from the start to the first copy."""
PERIOD: Final = 10.0
"""Seconds between two copies."""
AGAIN: Final = 1.0
"""Seconds to the next look while no master is followed."""
SOON: Final = 0.5
"""Seconds from the first message of an unknown topic to the next copy."""
TIMEOUT: Final = 6.0
"""Seconds that the master gets for an answer."""

_TOPICS: Final = RequestCode.GET_ALL_TOPIC_CONFIG
_GROUPS: Final = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
_OFFSETS: Final = RequestCode.GET_ALL_CONSUMER_OFFSET
_MISSING_LIMIT: Final = 20_000  # topics that the master does not tell of
_AT_ONCE: Final = 32  # offsets given to the master side by side
_FOR_GOOD: Final = (ResponseCode.SYSTEM_ERROR, ResponseCode.TOPIC_NOT_EXIST)  # it will never take this offset


@dataclass(frozen=True, slots=True)
class CopiedTables:
    """
    The tables of a slave that are copies of its master's.

    @ivar delays: how far each delay level was delivered; changed in place, after which C{delays_changed} is called.
    """

    topics: TopicTable
    groups: GroupTable
    offsets: OffsetTable
    delays: MutableMapping[int, int]
    delays_changed: Callable[[], None]


@implementer(IArrivalListener)
class TableReplicator(Service):
    """
    Keep a slave's tables equal to its master's.

    @ivar master: C{host:port} of the master's main port; C{None} while unknown. Set by whoever learns it.
    @ivar copied_ms: when the tables were last found to be, or made, equal to the master's; -1 for never.
    @ivar reason: why they could not be copied the last time; empty where they could.
    """

    _log = Logger()

    def __init__(
        self,
        clock: IClock,
        ask: Ask,
        store: OpenStore,
        tables: CopiedTables,
        followed: Callable[[], bool],
        damage: DamageFetcher,
    ) -> None:
        """
        @param followed: tells whether the master's log is being followed.
        @param damage: puts damaged regions of our log right.
        """
        self._clock = clock
        self._ask_at = ask
        self._store = store
        self._topics = tables.topics
        self._groups = tables.groups
        self._offsets = tables.offsets
        self._delays = tables.delays
        self._followed = followed
        self._damage = damage
        self._deleted = DeletedQueues(store, tables.topics, self._ask, followed)
        self._delays_changed = tables.delays_changed
        self._timer: IDelayedCall | None = None
        self._running: Deferred[None] = succeed(None)
        self._missing: set[str] = set()
        self._delivered: tuple[dict[int, int], int] | None = None  # positions, and how far the master's log was then
        self._read: dict[RequestCode, tuple[bytes, object]] = {}  # the last answer, and what our table was then
        self._whole = False  # the log has no topics that the table lacks, as far as we can tell
        self.master: str | None = None
        self.copied_ms = -1
        self.reason = "not asked yet"

    def startService(self) -> None:
        """Begin to copy the tables, each L{PERIOD} seconds."""
        super().startService()
        self._timer = self._clock.callLater(FIRST, self._begin_copy)

    def stopService(self) -> Deferred[None]:
        """Copy nothing more; fires when the copy that is under way, if any, is over."""
        super().stopService()
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
        waiting: Deferred[None] = Deferred()
        self._running.addBoth(waiting.callback)
        return waiting

    def arrived(self, topic: str, queue_id: int, next_offset: int, tag_codes: Sequence[int], stored_ms: int) -> None:
        """Copy soon where the log has messages of a topic that is new; once for each topic."""
        if topic in self._topics or topic in self._missing or len(self._missing) >= _MISSING_LIMIT:
            return
        self._missing.add(topic)
        self._whole = False
        self.soon()

    def soon(self) -> None:
        """Copy within L{SOON} seconds: something has changed."""
        if self._timer is not None and self._timer.getTime() > self._clock.seconds() + SOON:
            self._timer.reset(SOON)

    # -- one copy after another --------------------------------------------------------------------------------

    def _begin_copy(self) -> None:
        self._timer = None
        self._running = Deferred.fromCoroutine(self._copy_all()).addBoth(self._copied)

    async def _copy_all(self) -> bool:
        master = self.master
        if master is None or not self._followed():
            self._delivered = None  # the next one may have another log
            self._note("no master is followed")
            return False
        try:
            end = self._store.log_bounds()[1]
            if await self._end_of(master) < end:  # we have all from it
                self._note(f"{master} has less of the log than we have")
                return False
            for step in (
                self._copy_topics,
                self._deleted.remove,
                self._copy_groups,
                self._copy_delays,
                self._copy_offsets,
                self._damage.repair,
            ):
                await step(master)
                if not self._followed():  # what it answered did not count
                    self._note("no master is followed")
                    return False
        except (CallFailed, BadBody) as error:
            self._note(f"{master}: {error}")
            return False
        self.copied_ms = self._clock.wall_ms()
        self._note("")
        return True

    def _copied(self, result: bool | Failure) -> None:
        if isinstance(result, Failure):
            self._log.failure("the master's tables could not be copied", result)
        copied = result is True
        if copied:
            self._whole = False  # from now on the master may make topics that we hear of by their messages alone
        elif not self._whole:
            self._whole = True
            adopt(self._topics, self._store.queues(), self._store.last_at)
        if self.running:
            self._timer = self._clock.callLater(PERIOD if copied else AGAIN, self._begin_copy)

    def _note(self, reason: str) -> None:
        """Remember why there is no copy; log it where that is new."""
        if reason != self.reason:
            if reason:
                self._log.warn("the master's tables are not copied: {reason}", reason=reason)
            else:
                self._log.info("the tables now equal those of the master {master}", master=self.master)
        self.reason = reason

    async def _ask(self, master: str, request: Command) -> Command:
        """@raise CallFailed: the master cannot be asked, or refuses."""
        answer = await self._ask_at(master, request, TIMEOUT)
        if answer.code != ResponseCode.SUCCESS:
            raise PeerRefused(answer.code, answer.remark or "")
        return answer

    async def _end_of(self, master: str) -> int:
        """Ask the master where its log ends; -1 where it does not say. Note when it was started, too."""
        answer = await self._ask(master, Command.request(RequestCode.GET_BROKER_RUNTIME_INFO))
        table = KVTable.decode(answer.body).table
        self._deleted.note_start(master, table.get("bootTimestamp", ""))
        told = table.get("commitLogMaxOffset", "")
        return int(told) if told.isdecimal() else -1

    # -- tables ------------------------------------------------------------------------------------------------

    async def _copy_topics(self, master: str) -> None:
        end = self._store.log_bounds()[1]
        body = (await self._ask(master, Command.request(_TOPICS))).body
        if self._read.get(_TOPICS) == (body, self._topics.version):
            return
        theirs = TopicConfigSerializeWrapper.decode(body)
        if not self._followed():
            return
        self._read[_TOPICS] = body, theirs.data_version
        if theirs.data_version == self._topics.version:
            return
        gone = [name for name in self._topics.names() if name not in theirs.topic_config_table]
        self._topics.replace_all(theirs.data_version, theirs.topic_config_table)
        self._missing.difference_update(theirs.topic_config_table)
        for topic in gone:
            await self._drop(topic, end)

    async def _drop(self, topic: str, end: int) -> None:
        """
        Drop the queues of a topic that the master has deleted: one of that name would begin at offset 0 again.

        A queue that began before the master was asked was there before its answer, so it is of the deleted topic. One
        that began later may be of such a one already: its messages may not be readable yet, and must not go.

        @param end: the log's end before the master was asked.
        """
        if not self._topics.is_system(topic):
            self._log.info("the master has deleted topic {topic}; its queues are removed here, too", topic=topic)
            await self._store.delete_topic(topic, end)

    async def _copy_groups(self, master: str) -> None:
        body = (await self._ask(master, Command.request(_GROUPS))).body
        if self._read.get(_GROUPS) == (body, self._groups.version):
            return
        theirs = SubscriptionGroupWrapper.decode(body)
        if self._followed():
            self._read[_GROUPS] = body, theirs.data_version
            if theirs.data_version != self._groups.version:
                self._groups.replace_all(theirs.data_version, theirs.subscription_group_table)

    async def _copy_delays(self, master: str) -> None:
        if self._delivered is None:
            answer = await self._ask(master, Command.request(RequestCode.GET_ALL_DELAY_OFFSET))
            theirs = DelayOffsetTable.decode(answer.body).offset_table if answer.body else {}
            if theirs == self._delays:
                return
            self._delivered = theirs, await self._end_of(master)
        theirs, end = self._delivered
        if self._store.log_bounds()[1] >= end and self._followed():
            self._delivered = None
            self._delays.clear()
            self._delays.update(theirs)
            self._delays_changed()

    async def _copy_offsets(self, master: str) -> None:
        body = (await self._ask(master, Command.request(_OFFSETS))).body
        if self._read.get(_OFFSETS) == (body, self._offsets.changes):
            return
        theirs = ConsumerOffsetTable.decode(body)
        owed = self._offsets.owed()
        for begin in range(0, len(owed), _AT_ONCE):
            some = owed[begin : begin + _AT_ONCE]
            giving: list[Deferred[Any]] = [Deferred.fromCoroutine(self._give(master, one, theirs)) for one in some]
            for given, failure in await DeferredList(giving, consumeErrors=True):
                if not given:
                    failure.raiseException()
        if self._followed():
            self._offsets.merge(theirs)
            if not self._offsets.owed():
                self._read[_OFFSETS] = body, self._offsets.changes

    async def _give(self, master: str, owed: Owed, theirs: ConsumerOffsetTable) -> None:
        """Send the master an offset, unless its own is larger, and note it in C{theirs}."""
        queues = theirs.offset_table.setdefault(f"{owed.topic}@{owed.group}", {})
        if owed.offset > queues.get(owed.queue_id, -1):
            header = UpdateOffsetRequest(
                consumer_group=owed.group, topic=owed.topic, queue_id=owed.queue_id, commit_offset=owed.offset
            )
            try:
                await self._ask(master, Command.request(RequestCode.UPDATE_CONSUMER_OFFSET, header))
            except PeerRefused as error:
                if error.code not in _FOR_GOOD:
                    raise
                self._log.warn(
                    "the master refuses the offset {offset} of group {group} in {topic} queue {queue}: {error}",
                    offset=owed.offset,
                    group=owed.group,
                    topic=owed.topic,
                    queue=owed.queue_id,
                    error=error,
                )
            else:
                queues[owed.queue_id] = owed.offset
        self._offsets.settle(owed)
