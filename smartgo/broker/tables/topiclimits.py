"""
Limits on the number of topics: in all, and created from one address (reliability L18).

Topics of sends, topics of administrators, and retry and dead letter topics are counted apart: none of them takes the
room of another.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from smartgo.broker.settings.current import CurrentSettings
from smartgo.broker.tables.shares import source_of
from smartgo.env.interfaces import IClock
from smartgo.errors import RequestRefused
from smartgo.net.tokenbuckets import TokenBuckets
from smartgo.remoting.interfaces import IPeer
from smartgo.remoting.origin import is_local
from smartgo.schema.topics import DLQ_PREFIX, RETRY_PREFIX, TOO_MANY_NEW

_BURST: Final = 1000
"""Topics that an administrator who is not on this machine may create at once."""
_KEYS: Final = 65_536  # addresses that are remembered


def of_group(topic: str) -> bool:
    """Tell whether a topic belongs to a consumer group: its retry topic, or that of its dead letters."""
    return topic.startswith((RETRY_PREFIX, DLQ_PREFIX))


class TopicRoom:
    """
    The limits on the topics of one broker, in all and by address.

    @ivar explicit: the topics that administrators created.
    """

    def __init__(self, clock: IClock, settings: CurrentSettings) -> None:
        self._settings = settings
        per_second = settings.limits.max_topics_per_second  # of one address; those of this machine are not counted
        self.explicit: dict[str, None] = {}
        self._clock = clock
        self._sends = TokenBuckets(per_second, per_second, _KEYS)
        self._administrators = TokenBuckets(per_second, max(_BURST, per_second), _KEYS)
        self._ordinary = 0
        self._of_groups = 0

    @property
    def limit(self) -> int:
        """The number of topics that sends may create; administrators may create the same number in addition."""
        return self._settings.limits.max_topics

    @property
    def group_limit(self) -> int:
        """The maximum number of retry and dead letter topics."""
        return 2 * self._settings.limits.max_groups

    def count(self, topic: str, by: int) -> None:
        """Count a topic that came (1) or went (-1), unless it is one of the broker's own."""
        if of_group(topic):
            self._of_groups += by
        else:
            self._ordinary += by
        if by < 0:
            self.explicit.pop(topic, None)

    def clear(self) -> None:
        """Forget all counts."""
        self._ordinary = self._of_groups = 0
        self.explicit.clear()

    def admit_send(self, topic: str, peer: IPeer) -> None:
        """
        Admit a topic that a send creates.

        @raise RequestRefused: too many topics, or too many at once from this address.
        """
        if of_group(topic):
            self.admit_group(topic)
        elif self._ordinary - len(self.explicit) >= self.limit:
            raise RequestRefused(f"topic[{topic}] is not created: there are {self.limit} topics already")
        if not is_local(peer) and not self._sends.take(source_of(peer.address), self._clock.seconds()):
            raise RequestRefused(f"topic[{topic}] is not created: {TOO_MANY_NEW}")

    def admit_group(self, topic: str) -> None:
        """Admit a new retry or dead letter topic. @raise RequestRefused: there are too many."""
        if self._of_groups >= self.group_limit:
            raise RequestRefused(f"topic[{topic}] is not created: more than {self.group_limit} topics of groups")

    def _admits(self, administrator: IPeer, count: int) -> bool:
        """Tell whether an address may create C{count} topics now, all or none."""
        rate = self._administrators
        return count <= rate.burst and rate.take(source_of(administrator.address), self._clock.seconds(), count)

    def admit(self, topics: Collection[str], peer: IPeer | None) -> None:
        """
        Admit new topics of an administrator, all or none; they count from now on.

        @param peer: who asks; C{None}: the broker itself.
        @raise RequestRefused: too many topics, or too many at once from this address.
        """
        ordinary = [topic for topic in topics if not of_group(topic)]
        first = next(iter(topics), "")
        group_topics = len(topics) - len(ordinary)
        if group_topics and self._of_groups + group_topics > self.group_limit:
            raise RequestRefused(f"topic[{first}] is not created: more than {self.group_limit} topics of groups")
        if ordinary and len(self.explicit) + len(ordinary) > self.limit:
            raise RequestRefused(
                f"topic[{first}] is not created: administrators may create {self.limit} topics (maxTopics)"
            )
        limited = topics and peer is not None and not is_local(peer)
        if limited and peer is not None and not self._admits(peer, len(topics)):
            raise RequestRefused(
                f"topic[{first}] is not created: one address may create {self._administrators.burst} topics at once,"
                " and then some a second; try again"
            )
        self.explicit.update(dict.fromkeys(ordinary))
