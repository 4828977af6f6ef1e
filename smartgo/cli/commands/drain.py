"""C{smartgo cluster drain}: a broker is emptied, so that it can be stopped and nobody waits for what it has."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import click
import msgspec

from smartgo.cli.support.output import OUTPUT, print_members
from smartgo.cli.support.progress import ProgressLine
from smartgo.cli.support.running import TRY_AGAIN, USAGE, CommandError
from smartgo.cli.support.session import DRY_RUN, YES, ClusterOptions, ClusterSession, cluster_options, confirm, pause
from smartgo.cli.support.texts import examples
from smartgo.client.administration.groups import BUILT_IN, lag_of
from smartgo.errors import CallFailed, PeerRefused
from smartgo.schema.codes import ResponseCode

LOOK: Final = 2.0
"""Seconds between two looks."""
ROUTES: Final = 35.0
"""Seconds after which all producers have asked registries again: they do so every 30 s."""
QUIET: Final = 10.0
"""Seconds without a new message at the end."""

_READ_ONLY, _BOTH = "4", "6"  # values of brokerPermission
_NOT_CHANGED: Final = frozenset({ResponseCode.NO_PERMISSION, ResponseCode.REQUEST_CODE_NOT_SUPPORTED})


class DrainResult(msgspec.Struct, frozen=True, kw_only=True):
    """
    How a broker was emptied.

    @ivar groups: the groups that had something to read there.
    @ivar ignored: messages that groups which were not waited for have not read.
    @ivar seconds: how long it took.
    """

    broker: str
    address: str
    groups: int
    ignored: int
    seconds: float


class RemainingWork(msgspec.Struct, frozen=True):
    """
    What is left to do at one moment.

    @ivar lags: messages by group, of all groups that are waited for.
    @ivar delayed: messages whose time has not come.
    @ivar ignored: messages of groups that are not waited for.
    @ivar end: where the broker's log ends, as it says it; it moves with each new message.
    """

    lags: dict[str, int]
    delayed: int
    ignored: int
    end: str

    @property
    def count(self) -> int:
        """All that is waited for."""
        return sum(self.lags.values()) + self.delayed


async def look(session: ClusterSession, broker: str, ignored: Collection[str]) -> RemainingWork:
    """Ask a broker what is left. @raise CallFailed: it does not answer."""
    facts = await session.admin.brokers.runtime(broker)
    progress = await session.admin.brokers.progress(broker)
    lags: dict[str, int] = {}
    beside = 0
    for entry in progress.consume_stats_list:
        for group, topics in entry.items():
            lag = sum(map(lag_of, topics))
            if group in ignored:
                beside += lag
            elif group not in BUILT_IN:
                lags[group] = lags.get(group, 0) + lag
    delayed = 0
    for name, text in facts.items():
        offset, _, end = text.partition(",")
        if name.startswith("scheduleMessageOffset_") and offset.isdecimal() and end.isdecimal():
            delayed += max(0, int(end) - int(offset))
    return RemainingWork(lags, delayed, beside, facts.get("commitLogMaxOffset", ""))


class Drain:
    """One broker that is being emptied."""

    def __init__(self, session: ClusterSession, broker: str, ignored: Sequence[str]) -> None:
        self._there = session
        self._broker = broker
        self._ignored = frozenset(ignored)
        self._clock = session.env.clock
        self._begin = self._clock.seconds()
        self._seen: dict[str, None] = {}  # groups that had something to read
        self._told: set[str] = set()  # what was said already
        self._end: tuple[str, float] = ("", self._begin)  # where the log ended, and since when

    async def run(self, address: str, timeout: float | None) -> DrainResult:
        """
        Keep producers away until there is nothing left.

        @param timeout: seconds; C{None}: as long as it takes.
        @raise Refusal: it takes longer.
        @raise CallFailed: no registry or not the broker answers.
        """
        most = 0
        with ProgressLine(self._clock, "messages read") as progress:
            while True:
                for registry, error in (await self._there.admin.brokers.hold_writes(self._broker)).items():
                    self._say(registry, f"going on without it: {error}")
                left = await look(self._there, self._broker, self._ignored)
                self._seen.update(dict.fromkeys(group for group, lag in left.lags.items() if lag))
                most = max(most, left.count)
                progress.to(most - left.count, most)
                now = self._clock.seconds()
                if left.end != self._end[0]:
                    self._end = (left.end, now)
                if not left.count and now - self._begin >= ROUTES and now - self._end[1] >= QUIET:
                    seconds = round(now - self._begin, 1)
                    return DrainResult(
                        broker=self._broker,
                        address=address,
                        groups=len(self._seen),
                        ignored=left.ignored,
                        seconds=seconds,
                    )
                if timeout is not None and now - self._begin >= timeout:
                    raise CommandError(
                        f"{self._broker} is not empty after {timeout:g} s: {self._words(left)}", TRY_AGAIN
                    )
                await self._name_idle(left)
                await pause(self._clock, LOOK)

    def _words(self, left: RemainingWork) -> str:
        words = [f"{group} has {lag} messages to read" for group, lag in sorted(left.lags.items()) if lag]
        if left.delayed:
            words.append(f"{left.delayed} delayed messages are not due")
        return "; ".join(words) or "messages still come in"

    async def _name_idle(self, left: RemainingWork) -> None:
        """Say which groups will not read what is left, as they have no member."""
        if self._clock.seconds() - self._begin < LOOK:
            return
        for group, lag in left.lags.items():
            if lag and group not in self._told and await self._there.admin.groups.connections(group) is None:
                self._say(
                    group, f"group {group} has {lag} messages to read and no member: start one, or --ignore {group}"
                )

    def _say(self, what: str, words: str) -> None:
        if what not in self._told:
            self._told.add(what)
            click.echo(f"smartgo: {words}", err=True)


async def keep(session: ClusterSession, broker: str, permission: str) -> None:
    """Set a broker's own permission, which outlasts its registrations and its restarts."""
    try:
        await session.admin.brokers.change_settings(broker, {"brokerPermission": permission})
    except PeerRefused as refusal:
        if refusal.code in _NOT_CHANGED:
            raise PeerRefused(refusal.code, f"{refusal.remark}; over REST and in the console it can be") from None
        raise


