"""
A twistd command as a part of what somebody else runs: C{python -m smartgo.node.child TWISTD-ARGUMENTS}.

It takes no notice of ctrl-C in the terminal, which is for who started it. It stops in order when that one asks, or
when it is gone, however that came: the end of standard input, a pipe whose other end nobody else has, tells.
"""

from __future__ import annotations

import os
import signal

from twisted.internet.interfaces import IReactorCore
from twisted.internet.protocol import Protocol
from twisted.internet.stdio import StandardIO
from twisted.python.failure import Failure


class StandardInputWatch(Protocol):
    """Standard input."""

    def connectionLost(self, reason: Failure | None = None) -> None:
        """Nobody is there any more."""
        os.kill(os.getpid(), signal.SIGTERM)


def follow(reactor: IReactorCore) -> None:
    """Begin to watch standard input."""
    StandardIO(StandardInputWatch(), reactor=reactor)


def main() -> None:
    """Run what the command line says."""
    os.setpgid(0, 0)
    from twisted.internet import reactor
    from twisted.scripts.twistd import run

    reactor.callWhenRunning(follow, reactor)
    run()


if __name__ == "__main__":
    main()
