"""
Shared parts of the scenarios: skips, the browser, and the assertion that all faces agree.

C{SMARTGO_SCENARIOS=all} (C{tox -e scenarios}) runs all of them; without it only the short form runs.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from typing import Final
from unittest import SkipTest

from twisted.trial.unittest import SynchronousTestCase

from tests.ops.console.browser import CHROMIUM, missing
from tests.scenarios.cluster import ScenarioCluster
from tests.scenarios.faces import NAMES, Faces, Look, Row, encoded, table

ALL: Final = os.environ.get("SMARTGO_SCENARIOS") == "all"
FIRST: Final = 10.0
"""Seconds within which the first face must say it, on a machine that is not busy with anything else."""
BUSY: Final = 3.0
"""Times as long as that are allowed, as the machine is busy with other tests."""


class ScenarioCase(SynchronousTestCase):
    """
    A cluster of processes, a browser, and the six faces.

    @ivar cluster: nothing is in it yet.
    """

    timeout = 600

    def setUp(self) -> None:
        """Start the browser. @raise SkipTest: it cannot be driven here."""
        reason = missing()
        if reason is not None:
            raise SkipTest(f"no console without a browser: {reason}")
        self.folder = os.path.abspath(self.mktemp())
        os.makedirs(self.folder)
        self.cluster = ScenarioCluster(self.folder)
        self.addCleanup(self.cluster.end)

    def needs_all(self) -> None:
        """Skip unless all scenarios are asked for. @raise SkipTest"""
        if not ALL:
            raise SkipTest("all scenarios run by tox -e scenarios, or with SMARTGO_SCENARIOS=all")

    def faces(self) -> Faces:
        """Return the faces of the cluster, which must run; the browser ends with the test."""
        from playwright.sync_api import sync_playwright

        playwright = sync_playwright().start()
        self.addCleanup(playwright.stop)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=180_000)
        self.addCleanup(browser.close)
        faces = Faces(self.cluster, browser)
        self.addCleanup(faces.close)
        return faces

    def assert_silent(self, faces: Faces, looks: Mapping[str, Look]) -> None:
        """Fail if a face says it before it is so."""
        self.assertEqual(tuple(looks), NAMES)
        self.assertEqual(faces.silent(looks), {})

    def assert_agree(self, faces: Faces, scenario: str, looks: Mapping[str, Look], begun: float) -> list[Row]:
        """Fail unless every face says it, the first of them soon; print the table of what they said."""
        rows = faces.watch(looks, begun)
        sys.stdout.write(f"\n{table(scenario, rows)}\n")
        with open(os.path.join(os.path.dirname(os.path.dirname(self.folder)), "scenarios.jsonl"), "a") as file:
            file.write(encoded(scenario, rows) + "\n")
        self.assertEqual([row.face for row in rows if row.seconds is None], [], "faces that say nothing of it")
        first = min(row.seconds for row in rows if row.seconds is not None)
        self.assertLessEqual(first, FIRST * BUSY, "seconds until the first face said it")
        return rows

    def assert_well_again(self, faces: Faces, looks: Mapping[str, Look]) -> None:
        """Fail unless every face soon stops saying it."""
        gone = {face: _inverted(look) for face, look in looks.items()}
        rows = faces.watch(gone, time.monotonic())
        self.assertEqual([row.face for row in rows if row.seconds is None], [], "faces that still say it")


def _inverted(look: Look) -> Look:
    """Return what says "well" while a face says nothing."""
    return lambda: None if look() else "well"
