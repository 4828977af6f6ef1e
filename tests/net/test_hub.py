"""Hubs: the compiled one and its twin in Python, over real pairs of sockets."""

from __future__ import annotations

import errno
import select
import socket
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from smartgo.core import CORE, IS_COMPILED
from smartgo.net.hub import Hub, PureHub
from smartgo.net.memorybudget import MemoryBudget
from smartgo.net.sweeper import Sweeper
from tests.broker import test_sendrun
from tests.broker.test_sendrun import FIELDS, PEER, json_frame
from tests.sockets import SocketNetwork, SocketPoller


class Link:
    """Notes what a hub does with it."""

    def __init__(self) -> None:
        self.host = PEER
        self.out: list[bytes] = []
        self.unsent = 0
        self.missing = 0
        self.read: list[bytes] = []
        self.frames: list[int] = []
        self.written: list[bytes] = []
        self.left: list[tuple[int, int]] = []
        self.given_back = 0
        self.errors = 0
        self.raises: type[Exception] | None = None
        self.spare = 1000
        self.kept: list[Any] = []
        self.put: Callable[[bytes], object] = self.out.append
        self.when_begun: Callable[[], object] = int

    def begun(self, kept: Any) -> None:
        self.kept.append(kept)
        self.when_begun()

    def done(self, kept: Any) -> bool:
        wanted = kept in self.kept
        if wanted:
            self.kept.remove(kept)
        return wanted

    def dataReceived(self, data: bytes) -> None:
        if self.raises is not None:
            raise self.raises
        self.read.append(data)

    def took(self, frames: int) -> None:
        self.frames.append(frames)

    def wrote(self, data: bytes, sent: int) -> None:
        self.left.append((len(data), sent))

    def flush(self) -> None:
        self.written.append(b"".join(self.out))
        self.out.clear()

    def give_back(self) -> None:
        self.given_back += 1

    def broke(self) -> None:
        self.errors += 1


class Source:
    """Says what takes frames."""

    def __init__(self, run: Any = None) -> None:
        self.run = run
        self.asked = 0
        self.ended = 0
        self.when_ended: Callable[[], object] = int
        self.when_awaited: Callable[[], bool] = bool
        self.alone = (self,)
        self.tells: list[tuple[int, Any]] = []

    def when_durable(self, end: int, tell: Any) -> None:
        self.tells.append((end, tell))

    def given_up(self, answers: bytes) -> bytes:
        return b"given up %d" % len(answers)

    def ready_run(self) -> Any:
        self.asked += 1
        return self.run

    def awaited(self) -> bool:
        return self.when_awaited()

    def run_ended(self) -> None:
        self.ended += 1
        self.when_ended()


def with_length(*frames: bytes) -> bytes:
    """Frames as they are sent."""
    return b"".join([len(frame).to_bytes(4, "big") + frame for frame in frames])


