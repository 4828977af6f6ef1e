"""Texts of the command line: examples below the help; parsed pairs of name and value, times and queues."""

from __future__ import annotations

from datetime import datetime

import click


def examples(*lines: str) -> str:
    """Return the text below a command's help: example lines."""
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))


def read_pairs(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    """Return C{NAME=VALUE} texts as a dict. @raise click.BadParameter: a text has another form."""
    found = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not (sign and name):
            raise click.BadParameter(f"{text!r}: write NAME=VALUE", context, option)
        found[name] = value
    return found


def read_queues(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> list[tuple[str, int]]:
    """Return the queues that C{BROKER:ID} texts name. @raise click.BadParameter: a text has another form."""
    found = []
    for text in texts:
        broker, colon, number = text.rpartition(":")
        if not (colon and broker and number.isdecimal()):
            raise click.BadParameter(f"{text!r}: write BROKER:ID", context, option)
        found.append((broker, int(number)))
    return found


def moment_ms(text: str, context: click.Context, option: click.Parameter, others: str) -> int:
    """
    Parse a time such as C{2030-12-31T23:59} into wall-clock ms; a time without a zone is local.

    @param others: the other accepted forms, for the error message.
    @raise click.BadParameter: the text is no time.
    """
    try:
        found = datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{text!r} is not valid; use {others}, or a time such as 2030-12-31T23:59", context, option
        ) from None
    return round(found.timestamp() * 1000)


def broker_process(text: str, broker_id: int | None) -> tuple[str, int | None]:
    """
    Return the broker name and the id of a process that is named as people see it: C{broker-a#1}, or C{broker-a}.

    @param broker_id: of C{--id}; it stays where the text has none.
    @raise click.UsageError: the text has another id.
    """
    name, mark, number = text.rpartition("#")
    if not mark or not number.isdecimal():
        return text, broker_id
    if broker_id not in (None, int(number)):
        raise click.UsageError(f"{text} and --id {broker_id} name different processes")
    return name, int(number)
