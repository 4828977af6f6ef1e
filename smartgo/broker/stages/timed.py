"""
The delivery time of a message (docs/spec/broker#timer): one with such a time is stored in C{rmq_sys_wheel_timer} first.

Its own topic and queue travel in REAL_TOPIC and REAL_QID, and TIMER_OUT_MS says the whole second before its time, as
RocketMQ's wheel has it. L{smartgo.broker.stages.timerdelivery} stores it there when it is due.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from zope.interface import implementer

from smartgo.broker.interfaces import IBroker, ISendStage
from smartgo.broker.send import Send
from smartgo.broker.stages.delay import level_of
from smartgo.errors import MessageIllegal, RequestRefused
from smartgo.schema import properties as names
from smartgo.schema.recallhandle import RecallHandle
from smartgo.schema.timers import TIMED, asked_due_ms, wheel_ms
from smartgo.schema.topics import RETRY_PREFIX, TIMER_TOPIC

DISABLED: Final = "accurate timer message is not enabled, timerWheelEnable is false"


def illegal(max_delay: float) -> MessageIllegal:
    """Return the refusal of a delivery time. @param max_delay: C{timerMaxDelaySec}."""
    return MessageIllegal(
        "timer message illegal, the delay time should not be bigger than the max delay"
        f" {round(max_delay * 1000)}ms; or if set del msg, the delay time should be bigger than the current time"
    )


def waiting_properties(topic: str, queue_id: int, properties: Mapping[str, str], due_ms: int) -> dict[str, str]:
    """
    Return the properties of a timed message while it waits.

    @param topic: the topic that it is delivered to when it is due; C{queue_id} is the queue there.
    @param properties: its own.
    """
    return {
        **properties,
        names.TIMER_OUT_MS: str(wheel_ms(due_ms)),
        names.REAL_TOPIC: topic,
        names.REAL_QID: str(queue_id),
    }


@implementer(ISendStage)
class Timed:
    """Stores what asks for a delivery time in the timer topic."""

    properties = TIMED

    def __init__(self, broker: IBroker) -> None:
        self._clock = broker.env.clock
        self._levels = broker.store_settings.delay_levels
        self._enabled = broker.store_settings.timers
        self._max_delay = broker.settings.current.store.timer_max_delay_sec
        self._broker_name = broker.identity.name

    def apply(self, send: Send) -> Send:
        """
        Change topic, queue and properties of a message with a delivery time to come; see L{ISendStage}.

        A delay level counts more than a delivery time, and what was timed once is not timed again, as in RocketMQ.

        @raise MessageIllegal: the time is no number, or too far ahead; or it is the recall of what is due already.
        @raise RequestRefused: timed messages are switched off.
        """
        properties = send.properties
        if TIMED.isdisjoint(properties):
            return send
        if level_of(properties, self._levels) > 0:
            dropped = (names.TIMER_DELIVER_MS, names.TIMER_DELAY_SEC)
            return send.with_properties({name: properties[name] for name in properties if name not in dropped})
        if names.TIMER_OUT_MS in properties:
            return send
        if not self._enabled:
            raise RequestRefused(DISABLED)
        now_ms = self._clock.wall_ms()
        due_ms = asked_due_ms(properties, now_ms)
        if due_ms is None:
            return send
        if due_ms <= now_ms:
            if names.TIMER_DEL_UNIQKEY in properties:
                raise illegal(self._max_delay)
            return send
        if due_ms - now_ms > self._max_delay * 1000:
            raise illegal(self._max_delay)
        waiting = send.with_properties(waiting_properties(send.topic, send.queue_id, properties, due_ms))
        return replace(waiting, topic=TIMER_TOPIC, queue_id=0, recall_handle=self._handle(send, due_ms))

    def _handle(self, send: Send, due_ms: int) -> str | None:
        unique_id = send.properties.get(names.UNIQ_KEY)
        if unique_id is None or send.topic.startswith(RETRY_PREFIX):
            return None
        return RecallHandle(send.topic, self._broker_name, str(due_ms), unique_id).format()
