"""
A twistd command as the child of another process: C{python -m smartgo.node.child TWISTD-ARGUMENTS}.

It ignores ctrl-C in the terminal, which is for the parent. It stops cleanly when the parent asks, or when the parent is
gone for any reason: then standard input, a pipe that only the parent holds, ends.
"""

from __future__ import annotations

import os
import signal

from twisted.internet.interfaces import IReactorCore
from twisted.internet.protocol import Protocol
from twisted.internet.stdio import StandardIO
from twisted.python.failure import Failure


class StandardInputWatch(Protocol):
    """Watches standard input; its end means that the parent process is gone."""

    def connectionLost(self, reason: Failure | None = None) -> None:
        """Ask this process to stop."""
        os.kill(os.getpid(), signal.SIGTERM)


def follow(reactor: IReactorCore) -> None:
    """Start to watch standard input."""
    StandardIO(StandardInputWatch(), reactor=reactor)


def main() -> None:
    """Run twistd with the command line's arguments."""
    os.setpgid(0, 0)
    from twisted.internet import reactor
    from twisted.scripts.twistd import run

    reactor.callWhenRunning(follow, reactor)
    run()


if __name__ == "__main__":
    main()
