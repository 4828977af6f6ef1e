"""
The removal of a slave's queues whose topic the master deleted between two copies of its tables.

Messages come with the log, topics with the tables. A topic that was created and deleted between two copies was in no
table; one that was deleted and created anew is in all. So the master is asked which of our queues it does not have
(30006). A queue that the master does not have, although its log has the record of our last message there, was
deleted: nothing else takes a queue away while its records are in the log. A RocketMQ master does not know that request,
and our queues stay.

Rules: docs/spec/ha#tables.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Iterator
from typing import Final

from twisted.logger import Logger

from smartgo.broker.tables.topics import TopicTable
from smartgo.errors import PeerRefused
from smartgo.schema.bodies import DataVersion, MissingQueues, QueueNames
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.topics import LMQ_PREFIX, is_topic
from smartgo.store.openstore import OpenStore

_AT_ONCE: Final = 1000  # queues in one question, but for those of its last topic


class DeletedQueues:
    """
    Finds and removes queues that the master has deleted.

    After a change of the table of topics, and after a start of the master, which may have lost a change that it had not
    saved, it asks for all queues, until our log has come to where the master's ended at
    the first answer, and one time more; else for those of topics that are not in the table.
    """

    _log = Logger()

    def __init__(
        self,
        store: OpenStore,
        topics: TopicTable,
        ask: Callable[[str, Command], Awaitable[Command]],
        followed: Callable[[], bool],
    ) -> None:
        """
        @param ask: asks the master at an address; raises L{PeerRefused} where it refuses.
        @param followed: tells whether the master's log is being followed.
        """
        self._store = store
        self._topics = topics
        self._ask = ask
        self._followed = followed
        self._version: DataVersion | None = None  # of the table for which the next three hold
        self._started = ("", "")  # the master, and when it was started
        self._until = -1  # where the master's log ended at the first answer
        self._reached = False  # our log went that far when we asked
        self._settled = False  # and all queues were asked for after that

    def note_start(self, master: str, time: str) -> None:
        """Ask for all queues again where this is another master, or it was started at another time."""
        if self._started != (master, time):
            self._started = master, time
            self._version = None

    async def remove(self, master: str) -> None:
        """
        Remove the queues that the master has deleted.

        @param master: C{host:port} of the main port of the master whose topics were just copied.
        @raise CallFailed: it cannot be asked.
        @raise BadBody: its answer cannot be read.
        """
        if self._version != self._topics.version:
            self._version, self._until, self._reached, self._settled = self._topics.version, -1, False, False
        version, last_time, sure = self._version, self._reached, True
        if not self._settled and self._until >= 0:
            self._reached = self._store.log_bounds()[1] >= self._until
        for queues in self._questions(unknown_only=self._settled):
            places = {
                topic: {queue_id: self._store.last_at(topic, queue_id) for queue_id in ids}
                for topic, ids in queues.items()
            }
            try:
                body = QueueNames(queue_table=queues).encode()
                answer = await self._ask(master, Command.request(RequestCode.FIND_MISSING_QUEUES, body=body))
            except PeerRefused as error:
                self._log.debug("{master} does not tell which queues it deleted: {error}", master=master, error=error)
                return
            missing = MissingQueues.decode(answer.body)
            if not self._followed() or self._topics.version != version:
                return
            if self._until < 0:
                self._until = missing.log_end
            for topic, ids in missing.queue_table.items():
                ours = places.get(topic, {})
                deleted = {queue_id: ours[queue_id] for queue_id in ids if queue_id in ours}
                sure = await self._remove_of(topic, deleted, (missing.log_begin, missing.log_end)) and sure
        self._settled = self._settled or (last_time and sure)

    def _questions(self, unknown_only: bool) -> Iterator[dict[str, list[int]]]:
        """Yield the queues to ask for, by topic, some at a time."""
        topics = self._topics
        queues: dict[str, list[int]] = {}
        for topic, queue_id in self._store.queues():
            if not (unknown_only and topic in topics) and not _is_own(topics, topic):
                queues.setdefault(topic, []).append(queue_id)
        some: dict[str, list[int]] = {}
        count = 0
        for topic, ids in queues.items():
            some[topic] = ids
            count += len(ids)
            if count >= _AT_ONCE:
                yield some
                some, count = {}, 0
        if some:
            yield some

    async def _remove_of(self, topic: str, deleted: dict[int, int], log: tuple[int, int]) -> bool:
        """
        Remove queues of one topic.

        @param deleted: the queues that the master does not have, to the physical offsets of their last messages.
        @param log: the bounds of the master's log.
        @return: false where a queue that the master has may still hold messages of the deleted topic.
        """
        if not deleted or min(deleted.values()) < log[0]:
            return True  # its log no longer tells whether they were deleted
        if max(deleted.values()) >= log[1]:
            return False
        since = max(deleted.values()) + 1
        # What the master has began after the deletion. While it does not here, its first message has not come yet.
        if any(begin < since for begin in self._begins(topic, deleted)):
            return False
        self._log.info(
            "the master has deleted the queues {queues} of topic {topic}; they are removed here, too",
            topic=topic,
            queues=", ".join(map(str, sorted(deleted))),
        )
        await self._store.delete_topic(topic, since)
        return True

    def _begins(self, topic: str, but: Container[int]) -> Iterator[int]:
        """Yield where the first messages of the other queues of a topic lie; -1 where offset 0 is no longer there."""
        for name, queue_id in self._store.queues():
            if name == topic and queue_id not in but:
                first = [] if self._store.bounds(topic, queue_id)[0] else self._store.units(topic, queue_id, 0, 1)
                yield first[0].commitlog_offset if first else -1


def _is_own(topics: TopicTable, topic: str) -> bool:
    """Tell whether a topic belongs to the broker itself, or is in no table of topics."""
    return topics.is_system(topic) or topic.startswith(LMQ_PREFIX) or not is_topic(topic)
