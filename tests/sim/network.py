"""
The network between simulated processes: ports, connections in memory, and what can befall them.

A connection has a kernel's buffer in each direction, of limited size, and Twisted's own in front of it. Bytes travel
for a drawn time; writes are split and joined. A direction can be blocked (a partition, one way or both) or stalled:
what was written waits, as TCP would send it again. A connection can be cut, so that both ends hear of it, or one only:
the other learns of it when it writes.
"""

from __future__ import annotations

import errno
import random
from collections import Counter
from collections.abc import Callable
from typing import Any, cast

from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import CannotListenError
from twisted.internet.error import ConnectionRefusedError as Refused
from twisted.internet.error import TimeoutError as ConnectTimedOut
from twisted.internet.interfaces import IListeningPort, IProtocolFactory
from twisted.python.failure import Failure
from zope.interface import implementer

from smartgo.env.interfaces import INetwork
from tests.sim.kernel import Kernel, Life, Timer
from tests.sim.transport import End

_AGAIN = 1.0  # seconds between two attempts to reach a host that does not answer
_TRICKLE = 0.05  # seconds between two portions of what trickles


@implementer(IListeningPort)
class SimPort:
    """A port that a process listens on."""

    def __init__(self, network: Network, owner: ProcessNetwork, place: tuple[str, int], factory: Any) -> None:
        self._network = network
        self._place = place
        self.owner = owner
        self.factory = factory

    def startListening(self) -> None:
        """It listens already."""

    def stopListening(self) -> Deferred[None]:
        """Refuse connections from now on."""
        if self._network.ports.get(self._place) is self:
            del self._network.ports[self._place]
            self.factory.doStop()
        return succeed(None)

    def getHost(self) -> IPv4Address:
        """Return the address."""
        return IPv4Address("TCP", *self._place)


