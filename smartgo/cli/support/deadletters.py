"""Marks of dead letters for commands: counts of open ones, and the text of a mark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from smartgo.cli.support.output import moment
from smartgo.cli.support.session import ClusterSession
from smartgo.client.internal.copystates import CopyStates
from smartgo.client.internal.deadletterjournal import DeadLetterJournal, JournalWriter, LetterMark
from smartgo.client.internal.reading import QueueQueries, Span
from smartgo.client.internal.redeliveries import UNKNOWN, Fate, fate_text
from smartgo.client.messages import ReceivedMessage
from smartgo.client.producer import Producer
from smartgo.errors import CallFailed, NotConnected, PeerRefused
from smartgo.schema.bodies import MessageQueue
from smartgo.schema.codes import ResponseCode
from smartgo.schema.topics import DLQ_PREFIX


class DeadLetterCount(msgspec.Struct, frozen=True):
    """
    The dead letters of one group.

    @ivar open: how many of C{messages} were neither sent again nor acknowledged.
    @ivar last_ms: when the last one was stored.
    @ivar in_retry: how many messages were sent again and have still to be consumed: the group did not get the copy
        yet, or refused it and will get it again.
    """

    group: str
    messages: int
    open: int
    last_ms: int
    in_retry: int = 0


class DeadLetterMarks:
    """The journal of dead letters, as a command reads it."""

    def __init__(self, session: ClusterSession) -> None:
        self._session = session
        self._reader = QueueQueries(session.client, self._address, session.admin.asking)
        self._journal = DeadLetterJournal()

    async def _address(self, broker: str) -> str:
        """Return the address of a broker to read from, a slave's if it has no master now."""
        found = (await self._session.admin.asking.readable()).get(broker)
        if found is None:
            raise NotConnected(f"broker {broker} is not registered now")
        return found

    async def count(self, topic: str) -> DeadLetterCount:
        """Count the dead letters of a topic. @raise CallFailed: a broker does not answer."""
        table = (await self._session.admin.topics.stats(topic)).offset_table
        spans = [Span(queue, one.min_offset, one.max_offset) for queue, one in table.items()]
        group = topic.removeprefix(DLQ_PREFIX)
        await self.refresh(spans)
        return DeadLetterCount(
            group,
            sum(span.end - span.begin for span in spans),
            sum(self.count_open(group, span) for span in spans),
            max((one.last_update_timestamp for one in table.values()), default=0),
            await self._states().in_retry(group, self._journal, spans),
        )

    async def refresh(self, spans: Sequence[Span]) -> None:
        """Read what was done about the dead letters of some queues. @raise CallFailed: a broker does not answer."""
        await self._journal.refresh(self._reader, {span.queue.broker_name for span in spans if span.end > span.begin})

    def count_open(self, group: str, span: Span) -> int:
        """Return how many dead letters of a range are open."""
        return self._journal.count_open(group, span)

    def mark(self, group: str, letter: ReceivedMessage) -> LetterMark:
        """Return what was done about a dead letter."""
        return self._journal.mark(group, letter.queue, letter.queue_offset)

    async def closed_text(self, group: str, spans: Sequence[Span]) -> str:
        """Return for people by whom and when the dead letters of ranges were seen to; empty if none was."""
        marks = [mark for span in spans for mark in self._journal.closed(group, span)]
        acknowledged = [mark.acknowledged for mark in marks if mark.acknowledged is not None]
        resent = [mark.resent for mark in marks if mark.acknowledged is None and mark.resent is not None]
        parts = []
        if resent:
            last = max(resent, key=lambda one: one.at_ms)
            waiting = await self._states().in_retry(group, self._journal, spans)
            retry = f", {waiting:,} in retry: the group has still to consume them" if waiting else ""
            parts.append(f"{len(resent):,} resent, last {moment(last.at_ms)} by {last.who}{retry}")
        if acknowledged:
            latest = max(acknowledged, key=lambda one: one.at_ms)
            parts.append(f"{len(acknowledged):,} acknowledged, last {moment(latest.at_ms)} by {latest.who}")
        return "; ".join(parts)

    async def states(self, group: str, letters: Sequence[ReceivedMessage]) -> dict[str, Fate]:
        """Return what became of the copies of dead letters that were sent again, by the ids of the dead letters."""
        resent = {one.offset_id: mark.resent for one in letters if (mark := self.mark(group, one)).resent is not None}
        marks = {id_: mark for id_, mark in resent.items() if mark is not None}
        return await self._states().of(group, _queues(letters), marks)

    def _states(self) -> CopyStates:
        return CopyStates(self._session.admin.asking, self._reader)

    def writer(self, producer: Producer) -> JournalWriter:
        """Return what notes in the journal what is done."""
        return JournalWriter(producer, self._session.admin.topics)

    @property
    def who(self) -> str:
        """The user who runs the command, for the journal."""
        variable = self._session.env.host.variable
        return variable("USER") or variable("LOGNAME") or "command line"


async def count_all(session: ClusterSession) -> list[DeadLetterCount]:
    """
    Count the dead letters of all groups; a topic that is just gone is left out, and one of which no broker tells.

    @raise CallFailed: no broker tells of any that there are.
    """
    marks = DeadLetterMarks(session)
    found = []
    failure: CallFailed | None = None
    for name in await session.admin.topics.names():
        if name.startswith(DLQ_PREFIX):
            try:
                found.append(await marks.count(name))
            except CallFailed as error:
                if not (isinstance(error, PeerRefused) and error.code == ResponseCode.TOPIC_NOT_EXIST):
                    failure = error
    if failure is not None and not found:
        raise failure
    return found


def mark_text(mark: LetterMark, fate: Fate | None, limit: int | None = None) -> str:
    """
    Return what was done about a dead letter, for people.

    @param fate: what became of its copy.
    @param limit: the most retries of the group; C{None} if unknown.
    """
    if mark.is_open:
        return "open again" if mark.resent is not None else "open"
    if mark.acknowledged is not None:
        comment = f": {mark.acknowledged.comment}" if mark.acknowledged.comment else ""
        return f"acknowledged {moment(mark.acknowledged.at_ms)} by {mark.acknowledged.who}{comment}"
    if mark.resent is None:
        return "open"
    return f"resent {moment(mark.resent.at_ms)} by {mark.resent.who}: {fate_text(fate or UNKNOWN, limit)}"


def mark_members(mark: LetterMark, fate: Fate | None, limit: int | None = None) -> dict[str, Any]:
    """Return what was done about a dead letter, as plain values; parameters as L{mark_text}."""
    resent = mark.resent
    fate = fate or UNKNOWN
    refused = fate.state == "refused"
    return {
        "open": mark.is_open,
        "resent": None
        if resent is None
        else {
            "at_ms": resent.at_ms,
            "who": resent.who,
            "times": resent.times,
            "topic": resent.copy.topic,
            "offset_id": resent.copy.offset_id,
            "state": fate.state,
            "retry": fate.retry if refused else None,
            "retry_limit": limit if refused else None,
        },
        "acknowledged": None
        if mark.acknowledged is None
        else {"at_ms": mark.acknowledged.at_ms, "who": mark.acknowledged.who, "comment": mark.acknowledged.comment},
    }


def _queues(letters: Sequence[ReceivedMessage]) -> list[MessageQueue]:
    return list(dict.fromkeys(one.queue for one in letters))
