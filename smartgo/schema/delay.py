"""
Delay levels: from a level to how long its messages wait. Stores, when they make units, and delivery ask here.

A delayed message lies in C{SCHEDULE_TOPIC_XXXX}, queue level - 1, and its ConsumeQueue unit holds the due time in place
of the tag hash: store timestamp plus the delay of the queue's level. Source:
C{store/schedule/ScheduleMessageService.java} and C{CommitLog.checkMessageAndReturnSize} of RocketMQ 4.9, which look at
the DELAY property for that, the same number; docs/spec/store#queue-unit, docs/spec/broker#delay.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from smartgo.errors import SettingError

DEFAULT_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"

_UNITS_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_STEP = re.compile("([0-9]{1,9})([smhd])")
_UNKNOWN_MS: Final = 1000


class DelayLevels(msgspec.Struct, frozen=True):
    """
    The table of levels, numbered from 1.

    @ivar delays_ms: the delay of each level, in milliseconds, level 1 first.
    """

    delays_ms: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> DelayLevels:
        """
        Read the setting C{messageDelayLevel}: numbers with a unit (s, m, h, d), separated by blanks.

        >>> DelayLevels.parse("1s 5m").delays_ms
        (1000, 300000)

        @raise SettingError: a word that is none of that, or no word.
        """
        delays = []
        for word in text.split():
            match = _STEP.fullmatch(word)
            if match is None:
                raise SettingError(f"delay level {word!r} is not a number with one of the units s, m, h, d")
            delays.append(int(match[1]) * _UNITS_MS[match[2]])
        if not delays:
            raise SettingError("no delay levels")
        return cls(tuple(delays))

    @property
    def highest(self) -> int:
        """The highest delay level."""
        return len(self.delays_ms)

    def delay_ms(self, level: int) -> int:
        """Return the delay of a level; above the top that of the top, below 1 one second, as RocketMQ has it."""
        if level < 1:
            return _UNKNOWN_MS
        return self.delays_ms[min(level, len(self.delays_ms)) - 1]
