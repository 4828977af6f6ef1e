"""Nobody's requests stand behind thousands of another's."""

from __future__ import annotations

from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from smartgo.net.memorybudget import Kind
from smartgo.schema.command import Command, encode
from tests.remoting.doubles import ECHO, Accepted, Doing, request, sweeper_of


class Turning(Clock):
    """A clock with the turns of a real reactor: what is due when one begins, and not what is put off in it."""

    def turn(self) -> None:
        """Do what is due now."""
        for call in [call for call in self.calls if call.getTime() <= self.seconds()]:
            if call.active():
                self.calls.remove(call)
                call.called = 1
                call.func(*call.args, **call.kw)


class FairnessTests(SynchronousTestCase):
    """Connections of one process that send many requests at once."""

    def setUp(self) -> None:
        self.clock = Turning()
        self.sweeper = sweeper_of(self.clock)
        self.said: list[int] = []

    def accept(self, number: int) -> Accepted:
        """One more connection; C{said} gets its number for each of its requests."""

        def answer(_: object, asked: Command) -> bytes:
            self.said.append(number)
            return encode(asked.answer())

        return Accepted([Doing(ECHO, answer)], clock=self.clock, sweeper=self.sweeper)

    def flood(self, accepted: Accepted, count: int = 1000) -> None:
        """Send many requests in one read."""
        accepted.hear(*(request(opaque=number) for number in range(count)))

    def test_sixty_four(self) -> None:
        """A read with a thousand requests is processed 64 at a time, a reactor turn each; answers stay in order."""
        accepted = self.accept(1)
        self.flood(accepted)
        seen = [len(self.said)]
        while len(self.said) < 1000:
            self.clock.turn()
            seen.append(len(self.said))
        self.assertEqual(seen, [*range(64, 1000, 64), 1000])
        accepted.turns()
        self.assertEqual([one.opaque for one in accepted.answers()], list(range(1000)))
        self.assertEqual([call.getTime() for call in self.clock.getDelayedCalls()], [1.0])

    def test_not_read_meanwhile(self) -> None:
        """Nothing is read while requests wait for their turn, synchronous ones too (L12); then reading goes on."""
        accepted = self.accept(1)
        self.flood(accepted, 200)
        self.assertFalse(accepted.wire.reading)
        self.assertGreater(self.sweeper.budget.taken(Kind.WAITING_FRAMES), 0)
        self.clock.turn()
        self.assertFalse(accepted.wire.reading)
        for _ in range(3):
            self.clock.turn()
        self.assertTrue(accepted.wire.reading)
        self.assertEqual((len(self.said), self.sweeper.budget.used), (200, 0))

    def test_round_robin(self) -> None:
        """Those that have more are served in turn, 256 requests of all of them in a reactor turn at most."""
        flooding = [self.accept(number) for number in range(10)]
        for one in flooding:
            self.flood(one)
        self.said.clear()
        for turn in range(5):
            self.clock.turn()
            order = list(dict.fromkeys(self.said))
            self.assertEqual(order, [number % 10 for number in range(turn * 4, turn * 4 + 4)])
            self.assertEqual(len(self.said), 256)
            self.said.clear()

    def test_bystander(self) -> None:
        """However many connections have requests waiting, one that sends now is answered within the turn."""
        flooding = [self.accept(number) for number in range(200)]
        for one in flooding:
            self.flood(one)
        bystander = self.accept(-1)
        for turn in range(50):
            self.clock.turn()
            self.said.clear()
            bystander.hear(request(opaque=turn))
            self.assertEqual(self.said, [-1])
            self.clock.turn()
            self.assertEqual([one.opaque for one in bystander.answers()], [turn])
            self.assertLessEqual(len(self.said), 1 + 256)

    def test_leave_together(self) -> None:
        """The answers of all that are served in a turn leave after one end of their runs."""
        flooding = [self.accept(number) for number in range(4)]
        for one in flooding:
            self.flood(one, 200)
        self.clock.turn()
        before = [len(one.wire.writes) for one in flooding]
        self.clock.turn()
        self.assertEqual([len(one.wire.writes) for one in flooding], [count + 1 for count in before])

    def test_lost(self) -> None:
        """A connection that is lost while its requests wait is not served, and keeps nobody else waiting."""
        first, second = self.accept(1), self.accept(2)
        self.flood(first)
        self.flood(second)
        first.protocol.connectionLost(Failure(ConnectionDone()))
        self.said.clear()
        second.turns()
        self.assertEqual(self.said, [2] * (1000 - 64))
        second.protocol.connectionLost(Failure(ConnectionDone()))
        self.assertEqual((self.clock.getDelayedCalls(), self.sweeper.budget.used), ([], 0))

    def test_closed_within(self) -> None:
        """A connection that a request closes is served no further; what was answered leaves."""
        seen: list[int] = []

        def answer(peer: object, asked: Command) -> bytes:
            seen.append(asked.opaque)
            if asked.opaque == 100:
                accepted.connection.close("test")
            return encode(asked.answer())

        accepted = Accepted([Doing(ECHO, answer)], clock=self.clock, sweeper=self.sweeper)
        self.flood(accepted)
        accepted.turns()
        self.assertEqual(seen, list(range(101)))
        self.assertEqual([one.opaque for one in accepted.answers()], list(range(101)))
        self.assertTrue(accepted.wire.disconnecting)
