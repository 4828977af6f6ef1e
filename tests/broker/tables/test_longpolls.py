"""Long polls: woken by arrivals that match, answered when their time is over, never leaked."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any, cast

from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.filter import TagFilter
from smartgo.broker.tables.longpolls import LongPollTable
from smartgo.errors import SystemBusy
from smartgo.remoting.dispatch import LongPoll
from smartgo.remoting.interfaces import Answer
from smartgo.schema.properties import tag_code
from tests.broker.doubles import change, current
from tests.fakes import FakeClock


def _note(answered: list[int], number: int, result: object) -> None:
    """Remember that a pull was answered, whatever with."""
    answered.append(number)


class Peer:
    """Stands for a connection: only its identity counts, its address, and whether it is open."""

    def __init__(self, host: str = "192.0.2.1") -> None:
        self.address = f"{host}:40001"
        self.open = True


class LongPollTableTests(SynchronousTestCase):
    def setUp(self) -> None:
        """A table on a clock that stands still."""
        self.clock = FakeClock()
        self.settings = current()
        self.limit(100, 4)
        self.table = LongPollTable(self.clock, self.settings)
        self.peer: Any = Peer()
        self.resumed: list[str] = []

    def limit(self, pulls: int, of_connection: int) -> None:
        """Let so many be held."""
        change(self.settings, max_held_pulls=pulls, max_held_pulls_per_connection=of_connection)

    def held(
        self, name: str, queue: int = 0, offset: int = 5, seconds: float = 15.0, tag: str = "", peer: Any = None
    ) -> Deferred[Answer]:
        """Hold a pull that answers with its name."""

        def resume() -> Answer:
            self.resumed.append(name)
            return name.encode()

        wanted = TagFilter(frozenset({tag_code(tag)})) if tag else None
        return self.table.hold(peer or self.peer, "T", queue, offset, wanted, seconds, resume)

    def test_woken(self) -> None:
        """An arrival past the offset answers the pulls of that queue and no others."""
        mine = self.held("mine")
        other = self.held("other", queue=1)
        later = self.held("later", offset=6)
        self.table.arrived("T", 0, 6, [0], 1)
        self.assertEqual(self.successResultOf(mine), b"mine")
        self.assertNoResult(other)
        self.assertNoResult(later)
        self.assertEqual(self.table.count, 2)

    def test_filter(self) -> None:
        """A message that the filter refuses wakes nobody; one of several that it lets in does."""
        waiting = self.held("a", tag="TagA")
        self.table.arrived("T", 0, 6, [tag_code("TagB")], 1)
        self.assertNoResult(waiting)
        self.table.arrived("T", 0, 8, [tag_code("TagB"), tag_code("TagA")], 1)
        self.assertEqual(self.successResultOf(waiting), b"a")

    def test_content(self) -> None:
        """A pull whose filter needs the content looks at each message once, and is answered where one is for it."""
        looks: list[tuple[int, int]] = []
        wanted = [7, 9]

        def scan(offset: int, end: int) -> int | None:
            looks.append((offset, end))
            return None if any(offset <= one < end for one in wanted) else end

        waiting = self.table.hold(self.peer, "T", 0, 5, None, 15, lambda: b"x", scan)
        self.table.arrived("T", 0, 6, [0], 1)
        self.table.arrived("T", 0, 7, [0], 1)
        self.assertNoResult(waiting)
        self.table.arrived("T", 0, 8, [0], 1)
        self.assertEqual((self.successResultOf(waiting), looks), (b"x", [(5, 6), (6, 7), (7, 8)]))

    def test_content_of_others(self) -> None:
        """A pull that was passed by messages whose content is not for it goes on behind them within 5.5 s."""
        waiting = self.table.hold(self.peer, "T", 0, 5, None, 15, lambda: b"x", lambda offset, end: end)
        self.clock.advance(1.0)
        for number in range(5):
            self.table.arrived("T", 0, 6 + number, [0], 1)
            self.clock.advance(1.0)
        self.assertNoResult(waiting)
        self.clock.advance(0.6)
        self.assertEqual((self.successResultOf(waiting), self.table.count), (b"x", 0))

    def test_arrival_of_others(self) -> None:
        """Messages that none of many pulls wants cost no look at each of them, but for the first."""
        looks = []

        class Codes(frozenset[int]):
            """Hashes that tell when they are looked at."""

            def isdisjoint(self, other: object) -> bool:
                looks.append(other)
                return True

        self.limit(10_000, 5_000)
        waiting = [
            self.table.hold(self.peer, "T", 0, 5, TagFilter(Codes({tag_code("A")})), 15, lambda: b"")
            for _ in range(500)
        ]
        for number in range(100):
            self.table.arrived("T", 0, 6 + number, [tag_code("B")], 1)
        self.assertEqual((self.table.count, looks), (500, []))
        self.assertEqual(len(self.table._by_queue["T", 0].fresh), 0)
        self.table.arrived("T", 0, 200, [tag_code("A"), tag_code("A")], 1)
        for one in waiting:
            self.assertEqual(self.successResultOf(one), b"")

    def test_two_tags(self) -> None:
        """A pull that wants two tags is woken once by messages of both."""
        tags = TagFilter(frozenset({tag_code("A"), tag_code("B")}))
        waiting = self.table.hold(self.peer, "T", 0, 5, tags, 15, lambda: b"x")
        self.table.arrived("T", 0, 7, [tag_code("A"), tag_code("B")], 1)
        self.assertEqual((self.successResultOf(waiting), self.table.count, self.table._by_queue), (b"x", 0, {}))

    def test_passed(self) -> None:
        """A pull that was passed by messages it does not want goes on behind them within 5.5 s, however many come."""
        waiting = self.held("a", tag="TagA")
        untouched = self.held("b", queue=1, tag="TagA")
        for number in range(5):
            self.table.arrived("T", 0, 6 + number, [tag_code("TagB")], 1)
            self.clock.advance(1.0)
        self.assertNoResult(waiting)
        self.clock.advance(0.5)
        self.assertEqual(self.successResultOf(waiting), b"a")
        self.assertNoResult(untouched)
        soon = self.held("c", tag="TagA", seconds=1.0)
        self.table.arrived("T", 0, 20, [tag_code("TagB")], 1)
        self.clock.advance(1.5)
        self.assertEqual(self.successResultOf(soon), b"c")

    def test_time_is_over(self) -> None:
        """Each is answered at the end of its time and at most half a second later, in the order of deadlines."""
        slow = self.held("slow", seconds=15)
        quick = self.held("quick", seconds=3)
        self.clock.advance(2.9)
        self.assertNoResult(quick)
        self.clock.advance(0.7)
        self.assertEqual(self.successResultOf(quick), b"quick")
        self.clock.advance(11.0)
        self.assertNoResult(slow)
        self.clock.advance(1.0)
        self.assertEqual(self.successResultOf(slow), b"slow")
        self.assertEqual((self.table.count, self.clock.getDelayedCalls()), (0, []))

    def test_longest(self) -> None:
        """No pull is held longer than the broker allows, however long its client would wait."""
        waiting = self.held("one", seconds=2.0**60)
        self.clock.advance(59.9)
        self.assertNoResult(waiting)
        self.clock.advance(0.7)
        self.assertEqual(self.successResultOf(waiting), b"one")
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_cost(self) -> None:
        """Holding and expiry look at few buckets, however many pulls with time-outs of their own are held."""
        self.limit(10_000, 5_000)
        waiting = [self.held(str(number), seconds=number * 0.5) for number in range(1000)]
        self.assertLess(len(self.table._buckets), 125)
        for _ in range(130):
            self.clock.advance(0.5)
        for one in waiting:
            self.successResultOf(one)
        self.assertEqual((self.table.count, self.clock.getDelayedCalls()), (0, []))
        self.assertEqual((self.table._buckets, self.table._order), ({}, []))

    def test_random(self) -> None:
        """Whatever comes in whichever order, each pull is answered once, in time, and nothing is left of it."""
        random = Random(11)
        waiting: dict[int, tuple[float, Deferred[Answer]]] = {}
        answered: list[int] = []
        self.limit(10_000, 5_000)
        peers = [Peer() for _ in range(5)]
        for number in range(2000):
            seconds = random.choice((0.0, 0.3, 1.0, 4.0, 15.0, 90.0))
            waiter = self.held(
                str(number), random.randrange(3), 5, seconds, random.choice(("", "A")), random.choice(peers)
            )
            waiter.addBoth(partial(_note, answered, number))
            waiting[number] = (self.clock.seconds() + min(60.0, seconds) + 0.5, waiter)
            if random.random() < 0.1:
                self.table.arrived("T", random.randrange(3), 6, [tag_code(random.choice("AB"))], 1)
            if random.random() < 0.05:
                gone = peers[random.randrange(5)]
                gone.open = False
                self.table.disconnected(cast(Any, gone))
                peers[peers.index(gone)] = Peer()
            self.clock.advance(random.choice((0.0, 0.01, 0.2)))
            late = [one for one, (due, _) in waiting.items() if due < self.clock.seconds() - 1e-6]
            self.assertLessEqual(set(late), set(answered))
        self.clock.pump([0.5] * 125)
        self.assertEqual(sorted(answered), list(range(2000)))
        self.assertEqual((self.table.count, self.table._by_queue, self.table._by_peer), (0, {}, {}))
        self.assertEqual(
            (self.table._buckets, self.table._long_polls.total, self.table._short_polls.total),
            ({}, 0, 0),
        )

    def test_over_limit_of_a_peer(self) -> None:
        """Past its connection's limit a pull is a short poll: woken by an arrival, else answered after a second."""
        for number in range(4):
            self.held(str(number), queue=1)
        first = self.held("first")
        second = self.held("second")
        self.assertNotIsInstance(first, LongPoll)  # so that it counts as a request in flight
        self.table.arrived("T", 0, 6, [0], 1)
        self.assertEqual(self.successResultOf(first), b"first")
        self.assertEqual(self.successResultOf(second), b"second")
        third = self.held("third")
        self.clock.advance(0.9)
        self.assertNoResult(third)
        self.clock.advance(0.7)
        self.assertEqual(self.successResultOf(third), b"third")

    def test_shared(self) -> None:
        """Few connections cannot take all places: others of their address find some, other addresses more."""
        self.limit(1000, 1000)

        def fill(peer: Peer) -> int:
            count = 0
            while isinstance(self.held("x", peer=peer), LongPoll):
                count += 1
            return count

        greedy = [fill(Peer()) for _ in range(4)]
        self.assertEqual(greedy[0], 334)
        self.assertLess(sum(greedy), 500)
        self.assertGreater(fill(Peer()), 0)
        self.assertGreater(fill(Peer("192.0.2.2")), 150)
        self.assertGreater(fill(Peer("192.0.2.3")), 80)

    def test_tags_take_places(self) -> None:
        """A pull whose filter has many tags takes more places, as its filter takes more memory."""
        self.limit(1000, 10)
        tags = TagFilter(frozenset(range(100)))  # 7 places
        first = self.table.hold(self.peer, "T", 0, 5, tags, 15, lambda: b"")
        second = self.table.hold(self.peer, "T", 0, 5, tags, 15, lambda: b"")
        self.assertEqual((isinstance(first, LongPoll), isinstance(second, LongPoll)), (True, False))
        self.assertIsInstance(self.held("small"), LongPoll)

    def test_too_many_short_polls(self) -> None:
        """Short polls have a limit too; past it the broker says that it is busy, and has kept nothing."""
        self.limit(9, 4)
        long_polls, short_polls = 3, 5
        for number in range(long_polls + short_polls):
            self.held(str(number))
        self.assertRaises(SystemBusy, self.held, "extra")
        self.assertEqual(self.table.count, 8)
        self.clock.advance(2.0)
        self.assertIsInstance(self.held("again"), Deferred)

    def test_disconnected(self) -> None:
        """The pulls of a connection that ended are forgotten at once, short polls too."""
        self.limit(100, 1)
        for number in range(3):
            self.held(str(number)).addErrback(lambda failure: failure.trap(CancelledError))
        self.peer.open = False
        self.table.disconnected(self.peer)
        self.table.disconnected(self.peer)
        self.assertEqual((self.table.count, self.resumed, self.table._short_polls.total), (0, [], 0))

    def test_cancelled(self) -> None:
        """The pulls of a connection that is gone are forgotten without being run again."""
        gone = self.held("gone")
        stays = self.held("stays", peer=Peer())
        self.peer.open = False
        gone.cancel()
        self.failureResultOf(gone, CancelledError)
        self.table.arrived("T", 0, 6, [0], 1)
        self.assertEqual(self.successResultOf(stays), b"stays")
        self.assertEqual((self.resumed, self.table.count), (["stays"], 0))

    def test_cancelled_while_open(self) -> None:
        """A server that stops cancels what is held: it is answered with what there is."""
        waiting = self.held("one")
        self.assertIsInstance(waiting, LongPoll)
        waiting.cancel()
        self.assertEqual(self.successResultOf(waiting), b"one")

    def test_resume_fails(self) -> None:
        """An error of the second try reaches the request that was held, and the others are answered."""

        def resume() -> Answer:
            raise ValueError("no")

        bad = self.table.hold(self.peer, "T", 0, 5, None, 15, resume)
        good = self.held("good")
        self.table.arrived("T", 0, 6, [0], 1)
        self.failureResultOf(bad, ValueError)
        self.assertEqual(self.successResultOf(good), b"good")

    def test_resume_waits(self) -> None:
        """A second try that has to wait for the disk is waited for."""
        disk: Deferred[Answer] = Deferred()
        waiting = self.table.hold(self.peer, "T", 0, 5, None, 15, lambda: disk)
        self.table.arrived("T", 0, 6, [0], 1)
        self.assertNoResult(waiting)
        disk.callback(b"read")
        self.assertEqual(self.successResultOf(waiting), b"read")

    def test_held_again(self) -> None:
        """Answering may lead to the next pull being held at once: it waits for the next arrival."""
        again: list[Deferred[Answer]] = []
        first = self.held("first")
        first.addCallback(lambda _: again.append(self.held("second", offset=6)))
        self.table.arrived("T", 0, 6, [0], 1)
        self.assertNoResult(again[0])
        self.table.arrived("T", 0, 7, [0], 1)
        self.assertEqual(self.successResultOf(again[0]), b"second")

    def test_stop(self) -> None:
        """Stopping answers everything and leaves no timer."""
        waiting = self.held("one")
        self.table.stop()
        self.assertEqual(self.successResultOf(waiting), b"one")
        self.assertEqual(self.clock.getDelayedCalls(), [])
