"""Tests of L{smartgo.cli.running}."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import click
from twisted.logger import LogEvent, Logger, globalLogBeginner
from twisted.trial.unittest import SynchronousTestCase

from smartgo.cli import running


class LoggingTests(SynchronousTestCase):
    """The log of a command."""

    def setUp(self) -> None:
        self.said: list[str] = []
        self.patch(click, "echo", lambda line, err=False: self.said.append(line))

    def logger(self, verbose: bool = False) -> Logger:
        """Begin to log, to a list."""
        observers: list[Any] = []
        with patch.object(globalLogBeginner, "beginLoggingTo", lambda those, **_: observers.extend(those)):
            running.begin_logging(verbose)
        (observer,) = observers

        def observe(event: LogEvent) -> None:
            observer(event | {"log_time": 1000.0})

        return Logger("smartgo.test", observer=observe)  # type: ignore[arg-type]

    def test_levels(self) -> None:
        """Warnings are written, and the rest where it is wanted."""
        for verbose, lines in ((False, ["warn: b"]), (True, ["info: a", "warn: b"])):
            source = self.logger(verbose)
            source.info("a")
            source.warn("b")
            self.assertEqual(self.said, lines)
            self.said.clear()

    def test_flood(self) -> None:
        """Who floods a node that a command runs in itself does not flood the log."""
        source = self.logger()
        for number in range(1000):
            source.warn("closing {peer}", peer=f"10.0.0.1:{number}")
        self.assertEqual(len(self.said), 60)
