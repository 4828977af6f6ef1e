"""Which notices a receiver gets, and when."""

from __future__ import annotations

from typing import Any

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from smartgo.config.receivers import AlertReceiver
from smartgo.ops.alerts.notices import KEPT_MS, REFUSALS, Batch, NoticeQueue, SavedDelivery
from smartgo.ops.alerts.rules import RULES
from smartgo.ops.alerts.table import Alert


class QueueCase(SynchronousTestCase):
    """The queue of one receiver, which waits 5 s for more, a minute between messages, an hour to repeat."""

    def setUp(self) -> None:
        self.begin(repeat=3600.0)

    def begin(self, **options: Any) -> None:
        """Make a queue."""
        self.queue = NoticeQueue(AlertReceiver(name="r", kind="slack", **options))
        self.now, self.seconds = 1_000_000_000_000, 100.0
        self.alerts: dict[tuple[str, str], Alert] = {}
        self.silenced: set[tuple[str, str]] = set()

    def fire(self, rule: str, subject: str) -> None:
        """Let an alert fire now."""
        self.alerts[rule, subject] = Alert(rule, subject, "firing", self.now - 1000, 5.0, 7.0, self.now)

    def end(self, rule: str, subject: str) -> None:
        """Let an alert be resolved now."""
        alert = self.alerts[rule, subject]
        alert.state, alert.resolved_ms, alert.value = "resolved", self.now, 0.0

    def look(self, passed: float = 0.0) -> bool:
        """Let time pass, and look."""
        self.now += int(passed * 1000)
        self.seconds += passed
        alerts = {key: (one, RULES[key[0]].severity) for key, one in self.alerts.items()}
        return self.queue.observe(alerts, self.silenced, self.now, self.seconds)

    def take(self, passed: float = 0.0) -> list[tuple[str, str]] | None:
        """Look after a time; return the subjects and states of the message that is due."""
        self.look(passed)
        batch = self.queue.take(self.seconds)
        return None if batch is None else named(batch)

    def tell(self, rule: str, subject: str) -> None:
        """Let an alert fire, and deliver the notice of it."""
        self.fire(rule, subject)
        self.look()
        self.deliver(5)

    def deliver(self, passed: float = 0.0) -> list[tuple[str, str]] | None:
        """Take what is due, and let the receiver take it."""
        taken = self.take(passed)
        if taken is not None:
            self.queue.delivered(self.now, self.seconds)
        return taken

    def break_off(self, passed: float = 0.0, refused: bool = False) -> list[tuple[str, str]] | None:
        """Take what is due, and let that fail."""
        taken = self.take(passed)
        if taken is not None:
            self.queue.failed("it is down", refused, self.now, self.seconds)
        return taken

    def restart(self, passed: float) -> None:
        """Save, and begin anew with what was saved; the monotonic clock begins anew."""
        saved = msgspec.json.decode(msgspec.json.encode(self.queue.saved()), type=SavedDelivery)
        self.queue = NoticeQueue(self.queue.receiver)
        self.now += int(passed * 1000)
        self.seconds = 3.0
        self.queue.restore(saved, self.now, self.seconds)


def named(batch: Batch) -> list[tuple[str, str]]:
    """Subjects and states."""
    return [(one.subject, one.state) for one in batch.notices]


class GroupingTests(QueueCase):
    """Many alerts in one message, and not too many messages."""

    def test_one_message(self) -> None:
        """Alerts of one moment leave together, after the wait."""
        for subject in ("a", "b", "c"):
            self.fire("group-late", subject)
        self.assertTrue(self.look())
        self.fire("broker-down", "broker-a")
        self.assertIsNone(self.take(4.9))
        self.assertEqual(self.deliver(0.1), [("a", "firing"), ("b", "firing"), ("c", "firing"), ("broker-a", "firing")])
        self.assertEqual((self.queue.pending, self.queue.counts.sent, self.queue.last_sent_ms), (0, 1, self.now))
        self.assertFalse(self.look(30))
        self.assertIsNone(self.queue.next_at)

    def test_rate(self) -> None:
        """The next message waits until the interval is over; what comes meanwhile is in it."""
        self.fire("group-late", "a")
        self.look()
        self.assertEqual(self.deliver(5), [("a", "firing")])
        self.fire("group-late", "b")
        self.look(10)
        self.end("group-late", "a")
        self.assertIsNone(self.take(49.9))
        self.assertEqual(self.deliver(0.1), [("b", "firing"), ("a", "resolved")])

    def test_short(self) -> None:
        """What is resolved while it waits for more is not told."""
        self.fire("group-late", "a")
        self.look()
        self.end("group-late", "a")
        self.assertIsNone(self.take(60))
        self.assertEqual(self.queue.pending, 0)

    def test_severity(self) -> None:
        """A receiver of critical alerts gets no others."""
        self.begin(severity="critical")
        self.fire("group-late", "a")
        self.fire("broker-down", "b")
        self.look()
        self.assertEqual(self.deliver(5), [("b", "firing")])

    def test_still(self) -> None:
        """A message knows which other alerts fire that the receiver was told of."""
        self.fire("group-late", "a")
        self.tell("group-late", "b")
        self.end("group-late", "a")
        self.look(60)
        batch = self.queue.take(self.seconds + 5)
        assert batch is not None
        self.assertEqual([one.subject for one in batch.still], ["b"])


