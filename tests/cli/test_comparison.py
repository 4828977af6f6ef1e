"""What docs/cli-comparison.rst says that we can do is done here."""

from __future__ import annotations

import os
import posixpath
import re
import shlex

from smartgo.broker.settings.changes import Who
from smartgo.cli.main import SECTIONS
from smartgo.node.ops import LocalNode
from tests.broker.halves import given_up, send_half
from tests.cli.case import ClusterCase
from tests.golden_store import read
from tests.ops.front import Front

PAGE = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "cli-comparison.rst")
COLUMNS = 6


def rows() -> list[list[str]]:
    """The rows of the table, its heading first."""
    with open(PAGE, encoding="utf-8") as file:
        cells = re.findall(r"^   [* ] - (.*)$", file.read(), re.MULTILINE)
    return [cells[at : at + COLUMNS] for at in range(0, len(cells), COLUMNS)]


_FIRING = "alert list --check"
"""It ends with 1, as the dead letter of the set-up is an alert."""


class ComparisonTests(ClusterCase):
    def setUp(self) -> None:
        """A cluster as the commands in the table expect it."""
        super().setUp()
        self.out("topic", "create", "Orders", "-n", "2")
        for number in range(6):
            found = {"KEYS": f"k{number}", "UNIQ_KEY": f"{number:032X}"}
            self.cluster.send("Orders", b"body %d" % number, queue_id=number % 2, properties=found)
        self.out("group", "create", "audit")
        self.cluster.pump(1.0)
        self.out("group", "reset", "audit", "Orders", "--to", "3", "--yes", "--plan", "/before.json")
        self.cluster.send(
            "%RETRY%audit", b"dead", properties={"RETRY_TOPIC": "Orders"}, reconsume_times=16, max_reconsume_times=16
        )
        given_up(self.cluster, "TX2", topic="Orders")
        send_half(self.cluster, "TX1", topic="Orders")
        self.cluster.pump(1.0)
        self.front = Front(
            self.cluster, LocalNode(self.cluster.configuration, [self.cluster.registry, self.cluster.service])
        )
        self.addCleanup(self.front.stop_api)
        self.env.host.variables["SMARTGO_TOKEN"] = self.front.admin()
        self.cluster.broker.settings.change([("notifyConsumerIdsChangedEnable", "false")], Who("boss"))
        self.cluster.heartbeat("guests", "Orders", client_id="guest")
        files = self.env.files
        files.make_directories(os.getcwd())
        files.create("/broker.conf", b"brokerName=broker-a\nflushDiskType=SYNC_FLUSH\n")
        files.make_directories("/conf/acl")
        files.create(
            "/conf/plain_acl.yml", b"accounts: [{accessKey: shop-frontend, secretKey: front-secret, admin: true}]"
        )
        files.create("/definitions.json", self.out("cluster", "export").encode())
        for path, data in read("store-a").files.items():
            files.make_directories(posixpath.dirname(f"/golden/{path}"))
            files.create(f"/golden/{path}", data)

    def test_commands(self) -> None:
        """Every command of the table ends well and prints something; the table names each of our commands."""
        heading, *table = rows()
        self.assertEqual(heading[-1], "smartgo")
        self.assertTrue(all(len(row) == COLUMNS for row in table))
        seen = set()
        for row in table:
            commands = re.findall("``smartgo ([^`]*)``", row[-1])
            self.assertEqual(bool(commands), row[-1] != "no", row)
            for command in commands:
                words = shlex.split(command)
                seen.add(words[0])
                result = self.invoke(*words, status=int(command == _FIRING))
                self.assertTrue(result.output, command)
        ours = {name for section in SECTIONS.values() for name in section}
        self.assertEqual(ours - seen, set())
