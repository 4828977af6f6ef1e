"""The way out of a connection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from twisted.internet.abstract import FileDescriptor
from twisted.internet.error import ConnectionLost
from twisted.internet.tcp import Connection as TcpConnection
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from smartgo.net.sendbuffer import SLICE, SendBuffer, takes_direct, write_now


class Reactor:
    """A fake of a reactor's interface to file descriptors."""

    def __init__(self) -> None:
        self.writers: set[Any] = set()

    def addWriter(self, one: Any) -> None:
        """Remember."""
        self.writers.add(one)

    def removeWriter(self, one: Any) -> None:
        """Forget."""
        self.writers.discard(one)

    def removeReader(self, one: Any) -> None:
        """Nobody reads."""


class Socket(FileDescriptor):
    """
    Twisted's own buffers over a socket that takes as much as a test lets it.

    @ivar taken: what went into the socket.
    @ivar room: how many bytes it takes until it is full.
    """

    connected = 1

    def __init__(self, room: int = 1 << 30) -> None:
        self.fake = Reactor()
        super().__init__(self.fake)  # type: ignore[arg-type]
        self.taken = bytearray()
        self.calls = 0
        self.gathered = 0
        self.room = room
        self.lost = False
        self.ended = False

    def setTcpNoDelay(self, on: bool) -> None:
        """Do nothing; the method marks a TCP transport."""

    def writeSomeData(self, data: bytes) -> int | BaseException:
        """Take what there is room for, no more than one system call would."""
        self.calls += 1
        if self.lost:
            return ConnectionLost()
        some = bytes(data)[: min(self.room, self.SEND_LIMIT)]
        self.room -= len(some)
        self.taken += some
        return len(some)

    def getHandle(self) -> Socket:
        """The socket itself."""
        return self

    def sendmsg(self, pieces: Sequence[bytes | memoryview]) -> int:
        """Gather what there is room for."""
        self.gathered += 1
        if self.lost:
            raise BrokenPipeError
        if not self.room:
            raise BlockingIOError
        some = b"".join(pieces)[: self.room]
        self.room -= len(some)
        self.taken += some
        return len(some)

    def _postLoseConnection(self) -> None:
        self.ended = True

    def writable(self, room: int) -> None:
        """There is room again, and the reactor says so."""
        self.room = room
        while self in self.fake.writers and self.room and not self.ended:
            self.doWrite()


def outflow(transport: Any, moved: Callable[[], None] = lambda: None) -> SendBuffer:
    """One that is open."""
    flow = SendBuffer(moved)
    flow.open(transport)
    return flow


class WriteNowTests(SynchronousTestCase):
    """Past Twisted's buffers."""

    def test_only_plain_tcp(self) -> None:
        """Only Twisted's TCP transports are written to directly: not TLS over them, not UNIX sockets, not memory."""

        class Wrapping:
            def __getattr__(self, name: str) -> object:
                return lambda *_: None

        class Unix(FileDescriptor):
            """No TCP."""

        self.assertTrue(takes_direct(TcpConnection.__new__(TcpConnection)))
        self.assertFalse(takes_direct(Wrapping()))
        self.assertFalse(takes_direct(StringTransport()))
        self.assertFalse(takes_direct(Unix.__new__(Unix)))
        secure = TcpConnection.__new__(TcpConnection)
        secure.TLS = True
        self.assertFalse(takes_direct(secure))

    def test_counts(self) -> None:
        """It returns what the socket took, and nothing for one that is lost."""
        socket = Socket(room=3)
        self.assertEqual([write_now(socket, b"abcde"), write_now(socket, b"de")], [3, 0])
        socket.lost = True
        self.assertEqual(write_now(socket, b"de"), 0)


