"""Whole simulations."""

from __future__ import annotations

import gc
import io
import os
import signal
import subprocess
import sys

from twisted.logger import globalLogBeginner
from twisted.trial.unittest import SynchronousTestCase

from tests.sim import __main__ as command
from tests.sim.profile import KINDS, LINKS, PAIRED
from tests.sim.rarepaths import names
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

    def test_never(self) -> None:
        """What should have happened in so many simulations and did not is named, and fails the run."""
        faults = dict.fromkeys((*KINDS, *LINKS, *PAIRED), 1)
        hits = dict.fromkeys(names(), 1)
        self.assertEqual(command.never(200, faults, hits), [])
        del faults["storm"], hits["flush.again"]
        self.assertEqual(command.never(99, faults, hits), [])
        self.assertEqual(command.never(100, faults, hits), ["the fault storm never happened"])
        self.assertEqual(command.never(200, faults, hits)[1:], ["the rare path flush.again was never taken"])
        said: list[str] = []
        self.patch(command, "_say", said.append)
        self.patch(command, "_ALL_FAULTS", 1)
        self.patch(globalLogBeginner, "beginLoggingTo", lambda *args, **kwargs: None)
        self.patch(sys, "argv", ["tests.sim", "--seeds", "3", "--minutes", "0.1"])
        self.assertEqual(command.main(), 1)
        self.assertIn("the fault storm never happened", said)

    def test_usage(self) -> None:
        """What names no seeds is refused, with a sentence."""
        told = io.StringIO()
        self.patch(sys, "stderr", told)
        for text, why in (
            ("5-2", "the range 5-2 ends before it begins"),
            ("abc", "abc is no number"),
            ("1-", "1- is"),
            ("", "one seed at least"),
        ):
            self.patch(sys, "argv", ["tests.sim", "--seeds", text])
            self.assertEqual(self.assertRaises(SystemExit, command.main).code, 2, text)
            self.assertIn(why, told.getvalue())

    def test_hash_seeds(self) -> None:
        """Processes with different hash seeds run the same simulation, down to the last byte on a wire."""
        seeds = (3, 41)  # in the second a broker stops that holds long polls
        code = f"from tests.sim.run import run; print(*(run(seed, minutes=1).trace_hash for seed in {seeds}))"
        told = {" ".join(run(seed, minutes=1).trace_hash for seed in seeds)}
        for hash_seed in ("1", "2"):
            environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
            done = subprocess.run(
                [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
            )
            self.assertEqual(done.returncode, 0, done.stderr)
            told.add(done.stdout.strip())
        self.assertEqual(len(told), 1)
