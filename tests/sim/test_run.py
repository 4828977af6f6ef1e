"""Whole simulations."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys

from twisted.trial.unittest import SynchronousTestCase

from tests.sim import __main__ as command
from tests.sim.run import run

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


SEEDS = 10
"""How many seeds: so many that they take less than 20 s of one core."""


class RunTests(SynchronousTestCase):
    """A seed is one simulation, and none breaks a rule."""

    def tearDown(self) -> None:
        """Drop what faults made the product log; simulations judge it themselves."""
        gc.collect()
        self.flushLoggedErrors()

    def test_short(self) -> None:
        """A minute of some seeds is valid."""
        for seed in range(SEEDS):
            outcome = run(seed, minutes=1)
            self.assertEqual(outcome.verdict, "valid", f"seed {seed}: {outcome.violations}")

    def test_hanging(self) -> None:
        """The alarm for a simulation that hangs is no error that the product handles, and it comes again."""

        def hang(seed: int, minutes: float) -> None:
            while True:
                try:
                    sum(range(100))
                except Exception as error:
                    self.fail(f"taken for an error of the product: {error!r}")

        self.patch(command, "run", hang)
        self.patch(command, "_LONGEST", 0.05)
        self.assertRaises(command.Overdue, lambda: next(command.run_many(frozenset({1}), 1, 1)))
        alarms: list[float] = []

        def note(seed: int, minutes: float) -> None:
            alarms.extend(signal.getitimer(signal.ITIMER_VIRTUAL))

        self.patch(command, "run", note)
        next(command.run_many(frozenset({1}), 1, 1))
        self.assertGreater(alarms[1], 0)

    def test_hash_seeds(self) -> None:
        """Processes with different hash seeds run the same simulation, down to the last byte on a wire."""
        code = "from tests.sim.run import run; print(run(3, minutes=1).trace_hash)"
        told = {run(3, minutes=1).trace_hash}
        for hash_seed in ("1", "2"):
            environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
            done = subprocess.run(
                [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            told.add(done.stdout.strip())
        self.assertEqual(len(told), 1)
