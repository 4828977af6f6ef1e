"""The feed behind loops over messages: calls of a listener that wait for a receiver."""

from __future__ import annotations

from twisted.internet.defer import CancelledError
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from smartgo.client.feed import MessageFeed
from smartgo.client.listening import ConsumeLater, NotConsumed
from smartgo.errors import SettingError
from tests.client.internal.test_processqueue import message


class FeedTests(SynchronousTestCase):
    def setUp(self) -> None:
        """A feed with a clock that stands still."""
        self.clock = Clock()
        self.feed = MessageFeed(self.clock)
        self.first, self.second = [message(0)], [message(1)]

    def tearDown(self) -> None:
        """No timer is left."""
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_acknowledged(self) -> None:
        """Calls are handed out one at a time, in order; to ask for the next one acknowledges the one before."""
        outcomes = [self.feed.listen(self.first), self.feed.listen(self.second)]
        self.assertIs(self.successResultOf(self.feed.receive()), self.first)
        self.assertTrue(self.feed.in_work)
        self.assertNoResult(outcomes[0])
        self.assertIs(self.successResultOf(self.feed.receive()), self.second)
        self.assertIsNone(self.successResultOf(outcomes[0]))
        self.assertNoResult(outcomes[1])
        self.feed.acknowledge()
        self.assertIsNone(self.successResultOf(outcomes[1]))
        self.assertFalse(self.feed.in_work)
        self.feed.acknowledge()  # there is nothing left

    def test_waiting(self) -> None:
        """Who asks before there is a message gets the next one, and nobody else may ask meanwhile."""
        waiting = self.feed.receive(5.0)
        self.assertRaises(SettingError, self.feed.receive)
        self.feed.listen(self.first)
        self.assertIs(self.successResultOf(waiting), self.first)

    def test_timeout(self) -> None:
        """When the time is over there is no message, and one that comes later waits for the next receiver."""
        waiting = self.feed.receive(5.0)
        self.clock.advance(4.9)
        self.assertNoResult(waiting)
        self.clock.advance(0.1)
        self.assertIsNone(self.successResultOf(waiting))
        outcome = self.feed.listen(self.first)
        self.assertFalse(self.feed.in_work)
        self.assertIs(self.successResultOf(self.feed.receive(0.0)), self.first)
        self.assertNoResult(outcome)

    def test_cancelled(self) -> None:
        """A receiver that is cancelled takes no message, and another one may wait."""
        waiting = self.feed.receive(5.0)
        waiting.cancel()
        self.failureResultOf(waiting, CancelledError)
        self.feed.listen(self.first)
        self.assertFalse(self.feed.in_work)
        self.assertIs(self.successResultOf(self.feed.receive()), self.first)

    def test_given_back(self) -> None:
        """An error of the program is that of the call; an interrupt is none, and leaves the messages where they are."""
        errors: list[tuple[BaseException, type[Exception]]] = [
            (ZeroDivisionError(), ZeroDivisionError),
            (ConsumeLater(3), ConsumeLater),
            (KeyboardInterrupt(), NotConsumed),
        ]
        for error, kind in errors:
            outcome = self.feed.listen(self.first)
            self.successResultOf(self.feed.receive())
            self.feed.give_back(error)
            self.failureResultOf(outcome, kind)
            self.assertFalse(self.feed.in_work)

    def test_put_back(self) -> None:
        """Messages that are put back are the next ones, also of a receiver that waits already."""
        outcome = self.feed.listen(self.first)
        self.feed.listen(self.second)
        self.successResultOf(self.feed.receive())
        self.feed.put_back()
        self.assertIs(self.successResultOf(self.feed.receive()), self.first)
        self.assertNoResult(outcome)
        self.feed.put_back()
        self.assertIs(self.successResultOf(self.feed.receive()), self.first)

    def test_closed(self) -> None:
        """At the end whoever waits gets nothing, and messages without an outcome stay in their queues."""
        outcomes = [self.feed.listen(self.first), self.feed.listen(self.second)]
        self.successResultOf(self.feed.receive())
        self.feed.close()
        for outcome in outcomes:
            self.failureResultOf(outcome, NotConsumed)
        self.assertIsNone(self.successResultOf(self.feed.receive(5.0)))
        self.feed.close()

    def test_closed_while_waiting(self) -> None:
        """A receiver that waits when the feed is closed gets nothing, and its timer is gone."""
        waiting = self.feed.receive(5.0)
        self.feed.close()
        self.assertIsNone(self.successResultOf(waiting))

    def test_put_back_late(self) -> None:
        """A receiver that is told of its end late puts nothing back: the messages are in their queue already."""
        outcome = self.feed.listen(self.first)
        self.successResultOf(self.feed.receive())
        self.feed.close()
        self.failureResultOf(outcome, NotConsumed)
        self.feed.put_back()
        self.assertFalse(self.feed.in_work)
        self.assertIsNone(self.successResultOf(self.feed.receive()))

    def test_closed_before(self) -> None:
        """A call of the listener that comes after the end is over at once: nobody waits for it."""
        self.feed.close()
        self.failureResultOf(self.feed.listen(self.first), NotConsumed)
