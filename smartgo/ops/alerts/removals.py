"""Sentences on what retention removed lately: the cause of messages that a group never read."""

from __future__ import annotations

from typing import Final

from smartgo.errors import CallFailed
from smartgo.ops.reading.view import ClusterView, each
from smartgo.ops.web.partial import Missing
from smartgo.schema.bodies import StoreState
from smartgo.schema.moments import utc_text

_AT_ONCE: Final = 4  # brokers


async def removals(view: ClusterView, since_ms: int) -> str:
    """
    Return which masters removed log files since a time, when and why; empty where none says so.

    @param since_ms: wall clock.
    @raise CallFailed: no registry answers.
    """
    asking = view.partial(Missing(), None).admin.brokers
    names = sorted(one.name for one in await view.brokers.get() if one.id == 0)

    async def told(name: str) -> StoreState | None:
        try:
            return await asking.store_state(name)
        except CallFailed:
            return None  # it does not answer, or is one of RocketMQ

    states = zip(names, await each(names, told, _AT_ONCE), strict=True)
    return " ".join(
        f"Broker {name} has removed {state.removed_files:,} log file{'' if state.removed_files == 1 else 's'} since its"
        f" start, the last one at {utc_text(state.last_removed)}: {state.last_why}."
        for name, state in states
        if state is not None and state.last_removed > since_ms
    )
