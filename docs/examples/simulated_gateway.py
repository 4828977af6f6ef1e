"""
A gateway in the simulator, with a client that dials again: connections are cut, and the gateway is killed.

See C{docs/simulator.rst}. Run it from the root of a checkout, where C{tests} can be imported.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure

from tests.sim.kernel import Kernel
from tests.sim.machine import World
from tests.sim.seeds import Streams


class LineClient(Protocol):
    """Sends numbered lines, a new one for each that comes back; after a loss it dials anew."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.heard = b""

    def connectionMade(self) -> None:
        """Send the line that has not come back yet."""
        self.send()

    def send(self) -> None:
        """Send the next line."""
        self.transport.write(b"line %d\n" % len(self.simulation.returned))

    def dataReceived(self, data: bytes) -> None:
        """Take whole lines."""
        *lines, self.heard = (self.heard + data).split(b"\n")
        for line in lines:
            self.simulation.returned.append(line)
            self.simulation.kernel.later(0.2, self.send)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Dial again soon."""
        self.simulation.kernel.later(0.5, self.simulation.dial)


class Simulation:
    """A gateway on a machine of its own, a client on another, and a network between them that fails."""

    def __init__(self, seed: int, gateway: Any) -> None:
        streams = Streams(seed)
        self.kernel = Kernel()
        self.world = World(self.kernel, streams)
        self.world.network.split = 0.3  # of what travels is cut into pieces
        self.chance = streams.of("faults")
        self.gateway = gateway
        self.machine = self.world.machine("gateway")
        self.client = self.world.machine("client").begin()
        self.returned: list[bytes] = []
        self.start()
        self.dial()

    def start(self) -> None:
        """Start a process of the gateway."""
        self.service = self.gateway(self.machine.begin(), host=self.machine.address)
        self.service.startService()

    def dial(self) -> None:
        """Connect a client."""
        factory: Any = Factory.forProtocol(lambda: LineClient(self))
        dialled = self.client.network.connect(self.machine.address, 7007, factory, 3.0)
        dialled.addErrback(lambda _: self.kernel.later(0.5, self.dial))

    def fault(self) -> None:
        """Cut connections, or kill the gateway and start it again."""
        if self.chance.random() < 0.5:
            for end in self.world.network.connections():
                self.world.network.cut(end)
        else:
            self.world.dead.append(self.service)
            self.machine.end(power=self.chance.random() < 0.5)
            self.start()

    def run(self) -> None:
        """Let faults happen for a minute, then none for as long."""
        for _ in range(6):
            self.kernel.run(self.chance.uniform(5, 15))
            self.fault()
        self.kernel.run(60)
