"""Tests of L{smartgo.spark.seeking}: a stream begins near what was asked for, and never behind it."""

from __future__ import annotations

import os
import shutil
from random import Random
from unittest.mock import patch as patched

from smartgo.schema.record import decode
from smartgo.spark import seeking
from smartgo.spark.conditions import Conditions
from smartgo.spark.options import parse
from smartgo.spark.seeking import SLACK_MS, begin_at_time, begin_of_queues
from smartgo.spark.storefollower import StoreFollower
from smartgo.spark.stores import find_stores
from tests.spark.logs import NOW_MS, LogWriter, any_message, patch
from tests.spark.test_reader import Case

SIZE = 1 << 16
EVERY_MS = 10_000


class SeekTests(Case):
    """A log of five files, in which a message is stored every ten seconds."""

    def setUp(self) -> None:
        """Write it."""
        super().setUp()
        self.writer = LogWriter(self.root, file_size=SIZE)
        random = Random(3)
        while self.writer.begin < 4 * SIZE or self.writer.at < 4 * SIZE + 9000:
            self.writer.add(any_message(random), stored_ms=NOW_MS + len(self.writer.written) * EVERY_MS)
        self.writer.close()
        self.all = [decode(raw) for _, raw in self.writer.written]
        (self.store,) = find_stores([self.root])

    def at_time(self, stored_ms: int) -> int:
        """Where a stream begins."""
        return begin_at_time(self.store.log_files(), self.writer.at, stored_ms)

    def test_time(self) -> None:
        """All that was stored from a time on lies behind, and little else does."""
        with patched.object(seeking, "_PROBED", 4096), patched.object(seeking, "blank_limit", lambda after: 8000):
            for number in range(0, len(self.all), 7):
                message = self.all[number]
                begin = self.at_time(message.stored_ms)
                self.assertIn(begin, [one.physical_offset for one in self.all])
                self.assertLessEqual(begin, message.physical_offset)
                earliest = self.all[max(0, number - SLACK_MS // EVERY_MS - 1)].physical_offset
                self.assertLess(earliest - begin, 20_000, number)
            self.assertEqual(self.at_time(0), 0)
            last = self.at_time(self.all[-1].stored_ms + SLACK_MS + 1)
            self.assertLess(self.writer.at - last, 20_000)

    def test_time_of_damaged(self) -> None:
        """Damage makes it begin earlier, never later."""
        patch(self.log(2 * SIZE), 0, bytes(5000))
        late = [one for one in self.all if one.physical_offset >= 2 * SIZE + 6000]
        self.assertLessEqual(self.at_time(late[0].stored_ms), late[0].physical_offset)

    def test_time_of_nothing(self) -> None:
        """A log without messages begins where it begins."""
        self.assertEqual(begin_at_time([], 0, NOW_MS), 0)

    def of_queues(self, offsets: dict[tuple[str, int], int], *topics: str) -> int:
        """Where a stream begins that is subscribed to some topics."""
        conditions = Conditions(topics=frozenset(topics), first_offsets=offsets)
        return begin_of_queues(self.store, conditions, self.store.log_files())

    def queue(self, topic: str, queue_id: int) -> list[int]:
        """The places of a queue's messages."""
        return [one.physical_offset for one in self.all if (one.topic, one.queue_id) == (topic, queue_id)]

    def test_queues(self) -> None:
        """Offsets for all queues of a topic lead to the first of their messages; a queue without one to its first."""
        wanted = {("T", 0): 50, ("T", 1): 40, ("T", 2): 45}
        places = [self.queue(*queue)[offset] for queue, offset in wanted.items()]
        self.assertEqual(self.of_queues(wanted, "T"), min(places))
        del wanted["T", 1]
        self.assertEqual(self.of_queues(wanted, "T"), self.queue("T", 1)[0])
        self.assertEqual(self.of_queues({}, "T"), min(self.queue("T", one)[0] for one in range(3)))

    def test_end_of_queues(self) -> None:
        """The offset after a queue's last message leads behind that; of later ones nothing is known."""
        ends = {("T", one): len(self.queue("T", one)) for one in range(3)}
        lasts = [self.queue("T", one)[-1] for one in range(3)]
        sizes = {one.physical_offset: one.size for one in self.all}
        self.assertEqual(self.of_queues(ends, "T"), min(at + sizes[at] for at in lasts))
        self.assertEqual(self.of_queues({**ends, ("T", 0): ends["T", 0] + 1}, "T"), 0)

    def test_not_believed(self) -> None:
        """A queue that does not lead to its message, and a topic without queues, have the log read from its begin."""
        wanted = {("T", one): 40 for one in range(3)}
        self.assertGreater(self.of_queues(wanted, "T"), 0)
        self.assertEqual(self.of_queues(wanted, "T", "Gone"), 0)
        conditions = Conditions(first_offsets=wanted)  # without a subscription
        self.assertEqual(begin_of_queues(self.store, conditions, self.store.log_files()), 0)
        patch(os.path.join(self.root, "consumequeue", "T", "1", "0" * 20), 40 * 20 + 7, b"\x01")
        self.assertEqual(self.of_queues(wanted, "T"), 0)
        shutil.rmtree(os.path.join(self.root, "consumequeue", "T"))
        self.assertEqual(self.of_queues(wanted, "T"), 0)

    def test_stream(self) -> None:
        """A stream that begins at a time, or at offsets of queues, reads only what lies behind."""
        late = self.all[-20]
        with patched.object(seeking, "_PROBED", 4096):
            by_time = StoreFollower(parse({"path": self.root, "startingTimestamp": str(late.stored_ms)})).initial()
        (begin,) = by_time.values()
        self.assertTrue(late.physical_offset - 15_000 < begin <= late.physical_offset, begin)
        counts = {one: len(self.queue("T", one)) - 2 for one in range(3)}
        given = '{"T": {' + ", ".join(f'"{one}": {count}' for one, count in counts.items()) + "}}"
        (begin,) = (
            StoreFollower(parse({"path": self.root, "subscribe": "T", "startingOffsets": given})).initial().values()
        )
        self.assertEqual(begin, min(self.queue("T", one)[-2] for one in range(3)))
