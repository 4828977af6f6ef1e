"""Members that are killed or stand still: every face says which, and what cannot be reached."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from tests.interop.peers import Node
from tests.scenarios.case import ALL, ScenarioCase
from tests.scenarios.faces import Faces, Look
from tests.scenarios.says import contended, missing, registry_down, silent, stopped


class MemberCase(ScenarioCase):
    """A fault of one process, and its end."""

    def two_masters(self) -> Node:
        """Start a registry and two masters without slaves; return broker-a."""
        self.cluster.registry()
        node = self.cluster.master("broker-a")
        self.cluster.master("broker-b")
        self.cluster.start()
        return node

    def faulty(
        self,
        scenario: str,
        looks: Callable[[Faces], dict[str, Look]],
        fault: Callable[[], object],
        mend: Callable[[], object],
    ) -> None:
        """Make a fault, compare the faces, mend it, and compare them again."""
        faces = self.faces()
        wanted = looks(faces)
        self.assert_silent(faces, wanted)
        begun = time.monotonic()
        fault()
        self.assert_agree(faces, scenario, wanted, begun)
        mend()
        if ALL:
            self.assert_well_again(faces, wanted)


def gone(subject: str, name: str, id: int, broker: str) -> Callable[[Faces], dict[str, Look]]:
    """
    Return what is to be said of a broker process that is missing.

    @param subject: its name in alerts; C{broker}: how people's texts name it, a pattern.
    """

    def looks(faces: Faces) -> dict[str, Look]:
        return {
            "REST": faces.rest("/brokers", missing(name, id)),
            "console": faces.console("", f"{broker}.*missing"),
            "CLI": faces.cli(f"{name} +{id} .*missing|missing.*{broker}", "cluster", "ls"),
            "doctor": faces.doctor(f"^X.*{broker}.*missing", status=1),
            "alerts": faces.alerts("broker-gone", subject),
            "metrics": faces.metrics(f'^smartgo_member_missing_seconds{{.*broker="{name}",.*id="{id}"'),
        }

    return looks


class KilledTests(MemberCase):
    """A process that is ended by SIGKILL."""

    def test_master_without_slave(self) -> None:
        """A master without a slave: its messages cannot be reached. This is the short form of all scenarios."""
        node = self.two_masters()
        self.cluster.do("topic", "create", "Orders", "--queues", "2")
        self.cluster.do("send", "Orders", "body", "--count", "40")
        self.faulty("master killed, no slave", gone("broker-a", "broker-a", 0, "broker-a"), node.kill, node.start)

    def test_master_with_slave(self) -> None:
        """A master with a slave: its messages can be read, and nothing can be stored."""
        self.needs_all()
        cluster = self.cluster
        cluster.registry()
        node = cluster.master("broker-a")
        cluster.slave("broker-a-slave", "broker-a")
        cluster.start()
        cluster.do("topic", "create", "Orders", "--queues", "2")

        def looks(faces: Faces) -> dict[str, Look]:
            return {
                "REST": faces.rest("/brokers", missing("broker-a")),
                "console": faces.console("", "broker-a.*(missing|no master)"),
                "CLI": faces.cli("broker-a +0 .*missing", "cluster", "ls"),
                "doctor": faces.doctor("^X.*broker-a.*(missing|no master)", status=1),
                "alerts": faces.alerts("master-missing", "broker-a"),
                "metrics": faces.metrics('^smartgo_broker_without_master{broker="broker-a".* 1.0'),
            }

        self.faulty("master killed, with a slave", looks, node.kill, node.start)

    def test_slave(self) -> None:
        """A slave: new messages are stored only once."""
        self.needs_all()
        cluster = self.cluster
        cluster.registry()
        cluster.master("broker-a")
        node = cluster.slave("broker-a-slave", "broker-a")
        cluster.start()
        self.faulty("slave killed", gone("broker-a#1", "broker-a", 1, "broker-a"), node.kill, node.start)

    def test_registry(self) -> None:
        """One of two registries."""
        self.needs_all()
        cluster = self.cluster
        cluster.registry()
        node = cluster.registry("registry-2")
        cluster.master("broker-a")
        cluster.start()
        address = node.address

        def looks(faces: Faces) -> dict[str, Look]:
            return {
                "REST": faces.rest("/registries", registry_down(address)),
                "console": faces.console("", f"{address}.*(answer|missing)"),
                "CLI": faces.cli(f"registry {address}", "cluster", "ls"),
                "doctor": faces.doctor(f"^X registry {address}", status=1),
                "alerts": faces.alerts("registry-down", address),
                "metrics": faces.metrics(f'^smartgo_registry_up{{address="{address}"}} 0.0'),
            }

        self.faulty("registry killed", looks, node.kill, node.start)


class StoppedTests(MemberCase):
    """A process that is stopped in order, and not started again."""

    def test_master(self) -> None:
        """A master that was stopped in order is missing as any, and every text says how it left."""
        self.needs_all()
        node = self.two_masters()

        def looks(faces: Faces) -> dict[str, Look]:
            return {
                "REST": faces.rest("/brokers", stopped("broker-a")),
                "console": faces.console("", "broker-a is missing.*stopped in order"),
                "CLI": faces.cli("broker-a +0 .*missing: stopped in order at", "cluster", "ls"),
                "doctor": faces.doctor("^X broker broker-a: is missing.*stopped in order at", status=1),
                "alerts": faces.alerts("broker-gone", "broker-a"),
                "metrics": faces.metrics('^smartgo_member_missing_seconds{.*broker="broker-a"'),
            }

        self.faulty("master stopped in order", looks, node.stop, node.start)


class StalledTests(MemberCase):
    """A process that is there, keeps its connections, and does nothing: its reactor stands still."""

    def test_master(self) -> None:
        """A master whose reactor stands still does not answer, although it is registered."""
        self.needs_all()
        node = self.two_masters()

        def looks(faces: Faces) -> dict[str, Look]:
            return {
                "REST": faces.rest("/brokers", silent("broker-a")),
                "console": faces.console("", "broker-a.*does not answer"),
                "CLI": faces.cli("no answer from broker-a", "cluster", "ls"),
                "doctor": faces.doctor("^X broker broker-a", status=1),
                "alerts": faces.alerts("broker-down", "broker-a"),
                "metrics": faces.metrics('^smartgo_member_up{broker="broker-a".* 0.0'),
            }

        stop, go = (lambda number=number: os.kill(node.pid, number) for number in (signal.SIGSTOP, signal.SIGCONT))
        self.addCleanup(go)
        self.faulty("reactor stalled", looks, stop, go)


class TwoMastersTests(MemberCase):
    """Two processes that both claim to be the master of one name."""

    def test_second(self) -> None:
        """A second master of a name takes nothing, and every face names it; when it has stopped, none does."""
        self.needs_all()
        cluster = self.cluster
        cluster.registry()
        cluster.master("broker-a")
        cluster.start()
        node = cluster.master("second", broker="broker-a")

        def looks(faces: Faces) -> dict[str, Look]:
            return {
                "REST": faces.rest("/brokers", contended("broker-a", node.address)),
                "console": faces.console("", f"second master of broker broker-a at {node.address}"),
                "CLI": faces.cli(f"broker-a.*second master of its name: {node.address}", "cluster", "ls"),
                "doctor": faces.doctor(f"^X broker broker-a: has a second master.*{node.address}", status=1),
                "alerts": faces.alerts("master-contended", "broker-a"),
                "metrics": faces.metrics('^smartgo_alert{rule="master-contended".*subject="broker-a"'),
            }

        self.faulty("two masters of one name", looks, node.start, node.kill)
