"""The delay that a message asks for."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.stages.delay import level_of
from smartgo.errors import BadHeader
from smartgo.schema import properties as names
from smartgo.schema.delay import DelayLevels

LEVELS = DelayLevels.parse("1s 5s 10s")


class LevelTests(SynchronousTestCase):
    def test_level(self) -> None:
        """The level is the property DELAY, cut to the highest there is; 0 without one."""
        for text, level in (("1", 1), ("3", 3), ("99", 3), ("0", 0), ("-2", -2)):
            self.assertEqual(level_of({names.DELAY: text}, LEVELS), level, text)
        self.assertEqual(level_of({}, LEVELS), 0)

    def test_no_number(self) -> None:
        """Anything but a decimal number is refused."""
        for text in ("x", "1.5", "1_0", "\u0661", " 1", "+1", "9" * 30):
            self.assertRaises(BadHeader, level_of, {names.DELAY: text}, LEVELS)
