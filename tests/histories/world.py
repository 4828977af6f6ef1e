"""
Machines, each with its disk and its clock, processes on them that can die, and wires between the processes.

A process gets its own clock, threads, disk and network. When it dies, its timers are gone, work of its threads that was
not done is never done, its connections break for those at their other ends, and nothing it does later is seen.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final, cast

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionLost
from twisted.internet.interfaces import IDelayedCall, IListeningPort, IProtocolFactory
from twisted.python.failure import Failure
from twisted.test.iosim import FakeTransport, IOPump

from tests.fakes import FakeClock, FakeEnvironment, FakeNetwork, FakeRandom
from tests.histories.lanes import Lanes
from tests.sim.disk import Disk

_ENOUGH: Final = 20_000  # turns without time passing after which a world seems never to become quiet


class ProcessClock(FakeClock):
    """The world's time as one process sees it, with the wall clock of its machine."""

    def __init__(self, world: FakeClock, machine: Machine) -> None:
        super().__init__()
        self._world = world
        self._machine = machine
        self._alive = True
        self._mine: list[Any] = []

    def seconds(self) -> float:
        """The world's time."""
        return self._world.seconds()

    def wall_ms(self) -> int:
        """The machine's wall clock."""
        return self._machine.wall_offset_ms + round(self._world.seconds() * 1000)

    def callLater(self, delay: float, callable: Callable[..., Any], *args: Any, **kw: Any) -> IDelayedCall:
        """Call later, if the process lives then."""
        if not self._alive:
            return FakeClock().callLater(delay, callable, *args, **kw)  # a clock that nobody advances
        call = self._world.callLater(delay, callable, *args, **kw)
        self._mine = [one for one in self._mine if one.active()]
        self._mine.append(call)
        return call

    def getDelayedCalls(self) -> list[IDelayedCall]:
        """The calls of this process that are still to come."""
        return [one for one in self._mine if one.active()]

    def die(self) -> None:
        """Call nothing any more; what is left of the process may still cancel its calls."""
        self._alive = False
        for call in self._mine:
            if call.active():
                self._world.calls.remove(call)
                call.canceller = call.resetter = lambda _: None


class Connection:
    """Two ends in memory; bytes travel whole, or in pieces of any size."""

    def __init__(self, pump: IOPump, ends: tuple[ProcessNetwork | None, ProcessNetwork | None]) -> None:
        """@param ends: the processes at the client's and at the server's end; C{None} for a client of the history."""
        self.ends = ends
        self._sides: tuple[FakeTransport, FakeTransport] = (pump.clientIO, pump.serverIO)
        self._travelling = [b"", b""]  # from the client, from the server
        self.over = False

    def move(self, chance: random.Random | None) -> bool:
        """
        Move bytes once in each direction, or the news that an end was closed; false where there is neither.

        @param chance: cuts what travels; C{None} moves all of it.
        """
        moved = False
        for index, side in enumerate(self._sides):
            data = self._travelling[index] + (cast("bytes | None", side.getOutBuffer()) or b"")
            side._checkProducer()
            if data:
                size = len(data)
                if chance is not None:
                    size = min(size, chance.choice((1, 7, 12, 200, 5000, size, size)))
                self._travelling[index] = data[size:]
                moved = True
                other = self._sides[1 - index]
                if not other.disconnected and not self.over:
                    other.bufferReceived(data[:size])
        if moved:
            return True
        for index, side in enumerate(self._sides):
            if side.disconnecting and not side.disconnected:
                other = self._sides[1 - index]
                side.disconnected = 1
                other.disconnecting = 1
                other.reportDisconnect()
                return True
        self.over = all(side.disconnected for side in self._sides)
        return False

    def cut(self, dead: ProcessNetwork | None = None) -> None:
        """Break it: both ends hear of it, but not one that is C{dead}; what travels is lost."""
        self.over = True
        for index, side in enumerate(self._sides):
            if not side.disconnected and (dead is None or self.ends[index] is not dead):
                side.disconnected = side.disconnecting = 1
                side.protocol.connectionLost(Failure(ConnectionLost("the wire was cut")))


class Wires(FakeNetwork):
    """
    The network between all processes.

    @ivar connections: those that are not over.
    """

    def __init__(self) -> None:
        super().__init__()
        self.owners: dict[int, ProcessNetwork] = {}
        self.connections: list[Connection] = []

    def join(
        self, client: ProcessNetwork | None, host: str, port: int, factory: IProtocolFactory, timeout: float
    ) -> Deferred[Any]:
        """Connect a process, or a client of the history, to a port."""
        joined = super().connect(host, port, factory, timeout)
        if self._pumps:
            self.connections.append(Connection(self._pumps.pop(), (client, self.owners.get(port))))
        return joined

    def move(self, chance: random.Random | None) -> bool:
        """Move bytes once on each connection."""
        moved = [one.move(chance) for one in list(self.connections)]
        self.connections = [one for one in self.connections if not one.over]
        return any(moved)

    def cut(self, dead: ProcessNetwork | None = None) -> int:
        """Break all connections of a process, which is dead, or those between processes; return how many."""
        if dead is None:
            cut = [one for one in self.connections if None not in one.ends]
        else:
            cut = [one for one in self.connections if dead in one.ends]
        self.connections = [one for one in self.connections if one not in cut]
        for one in cut:
            one.cut(dead)
        return len(cut)


