"""The table of judgements: each row is complete, and judges a value by its thresholds."""

from __future__ import annotations

import os
import re

from twisted.trial.unittest import SynchronousTestCase

from smartgo.health.judgements import JUDGEMENTS, NOUNS, refusal_advice, value_text

ALERTS = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "alerts.rst")


class JudgementTests(SynchronousTestCase):
    """The rows of the table."""

    def test_rows(self) -> None:
        """Each row has a name of its own, a sentence to complete, and says in sentences what to do."""
        names = [one.name for one in JUDGEMENTS.values()]
        self.assertEqual(list(JUDGEMENTS), names)
        self.assertEqual(len(set(names)), len(names))
        for one in JUDGEMENTS.values():
            self.assertRegex(one.name, "^[a-z]+(-[a-z]+)*$")
            self.assertRegex(one.meaning, r"^[A-Z].*\.$", one.name)
            self.assertRegex(one.advice, r"^[A-Z].*\.$", one.name)
            told = one.sentence.format(value="7", reason="so")
            self.assertNotRegex(told, r"[{}]|\.$", one.name)

    def test_levels(self) -> None:
        """A value is fine up to the threshold, or up to where a diagnosis warns early; some levels are grave."""
        disk = JUDGEMENTS["disk-full"]
        self.assertEqual(
            [disk.judge(value) for value in (0.74, 0.75, 0.86, 0.88)], [None, "warning", "warning", "critical"]
        )
        slow = JUDGEMENTS["disk-slow"]
        self.assertEqual([slow.judge(value) for value in (0.02, 0.021, 0.1)], [None, "warning", "critical"])
        behind = JUDGEMENTS["replica-behind"]
        self.assertEqual([behind.judge(value) for value in (256 << 20, (256 << 20) + 1)], [None, "warning"])

    def test_below(self) -> None:
        """Too few is a problem, where the row says so."""
        files = JUDGEMENTS["open-files"]
        self.assertEqual([files.judge(value) for value in (9_999, 10_000, 20_000)], ["note", None, None])

    def test_momentary(self) -> None:
        """A single measurement is judged more mildly than one that lasts, where it may soon be otherwise."""
        alone = JUDGEMENTS["replica-alone"]
        self.assertEqual((alone.severity, alone.judge(1)), ("critical", "warning"))

    def test_levels_order(self) -> None:
        """Where a diagnosis has levels of its own they go up: early, threshold, grave."""
        for one in JUDGEMENTS.values():
            levels = [level for level in (one.early, one.threshold, one.grave) if level is not None]
            self.assertEqual(levels, sorted(levels), one.name)

    def test_nouns(self) -> None:
        """It is known what is counted."""
        self.assertEqual([*NOUNS], [one.name for one in JUDGEMENTS.values() if one.unit == "count"])

    def test_value_text(self) -> None:
        """A value is told in its unit, a state not at all."""
        self.assertEqual(value_text("ratio", 0.874), "87.4%")
        self.assertEqual(value_text("state", 1), "")

    def test_refusals(self) -> None:
        """What to do about a store that refuses depends on the kind of the refusal."""
        advice = [refusal_advice(one) for one in ("failed", "noRoom", "notMaster", "closed")]
        self.assertEqual(len(set(advice)), 4)
        self.assertEqual(refusal_advice("diskFull"), advice[1])
        self.assertEqual([refusal_advice(None), refusal_advice("of a later version")], [advice[3]] * 2)

    def test_documented(self) -> None:
        """docs/alerts.rst lists the judgements that alerts apply, with severity and the name for Prometheus."""
        with open(ALERTS, encoding="utf-8") as file:
            rows = re.findall(r"^([a-z]+(?:-[a-z]+)+) +(critical|warning) .*$", text := file.read(), re.M)
        expected = [(one.name, one.severity) for one in JUDGEMENTS.values() if one.measure is not None]
        self.assertEqual(rows, expected)
        for one in JUDGEMENTS.values():
            self.assertIn(one.prometheus, text)
