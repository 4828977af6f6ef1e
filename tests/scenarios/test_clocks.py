"""A master whose wall clock is set back while it runs."""

from __future__ import annotations

import os
import time
from unittest import SkipTest

from tests.chaos import clocks
from tests.chaos.clocks import WallClock
from tests.scenarios.case import ScenarioCase
from tests.scenarios.says import clock_off

_BACK = 3600.0


class ClockTests(ScenarioCase):
    """One of two masters."""

    def test_back(self) -> None:
        """A clock that is set back by an hour is said to be an hour behind; when it is right again, nobody says so."""
        self.needs_all()
        reason = clocks.unavailable()
        if reason is not None:
            raise SkipTest(reason)
        cluster = self.cluster
        cluster.registry()
        clock = WallClock(os.path.join(self.folder, "clock"))
        clock.give(cluster.master("broker-a"))
        cluster.master("broker-b")
        cluster.start()
        faces = self.faces()
        looks = {
            "REST": faces.rest("/brokers", clock_off("broker-a", _BACK / 2)),
            "console": faces.console("", "clock of broker broker-a is .* behind"),
            "CLI": faces.cli("broker-a.*clock", "cluster", "ls"),
            "doctor": faces.doctor("broker-a.*clock is .* behind"),
            "alerts": faces.alerts("clock-differs", "broker-a"),
            "metrics": faces.metrics('^smartgo_alert{rule="clock-differs".*subject="broker-a"'),
        }
        self.assert_silent(faces, looks)
        begun = time.monotonic()
        clock.set(-_BACK)
        self.assert_agree(faces, "clock back by an hour", looks, begun)
        clock.set(0)
        self.assert_well_again(faces, looks)
