"""The simulated network: bytes arrive in order, whatever befalls them, and both ends learn of the end."""

from __future__ import annotations

from typing import cast

from twisted.internet.interfaces import IAddress, IProtocolFactory
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from smartgo.ha.feed import LIMITS as SLAVE_LIMITS
from smartgo.net.limits import SERVER
from smartgo.net.sendbuffer import SendBuffer
from tests.sim.kernel import Kernel
from tests.sim.machine import SimEnvironment, World
from tests.sim.seeds import Streams
from tests.sim.workload import SETTLED


class Talker(Protocol):
    """Remembers what it hears."""

    def __init__(self) -> None:
        self.heard = b""
        self.lost: list[str] = []

    def dataReceived(self, data: bytes) -> None:
        """Remember bytes."""
        self.heard += data

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Remember the end."""
        self.lost.append(type(reason.value).__name__)


class Talkers(Factory):
    """Makes talkers, and remembers them."""

    noisy = False

    def __init__(self) -> None:
        self.made: list[Talker] = []

    def buildProtocol(self, addr: IAddress | None) -> Talker:
        """Make one."""
        self.made.append(Talker())
        return self.made[-1]


class Source:
    """A push producer that counts what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def pauseProducing(self) -> None:
        """Remember."""
        self.told.append("pause")

    def resumeProducing(self) -> None:
        """Remember."""
        self.told.append("resume")

    def stopProducing(self) -> None:
        """Remember."""
        self.told.append("stop")


