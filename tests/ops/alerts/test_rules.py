"""The rules: what breaks them, and that Prometheus is given the same ones."""

from __future__ import annotations

import os
from typing import Any

import yaml
from twisted.trial.unittest import SynchronousTestCase

from smartgo.ops.alerts.growth import Arrivals, Growth, led_to
from smartgo.ops.alerts.rules import RULES, BrokerLook, GroupLook, Look

ALERTS = os.path.join(os.path.dirname(__file__), "..", "..", "..", "docs", "grafana", "alerts.yml")
_FOR = {"s": 1, "m": 60, "h": 3600}


def values(rule: str, look: Look) -> Any:
    """What a rule measures."""
    return RULES[rule].measure(look)


class RulesTests(SynchronousTestCase):
    """Each rule by itself."""

    def test_prometheus(self) -> None:
        """
        Every rule of the file for Prometheus is one of ours, with the same severity and time; so is everything here
        that names one.
        """
        with open(ALERTS) as file:
            theirs = {one["alert"]: one for one in yaml.safe_load(file)["groups"][0]["rules"]}
        ours = {rule.prometheus: rule for rule in RULES.values() if rule.prometheus}
        self.assertEqual(sorted(ours), sorted(theirs))
        for name, rule in ours.items():
            text = theirs[name].get("for", "0s")
            seconds = int(text[:-1]) * _FOR[text[-1]]
            self.assertEqual((theirs[name]["labels"]["severity"], seconds), (rule.severity, rule.seconds), name)

    def test_names(self) -> None:
        """Rules have names of their own, and say what to do."""
        for name, rule in RULES.items():
            self.assertEqual((name, rule.about[-1]), (rule.name, "."))
            self.assertEqual(rule.adjustable, rule.unit != "state")

    def test_not_looked_at(self) -> None:
        """What was not looked at is measured by nobody."""
        for name in RULES:
            self.assertIs(values(name, Look()), None, name)

    def test_brokers(self) -> None:
        """A broker that does not answer is down, and its disk is not known; one without a past has no tomorrow."""
        look = Look(brokers={"a": BrokerLook(True, 0.5, 0.95), "b": BrokerLook(False, 0.0), "c": BrokerLook(True, 0.9)})
        self.assertEqual(values("broker-down", look), {"a": 0.0, "b": 1.0, "c": 0.0})
        self.assertEqual(values("disk-full", look), {"a": 0.5, "b": None, "c": 0.9})
        self.assertEqual(values("disk-full-tomorrow", look), {"a": 0.95, "b": None})

    def test_groups(self) -> None:
        """A group that has lag is stopped, empty or disabled by what it has of members, rate and permission."""
        groups = {
            "works": GroupLook(5, 700.0, 2.0, 1, True),
            "stopped": GroupLook(5, 1.0, 0.0, 1, True),
            "empty": GroupLook(5, 1.0, 0.0, 0, True),
            "disabled": GroupLook(5, 1.0, 0.0, 1, False),
            "unknown": GroupLook(5, 1.0, 0.0, None, True),
            "done": GroupLook(0, 0.0, 0.0, 0, False),
            "silent": None,
        }

        def broken(rule: str) -> set[str]:
            measured = values(rule, Look(groups=groups))
            self.assertIs(measured.pop("silent"), None)
            return {name for name, value in measured.items() if value > RULES[rule].threshold}

        self.assertEqual(broken("group-late"), {"works"})
        self.assertEqual(broken("group-stopped"), {"stopped", "disabled"})
        self.assertEqual(broken("group-empty"), {"empty"})
        self.assertEqual(broken("group-disabled"), {"disabled"})
        self.assertEqual(broken("group-behind"), set())

    def test_process(self) -> None:
        """Figures of the process count where they are there; a share is of what it is a share of."""
        look = Look(process={"heldPulls": 90.0, "heldPullsLimit": 100.0, "storeRefuses": 1.0})
        self.assertEqual(values("held-pulls", look), {"": 0.9})
        self.assertEqual(values("store-refuses", look), {"": 1.0})
        self.assertIs(values("reactor-stalls", look), None)

    def test_slaves(self) -> None:
        """
        A slave that follows no master is alone, one whose log is another's has diverged; masters are neither, and one
        that does not answer is unknown.
        """
        look = Look(
            brokers={
                "a": BrokerLook(True, 0.5),
                "a#1": BrokerLook(True, 0.5, None, "FOLLOWING", 7),
                "a#2": BrokerLook(True, 0.5, None, "DIVERGED", None),
                "a#3": BrokerLook(True, 0.5, None, "CONNECTING", 5),
                "a#4": BrokerLook(False, 0.0),
            }
        )
        self.assertEqual(values("replica-diverged", look), {"a#1": 0.0, "a#2": 1.0, "a#3": 0.0, "a#4": None})
        self.assertEqual(values("replica-alone", look), {"a#1": 0.0, "a#2": 1.0, "a#3": 1.0, "a#4": None})
        self.assertEqual(values("replica-behind", look), {"a#1": 7, "a#3": 5, "a#4": None})

    def test_words(self) -> None:
        """What was measured is told in its unit; of what is yes or no nothing is."""
        told = [
            RULES[name].words(value)
            for name, value in (
                ("broker-gone", 60.014),
                ("disk-full", 0.874),
                ("group-empty", 1501),
                ("replica-behind", 5),
                ("replica-diverged", 1.0),
            )
        ]
        self.assertEqual(told, ["60 s", "87.4%", "1,501", "5 bytes", ""])

    def test_registries(self) -> None:
        """A registry that does not answer is down."""
        look = Look(registries={"r1:9876": True, "r2:9876": False})
        self.assertEqual(values("registry-down", look), {"r1:9876": 0.0, "r2:9876": 1.0})


