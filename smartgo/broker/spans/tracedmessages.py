"""
The messages whose producers trace them: records with a W3C trace context whose C{sampled} flag is set.

Format: W3C Trace Context, C{traceparent}: version, trace id, span id and flags as hexadecimal digits.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

from smartgo.errors import BadRecord
from smartgo.schema import properties
from smartgo.schema.record import decode

TRACEPARENT: Final = "traceparent"

_SAMPLED: Final = r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f][13579bdf]"
_SAMPLED_VALUE: Final = re.compile(f"{_SAMPLED}(?:-.*)?")  # versions to come may have more parts
_SAMPLED_PAIR: Final = re.compile(f"{TRACEPARENT}\x01{_SAMPLED}".encode())


class TracedMessage(NamedTuple):
    """
    A stored message with a sampled trace context.

    @ivar queue_offset: logical, in messages.
    @ivar stored_ms: wall clock of the broker that stored it.
    @ivar body_size: bytes, as stored.
    @ivar properties: all of its properties.
    """

    topic: str
    queue_id: int
    queue_offset: int
    stored_ms: int
    body_size: int
    redeliveries: int
    properties: dict[str, str]


def traced_messages(view: bytes | memoryview, starts: Sequence[int], end: int) -> list[TracedMessage]:
    """
    Return the messages with a sampled trace context among records that lie back to back.

    Only records that have the text of a context somewhere are decoded; of the others nothing is looked at.

    @param starts: where the records begin, as from L{record_starts<smartgo.schema.indexkeys.record_starts>}.
    @param end: where the last one ends.
    """
    found: list[TracedMessage] = []
    if not starts:
        return found
    last = -1
    for match in _SAMPLED_PAIR.finditer(view, starts[0], end):
        at = bisect_right(starts, match.start()) - 1
        if at == last:
            continue
        last = at
        try:
            record = decode(view, starts[at])
        except BadRecord:
            continue
        own = properties.decode(record.properties)
        if _SAMPLED_VALUE.fullmatch(own.get(TRACEPARENT, "")):
            found.append(
                TracedMessage(
                    record.topic,
                    record.queue_id,
                    record.queue_offset,
                    record.stored_ms,
                    len(record.body),
                    record.reconsume_times,
                    own,
                )
            )
    return found
