"""The lag of groups in messages and in time."""

from __future__ import annotations

from twisted.trial.unittest import TestCase

from smartgo.schema.bodies import ConsumeStats, OffsetWrapper
from smartgo.schema.lag import Lag, acknowledged_tps, lag_over


class LagTests(TestCase):
    """What waits, and since when."""

    def test_never_consumed(self) -> None:
        """The time lag of a group that hangs at its first message counts from that message."""
        lag = lag_over([OffsetWrapper(80, 0, 0, waiting_since=1_000)])
        self.assertEqual(lag, Lag(80, 1_000))
        self.assertEqual(lag.waited_ms(661_000), 660_000)

    def test_oldest(self) -> None:
        """The oldest of all queues counts, and never the last consumed message where the oldest waiting is known."""
        queues = [
            OffsetWrapper(5, 5, 5, last_timestamp=10, waiting_since=0),
            OffsetWrapper(5, 4, 4, last_timestamp=20, waiting_since=3_000),
            OffsetWrapper(5, 3, 3, last_timestamp=30, waiting_since=2_000),
        ]
        self.assertEqual(lag_over(queues), Lag(3, 2_000))

    def test_none(self) -> None:
        """A group without lag has no time lag, whenever it consumed last; an offset beyond the end is no lag."""
        lag = lag_over([OffsetWrapper(5, 5, 5, 1, waiting_since=0), OffsetWrapper(5, 7, 7, 1, waiting_since=0)])
        self.assertEqual(lag, Lag(0, 0))
        self.assertEqual(lag.waited_ms(99_000), 0)
        self.assertEqual(lag_over([]), Lag(0, 0))

    def test_removed(self) -> None:
        """Messages that retention has removed do not wait any more."""
        self.assertEqual(lag_over([OffsetWrapper(2_100, 0, 0, min_offset=1_598, waiting_since=7)]), Lag(502, 7))

    def test_rocketmq(self) -> None:
        """For RocketMQ's brokers the last consumed message stands in; without one the age is unknown, and not 0."""
        consumed = OffsetWrapper(5, 4, 4, last_timestamp=2_000)
        never = OffsetWrapper(7, 0, 0)
        self.assertEqual(lag_over([consumed]), Lag(1, 2_000))
        self.assertEqual(lag_over([never]), Lag(7, None))
        self.assertIsNone(lag_over([never]).waited_ms(99_000))
        self.assertEqual(lag_over([never, consumed]), Lag(8, 2_000))

    def test_clock_back(self) -> None:
        """A clock that was set back gives no negative age."""
        self.assertEqual(Lag(1, 5_000).waited_ms(1_000), 0)

    def test_acknowledged(self) -> None:
        """RocketMQ's brokers tell deliveries only."""
        self.assertEqual(acknowledged_tps(ConsumeStats(consume_tps=3.0)), 3.0)
        self.assertEqual(acknowledged_tps(ConsumeStats(consume_tps=3.0, acknowledged_tps=0.0)), 0.0)
