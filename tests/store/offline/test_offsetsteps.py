"""Records whose queue offset is damaged are told from those around them."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.schema.message import StoredMessage
from smartgo.store.offline.offsetsteps import OffsetSteps
from smartgo.store.queues.unitruns import HIGHEST, LONGEST_GAP


def record(offset: int, physical: int, topic: str = "T", queue_id: int = 0) -> StoredMessage:
    """Return a record whose offset in its queue is given."""
    body = memoryview(b"body")
    return StoredMessage(100, 0, 0, queue_id, 0, offset, physical, 0, 1, b"", 1, b"", 0, 0, body, topic, b"")


class OffsetStepsTests(SynchronousTestCase):
    def judge(self, *offsets: int, misplaced: tuple[int, ...] = ()) -> None:
        """Fail unless, of records with these offsets, those at some places are found out of step, and no other."""
        steps = OffsetSteps()
        found = [one for place, offset in enumerate(offsets) for one in steps.take(record(offset, place))]
        found += steps.finish()
        self.assertEqual([one.physical_offset for one in steps.misplaced], list(misplaced), offsets)
        kept = [place for place in range(len(offsets)) if place not in misplaced]
        self.assertEqual([one.physical_offset for one in found], kept, offsets)

    def test_in_step(self) -> None:
        """A queue that counts on from wherever its log begins."""
        self.judge()
        self.judge(0)
        self.judge(7)
        self.judge(0, 1, 2, 3)
        self.judge(500, 501, 502)

    def test_one(self) -> None:
        """One record counts from somewhere else, the others go on without it."""
        for wrong in (0, 3, 1, 9, 4 + LONGEST_GAP, HIGHEST, 1 << 62):
            self.judge(0, 1, wrong, 3, 4, misplaced=(2,))

    def test_first(self) -> None:
        """The first record of a queue is wrong: the others are in step nevertheless."""
        for wrong in (1, 2, 9, 5_000, LONGEST_GAP * 2, HIGHEST - 1, HIGHEST, 1 << 62):
            self.judge(wrong, 1, 2, 3, 4, misplaced=(0,))
            self.judge(wrong + 10, 11, 12, misplaced=(0,))

    def test_first_before_lost(self) -> None:
        """The same where damage behind it took some records of the queue."""
        self.judge(5_000, 2, 4, 5, 6, misplaced=(0,))

    def test_second(self) -> None:
        """The second record of a queue is wrong, and damage took the one behind it."""
        self.judge(7, 1, 10, 11, 12, misplaced=(1,))

    def test_before_lost(self) -> None:
        """A record is wrong, and damage took the one behind it: its offset may be one that the queue could have."""
        self.judge(0, 1, 2, 4096 + 3, 5, 6, 7, misplaced=(3,))
        self.judge(0, 1, 2, HIGHEST + 3, 5, 6, 7, misplaced=(3,))

    def test_lost(self) -> None:
        """Records are missing from the log: none is out of step."""
        self.judge(0, 1, 5, 6, 9, 10)
        self.judge(0, 1, 5)
        self.judge(0, 7, 19, 33)

    def test_anew(self) -> None:
        """The topic was deleted and created again."""
        self.judge(0, 1, 2, 0, 1, 2)
        self.judge(0, 1, 2, 0)
        self.judge(0, 0, 1)

    def test_queues(self) -> None:
        """Each queue counts for itself."""
        steps = OffsetSteps()
        found = []
        for number in range(3):
            for key in (("T", 0), ("T", 1), ("Other", 0)):
                found += steps.take(record(number, number * 100, *key))
        self.assertEqual((len(found + steps.finish()), steps.misplaced), (9, []))

    def test_memory(self) -> None:
        """What is kept for later does not keep the bodies, which are pieces of what was read."""
        steps = OffsetSteps()
        offsets = (0, 1, 9, 2, 5_000)
        found = [one for place, offset in enumerate(offsets) for one in steps.take(record(offset, place))]
        kept = [found[0], *steps.misplaced, *steps.finish()]
        self.assertEqual([(one.physical_offset, one.body) for one in kept], [(0, b""), (2, b""), (4, b"")])