class HubTestCase(SynchronousTestCase):
    """A hub and links over real sockets."""

    kind: Any = PureHub
    stay = 0.001

    def setUp(self) -> None:
        """A hub, and nothing in it."""
        self.network = SocketNetwork()
        self.clock = Clock()
        self.sweeper = Sweeper(self.clock, MemoryBudget(self.clock))
        self.hub = self.kind(self.network.poller, self.sweeper, self.stay)
        self.addCleanup(self.close)
        self.sockets: list[socket.socket] = []

    def close(self) -> None:
        """Close all sockets."""
        for one in self.sockets:
            one.close()

    def attach(self, source: Any = None, packets: bool = False) -> tuple[Link, socket.socket, Any]:
        """A link in the hub, and the other end of it; C{packets}: each system call moves one, whatever its size."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET if packets else socket.SOCK_STREAM)
        for one in (ours, theirs):
            one.setblocking(False)
        self.sockets += [ours, theirs]
        link = Link()
        return link, ours, self.hub.attach(link, theirs, (source or Source()).alone)

    def turn(self) -> None:
        """Let the hub read once."""
        for poller in self.network.pollers[:]:
            poller.ready()


class PureHubTests(HubTestCase):
    """What both hubs do."""

    def test_passes_on(self) -> None:
        """What comes goes to its link; who says nothing is not read."""
        one, end, _ = self.attach()
        other, _, _ = self.attach()
        end.send(b"abc")
        self.turn()
        self.assertEqual((one.read, other.read), ([b"abc"], []))
        self.turn()
        end.send(b"d")
        self.turn()
        self.assertEqual((one.read, one.given_back), ([b"abc", b"d"], 0))

    def test_shares(self) -> None:
        """Of a link that sends much a part is read each turn."""
        one, end, _ = self.attach()
        end.send(bytes(100_000))
        self.turn()
        self.assertEqual(list(map(len, one.read)), [65536])
        self.turn()
        self.assertEqual(list(map(len, one.read)), [65536, 100_000 - 65536])

    def test_reads(self) -> None:
        """Each link is read by one system call a turn."""
        links = [self.attach(packets=True) for _ in range(10)]
        for _, end, _ in links:
            end.send(b"first")
            end.send(b"second")
        self.turn()
        self.assertEqual([link.read for link, _, _ in links], [[b"first"]] * 10)
        self.turn()
        self.assertEqual([link.read for link, _, _ in links], [[b"first", b"second"]] * 10)

    def test_end(self) -> None:
        """At an end, and at an error, the link is given back."""
        one, end, lane = self.attach()
        end.close()
        self.turn()
        self.assertEqual((one.read, one.given_back), ([], 1))
        self.hub.detach(lane)

    def test_detached(self) -> None:
        """A link that left is not read; without links there is no poller, and the next link makes one again."""
        one, end, lane = self.attach()
        self.assertEqual((len(self.hub), len(self.network.pollers)), (1, 1))
        end.send(b"abc")
        self.hub.detach(lane)
        self.turn()
        self.assertEqual((one.read, len(self.hub), self.network.pollers), ([], 0, []))
        two, end, _ = self.attach()
        end.send(b"x")
        self.turn()
        self.assertEqual(two.read, [b"x"])

    def test_none(self) -> None:
        """Where there is no poller a link is not attached, and its handle need not be a socket."""
        hub = self.kind(lambda ready: None, self.sweeper)
        self.assertIsNone(hub.attach(Link(), object(), (Source(),)))
        self.assertEqual(len(hub), 0)

    def test_no_room(self) -> None:
        """Where the system has no descriptor, or no room for one more socket, the transport goes on reading."""

        def fail(*_: Any) -> Any:
            raise OSError(errno.EMFILE, "no descriptors")

        hub = self.kind(fail, self.sweeper)
        ours, theirs = socket.socketpair()
        self.sockets += [ours, theirs]
        self.assertIsNone(hub.attach(Link(), theirs, (Source(),)))
        self.patch(SocketPoller, "add", fail)
        self.assertIsNone(self.hub.attach(Link(), theirs, (Source(),)))
        self.assertEqual((len(self.hub), self.network.pollers), (0, []))

    def test_leaves_in_turn(self) -> None:
        """A link whose bytes make another one leave does no harm."""
        one, end, _ = self.attach()
        two, far, lane = self.attach()
        one.dataReceived = lambda data: self.hub.detach(lane)  # type: ignore[method-assign]
        end.send(b"a")
        far.send(b"b")
        self.turn()
        self.assertEqual(len(self.hub), 1)
        self.assertIn(two.read, ([], [b"b"]))


class CompiledHubTestCase(HubTestCase):
    """A compiled hub, and a run of sends."""

    kind = Hub
    if not IS_COMPILED:
        skip = f"the core is {CORE}"

    def setUp(self) -> None:
        """Make a run of sends, too."""
        super().setUp()
        self.sends = test_sendrun.ChosenRunTests("test_plain")
        self.sends.setUp()
        self.source = Source(self.sends.run_of_sends)

    def read(self, end: socket.socket) -> bytes:
        """What came."""
        try:
            return end.recv(1 << 20)
        except BlockingIOError:
            return b""


class ChosenHubTests(CompiledHubTestCase, PureHubTests):
    """What the compiled hub does besides."""

    def test_taken(self) -> None:
        """Whole frames are taken in a run, which ends once; all answers leave at the end of the turn."""
        one, end, _ = self.attach(self.source)
        two, far, _ = self.attach(self.source)
        frame = json_frame(FIELDS)
        end.send(with_length(frame, frame))
        far.send(with_length(frame))
        self.turn()
        self.assertEqual((one.frames, two.frames, one.read, two.read), ([2], [1], [], []))
        self.assertEqual((self.source.asked, self.source.ended), (1, 1))
        answers = self.sends.answers([self.read(end)])
        self.assertEqual(([one.code for one in answers], len(self.sends.answers([self.read(far)]))), ([0, 0], 1))
        self.assertEqual((one.written, one.left, self.sweeper.turns.begun), ([], [], []))
        self.assertEqual(self.sends.queue.next_offset, 1003)

    def test_system_calls(self) -> None:
        """However many sends were read from a link, one system call writes their answers."""
        links = [self.attach(self.source, packets=True) for _ in range(20)]
        frame = json_frame(FIELDS)
        for number, (_, end, _) in enumerate(links):
            end.send(with_length(*[frame] * (1 + number % 3)))
        self.turn()
        for number, (_, end, _) in enumerate(links):
            self.assertEqual(len(self.sends.answers([self.read(end)])), 1 + number % 3)
            self.assertEqual(self.read(end), b"")
        self.assertEqual((self.source.ended, self.source.asked), (1, 1))

    def test_objects(self) -> None:
        """Of a send nothing is left but its unit: one object a message."""
        one, end, _ = self.attach(self.source)
        frame = json_frame(FIELDS)
        queue = self.sends.queue
        one.took = int  # type: ignore[assignment]
        for turn in range(6):
            queue.pending[:] = [b""] * 100  # room in the lists
            queue.codes[:] = [0] * 100
            queue.pending.clear()
            queue.codes.clear()
            self.sends.log.end, queue.next_offset = self.sends.log.base + 100, 1000
            end.send(with_length(*[frame] * 50))
            before = sys.getallocatedblocks()
            self.turn()
            more = sys.getallocatedblocks() - before
            self.assertEqual(len(queue.pending), 50)
            self.read(end)
            if turn:  # the first learns the queue
                self.assertLessEqual(more, 60)

    def test_not_taken(self) -> None:
        """From the first frame that is not taken on all bytes go to the link, behind the answers before them."""
        one, end, _ = self.attach(self.source)
        frame, other = json_frame(FIELDS), json_frame({**FIELDS, "b": "Other"})
        end.send(with_length(frame, other, frame))
        self.turn()
        self.assertEqual((one.frames, one.read), ([1], [with_length(other, frame)]))
        self.assertEqual((len(self.sends.answers(one.written)), self.read(end)), (1, b""))

    def test_stretch(self) -> None:
        """What is not taken goes alone where many sends follow; what comes again and again takes more with it."""
        one, end, _ = self.attach(self.source)
        frame, other = json_frame(FIELDS), b"\0\0\0\0pull"
        strange = json_frame({**FIELDS, "b": "Other"})
        for number, (follow, passed, taken) in enumerate(((16, 1, 17), (15, 16, 1), (40, 1, 41))):
            one.read.clear()
            one.frames.clear()
            self.sends.queue.next_offset = 1000
            self.sends.log.end = self.sends.log.base + 100
            end.send(with_length(frame, (other, strange)[number % 2], *[frame] * follow))
            self.turn()
            self.assertEqual((len(one.read), sum(one.frames)), (1, taken), follow)
            self.assertTrue(one.read[0].startswith(with_length((other, strange)[number % 2])))
            self.assertEqual(one.read[0].count(b"310"), passed - 1 + number % 2, follow)
        one.read.clear()
        end.send(with_length(*[strange] * 60))
        self.turn()
        self.assertEqual([data.count(b"Other") for data in one.read], [1, 2, 4, 8, 16, 29])

    def test_stretch_end(self) -> None:
        """Who leaves the hub over a frame gets what follows all the same, in order."""
        one, end, lane = self.attach(self.source)
        frame = json_frame(FIELDS)
        seen = one.dataReceived

        def leave(data: bytes) -> None:
            if len(self.hub):
                self.hub.detach(lane)
            seen(data)

        one.dataReceived = leave  # type: ignore[method-assign]
        data = with_length(frame, b"\0\0\0\0pull", *[frame] * 30)
        end.send(data)
        self.turn()
        self.assertEqual((one.frames, b"".join(one.read)), ([1], data[4 + len(frame) :]))
        self.assertEqual(len(self.sends.answers([*one.written, *one.out])), 1)

    def test_fair(self) -> None:
        """Of several links each gets a share of 64 frames, round and round; a link alone all that was read."""
        order: list[tuple[str, int]] = []
        links = {}

        def note(name: str, frames: int) -> None:
            order.append((name, frames))

        self.sends.log.file = bytearray(1 << 20)
        self.sends.log.view = memoryview(self.sends.log.file)
        self.sends.log.limit = self.sends.log.base + (1 << 20) - 8
        self.sends.queue.reserved = 10_000
        frame = json_frame(FIELDS)
        for name, count in (("a", 150), ("b", 70), ("c", 1)):
            link, end, _ = links[name] = self.attach(self.source)
            link.took = partial(note, name)  # type: ignore[method-assign]
            end.send(with_length(*[frame] * count) + (b"\0\0" if name == "b" else b""))
        self.turn()
        rounds = [dict(order[:3]), dict(order[3:5]), dict(order[5:])]
        self.assertEqual(rounds, [{"a": 64, "b": 64, "c": 1}, {"a": 64, "b": 6}, {"a": 22}])
        for name, count in (("a", 150), ("b", 70), ("c", 1)):
            link, end, _ = links[name]
            self.assertEqual(len(self.sends.answers([self.read(end), *link.written])), count)
        self.assertEqual(links["b"][0].read, [b"\0\0"])
        order.clear()
        links["a"][1].send(with_length(*[frame] * 100))
        self.turn()
        self.assertEqual(order, [("a", 100)])

    def test_left_behind(self) -> None:
        """Who leaves while bytes wait for their share gets its answers at once, and the bytes later."""
        one, end, lane = self.attach(self.source)
        two, far, _ = self.attach(self.source)
        frame = json_frame(FIELDS)
        answered: list[int] = []

        def leave(data: bytes) -> None:
            self.hub.detach(lane)
            answered.append(len(self.sends.answers(one.out)))

        two.dataReceived = leave  # type: ignore[method-assign]
        end.send(with_length(*[frame] * 80))
        far.send(with_length(b"\0\0\0\0pull"))
        self.turn()
        self.assertEqual((one.frames, answered, one.read), ([64], [64], [with_length(*[frame] * 16)]))
        self.assertEqual(len(self.sends.answers(one.written)), 64)

    def test_parts(self) -> None:
        """A frame that is not whole goes to the link, and so does the rest of it; what follows is taken again."""
        one, end, _ = self.attach(self.source)
        frame = with_length(json_frame(FIELDS))
        for size in (1, 3, 4, 5, 100, len(frame) - 1):
            one.read.clear()
            one.frames.clear()
            end.send(frame + frame[:size])
            self.turn()
            self.assertEqual((one.read, one.frames), ([frame[:size]], [1]))
            one.missing = len(frame) - size if size >= 4 else -1
            end.send(frame[size:] + frame)
            if size < 4:  # nobody knows where it ends
                self.turn()
                self.assertEqual((one.read, one.frames), ([frame[:size], frame[size:] + frame], [1]))
            else:
                self.turn()
                self.assertEqual((one.read, one.frames), ([frame[:size], frame[size:]], [1, 1]))
            one.missing = 0

    def test_refused(self) -> None:
        """While nothing is taken all goes to the link."""
        self.source.run = None
        one, end, _ = self.attach(self.source)
        frame = with_length(json_frame(FIELDS))
        end.send(frame)
        self.turn()
        self.assertEqual((one.read, one.frames), ([frame], []))

    def test_asked_again(self) -> None:
        """After bytes went to a link it is asked anew what takes frames: sends may be refused from then on."""
        one, end, _ = self.attach(self.source)
        two, far, _ = self.attach(self.source)
        frame = with_length(json_frame(FIELDS))

        def refuse(data: bytes) -> None:
            self.source.run = None

        one.dataReceived = two.dataReceived = refuse  # type: ignore[method-assign]
        end.send(frame + with_length(b"what is this"))
        far.send(frame + with_length(b"what is this"))
        self.turn()
        self.assertEqual(sorted([one.frames, two.frames]), [[], [1]])

    def test_unsent(self) -> None:
        """Behind what is unsent answers wait with the link; what a socket does not take the link takes over."""
        one, end, _ = self.attach(self.source)
        frame = with_length(json_frame(FIELDS))
        one.unsent = 1
        end.send(frame)
        self.turn()
        self.assertEqual((len(self.sends.answers(one.written)), self.read(end)), (1, b""))
        one.unsent = 0
        full = self.sockets[-1]
        while True:
            try:
                full.send(bytes(65536))
            except BlockingIOError:
                break
        end.send(frame)
        self.turn()
        self.assertEqual([sent for _, sent in one.left], [0])

    def test_answered_at_end(self) -> None:
        """Who ends the connection behind a request still gets the answer."""
        one, end, lane = self.attach(self.source)
        end.send(with_length(json_frame(FIELDS)))
        end.shutdown(socket.SHUT_WR)
        self.turn()
        self.turn()
        self.assertEqual((one.given_back, len(self.sends.answers([self.read(end)]))), (1, 1))
        self.hub.detach(lane)

    def test_bug(self) -> None:
        """An exception breaks its own link alone; the others are answered."""
        one, end, _ = self.attach(self.source)
        two, far, _ = self.attach(self.source)
        one.raises = ValueError
        end.send(with_length(b"what is this"))
        far.send(with_length(json_frame(FIELDS)))
        self.turn()
        self.assertEqual((one.errors, two.errors), (1, 0))
        self.assertEqual(len(self.sends.answers([self.read(far)])), 1)

    def test_long(self) -> None:
        """A frame longer than one read goes to the link."""
        one, end, _ = self.attach(self.source)
        long = with_length(bytes(200_000))
        end.send(long[:100])
        self.turn()
        self.assertEqual((one.read, one.frames), ([long[:100]], []))


class StayingHubTests(CompiledHubTestCase):
    """When the compiled hub waits for more, and when the runs end that it puts off."""

    stay = 1000.0  # seconds: only what is to end it does

    def joined(self) -> tuple[Link, socket.socket]:
        """Return a link that has sent a frame just now, so that more are expected soon."""
        link, end, _ = self.attach(self.source)
        end.send(with_length(json_frame(FIELDS)))
        self.turn()
        self.assertEqual((len(self.sends.answers([self.read(end)])), self.source.ended), (1, 1))
        return link, end

    def test_again(self) -> None:
        """What comes soon is read and answered without a turn of the reactor; the run ends once, behind all answers."""
        link, end = self.joined()
        frame = with_length(json_frame(FIELDS))
        other, far, _ = self.attach(self.source)
        answered: list[int] = []

        def awaited() -> bool:
            answered.append(len(self.sends.answers([self.read(end)])))
            if len(answered) == 4:
                return True
            end.send(frame * len(answered))
            if len(answered) == 2:
                far.send(frame)
            return False

        self.source.when_awaited = awaited
        end.send(frame)
        self.turn()
        self.assertEqual((answered, link.frames, other.frames), ([1, 1, 2, 3], [1, 1, 1, 2, 3], [1]))
        self.assertEqual((self.source.ended, self.source.asked), (2, 2))
        self.assertEqual((self.sweeper.turns.begun, self.sends.queue.next_offset), ([], 1009))

    def test_awaited(self) -> None:
        """Where somebody waits for what is stored, nothing is waited for, and the run ends behind the answers."""
        _, end = self.joined()
        answered: list[int] = []
        self.source.when_awaited = lambda: True
        self.source.when_ended = lambda: answered.append(len(self.sends.answers([self.read(end)])))
        end.send(with_length(json_frame(FIELDS)))
        self.turn()
        self.assertEqual(answered, [1])

    def test_awaited_long(self) -> None:
        """Where somebody waits while frames keep coming, the run of each turn ends, and the reactor is next."""
        _, end = self.joined()
        frame = with_length(json_frame(FIELDS))
        ended: list[int] = []

        def awaited() -> bool:
            ended.append(self.source.ended)
            end.send(frame)
            return True

        self.source.when_awaited = awaited
        end.send(frame)
        for turns in (1, 2, 3):
            self.turn()
            self.assertEqual((len(ended), self.source.ended), (turns, turns + 1))

    def test_rare(self) -> None:
        """Frames that come seldom are waited for by the reactor alone."""
        self.hub = self.kind(self.network.poller, self.sweeper, 0.0)
        _, end = self.joined()
        self.source.when_awaited = lambda: self.fail("it would wait")
        end.send(with_length(json_frame(FIELDS)))
        self.turn()
        self.assertEqual(self.source.ended, 2)

    def test_over(self) -> None:
        """Nothing is waited for beyond the time; so the runs end then."""
        self.hub = self.kind(self.network.poller, self.sweeper, 0.05)
        link, end = self.joined()
        frame = with_length(json_frame(FIELDS))

        def awaited() -> bool:
            self.sends.log.end, self.sends.queue.next_offset = self.sends.log.base + 100, 1000
            self.read(end)
            end.send(frame)
            return False

        self.source.when_awaited = awaited
        for turns in range(2, 1000):
            before = len(link.frames)
            end.send(frame)
            self.turn()
            self.assertEqual(self.source.ended, turns)
            if len(link.frames) > before + 1:  # else this turn did not come soon enough after the one before
                return
        self.fail("it never waited")

    def test_nothing_else(self) -> None:
        """It waits no longer than the reactor has nothing to do: what is ready besides ends the turn."""
        link, end = self.joined()
        ours, theirs = socket.socketpair()
        self.sockets += [ours, theirs]
        ours.send(b"for the reactor")
        frame = with_length(json_frame(FIELDS))

        def awaited() -> bool:
            end.send(frame)
            return False

        self.source.when_awaited = awaited
        self.network.pollers[0].around.register(theirs.fileno(), select.EPOLLIN)
        end.send(frame)
        self.turn()
        self.assertEqual((link.frames, self.source.ended), ([1, 1], 2))
        self.turn()
        self.assertEqual((link.frames, self.source.ended), ([1, 1, 1], 3))

    def test_timer(self) -> None:
        """Where a timer of the reactor is due nothing is waited for."""
        _, end = self.joined()
        self.network.pollers[0].spares = 0.0
        self.source.when_awaited = lambda: self.fail("it would wait")
        end.send(with_length(json_frame(FIELDS)))
        self.turn()
        self.assertEqual(self.source.ended, 2)

    def test_not_watched(self) -> None:
        """Where nobody knows whether the reactor has anything to do, what is there is read, and nothing waited for."""
        self.patch(SocketPoller, "watched", lambda _: -1)
        self.joined()
        two, far, _ = self.attach(self.source, packets=True)
        frame = with_length(json_frame(FIELDS))
        for _ in range(3):
            far.send(frame)
        self.turn()
        self.assertEqual((two.frames, self.source.ended), ([1, 1, 1], 2))

    def test_passed_on(self) -> None:
        """Before a link gets bytes the run ends that was answered; then the reactor has its turn."""
        link, end = self.joined()
        frame, other = with_length(json_frame(FIELDS)), with_length(b"\0\0\0\0pull")
        ended: list[int] = []
        link.dataReceived = lambda data: ended.append(self.source.ended)  # type: ignore[method-assign]
        waits = iter([False])

        def awaited() -> bool:
            end.send(other)
            return next(waits)

        self.source.when_awaited = awaited
        end.send(frame)
        self.turn()
        self.assertEqual(ended, [2])
        end.send(frame + other)  # the run in which nothing was answered yet goes on
        self.turn()
        self.assertEqual((ended, self.source.ended), ([2, 2], 3))

    def test_returns(self) -> None:
        """After bytes went to a link the reactor has its turn first, however soon more come: work may wait there."""
        link, end = self.joined()
        frame = with_length(json_frame(FIELDS))
        link.dataReceived = lambda data: self.assertTrue(end.send(frame))  # type: ignore[method-assign]
        self.source.when_awaited = lambda: True
        end.send(frame + with_length(b"\0\0\0\0pull"))
        self.turn()
        self.assertEqual((link.frames, self.source.ended), ([1, 1], 2))
        self.turn()
        self.assertEqual((link.frames, self.source.ended), ([1, 1, 1], 3))

    def test_left(self) -> None:
        """A link that leaves while the hub stays, and takes the hub's descriptor with it, does no harm."""
        link, end, lane = self.attach(self.source)
        end.send(with_length(json_frame(FIELDS)))
        self.turn()

        def awaited() -> bool:
            self.hub.detach(lane)
            return False

        self.source.when_awaited = awaited
        end.send(with_length(json_frame(FIELDS)))
        self.turn()
        self.assertEqual((link.frames, len(self.hub), self.source.ended), ([1, 1], 0, 2))


