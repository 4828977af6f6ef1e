"""The dead letters that a command works on."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from smartgo.cli.support.deadletters import DeadLetterMarks
from smartgo.cli.support.progress import ProgressLine
from smartgo.cli.support.reading import QueuePosition, TopicReader
from smartgo.cli.support.running import MISSING, CommandError
from smartgo.cli.support.session import ClusterSession
from smartgo.client.internal.reading import Span
from smartgo.client.messages import ReceivedMessage
from smartgo.errors import PeerRefused
from smartgo.schema.codes import ResponseCode
from smartgo.schema.topics import dlq_topic


class DeadLetterSelection(msgspec.Struct, frozen=True):
    """
    The dead letters of a group that a command works on.

    @ivar spans: the offsets to read, by queue.
    @ivar ids: only messages with one of these ids; C{key}: only messages with this key.
    @ivar only_open: only those that were neither resent nor acknowledged.
    """

    group: str
    marks: DeadLetterMarks
    reader: TopicReader
    spans: list[Span]
    ids: frozenset[str]
    key: str | None
    only_open: bool = False

    @classmethod
    async def of(
        cls,
        session: ClusterSession,
        group: str,
        begin: QueuePosition,
        end: QueuePosition | None,
        ids: tuple[str, ...] = (),
        key: str | None = None,
        only_open: bool = False,
    ) -> DeadLetterSelection:
        """Return the selection. @raise CommandError: the group has no dead letters."""
        reader = TopicReader(session, dlq_topic(group))
        try:
            spans = await reader.spans(begin, end)
        except PeerRefused as refusal:
            if refusal.code == ResponseCode.TOPIC_NOT_EXIST:
                raise CommandError(f"group {group} has no dead letters", MISSING) from None
            raise
        marks = DeadLetterMarks(session)
        await marks.refresh(spans)
        return cls(group, marks, reader, spans, frozenset(ids), key, only_open)

    @property
    def total(self) -> int:
        """The number of messages to read, selected or not."""
        return sum(span.end - span.begin for span in self.spans)

    async def messages(self, progress: ProgressLine | None = None) -> AsyncGenerator[ReceivedMessage, None]:
        """Yield the selected messages."""
        async with aclosing(self.reader.messages(self.spans, progress=progress)) as messages:
            async for message in messages:
                if self.ids and not self.ids & {message.message_id, message.offset_id}:
                    continue
                if self.only_open and not self.marks.mark(self.group, message).is_open:
                    continue
                if self.key is None or self.key in message.keys:
                    yield message

    async def count(self, session: ClusterSession) -> int:
        """Return the number of selected messages. @raise CommandError: one of the ids does not exist."""
        if not self.ids and self.key is None:
            return sum(self.marks.count_open(self.group, span) for span in self.spans) if self.only_open else self.total
        count = 0
        missing = set(self.ids)
        with ProgressLine(session.env.clock, "dead letters", self.total) as progress:
            async with aclosing(self.messages(progress)) as messages:
                async for message in messages:
                    count += 1
                    missing -= {message.message_id, message.offset_id}
        if missing:
            raise CommandError(f"there is no dead letter with id {', '.join(sorted(missing))}", MISSING)
        return count
