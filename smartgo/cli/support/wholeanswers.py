"""
Tell of an answer which brokers it lacks: those that do not answer, and those that are no longer registered.

A registry drops a broker as soon as it is gone, so that the brokers that it names are not all there are. The memory of
members has the others (L{smartgo.cli.support.membermemory}). Commands that read take L{reading_options} in the place of
L{cluster_options<smartgo.cli.support.session.cluster_options>}.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import partial, wraps
from typing import Any, Final, TypeVar

import click

from smartgo.cli.support.membermemory import MemberMemoryAnswer, MissingMember, ask_memory
from smartgo.cli.support.output import moment
from smartgo.cli.support.rest import RestOptions, api_options
from smartgo.cli.support.running import MISSING, TRY_AGAIN, CommandError, command_error
from smartgo.cli.support.session import ClusterOptions, ClusterSession, SessionWork, cluster_options
from smartgo.client.administration.brokers import places_of
from smartgo.errors import CallFailed, PeerRefused, SmartgoError

_NOTHING: Final = re.compile("^there (is|are) no ")
_NOW: Final = " (at the brokers that are registered now; no REST API tells of others)"

T = TypeVar("T")


class LackingBrokers:
    """The brokers that did not answer a command, each with the reason."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def note(self, broker: str, error: CallFailed) -> None:
        """Take a broker that did not answer; the first reason stays."""
        words = error.remark if isinstance(error, PeerRefused) else str(error)
        self._reasons.setdefault(broker, f"no answer: {words.removeprefix(f'broker {broker}: ')}")

    def sentence(self, memory: MemberMemoryAnswer, registered: Collection[str]) -> str:
        """
        Return which brokers an answer lacks, and why; empty for none.

        @param registered: the names of the brokers of which a process is registered.
        """
        gone: dict[str, MissingMember] = {}
        for one in memory.missing or ():
            if one.broker not in registered:
                known = gone.get(one.broker)
                gone[one.broker] = one if known is None or known.last_seen_ms < one.last_seen_ms else known
        reasons = {name: f"missing, last seen {moment(one.last_seen_ms)}{one.loss}" for name, one in gone.items()}
        reasons = {**self._reasons, **reasons}
        if reasons:
            return f"this answer lacks {', '.join(f'{name} ({reasons[name]})' for name in sorted(reasons))}"
        return "" if registered else "no broker is registered"


def incomplete(found: CommandError, lacks: str) -> CommandError:
    """
    Return the error of a search that found nothing while brokers are lacking: they may have it.

    >>> incomplete(CommandError("there is no topic A"), "this answer lacks broker-a (missing)").message
    'no broker that answered has topic A; this answer lacks broker-a (missing)'
    """
    words = _NOTHING.sub("no broker that answered has ", found.message)
    return CommandError(f"{words}; {lacks}", TRY_AGAIN)


class ReadingOptions:
    """The connection options of a command that reads from all brokers."""

    def __init__(self, cluster: ClusterOptions, rest: RestOptions) -> None:
        self._cluster = cluster
        self._rest = rest
        self._nothing: list[str] = []

    def nothing(self, sentence: str) -> Callable[[], None]:
        """
        Return what a command calls that found nothing.

        @param sentence: is printed once it is known that all brokers answered.
        """
        return partial(self._nothing.append, sentence)

    def do(self, work: SessionWork, one: bool = False, group: str | None = None) -> None:
        """
        Run C{work(session)} as L{ClusterOptions.do} does, without brokers that do not answer; then name those.

        @param one: the command asks for one thing, and has all of it once that is found.
        @param group: what is known of the messages that wait for this group at missing brokers is told, too.
        @raise CommandError: what C{work} raised; with the status 75, the answer lacks brokers.
        """
        lacking = LackingBrokers()

        async def whole(session: ClusterSession) -> None:
            failure: CommandError | None = None
            try:
                await work(session)
            except (SmartgoError, CommandError) as error:
                failure = command_error(error) if isinstance(error, SmartgoError) else error
                if failure.exit_code != MISSING:
                    raise
            if failure is None and one:
                return
            memory, registered = await self._ask(session)
            lacks = lacking.sentence(memory, registered)
            waiting = await memory.lost_lag(group) if group is not None and lacks else ""
            lacks = f"{lacks}; {waiting}" if waiting else lacks
            for sentence in self._nothing:
                click.echo("The brokers that answered have nothing to show." if lacks else sentence)
            if failure is not None and lacks:
                raise incomplete(failure, lacks)
            if failure is not None:
                raise failure if memory.missing is not None else CommandError(f"{failure.message}{_NOW}", MISSING)
            if lacks:
                raise CommandError(lacks, TRY_AGAIN)

        self._cluster.do(whole, on_missing=lacking.note)

    async def _ask(self, session: ClusterSession) -> tuple[MemberMemoryAnswer, set[str]]:
        """Return the members that are missing, and the names of the brokers that are registered."""
        places = places_of(await session.admin.asking.cluster())
        addresses = [one.address for one in places]
        memory = await ask_memory(session.env, self._rest, session.client.registries, addresses)
        return memory, {one.name for one in places}


def reading_options(function: Callable[..., T]) -> Callable[..., T]:
    """Add the options of connection and REST API to a command; it gets L{ReadingOptions} as its first argument."""

    @cluster_options
    @api_options
    @wraps(function)
    def command(rest: RestOptions, cluster: ClusterOptions, *args: Any, **kwargs: Any) -> T:
        return function(ReadingOptions(cluster, rest), *args, **kwargs)

    return command
