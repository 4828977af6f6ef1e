"""
The delay of a message (docs/spec/broker#delay): one that asks for it is stored in C{SCHEDULE_TOPIC_XXXX} at first.

Its own topic and queue travel in the properties REAL_TOPIC and REAL_QID. L{smartgo.broker.stages.delaydelivery} stores
it there when it is due.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from zope.interface import implementer

from smartgo.broker.interfaces import IBroker, ISendStage
from smartgo.broker.send import Send
from smartgo.errors import BadHeader
from smartgo.schema import properties as names
from smartgo.schema.delay import DelayLevels
from smartgo.schema.topics import SCHEDULE_TOPIC

_LEVEL: Final = re.compile("-?[0-9]{1,10}")


def level_of(properties: Mapping[str, str], levels: DelayLevels) -> int:
    """
    Return the delay level that a message asks for, cut to the highest; 0 for none.

    @raise BadHeader: DELAY is no number.
    """
    text = properties.get(names.DELAY)
    if text is None:
        return 0
    if _LEVEL.fullmatch(text) is None:
        raise BadHeader(f"the property DELAY is not a number: {text[:32]!r}")
    return min(int(text), levels.highest)


def schedule_place(
    topic: str, queue_id: int, properties: Mapping[str, str], level: int
) -> tuple[str, int, dict[str, str]]:
    """
    Return where a delayed message waits: the schedule topic, the queue of its level, and the properties that it has.

    @param topic: the topic that it is delivered to when it is due; C{queue_id} is the queue there.
    @param properties: its own.
    """
    carried = {**properties, names.REAL_TOPIC: topic, names.REAL_QID: str(queue_id)}
    return SCHEDULE_TOPIC, level - 1, carried


@implementer(ISendStage)
class Delay:
    """Stores what asks for a delay in the schedule topic."""

    properties = frozenset({names.DELAY})

    def __init__(self, broker: IBroker) -> None:
        self._levels = broker.store_settings.delay_levels

    def apply(self, send: Send) -> Send:
        """
        Change topic, queue and properties of a message with a delay level; see L{ISendStage}.

        @raise BadHeader: DELAY is no number.
        """
        level = level_of(send.properties, self._levels)
        if level <= 0:
            return send
        topic, queue_id, properties = schedule_place(send.topic, send.queue_id, send.properties, level)
        return replace(send.with_properties(properties), topic=topic, queue_id=queue_id, tag_code=0)
