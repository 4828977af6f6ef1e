"""The rules: what breaks them, and that Prometheus is given the same ones."""

from __future__ import annotations

import math
import os
import re
from typing import Any

import yaml
from twisted.trial.unittest import SynchronousTestCase

from smartgo.health.judgements import JUDGEMENTS
from smartgo.ops.alerts.rules import RULES, Rule

ALERTS = os.path.join(os.path.dirname(__file__), "..", "..", "..", "docs", "grafana", "alerts.yml")
_SECONDS = {"s": 1, "m": 60, "h": 3600}
_COMPARISON = re.compile(r"(==|<|>)\s*([\d.]+(?:\s*\*\s*[\d.]+)*)")
_RANGE = re.compile(r"\[(\d+[smh])\]")


def duration(text: str) -> int:
    """Seconds of a duration such as C{5m}."""
    return int(text[:-1]) * _SECONDS[text[-1]]


def differences(rule: Rule, theirs: dict[str, Any]) -> list[str]:
    """
    Compare a rule of the file for Prometheus with ours: severity, time, threshold, window.

    The file compares a state with 0 or 1, free disk space (not what is in use) with a share, and measures the lag of
    groups in ms.
    """
    comparison = _COMPARISON.search(theirs["expr"])
    assert comparison is not None, theirs
    operator, factors = comparison.groups()
    threshold = math.prod(float(one) for one in factors.split("*"))
    if rule.unit == "state":
        same = operator == "==" and threshold in (0, 1) and rule.threshold == 0
    elif rule.unit == "ratio":
        same = operator == "<" and math.isclose(1 - threshold, rule.threshold)
    elif "_latency" in theirs["expr"]:
        same = operator == ">" and threshold == rule.threshold * 1000
    else:
        same = operator == ">" and threshold == rule.threshold
    found = [] if same else [f"threshold {operator} {threshold}"]
    if rule.window and [duration(one) for one in _RANGE.findall(theirs["expr"])] != [rule.window]:
        found.append("window")
    if theirs["labels"]["severity"] != rule.severity:
        found.append("severity")
    if duration(theirs.get("for", "0s")) != rule.seconds:
        found.append("time")
    return found


class RulesTests(SynchronousTestCase):
    """Each rule by itself."""

    def setUp(self) -> None:
        """Read the rules for Prometheus."""
        with open(ALERTS) as file:
            self.theirs = {one["alert"]: one for one in yaml.safe_load(file)["groups"][0]["rules"]}
        self.ours = {rule.prometheus: rule for rule in RULES.values() if rule.prometheus}

    def test_prometheus(self) -> None:
        """
        Every rule of the file for Prometheus is one of ours, with the same severity, time, threshold and window; so is
        everything here that names one.
        """
        self.assertEqual(sorted(self.ours), sorted(self.theirs))
        for name, rule in self.ours.items():
            self.assertEqual(differences(rule, self.theirs[name]), [], name)

    def test_compares(self) -> None:
        """A threshold, a time, a window or a severity that differs is noticed, in the table and in the file."""
        for name, rule in self.ours.items():
            if rule.adjustable:
                other = rule._replace(threshold=rule.threshold + 0.01)
                self.assertIn("threshold", " ".join(differences(other, self.theirs[name])), name)
            self.assertEqual(differences(rule._replace(seconds=7), self.theirs[name]), ["time"], name)
        late = dict(self.theirs["SmartgoConsumerLate"], expr="rocketmq_consumer_lag_latency > 11 * 60 * 1000")
        self.assertEqual(differences(self.ours["SmartgoConsumerLate"], late), ["threshold > 660000.0"])
        stalls = dict(self.theirs["SmartgoReactorStalls"], expr="increase(smartgo_reactor_stalls_total[5m]) > 5")
        self.assertEqual(differences(self.ours["SmartgoReactorStalls"], stalls), ["window"])
        mild = dict(self.theirs["SmartgoDown"], labels={"severity": "warning"})
        self.assertEqual(differences(self.ours["SmartgoDown"], mild), ["severity"])

    def test_tables(self) -> None:
        """Alerts judge what the table of judgements measures in a snapshot, with its thresholds and sentences."""
        self.assertEqual(list(RULES), [name for name, one in JUDGEMENTS.items() if one.measure is not None])
        for name, rule in RULES.items():
            one = JUDGEMENTS[name]
            self.assertEqual((rule.threshold, rule.seconds, rule.severity), (one.threshold, one.lasting, one.severity))
            self.assertEqual((rule.measure, rule.about), (one.measure, one.about))

    def test_names(self) -> None:
        """Rules have names of their own, and say what to do."""
        for name, rule in RULES.items():
            self.assertEqual((name, rule.about[-1]), (rule.name, "."))
            self.assertEqual(rule.adjustable, rule.unit != "state")

    def test_words(self) -> None:
        """What was measured is told in its unit; of what is yes or no nothing is."""
        told = [
            RULES[name].value_text(value)
            for name, value in (
                ("broker-gone", 60.014),
                ("disk-full", 0.874),
                ("group-empty", 1501),
                ("replica-behind", 5),
                ("replica-diverged", 1.0),
            )
        ]
        self.assertEqual(told, ["60 s", "87.4%", "1,501", "5 bytes", ""])
