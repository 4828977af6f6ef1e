"""
Queues of the notices of alerts: one state machine for each receiver, without a clock or a socket.

A notice is wanted when an alert fires that the receiver was not told of, when one that it was told of is resolved, and
when one still fires after the receiver's C{repeat}. Wanted notices wait for more (C{wait}) and for the receiver's least
time between two messages (C{interval}), then all of them leave in one L{Batch}. An attempt that fails is repeated after
a time that doubles from L{FIRST_RETRY} to L{LAST_RETRY} seconds, until a notice is L{KEPT_MS} old, or the receiver
refused it L{REFUSALS} times.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from smartgo.config.receivers import AlertReceiver
from smartgo.ops.alerts.rules import RULES, Severity
from smartgo.ops.alerts.table import Alert

FIRST_RETRY: Final = 5.0
LAST_RETRY: Final = 300.0
KEPT_MS: Final = 24 * 3600 * 1000
"""Age of a notice, over restarts too, at which it is given up; wall clock."""
REFUSALS: Final = 5
"""Attempts after which a message is given up that the receiver itself refuses: a repetition does not mend it."""

Key = tuple[str, str]
"""Rule and subject of an alert."""


class Notice(msgspec.Struct, frozen=True, rename="camel"):
    """
    One alert as a receiver is told of it.

    @ivar state: C{firing} or C{resolved}.
    @ivar resolved_ms: when it was resolved; C{None} while it fires.
    @ivar wanted_ms: since when the notice waits to be sent, wall clock.
    @ivar sent_ms: when the receiver took it; 0: not yet, or it was given up.
    @ivar detail: what was known of the subject when the notice was made, in sentences; may be empty.
    """

    rule: str
    subject: str
    severity: Severity
    state: Literal["firing", "resolved"]
    since_ms: int
    fired_ms: int
    resolved_ms: int | None
    value: float
    peak: float
    wanted_ms: int
    sent_ms: int = 0
    detail: str = ""

    @property
    def key(self) -> Key:
        """Rule and subject."""
        return self.rule, self.subject


class Batch(NamedTuple):
    """
    The notices of one message.

    @ivar still: alerts that the receiver was told of before and that fire still, without those in C{notices}.
    """

    notices: Sequence[Notice]
    still: Sequence[Notice] = ()


class DeliveryCounts(msgspec.Struct):
    """
    Messages of a receiver since the start.

    @ivar sent: those that it took.
    @ivar failed: attempts that failed.
    @ivar dropped: notices that were given up.
    """

    sent: int = 0
    failed: int = 0
    dropped: int = 0


class SavedDelivery(msgspec.Struct, rename="camel"):
    """
    The delivery of one receiver, as it is kept over a restart.

    @ivar told: alerts that it was told fire, and was not told are resolved.
    @ivar pending: notices to send.
    """

    told: list[Notice]
    pending: list[Notice]
    last_sent_ms: int | None = None
    last_error: str = ""
    last_error_ms: int | None = None


class NoticeQueue:
    """
    The notices of one receiver. Times are seconds of a monotonic clock, and milliseconds of the wall clock for people.

    @ivar receiver: its declaration.
    @ivar counts: messages since the start.
    @ivar last_sent_ms: when it took a message for the last time; C{None}: never.
    @ivar last_error: why the last attempt failed; empty after one that did not. C{last_error_ms} is when.
    """

    def __init__(self, receiver: AlertReceiver) -> None:
        self.receiver = receiver
        self.counts = DeliveryCounts()
        self.last_sent_ms: int | None = None
        self.last_error = ""
        self.last_error_ms: int | None = None
        self._told: dict[Key, Notice] = {}
        self._told_at: dict[Key, float] = {}
        self._pending: dict[Key, Notice] = {}
        self._in_flight: Batch | None = None
        self._tried: set[Key] = set()  # pending ones that an attempt may have brought to the receiver
        self._attempts = 0
        self._refusals = 0  # of the attempts, those that the receiver itself refused
        self._due = 0.0  # when the pending ones may leave
        self._last_attempt = float("-inf")

    # -- what is wanted ----------------------------------------------------------------------------------------

    @property
    def pending(self) -> int:
        """The number of notices that are not delivered yet."""
        return len(self._pending)

    def observe(
        self, alerts: Mapping[Key, tuple[Alert, Severity]], silenced: Collection[Key], now_ms: int, seconds: float
    ) -> bool:
        """
        Compare the alerts with what the receiver was told; return whether anything changed that is to be kept.

        @param alerts: all that fire, with their severity, and those resolved not long ago.
        @param silenced: of those, the ones that call nobody: nothing is sent of them until that ends, but the receiver
            is told of the end of an alert that it was told of.
        """
        before = dict(self._pending), len(self._told)
        firing = {
            key: alert
            for key, (alert, severity) in alerts.items()
            if alert.state == "firing" and (severity == "critical" or self.receiver.severity == "warning")
        }
        for key, alert in firing.items():
            self._observe_firing(key, alert, alerts[key][1], key in silenced, now_ms, seconds)
        for key in [key for key in self._pending if key not in firing and self._pending[key].state == "firing"]:
            if key in self._tried and self.receiver.resolved:
                self._want(self._ended(self._pending[key], alerts, now_ms), seconds)
            else:
                del self._pending[key]
        for key in [key for key in self._told if key not in firing and key not in self._pending]:
            if self.receiver.resolved:
                self._want(self._ended(self._told[key], alerts, now_ms), seconds)
            else:
                self._forget(key)
        self._expire(now_ms, seconds)
        return before != (self._pending, len(self._told))

    def _observe_firing(
        self, key: Key, alert: Alert, severity: Severity, silenced: bool, now_ms: int, seconds: float
    ) -> None:
        pending, told = self._pending.get(key), self._told.get(key)
        if pending is not None and pending.state == "firing":
            if silenced and key not in self._tried:
                del self._pending[key]
            return
        if silenced:
            return
        known = told is not None and told.fired_ms == alert.fired_ms
        repeat = self.receiver.repeat
        if known and pending is None and not (repeat and seconds - self._told_at[key] >= repeat):
            return
        self._want(
            Notice(
                alert.rule, alert.subject, severity, "firing", alert.since_ms, alert.fired_ms or now_ms, None,
                alert.value, alert.peak, now_ms, detail=alert.detail,
            ),
            seconds,
        )  # fmt: skip

    def _ended(self, notice: Notice, alerts: Mapping[Key, tuple[Alert, Severity]], now_ms: int) -> Notice:
        """Return the notice of the end of an alert, which the table of alerts may have forgotten already."""
        found = alerts.get(notice.key)
        alert = None if found is None else found[0]
        known = alert is not None and alert.state == "resolved" and alert.fired_ms == notice.fired_ms
        return msgspec.structs.replace(
            notice,
            state="resolved",
            resolved_ms=(alert.resolved_ms if known and alert is not None else None) or now_ms,
            value=alert.value if known and alert is not None else notice.value,
            peak=max(notice.peak, alert.peak) if known and alert is not None else notice.peak,
            wanted_ms=now_ms,
            sent_ms=0,
        )

    def _want(self, notice: Notice, seconds: float) -> None:
        if not self._pending:
            self._due = max(self._due, seconds + self.receiver.wait)
        self._pending[notice.key] = notice

    def _forget(self, key: Key) -> None:
        self._told.pop(key, None)
        self._told_at.pop(key, None)

    def _expire(self, now_ms: int, seconds: float) -> None:
        flying = set() if self._in_flight is None else set(self._in_flight.notices)
        for notice in list(self._pending.values()):
            if now_ms - notice.wanted_ms > KEPT_MS and notice not in flying:
                self._drop(notice, seconds)

    def _drop(self, notice: Notice, seconds: float) -> None:
        """Give up a notice; one of a firing alert is wanted again after C{repeat}."""
        self.counts.dropped += 1
        self._conclude(notice, seconds)

    def _conclude(self, notice: Notice, seconds: float) -> None:
        if self._pending.get(notice.key) is notice:
            del self._pending[notice.key]
        self._tried.discard(notice.key)
        if notice.state == "firing":
            self._told[notice.key] = notice
            self._told_at[notice.key] = seconds
        else:
            self._forget(notice.key)

    # -- sending -----------------------------------------------------------------------------------------------

    @property
    def next_at(self) -> float | None:
        """Time at which the next message is due; C{None}: nothing waits, or a message is being sent."""
        if not self._pending or self._in_flight is not None:
            return None
        return max(self._due, self._last_attempt + self.receiver.interval if not self._attempts else self._due)

    def take(self, seconds: float) -> Batch | None:
        """Return the message that is due, if any; L{delivered} or L{failed} must follow."""
        due = self.next_at
        if due is None or seconds < due:
            return None
        notices = list(self._pending.values())
        still = [one for key, one in self._told.items() if key not in self._pending]
        self._in_flight = Batch(notices, still)
        self._tried.update(one.key for one in notices)
        self._last_attempt = seconds
        return self._in_flight

    def delivered(self, now_ms: int, seconds: float) -> None:
        """Note that the receiver took the message."""
        batch = self._end_flight()
        for notice in batch.notices:
            if self._pending.get(notice.key) is notice:
                del self._pending[notice.key]
                self._conclude(msgspec.structs.replace(notice, sent_ms=now_ms), seconds)
            elif notice.state == "firing":  # resolved while it was being sent
                self._told[notice.key] = msgspec.structs.replace(notice, sent_ms=now_ms)
                self._told_at[notice.key] = seconds
            else:
                self._forget(notice.key)
        self.counts.sent += 1
        self.last_sent_ms = now_ms
        self.last_error, self.last_error_ms = "", None
        self._attempts = self._refusals = 0
        self._due = seconds

    def failed(self, error: str, refused: bool, now_ms: int, seconds: float) -> None:
        """
        Note that the message was not delivered.

        @param refused: the receiver itself refused it, so that the same message will be refused again.
        """
        batch = self._end_flight()
        self.counts.failed += 1
        self.last_error, self.last_error_ms = error, now_ms
        self._attempts += 1
        self._due = seconds + min(LAST_RETRY, FIRST_RETRY * 2 ** min(self._attempts - 1, 16))
        self._refusals += refused
        if refused and self._refusals >= REFUSALS:
            for notice in batch.notices:
                self._drop(notice, seconds)
            self._attempts = self._refusals = 0

    def _end_flight(self) -> Batch:
        batch, self._in_flight = self._in_flight, None
        if batch is None:
            raise AssertionError("no message is being sent")
        return batch

    # -- keeping it --------------------------------------------------------------------------------------------

    def saved(self) -> SavedDelivery:
        """Return what is kept over a restart."""
        return SavedDelivery(
            list(self._told.values()), list(self._pending.values()), self.last_sent_ms, self.last_error,
            self.last_error_ms,
        )  # fmt: skip

    def restore(self, saved: SavedDelivery, now_ms: int, seconds: float) -> None:
        """Load what was kept; any pending notice may have reached the receiver before the restart."""
        self._told = {one.key: one for one in saved.told if one.rule in RULES}
        self._told_at = {
            key: seconds - max(0, now_ms - (one.sent_ms or one.wanted_ms)) / 1000 for key, one in self._told.items()
        }
        self._pending = {one.key: one for one in saved.pending if one.rule in RULES}
        self._tried = set(self._pending)
        self._due = seconds + self.receiver.wait
        self.last_sent_ms = saved.last_sent_ms
        self.last_error, self.last_error_ms = saved.last_error, saved.last_error_ms
