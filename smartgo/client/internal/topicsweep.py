"""
Search of a message whose topic is unknown: the indexes of many topics, some at a time, within a bound.

Brokers file messages by topic and key (docs/spec/search), so that each topic is a question of its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final, NamedTuple

from twisted.internet.defer import Deferred, FirstError, gatherResults

from smartgo.client.administration.topics import TopicKind, kind_of
from smartgo.client.internal.records import FoundMessage
from smartgo.errors import PeerRefused

SWEPT: Final = 500
"""Topics that are searched, at most."""
AT_ONCE: Final = 16

_KINDS: Final = (TopicKind.NORMAL, TopicKind.RETRY, TopicKind.DEAD, TopicKind.SYSTEM)


class Swept(NamedTuple):
    """
    The result of a sweep.

    @ivar messages: the newest last.
    @ivar searched: topics that were searched; C{topics} that there are.
    @ivar likeliest: the oldest message of the first topic that has one, in the order of the sweep: an application's
        message is that rather than the half message of its transaction; C{None} for no message.
    """

    messages: list[FoundMessage]
    searched: int
    topics: int
    likeliest: FoundMessage | None = None


def in_order(names: Collection[str], system: Collection[str] = ()) -> list[str]:
    """Return names of topics in the order of a sweep: of applications first, then of retries, dead letters, systems."""
    return sorted(names, key=lambda name: (_KINDS.index(kind_of(name, system)), name))


async def sweep(
    topics: Sequence[str],
    search: Callable[[str], Awaitable[list[FoundMessage]]],
    enough: int = 1,
    go_on: Callable[[], bool] = lambda: True,
) -> Swept:
    """
    Search topics, a few at a time, until enough messages are found, or the bound or time is over.

    @param search: returns the messages of one topic.
    @param go_on: tells before each few topics whether there is time for more.
    @raise CallFailed: what C{search} raised first, but that a broker declined to search one topic.
    """
    found: list[FoundMessage] = []
    searched = 0
    for first in range(0, min(len(topics), SWEPT), AT_ONCE):
        few = topics[first : min(first + AT_ONCE, SWEPT)]
        if len(found) >= enough or not go_on():
            break
        asked = [Deferred.fromCoroutine(_of(search, topic)) for topic in few]
        try:
            for messages in await gatherResults(asked, consumeErrors=True):
                found += messages
        except FirstError as error:
            error.subFailure.raiseException()
        searched += len(few)
    in_time = sorted(found, key=lambda one: one.stored.stored_ms)
    return Swept(in_time, searched, len(topics), found[0] if found else None)


async def _of(search: Callable[[str], Awaitable[list[FoundMessage]]], topic: str) -> list[FoundMessage]:
    try:
        return await search(topic)
    except PeerRefused:
        return []  # one topic that cannot be searched does not hide what others have
