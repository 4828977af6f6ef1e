"""Tests of answers that leave together at the end of a turn, when many peers are read in each."""

from __future__ import annotations

from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from tests.remoting.doubles import ECHO, Accepted, Doing, request, sweeper_of


class TogetherTests(SynchronousTestCase):
    """Several connections, one round of timers, one processor."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.sweeper = sweeper_of(self.clock)
        self.said: list[str] = []
        self.peers = [self.peer(str(number)) for number in range(4)]

    def peer(self, name: str) -> Accepted:
        """A connection whose requests, runs' ends and writes are noted."""
        said = self.said

        class Noting(Doing):
            def run_ended(self) -> None:
                said.append("end")

        def answer(peer: object, asked: object) -> bytes:
            said.append(f"ask {name}")
            return b"\0\0\0\4\0\0\0\0"

        accepted = Accepted([Noting(ECHO, answer)], clock=self.clock, sweeper=self.sweeper)
        write = accepted.wire.write

        def noted(data: bytes) -> None:
            said.append(f"write {name}")
            write(data)

        accepted.wire.write = noted  # type: ignore[method-assign]
        return accepted

    def crowd(self) -> None:
        """Read the peers in turn until their answers go together."""
        for _ in range(3):
            for each in self.peers:
                each.hear(request())
            self.clock.advance(0)
        self.assertTrue(self.sweeper.turns.together)
        self.said.clear()

    def test_alone(self) -> None:
        """One peer alone is answered at once, before the turn ends, whatever it sends."""
        for _ in range(100):
            self.peers[0].hear(request())
        self.assertEqual(self.said, ["ask 0", "end", "write 0"] * 100)
        self.assertFalse(self.sweeper.turns.together)

    def test_together(self) -> None:
        """Where many are read in a turn, all runs end before the first answer leaves, at the end of the turn."""
        self.crowd()
        for each in self.peers:
            each.hear(request(), request())
        asked = [f"ask {number}" for number in range(4) for _ in range(2)]
        self.assertEqual(self.said, asked)
        self.clock.advance(0)
        ended = self.said[len(asked) :]
        self.assertEqual(ended, ["end"] * 4 + [f"write {number}" for number in range(4)])

    def test_alone_again(self) -> None:
        """A peer that is left alone is soon answered at once again."""
        self.crowd()
        for _ in range(8):
            self.peers[1].hear(request())
            self.assertNotIn("write 1", self.said)
            self.clock.advance(0)
            self.assertIn("write 1", self.said)
            self.said.clear()
        self.peers[1].hear(request())
        self.assertEqual(self.said, ["ask 1", "end", "write 1"])

    def test_long_turn(self) -> None:
        """A turn with very many frames does not keep the answers until its end."""
        self.crowd()
        for _ in range(5):
            self.peers[0].hear(*[request()] * 60)
        self.assertNotIn("write 0", self.said)
        for _ in range(5):
            self.peers[1].hear(*[request()] * 60)
        self.assertIn("write 0", self.said)
        self.assertLess(self.said.index("end"), self.said.index("write 0"))

    def test_closed_before(self) -> None:
        """A connection that we close before the turn ends gets its answers first; their run ends before."""
        self.crowd()
        self.peers[0].hear(request())
        self.peers[0].connection.close("test")
        self.assertEqual(self.said, ["ask 0", "end", "write 0"])
        self.clock.advance(0)
        self.assertEqual(self.said, ["ask 0", "end", "write 0"])

    def test_lost_before(self) -> None:
        """The run of a connection that is lost before the turn ends is ended all the same."""
        self.crowd()
        self.peers[0].hear(request())
        self.peers[0].protocol.connectionLost(Failure(ConnectionDone()))
        self.assertEqual(self.said, ["ask 0"])
        self.clock.advance(0)
        self.assertEqual(self.said, ["ask 0", "end"])

    def test_ended_within(self) -> None:
        """A run that is ended in its middle, because something else must leave, is ended again for its rest."""
        answers = iter([self.sweeper.turns.end_runs, lambda: None])

        def answer(peer: object, asked: object) -> bytes:
            self.said.append("ask")
            next(answers)()
            return b"\0\0\0\4\0\0\0\0"

        processor = Doing(ECHO, answer)
        accepted = Accepted([processor], clock=self.clock, sweeper=self.sweeper)
        accepted.hear(request(), request())
        self.assertEqual(processor.runs, [1, 2])

    def test_failing_end(self) -> None:
        """A processor that fails at the end of its run keeps nobody's answer back."""
        self.crowd()

        class Failing(Doing):
            def run_ended(self) -> None:
                raise ZeroDivisionError

        failing = Accepted([Failing(ECHO, lambda *_: b"\0\0\0\4\0\0\0\0")], clock=self.clock, sweeper=self.sweeper)
        failing.hear(request())
        self.peers[0].hear(request())
        self.clock.advance(0)
        self.assertEqual(self.said, ["ask 0", "end", "write 0"])
        self.assertEqual(len(failing.wire.writes), 1)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
