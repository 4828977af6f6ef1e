"""
The lag of a stream over topics, as Spark's Kafka source reports it.

Spark takes metrics from sources in the JVM alone: neither Spark 4.3 nor an earlier one asks a Python source for any
(C{PythonMicroBatchStream} is no C{ReportsSourceMetrics}). But a progress report has the offsets of the micro-batch and
the ends of the queues, and the lag is the difference.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from smartgo.errors import SettingError
from smartgo.spark.network.offsetforms import from_json

_log: Final = logging.getLogger("smartgo.spark")


def offsets_behind_latest(progress: Any) -> dict[str, str]:
    """
    Return the lag that a progress report tells: messages that were there and not read yet, over all queues.

    @param progress: C{query.lastProgress}, C{event.progress}, or one of its C{sources}.
    @return: C{minOffsetsBehindLatest}, C{maxOffsetsBehindLatest} and C{avgOffsetsBehindLatest} of queues, the names and
        the form of Kafka's source, and C{offsetsBehindLatest}, the sum; empty without a source over topics.
    """
    sources = _part(progress, "sources")
    behind: list[int] = []
    for source in [progress] if sources is None else sources:
        try:
            ends, latest = (from_json(_offset(_part(source, name))) for name in ("endOffset", "latestOffset"))
        except (SettingError, ValueError):
            continue
        behind += [max(0, last - ends[queue]) for queue, last in latest.items() if queue in ends]
    if not behind:
        return {}
    return {
        "minOffsetsBehindLatest": str(min(behind)),
        "maxOffsetsBehindLatest": str(max(behind)),
        "avgOffsetsBehindLatest": str(sum(behind) / len(behind)),
        "offsetsBehindLatest": str(sum(behind)),
    }


def _part(report: Any, name: str) -> Any:
    return report.get(name) if isinstance(report, Mapping) else getattr(report, name, None)


def _offset(value: Any) -> Any:
    """Return an offset, which Spark gives as a text or as what the text says. @raise ValueError: it is neither."""
    found = json.loads(value) if isinstance(value, str) else value
    if not isinstance(found, Mapping):
        raise ValueError(f"{value!r} is no offset")
    return found


class LagListener(StreamingQueryListener):
    """
    A listener that logs the lag of streams over topics with each progress report: C{spark.streams.addListener}.

    @ivar lag: what L{offsets_behind_latest} said last, by the id of the query.
    """

    def __init__(self) -> None:
        self.lag: dict[str, dict[str, str]] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing: nothing was read."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Log the lag."""
        found = offsets_behind_latest(event.progress)
        if found:
            self.lag[str(event.progress.id)] = found
            _log.info("query %s: %s", event.progress.name or event.progress.id, found)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Do nothing: the last report holds."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Forget the query."""
        self.lag.pop(str(event.id), None)