class KeptTests(CompiledHubTestCase):
    """Answers that wait for a flush or a slave."""

    def setUp(self) -> None:
        """A run whose answers wait."""
        super().setUp()
        self.source.run = self.sends.run_of_sends = self.sends.make(later=True)

    def tell(self, number: int = 0, weaker: Callable[[bytes], bytes] | None = None) -> None:
        """Let the answers of a turn leave, and the reactor turn end."""
        self.source.tells[number][1](weaker)
        self.clock.advance(0)

    def count(self, end: socket.socket) -> int:
        """How many answers came."""
        return len(self.sends.answers([self.read(end)]))

    def test_wait(self) -> None:
        """They leave when the source says so, which is asked once a turn, for all links; the run ends before."""
        one, end, _ = self.attach(self.source, packets=True)
        two, far, _ = self.attach(self.source, packets=True)
        frame = with_length(json_frame(FIELDS))
        end.send(frame * 3)
        far.send(frame)
        self.turn()
        self.assertEqual((one.frames, two.frames, self.source.ended), ([3], [1], 1))
        self.assertEqual([end for end, _ in self.source.tells], [self.sends.log.end])
        self.assertEqual((self.read(end), [kept.count for kept in one.kept]), (b"", [3]))
        self.assertGreater(one.kept[0].size, 512 + 3 * 100)
        self.assertFalse(one.kept[0].held)
        end.send(frame)
        self.turn()
        self.assertEqual((len(self.source.tells), one.frames, self.source.ended), (2, [3, 1], 2))
        self.tell()
        self.assertEqual((self.count(end), self.count(far), self.read(end)), (3, 1, b""))
        self.tell(1)
        self.assertEqual((self.count(end), self.count(far)), (1, 0))
        self.assertEqual((one.kept, one.written, one.left, self.clock.getDelayedCalls()), ([], [], [], []))

    def test_one_write(self) -> None:
        """What leaves of several turns at once leaves in one write of each link, in order."""
        _, end, _ = self.attach(self.source, packets=True)
        for opaque in (7, 8, 9):
            end.send(with_length(json_frame(FIELDS, opaque=opaque)))
            self.turn()
        for _, tell in self.source.tells:
            tell(None)
        self.assertEqual(self.read(end), b"")
        self.clock.advance(0)
        self.assertEqual([one.opaque for one in self.sends.answers([self.read(end)])], [7, 8, 9])
        self.assertEqual(self.read(end), b"")

    def test_next_turn(self) -> None:
        """A turn that comes before the reactor's end writes them, too; then there is nothing left to do."""
        _, end, _ = self.attach(self.source, packets=True)
        end.send(with_length(json_frame(FIELDS)))
        self.turn()
        self.source.tells[0][1](None)
        end.send(with_length(json_frame(FIELDS)))
        self.turn()
        self.assertEqual(self.count(end), 1)
        self.clock.advance(0)
        self.assertEqual(self.read(end), b"")

    def test_at_once(self) -> None:
        """Where nothing is to be waited for, they leave at the end of the turn."""
        one, end, _ = self.attach(self.source)
        self.source.when_durable = lambda end, tell: tell(None)  # type: ignore[method-assign]
        end.send(with_length(json_frame(FIELDS)))
        self.turn()
        self.assertEqual((self.count(end), one.kept, self.clock.getDelayedCalls()), (1, [], []))

    def test_not_waiting(self) -> None:
        """Who does not want to wait is answered in this turn; a one-way send waits without an answer."""
        one, end, _ = self.attach(self.source)
        hasty = {**FIELDS, "i": "WAIT\x01false"}
        end.send(with_length(json_frame(hasty), json_frame(FIELDS, flag=2), json_frame(hasty)))
        self.turn()
        self.assertEqual((self.count(end), one.frames, [kept.count for kept in one.kept]), (2, [3], [1]))
        self.tell()
        self.assertEqual((self.read(end), one.kept), (b"", []))
        end.send(with_length(json_frame(hasty)))
        self.turn()
        self.assertEqual((self.count(end), len(self.source.tells)), (1, 1))

    def test_weaker(self) -> None:
        """Where less was reached than they say, others leave in their place; one that cannot be made ends its link."""
        one, end, _ = self.attach(self.source)
        two, far, _ = self.attach(self.source)
        end.send(with_length(json_frame(FIELDS)))
        self.turn()
        far.send(with_length(json_frame(FIELDS)))
        self.turn()
        self.tell(0, lambda answers: b"%d bytes" % len(answers[4:]))
        self.assertRegex(self.read(end), rb"^[0-9]+ bytes$")
        self.tell(1, lambda answers: answers[0].to_bytes(-1, "big"))
        self.assertEqual((self.read(far), one.errors, two.errors), (b"", 0, 1))

    def test_gone(self) -> None:
        """Nothing is sent to who is gone; who has only left the hub gets its answers by its link."""
        one, end, lane = self.attach(self.source)
        two, far, other = self.attach(self.source)
        for link_end in (end, far):
            link_end.send(with_length(json_frame(FIELDS)))
        self.turn()
        one.kept.pop().forget()
        self.hub.detach(lane)
        self.hub.detach(other)
        self.tell()
        self.assertEqual((one.out, self.read(end), len(self.sends.answers(two.out))), ([], b"", 1))

    def test_given_up(self) -> None:
        """Who is to be answered without waiting any longer is told what the source says, once."""
        one, end, _ = self.attach(self.source)
        end.send(with_length(json_frame(FIELDS)))
        self.turn()
        kept = one.kept[0]
        kept.cancel()
        kept.give_up()
        kept.give_up()
        self.assertRegex(b"".join(one.out), rb"^given up [0-9]+$")
        self.tell()
        self.assertEqual((self.read(end), one.kept), (b"", []))

    def test_spare(self) -> None:
        """No more are taken of a link than may wait; the rest goes to the link, which has left the hub by then."""
        one, end, lane = self.attach(self.source)
        one.spare = 2
        one.when_begun = lambda: self.hub.detach(lane)
        frame = with_length(json_frame(FIELDS))
        end.send(frame * 5)
        self.turn()
        self.assertEqual((one.frames, one.read, [kept.count for kept in one.kept]), ([2], [frame * 3], [2]))

    def test_pull_behind(self) -> None:
        """What comes behind sends that wait goes to the link, before their answers."""
        one, end, _ = self.attach(self.source)
        other = with_length(b"\0\0\0\0pull")
        end.send(with_length(json_frame(FIELDS)) + other)
        self.turn()
        self.assertEqual((one.frames, one.read, self.read(end)), ([1], [other], b""))
        self.tell()
        self.assertEqual(self.count(end), 1)

    def test_sources(self) -> None:
        """Each source is asked about its own."""
        other = Source(self.sends.make(later=True))
        _, end, _ = self.attach(self.source)
        _, far, _ = self.attach(other)
        for link_end in (end, far):
            link_end.send(with_length(json_frame(FIELDS)))
        self.turn()
        self.assertEqual((len(self.source.tells), len(other.tells)), (1, 1))
        other.tells[0][1](None)
        self.clock.advance(0)
        self.assertEqual((self.count(end), self.count(far)), (0, 1))

    def test_bug(self) -> None:
        """A source that cannot be asked ends the links whose answers it has."""
        one, end, _ = self.attach(self.source)
        self.source.when_durable = lambda end, tell: [].pop()  # type: ignore[method-assign]
        end.send(with_length(json_frame(FIELDS)))
        self.turn()
        self.assertEqual((one.errors, self.read(end)), (1, b""))

    def test_told_twice(self) -> None:
        """A source that speaks twice is heard once."""
        _, end, _ = self.attach(self.source)
        end.send(with_length(json_frame(FIELDS)))
        self.turn()
        self.tell()
        self.tell()
        self.assertEqual(self.count(end), 1)