class ProcessNetwork(FakeNetwork):
    """The network as one process sees it."""

    def __init__(self, wires: Wires) -> None:
        super().__init__()
        self._wires = wires

    def listen(self, description: str, factory: IProtocolFactory) -> Deferred[IListeningPort]:
        """Listen for other processes."""
        listening = self._wires.listen(description, factory)
        port = int(description.split(":")[1])
        if port:
            self._wires.owners[port] = self
        return listening

    def connect(self, host: str, port: int, factory: IProtocolFactory, timeout: float) -> Deferred[Any]:
        """Connect to another process."""
        return self._wires.join(self, host, port, factory, timeout)

    def die(self) -> None:
        """Leave the network at once."""
        for port in [port for port, owner in self._wires.owners.items() if owner is self]:
            del self._wires.owners[port]
            self._wires.ports.pop(port, None)
        self._wires.cut(self)


class Machine:
    """
    One machine of a world.

    @ivar disk: as it is now, whether a process runs or not.
    @ivar env: of the process that runs, or ran last.
    """

    def __init__(self, world: World, wall_offset_ms: int) -> None:
        self._world = world
        self.wall_offset_ms = wall_offset_ms
        self.memory = 8 << 30
        self.disk = Disk(ProcessClock(world.clock, self), world.chance)
        self.env = FakeEnvironment()

    def begin(self) -> FakeEnvironment:
        """Begin a process."""
        world = self._world
        env = self.env = FakeEnvironment()
        env.clock = ProcessClock(world.clock, self)
        env.network = ProcessNetwork(world.wires)
        env.threads = Lanes(world.chance)  # type: ignore[assignment]
        env.files = self.disk
        env.rare_paths = world.rare_paths
        env.random = FakeRandom(world.chance.randrange(1 << 30))
        env.host.memory = self.memory
        return env

    @property
    def lanes(self) -> Lanes:
        """The threads of the process."""
        return cast("Lanes", self.env.threads)

    def end(self, power: bool, disk: Disk | None = None) -> None:
        """
        End the process, by a signal or with the machine's power.

        @param disk: the state of the disk at that moment, where it is not that of now.
        """
        self._world.dead.append(self.env)
        cast("ProcessClock", self.env.clock).die()
        cast("ProcessNetwork", self.env.network).die()
        before = disk or self.disk
        clock = ProcessClock(self._world.clock, self)
        self.disk = (before.cut_off if power else before.killed)(clock, self._world.chance)

    def empty(self) -> None:
        """Give the machine an empty disk."""
        self.disk = Disk(ProcessClock(self._world.clock, self), self._world.chance)


class World:
    """
    All machines and wires, and time.

    @ivar dead: environments of processes that have died, kept so that nothing of them is collected and runs.
    @ivar lazy: threads and wires are slow: time passes while they still have work.
    """

    def __init__(self, chance: random.Random, rare_paths: Callable[[str], bool]) -> None:
        """@param rare_paths: tells whether the product takes the rare path of a name."""
        self.chance = chance
        self.rare_paths = rare_paths
        self.clock = FakeClock()
        self.wires = Wires()
        self.machines: list[Machine] = []
        self.dead: list[object] = []
        self.lazy = False

    def machine(self) -> Machine:
        """Add a machine."""
        machine = Machine(self, self.clock.wall_offset_ms)
        self.machines.append(machine)
        return machine

    def turn(self) -> bool:
        """Let everybody do a piece of work; false where nobody has any."""
        moved = self.wires.move(self.chance if self.lazy else None)
        for machine in self.machines:
            lanes: object = machine.env.threads
            moved = (isinstance(lanes, Lanes) and lanes.step()) or moved
        self.clock.advance(0)
        return moved

    def run(self, seconds: float = 0.0, step: float = 0.1) -> None:
        """Let time pass until C{seconds} are over and all is quiet, or, in a lazy world, nearly so."""
        end = self.clock.seconds() + seconds
        while True:
            for _ in range(_ENOUGH):
                if not self.turn() or (self.lazy and self.chance.random() < 0.1):
                    break
            else:
                raise AssertionError("the world never becomes quiet")
            left = end - self.clock.seconds()
            if left <= 1e-9:
                return
            self.clock.advance(min(step, left))
