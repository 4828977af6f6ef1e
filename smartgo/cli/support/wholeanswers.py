"""
Tell of an answer which brokers it lacks: those that do not answer, and those that are no longer registered.

A registry drops a broker as soon as it is gone, so that the brokers that it names are not all there are. The memory of
members has the others (L{smartgo.cli.support.membermemory}). Commands that read take L{reading_options} in the place of
L{cluster_options<smartgo.cli.support.session.cluster_options>}.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Coroutine
from functools import partial, wraps
from typing import Any, Final, TypeVar

import click
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.internet.task import LoopingCall

from smartgo.cli.support.membermemory import MemberMemoryAnswer, MissingMember, ask_memory
from smartgo.cli.support.output import moment, printable
from smartgo.cli.support.rest import RestOptions, api_options
from smartgo.cli.support.running import MISSING, TRY_AGAIN, CommandError, command_error
from smartgo.cli.support.session import ClusterOptions, ClusterSession, SessionWork, cluster_options
from smartgo.client.administration.brokers import places_of
from smartgo.env.interfaces import IClock
from smartgo.errors import CallFailed, PeerRefused, SmartgoError

_NOTHING: Final = re.compile("^there (is|are) no ")
_LOOK: Final = 5.0  # seconds between two looks for missing brokers
_NOW: Final = " (at the brokers that are registered now; no REST API tells of others)"

_Known = tuple[MemberMemoryAnswer, set[str]]

T = TypeVar("T")


class LackingBrokers:
    """The brokers that did not answer a command, each with the reason."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def note(self, broker: str, error: CallFailed) -> None:
        """Take a broker that did not answer; the first reason stays."""
        words = error.remark if isinstance(error, PeerRefused) else str(error)
        self._reasons.setdefault(broker, f"no answer: {words.removeprefix(f'broker {broker}: ')}")

    def clear(self) -> None:
        """Forget all of them, before a command asks again."""
        self._reasons.clear()

    def reasons(self, memory: MemberMemoryAnswer, registered: Collection[str]) -> dict[str, str]:
        """
        Return by name why an answer lacks a broker.

        @param registered: the names of the brokers of which a process is registered.
        """
        gone: dict[str, MissingMember] = {}
        for one in memory.missing or ():
            if one.broker not in registered:
                known = gone.get(one.broker)
                gone[one.broker] = one if known is None or known.last_seen_ms < one.last_seen_ms else known
        reasons = {name: f"missing, last seen {moment(one.last_seen_ms)}{one.loss}" for name, one in gone.items()}
        return {**self._reasons, **reasons}

    def sentence(self, memory: MemberMemoryAnswer, registered: Collection[str], what: str = "this answer") -> str:
        """
        Return which brokers an answer lacks, and why; empty for none.

        @param registered: the names of the brokers of which a process is registered.
        @param what: the words for the answer.
        """
        reasons = self.reasons(memory, registered)
        if reasons:
            return f"{what} lacks {', '.join(f'{name} ({reasons[name]})' for name in sorted(reasons))}"
        return "" if registered else "no broker is registered"


async def not_found_by(work: SessionWork, session: ClusterSession) -> CommandError | None:
    """
    Run C{work(session)}; return its error where what it looked for is not there, and C{None} where it succeeds.

    @raise CommandError, SmartgoError: any other error of C{work}.
    """
    try:
        await work(session)
    except (SmartgoError, CommandError) as error:
        failure = command_error(error) if isinstance(error, SmartgoError) else error
        if failure.exit_code != MISSING:
            raise
        return failure
    return None


def incomplete(found: CommandError, lacks: str) -> CommandError:
    """
    Return the error of a search that found nothing while brokers are lacking: they may have it.

    >>> incomplete(CommandError("there is no topic A"), "this answer lacks broker-a (missing)").message
    'no broker that answered has topic A; this answer lacks broker-a (missing)'
    """
    words = _NOTHING.sub("no broker that answered has ", found.message)
    return CommandError(f"{words}; {lacks}", TRY_AGAIN)


def as_far_as_known(found: CommandError, memory: MemberMemoryAnswer) -> CommandError:
    """Return the error of a search that found nothing at all brokers that it knows of."""
    return found if memory.missing is not None else CommandError(f"{found.message}{_NOW}", MISSING)


def say(sentence: str) -> None:
    """Write a sentence of a command that goes on to standard error."""
    click.echo(f"smartgo: {printable(sentence)}", err=True)


