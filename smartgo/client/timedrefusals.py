"""The refusals of timed messages and of recalls, in words for people: brokers answer with RocketMQ's."""

from __future__ import annotations

import re
from typing import Final

from smartgo.errors import CallFailed, IllegalOperation, PeerRefused
from smartgo.schema.codes import ResponseCode
from smartgo.schema.recallhandle import RecallHandle

_TOO_FAR: Final = re.compile(r"timer message illegal.*max delay (\d+)ms")
_UNITS: Final = ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1000, "second"))


def longest_delay_ms(remark: str) -> int | None:
    """
    Return the longest delay that a broker takes, in ms, as its refusal says; C{None}: it says something else.

    >>> longest_delay_ms("timer message illegal, the delay time should not be bigger than the max delay 3600000ms; or")
    3600000
    """
    found = _TOO_FAR.search(remark)
    return int(found[1]) if found is not None else None


def limit_in_words(error: CallFailed) -> str | None:
    """
    Return the refusal of a delivery time that is too far ahead, in words; C{None}: the error is another one.

    >>> limit_in_words(PeerRefused(13, "timer message illegal, it is bigger than the max delay 3456000000ms"))
    'the broker takes delivery times up to 40 days ahead (timerMaxDelaySec); this one is later'
    """
    limit = longest_delay_ms(error.remark) if isinstance(error, PeerRefused) else None
    if limit is None:
        return None
    size, unit = next((row for row in _UNITS if limit and not limit % row[0]), (1, "millisecond"))
    most = f"{limit // size} {unit}{'' if limit == size else 's'}"
    return f"the broker takes delivery times up to {most} ahead (timerMaxDelaySec); this one is later"


def late_recall_ms(error: CallFailed, handle: str, now_ms: int) -> int | None:
    """
    Return the delivery time of a message that was recalled too late, in ms; C{None}: that is not why it was refused.

    @param error: the answer to the recall; C{now_ms}: the wall clock.
    """
    if not isinstance(error, PeerRefused) or error.code != ResponseCode.ILLEGAL_OPERATION:
        return None
    try:
        due_ms = int(RecallHandle.parse(handle).due_ms)
    except (IllegalOperation, ValueError):
        return None
    return due_ms if 0 < due_ms <= now_ms else None
