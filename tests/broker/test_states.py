"""Tests of L{smartgo.broker.states}."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.states import TRANSITIONS, BrokerEvent, BrokerState


class TableTests(SynchronousTestCase):
    """The table of a broker's life."""

    def test_reached(self) -> None:
        """Every state but the first is reached, and every event is used."""
        self.assertEqual(set(TRANSITIONS.values()), set(BrokerState) - {BrokerState.NEW})
        self.assertEqual({event for _, event in TRANSITIONS}, set(BrokerEvent))

    def test_ends(self) -> None:
        """From every state a stop leads to the end, from which nothing leads away; nothing is begun after a stop."""
        for state in set(BrokerState) - {BrokerState.STOPPING, BrokerState.STOPPED}:
            self.assertIs(TRANSITIONS[state, BrokerEvent.STOP], BrokerState.STOPPING, state)
        leads = {event for state, event in TRANSITIONS if state is BrokerState.STOPPING}
        self.assertEqual(leads, {BrokerEvent.GONE})
        self.assertEqual([event for state, event in TRANSITIONS if state is BrokerState.STOPPED], [])
