"""
Ask the REST API for the brokers that were registered and are gone: registries do not know them any more.

The API is asked where it answers and serves the same cluster: at its usual address, and beside brokers of this machine,
where their processes serve it by default. Without it only what registries tell can be known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final
from urllib.parse import quote

import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.defer import TimeoutError as WaitTimedOut

from smartgo.cli.support.output import counted, moment
from smartgo.cli.support.rest import RestClient, RestOptions
from smartgo.cli.support.running import CommandError
from smartgo.client.administration.brokers import subject_of
from smartgo.env.interfaces import IEnvironment

SECONDS: Final = 6.0
"""For all answers of APIs that nobody named: while a broker does not answer, one of them takes up to 4.5 s."""

_PAGE: Final = 200


def timed_messages(count: int) -> str:
    """
    Return in words how many timed messages wait.

    >>> timed_messages(1)
    '1 timed message that waits for delivery'
    """
    return f"{counted(count, 'timed message')} that {'waits' if count == 1 else 'wait'} for delivery"


class MissingMember(msgspec.Struct, frozen=True, kw_only=True):
    """
    One broker process that was registered and is no longer.

    @ivar id: 0 for the master, above 0 for its slaves.
    @ivar last_seen_ms: when it was last registered, answered, or unregistered, wall clock.
    @ivar is_lost: whether no process of its broker answers.
    @ivar queues: that cannot be reached, with so many C{messages}, and C{timed} ones that wait; C{None} while another
        process of its broker answers, or where they are not known.
    @ivar left: C{stopped} in order, C{vanished}, or C{None} for unknown; C{left_ms}: when it was stopped, wall clock.
    @ivar effect: what works without it and what does not, in sentences.
    """

    cluster: str
    broker: str
    id: int
    address: str
    last_seen_ms: int
    is_lost: bool = False
    queues: int | None = None
    messages: int | None = None
    timed: int | None = None
    left: str | None = None
    left_ms: int | None = None
    effect: str = ""

    @property
    def subject(self) -> str:
        """Return its name in sentences and in alerts."""
        return subject_of(self.broker, self.id)

    @property
    def loss(self) -> str:
        """Return what cannot be reached, as the end of a sentence; empty where that is nothing."""
        if not self.is_lost:
            return ""
        timed = f", nor {timed_messages(self.timed)}" if self.timed else ""
        if self.queues is None:
            return f"; what it stored is not known, and cannot be reached{timed}"
        if self.messages is None:
            return f"; {counted(self.queues, 'queue')} cannot be reached{timed}, and what it stored is not known"
        return f"; {counted(self.messages, 'message')} and {counted(self.queues, 'queue')} cannot be reached{timed}"

    @property
    def departure(self) -> str:
        """Return how it left, as a part of a sentence; empty where nobody knows."""
        if self.left == "stopped" and self.left_ms is not None:
            return f"stopped in order at {moment(self.left_ms)}"
        return "not stopped in order" if self.left == "vanished" else ""

    @property
    def details(self) -> str:
        """Return how it left, what works without it and what does not, as the end of a sentence."""
        how = f" ({self.departure})" if self.departure else ""
        return f"{how}; {self.effect[0].lower()}{self.effect[1:-1]}" if self.effect else f"{how}{self.loss}"


class MemberMemoryAnswer(msgspec.Struct, frozen=True):
    """
    The answer of the memory of members.

    @ivar missing: the members that are missing; C{None} if it could not be asked.
    @ivar reason: why it could not.
    @ivar api: the one that answered.
    @ivar silent: the names of processes that are registered, or were when a registry last answered, and do not answer.
    """

    missing: list[MissingMember] | None
    reason: str = ""
    api: RestClient | None = None
    silent: list[str] = []

    async def lost_lag(self, group: str) -> str:
        """Return how many messages wait for a group at brokers that are missing, as a sentence; empty for none."""
        if not self.missing or self.api is None:
            return ""
        try:
            progress = await self.api.get(f"/groups/{quote(group, safe='')}/progress")
        except CommandError:
            return ""
        parts = []
        for one in progress.get("unreachable", []):
            if one["messages"] is None:
                parts.append(f"how many messages wait for group {group} at {one['broker']} is not known")
            else:
                count = counted(one["messages"], "message")
                parts.append(
                    f"{count} waited for group {group} at {one['broker']} (counted {moment(one['countedMs'])})"
                )
        return "; ".join(parts)


async def ask_memory(
    env: IEnvironment, rest: RestOptions, registries: Sequence[str], brokers: Iterable[str]
) -> MemberMemoryAnswer:
    """
    Return the members that are missing.

    @param registries: of the cluster that is asked for: an API that nobody named may serve another one.
    @param brokers: C{host:port} of the brokers that are registered.
    @raise CommandError: an API that was named by C{--api} does not answer.
    """
    if rest.url is not None:
        named = rest.api(env)
        return await _members(named)
    apis = [rest.api(env), *rest.beside(env, brokers)]
    asked: Deferred[MemberMemoryAnswer] = Deferred.fromCoroutine(_first(apis, registries))
    try:
        return await asked.addTimeout(SECONDS, env.clock)
    except WaitTimedOut:
        return MemberMemoryAnswer(None, f"{apis[0].url}: no answer within {SECONDS:.0f} s")


async def _first(apis: Sequence[RestClient], registries: Sequence[str]) -> MemberMemoryAnswer:
    """Return the answer of the first API that knows; else why the first one does not."""
    answers = []
    for api in apis:
        try:
            answer = await _of_cluster(api, registries)
        except CommandError as error:
            answer = MemberMemoryAnswer(None, error.message)
        if answer.missing is not None:
            return answer
        answers.append(answer)
    return answers[0]


async def _of_cluster(api: RestClient, registries: Sequence[str]) -> MemberMemoryAnswer:
    theirs = (await api.get("/cluster"))["registries"]
    if set(theirs).isdisjoint(registries):
        return MemberMemoryAnswer(None, f"{api.url} serves the cluster of {', '.join(theirs)}")
    return await _members(api)


async def _members(api: RestClient) -> MemberMemoryAnswer:
    rows: list[dict[str, Any]] = []
    cursor: str | None = ""
    while cursor is not None:
        page = await api.get("/brokers", limit=_PAGE, cursor=cursor)
        rows += page["items"]
        cursor = page["next"]
    missing = [_member(row) for row in rows if row["state"] == "missing"]
    silent = [subject_of(row["name"], row["id"]) for row in rows if row["state"] == "down"]
    return MemberMemoryAnswer(missing, api=api, silent=silent)


def _member(row: dict[str, Any]) -> MissingMember:
    lost = row["unreachable"] or {}
    known = lost.get("countedMs") is not None  # an API before this one has 0 where it does not know
    return MissingMember(
        cluster=row["cluster"],
        broker=row["name"],
        id=row["id"],
        address=row["address"],
        last_seen_ms=row["lastSeenMs"],
        is_lost=row["unreachable"] is not None,
        queues=lost["queues"] if known else None,
        messages=lost["messages"] if known else None,
        timed=lost.get("timed"),
        left=row.get("left"),
        left_ms=row.get("leftMs"),
        effect=row.get("effect") or "",
    )
