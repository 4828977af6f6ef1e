"""The running information of a group's member, as people read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import click

from smartgo.cli.support.output import TEXT, counted, moment, print_members, print_table, span
from smartgo.client.administration.groups import DEFAULT_RETRIES
from smartgo.schema.bodies import (
    ConsumeFromWhere,
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeType,
    ProcessQueueInfo,
)
from smartgo.schema.codes import Version

_CONSUMES: Final[Mapping[str, str]] = {
    ConsumeType.CONSUME_ACTIVELY: "pulls by itself",
    ConsumeType.CONSUME_PASSIVELY: "is given messages by its client",
    ConsumeType.CONSUME_POP: "pops",
}
_BEGINS: Final[Mapping[str, str]] = {
    ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET: "from its first message",
    ConsumeFromWhere.CONSUME_FROM_MIN_OFFSET: "from its first message",
    ConsumeFromWhere.CONSUME_FROM_TIMESTAMP: "from a time on",
}
"""Where members begin in a queue without an offset; with the other values they begin at its end."""
_LONG: Final = 60_000
"""Milliseconds after which a listener call is called long."""


def release(ordinal: int) -> str:
    """
    Return the RocketMQ release whose number a client reports: by its name where that is known.

    >>> release(409), release(410)
    ('V4_9_8', '410')
    """
    return Version(ordinal).name if ordinal in set(Version) else str(ordinal)


def consumption(found: ConsumerConnection) -> str:
    """Return how the members of a group consume, in words."""
    begin = _BEGINS.get(found.consume_from_where, "from its end on")
    how = _CONSUMES.get(found.consume_type, found.consume_type)
    return f"{found.message_model.value.lower()}; the application {how}; a queue without an offset is read {begin}"


def print_info(found: ConsumerRunningInfo, raw: bool) -> None:
    """Print what a member reports. @param raw: its properties by their names, in the place of words."""
    print_members(TEXT, found, dict(sorted(found.properties.items())) if raw else _settings(found.properties))
    click.echo()
    print_table(
        sorted(found.mq_table.items()),
        {
            "topic": lambda row: row[0].topic,
            "broker": lambda row: row[0].broker_name,
            "queue": lambda row: row[0].queue_id,
            "offset": lambda row: row[1].commit_offset,
            "cached": lambda row: row[1].cached_msg_count,
            "cached MiB": lambda row: row[1].cached_msg_size_in_mib,
            "locked": lambda row: row[1].locked,
            "last pull": lambda row: moment(row[1].last_pull_timestamp),
            "last consumed": lambda row: _last_consumed(row[1]),
        },
    )
    click.echo()
    print_table(
        sorted(found.status_table.items()),
        {
            "topic": lambda row: row[0],
            "pulled/s": lambda row: row[1].pull_tps,
            "pull ms": lambda row: row[1].pull_rt,
            "consumed/s": lambda row: row[1].consume_ok_tps,
            "consume ms": lambda row: row[1].consume_rt,
            "failed/s": lambda row: row[1].consume_failed_tps,
            "failed": lambda row: row[1].consume_failed_msgs,
        },
    )
    if found.jstack:
        click.echo(f"\n{found.jstack}")


def _last_consumed(queue: ProcessQueueInfo) -> str | None:
    return "never" if queue.never_consumed else moment(queue.last_consume_timestamp)


def _settings(told: Mapping[str, str]) -> dict[str, object]:
    """Return the settings and the state of a member by heading, those that it tells."""
    threads = _whole(told, "PROP_THREADPOOL_CORE_SIZE")
    orderly = told.get("PROP_CONSUMEORDERLY") == "true"
    retries = _whole(told, ConsumerRunningInfo.MAX_RECONSUME)
    timeout = told.get(ConsumerRunningInfo.CONSUME_TIMEOUT)
    at_once = "" if threads is None or orderly else f", {threads} at a time"
    pulls = told.get("PROP_CONSUME_TYPE") == "CONSUME_ACTIVELY"
    members = {
        "started": moment(_whole(told, "PROP_CONSUMER_START_TIMESTAMP")),
        "consumes": "by pulling itself"
        if pulls
        else "in order, queue by queue"
        if orderly
        else f"concurrently{at_once}",
        "listener calls": _calls(told, None if orderly else threads),
        "retries": retries if retries is None or retries >= 0 else "no limit" if orderly else DEFAULT_RETRIES,
        "gives back after": None if timeout is None or orderly else f"{timeout} min in the listener",
        "client version": told.get("PROP_CLIENT_VERSION"),
        "registries": told.get("PROP_NAMESERVER_ADDR"),
    }
    return {heading: value for heading, value in members.items() if value is not None}


def _calls(told: Mapping[str, str], slots: int | None) -> str:
    """Return the state of the listener in words. @param slots: the most calls at a time; C{None}: no limit."""
    calls = _whole(told, ConsumerRunningInfo.LISTENER_CALLS)
    longest_ms = _whole(told, ConsumerRunningInfo.LONGEST_CALL) or 0
    if calls is None:
        return "not told by this client; --stacks shows its threads, where it can"
    if not calls:
        return "none under way"
    words = f"{counted(calls, 'call')} under way, the longest for {span(longest_ms / 1000)}"
    if longest_ms < _LONG:
        return words
    full = "all slots are taken; " if slots is not None and calls >= slots else ""
    return f"{words}: {full}does the listener return?"


def _whole(told: Mapping[str, str], name: str) -> int | None:
    try:
        return int(told[name])
    except (KeyError, ValueError):
        return None