async def release(session: ClusterSession, broker: str) -> int:
    """Let a broker be written again; return how many topics that is."""
    try:
        if (await session.admin.brokers.settings(broker)).get("brokerPermission") == _READ_ONLY:
            await keep(session, broker, _BOTH)
    except CallFailed as error:
        click.echo(f"smartgo: its own permission stays as it is: {error}", err=True)
    return await session.admin.brokers.restore_write(broker)


@click.command(
    "drain",
    epilog=examples(
        "smartgo cluster drain broker-a",
        "smartgo cluster drain broker-a --ignore audit --timeout 600 -y -o json",
        "smartgo cluster drain broker-a --undo",
    ),
)
@click.argument("broker")
@click.option("--undo", is_flag=True, help="Let BROKER be written again.")
@click.option(
    "--ignore", "ignored", metavar="GROUP", multiple=True, help="Do not wait for this group; may be repeated."
)
@click.option("--timeout", type=click.FloatRange(min=0), metavar="SECONDS", help="Give up after so long, with 75.")
@click.option(
    "--keep", "kept", is_flag=True, help="Also set the broker's brokerPermission to 4, which outlasts its restart."
)
@DRY_RUN
@YES
@OUTPUT
@cluster_options
def drain(
    cluster: ClusterOptions,
    broker: str,
    undo: bool,
    ignored: tuple[str, ...],
    timeout: float | None,
    kept: bool,
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    """Empty BROKER, so that it can be stopped: have producers leave it out, and wait until all groups have read what it
    holds and delayed messages are delivered.

    Producers follow within 30 s; what they send until then is taken and waited for. Registries are told again and
    again meanwhile, as they forget it when BROKER registers a changed topic. When it is empty they are not told any
    more: stop it then. It is written again when it has been restarted, or with --undo.
    """

    if ":" in broker:
        raise CommandError(f"{broker} is an address: registries are told by the broker's name", USAGE)

    async def work(session: ClusterSession) -> None:
        address = await session.admin.brokers.address(broker)
        if undo:
            if dry_run:
                click.echo(f"all topics of {broker} would be written again")
                return
            click.echo(f"{await release(session, broker)} topics of {broker} are written again")
            return
        left = await look(session, broker, ignored)
        if dry_run:
            click.echo(f"nothing would be written to {broker} any more; {left.count} messages are to be read there")
            return
        confirm(f"Nothing will be written to {broker} any more.", yes)
        if kept:
            await keep(session, broker, _READ_ONLY)
        finished = False
        try:
            found = await Drain(session, broker, ignored).run(address, timeout)
            finished = True
        finally:
            if not finished:
                click.echo(f"smartgo: {broker} is still left out; smartgo cluster drain {broker} --undo", err=True)
        print_members(
            output,
            found,
            {
                "broker": f"{broker} is empty: it is safe to stop it",
                "groups waited for": found.groups,
                "left of ignored groups": found.ignored,
                "took": f"{found.seconds:g} s",
            },
        )

    cluster.do(work)
