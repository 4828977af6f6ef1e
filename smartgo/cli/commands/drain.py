"""C{smartgo cluster drain}: have all messages of a broker consumed, so that it can be stopped."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import click
import msgspec

from smartgo.cli.support.completions import broker_names
from smartgo.cli.support.output import OUTPUT, counted, print_members
from smartgo.cli.support.progress import ProgressLine
from smartgo.cli.support.running import TRY_AGAIN, USAGE, CommandError
from smartgo.cli.support.session import DRY_RUN, YES, ClusterOptions, ClusterSession, cluster_options, confirm, pause
from smartgo.cli.support.texts import examples
from smartgo.client.administration.groups import BUILT_IN, lag_of
from smartgo.errors import CallFailed, PeerRefused
from smartgo.schema.codes import ResponseCode
from smartgo.schema.timers import COUNTING

LOOK: Final = 2.0
"""Seconds between two checks."""
ROUTES: Final = 35.0
"""Seconds after which all producers have refreshed their routes: they do so every 30 s."""
QUIET: Final = 10.0
"""Seconds without a new message at the end."""

_READ_ONLY, _BOTH = "4", "6"  # values of brokerPermission
_NOT_CHANGED: Final = frozenset({ResponseCode.NO_PERMISSION, ResponseCode.REQUEST_CODE_NOT_SUPPORTED})


class DrainResult(msgspec.Struct, frozen=True, kw_only=True):
    """
    The result of draining a broker.

    @ivar groups: how many groups had messages to consume there.
    @ivar ignored: the lag of the ignored groups.
    @ivar seconds: how long it took.
    """

    broker: str
    address: str
    groups: int
    ignored: int
    seconds: float


class RemainingWork(msgspec.Struct, frozen=True):
    """
    The work that a broker still has at one moment.

    @ivar lags: lag by group, without the ignored groups.
    @ivar delayed: delayed and timed messages that are not due yet.
    @ivar counting: the broker does not know yet how many timed messages it has.
    @ivar ignored: lag of the ignored groups.
    @ivar end: the end of the broker's CommitLog, as text; it moves with each new message.
    """

    lags: dict[str, int]
    delayed: int
    counting: bool
    ignored: int
    end: str

    @property
    def count(self) -> int:
        """The number of messages that draining waits for."""
        return sum(self.lags.values()) + self.delayed


async def look(session: ClusterSession, broker: str, ignored: Collection[str]) -> RemainingWork:
    """Ask a broker for its remaining work. @raise CallFailed: it does not answer."""
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
    waiting = facts.get("timerCongestNum", "")
    delayed = int(waiting) if waiting.isdecimal() else 0
    for name, text in facts.items():
        offset, _, end = text.partition(",")
        if name.startswith("scheduleMessageOffset_") and offset.isdecimal() and end.isdecimal():
            delayed += max(0, int(end) - int(offset))
    return RemainingWork(lags, delayed, waiting == COUNTING, beside, facts.get("commitLogMaxOffset", ""))


class Drain:
    """Drains one broker."""

    def __init__(self, session: ClusterSession, broker: str, ignored: Sequence[str]) -> None:
        self._session = session
        self._broker = broker
        self._ignored = frozenset(ignored)
        self._clock = session.env.clock
        self._begin = self._clock.seconds()
        self._seen: dict[str, None] = {}  # groups that had messages to consume
        self._told: set[str] = set()  # subjects already reported
        self._end: tuple[str, float] = ("", self._begin)  # the end of the log, and since when

    async def run(self, address: str, timeout: float | None) -> DrainResult:
        """
        Keep producers away until the broker has nothing left to deliver.

        @param timeout: seconds; C{None} for no limit.
        @raise CommandError: it takes longer.
        @raise CallFailed: no registry answers, or the broker does not.
        """
        most = 0
        with ProgressLine(self._clock, "messages consumed") as progress:
            while True:
                for registry, error in (await self._session.admin.brokers.hold_writes(self._broker)).items():
                    self._say(registry, f"registry {registry} is skipped: {error}")
                left = await look(self._session, self._broker, self._ignored)
                self._seen.update(dict.fromkeys(group for group, lag in left.lags.items() if lag))
                most = max(most, left.count)
                progress.to(most - left.count, most)
                now = self._clock.seconds()
                if left.end != self._end[0]:
                    self._end = (left.end, now)
                if not (left.count or left.counting) and now - self._begin >= ROUTES and now - self._end[1] >= QUIET:
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
                        f"{self._broker} is not drained after {timeout:g} s: {self._words(left)}", TRY_AGAIN
                    )
                await self._name_idle(left)
                await pause(self._clock, LOOK)

    def _words(self, left: RemainingWork) -> str:
        words = [
            f"group {group} has {counted(lag, 'message')} to consume" for group, lag in sorted(left.lags.items()) if lag
        ]
        if left.delayed:
            words.append(f"{counted(left.delayed, 'delayed message')} not due yet")
        if left.counting:
            words.append("its timed messages are being counted")
        return "; ".join(words) or "messages still arrive"

    async def _name_idle(self, left: RemainingWork) -> None:
        """Name the groups that have messages to consume but no member."""
        if self._clock.seconds() - self._begin < LOOK:
            return
        for group, lag in left.lags.items():
            if lag and group not in self._told and await self._session.admin.groups.connections(group) is None:
                self._say(
                    group,
                    f"group {group} has {counted(lag, 'message')} to consume and no members: start a consumer, or add"
                    f" --ignore {group}",
                )

    def _say(self, what: str, words: str) -> None:
        if what not in self._told:
            self._told.add(what)
            click.echo(f"smartgo: {words}", err=True)


async def keep(session: ClusterSession, broker: str, permission: str) -> None:
    """Set the brokerPermission of a broker, which lasts over registrations and restarts."""
    try:
        await session.admin.brokers.change_settings(broker, {"brokerPermission": permission})
    except PeerRefused as refusal:
        if refusal.code in _NOT_CHANGED:
            raise PeerRefused(refusal.code, f"{refusal.remark}; use the REST API or the console instead") from None
        raise


async def release(session: ClusterSession, broker: str) -> int:
    """Allow writes to a broker again; return the number of topics."""
    try:
        if (await session.admin.brokers.settings(broker)).get("brokerPermission") == _READ_ONLY:
            await keep(session, broker, _BOTH)
    except CallFailed as error:
        click.echo(f"smartgo: its brokerPermission is unchanged: {error}", err=True)
    return await session.admin.brokers.restore_write(broker)


@click.command(
    "drain",
    epilog=examples(
        "smartgo cluster drain broker-a",
        "smartgo cluster drain broker-a --ignore audit --timeout 600 -y -o json",
        "smartgo cluster drain broker-a --undo",
    ),
)
@click.argument("broker", shell_complete=broker_names)
@click.option("--undo", is_flag=True, help="Allow writes to BROKER again.")
@click.option(
    "--ignore", "ignored", metavar="GROUP", multiple=True, help="Do not wait for this group; may be repeated."
)
@click.option(
    "--timeout", type=click.FloatRange(min=0), metavar="SECONDS", help="Give up after this time, with exit status 75."
)
@click.option(
    "--keep",
    "kept",
    is_flag=True,
    help="Also set brokerPermission=4 at the broker, so that the stop of writes survives its restart.",
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
    """Drain BROKER, so that it can be stopped: stop writes to it, and wait until all groups have consumed its messages
    and delayed messages are delivered.

    Producers follow within 30 s; messages that they send until then are accepted and waited for. The command repeats
    the stop of writes at the registries, because a registry drops it when BROKER registers a changed topic. Stop BROKER
    when the command ends: after a restart, or with --undo, it accepts writes again.
    """

    if ":" in broker:
        raise CommandError(f"{broker} is an address; give the name of the broker", USAGE)

    async def work(session: ClusterSession) -> None:
        address = await session.admin.brokers.address(broker)
        if undo:
            if dry_run:
                click.echo(f"writes to all topics of {broker} would be allowed again")
                return
            click.echo(f"writes to {counted(await release(session, broker), 'topic')} of {broker} are allowed again")
            return
        left = await look(session, broker, ignored)
        if dry_run:
            click.echo(f"writes to {broker} would be stopped; it has {counted(left.count, 'message')} to consume")
            return
        confirm(f"Writes to {broker} will be stopped.", yes)
        if kept:
            await keep(session, broker, _READ_ONLY)
        finished = False
        try:
            found = await Drain(session, broker, ignored).run(address, timeout)
            finished = True
        finally:
            if not finished:
                click.echo(
                    f"smartgo: writes to {broker} are still stopped; to undo: smartgo cluster drain {broker} --undo",
                    err=True,
                )
        print_members(
            output,
            found,
            {
                "broker": f"{broker} is drained: it is safe to stop it",
                "groups": found.groups,
                "lag of ignored groups": found.ignored,
                "time": f"{found.seconds:g} s",
            },
        )

    cluster.do(work)
