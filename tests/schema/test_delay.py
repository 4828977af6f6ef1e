"""Tests of L{smartgo.schema.delay}."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import SettingError
from smartgo.schema.delay import DEFAULT_LEVELS, DelayLevels
from smartgo.schema.topics import SCHEDULE_TOPIC
from tests import golden_store
from tests.doctests import DocTestCase


class ExampleTests(DocTestCase, module="smartgo.schema.delay"):
    """The examples in its docstrings."""


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
                    self.assertEqual(code, stored[offset] + levels.delay_ms(level))
                    seen.add(level)
        self.assertEqual(seen, {1, 2, 3, 17, 18})