class Network:
    """
    All hosts, ports and connections.

    @ivar ports: who listens, by host and port.
    @ivar latency: seconds that bytes travel, on average.
    @ivar split: probability that a delivery is cut into pieces.
    @ivar short: probability that a write takes only a part of the bytes.
    @ivar capacity: bytes that the kernel keeps for one direction of a connection.
    @ivar delays: host -> seconds that all its bytes travel longer.
    @ivar trickles: host -> bytes of a connection that come from it or to it at once, every C{_TRICKLE} seconds.
    @ivar breaks: host -> probability that a delivery from it or to it breaks the connection in its place.
    @ivar down: hosts without power.
    @ivar held_back: (host, other host) -> how often something was kept from passing by L{block}.
    @ivar delayed: host -> how often bytes travelled longer.
    @ivar broken: host -> how often a connection broke in the place of a delivery.
    """

    def __init__(self, kernel: Kernel, chance: random.Random) -> None:
        self.kernel = kernel
        self.chance = chance
        self.ports: dict[tuple[str, int], SimPort] = {}
        self.latency = 0.0005
        self.split = 0.0
        self.short = 0.0
        self.capacity = 65536
        self.delays: dict[str, float] = {}
        self.trickles: dict[str, int] = {}
        self.breaks: dict[str, float] = {}
        self.down: set[str] = set()
        self.held_back: Counter[tuple[str, str]] = Counter()
        self.delayed: Counter[str] = Counter()
        self.broken: Counter[str] = Counter()
        self._blocked: dict[tuple[str, str], int] = {}
        self._ends: dict[End, None] = {}
        self._next_port = 40000
        self._next_number = 0

    # -- what is reached ---------------------------------------------------------------------------------------

    def passes(self, here: str, there: str) -> bool:
        """Tell whether bytes pass from one host to another now."""
        if self._blocked and (here, there) in self._blocked:
            self.held_back[here, there] += 1
            return False
        return not self.down or (here not in self.down and there not in self.down)

    def block(self, here: str, there: str) -> None:
        """Let nothing pass in one direction, until as many calls of L{unblock}."""
        self._blocked[here, there] = self._blocked.get((here, there), 0) + 1

    def unblock(self, here: str, there: str) -> None:
        """Undo one L{block}."""
        left = self._blocked.get((here, there), 0) - 1
        if left > 0:
            self._blocked[here, there] = left
        else:
            self._blocked.pop((here, there), None)
            self.wake()

    def heal(self) -> None:
        """Undo all faults."""
        self._blocked.clear()
        for fault in (self.delays, self.trickles, self.breaks):
            fault.clear()
        for end in self._ends:
            end.stalled_until = 0.0
        self.wake()

    def wake(self) -> None:
        """Send what waits on its way."""
        for end in list(self._ends):
            end.schedule()

    def travel(self, here: str, there: str) -> float:
        """Draw how long bytes travel."""
        seconds = self.latency * (0.5 + self.chance.random())
        if self.delays:
            for host in (here, there):
                if host in self.delays:
                    seconds += self.delays[host]
                    self.delayed[host] += 1
        if self.trickles and (here in self.trickles or there in self.trickles):
            seconds += _TRICKLE
            self.delayed.update((here, there))
        return seconds

    def portion(self, here: str, there: str, size: int) -> int:
        """Return how many of the bytes that wait arrive at once."""
        if self.trickles:
            size = min(size, self.trickles.get(here, size), self.trickles.get(there, size))
        if size > 1 and self.split and self.chance.random() < self.split:
            size = self.chance.choice((1, min(3, size), self.chance.randrange(1, size)))
        return size

    def broke(self, end: End) -> bool:
        """Break a connection in place of a delivery, if chance has it so; return whether it did."""
        if not self.breaks:
            return False
        rate = max(self.breaks.get(one.host, 0.0) for one in (end.getHost(), end.getPeer()))
        if not rate or self.chance.random() >= rate:
            return False
        self.cut(end)
        self.broken.update((end.getHost().host, end.getPeer().host))
        return True

    # -- connections -------------------------------------------------------------------------------------------

    def connections(self) -> list[End]:
        """Return the ends of all connections that dialled, in the order in which they were made."""
        return [end for end in self._ends if end.dialled and not end.disconnected]

    def forget(self, end: End) -> None:
        """Drop an end that is over."""
        self._ends.pop(end, None)

    def cut(self, end: End, one_sided: bool = False) -> None:
        """Break a connection; if C{one_sided}, the other end does not hear of it."""
        other = end.other
        self.kernel.trace("cut", end.number, one_sided)
        end.reset()
        if not one_sided:
            other.reset()

    def free_port(self) -> int:
        """Return a port that nobody uses."""
        self._next_port += 1
        return self._next_port

    def join(self, client: ProcessNetwork, listening: SimPort, factory: Any) -> End | None:
        """Make both ends of a connection, the client's not connected yet; C{None} if the server will have none."""
        here = IPv4Address("TCP", client.host, self.free_port())
        there = listening.getHost()
        server_protocol = listening.factory.buildProtocol(here)
        client_protocol = factory.buildProtocol(there)
        if server_protocol is None or client_protocol is None:
            return None
        self._next_number += 1
        ours = End(self, client.life, client_protocol, (here, there), self._next_number, dialled=True)
        theirs = End(self, listening.owner.life, server_protocol, (there, here), self._next_number, dialled=False)
        ours.other, theirs.other = theirs, ours
        self._ends[ours] = self._ends[theirs] = None
        server_protocol.makeConnection(theirs)
        return ours

    def died(self, life: Life, at_once: bool) -> None:
        """
        End the ports and connections of a process. Nobody hears of it while its machine is off.

        @param at_once: nothing arrives any more of what it sent.
        """
        for place in [place for place, port in self.ports.items() if port.owner.life is life]:
            del self.ports[place]
        for end in [end for end in self._ends if end.life is life]:
            end.die(end.getHost().host in self.down, not at_once and self.chance.random() < 0.5)