class NetworkTests(SynchronousTestCase):
    """Two machines, one of which listens."""

    def setUp(self) -> None:
        """Start a process on each."""
        self.kernel = Kernel()
        self.world = World(self.kernel, Streams(1))
        self.network = self.world.network
        self.here, self.there = self.world.machine("here"), self.world.machine("there")
        self.client = self.here.begin()
        self.servers = self.serve(self.there.begin())
        self.clients = Talkers()

    def serve(self, env: SimEnvironment) -> Talkers:
        """Listen."""
        talkers = Talkers()
        env.network.listen("tcp:80:interface=10.0.0.2", cast("IProtocolFactory", talkers))
        return talkers

    def connect(self) -> tuple[Talker, Talker]:
        """Connect; return both ends."""
        made = self.client.network.connect("10.0.0.2", 80, cast("IProtocolFactory", self.clients), 3)
        self.kernel.run(1)
        self.successResultOf(made)
        return self.clients.made[-1], self.servers.made[-1]

    def write(self, talker: Talker, data: bytes) -> None:
        """Write."""
        assert talker.transport is not None
        talker.transport.write(data)

    def test_bytes(self) -> None:
        """What is written in pieces, split and joined on the way, arrives whole and in order; then the end."""
        self.network.split, self.network.short = 0.5, 0.5
        one, other = self.connect()
        sent = b"".join(b"%d," % number for number in range(50_000))
        for at in range(0, len(sent), 9999):
            self.write(one, sent[at : at + 9999])
        self.write(other, b"back")
        assert one.transport is not None
        one.transport.loseConnection()
        self.kernel.run(60)
        self.assertEqual((other.heard == sent, one.heard in (b"", b"back")), (True, True))
        self.assertEqual((one.lost, other.lost), (["ConnectionDone"], ["ConnectionDone"]))

    def seconds_for(self, size: int, slice_size: int) -> float:
        """Send bytes over a link that hands the transport slices of this size; return how long that takes."""
        one, other = self.connect()
        begun, data = self.kernel.now, bytes(size)
        buffer = SendBuffer(lambda: None, slice_size)
        buffer.open(one.transport)
        buffer.write(data)
        while len(other.heard) < size:
            self.kernel.run(0.5)
        return self.kernel.now - begun

    def test_smallest_slice(self) -> None:
        """
        A slave gets the largest file of a log in a part of the time that it has, with the smallest slices over the
        slowest network of any profile; in the slices of clients that would take too long.
        """
        self.network.latency, self.network.split, self.network.short = 0.02, 0.3, 0.3
        self.assertLess(self.seconds_for(262144, SLAVE_LIMITS.tightest.slice), SETTLED / 4)
        self.assertGreater(self.seconds_for(262144, SERVER.tightest.slice), SETTLED)

    def test_trickle(self) -> None:
        """Some bytes arrive at once, and the others later."""
        one, other = self.connect()
        self.network.trickles["10.0.0.2"] = 100
        self.write(one, bytes(1000))
        self.kernel.run(0.3)
        self.assertIn(len(other.heard), range(100, 700, 100))
        self.kernel.run(1)
        self.assertEqual(len(other.heard), 1000)

    def test_breaking(self) -> None:
        """A connection breaks in place of a delivery, and both ends hear of it."""
        one, other = self.connect()
        self.network.breaks["10.0.0.1"] = 1.0
        self.write(one, b"never arrives")
        self.kernel.run(1)
        self.assertEqual((other.heard, one.lost, other.lost), (b"", ["ConnectionLost"], ["ConnectionLost"]))
        self.network.heal()
        one, other = self.connect()
        self.write(one, b"arrives")
        self.kernel.run(1)
        self.assertEqual(other.heard, b"arrives")

    def test_producer(self) -> None:
        """A producer is paused while the other end does not read, and resumed after that."""
        one, other = self.connect()
        source = Source()
        assert one.transport is not None and other.transport is not None
        one.transport.registerProducer(source, True)  # type: ignore[attr-defined]
        other.transport.pauseProducing()  # type: ignore[attr-defined]
        self.write(one, bytes(200_000))
        self.kernel.run(10)
        self.assertEqual((source.told, other.heard), (["pause"], b""))
        other.transport.resumeProducing()  # type: ignore[attr-defined]
        self.kernel.run(10)
        self.assertEqual((source.told, len(other.heard)), (["pause", "resume"], 200_000))

    def test_blocked(self) -> None:
        """What is written while nothing passes arrives afterwards; nobody can connect, in either direction of it."""
        one, other = self.connect()
        self.network.block("10.0.0.1", "10.0.0.2")
        self.write(one, b"late")
        self.write(other, b"passes")
        attempt = self.client.network.connect("10.0.0.2", 80, cast("IProtocolFactory", self.clients), 3)
        self.kernel.run(10)
        self.assertEqual((other.heard, one.heard), (b"", b"passes"))
        self.assertEqual(self.failureResultOf(attempt).type.__name__, "TimeoutError")
        self.network.unblock("10.0.0.1", "10.0.0.2")
        self.kernel.run(1)
        self.assertEqual(other.heard, b"late")

    def test_refused(self) -> None:
        """A port that nobody listens on refuses."""
        attempt = self.client.network.connect("10.0.0.2", 81, cast("IProtocolFactory", self.clients), 3)
        self.kernel.run(1)
        self.assertEqual(self.failureResultOf(attempt).type.__name__, "ConnectionRefusedError")

    def test_cancelled(self) -> None:
        """An attempt that is given up ends at the server too."""
        attempt = self.client.network.connect("10.0.0.2", 80, cast("IProtocolFactory", self.clients), 3)
        while not self.servers.made:
            self.kernel.run(0.0001)
        attempt.cancel()
        self.kernel.run(1)
        self.failureResultOf(attempt)
        self.assertEqual(self.servers.made[0].lost, ["ConnectionDone"])

    def test_half_open(self) -> None:
        """A connection cut at one end only is found out by the other when it writes."""
        one, other = self.connect()
        end = self.network.connections()[0]
        self.network.cut(end, one_sided=True)
        self.kernel.run(100)
        self.assertEqual((one.lost, other.lost), (["ConnectionLost"], []))
        self.write(other, b"anybody?")
        self.kernel.run(1)
        self.assertEqual(other.lost, ["ConnectionLost"])

    def test_killed(self) -> None:
        """A killed process's connections end, and its port refuses."""
        one, other = self.connect()
        self.there.end(power=False)
        self.kernel.run(1)
        self.assertEqual((len(one.lost), other.lost), (1, []))
        attempt = self.client.network.connect("10.0.0.2", 80, cast("IProtocolFactory", self.clients), 3)
        self.kernel.run(1)
        self.failureResultOf(attempt)

    def test_killed_while_dialled(self) -> None:
        """A server that dies right after it accepted: its end is told behind the connection, never before it."""
        for number in range(20):
            made = self.client.network.connect("10.0.0.2", 80, cast("IProtocolFactory", self.clients), 3)
            while len(self.servers.made) == number:
                self.kernel.run(0.0001)
            self.there.end(power=False)
            self.kernel.run(1)
            self.successResultOf(made)
            self.assertEqual(len(self.clients.made[-1].lost), 1)
            talkers = self.servers.made
            self.servers = self.serve(self.there.begin())
            self.servers.made[:] = talkers

    def test_power(self) -> None:
        """Of a machine without power nobody hears, until it is on again and something is written to it."""
        one, _ = self.connect()
        self.there.end(power=True)
        self.write(one, b"anybody?")
        self.kernel.run(100)
        self.assertEqual(one.lost, [])
        self.serve(self.there.begin())
        self.kernel.run(1)
        self.assertEqual(one.lost, ["ConnectionLost"])

    def test_paused(self) -> None:
        """A process that is stopped reads nothing until it goes on."""
        one, other = self.connect()
        assert self.there.life is not None
        self.there.life.paused_until = self.kernel.now + 5
        self.write(one, b"wake up")
        self.kernel.run(4)
        self.assertEqual(other.heard, b"")
        self.kernel.run(2)
        self.assertEqual(other.heard, b"wake up")


class ThreadsTests(SynchronousTestCase):
    """Threads take time; one lane keeps its order."""

    def test_order(self) -> None:
        """Calls of a lane are made and told in order, failures too; a stop waits for all."""
        kernel = Kernel()
        env = World(kernel, Streams(1)).machine("here").begin()
        made: list[object] = []
        told: list[object] = []
        for number in range(5):
            env.threads.run("flush", made.append, number).addCallback(lambda _, one: told.append(one), number)
        failing = env.threads.run("flush", made.index, "absent")
        stopped = env.threads.stop()
        self.assertEqual(made, [])
        self.assertNoResult(stopped)
        kernel.run(1)
        self.assertEqual((made, told), ([0, 1, 2, 3, 4], [0, 1, 2, 3, 4]))
        self.failureResultOf(failing, ValueError)
        self.successResultOf(stopped)

    def test_dead(self) -> None:
        """What was not done when the process died is never done."""
        kernel = Kernel()
        machine = World(kernel, Streams(1)).machine("here")
        made: list[object] = []
        machine.begin().threads.run("flush", made.append, 1)
        machine.end(power=False)
        kernel.run(1)
        self.assertEqual(made, [])