class MissingBrokersWatch:
    """Looks repeatedly which brokers the output of a running command lacks."""

    def __init__(self, clock: IClock, ask: Callable[[], Awaitable[_Known]], lacking: LackingBrokers) -> None:
        """
        @param ask: returns the members that are missing, and the names of the brokers that are registered.
        @param lacking: the brokers that did not answer the command; the command may clear it before it asks again.
        """
        self.lacking = lacking
        self._ask = ask
        self._known: _Known = (MemberMemoryAnswer(None), set())
        self._tell: Callable[[str], None] | None = None
        self._told: object = None
        self._looking: Deferred[None] = succeed(None)
        self._loop = loop = LoopingCall(self._again)
        loop.clock = clock

    @property
    def reasons(self) -> dict[str, str]:
        """Return by name, sorted, why the output lacks the brokers that are missing now or did not answer."""
        return dict(sorted(self.lacking.reasons(*self._known).items()))

    @property
    def sentence(self) -> str:
        """Return which brokers the output lacks now, and why; empty for none."""
        return self.lacking.sentence(*self._known, "this output")

    async def start(self) -> None:
        """
        Ask for missing brokers once, then every five seconds.

        @raise CommandError: an API that was named does not answer.
        """
        self._known = await self._ask()
        self._loop.start(_LOOK, now=False)

    def stop(self) -> None:
        """Ask no more."""
        if self._loop.running:
            self._loop.stop()
        self._looking.cancel()

    def follow(self, tell: Callable[[str], None]) -> None:
        """Tell which brokers are lacking now, if any, and from now on whenever others are."""
        self._tell, self._told = tell, self._state
        if self.sentence:
            tell(self.sentence)

    def error_of(self, found: CommandError) -> CommandError:
        """Return the error of a command that did not find what it was asked for."""
        return incomplete(found, self.sentence) if self.sentence else as_far_as_known(found, self._known[0])

    @property
    def _state(self) -> object:
        return [*self.reasons], bool(self._known[1])

    def _again(self) -> Deferred[None]:
        self._looking = Deferred.fromCoroutine(self._look())
        return self._looking

    async def _look(self) -> None:
        try:
            memory, registered = await self._ask()
        except (SmartgoError, CommandError, CancelledError):
            return  # what was known is all that is known
        self._known = (self._known[0] if memory.missing is None else memory), registered
        if self._tell is not None and self._state != self._told:
            self._told = self._state
            self._tell(self.sentence or "no broker is missing any more")


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
        Run C{work(session)} as L{ClusterOptions.look} does, without brokers that do not answer; then name those.

        @param one: the command asks for one thing, and has all of it once that is found.
        @param group: what is known of the messages that wait for this group at missing brokers is told, too.
        @raise CommandError: what C{work} raised; with the status 75, the answer lacks brokers.
        """
        lacking = LackingBrokers()

        async def whole(session: ClusterSession) -> None:
            failure = await not_found_by(work, session)
            if failure is None and one:
                return
            memory, registered = await self.ask(session)
            lacks = lacking.sentence(memory, registered)
            waiting = await memory.lost_lag(group) if group is not None and lacks else ""
            lacks = f"{lacks}; {waiting}" if waiting else lacks
            for sentence in self._nothing:
                click.echo("The brokers that answered have nothing to show." if lacks else sentence)
            if failure is not None:
                raise incomplete(failure, lacks) if lacks else as_far_as_known(failure, memory)
            if lacks:
                raise CommandError(lacks, TRY_AGAIN)

        self._cluster.look(whole, lacking.note)

    def stream(self, work: StreamWork) -> None:
        """
        Run C{work(session, watch)} of a command that goes on until it is interrupted, as L{ClusterOptions.do} does.

        @param work: is given a L{MissingBrokersWatch} that has looked for missing brokers once, and goes on to.
        @raise CommandError: what C{work} raised.
        """
        lacking = LackingBrokers()

        async def whole(session: ClusterSession) -> None:
            watch = MissingBrokersWatch(session.env.clock, lambda: self.ask(session), lacking)
            await watch.start()
            try:
                await work(session, watch)
            except (SmartgoError, CommandError) as error:
                failure = command_error(error) if isinstance(error, SmartgoError) else error
                if failure.exit_code != MISSING:
                    raise
                raise watch.error_of(failure) from None
            finally:
                watch.stop()

        self._cluster.do(whole, endless=True, on_missing=lacking.note)

    async def ask(self, session: ClusterSession) -> tuple[MemberMemoryAnswer, set[str]]:
        """Return the members that are missing, and the names of the brokers that are registered."""
        places = places_of(await session.admin.asking.cluster())
        addresses = [one.address for one in places]
        memory = await ask_memory(session.env, self._rest, session.client.registries, addresses)
        return memory, {one.name for one in places}


StreamWork = Callable[[ClusterSession, MissingBrokersWatch], Coroutine[Deferred[Any], Any, None]]


def options_as(
    kind: Callable[[ClusterOptions, RestOptions], object],
) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """
    Return what adds the options of connection and REST API to a command.

    @param kind: makes of both the first argument that the command gets.
    """

    def decorated(function: Callable[..., T]) -> Callable[..., T]:
        @cluster_options
        @api_options
        @wraps(function)
        def command(rest: RestOptions, cluster: ClusterOptions, *args: Any, **kwargs: Any) -> T:
            return function(kind(cluster, rest), *args, **kwargs)

        return command

    return decorated


def reading_options(function: Callable[..., T]) -> Callable[..., T]:
    """Add the options of connection and REST API to a command; it gets L{ReadingOptions} as its first argument."""
    return options_as(ReadingOptions)(function)
