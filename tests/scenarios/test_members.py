"""Members that are killed: every face says which are gone, and what cannot be reached."""

from __future__ import annotations

import time

from tests.scenarios.case import ScenarioCase
from tests.scenarios.says import missing


class KilledTests(ScenarioCase):
    """A process that is ended by SIGKILL."""

    def test_master_without_slave(self) -> None:
        """A master without a slave: its messages cannot be reached."""
        self.needs_all()
        cluster = self.cluster
        cluster.registry()
        cluster.master("broker-a")
        cluster.master("broker-b")
        cluster.start()
        cluster.do("topic", "create", "Orders", "--queues", "2")
        cluster.do("send", "Orders", "body", "--count", "40")
        faces = self.faces()
        looks = {
            "REST": faces.rest("/brokers", missing("broker-a")),
            "console": faces.console("", "broker-a.*missing"),
            "CLI": faces.cli("broker-a.*missing", "cluster", "ls"),
            "doctor": faces.doctor("broker-a.*missing", status=1),
            "alerts": faces.alerts("broker-gone", "broker-a"),
            "metrics": faces.metrics('^smartgo_member_missing_seconds{.*broker="broker-a"'),
        }
        self.assert_silent(faces, looks)
        begun = time.monotonic()
        cluster.nodes["broker-a"].kill()
        self.assert_agree(faces, "master killed, no slave", looks, begun)
        cluster.nodes["broker-a"].start()
        self.assert_well_again(faces, looks)
