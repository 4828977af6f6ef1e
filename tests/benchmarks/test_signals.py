"""Tests for L{benchmarks.signals}."""

from __future__ import annotations

import os
import signal

from twisted.trial.unittest import SynchronousTestCase

from benchmarks.signals import ended_by_signals


class EndedTests(SynchronousTestCase):
    """Signals leave the block as an exception does."""

    def test_first(self) -> None:
        """The first signal leaves the block with its status; a second one does not disturb what is cleared up."""
        for first in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self.patch_signal(first, signal.SIG_DFL)
            cleared: list[int] = []

            def block(first: signal.Signals = first, cleared: list[int] = cleared) -> None:
                with ended_by_signals():
                    try:
                        os.kill(os.getpid(), first)
                        self.fail("went on")
                    finally:
                        os.kill(os.getpid(), first)
                        cleared.append(first)

            error = self.assertRaises(SystemExit, block)
            self.assertEqual((error.code, cleared), (128 + first, [first]))
            self.assertIs(signal.getsignal(first), signal.SIG_DFL)

    def test_ignored(self) -> None:
        """A signal that is ignored stays so, as under nohup."""
        self.patch_signal(signal.SIGHUP, signal.SIG_IGN)
        with ended_by_signals():
            os.kill(os.getpid(), signal.SIGHUP)
            self.assertIs(signal.getsignal(signal.SIGHUP), signal.SIG_IGN)
        self.assertIs(signal.getsignal(signal.SIGHUP), signal.SIG_IGN)

    def patch_signal(self, number: int, handler: signal.Handlers) -> None:
        """Set a handler for the test."""
        self.addCleanup(signal.signal, number, signal.signal(number, handler))