class DirectTests(SynchronousTestCase):
    """Over a TCP socket."""

    def test_straight(self) -> None:
        """While the socket takes everything the transport's buffers and the reactor's writers are not used."""
        socket = Socket()
        flow = outflow(socket)
        for _ in range(3):
            flow.write(b"abc")
        self.assertEqual((bytes(socket.taken), socket.calls, socket.fake.writers), (b"abc" * 3, 3, set()))
        self.assertEqual((flow.unsent, socket.producer), (0, None))

    def test_partial(self) -> None:
        """What the socket does not take leaves through the transport, in order, and then writing is direct again."""
        socket = Socket(room=2)
        flow = outflow(socket)
        flow.write(b"abcdef")
        flow.write(b"ghi")
        self.assertEqual((bytes(socket.taken), flow.unsent), (b"ab", 7))
        socket.writable(1 << 30)
        self.assertEqual((bytes(socket.taken), flow.unsent, socket.producer), (b"abcdefghi", 0, None))
        calls = socket.calls
        flow.write(b"jkl")
        self.assertEqual((bytes(socket.taken), socket.calls - calls, socket.fake.writers), (b"abcdefghijkl", 1, set()))

    def test_longer_than_one_call(self) -> None:
        """More than Twisted gives to one system call arrives whole."""
        socket = Socket()
        flow = outflow(socket)
        data = Random(1).randbytes(3 * SLICE + 5)
        flow.write(data)
        socket.writable(1 << 30)
        self.assertEqual(bytes(socket.taken), data)
        self.assertEqual(flow.unsent, 0)

    def test_random(self) -> None:
        """Whatever the socket takes and when, every byte arrives once and in order, and the count is never too low."""
        random = Random(2)
        for _ in range(200):
            socket = Socket(room=random.choice((0, 10, 100_000)))
            flow = outflow(socket)
            sent = bytearray()
            for _ in range(20):
                data = random.randbytes(random.choice((1, 10, 1000, 200_000)))
                flow.write(data)
                sent += data
                self.assertGreaterEqual(flow.unsent, len(sent) - len(socket.taken))
                if random.random() < 0.5:
                    socket.writable(random.choice((0, 1, 5000, 400_000)))
            socket.writable(1 << 30)
            self.assertEqual(bytes(socket.taken), bytes(sent))
            self.assertEqual((flow.unsent, socket.producer, socket.fake.writers), (0, None, set()))

    def test_gathered(self) -> None:
        """Pieces go to the socket as they are; what it does not take follows, once, in order."""
        pieces: list[bytes | memoryview] = [b"head", memoryview(b"x" * 50_000), b"", memoryview(b"y" * 50_000)]
        whole = b"".join(pieces)
        for room in (0, 3, 4, 60_000, len(whole), 1 << 30):
            socket = Socket(room)
            flow = outflow(socket)
            flow.write_pieces(pieces, len(whole))
            self.assertEqual(socket.gathered, 1)
            self.assertEqual(flow.unsent, max(0, len(whole) - room))
            flow.write(b"next")
            flow.write_pieces([b"la", b"st"], 4)
            socket.writable(1 << 30)
            self.assertEqual(bytes(socket.taken), whole + b"nextlast")
            self.assertEqual(flow.unsent, 0)

    def test_gathered_lost(self) -> None:
        """A socket that is lost takes nothing; the transport finds out by itself."""
        socket = Socket()
        socket.lost = True
        flow = outflow(socket)
        flow.write_pieces([b"ab", b"c"], 3)
        self.assertEqual((bytes(socket.taken), flow.unsent), (b"", 3))

    def test_handed_over_in_slices(self) -> None:
        """The transport never holds more than a slice, so that what waits can be counted and dropped."""
        socket = Socket(room=0)
        flow = outflow(socket)
        for _ in range(40):
            flow.write(bytes(100_000))
        self.assertLessEqual(len(socket.dataBuffer) + socket._tempDataLen, SLICE)
        self.assertEqual(flow.unsent, 4_000_000)

    def test_moved(self) -> None:
        """Progress is told, with the count already less."""
        socket = Socket(room=0)
        seen: list[int] = []
        flow = outflow(socket, lambda: seen.append(flow.unsent))
        flow.write(bytes(SLICE * 2))
        seen.clear()
        socket.writable(SLICE)
        self.assertEqual(seen[-1], SLICE)
        socket.writable(1 << 30)
        self.assertEqual(seen[-1], 0)

    def test_lost(self) -> None:
        """A socket that is found lost is left to the transport to report."""
        socket = Socket()
        socket.lost = True
        flow = outflow(socket)
        flow.write(b"abc")
        self.assertIn(socket, socket.fake.writers)
        self.assertIsInstance(socket.doWrite(), ConnectionLost)

    def test_finish(self) -> None:
        """Finishing sends what waits, then ends the connection."""
        socket = Socket(room=1)
        flow = outflow(socket)
        flow.write(b"abc")
        flow.finish()
        self.assertFalse(socket.ended)
        socket.writable(1 << 30)
        self.assertEqual((bytes(socket.taken), socket.ended), (b"abc", True))

    def test_finish_idle(self) -> None:
        """With nothing waiting the connection is ended at once, and nothing is written any more."""
        socket = Socket()
        flow = outflow(socket)
        flow.finish()
        flow.write(b"late")
        socket.writable(1 << 30)
        self.assertEqual((bytes(socket.taken), socket.ended), (b"", True))

    def test_gone(self) -> None:
        """After the connection is gone nothing is kept and nothing is written."""
        socket = Socket(room=0)
        flow = outflow(socket)
        flow.write(bytes(100))
        flow.stopProducing()
        flow.write(bytes(100))
        flow.resumeProducing()
        self.assertEqual((flow.unsent, bytes(socket.taken)), (0, b""))


