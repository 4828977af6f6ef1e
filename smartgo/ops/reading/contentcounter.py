"""
Count what each broker has of each topic, so that it can be said what is out of reach once the broker is missing.

Only brokers whose log has grown or shrunk since the last count are counted: an idle cluster is not asked. A broker of
which no message was counted yet is counted sooner: it may be gone before the next regular count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from smartgo.client.administration.topics import TopicKind
from smartgo.env.interfaces import IClock
from smartgo.errors import CallFailed
from smartgo.ops.membership.members import TopicContent
from smartgo.ops.membership.memory import MemberMemory
from smartgo.ops.reading.view import ClusterView, PartialView, TopicEntry, each
from smartgo.ops.web.partial import Missing

PAUSE: Final = 10.0
"""Seconds between two counts at least."""
REST: Final = 50
"""Times as long as a count took, nothing is counted."""
SOON: Final = 1.0
"""Seconds between two counts at least, where a broker has stored messages and none of them was counted yet."""
SOON_REST: Final = 10
"""Times as long as a count took, nothing is counted then."""
YOUNG: Final = 300.0
"""Seconds for which a broker of which no message was counted yet is looked at more often."""
AT_A_TIME: Final = 200
"""Topics of one count; of more, the others are counted next."""

_AT_ONCE: Final = 4


class ContentCounter:
    """Counts the messages of topics by broker, for the memory of members."""

    _log = Logger()

    def __init__(self, clock: IClock, view: ClusterView, membership: MemberMemory) -> None:
        self._clock = clock
        self._view = view
        self._membership = membership
        self._due = 0.0
        self._soon_due = 0.0
        self._uncounted: dict[str, float] = {}  # since when brokers answer of which no message was counted
        self._counting: Deferred[None] | None = None
        self._stopped = False
        self._sizes: dict[str, float] = {}  # of the logs of masters, when they were counted
        self._pending: dict[str, None] = {}  # topics that are still to be counted, in their order
        self._messages: dict[str, dict[str, int]] = {}  # by topic, then by broker

    def stop(self) -> None:
        """Stop counting."""
        self._stopped = True
        if self._counting is not None:
            self._counting.cancel()

    def look(self, sizes: Mapping[str, float]) -> None:
        """
        Begin a count, where one is due.

        @param sizes: bytes of the log of each broker that answers, by its name.
        """
        now = self._clock.seconds()
        self._uncounted = {name: self._uncounted.get(name, now) for name in sizes if not self._has_counted(name)}
        if self._stopped or self._counting is not None or now < self._soon_due:
            return
        changed = {name for name, size in sizes.items() if self._sizes.get(name) != size}
        if changed & self._uncounted.keys() or (now >= self._due and (self._pending or changed)):
            self._counting = Deferred.fromCoroutine(self._count(dict(sizes)))
            self._counting.addErrback(self._failed).addCallback(self._counted, now)

    @property
    def waits(self) -> bool:
        """Tell whether there is a broker, not long known, of which no message was counted yet."""
        now = self._clock.seconds()
        return any(now - since < YOUNG for since in self._uncounted.values())

    def _has_counted(self, name: str) -> bool:
        content = self._membership.table.content(name)
        return content is not None and content.messages > 0

    def _failed(self, failure: Any) -> None:
        if not self._stopped and not failure.check(CallFailed):
            self._log.failure("counting what brokers have failed", failure)

    def _counted(self, _: object, began: float) -> None:
        self._counting = None
        now = self._clock.seconds()
        self._due = now + max(PAUSE, REST * (now - began))
        self._soon_due = now + max(SOON, SOON_REST * (now - began))

    async def _count(self, sizes: dict[str, float]) -> None:
        self._view.topics.forget()  # the list that others were told may be older than the growth of the log
        topics = await self._view.topics.get()
        entries = {name: one for name, one in topics.items() if one.kind != TopicKind.SYSTEM}
        if any(self._sizes.get(name) != size for name, size in sizes.items()):
            self._pending.update(dict.fromkeys(entries))
        self._sizes = sizes
        asked = [entries[name] for name in self._pending if name in entries][:AT_A_TIME]
        view = self._view.partial(Missing(), None)
        counts = await each(asked, lambda one: messages_by_broker(view, one), _AT_ONCE)
        done = {one.name for one in asked}
        self._pending = {name: None for name in self._pending if name in entries and name not in done}
        self._messages = {name: self._messages.get(name, {}) for name in entries}
        for one, found in zip(asked, counts, strict=True):
            self._messages[one.name] = {**self._messages[one.name], **found}
        self._note(entries.values(), {broker for one in topics.values() for broker in one.configs})

    def _note(self, entries: Iterable[TopicEntry], answered: Iterable[str]) -> None:
        """
        Note what brokers have.

        @param answered: those that told their topics, each its own at least; one may have no others any more.
        """
        brokers: dict[str, dict[str, TopicContent]] = {name: {} for name in answered}
        normal: dict[str, list[str]] = {}
        for one in entries:
            for broker, config in one.configs.items():
                messages = self._messages[one.name].get(broker)
                if messages is None:
                    messages = self._known(broker, one.name)
                brokers.setdefault(broker, {})[one.name] = TopicContent(config.read_queue_nums, messages)
                if one.kind == TopicKind.NORMAL:
                    normal.setdefault(broker, []).append(one.name)
        for broker, topics in brokers.items():
            self._membership.counted(broker, topics, normal.get(broker, []))

    def _known(self, broker: str, topic: str) -> int:
        """Return what was counted before the restart; 0 where it never was."""
        content = self._membership.table.content(broker)
        known = None if content is None else content.topics.get(topic)
        return (known.messages if known is not None else None) or 0


async def messages_by_broker(view: PartialView, topic: TopicEntry) -> dict[str, int]:
    """Return how many messages a topic has, by broker; nothing of brokers that do not tell."""
    try:
        table = (await view.admin.topics.stats(topic.name)).offset_table
    except CallFailed:
        return {}
    counts: dict[str, int] = {}
    for queue, one in table.items():
        counts[queue.broker_name] = counts.get(queue.broker_name, 0) + one.max_offset - one.min_offset
    return counts
