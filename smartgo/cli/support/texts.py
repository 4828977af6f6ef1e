"""What people read in the help of commands, and write on a command line: pairs of name and value, times, queues."""

from __future__ import annotations

from datetime import datetime

import click


def examples(*lines: str) -> str:
    """Return what stands below a command's help: lines to try."""
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))


def read_pairs(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    """Return what C{NAME=VALUE} texts say. @raise click.BadParameter: one is something else."""
    found = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not (sign and name):
            raise click.BadParameter(f"{text!r}: write NAME=VALUE", context, option)
        found[name] = value
    return found


def read_queues(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> list[tuple[str, int]]:
    """Return the queues that C{BROKER:ID} texts name. @raise click.BadParameter: one is something else."""
    found = []
    for text in texts:
        broker, colon, number = text.rpartition(":")
        if not (colon and broker and number.isdecimal()):
            raise click.BadParameter(f"{text!r}: write BROKER:ID", context, option)
        found.append((broker, int(number)))
    return found


def moment_ms(text: str, context: click.Context, option: click.Parameter, others: str) -> int:
    """
    Return the wall clock time that a text such as C{2030-12-31T23:59} says, in ms; one without a zone is local.

    @param others: what might have stood there too, for the message.
    @raise click.BadParameter: it says no time.
    """
    try:
        found = datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise click.BadParameter(
            f"{text!r} is none of {others}, or a time like 2030-12-31T23:59", context, option
        ) from None
    return round(found.timestamp() * 1000)
