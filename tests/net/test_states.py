"""Tests of L{smartgo.net.states}."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.net.states import TRANSITIONS, Event, State


class StatesTests(SynchronousTestCase):
    """The table."""

    def test_ends(self) -> None:
        """Every way through the table ends, in one of the two ends, and nothing leads out of those."""
        ends = {State.CLOSED, State.LOST}
        self.assertEqual({before for before, _ in TRANSITIONS} & ends, set())
        reached = {State.DIALLING, State.HANDSHAKING}
        for _ in State:
            reached |= {after for (before, _), after in TRANSITIONS.items() if before in reached}
        self.assertEqual(reached, set(State))
        for state in set(State) - ends:
            self.assertIn((state, Event.GONE), TRANSITIONS)
            if state is not State.CLOSING:
                self.assertIs(TRANSITIONS[state, Event.CLOSE], State.CLOSING)

    def test_kinds(self) -> None:
        """What is taken is ready to be answered, and what is over is neither."""
        for state in State:
            self.assertLessEqual((state.takes, state.ready), (state.ready, True))
            self.assertFalse(state.over and (state.ready or state.takes))