class BufferedTests(SynchronousTestCase):
    """Over a transport that pushes back."""

    def test_passes(self) -> None:
        """What the transport takes without pushing back is not counted."""
        transport = StringTransport()
        flow = outflow(transport)
        flow.write(b"abc")
        flow.write(b"def")
        self.assertEqual((transport.value(), flow.unsent), (b"abcdef", 0))
        self.assertTrue(transport.streaming)

    def test_pieces(self) -> None:
        """What has no socket of its own is given pieces in one."""
        transport = StringTransport()
        outflow(transport).write_pieces([b"ab", memoryview(b"c")], 3)
        self.assertEqual(transport.value(), b"abc")

    def test_pushed_back(self) -> None:
        """From a push back on everything is counted and kept; resuming sends it in order."""
        transport = StringTransport()
        flow = outflow(transport)
        flow.pauseProducing()
        flow.write(b"abc")
        flow.write(b"def")
        self.assertEqual((transport.value(), flow.unsent), (b"", 6))
        flow.resumeProducing()
        self.assertEqual((transport.value(), flow.unsent), (b"abcdef", 0))

    def test_pushed_back_in_write(self) -> None:
        """Bytes that a transport took while pushing back stay counted until it resumes, and no slice follows them."""
        transport = StringTransport()
        flow = outflow(transport)
        real = transport.write

        def write(data: bytes) -> None:
            real(data)
            flow.pauseProducing()

        transport.write = write  # type: ignore[method-assign]
        flow.write(bytes(SLICE + 100))
        self.assertEqual((len(transport.value()), flow.unsent), (SLICE, SLICE + 100))
        flow.resumeProducing()
        self.assertEqual((len(transport.value()), flow.unsent), (SLICE + 100, 100))
        flow.resumeProducing()
        self.assertEqual(flow.unsent, 0)

    def test_finish(self) -> None:
        """Finishing hands over what waits, withdraws as a producer and ends the connection."""
        transport = StringTransport()
        flow = outflow(transport)
        flow.pauseProducing()
        flow.write(b"abc")
        flow.finish()
        self.assertFalse(transport.disconnecting)
        flow.resumeProducing()
        self.assertEqual((transport.value(), transport.producer), (b"abc", None))
        self.assertTrue(transport.disconnecting)
