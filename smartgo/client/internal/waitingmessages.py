"""Messages that are in no topic yet, as they wait for their time of delivery (docs/spec/broker#timer)."""

from __future__ import annotations

from collections.abc import Mapping

from smartgo.client.internal.records import readable
from smartgo.client.internal.search import BrokerSearch
from smartgo.errors import BadRecord, CallFailed, MessageWaits
from smartgo.schema.properties import REAL_TOPIC
from smartgo.schema.timers import waiting_due_ms
from smartgo.schema.topics import TIMER_TOPIC


async def find_waiting(search: BrokerSearch, id: str, brokers: Mapping[str, str], now_ms: int) -> MessageWaits | None:
    """
    Return what is known of a message that waits, by its unique id; C{None} if none waits, or nobody says so.

    Whether it was recalled is not known.

    @param brokers: the addresses to ask, by broker name.
    @param now_ms: wall clock.
    """
    try:
        records = readable(await search.by_unique_key(TIMER_TOPIC, id, brokers))
    except CallFailed:
        return None
    for one in records:
        try:
            due_ms = waiting_due_ms(one.properties, one.stored_ms)
        except BadRecord:
            continue
        if due_ms > now_ms:
            return MessageWaits(id, one.properties.get(REAL_TOPIC, one.topic), due_ms)
    return None
