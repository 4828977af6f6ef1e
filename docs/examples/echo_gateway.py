"""
A gateway on smartgo.net: lines come back. TLS, idle time-out, slow clients and a graceful stop are the link's work.

Run it: C{python docs/examples/echo_gateway.py}, then C{nc 127.0.0.1 7007}.
"""

from __future__ import annotations

from twisted.internet.task import react

from smartgo.env.interfaces import IEnvironment
from smartgo.env.real import RealEnvironment
from smartgo.errors import FramingError
from smartgo.net.limits import KIB, Limits
from smartgo.net.link import Link
from smartgo.net.listener import Listener
from smartgo.net.memorybudget import MemoryBudget
from smartgo.net.session import NullSession
from smartgo.net.sweeper import Sweeper
from smartgo.net.tls import ServerTLS

LIMITS = Limits(frame=4 * KIB, idle=60.0, unsent_pause=64 * KIB, unsent_resume=16 * KIB, unsent_seconds=10.0)


class EchoSession(NullSession):
    """Sends each line back to who sent it."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._rest = b""  # of a line that is not whole

    def received(self, data: bytes) -> None:
        """Answer the whole lines; the link reads no more while its peer does not take the answers."""
        whole, newline, self._rest = (self._rest + data).rpartition(b"\n")
        self.pending = len(self._rest)
        if self.pending > LIMITS.frame:
            raise FramingError(f"a line is longer than {LIMITS.frame} B")
        self._link.gathered(self.pending, bool(newline))
        if newline:
            self._link.heard_first()
            self.frames += whole.count(b"\n") + 1
            self._link.put(whole + newline)


def gateway(env: IEnvironment, tls: ServerTLS | None = None, host: str = "127.0.0.1") -> Listener:
    """Return the gateway, which listens once it is started; C{tls} is told from plain text by the first byte."""
    listener = Listener(env, Sweeper(env.clock, MemoryBudget(env.clock)), LIMITS, tls)
    listener.add_port(f"tcp:7007:interface={host}", EchoSession)
    return listener


if __name__ == "__main__":
    react(lambda reactor: gateway(RealEnvironment(reactor)).run(reactor))
