"""States of alerts: pending, firing, resolved; silences; what was; what an operator set."""

from __future__ import annotations

from typing import Any

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import BadBody
from smartgo.health.snapshot import ClusterSnapshot
from smartgo.ops.alerts import table
from smartgo.ops.alerts.rules import Rule
from smartgo.ops.alerts.silences import PROCESS, SILENCES
from smartgo.ops.alerts.table import HISTORY, RESOLVED_MS, AlertTable, RuleAdjustment, read_saved

RULES = {
    one.name: one
    for one in (
        Rule("hot", "critical", 10, 5, "count", "broker", lambda look: look.gone, "Cool it."),
        Rule("follows", "warning", 0, 0, "state", "broker", lambda look: look.masterless, "See hot.", cause="hot"),
        Rule("grows", "warning", 0, 3, "count", "group", lambda look: look.process, "Stop it.", window=60, cause="hot"),
    )
}


class TableTests(SynchronousTestCase):
    """A table of two rules."""

    def setUp(self) -> None:
        self.table = AlertTable(RULES)
        self.now = 1_000_000_000_000
        self.seconds = 50.0

    def look(self, passed: float = 0.0, **values: Any) -> list[tuple[str, str]]:
        """Look at values of the first rule after so many seconds; return what became of alerts."""
        return self.take(ClusterSnapshot(gone=values), passed)

    def take(self, look: ClusterSnapshot, passed: float = 0.0) -> list[tuple[str, str]]:
        """Take a look."""
        self.now += int(passed * 1000)
        self.seconds += passed
        events = self.table.observe(look, self.now, self.seconds)
        return [(one.alert.subject, one.state) for one in events]

    def states(self) -> dict[str, str]:
        """All alerts of the first rule."""
        return {one.subject: one.state for one in self.table.alerts() if one.rule == "hot"}

    def test_cause(self) -> None:
        """An alert that follows from one that fires does not count; from one that is pending or over, it does."""

        def caused() -> tuple[list[str], int, int]:
            summary = self.table.summary(self.now)
            return (
                [one.cause for one in self.table.alerts() if one.rule == "follows"],
                summary.critical,
                summary.warning,
            )

        def take(passed: float, hot: float) -> None:
            look = ClusterSnapshot(
                gone={"a": hot}, masterless={"a": 1.0, "b": 1.0}, details={("hot", "a"): f"It has {hot:.0f} degrees."}
            )
            self.take(look, passed)

        take(0, 6)
        self.assertEqual(caused(), (["", ""], 0, 2))
        take(10, 7)
        self.assertEqual(caused(), (["hot", ""], 1, 1))
        self.assertEqual(next(one.detail for one in self.table.alerts() if one.rule == "hot"), "It has 7 degrees.")
        take(1, 0)
        self.assertEqual(caused(), (["", ""], 0, 2))

    def test_grew_meanwhile(self) -> None:
        """Growth while another alert fired follows from that, until the rule's window is over: then it went on."""

        def take(passed: float, hot: float, count: float) -> list[str]:
            self.take(ClusterSnapshot(gone={"a": hot}, process={"a": count}), passed)
            return [one.cause for one in self.table.alerts() if one.rule == "grows" and one.state == "firing"]

        take(0, 6, 0)
        take(10, 6, 0)
        self.assertEqual(take(5, 6, 9), ["hot"])
        self.assertEqual(take(5, 0, 9), ["hot"])
        self.assertEqual(take(50, 0, 20), ["hot"])
        self.assertEqual(take(10, 0, 20), [""])

    def test_silenced_process(self) -> None:
        """An alert without a subject is about the process: it is silenced by its names, and by no other subject."""
        self.table = AlertTable(RULES, lambda: ["broker-a"])
        self.look(**{"": 6})
        (alert,) = self.table.alerts()
        for subject, expected in ((PROCESS, True), ("broker-a", True), ("broker-b", False), ("", True)):
            made = self.table.add_silence("hot", subject, self.now + 1000, "boss", self.now, "")
            self.assertEqual(self.table.silence_of(alert, self.now) is not None, expected, subject)
            self.table.end_silence(made.id)

    def test_life(self) -> None:
        """A subject above the threshold is pending, fires after the rule's time, and is resolved when it is not."""
        self.assertEqual((self.look(a=6), self.states()), ([], {"a": "pending"}))
        self.assertEqual((self.look(9.9, a=9), self.states()), ([], {"a": "pending"}))
        self.assertEqual((self.look(0.1, a=7), self.states()), ([("a", "firing")], {"a": "firing"}))
        (alert,) = self.table.alerts()
        self.assertEqual((alert.value, alert.peak, alert.since_ms), (7, 9, self.now - 10_000))
        self.assertEqual(
            (self.look(5, a=8), self.look(5, a=5), self.states()), ([], [("a", "resolved")], {"a": "resolved"})
        )
        self.look(RESOLVED_MS / 1000 - 1, a=5)
        self.assertEqual(self.states(), {"a": "resolved"})
        self.look(1, a=5)
        self.assertEqual(self.states(), {})

    def test_break(self) -> None:
        """Time counts from the last break: what is well in between begins anew, and is no word worth."""
        self.look(a=6)
        self.assertEqual((self.look(9, a=5), self.states()), ([], {}))
        self.look(1, a=6)
        self.assertEqual((self.look(9, a=6), self.states()), ([], {"a": "pending"}))

    def test_again(self) -> None:
        """One that was resolved and breaks its rule again is pending again."""
        self.look(a=6)
        self.look(10, a=6)
        self.look(1, a=0)
        self.look(1, a=6)
        self.assertEqual(self.states(), {"a": "pending"})
        self.assertEqual(self.look(10, a=6), [("a", "firing")])
        self.assertEqual([one.resolved_ms is None for one in self.table.history], [False, True])

    def test_gone(self) -> None:
        """A subject that is there no more breaks nothing."""
        self.look(a=6, b=6)
        self.look(10, a=6, b=6)
        self.assertEqual(self.look(1, b=6), [("a", "resolved")])

    def test_not_looked_at(self) -> None:
        """A look that did not see something leaves it as it is."""
        self.look(a=6)
        self.assertEqual((self.take(ClusterSnapshot(), 20), self.states()), ([], {"a": "pending"}))
        self.assertEqual(self.look(0, a=6), [("a", "firing")])
        self.assertEqual((self.take(ClusterSnapshot(), 20), self.states()), ([], {"a": "firing"}))

    def test_clock_set(self) -> None:
        """However the wall clock is set, an alert fires when its time has passed."""
        self.look(a=6)
        self.now -= 3_600_000
        self.assertEqual(self.look(5, a=6), [])
        self.now += 7_200_000
        self.assertEqual(self.look(4, a=6), [])
        self.assertEqual(self.look(1, a=6), [("a", "firing")])

    def test_growth(self) -> None:
        """A rule with a window looks at growth: it fires while that is above the threshold, without waiting."""
        self.assertEqual(self.take(ClusterSnapshot(process={"g": 100})), [])
        self.assertEqual(self.take(ClusterSnapshot(process={"g": 103}), 10), [])
        self.assertEqual(self.take(ClusterSnapshot(process={"g": 104}), 10), [("g", "firing")])
        self.assertEqual(self.take(ClusterSnapshot(process={"g": 104}), 40), [])
        self.assertEqual(self.take(ClusterSnapshot(process={"g": 104}), 20), [("g", "resolved")])

    def test_history(self) -> None:
        """What fired is remembered with its worst value and its end; the oldest are forgotten."""
        self.look(a=6)
        self.look(10, a=8)
        self.look(1, a=9)
        (past,) = self.table.history
        self.assertEqual((past.peak, past.resolved_ms), (9, None))
        self.look(1, a=7)
        self.look(1)
        (past,) = self.table.history
        self.assertEqual((past.subject, past.peak, past.resolved_ms, past.silenced), ("a", 9, self.now, False))
        for _ in range(HISTORY + 5):
            self.look(1, a=6)
            self.look(10, a=6)
            self.look(1)
        self.assertEqual((len(self.table.history), self.table.history[-1].id), (HISTORY, HISTORY + 6))

    def test_adjusted(self) -> None:
        """A rule is applied as an operator says; what is as the table has it is not kept, and one switched off ends."""
        self.table.adjust("hot", RuleAdjustment(threshold=20, seconds=0))
        self.assertEqual(self.look(a=19), [])
        self.assertEqual(self.look(1, a=21), [("a", "firing")])
        self.table.adjust("hot", RuleAdjustment(threshold=5, enabled=False))
        self.assertEqual(self.table.saved().adjusted, {"hot": RuleAdjustment(enabled=False)})
        self.assertEqual(self.look(1, a=21), [("a", "resolved")])
        self.assertEqual((self.table.rule("hot").seconds, self.table.default("hot").threshold), (10, 5))
        self.table.adjust("hot", RuleAdjustment())
        self.assertEqual(self.table.saved().adjusted, {})
        self.assertRaises(LookupError, self.table.adjust, "cold", RuleAdjustment())

    def test_off_and_on(self) -> None:
        """What grew while a rule was switched off is no news when it is switched on again."""
        self.take(ClusterSnapshot(process={"g": 0}))
        self.table.adjust("grows", RuleAdjustment(enabled=False))
        self.take(ClusterSnapshot(process={"g": 50}), 3600)
        self.table.adjust("grows", RuleAdjustment())
        self.assertEqual(self.take(ClusterSnapshot(process={"g": 50}), 10), [])

    def test_unknown(self) -> None:
        """A subject whose value a look does not know stays as it is, and so does what it had grown by."""
        self.look(a=6)
        self.assertEqual((self.look(20, a=None), self.states()), ([], {"a": "pending"}))
        self.assertEqual(self.look(0, a=6), [("a", "firing")])
        self.assertEqual((self.look(20, a=None), self.states()), ([], {"a": "firing"}))
        self.take(ClusterSnapshot(process={"g": 100}))
        unknown: Any = {"g": None}
        self.take(ClusterSnapshot(process=unknown), 10)
        self.assertEqual(self.take(ClusterSnapshot(process={"g": 104}), 10), [("g", "firing")])

    def test_many(self) -> None:
        """Of more subjects than are followed those stay that break the rule already, whatever their order."""
        self.patch(table, "SUBJECTS", 2)
        self.look(a=6, b=6)
        self.assertEqual(self.look(10, a=6, b=6), [("a", "firing"), ("b", "firing")])
        self.assertEqual((self.look(1, c=6, b=6, a=6), len(self.states())), ([], 2))

    def test_summary(self) -> None:
        """Those that fire are counted by how bad they are; silenced ones apart."""
        self.look(a=6, b=6)
        self.look(10, a=6, b=6, c=6)
        self.take(ClusterSnapshot(process={"g": 0}))
        self.take(ClusterSnapshot(process={"g": 9}))
        found = self.table.summary(self.now)
        self.assertEqual((found.critical, found.warning, found.silenced, found.pending), (2, 1, 0, 1))
        self.table.add_silence("hot", "a", self.now + 60_000, "boss", self.now, "known")
        found = self.table.summary(self.now)
        self.assertEqual((found.critical, found.warning, found.silenced, found.pending), (1, 1, 1, 1))

    def test_silences(self) -> None:
        """A silence is over a rule, a subject or both, for its time; what fires meanwhile is remembered as silenced."""
        self.look(a=6)
        self.table.add_silence("hot", "", self.now + 20_000, "boss", self.now, "moving")
        self.look(10, a=6)
        (alert,) = self.table.alerts()
        found = self.table.silence_of(alert, self.now)
        assert found is not None
        self.assertEqual((found.who, found.comment), ("boss", "moving"))
        self.assertTrue(self.table.history[0].silenced)
        self.look(10, a=6)
        self.assertEqual((self.table.silences(self.now), self.table.silence_of(alert, self.now)), ([], None))
        other = self.table.add_silence("", "b", self.now + 1, "boss", self.now, "")
        self.assertIs(self.table.silence_of(alert, self.now), None)
        self.assertEqual(self.table.end_silence(other.id), other)
        self.assertRaises(LookupError, self.table.end_silence, other.id)

    def test_longest(self) -> None:
        """Of several silences over an alert the one counts that lasts longest, and the next one when it is ended."""
        self.look(a=6)
        (alert,) = self.table.alerts()
        made = [
            self.table.add_silence(rule, subject, self.now + seconds * 1000, "boss", self.now, "")
            for rule, subject, seconds in (
                ("hot", "a", 5), ("hot", "a", 4), ("", "a", 3), ("", "", 2), ("hot", "", 1), ("hot", "b", 9),
                ("cold", "a", 9),
            )
        ]  # fmt: skip
        for one in made[:5]:
            self.assertEqual(self.table.silence_of(alert, self.now), one)
            self.assertIs(self.table.silence_of(alert, one.until_ms), None)
            self.table.end_silence(one.id)
        self.assertIs(self.table.silence_of(alert, self.now), None)

    def test_silences_bounded(self) -> None:
        """There are no more silences than can be read."""
        for number in range(SILENCES):
            self.table.add_silence("hot", str(number), self.now + 1000, "boss", self.now, "")
        self.assertRaises(BadBody, self.table.add_silence, "hot", "", self.now + 1, "boss", self.now, "")
        self.now += 1000
        self.table.add_silence("hot", "", self.now + 1, "boss", self.now, "")

    def test_growth_restart(self) -> None:
        """An alert about growth is not resolved by a restart before its window has passed without any growth."""
        self.take(ClusterSnapshot(process={"g": 0.0}))
        self.assertEqual(self.take(ClusterSnapshot(process={"g": 9.0}), 10), [("g", "firing")])
        kept = msgspec.json.encode(self.table.saved())
        self.table = AlertTable(RULES)
        self.table.restore(read_saved(kept))
        self.assertEqual(self.take(ClusterSnapshot(process={"g": 9.0}), 10), [])
        self.assertEqual(self.take(ClusterSnapshot(process={"g": 9.0}), 59), [])
        self.assertEqual(self.take(ClusterSnapshot(process={"g": 9.0}), 1), [("g", "resolved")])
        self.table = AlertTable(RULES)
        self.table.restore(read_saved(kept))
        self.assertEqual(self.take(ClusterSnapshot(process={}), 1), [("g", "resolved")])  # the group is gone

    def test_restart(self) -> None:
        """Over a restart what fires goes on firing since when it did, and history, silences and limits are there."""
        self.look(a=6, b=4)
        self.look(10, a=6, b=6)
        self.table.add_silence("hot", "a", self.now + 60_000, "boss", self.now, "")
        self.table.adjust("grows", RuleAdjustment(threshold=7))
        kept = msgspec.json.encode(self.table.saved())
        again = AlertTable(RULES)
        again.restore(read_saved(kept))
        self.assertEqual(again.saved(), self.table.saved())
        self.table, self.seconds = again, 0.0
        self.assertEqual(self.look(1, a=6), [])
        (alert,) = self.table.alerts()
        self.assertEqual((alert.state, alert.fired_ms), ("firing", self.now - 1000))
        self.assertEqual(self.look(1), [("a", "resolved")])
        self.assertEqual(self.table.history[0].resolved_ms, self.now)
        self.assertEqual(self.table.add_silence("", "", self.now + 1, "x", self.now, "").id, 3)
        self.assertRaises(BadBody, read_saved, b'{"firing": 3}')

    def test_rule_gone(self) -> None:
        """What was kept of a rule that there is no more is left out."""
        self.look(a=6)
        self.look(10, a=6)
        self.table.adjust("hot", RuleAdjustment(threshold=7))
        again = AlertTable({"grows": RULES["grows"]})
        again.restore(self.table.saved())
        self.assertEqual((again.alerts(), again.history, again.saved().adjusted), ([], [], {}))
