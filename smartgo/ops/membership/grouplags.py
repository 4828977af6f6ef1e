"""The lag of groups at each broker, as it was counted last: what waits for a group once its broker is missing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

GROUPS: Final = 1000
"""Groups of one broker whose lag is remembered, those with the most messages that wait."""


class BrokerLags(msgspec.Struct, rename="camel"):
    """
    The messages that waited for groups at a broker, as they were counted for the last time.

    @ivar groups: by group; at most L{GROUPS}.
    @ivar counted_ms: when that was, wall clock.
    """

    groups: dict[str, int]
    counted_ms: int


class UnreachableLag(msgspec.Struct, rename="camel", frozen=True):
    """
    The messages that wait for a group at a broker of which no process answers.

    @ivar messages: as they were counted last; null: they were never counted.
    @ivar counted_ms: when that was, wall clock; null: never.
    """

    broker: str
    messages: int | None
    counted_ms: int | None


class GroupLags:
    """The lag of groups by broker. Sans I/O, without a clock."""

    def __init__(self) -> None:
        self._lags: dict[str, BrokerLags] = {}

    def counted(
        self, lags: Mapping[str, Mapping[str, int] | None], now_ms: int, told_all: Collection[str] = ()
    ) -> None:
        """
        Take how many messages wait for each group at the brokers that answered.

        @param lags: by group, then by broker; all groups that there are, C{None} for one that could not be measured.
        @param now_ms: wall clock.
        @param told_all: the brokers that told of all groups: one that is not in C{lags} has nothing there any more. A
            broker that dies meanwhile does not tell all.
        """
        found: dict[str, dict[str, int]] = {broker: {} for broker in told_all}
        for group, brokers in lags.items():
            for broker, messages in (brokers or {}).items():
                found.setdefault(broker, {})[group] = messages
        for broker, answered in found.items():
            known = self._lags.get(broker, BrokerLags({}, 0)).groups
            stays = (group for group in known if group in lags and (broker not in told_all or lags[group] is None))
            groups = {**{group: known[group] for group in stays}, **answered}
            kept = sorted(groups, key=lambda group: (-groups[group], group))[:GROUPS]
            self._lags[broker] = BrokerLags({group: groups[group] for group in kept}, now_ms)

    def waiting(self, group: str, brokers: Iterable[str]) -> list[UnreachableLag]:
        """Return what waits for a group at some brokers, by broker, without those where nothing does."""
        found = []
        for name in sorted(brokers):
            known = self._lags.get(name)
            if known is None:
                found.append(UnreachableLag(name, None, None))
            elif known.groups.get(group):
                found.append(UnreachableLag(name, known.groups[group], known.counted_ms))
        return found

    def forget(self, broker: str) -> None:
        """Forget a broker."""
        self._lags.pop(broker, None)

    def put_back(self, broker: str, lags: BrokerLags) -> None:
        """Remember a broker again, unless it was counted since."""
        self._lags.setdefault(broker, lags)

    def saved(self) -> dict[str, BrokerLags]:
        """Return what to save, by broker."""
        return dict(self._lags)

    def restore(self, saved: Mapping[str, BrokerLags]) -> None:
        """Load what was saved."""
        self._lags = dict(saved)