class EndTests(QueueCase):
    """Resolved notices, and repeated ones."""

    def test_resolved(self) -> None:
        """The receiver is told of the end once, with the worst value, and of the same alert when it fires again."""
        self.tell("group-late", "a")
        self.end("group-late", "a")
        self.look(60)
        batch = self.queue.take(self.seconds + 5)
        assert batch is not None
        (notice,) = batch.notices
        self.assertEqual((notice.state, notice.resolved_ms, notice.peak), ("resolved", self.now - 60_000, 7.0))
        self.queue.delivered(self.now, self.seconds)
        self.assertIsNone(self.take(600))
        self.fire("group-late", "a")
        self.look()
        self.assertEqual(self.deliver(60), [("a", "firing")])

    def test_forgotten(self) -> None:
        """The end of an alert that the table has forgotten, or of which the rule was disabled, is told too."""
        self.tell("group-late", "a")
        self.alerts.clear()
        self.look(60)
        self.assertEqual(self.deliver(5), [("a", "resolved")])

    def test_unwanted(self) -> None:
        """A receiver that wants no ends is not told of them, and is told when it fires again."""
        self.begin(resolved=False)
        self.tell("group-late", "a")
        self.end("group-late", "a")
        self.assertIsNone(self.take(600))
        self.fire("group-late", "a")
        self.look()
        self.assertEqual(self.deliver(5), [("a", "firing")])

    def test_again(self) -> None:
        """An alert that ended and fires again between two looks is told as a new one."""
        self.tell("group-late", "a")
        self.now += 90_000
        self.seconds += 90
        self.fire("group-late", "a")
        self.look()
        self.assertEqual(self.deliver(5), [("a", "firing")])

    def test_repeat(self) -> None:
        """What fires still is told again after the time to repeat; never where that is 0."""
        self.tell("group-late", "a")
        self.assertIsNone(self.take(3599))
        self.look(1)
        self.assertEqual(self.deliver(5), [("a", "firing")])
        self.begin(repeat=0.0)
        self.tell("group-late", "a")
        self.look(1_000_000)
        self.assertIsNone(self.take(100))


class SilenceTests(QueueCase):
    """Silences."""

    def test_silenced(self) -> None:
        """A silenced alert is told when the silence ends and it fires still."""
        self.fire("group-late", "a")
        self.silenced.add(("group-late", "a"))
        self.assertFalse(self.look())
        self.assertIsNone(self.take(600))
        self.silenced.clear()
        self.look()
        self.assertEqual(self.deliver(5), [("a", "firing")])

    def test_waiting(self) -> None:
        """A notice that waits is taken back by a silence."""
        self.fire("group-late", "a")
        self.look()
        self.silenced.add(("group-late", "a"))
        self.assertIsNone(self.take(60))

    def test_end(self) -> None:
        """The end of an alert that was told is told, although it was silenced since; it is not repeated before."""
        self.tell("group-late", "a")
        self.silenced.add(("group-late", "a"))
        self.assertIsNone(self.take(4000))
        self.end("group-late", "a")
        self.look()
        self.assertEqual(self.deliver(5), [("a", "resolved")])


