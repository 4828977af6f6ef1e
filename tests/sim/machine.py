"""Simulated machines, each with its disk and its clocks, and the environment of a process on one."""

from __future__ import annotations

import errno
from typing import Any, Final

from zope.interface import implementer

from smartgo.env.interfaces import IEnvironment
from tests.fakes import EPOCH_MS, FakeHost, FakeRandom
from tests.sim.clock import ProcessClock
from tests.sim.disk import Disk
from tests.sim.kernel import Kernel, Life
from tests.sim.network import Network, ProcessNetwork
from tests.sim.rarepaths import RarePaths
from tests.sim.seeds import Streams
from tests.sim.threads import SimThreads

_CALL: Final = 0.002  # seconds


class SimHost(FakeHost):
    """The host of a simulated process: its names are addresses."""

    def __init__(self, name: str, address: str, pid: int) -> None:
        super().__init__()
        self.name = name
        self.pid = pid
        self._address = address

    def resolve(self, name: str) -> str:
        """Return an address as it is."""
        if not name.replace(".", "").isdigit():
            raise OSError(errno.ENOENT, "unknown host", name)
        return name

    def address_towards(self, host: str, port: int) -> str:
        """Return the machine's address."""
        return self._address


@implementer(IEnvironment)
class SimEnvironment:
    """The environment of one simulated process."""

    def __init__(self, machine: Machine, life: Life, pid: int) -> None:
        world = machine.world
        chance = world.streams.of(f"process {machine.name} {pid}")
        self.clock = ProcessClock(world.kernel, life, machine)
        self.network = ProcessNetwork(world.network, machine.address, life)
        self.threads = SimThreads(world.kernel, life, world.streams.of("threads"), machine)
        self.files: Any = machine.disk
        self.random = FakeRandom(chance.randrange(1 << 30))
        self.host = SimHost(machine.name, machine.address, pid)
        self._rare_paths = world.rare_paths

    def buggify(self, name: str) -> bool:
        """Return whether to take a rare path; never outside a simulation."""
        return self._rare_paths(name)


class World:
    """
    All machines, the network between them, and time.

    @ivar dead: what is left of processes that died, kept so that nothing of them is collected and runs.
    """

    def __init__(self, kernel: Kernel, streams: Streams, rare_paths: bool = False) -> None:
        self.kernel = kernel
        self.streams = streams
        self.network = Network(kernel, streams.of("network"))
        self.rare_paths = RarePaths(streams.seed)
        self.rare_paths.on = rare_paths
        self.machines: list[Machine] = []
        self.dead: list[object] = []

    def machine(self, name: str) -> Machine:
        """Add a machine; its address follows from how many there are."""
        machine = Machine(self, name, f"10.0.0.{len(self.machines) + 1}")
        self.machines.append(machine)
        return machine


class Machine:
    """
    One machine.

    @ivar disk: as it is now, whether a process runs or not.
    @ivar wall_offset_ms: the wall clock when virtual time is 0, in milliseconds since the epoch.
    @ivar call: seconds that work in a thread takes at most, usually.
    @ivar slowness: by how much it takes longer than usual.
    @ivar slowed: how many calls in threads took longer.
    @ivar rate: seconds of a process's monotonic clock that pass in one second; for those that begin from now on.
    @ivar life: of the process that runs; C{None} for none.
    """

    def __init__(self, world: World, name: str, address: str) -> None:
        self.world = world
        self.name = name
        self.address = address
        self.wall_offset_ms = EPOCH_MS
        self.call = _CALL
        self.slowness = 1.0
        self.slowed = 0
        self._was_slow = (0.0, 0.0)
        self.rate = 1.0
        self.life: Life | None = None
        self._processes = 0
        self.disk = self._own(Disk(self, world.streams.of(f"disk {name}")))

    def _own(self, disk: Disk, before: Disk | None = None) -> Disk:
        """Return a disk that is to be this machine's, in the place of another."""
        disk.moment = lambda: self.world.kernel.now
        disk.faults = before.faults if before is not None else 0
        disk.names_apart = before is not None and before.names_apart
        return disk

    def slow_down(self, seconds: float) -> None:
        """Let work in threads take so many seconds at most, where that is more than usual."""
        self.slowness = max(1.0, seconds / self.call)

    def usual(self) -> None:
        """Let work in threads take no longer than usual from now on."""
        if self.slowness > 1:
            self._was_slow = (self.world.kernel.now, self.call * self.slowness)
            self.slowness = 1.0

    @property
    def longest_call(self) -> float:
        """The seconds that a call in a thread which is under way takes at most."""
        since, seconds = self._was_slow
        usual = self.call * self.slowness
        return max(usual, seconds) if self.world.kernel.now < since + 2 * seconds else usual

    def wall_ms(self) -> int:
        """Return the wall clock, in milliseconds since the epoch."""
        return self.wall_offset_ms + round(self.world.kernel.now * 1000)

    def begin(self) -> SimEnvironment:
        """Begin a process; the machine is switched on if it was off."""
        self._processes += 1
        self.life = Life(self.rate, since=1000.0 * self._processes)
        if self.address in self.world.network.down:
            self.world.network.down.discard(self.address)
            self.world.network.wake()
        self.world.kernel.trace("begin", self.name, self._processes)
        return SimEnvironment(self, self.life, 1000 + self._processes)

    def end(self, power: bool, disk: Disk | None = None) -> None:
        """
        End the process, by a signal or with the machine's power.

        @param disk: the state of the disk at that moment, where it is not that of now.
        """
        life, self.life = self.life, None
        if life is None and not power:
            return
        self.world.kernel.trace("power cut" if power else "end", self.name)
        if power:
            self.world.network.down.add(self.address)
        if life is not None:
            life.alive = False
            self.world.network.died(life, power or disk is not None)
        before = disk or self.disk
        left = (before.cut_off if power else before.killed)(self, self.world.streams.of(f"disk {self.name}"))
        self.disk = self._own(left, self.disk)
        self.disk.rate, self.disk.failing, self.disk.drops = before.rate, before.failing, before.drops

    def restore(self, disk: Disk) -> None:
        """Give the machine a disk with a copy of what another has, synced; no process runs."""
        self.disk = self._own(disk.copied(self, self.world.streams.of(f"disk {self.name}")), self.disk)

    def empty(self) -> None:
        """Give the machine an empty disk."""
        self.disk = self._own(Disk(self, self.world.streams.of(f"disk {self.name}")), self.disk)
