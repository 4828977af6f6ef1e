"""C{smartgo dlq resend} and C{dlq ack}."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from typing import Any, Final

import click
from twisted.internet.defer import Deferred, DeferredList

from smartgo.cli.commands.msg import FROM, GROUP, UNTIL
from smartgo.cli.support.completions import group_names
from smartgo.cli.support.deadletterselection import DeadLetterSelection
from smartgo.cli.support.load import producer_of
from smartgo.cli.support.output import OUTPUT, TEXT, counted, print_value
from smartgo.cli.support.progress import ProgressLine
from smartgo.cli.support.reading import QueuePosition
from smartgo.cli.support.running import CommandError
from smartgo.cli.support.session import DRY_RUN, YES, ClusterSession, confirm
from smartgo.cli.support.texts import examples
from smartgo.cli.support.wholeanswers import ReadingOptions, reading_options
from smartgo.client.internal.copies import copy_for, copy_to
from smartgo.client.internal.deadletterjournal import CopyPlace, LetterPlace
from smartgo.client.messages import Message, ReceivedMessage
from smartgo.client.producer import Producer
from smartgo.errors import CallFailed

_AT_A_TIME: Final = 64  # sends that wait for their answers
_NAMED: Final = 10  # copies that are left out, and named


@click.command(
    "resend",
    epilog=examples(
        "smartgo dlq resend audit --id 7F0000010000277E0000000000000190",
        "smartgo dlq resend audit --all --dry-run",
        "smartgo dlq resend audit --all --from 2030-12-31T08:00 --yes",
        "smartgo dlq resend audit --key order-7 --to Orders --yes",
    ),
)
@click.argument("group", shell_complete=group_names)
@click.option("--id", "ids", multiple=True, metavar="ID", help="Resend this message; may be repeated.")
@click.option("--key", metavar="WORD", help="Resend the messages with this key.")
@click.option("--all", "everything", is_flag=True, help="Resend all that are open.")
@click.option("--again", is_flag=True, help="With --all and --key: also those that were resent or acknowledged before.")
@FROM
@UNTIL
@click.option("--to", "target", metavar="TOPIC", help="Send to this topic instead, for all groups that consume it.")
@DRY_RUN
@YES
@OUTPUT
@reading_options
def resend(
    cluster: ReadingOptions,
    group: str,
    ids: tuple[str, ...],
    key: str | None,
    everything: bool,
    again: bool,
    begin: QueuePosition,
    end: QueuePosition | None,
    target: str | None,
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    """
    Resend dead letters of GROUP to this group only, as new messages. The originals stay, marked as resent. Several dead
    letters of one message are sent once: the latest of them; the others are acknowledged.
    """
    if not (ids or key or everything):
        raise click.UsageError("give --id, --key or --all")

    async def work(session: ClusterSession) -> None:
        chosen = await DeadLetterSelection.of(session, group, begin, end, ids, key, not (ids or again))
        selection, left_out = await chosen.without_copies(session)
        count = await selection.count(session)
        place = target or f"group {group}"
        if not dry_run and count:
            confirm(f"{counted(count, 'message')} will be sent to {place}.", yes)
            producer = await producer_of(session, GROUP)
            with ProgressLine(session.env.clock, "sent", count) as progress:
                await _send(
                    producer,
                    selection,
                    lambda one: copy_to(one, target) if target else copy_for(one, group),
                    count,
                    progress,
                )
            if left_out:
                rest = chosen.narrowed(frozenset(left_out), only_open=True)
                await _acknowledge(producer, rest, "a later copy of the message was resent", False)
        closed = "" if count or ids else await selection.marks.closed_text(group, selection.spans)
        if output != TEXT:
            copies = [{"id": one, "instead": other} for one, other in left_out.items()]
            result = {"group": group, "to": target, "sent": count, "dry_run": dry_run, "left_out": copies}
            print_value(output, {**result, "closed": closed})
            return
        click.echo(f"{'would send' if dry_run else 'sent'} {counted(count, 'message')} to {place}")
        if closed:
            click.echo(f"None is open: {closed}. To send them again: --again")
        if left_out:
            click.echo(f"Left out, as a later copy of the same message {'would be' if dry_run else 'was'} sent:")
            for one, other in list(left_out.items())[:_NAMED]:
                click.echo(f"  {one}: {other} instead")
            if len(left_out) > _NAMED:
                click.echo(f"  and {len(left_out) - _NAMED:,} more")

    cluster.do(work)


@click.command(
    "ack",
    epilog=examples(
        "smartgo dlq ack audit --id 7F0000010000277E0000000000000190 --comment 'paid by hand'",
        "smartgo dlq ack audit --all --dry-run",
        "smartgo dlq ack audit --id 7F0000010000277E0000000000000190 --undo",
    ),
)
@click.argument("group", shell_complete=group_names)
@click.option("--id", "ids", multiple=True, metavar="ID", help="Acknowledge this message; may be repeated.")
@click.option("--key", metavar="WORD", help="Acknowledge the open messages with this key.")
@click.option("--all", "everything", is_flag=True, help="Acknowledge all that are open.")
@FROM
@UNTIL
@click.option("--comment", default="", metavar="TEXT", help="Reason, shown to others.")
@click.option("--undo", is_flag=True, help="Make the messages given by --id open again.")
@DRY_RUN
@YES
@OUTPUT
@reading_options
def ack(
    cluster: ReadingOptions,
    group: str,
    ids: tuple[str, ...],
    key: str | None,
    everything: bool,
    begin: QueuePosition,
    end: QueuePosition | None,
    comment: str,
    undo: bool,
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    """Acknowledge dead letters of GROUP without resending them: they stay, but no longer count as open."""
    if not (ids or key or everything):
        raise click.UsageError("give --id, --key or --all")
    if undo and not ids:
        raise click.UsageError("--undo needs --id")

    async def work(session: ClusterSession) -> None:
        selection = await DeadLetterSelection.of(session, group, begin, end, ids, key, not ids)
        count = await selection.count(session)
        if not dry_run and count:
            verb = "opened again" if undo else "acknowledged"
            confirm(f"{counted(count, 'dead letter')} of group {group} will be {verb}.", yes)
            await _acknowledge(await producer_of(session, GROUP), selection, comment, undo)
        if output != TEXT:
            print_value(output, {"group": group, "count": count, "undo": undo, "dry_run": dry_run})
            return
        done = "opened again" if undo else "acknowledged"
        would = ("would open again" if undo else "would acknowledge") if dry_run else done
        click.echo(f"{would} {counted(count, 'dead letter')} of group {group}")
        if not count and not ids:
            closed = await selection.marks.closed_text(group, selection.spans)
            if closed:
                click.echo(f"None is open: {closed}.")

    cluster.do(work)


async def _acknowledge(producer: Producer, selection: DeadLetterSelection, comment: str, undo: bool) -> None:
    places: dict[str, list[LetterPlace]] = {}
    async with aclosing(selection.messages()) as messages:
        async for one in messages:
            places.setdefault(one.queue.broker_name, []).append(LetterPlace(one.queue.queue_id, one.queue_offset))
    journal = selection.marks.writer(producer)
    for broker, letters in places.items():
        await journal.acknowledged(selection.group, selection.marks.who, broker, letters, comment, undo)


async def _send(
    producer: Producer,
    selection: DeadLetterSelection,
    copy: Callable[[ReceivedMessage], Message],
    count: int,
    progress: ProgressLine,
) -> None:
    """
    Send copies, some concurrently.

    @raise CommandError: a send failed, and how many succeeded; or all succeeded, and some could not be marked.
    """
    sent = 0
    unmarked: list[str] = []
    journal, who = selection.marks.writer(producer), selection.marks.who
    await journal.prepare({span.queue.broker_name for span in selection.spans if span.end > span.begin})

    async def send_copy(one: ReceivedMessage) -> None:
        result = await producer.send(copy(one))
        queue = result.queue
        place = CopyPlace(
            queue.topic,
            queue.broker_name,
            queue.queue_id,
            result.queue_offset,
            result.offset_id,
            result.message_id,
        )
        letter = LetterPlace(one.queue.queue_id, one.queue_offset)
        try:
            await journal.resent(selection.group, who, one.queue.broker_name, letter, place)
        except CallFailed as error:
            unmarked.append(str(error))  # it was sent: to send it again would be wrong

    async def send(portion: list[ReceivedMessage]) -> None:
        nonlocal sent
        sends = [Deferred.fromCoroutine(send_copy(one)) for one in portion]
        results: list[tuple[bool, Any]] = await DeferredList(sends, consumeErrors=True)
        failures = [result for success, result in results if not success]
        sent += len(results) - len(failures)
        progress.to(sent)
        if failures:
            raise CommandError(
                f"sent {sent:,} of {counted(count, 'message')}, then failed: {failures[0].getErrorMessage()}"
            )

    portion: list[ReceivedMessage] = []
    async with aclosing(selection.messages()) as messages:
        async for message in messages:
            portion.append(message)
            if len(portion) == _AT_A_TIME:
                await send(portion)
                portion = []
    await send(portion)
    if unmarked:
        raise CommandError(
            f"sent {counted(sent, 'message')}, but {len(unmarked):,} could not be marked as resent, so that --all would"
            f" send them again: {unmarked[0]}"
        )
