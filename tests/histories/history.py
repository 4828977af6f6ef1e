"""
The base of all histories: chance from a seed, steps that can be left out, a trace, and a verdict.

Each step draws from a generator of its own, made of the seed and the step's number: a step that is left out does not
change what the others draw. So a failing history can be made shorter.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Collection
from typing import ClassVar, cast

from twisted.logger import ILogObserver, LogEvent, globalLogPublisher
from twisted.python.failure import Failure

from smartgo.errors import ServiceNotAvailable
from tests.sim.rarepaths import RarePaths


class Violation(Exception):
    """
    A promise is broken.

    @ivar kind: what is broken, in a word or two.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


class History:
    """
    One random history.

    @ivar trace: what happened, a line each.
    @ivar rare_paths: the rare paths that the product takes.
    """

    name: ClassVar[str] = ""
    lengths: ClassVar[Collection[int]] = ()

    def __init__(self, seed: int, left_out: Collection[int] = ()) -> None:
        """
        @param left_out: numbers of the steps that are not taken.
        """
        self.seed = seed
        self.left_out = frozenset(left_out)
        self.chance = random.Random()
        self.rare_paths = RarePaths(f"{self.name} {seed}")
        self.trace: list[str] = []
        self.steps = 0
        self._bugs: list[str] = []

    # -- for subclasses ----------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Draw a profile, and start what the history is about."""
        raise NotImplementedError

    def step(self) -> None:
        """Do one random thing."""
        raise NotImplementedError

    def finish(self) -> None:
        """End the faults, and look at everything."""
        raise NotImplementedError

    def note(self, *words: object) -> None:
        """Add a line to the trace."""
        self.trace.append(" ".join(map(str, words)))

    # -- for runners -------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run it. @raise Violation: a promise was broken."""
        hear = cast("ILogObserver", self._hear)
        globalLogPublisher.addObserver(hear)
        try:
            self._reseed("profile")
            self.steps = self.chance.choice(list(self.lengths))
            self.begin()
            for number in range(self.steps):
                if number not in self.left_out:
                    self._reseed(number)
                    self.step()
            self._reseed("end")
            self.finish()
        finally:
            globalLogPublisher.removeObserver(hear)
        if self._bugs:
            raise Violation("bug", self._bugs[0])

    @property
    def digest(self) -> str:
        """A hash of the trace: equal for two runs of one seed."""
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()[:16]

    def _reseed(self, part: object) -> None:
        self.chance.seed(f"{self.name} {self.seed} {part}")

    def _hear(self, event: LogEvent) -> None:
        """Remember what the product logs as a bug of its own; what a fault of the disk explains is none."""
        failure = event.get("log_failure")
        if not isinstance(failure, Failure) or not str(event.get("log_namespace", "")).startswith("smartgo"):
            return
        if failure.check(OSError, ServiceNotAvailable) is None:
            self._bugs.append(failure.getTraceback()[-1500:])