@implementer(INetwork)
class ProcessNetwork:
    """The network as one process sees it."""

    def __init__(self, network: Network, host: str, life: Life) -> None:
        self._network = network
        self.host = host
        self.life = life

    def listen(self, description: str, factory: IProtocolFactory) -> Deferred[IListeningPort]:
        """Listen at a C{tcp:} description."""
        host, port = self._read(description)
        port = port or self._network.free_port()
        if (host, port) in self._network.ports:
            return fail(CannotListenError(host, port, OSError(errno.EADDRINUSE, "Address in use")))
        factory.doStart()
        listening = SimPort(self._network, self, (host, port), factory)
        self._network.ports[host, port] = listening
        return succeed(cast("IListeningPort", listening))

    def connect(self, host: str, port: int, factory: IProtocolFactory, timeout: float) -> Deferred[Any]:
        """Dial a host by its address."""
        attempt = _Attempt(self._network, self, (host, port), factory)
        return attempt.begin(timeout)

    def probe(self, description: str) -> None:
        """Refuse a port that is in use."""
        if self._read(description) in self._network.ports:
            raise OSError(errno.EADDRINUSE, "Address in use")

    def free_port(self) -> int:
        """Return a port that nobody uses."""
        return self._network.free_port()

    def tell(self, path: str, data: bytes) -> None:
        """Fail: there is nobody at a Unix socket."""
        raise OSError(errno.ECONNREFUSED, "Connection refused", path)

    def poller(self, ready: Callable[[], None]) -> None:
        """Return nothing: there are no sockets."""

    def hear(self, path: str, heard: Callable[[bytes], object]) -> IListeningPort:
        """Fail: there are no Unix sockets."""
        raise CannotListenError("unix", path, OSError(errno.EACCES, "Permission denied"))

    def _read(self, description: str) -> tuple[str, int]:
        kind, port, *options = description.split(":")
        if kind != "tcp":
            raise ValueError(description)
        named = dict(option.partition("=")[::2] for option in options)
        return named.get("interface", self.host), int(port)


class _Attempt:
    """An attempt to connect."""

    def __init__(self, network: Network, client: ProcessNetwork, place: tuple[str, int], factory: Any) -> None:
        self._network = network
        self._kernel = network.kernel
        self._client = client
        self._place = place
        self._factory = factory
        self._end: End | None = None
        self._timers: list[Timer] = []
        self._result: Deferred[Any] = Deferred(lambda _: self._give_up())

    def begin(self, timeout: float) -> Deferred[Any]:
        """Begin it; fires with the protocol."""
        if self._client.life.alive:
            self._later(timeout / self._client.life.rate, self._fail, ConnectTimedOut)
            self._later(self._network.travel(self._client.host, self._place[0]), self._arrive)
        return self._result

    def _later(self, delay: float, function: Callable[..., object], *args: object) -> None:
        self._timers.append(self._kernel.later(delay, function, *args, life=self._client.life))

    def _arrive(self) -> None:
        here, there = self._client.host, self._place[0]
        if not (self._network.passes(here, there) and self._network.passes(there, here)):
            self._later(_AGAIN, self._arrive)
            return
        delay = self._network.travel(there, here)
        listening = self._network.ports.get(self._place)
        if listening is None:
            self._later(delay, self._fail, Refused)
            return
        self._end = self._network.join(self._client, listening, self._factory)
        if self._end is None:
            self._later(delay, self._fail, Refused)
        else:
            self._later(delay, self._connected)

    def _connected(self) -> None:
        self._stop()
        end = self._end
        assert end is not None
        self._kernel.trace("connected", end.number, self._client.host, *self._place)
        end.open()
        self._result.callback(end.protocol)

    def _fail(self, kind: type[Exception]) -> None:
        self._give_up()
        self._kernel.trace("not connected", self._client.host, *self._place, kind.__name__)
        self._result.errback(Failure(kind()))

    def _give_up(self) -> None:
        self._stop()
        if self._end is not None:
            self._end.abandon()

    def _stop(self) -> None:
        for timer in self._timers:
            if timer.active():
                timer.cancel()
