"""Tests of L{smartgo.schema.delay}."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import SettingError
from smartgo.schema import delay
from smartgo.schema.delay import DEFAULT_LEVELS, DelayLevels, parse_level, schedule_queue
from smartgo.schema.properties import encode, java_hash
from smartgo.schema.topics import SCHEDULE_TOPIC
from tests import golden_store

__doctests__ = [delay.__name__]


class DelayLevelsTests(SynchronousTestCase):
    def test_default(self) -> None:
        """The default table has 18 levels, from one second to two hours."""
        levels = DelayLevels.parse(DEFAULT_LEVELS)
        self.assertEqual(levels.highest, 18)
        self.assertEqual([levels.delay_ms(n) for n in (1, 3, 5, 16, 18)], [1000, 10_000, 60_000, 1_800_000, 7_200_000])

    def test_units(self) -> None:
        """Seconds, minutes, hours and days, separated by any blanks."""
        self.assertEqual(DelayLevels.parse(" 2s  3m\t4h 5d ").delays_ms, (2000, 180_000, 14_400_000, 432_000_000))

    def test_bad(self) -> None:
        """A word that is no such number is a setting error that names it; so is an empty table."""
        for text in ("", "  ", "1s 5", "1s s", "-1s", "1.5s", "1S", "1w", "\u0661s", "1s,5s"):
            self.assertRaises(SettingError, DelayLevels.parse, text)
        self.assertIn("'5x'", str(self.assertRaises(SettingError, DelayLevels.parse, "1s 5x")))

    def test_outside(self) -> None:
        """A level above the top counts as the top; one below the first means one second."""
        levels = DelayLevels.parse("5s 10s")
        self.assertEqual([levels.delay_ms(n) for n in (-1, 0, 1, 2, 3, 99)], [1000, 1000, 5000, 10_000, 10_000, 10_000])
        self.assertEqual((levels.clamp(3), levels.clamp(1)), (2, 1))
        self.assertEqual(levels.due_ms(2, 7), 10_007)

    def test_parse_level(self) -> None:
        """A DELAY value that is no 32-bit number delays nothing."""
        values = {"3": 3, "+4": 4, "-1": -1, "007": 7, None: 0, "": 0, "x": 0, "1_0": 0, " 1": 0, "9999999999": 0}
        self.assertEqual({text: parse_level(text) for text in values}, values)
        self.assertEqual(parse_level("\u0663"), 0)

    def test_unit_code(self) -> None:
        """Only in the schedule topic a level makes the due time, elsewhere the tag counts."""
        levels = DelayLevels.parse(DEFAULT_LEVELS)
        raw = encode({"DELAY": "2", "TAGS": "TagA"})
        self.assertEqual(levels.unit_code(SCHEDULE_TOPIC, raw, 1_000_000), 1_005_000)
        self.assertEqual(levels.unit_code("Other", raw, 1_000_000), java_hash("TagA"))
        for value in ("0", "-2", "soon"):
            raw = encode({"DELAY": value, "TAGS": "TagA"})
            self.assertEqual(levels.unit_code(SCHEDULE_TOPIC, raw, 1_000_000), java_hash("TagA"))
        self.assertEqual(levels.unit_code("Other", b"", 1), 0)

    def test_golden(self) -> None:
        """The due times in the real schedule queues are store time plus delay, in the level's queue."""
        levels = DelayLevels.parse(DEFAULT_LEVELS)
        manifest = golden_store.read("store-a").manifest
        stored = {each["physicalOffset"]: each["storeTimestamp"] for each in manifest["messages"]}
        seen = set()
        for queue in manifest["consumeQueues"]:
            if queue["topic"] == SCHEDULE_TOPIC:
                for offset, _, code in queue["units"]:
                    level = queue["queueId"] + 1
                    self.assertEqual(schedule_queue(level), queue["queueId"])
                    self.assertEqual(code, levels.due_ms(level, stored[offset]))
                    seen.add(level)
        self.assertEqual(seen, {1, 2, 3, 17, 18})
