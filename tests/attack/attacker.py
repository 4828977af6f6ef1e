"""
One attack in a process of its own.

C{python -m tests.attack.attacker NAME TARGET-JSON}. It prints a JSON line when it has done its worst (C{"held"}), waits
for a line on standard input while it keeps everything open, lets go, and prints what it saw (C{"done"}).
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from typing import Any

from tests.attack.wire import Address


@dataclass(frozen=True)
class Aim:
    """
    The target of an attack.

    @ivar ops: the port of REST API and console, C{None} where the target has none.
    @ivar broker_name: what the broker is registered as.
    @ivar large: as large as the requirements ask; else so that it takes few seconds.
    """

    broker: Address
    registry: Address
    ops: Address | None
    ha: Address
    broker_name: str
    large: bool

    def to_json(self) -> str:
        """Return it as one argument of a command."""
        return json.dumps(self.__dict__)

    @classmethod
    def from_json(cls, text: str) -> Aim:
        """Read what L{to_json} made."""
        given = json.loads(text)
        for name in ("broker", "registry", "ops", "ha"):
            given[name] = tuple(given[name]) if given[name] else None
        return cls(**given)

    def size(self, small: int, large: int) -> int:
        """Return how much of something."""
        return large if self.large else small


class Stage:
    """The progress of an attack, and its end."""

    def __init__(self, aim: Aim) -> None:
        self.aim = aim
        self._figures: dict[str, Any] = {}

    def note(self, **figures: Any) -> None:
        """Keep figures for the next line."""
        self._figures.update(figures)

    def held(self) -> None:
        """Say that the worst is done, and wait until the judge has looked."""
        self.say("held")
        sys.stdin.readline()

    def say(self, phase: str) -> None:
        """Print a line."""
        sys.stdout.write(json.dumps({"phase": phase, **self._figures}) + "\n")
        sys.stdout.flush()

    def seconds(self, small: float, large: float) -> float:
        """Return the moment of the monotonic clock at which a flood that begins now ends."""
        return time.monotonic() + (large if self.aim.large else small)


def main() -> None:
    """Run the attack that the command line names."""
    from tests.attack.attacks import ATTACKS

    _, name, aim = sys.argv
    stage = Stage(Aim.from_json(aim))
    ATTACKS[name](stage)
    stage.say("done")


if __name__ == "__main__":
    main()
