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
from smartgo.client.internal.lettercopies import LetterCopy, older_copies
from smartgo.client.internal.reading import Span
from smartgo.client.messages import ReceivedMessage
from smartgo.errors import PeerRefused
from smartgo.schema.codes import ResponseCode
from smartgo.schema.topics import dlq_topic


class LetterFilter(msgspec.Struct, frozen=True):
    """
    The conditions for dead letters to be selected.

    @ivar ids: only messages with one of these ids; C{key}: only messages with this key.
    @ivar only_open: only those that were neither resent nor acknowledged.
    @ivar only: only those with these offset ids; C{None}: any.
    """

    ids: frozenset[str]
    key: str | None
    only_open: bool
    only: frozenset[str] | None = None


class DeadLetterSelection(msgspec.Struct, frozen=True):
    """
    The dead letters of a group that a command works on.

    @ivar spans: the offsets to read, by queue.
    @ivar wanted: which of those.
    """

    group: str
    marks: DeadLetterMarks
    reader: TopicReader
    spans: list[Span]
    wanted: LetterFilter

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
        return cls(group, marks, reader, spans, LetterFilter(frozenset(ids), key, only_open))

    @property
    def total(self) -> int:
        """The number of messages to read, selected or not."""
        return sum(span.end - span.begin for span in self.spans)

    async def messages(self, progress: ProgressLine | None = None) -> AsyncGenerator[ReceivedMessage, None]:
        """Yield the selected messages."""
        wanted = self.wanted
        async with aclosing(self.reader.messages(self.spans, progress=progress)) as messages:
            async for message in messages:
                if wanted.ids and not wanted.ids & {message.message_id, message.offset_id}:
                    continue
                if wanted.only is not None and message.offset_id not in wanted.only:
                    continue
                if wanted.only_open and not self.marks.mark(self.group, message).is_open:
                    continue
                if wanted.key is None or wanted.key in message.keys:
                    yield message

    async def without_copies(self, session: ClusterSession) -> tuple[DeadLetterSelection, dict[str, str]]:
        """
        Return the selection with one dead letter of each message, the latest, and what was left out: the offset id of
        the one that stays in, by theirs.

        @raise CommandError: one of the ids does not exist.
        """
        found: list[LetterCopy] = []
        async with aclosing(self._counting(session)) as messages:
            async for one in messages:
                found.append(LetterCopy.of(one.offset_id, one.stored_ms, one.properties))
        left_out = older_copies(found)
        only = frozenset(one.offset_id for one in found) - left_out.keys()
        return self.narrowed(only), left_out

    def narrowed(self, only: frozenset[str], only_open: bool = False) -> DeadLetterSelection:
        """Return the selection of dead letters with some offset ids, of those selected; perhaps only open ones."""
        wanted = msgspec.structs.replace(self.wanted, only=only, only_open=only_open or self.wanted.only_open)
        return msgspec.structs.replace(self, wanted=wanted)

    async def count(self, session: ClusterSession) -> int:
        """Return the number of selected messages. @raise CommandError: one of the ids does not exist."""
        if self.wanted.only is not None:
            return len(self.wanted.only)
        if not self.wanted.ids and self.wanted.key is None:
            return (
                sum(self.marks.count_open(self.group, span) for span in self.spans)
                if self.wanted.only_open
                else self.total
            )
        count = 0
        async with aclosing(self._counting(session)) as messages:
            async for _ in messages:
                count += 1
        return count

    async def _counting(self, session: ClusterSession) -> AsyncGenerator[ReceivedMessage, None]:
        """Yield the selected messages, with a line of progress. @raise CommandError: one of the ids does not exist."""
        missing = set(self.wanted.ids)
        with ProgressLine(session.env.clock, "dead letters", self.total) as progress:
            async with aclosing(self.messages(progress)) as messages:
                async for message in messages:
                    missing -= {message.message_id, message.offset_id}
                    yield message
        if missing:
            raise CommandError(f"there is no dead letter with id {', '.join(sorted(missing))}", MISSING)
