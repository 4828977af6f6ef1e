"""Disks of a master that are full, or read-only: every face says that it takes no messages, and why."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from unittest import SkipTest

from tests.chaos import disks
from tests.chaos.disks import EXT4, Disk
from tests.scenarios.case import ScenarioCase
from tests.scenarios.faces import Faces, Look
from tests.scenarios.says import refusing

_MIB = 64
#: No byte has to stay free, so that the disk becomes really full; nothing is removed, which would make room.
_FULL = {"diskFreeMinimum": "0", "cleanFileForciblyEnable": "false", "flushDiskType": "SYNC_FLUSH"}
_SEND_LIMIT = 800  # messages after which a disk that takes nothing must have been noticed


class DiskTests(ScenarioCase):
    """A master with a small disk of its own, beside another master."""

    def setUp(self) -> None:
        """Make the disk. @raise SkipTest: it cannot be made here."""
        self.needs_all()
        super().setUp()
        reason = disks.unavailable(EXT4)
        if reason is not None:
            raise SkipTest(f"no {EXT4} disk: {reason}")
        self.disk = Disk(EXT4, os.path.join(self.folder, "disk"), _MIB)
        self.addCleanup(self.disk.remove)
        self.disk.make()
        cluster = self.cluster
        cluster.registry()
        cluster.master("broker-a", _FULL, store=os.path.join(self.disk.path, "store"))
        cluster.master("broker-b")
        self.addCleanup(cluster.nodes["broker-a"].end)
        cluster.start()
        cluster.do("topic", "create", "Orders", "--queues", "2")
        cluster.do("send", "Orders", "body", "--count", "40")

    def looks(self, faces: Faces, why: str) -> dict[str, Look]:
        """Return what each face is to say: the broker, and why it refuses."""
        return {
            "REST": faces.rest("/brokers", refusing("broker-a", why)),
            "console": faces.console("", f"broker-a takes no messages.*{why}"),
            "CLI": faces.cli(f"broker-a.*{why}", "cluster", "ls"),
            "doctor": faces.doctor(f"^X.*broker-a.*{why}", status=1),
            "alerts": faces.alerts("store-refuses", "broker-a"),
            "metrics": faces.metrics('^smartgo_alert{rule="store-refuses".*subject="broker-a"'),
        }

    def shown(self, scenario: str, why: str, fault: Callable[[], object]) -> tuple[Faces, dict[str, Look]]:
        """Make a fault and compare the faces."""
        faces = self.faces()
        looks = self.looks(faces, why)
        self.assert_silent(faces, looks)
        begun = time.monotonic()
        fault()
        self.assert_agree(faces, scenario, looks, begun)
        return faces, looks

    def test_full(self) -> None:
        """A disk that is full; with room again all is well."""

        def fault() -> None:
            self.disk.fill()
            self.cluster.command("send", "Orders", "x" * 4000, "--count", str(_SEND_LIMIT))

        faces, looks = self.shown("disk full", "No space|no room|full", fault)
        self.disk.free()
        self.assert_well_again(faces, looks)

    def test_read_only(self) -> None:
        """A disk that the kernel made read-only: the next flush fails, and the store takes nothing before a restart."""

        def fault() -> None:
            self.disk.fail_read_only()
            self.cluster.command("send", "Orders", "body", "--count", str(_SEND_LIMIT))

        self.shown("disk read-only", "Read-only|read-only|failed", fault)
