"""Tests of L{smartgo.store.retention}."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from smartgo.store.retention import (
    AgreeingClocks,
    DiskSpace,
    LogFile,
    RemovalReason,
    RetentionMoment,
    RetentionPlan,
    RetentionRules,
    decide,
)

NOW = 1_700_000_000_000
HOUR = 3_600_000
SIZE = 100
EMPTY = DiskSpace(1000, 900)
RULES = RetentionRules(free_minimum=0)


def files(*ages: float) -> list[LogFile]:
    """Files that were last changed so many hours ago, oldest first."""
    return [LogFile(f"/log/{n}", n * SIZE, SIZE, NOW - round(age * HOUR)) for n, age in enumerate(ages)]


def moment(hour: int = 4, disk: DiskSpace = EMPTY, **changes: Any) -> RetentionMoment:
    """A moment at which nothing needs the files."""
    return RetentionMoment(NOW, hour, disk, **{"keep_from": 1 << 40, **changes})


def bases(plan: RetentionPlan) -> list[int]:
    """The files that go, by number."""
    return [one.file.base // SIZE for one in plan.removals]


def reasons(plan: RetentionPlan) -> list[RemovalReason]:
    """Why they go."""
    return [one.reason for one in plan.removals]


class AgeTests(SynchronousTestCase):
    """Files that are older than fileReservedTime."""

    def test_hour(self) -> None:
        """At the hour deleteWhen the files go that are 72 h old or older, and at no other hour of the day."""
        log = files(80, 72, 71.9, 1)
        for hour in range(24):
            plan = decide(log, moment(hour), RULES)
            self.assertEqual(bases(plan), [0, 1] if hour == 4 else [], hour)
        self.assertEqual(reasons(decide(log, moment(4), RULES)), [RemovalReason.EXPIRED] * 2)

    def test_slave(self) -> None:
        """On a slave no file expires that its master still has; a full disk and the size of the log count."""
        log = files(80, 79, 78, 1)
        for minimum, gone in ((0, []), (SIZE, [0]), (SIZE + 1, [0]), (3 * SIZE, [0, 1, 2]), (None, [0, 1, 2])):
            plan = decide(log, moment(master_minimum=minimum), RULES)
            self.assertEqual(bases(plan), gone, minimum)
        self.assertIn("master", decide(log, moment(master_minimum=0), RULES).kept)
        small_log = RetentionRules(free_minimum=0, log_size=250)
        self.assertEqual(bases(decide(log, moment(master_minimum=0), small_log)), [0, 1])
        full = decide(log, moment(disk=DiskSpace(1000, 50), master_minimum=0), RULES)
        self.assertIn(RemovalReason.DISK, reasons(full))

    def test_hours(self) -> None:
        """There may be several hours, and another age."""
        rules = RetentionRules(hours=(2, 14), reserved=48 * 3600.0, free_minimum=0)
        for hour in range(24):
            self.assertEqual(bases(decide(files(50, 47, 1), moment(hour), rules)), [0] if hour in (2, 14) else [])

    def test_used_disk(self) -> None:
        """Above diskMaxUsedSpaceRatio they go at any hour; at it, or below, they do not."""
        for used, expected in ((74, []), (75, []), (76, [0]), (84, [0])):
            plan = decide(files(80, 10, 1), moment(12, DiskSpace(100, 100 - used)), RULES)
            self.assertEqual((bases(plan), used), (expected, used))

    def test_asked(self) -> None:
        """Where somebody asks for it they go at any hour; younger ones stay."""
        self.assertEqual(bases(decide(files(80, 10, 1), moment(12, asked=True), RULES)), [0])

    def test_newest(self) -> None:
        """The newest file never goes, however old it is, and the log need not have a file."""
        self.assertEqual(bases(decide(files(900, 800), moment(), RULES)), [0])
        self.assertEqual(bases(decide(files(900), moment(), RULES)), [])
        self.assertEqual(decide([], moment(), RULES), RetentionPlan([], "the log has no file"))

    def test_in_order(self) -> None:
        """A file behind a younger one stays: the log has no hole."""
        self.assertEqual(bases(decide(files(80, 10, 80, 1), moment(), RULES)), [0])

    def test_needed(self) -> None:
        """A file that the next recovery needs stays, whatever fills the disk."""
        plan = decide(files(80, 80, 80, 1), moment(keep_from=2 * SIZE - 1, disk=DiskSpace(1000, 1)), RULES)
        self.assertEqual(bases(plan), [0])
        self.assertEqual(plan.kept, "the next start may need it")

    def test_clock_was_set(self) -> None:
        """While the clock is not believed no age is; a full disk is."""
        self.assertEqual(bases(decide(files(80, 80, 1), moment(clocks_agree=False), RULES)), [])
        full = moment(clocks_agree=False, disk=DiskSpace(1000, 100))
        self.assertEqual(bases(decide(files(80, 80, 1), full, RULES)), [0])

    def test_words_of_clocks(self) -> None:
        """Clocks that were not compared yet are told apart from a clock that was set."""
        for compared, words in ((True, "the clock was set lately"), (False, "has just begun to compare its clocks")):
            plan = decide(files(80, 80, 1), moment(clocks_agree=False, clocks_compared=compared), RULES)
            self.assertEqual(bases(plan), [])
            self.assertIn(words, plan.kept)
        clocks = AgreeingClocks()
        found = []
        for seconds, wall_ms in ((5.0, 5000), (6.0, 6000), (7.0, 900_000)):
            found.append((clocks.read(seconds, wall_ms), clocks.compared))
        self.assertEqual(found, [(False, False), (True, True), (False, True)])

    def test_future(self) -> None:
        """A file that was changed in the future stays."""
        self.assertEqual(bases(decide(files(-5, 1), moment(), RULES)), [])

    def test_words(self) -> None:
        """The plan says in numbers why files go, and why the next one stays."""
        plan = decide(files(80, 10, 1), moment(), RULES)
        self.assertEqual(
            plan.removals[0].words,
            "it was last changed 80.0 h ago, and files are kept for 72 h (fileReservedTime)",
        )
        self.assertEqual(plan.kept, "it was last changed 10.0 h ago, and files are kept for 72 h")
        plan = decide(files(80, 10, 1), moment(13), RULES)
        self.assertEqual(
            plan.kept,
            "it was last changed 80.0 h ago, and files are kept for 72 h, but expired files go at the hours 04"
            " (deleteWhen) or above 75% disk use",
        )
        self.assertEqual(decide(files(80, 1), moment(), RULES).kept, "the log is written there")


class DiskTests(SynchronousTestCase):
    """Files that go because the disk is nearly full."""

    def test_forcible(self) -> None:
        """Above 85 % files of any age go, as many as it takes, and no more."""
        for free, expected in ((150, []), (149, [0]), (51, [0]), (49, [0, 1]), (1, [0, 1])):
            plan = decide(files(3, 2, 2, 1), moment(12, DiskSpace(1000, free)), RULES)
            self.assertEqual((free, bases(plan)), (free, expected))
            self.assertEqual(set(reasons(plan)), {RemovalReason.DISK} if expected else set())

    def test_switched_off(self) -> None:
        """Without cleanFileForciblyEnable only expired ones do."""
        rules = RetentionRules(forcible=False, free_minimum=0)
        full = moment(12, DiskSpace(1000, 20))
        self.assertEqual(bases(decide(files(3, 2, 1), full, rules)), [])
        plan = decide(files(80, 2, 1), full, rules)
        self.assertEqual((bases(plan), reasons(plan)), ([0], [RemovalReason.EXPIRED]))

    def test_free_minimum(self) -> None:
        """Below the absolute floor they go, too, whatever the ratio."""
        rules = RetentionRules(free_minimum=450)
        self.assertEqual(bases(decide(files(3, 2, 2, 1), moment(12, DiskSpace(10_000, 9_000)), rules)), [])
        rules = RetentionRules(free_minimum=450, forcible_ratio=0.99, full_ratio=0.99)
        self.assertEqual(bases(decide(files(3, 2, 2, 1), moment(12, DiskSpace(1000, 300)), rules)), [0, 1])

    def test_in_vain(self) -> None:
        """No message goes for the sake of a disk that would be too full without all of them, too."""
        self.assertEqual(bases(decide(files(3, 2, 1), moment(12, DiskSpace(10_000, 300)), RULES)), [])
        rules = RetentionRules(free_minimum=5000)
        self.assertEqual(bases(decide(files(3, 2, 1), moment(12, DiskSpace(10_000, 4000)), rules)), [])

    def test_no_room_for_a_file(self) -> None:
        """Where the next log file found no room the oldest makes room for it, whatever the ratio."""
        rules = RetentionRules(forcible_ratio=1.0, full_ratio=1.0, free_minimum=0)
        self.assertEqual(bases(decide(files(3, 2, 2, 1), moment(12, DiskSpace(1000, 90, SIZE)), rules)), [0])
        self.assertEqual(bases(decide(files(3, 2, 2, 1), moment(12, DiskSpace(1000, 100, SIZE)), rules)), [])

    def test_next_file(self) -> None:
        """The next log file counts as used, so that the disk does not pass 85 % when it is made."""
        for free, expected in ((250, []), (249, [0]), (150, [0]), (149, [0, 1])):
            plan = decide(files(3, 2, 2, 1), moment(12, DiskSpace(1000, free, SIZE)), RULES)
            self.assertEqual((free, bases(plan)), (free, expected))

    def test_unknown(self) -> None:
        """A disk that tells no size is not full."""
        self.assertEqual(bases(decide(files(3, 2, 1), moment(12, DiskSpace(0, 0)), RULES)), [])


class SizeTests(SynchronousTestCase):
    """Files that go because the log is larger than maxLogTotalSize."""

    def test_total(self) -> None:
        """The oldest go until the rest is as large as it may be; at any hour, of any age."""
        for allowed, expected in ((400, []), (399, [0]), (300, [0]), (150, [0, 1, 2]), (1, [0, 1, 2])):
            plan = decide(files(3, 2, 2, 1), moment(12), RetentionRules(log_size=allowed, free_minimum=0))
            self.assertEqual((allowed, bases(plan)), (allowed, expected))
            self.assertEqual(set(reasons(plan)), {RemovalReason.SIZE} if expected else set())

    def test_words(self) -> None:
        """The reason has both sizes."""
        plan = decide(files(3, 2, 1), moment(12), RetentionRules(log_size=250, free_minimum=0))
        self.assertEqual(plan.removals[0].words, "the log has 300 B, and 250 B are allowed (maxLogTotalSize)")


class ClocksTests(SynchronousTestCase):
    """Reliability H9: a clock that jumps expires nothing."""

    def test_two_readings(self) -> None:
        """Two readings that agree are needed."""
        clocks = AgreeingClocks()
        self.assertFalse(clocks.read(100.0, NOW))
        self.assertTrue(clocks.read(110.0, NOW + 10_000))

    def test_jump(self) -> None:
        """After a jump, forward or back, nothing is believed for ten minutes."""
        for jump in (24 * HOUR, -HOUR):
            clocks = AgreeingClocks()
            clocks.read(0.0, NOW)
            believed = [clocks.read(at, NOW + jump + round(at * 1000)) for at in (10.0, 20.0, 600.0, 609.0, 610.0)]
            self.assertEqual(believed, [False, False, False, False, True])

    def test_every_second(self) -> None:
        """A clock that goes back and forth by some seconds is believed."""
        clocks = AgreeingClocks()
        clocks.read(0.0, NOW)
        self.assertTrue(all(clocks.read(at, NOW + at * 1000 + (-1) ** at * 5000) for at in range(1, 50)))