class RetryTests(QueueCase):
    """Attempts that fail."""

    def test_back_off(self) -> None:
        """The time between attempts doubles up to five minutes; nothing is lost, and new alerts join."""
        self.fire("group-late", "a")
        self.look()
        self.assertEqual(self.break_off(5), [("a", "firing")])
        waits = []
        for _ in range(8):
            due = self.queue.next_at
            assert due is not None
            waits.append(due - self.seconds)
            self.assertEqual(self.break_off(due - self.seconds), [("a", "firing")])
        self.assertEqual(waits, [5, 10, 20, 40, 80, 160, 300, 300])
        self.assertEqual((self.queue.last_error, self.queue.last_error_ms), ("it is down", self.now))
        self.fire("group-late", "b")
        self.assertEqual(self.deliver(300), [("a", "firing"), ("b", "firing")])
        self.assertEqual((self.queue.counts.sent, self.queue.counts.failed, self.queue.last_error), (1, 9, ""))

    def test_resolved(self) -> None:
        """What ends while its notice could not be delivered is told as resolved: the attempts may have come through."""
        self.fire("group-late", "a")
        self.look()
        self.break_off(5)
        self.end("group-late", "a")
        self.assertEqual(self.deliver(10), [("a", "resolved")])
        self.assertIsNone(self.take(600))

    def test_resolved_meanwhile(self) -> None:
        """What ends while its message is being sent is told as resolved by the next one."""
        self.fire("group-late", "a")
        self.look()
        self.assertEqual(self.take(5), [("a", "firing")])
        self.end("group-late", "a")
        self.assertIsNone(self.take(1))
        self.queue.delivered(self.now, self.seconds)
        self.assertEqual(self.deliver(60), [("a", "resolved")])

    def test_refused(self) -> None:
        """A message that the receiver refuses is given up after some attempts; the next alert is tried."""
        self.fire("group-late", "a")
        self.look()
        for _ in range(REFUSALS):
            self.assertEqual(self.break_off(400, refused=True), [("a", "firing")])
        self.assertEqual((self.queue.pending, self.queue.counts.dropped), (0, 1))
        self.assertIsNone(self.take(400))
        self.fire("group-late", "b")
        self.look()
        self.assertEqual(self.deliver(400), [("b", "firing")])

    def test_refused_after_outage(self) -> None:
        """Attempts that did not reach the receiver are no refusals: a message is not given up at its first one."""
        self.fire("group-late", "a")
        self.look()
        for _ in range(REFUSALS):
            self.break_off(400)
        for _ in range(REFUSALS - 1):
            self.assertEqual(self.break_off(400, refused=True), [("a", "firing")])
        self.assertEqual((self.queue.pending, self.queue.counts.dropped), (1, 0))
        self.break_off(400, refused=True)
        self.assertEqual((self.queue.pending, self.queue.counts.dropped), (0, 1))

    def test_too_old(self) -> None:
        """A notice that could not be delivered for a day is given up."""
        self.fire("group-late", "a")
        self.look()
        self.break_off(5)
        self.look(KEPT_MS / 1000 + 1)
        self.assertEqual((self.queue.pending, self.queue.counts.dropped), (0, 1))


class RestartTests(QueueCase):
    """What survives a restart."""

    def test_pending(self) -> None:
        """An undelivered notice is sent after the restart, with the state of delivery; after a day it is given up."""
        self.fire("group-late", "a")
        self.look()
        self.break_off(5)
        self.restart(60)
        self.assertEqual(self.queue.last_error, "it is down")
        self.look()
        self.assertEqual(self.deliver(5), [("a", "firing")])
        self.fire("group-late", "b")
        self.look()
        self.break_off(60)
        self.end("group-late", "a")
        self.look()
        self.break_off(60)
        self.restart(KEPT_MS / 1000 + 1)
        self.look()
        self.assertEqual((self.queue.pending, self.queue.counts.dropped), (0, 2))

    def test_told(self) -> None:
        """What was told is not told again, is repeated in time, and its end is told."""
        self.tell("group-late", "a")
        self.restart(1800)
        self.assertIsNone(self.take(1700))
        self.look(100)
        self.assertEqual(self.deliver(5), [("a", "firing")])
        self.restart(10)
        self.end("group-late", "a")
        self.look()
        self.assertEqual(self.deliver(5), [("a", "resolved")])

    def test_unknown_rule(self) -> None:
        """Notices of rules that no longer exist are left out."""
        self.tell("group-late", "a")
        saved = self.queue.saved()
        gone = msgspec.structs.replace(saved.told[0], rule="no-more")
        self.queue.restore(SavedDelivery([gone], [gone]), self.now, self.seconds)
        self.assertEqual(self.queue.pending, 0)
        self.alerts.clear()
        self.assertIsNone(self.take(60))
