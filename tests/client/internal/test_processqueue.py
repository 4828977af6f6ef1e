"""A consumer's messages of one queue: the lowest offset in flight, and when to stop pulling."""

from __future__ import annotations

import random

from twisted.trial.unittest import SynchronousTestCase

from smartgo.client.internal.processqueue import ProcessQueue, Thresholds
from smartgo.client.messages import ReceivedMessage
from smartgo.schema.bodies import MessageQueue

QUEUE = MessageQueue("T", "b", 0)


def message(offset: int, size: int = 10) -> ReceivedMessage:
    """A message at an offset."""
    return ReceivedMessage(
        topic="T", queue=QUEUE, queue_offset=offset, body=bytes(size), properties={}, message_id=str(offset),
        offset_id=str(offset), log_offset=offset * 100, flag=0, born_ms=1, stored_ms=2, born_host="127.0.0.1:1",
        reconsume_times=0,
    )  # fmt: skip


class OffsetTests(SynchronousTestCase):
    def test_any_order(self) -> None:
        """In whatever order messages are done with, the group stands at the lowest one that is not."""
        for seed in range(20):
            chance = random.Random(seed)
            held = ProcessQueue(QUEUE, 5, Thresholds(), 0.0)
            messages = [message(5 + at * 2) for at in range(30)]
            held.put(messages)
            held.next_offset = 100
            left = list(messages)
            while left:
                self.assertEqual(held.commit_offset, min(one.queue_offset for one in left))
                self.assertEqual(held.first(3), left[:3])
                done = chance.choice(left)
                left.remove(done)
                held.remove([done])
                self.assertEqual((len(held), held.size), (len(left), 10 * len(left)))
            self.assertEqual(held.commit_offset, 100)

    def test_empty(self) -> None:
        """Where nothing is held the group stands where the next pull goes on, past what was filtered out."""
        held = ProcessQueue(QUEUE, 7, Thresholds(), 0.0)
        held.next_offset = 20
        self.assertEqual(held.commit_offset, 20)

    def test_twice(self) -> None:
        """A message that is pulled again while it is held is held once; done with twice, it does not matter."""
        held = ProcessQueue(QUEUE, 0, Thresholds(), 0.0)
        first, again = message(0), message(0)
        held.put([first])
        held.put([again])
        self.assertEqual((len(held), first in held, again in held), (1, True, False))
        held.remove([again])
        self.assertEqual(len(held), 1)
        held.remove([first, first])
        self.assertEqual((len(held), held.size), (0, 0))


class FlowControlTests(SynchronousTestCase):
    def test_thresholds(self) -> None:
        """Too many messages, too many bytes, or offsets too far apart: each stops the pulls, in its own words."""
        limits = Thresholds(count=3, size=100, span=50)
        for messages, word in (
            ([message(at) for at in range(4)], "messages"),
            ([message(0, 60), message(1, 60)], " B "),
            ([message(0), message(51)], "apart"),
        ):
            held = ProcessQueue(QUEUE, 0, limits, 0.0)
            held.put(messages[:-1])
            self.assertIsNone(held.full)
            held.put(messages[-1:])
            self.assertIn(word, held.full or "")

    def test_room(self) -> None:
        """Whoever waits for room hears of it when enough is done with, or the queue is dropped."""
        for drop in (False, True):
            held = ProcessQueue(QUEUE, 0, Thresholds(count=2), 0.0)
            messages = [message(at) for at in range(4)]
            held.put(messages)
            room = held.room()
            held.remove(messages[:1])
            self.assertNoResult(room)
            if drop:
                held.drop()
            else:
                held.remove(messages[1:2])
            self.successResultOf(room)
        self.successResultOf(held.room())

    def test_of_topic(self) -> None:
        """Limits of a topic are divided among its assigned queues, in the place of those of a queue; one at least."""
        limits = Thresholds(topic_count=10, topic_size=100)
        self.assertEqual((limits.of_queue(3).count, limits.of_queue(3).size, limits.of_queue(3).span), (3, 33, 2000))
        self.assertEqual((limits.of_queue(1000).count, limits.of_queue(1000).size), (1, 1))
        self.assertEqual(Thresholds(count=7, size=8).of_queue(3), Thresholds(count=7, size=8))

    def test_other_limits(self) -> None:
        """Higher limits give room at once, lower ones take it with the next message."""
        held = ProcessQueue(QUEUE, 0, Thresholds(count=2), 0.0)
        held.put([message(at) for at in range(4)])
        room = held.room()
        held.limit(Thresholds(count=3))
        self.assertNoResult(room)
        held.limit(Thresholds(count=4))
        self.successResultOf(room)
        held.limit(Thresholds(count=1))
        self.assertIn("more than 1", held.full or "")

    def test_idle(self) -> None:
        """Whoever waits for the listener hears when its last call has ended."""
        held = ProcessQueue(QUEUE, 0, Thresholds(), 0.0)
        held.begin()
        held.begin()
        idle = held.idle()
        held.ended(1.0)
        self.assertNoResult(idle)
        held.ended(2.0)
        self.successResultOf(idle)
        self.assertEqual(held.consumed_at, 2.0)


class LockTests(SynchronousTestCase):
    def test_ends(self) -> None:
        """A lock holds for 30 s unless renewed, and not at all once refused."""
        held = ProcessQueue(QUEUE, 0, Thresholds(), 0.0)
        self.assertFalse(held.lock_holds(0.0))
        held.lock(True, 10.0)
        self.assertEqual((held.lock_holds(39.9), held.lock_holds(40.0)), (True, False))
        held.lock(True, 40.0)
        self.assertTrue(held.lock_holds(41.0))
        held.lock(False, 42.0)
        self.assertFalse(held.lock_holds(42.0))

    def test_info(self) -> None:
        """Tools see counts and times by the wall clock."""
        held = ProcessQueue(QUEUE, 3, Thresholds(), 10.0)
        held.put([message(3), message(9)])
        info = held.info(committed=2, now=15.0, wall_ms=100_000)
        self.assertEqual(
            (info.commit_offset, info.cached_msg_min_offset, info.cached_msg_max_offset, info.cached_msg_count),
            (2, 3, 9, 2),
        )
        self.assertEqual(info.last_pull_timestamp, 95_000)