class GrowthTests(SynchronousTestCase):
    """Growth in a window."""

    def setUp(self) -> None:
        self.growth = Growth(60)

    def grown(self, at: float, value: float | None) -> float | None:
        """By how much one counter has grown."""
        return self.growth.look({"a": value}, at)["a"]

    def test_window(self) -> None:
        """What grew before the window is not counted."""
        self.assertEqual([self.grown(at, at) for at in range(0, 130, 10)][-1], 60)
        self.assertEqual(self.grown(190, 120), 0)

    def test_begins_anew(self) -> None:
        """A counter whose process was started again counts from 0."""
        self.grown(0, 100)
        self.grown(10, 103)
        self.assertEqual(self.grown(20, 2), 5)

    def test_first(self) -> None:
        """What was counted before the first look did not grow since, nor what nobody knew; what is new then did."""
        self.assertEqual(self.growth.look({"a": 1000, "b": None}, 0), {"a": 0, "b": None})
        self.assertEqual(self.growth.look({"a": 1000, "b": 7, "c": 3}, 10), {"a": 0, "b": 0, "c": 3})
        self.assertEqual(self.growth.look({"a": 1000, "b": 7, "c": 3}, 69), {"a": 0, "b": 0, "c": 3})
        self.assertEqual(self.growth.look({"a": 1000, "b": 7, "c": 3}, 70), {"a": 0, "b": 0, "c": 0})
        self.growth.begin_anew()
        self.assertEqual(self.growth.look({"d": 5}, 80), {"d": 0})

    def test_bounded(self) -> None:
        """However often it is asked, few samples are kept, and nothing of what is there no more."""
        for at in range(10_000):
            self.grown(at / 50, at)
        self.assertLess(len(self.growth._samples["a"]), 70)
        self.assertLess(abs((self.grown(200, 10_000) or 0) - 60 * 50), 60)
        self.growth.look({"b": None}, 201)
        self.assertEqual((self.growth._samples, self.growth._sums), ({}, {}))


class ArrivalsTests(SynchronousTestCase):
    """What came, where brokers count."""

    def setUp(self) -> None:
        self.arrivals = Arrivals()

    def look(self, **brokers: Any) -> dict[str, int | None]:
        """What came by then."""
        return self.arrivals.look(brokers)

    def test_came(self) -> None:
        """What was there before the first look did not come since; a subject that is new did, at any broker."""
        self.assertEqual(self.look(a={"g": 100}, b={}), {"g": 0})
        self.assertEqual(self.look(a={"g": 102, "h": 3}, b={"g": 1}), {"g": 3, "h": 3})
        self.assertEqual(self.look(a={"g": 4, "h": 3}, b={"g": 1}), {"g": 7, "h": 3})

    def test_brokers(self) -> None:
        """A broker that leaves takes nothing away, and brings what came meanwhile; a new one brings nothing."""
        self.look(a={"g": 100}, b={"g": 50})
        self.assertEqual(self.look(a={"g": 100}), {"g": 0})
        self.assertEqual(self.look(a={"g": 100}, b={"g": 51}, c={"g": 70}), {"g": 1})
        self.arrivals.keep(["a", "c"])
        self.assertEqual(self.look(a={"g": 100}, b={"g": 60}, c={"g": 70}), {"g": 1})
        self.assertEqual(self.look(c={"h": 1}), {"h": 1})
        self.assertEqual(self.look(c={"h": 1, "g": 2}), {"h": 1, "g": 2})

    def test_unknown(self) -> None:
        """What a broker does not tell of is unknown, and no news when it does."""
        self.assertEqual(self.look(a={"g": None, "h": 1}, b={"g": 5}), {"g": None, "h": 0})
        self.assertEqual(self.look(a={"g": 9, "h": 1}, b={"g": None}), {"g": None, "h": 0})
        self.assertEqual(self.look(a={"g": 9, "h": 1}, b={"g": 7}), {"g": 2, "h": 0})


class LineTests(SynchronousTestCase):
    """Where a line leads."""

    def test_line(self) -> None:
        """Points on a line lead on along it; one point, or one moment, leads nowhere."""
        self.assertAlmostEqual(led_to([0, 1, 2], [0.5, 0.6, 0.7], 4), 0.9)
        self.assertIs(led_to([1], [1], 2), None)
        self.assertIs(led_to([1, 1], [1, 2], 2), None)
