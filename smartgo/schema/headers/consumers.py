"""
Headers about connected clients: 35, 38, 40, 203, 204, 220 to 223, 303, 307, 309.

Source: C{UnregisterClientRequestHeader}, C{ResetOffsetRequestHeader}, C{ConsumeMessageDirectlyResultRequestHeader} and
their neighbours, 4.9.8 and 5.3.3.
"""

from __future__ import annotations

from msgspec import field

from smartgo.schema.headerfields import Header, Int32, Int64


class UnregisterClientRequest(Header, gc=False):
    """35: a client leaves a producer group, a consumer group, or both."""

    client_id: str = field(name="clientID")
    producer_group: str | None = field(name="producerGroup", default=None)
    consumer_group: str | None = field(name="consumerGroup", default=None)


class ConsumerListRequest(Header, gc=False):
    """38: the client ids of a group."""

    consumer_group: str = field(name="consumerGroup")


class NotifyConsumerIdsChangedRequest(Header, gc=False):
    """40, from the broker: the members of a group changed, share out the queues anew."""

    consumer_group: str = field(name="consumerGroup")


class ConsumerConnectionRequest(Header, gc=False):
    """203: who is connected for a consumer group."""

    consumer_group: str = field(name="consumerGroup")


class ProducerConnectionRequest(Header, gc=False):
    """204: who is connected for a producer group."""

    producer_group: str = field(name="producerGroup")


class ResetOffsetRequest(Header, gc=False):
    """
    222, and 220 from the broker to the group's members: move a group to the offsets of a time.

    @ivar timestamp: wall clock in ms; -1 for the end of each queue.
    @ivar is_force: also forward past where the group stands.
    @ivar queue_id: 5.x: this queue alone, with C{offset}; -1 for all.
    """

    topic: str
    group: str
    timestamp: Int64
    is_force: bool = field(name="isForce")
    queue_id: Int32 | None = field(name="queueId", default=None)
    offset: Int64 | None = None


class ConsumerStatusRequest(Header, gc=False):
    """
    223, and 221 from the broker: where the members of a group stand.

    @ivar client_addr: a client id, for this member alone.
    """

    topic: str
    group: str
    client_addr: str | None = field(name="clientAddr", default=None)


class ConsumeTimeSpanRequest(Header, gc=False):
    """303: how old the messages are that a group reads."""

    topic: str
    group: str


class RunningInfoRequest(Header, gc=False):
    """307, relayed to the client with the same fields: what it is doing."""

    consumer_group: str = field(name="consumerGroup")
    client_id: str = field(name="clientId")
    jstack_enable: bool = field(name="jstackEnable", default=False)


class ConsumeDirectlyRequest(Header, gc=False):
    """
    309, relayed to the client with the message as its body: have one message consumed.

    @ivar msg_id: its offset id.
    @ivar broker_name: where it lies; added by the broker.
    """

    consumer_group: str = field(name="consumerGroup")
    client_id: str | None = field(name="clientId", default=None)
    msg_id: str | None = field(name="msgId", default=None)
    broker_name: str | None = field(name="brokerName", default=None)
    topic: str | None = None
    topic_sys_flag: Int32 | None = field(name="topicSysFlag", default=None)
    group_sys_flag: Int32 | None = field(name="groupSysFlag", default=None)
