"""Completion of names in the shell: topics, groups and brokers, as the cluster of the command has them; contexts."""

from __future__ import annotations

import io
from collections.abc import Callable, Coroutine, Iterable
from contextlib import redirect_stderr, suppress
from typing import Any, Final

import click
from click.shell_completion import CompletionItem
from twisted.internet import defer
from twisted.internet.defer import Deferred

from smartgo.cli.support.contextfile import load_contexts
from smartgo.cli.support.session import ClusterOptions, ClusterSession, do
from smartgo.client.administration.groups import BUILT_IN
from smartgo.client.administration.topics import TopicKind, kind_of
from smartgo.env.interfaces import IEnvironment

TIMEOUT: Final = 1.5
"""Seconds that a person who pressed the Tab key is kept waiting."""

Question = Callable[[ClusterSession], Coroutine[Deferred[Any], Any, Iterable[str]]]
Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _of_cluster(question: Question) -> Completer:
    """Return what completes a parameter with names that a cluster is asked for; with nothing if it does not answer."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        found: list[str] = []

        async def work(session: ClusterSession) -> None:
            asked = Deferred.fromCoroutine(question(session)).addTimeout(TIMEOUT, session.env.clock)
            with suppress(defer.TimeoutError):
                found.extend(await asked)

        options = ClusterOptions.given(dict(context.params))
        with context.scope(cleanup=False), redirect_stderr(io.StringIO()), suppress(click.ClickException):
            options.do(work)
        return _beginning(found, incomplete)

    return complete


def _beginning(names: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in sorted(set(names)) if name.startswith(incomplete)]


async def _topics(session: ClusterSession) -> Iterable[str]:
    topics = session.admin.topics
    system = await topics.system_names()
    return [name for name in await topics.names() if kind_of(name, system) is TopicKind.NORMAL]


async def _groups(session: ClusterSession) -> Iterable[str]:
    return [name for name in await session.admin.groups.names() if name not in BUILT_IN]


async def _brokers(session: ClusterSession) -> Iterable[str]:
    return [place.name for place in await session.admin.brokers.places()]


topic_names: Final = _of_cluster(_topics)
"""Completes a topic."""
group_names: Final = _of_cluster(_groups)
"""Completes a consumer group."""
broker_names: Final = _of_cluster(_brokers)
"""Completes a broker."""


def context_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the name of a context in the user's file."""
    found: list[str] = []

    async def work(env: IEnvironment) -> None:
        found.extend(load_contexts(env).contexts)

    with context.scope(cleanup=False), suppress(click.ClickException):
        do(work)
    return _beginning(found, incomplete)
