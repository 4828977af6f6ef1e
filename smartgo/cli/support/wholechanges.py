"""
Tell of a change which brokers it does not reach: those that are missing, and those without a master.

Changes go to the brokers that are registered. One that is missing keeps what it has and brings it back when it returns:
the topic that was deleted, the offsets that were reset. Commands that change something at all brokers take
L{changing_options} in the place of L{cluster_options<smartgo.cli.support.session.cluster_options>}.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

from smartgo.cli.support.membermemory import ask_memory
from smartgo.cli.support.rest import RestOptions
from smartgo.cli.support.running import TRY_AGAIN, CommandError
from smartgo.cli.support.session import ClusterOptions, ClusterSession, SessionWork
from smartgo.cli.support.wholeanswers import LackingBrokers, incomplete, not_found_by, options_as, say
from smartgo.client.administration.brokers import places_of
from smartgo.client.internal.route import MASTER

T = TypeVar("T")


class ChangingOptions:
    """The connection options of a command that changes something at all brokers, or copies their definitions."""

    def __init__(self, cluster: ClusterOptions, rest: RestOptions) -> None:
        self._cluster = cluster
        self._rest = rest

    def do(self, work: SessionWork, only: Collection[str] = (), cluster: str | None = None) -> None:
        """
        Run C{work(session)} as L{ClusterOptions.do} does, after the brokers that it does not reach were named.

        @param only: the brokers that the command is for; empty for all, or for all of one C{cluster}.
        @raise CommandError: what C{work} raised; with the status 75, it was not done at some brokers.
        """

        async def everywhere(session: ClusterSession) -> None:
            reasons = await self.reasons(session, only, cluster)
            if not reasons:
                await work(session)
                return
            words = f"this does not reach {_listed(reasons)}"
            say(words)
            failure = await not_found_by(work, session)
            if failure is not None:
                raise incomplete(failure, words)
            raise CommandError(
                f"nothing changes at {', '.join(reasons)}: run the command again when all brokers are back", TRY_AGAIN
            )

        self._cluster.do(everywhere)

    def do_if_whole(self, work: SessionWork, what: str) -> None:
        """
        Run C{work(session)} if it reaches all brokers.

        @param what: the words for what is not made else.
        @raise CommandError: what C{work} raised; with the status 75, brokers are missing, and it was not run.
        """

        async def checked(session: ClusterSession) -> None:
            reasons = await self.reasons(session)
            if reasons:
                advice = "try again when they are back, or take them out of service: smartgo cluster forget"
                raise CommandError(f"{what} would lack {_listed(reasons)}; {advice}", TRY_AGAIN)
            await work(session)

        self._cluster.do(checked)

    async def reasons(
        self, session: ClusterSession, only: Collection[str] = (), cluster: str | None = None
    ) -> dict[str, str]:
        """
        Return by name, sorted, why brokers cannot be changed.

        @param only: as in L{do}; C{cluster} too.
        """
        places = places_of(await session.admin.asking.cluster())
        memory = await ask_memory(session.env, self._rest, session.client.registries, [one.address for one in places])
        masters = {one.name for one in places if one.id == MASTER}
        whose = {one.name: one.cluster for one in places} | {one.broker: one.cluster for one in memory.missing or ()}
        found = {one.name: "it has no master" for one in places if one.name not in masters}
        found |= LackingBrokers().reasons(memory, {one.name for one in places})
        return {
            name: found[name] for name in sorted(found) if (not only or name in only) and cluster in (None, whose[name])
        }


def _listed(reasons: dict[str, str]) -> str:
    return ", ".join(f"{name} ({why})" for name, why in reasons.items())


def changing_options(function: Callable[..., T]) -> Callable[..., T]:
    """Add the options of connection and REST API to a command; it gets L{ChangingOptions} as its first argument."""
    return options_as(ChangingOptions)(function)
