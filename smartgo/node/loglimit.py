"""
A limit on the log of a process: no peer can make it write lines without end (reliability L1).

Lines are counted by their sentence (the namespace and the format, which are fixed in the code), and besides by the
address of the peer that they are about. A sentence may be written 300 times at once and 5 times a second in the long
run, 60 times and once a second for one peer. A stack counts as 10 lines. What is left out is counted, and that is
written once a minute.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from twisted.logger import ILogObserver, LogEvent, LogLevel
from zope.interface import implementer

from smartgo.net.tokenbuckets import TokenBuckets

RATE, BURST = 5.0, 300.0
"""Lines of one sentence: a second, and at once."""
PEER_RATE, PEER_BURST = 1.0, 60.0
"""The same for one peer."""
STACK: Final = 10.0
"""Lines that a stack counts for."""
SUMMARY: Final = 60.0
"""Seconds between two summaries of what was left out."""

_FORMATS_KEPT: Final = 1024
_NAMED: Final = 8
_PEER_FIELDS: Final = ("peer", "ip", "address")


def _peer(event: LogEvent) -> str | None:
    for name in _PEER_FIELDS:
        value = event.get(name)
        if isinstance(value, str):
            host, colon, port = value.rpartition(":")
            return host if colon and port.isdigit() else value
    return None


@implementer(ILogObserver)
class LogLimit:
    """
    Passes events on, as long as there are not too many.

    @ivar left_out: how many were not, in all.
    """

    def __init__(self, observer: Callable[[LogEvent], Any]) -> None:
        self._observer = observer
        self._by_sentence = TokenBuckets(RATE, BURST, _FORMATS_KEPT)
        self._peers = TokenBuckets(PEER_RATE, PEER_BURST)
        self._missing: dict[tuple[str, str], int] = {}
        self._summary_at: float | None = None
        self.left_out = 0

    def __call__(self, event: LogEvent) -> None:
        """Pass one event on, or count it."""
        now = float(event.get("log_time") or 0.0)
        if self._summary_at is not None and not 0 <= self._summary_at - now <= SUMMARY:
            self._summarize(now)
        failed = event.get("log_failure") is not None
        if event.get("log_level") is LogLevel.critical and not failed:
            self._observer(event)
            return
        sentence = (str(event.get("log_namespace")), str(event.get("log_format")))
        tokens = STACK if failed or "stack" in event else 1.0
        peer = _peer(event)
        if (peer is None or self._peers.take((sentence, peer), now, tokens)) and self._by_sentence.take(
            sentence, now, tokens
        ):
            self._observer(event)
            return
        self.left_out += 1
        if sentence in self._missing or len(self._missing) < _FORMATS_KEPT:
            self._missing[sentence] = self._missing.get(sentence, 0) + 1
        if self._summary_at is None:
            self._summary_at = now + SUMMARY

    def _summarize(self, now: float) -> None:
        missing, self._missing = self._missing, {}
        self._summary_at = None
        most = sorted(missing.items(), key=lambda one: -one[1])[:_NAMED]
        for (namespace, sentence), count in most:
            self._observer(
                {
                    "log_time": now,
                    "log_level": LogLevel.warn,
                    "log_namespace": namespace,
                    "log_format": "{count} more lines like this were not logged: {sentence}",
                    "count": count,
                    "sentence": sentence,
                }
            )
