"""C{smartgo dlq}: dead letters."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, Final

import click
import msgspec
from twisted.internet.defer import Deferred, DeferredList

from smartgo.cli.commands.msg import FROM, GROUP, UNTIL, take_out
from smartgo.cli.commands.sendconsume import as_members, sent_to
from smartgo.cli.support.load import producer_of
from smartgo.cli.support.output import OUTPUT, TEXT, moment, print_rows, print_value
from smartgo.cli.support.progress import ProgressLine
from smartgo.cli.support.reading import QueuePosition, TopicReader
from smartgo.cli.support.running import MISSING, CommandError
from smartgo.cli.support.session import DRY_RUN, YES, ClusterOptions, ClusterSession, cluster_options, confirm
from smartgo.cli.support.texts import examples
from smartgo.client.internal.copies import copy_for, copy_to
from smartgo.client.internal.reading import Span
from smartgo.client.messages import Message, ReceivedMessage
from smartgo.errors import PeerRefused
from smartgo.schema.codes import ResponseCode
from smartgo.schema.topics import DLQ_PREFIX, dlq_topic

_SHOWN: Final = 60  # characters of a body in a table
_AT_A_TIME: Final = 64  # sends that wait for their answers


class DeadLetterRow(msgspec.Struct, frozen=True):
    """The dead letters of one group; C{last_ms} is when the last one was put aside."""

    group: str
    messages: int
    last_ms: int


@click.group(
    epilog=examples(
        "smartgo dlq ls",
        "smartgo dlq show audit",
        "smartgo dlq resend audit --all --dry-run",
        "smartgo dlq resend audit --id 7F0000010000277E0000000000000190",
    )
)
def dlq() -> None:
    """See what groups have failed for good, and give it to them again."""


@dlq.command("ls", epilog=examples("smartgo dlq ls", "smartgo dlq ls -o json"))
@OUTPUT
@cluster_options
def ls(cluster: ClusterOptions, output: str) -> None:
    """List the groups that have dead letters."""

    async def work(session: ClusterSession) -> None:
        topics = session.admin.topics
        rows = []
        for name in await topics.names():
            if name.startswith(DLQ_PREFIX):
                found = (await topics.stats(name)).offset_table.values()
                rows.append(
                    DeadLetterRow(
                        name.removeprefix(DLQ_PREFIX),
                        sum(one.max_offset - one.min_offset for one in found),
                        max((one.last_update_timestamp for one in found), default=0),
                    )
                )
        print_rows(
            output,
            rows,
            {
                "group": lambda row: row.group,
                "dead letters": lambda row: row.messages,
                "last": lambda row: moment(row.last_ms),
            },
            "There are no dead letters.",
        )

    cluster.do(work)


class DeadLetterSelection(msgspec.Struct, frozen=True):
    """
    Some dead letters of a group.

    @ivar spans: where they lie.
    @ivar ids: only those with one of these ids; C{key}: with this key.
    """

    reader: TopicReader
    spans: list[Span]
    ids: frozenset[str]
    key: str | None

    @classmethod
    async def of(
        cls,
        session: ClusterSession,
        group: str,
        begin: QueuePosition,
        end: QueuePosition | None,
        ids: tuple[str, ...] = (),
        key: str | None = None,
    ) -> DeadLetterSelection:
        """Find out where they lie. @raise Refusal: the group has none."""
        reader = TopicReader(session, dlq_topic(group))
        try:
            spans = await reader.spans(begin, end)
        except PeerRefused as refusal:
            if refusal.code == ResponseCode.TOPIC_NOT_EXIST:
                raise CommandError(f"group {group} has no dead letters", MISSING) from None
            raise
        return cls(reader, spans, frozenset(ids), key)

    @property
    def total(self) -> int:
        """How many lie there, whichever are meant."""
        return sum(span.end - span.begin for span in self.spans)

    async def messages(self, progress: ProgressLine | None = None) -> AsyncGenerator[ReceivedMessage, None]:
        """Go through those that are meant."""
        async with aclosing(self.reader.messages(self.spans, progress=progress)) as messages:
            async for message in messages:
                if self.ids and not self.ids & {message.message_id, message.offset_id}:
                    continue
                if self.key is None or self.key in message.keys:
                    yield message

    async def count(self, session: ClusterSession) -> int:
        """Return how many are meant. @raise Refusal: one of the ids is not there."""
        if not self.ids and self.key is None:
            return self.total
        count = 0
        missing = set(self.ids)
        with ProgressLine(session.env.clock, "dead letters", self.total) as progress:
            async with aclosing(self.messages(progress)) as messages:
                async for message in messages:
                    count += 1
                    missing -= {message.message_id, message.offset_id}
        if missing:
            raise CommandError(f"there is no dead letter {', '.join(sorted(missing))}", MISSING)
        return count


@dlq.command("show", epilog=examples("smartgo dlq show audit", "smartgo dlq show audit --from -20 -o jsonl"))
@click.argument("group")
@FROM
@UNTIL
@click.option("-n", "--count", type=click.IntRange(1), default=100, show_default=True, help="So many at most.")
@OUTPUT
@cluster_options
def show(
    cluster: ClusterOptions, group: str, begin: QueuePosition, end: QueuePosition | None, count: int, output: str
) -> None:
    """Show the dead letters of GROUP. All of one message shows "smartgo msg show ID"."""

    async def work(session: ClusterSession) -> None:
        selection = await DeadLetterSelection.of(session, group, begin, end)
        rows = []
        with ProgressLine(session.env.clock, "dead letters", min(count, selection.total)) as progress:
            async with aclosing(selection.messages(progress)) as messages:
                async for message in messages:
                    rows.append(message)
                    if len(rows) == count:
                        break
        if output != TEXT:
            print_value(output, [as_members(row) for row in rows])
            return
        print_rows(
            output,
            rows,
            {
                "id": lambda row: row.offset_id,
                "topic": sent_to,
                "keys": lambda row: row.keys,
                "born": lambda row: moment(row.born_ms),
                "dead since": lambda row: moment(row.stored_ms),
                "body": lambda row: row.body.decode("utf-8", "backslashreplace")[:_SHOWN],
            },
            f"Group {group} has no dead letters there.",
        )

    cluster.do(work)


@dlq.command("export", epilog=examples("smartgo dlq export audit > dead.jsonl"))
@click.argument("group")
@FROM
@UNTIL
@click.option("-n", "--count", type=click.IntRange(1), help="End after so many.")
@click.option("--file", "path", metavar="FILE", help="Write here; it must not be there.  [default: standard output]")
@cluster_options
def export(
    cluster: ClusterOptions,
    group: str,
    begin: QueuePosition,
    end: QueuePosition | None,
    count: int | None,
    path: str | None,
) -> None:
    """Write the dead letters of GROUP as JSON lines."""

    async def work(session: ClusterSession) -> None:
        written = await take_out(session, dlq_topic(group), begin, end, [], "*", count, path)
        click.echo(f"{written:,} messages{f' are in {path}' if path else ''}", err=True)

    cluster.do(work)


@dlq.command(
    "resend",
    epilog=examples(
        "smartgo dlq resend audit --id 7F0000010000277E0000000000000190",
        "smartgo dlq resend audit --all --dry-run",
        "smartgo dlq resend audit --all --from 2030-12-31T08:00 --yes",
        "smartgo dlq resend audit --key order-7 --to Orders --yes",
    ),
)
@click.argument("group")
@click.option("--id", "ids", multiple=True, metavar="ID", help="This one; may be repeated.")
@click.option("--key", metavar="WORD", help="Those with this key.")
@click.option("--all", "everything", is_flag=True, help="All.")
@FROM
@UNTIL
@click.option("--to", "target", metavar="TOPIC", help="To this topic, for all groups that read it.")
@DRY_RUN
@YES
@OUTPUT
@cluster_options
def resend(
    cluster: ClusterOptions,
    group: str,
    ids: tuple[str, ...],
    key: str | None,
    everything: bool,
    begin: QueuePosition,
    end: QueuePosition | None,
    target: str | None,
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    """Give dead letters of GROUP to it again, and to no other group, as if they were new; they stay in the dead-letter
    topic too."""
    if not (ids or key or everything):
        raise click.UsageError("say which: --id, --key, or --all")

    async def work(session: ClusterSession) -> None:
        selection = await DeadLetterSelection.of(session, group, begin, end, ids, key)
        count = await selection.count(session)
        place = target or f"group {group}"
        if not dry_run and count:
            confirm(f"{count:,} messages will be sent to {place}.", yes)
            await _send(session, selection, lambda one: copy_to(one, target) if target else copy_for(one, group), count)
        if output != TEXT:
            print_value(output, {"group": group, "to": target, "sent": count, "dry_run": dry_run})
        else:
            click.echo(f"{count:,} messages {'would be' if dry_run else 'were'} sent to {place}")

    cluster.do(work)


async def _send(
    session: ClusterSession, selection: DeadLetterSelection, copy: Callable[[ReceivedMessage], Message], count: int
) -> None:
    """Send copies, some at a time. @raise Refusal: one was not taken; it is told how many were before."""
    producer = await producer_of(session, GROUP)
    sent = 0

    async def send_copy(one: ReceivedMessage) -> None:
        await producer.send(copy(one))

    async def send(portion: list[ReceivedMessage]) -> None:
        nonlocal sent
        sends = [Deferred.fromCoroutine(send_copy(one)) for one in portion]
        results: list[tuple[bool, Any]] = await DeferredList(sends, consumeErrors=True)
        failures = [result for success, result in results if not success]
        sent += len(results) - len(failures)
        progress.to(sent)
        if failures:
            raise CommandError(f"{sent:,} of {count:,} were sent; then: {failures[0].getErrorMessage()}")

    portion: list[ReceivedMessage] = []
    with ProgressLine(session.env.clock, "sent", count) as progress:
        async with aclosing(selection.messages()) as messages:
            async for message in messages:
                portion.append(message)
                if len(portion) == _AT_A_TIME:
                    await send(portion)
                    portion = []
        await send(portion)
