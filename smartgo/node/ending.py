"""The signals that ask a process to end."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any, Final

from twisted.internet.error import ReactorNotRunning

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
"""The signals that a supervisor and ctrl-C send."""


def hear(reactor: Any, stop: Callable[[], object]) -> None:
    """Call C{stop} in the running reactor at each of them, where Twisted would stop it, and fail at the second one."""
    for number in SIGNALS:
        signal.signal(number, lambda *_: reactor.callFromThread(stop))


def stop(reactor: Any) -> None:
    """Stop the reactor, and ignore further signals."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    try:
        reactor.stop()
    except ReactorNotRunning:
        pass
