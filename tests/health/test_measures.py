"""Measures: the number of each subject that a judgement judges."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from smartgo.health.judgements import JUDGEMENTS
from smartgo.health.snapshot import BrokerSnapshot, ClusterSnapshot, GroupSnapshot


def values(name: str, snapshot: ClusterSnapshot) -> Any:
    """Measure for one judgement."""
    measure = JUDGEMENTS[name].measure
    assert measure is not None
    return measure(snapshot)


class MeasureTests(SynchronousTestCase):
    """The measure of each judgement."""

    def test_not_looked_at(self) -> None:
        """What was not looked at is measured by nobody."""
        measured = [name for name, one in JUDGEMENTS.items() if one.measure is not None]
        self.assertGreater(len(measured), 20)
        for name in measured:
            self.assertIs(values(name, ClusterSnapshot()), None, name)

    def test_brokers(self) -> None:
        """A broker that does not answer is down, and its disk is not known; one without a past has no tomorrow."""
        look = ClusterSnapshot(
            brokers={
                "a": BrokerSnapshot(True, 0.5, 0.95),
                "b": BrokerSnapshot(False, 0.0),
                "c": BrokerSnapshot(True, 0.9),
            }
        )
        self.assertEqual(values("broker-down", look), {"a": 0.0, "b": 1.0, "c": 0.0})
        self.assertEqual(values("disk-full", look), {"a": 0.5, "b": None, "c": 0.9})
        self.assertEqual(values("disk-full-tomorrow", look), {"a": 0.95, "b": None})

    def test_groups(self) -> None:
        """A group that has lag is stopped, empty or disabled by what it has of members, rate and permission."""
        groups = {
            "works": GroupSnapshot(5, 700.0, 2.0, 1, True),
            "stopped": GroupSnapshot(5, 1.0, 0.0, 1, True),
            "empty": GroupSnapshot(5, 1.0, 0.0, 0, True),
            "disabled": GroupSnapshot(5, 1.0, 0.0, 1, False),
            "unknown": GroupSnapshot(5, 1.0, 0.0, None, True),
            "done": GroupSnapshot(0, 0.0, 0.0, 0, False),
            "silent": None,
        }

        def broken(rule: str) -> set[str]:
            measured = values(rule, ClusterSnapshot(groups=groups))
            self.assertIs(measured.pop("silent"), None)
            return {
                name for name, value in measured.items() if value is not None and value > JUDGEMENTS[rule].threshold
            }

        self.assertEqual(broken("group-late"), {"works"})
        late = values("group-late", ClusterSnapshot(groups=groups)) or {}
        self.assertEqual([late["stopped"], late["empty"]], [None, 1.0])
        long = GroupSnapshot(5, 1000.0, 0.0, 1, True, 0, 900.0)
        self.assertEqual(values("group-late", ClusterSnapshot(groups={"stopped": long})), {"stopped": 0.0})
        self.assertEqual(broken("group-stopped"), {"stopped", "disabled"})
        self.assertEqual(broken("group-empty"), {"empty"})
        self.assertEqual(broken("group-disabled"), {"disabled"})
        self.assertEqual(broken("group-behind"), set())

    def test_process(self) -> None:
        """Figures of the process count where they are there; a share is of what it is a share of."""
        look = ClusterSnapshot(process={"heldPulls": 90.0, "heldPullsLimit": 100.0, "storeRefuses": 1.0})
        self.assertEqual(values("held-pulls", look), {"": 0.9})
        self.assertEqual(values("store-refuses", look), {"": 1.0})
        self.assertIs(values("reactor-stalls", look), None)

    def test_other_processes(self) -> None:
        """Figures that other brokers report count by the brokers' names; one that could not be asked is unknown."""
        remote = {"a": {"storeRefuses": 1.0}, "b": None, "c": {"putFailures": 2.0}}
        look = ClusterSnapshot(remote=remote)
        self.assertEqual(values("store-refuses", look), {"a": 1.0, "b": None, "c": None})
        self.assertIs(values("reactor-stalls", look), None)
        self.assertEqual(
            values("store-refuses", ClusterSnapshot(process={"storeRefuses": 0.0}, remote=remote))[""], 0.0
        )
        self.assertEqual(values("store-refuses", ClusterSnapshot(remote={})), {})

    def test_second_masters(self) -> None:
        """The number of other masters of a name counts."""
        look = ClusterSnapshot(contended={"a": 1.0, "b": 0.0})
        self.assertEqual(values("master-contended", look), {"a": 1.0, "b": 0.0})

    def test_clocks(self) -> None:
        """A clock that is behind differs as much as one that is ahead; one that is not known does not differ."""
        look = ClusterSnapshot(
            brokers={
                "a": BrokerSnapshot(True, 0.5, clock_offset=-7.0),
                "b": BrokerSnapshot(True, 0.5, clock_offset=0.1),
                "c": BrokerSnapshot(True, 0.5),
            }
        )
        self.assertEqual(values("clock-differs", look), {"a": 7.0, "b": 0.1})

    def test_slaves(self) -> None:
        """
        A slave that follows no master is alone, one whose log is another's has diverged; masters are neither, and one
        that does not answer is unknown.
        """
        look = ClusterSnapshot(
            brokers={
                "a": BrokerSnapshot(True, 0.5),
                "a#1": BrokerSnapshot(True, 0.5, None, "FOLLOWING", 7),
                "a#2": BrokerSnapshot(True, 0.5, None, "DIVERGED", None),
                "a#3": BrokerSnapshot(True, 0.5, None, "CONNECTING", 5),
                "a#4": BrokerSnapshot(False, 0.0),
            }
        )
        self.assertEqual(values("replica-diverged", look), {"a#1": 0.0, "a#2": 1.0, "a#3": 0.0, "a#4": None})
        self.assertEqual(values("replica-alone", look), {"a#1": 0.0, "a#2": 1.0, "a#3": 1.0, "a#4": None})
        self.assertEqual(values("replica-behind", look), {"a#1": 7, "a#3": 5, "a#4": None})

    def test_slaves_without_master(self) -> None:
        """A slave whose master is missing has nothing to follow; while its master does not answer it is unknown."""
        alone = BrokerSnapshot(True, 0.5, None, "CONNECTING", 5)
        look = ClusterSnapshot(
            brokers={
                "a#1": alone,
                "b": BrokerSnapshot(False, 0.5),
                "b#1": alone,
                "b#2": BrokerSnapshot(True, 0.5, None, "FOLLOWING", 0),
                "c": BrokerSnapshot(True, 0.5),
                "c#1": alone,
            },
            masterless={"a": 1.0, "b": 0.0, "c": 0.0},
        )
        self.assertEqual(values("replica-alone", look), {"a#1": 0.0, "b": None, "b#1": None, "b#2": 0.0, "c#1": 1.0})
        self.assertEqual(values("replica-alone", look._replace(masterless=None))["a#1"], 1.0)

    def test_registries(self) -> None:
        """A registry that does not answer is down."""
        look = ClusterSnapshot(registries={"r1:9876": True, "r2:9876": False})
        self.assertEqual(values("registry-down", look), {"r1:9876": 0.0, "r2:9876": 1.0})
