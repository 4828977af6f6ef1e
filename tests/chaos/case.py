"""
Shared parts of the chaos tests: skips, lengths of runs, and rounds that end with their test.

  - C{SMARTGO_CHAOS=short}: a round of each fault; C{long}: all of them, as often and as long as is asked for.
    Without it every test is skipped by name.
  - C{SMARTGO_CHAOS_SEED}: of what is drawn, 1 by default.
  - C{SMARTGO_CHAOS_ROUNDS}: of a test that repeats itself, instead of its own number.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from random import Random
from unittest import SkipTest

from twisted.trial.unittest import SynchronousTestCase

from tests.chaos.figures import effects
from tests.chaos.network import unavailable
from tests.chaos.rounds import Round
from tests.interop import jars
from tests.interop.peers import chosen

_TOLD = os.environ.get("SMARTGO_CHAOS", "0")
LONG = _TOLD == "long"
SEED = int(os.environ.get("SMARTGO_CHAOS_SEED", "1"))
TOPIC = "Chaos"
BACK = 35.0
"""Seconds after a fault within which clients must be served again (reliability F13, F15, F16)."""


def times(short: int, long: int) -> int:
    """Return how often a test repeats itself."""
    return int(os.environ.get("SMARTGO_CHAOS_ROUNDS") or (long if LONG else short))


class ChaosCase(SynchronousTestCase):
    """A test on real processes; skipped by name where it is not asked for or cannot run."""

    def setUp(self) -> None:
        """Skip where there is a reason to."""
        if _TOLD == "0":
            raise SkipTest("real processes under faults run by tox -e chaos, or with SMARTGO_CHAOS=short")
        reason = unavailable()
        if reason is not None:
            raise SkipTest(f"no network of namespaces: {reason}")
        self.random = Random(SEED)

    def round(self, name: str) -> Round:
        """Return a round with the client's host alone; it ends with the test."""
        path: str = self.mktemp()
        made = Round(name, os.path.join(os.path.abspath(path), name), SEED, chosen())
        self.addCleanup(made.close)
        return made

    def one_broker(self, name: str) -> Round:
        """Return a round in which a registry and a master run, and which has a topic."""
        run = self.round(name)
        run.registry()
        run.broker("master")
        run.start()
        run.topic(TOPIC)
        return run

    def needs_java(self) -> None:
        """Skip where the official client cannot run. @raise SkipTest"""
        reason = jars.unavailable()
        if reason is not None:
            raise SkipTest(f"the official Java client cannot run: {reason}")

    def assert_back(self, run: Round, limit: float = BACK) -> None:
        """Fail unless sends were answered with code 0 soon enough after every fault, and note how soon."""
        for effect in effects(run.recorder.events):
            got = effect.safe_after
            run.figure(
                f"{effect.name} of {effect.target}: sends taken with code 0 after its end",
                f"{limit:g} s",
                "never" if got is None else f"{got:.2f} s",
            )
            self.assertIsNotNone(got, f"no send was taken after {effect.name} of {effect.target}")
            assert got is not None
            self.assertLessEqual(got, limit, f"after {effect.name} of {effect.target}")


def told(values: Iterable[float]) -> str:
    """Return the smallest, the middle and the largest of some seconds."""
    ordered = sorted(values)
    return f"{ordered[0]:.2f} s least, {ordered[len(ordered) // 2]:.2f} s middle, {ordered[-1]:.2f} s most"
