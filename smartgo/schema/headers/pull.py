"""
Headers of pulls: 11 and 361, and their answer.

Source: C{PullMessageRequestHeader}, C{PullMessageResponseHeader} of 4.9.8 and 5.3.3.
"""

from __future__ import annotations

from msgspec import field

from smartgo.schema.headerfields import Header, Int32, Int64


class PullRequest(Header, gc=False, forbid_unknown_fields=True):
    """
    Read messages of one queue.

    @ivar sys_flag: 0x1 C{commit_offset} counts, 0x2 may be held, 0x4 C{subscription} counts, 0x10 lite pull.
    @ivar suspend_timeout_millis: how long it may be held, in ms.
    @ivar sub_version: the subscription's version, in ms.
    @ivar max_msg_bytes: 5.x: the most bytes wanted.
    """

    consumer_group: str = field(name="consumerGroup")
    topic: str
    queue_id: Int32 = field(name="queueId")
    queue_offset: Int64 = field(name="queueOffset")
    max_msg_nums: Int32 = field(name="maxMsgNums")
    sys_flag: Int32 = field(name="sysFlag")
    commit_offset: Int64 = field(name="commitOffset")
    suspend_timeout_millis: Int64 = field(name="suspendTimeoutMillis")
    sub_version: Int64 = field(name="subVersion")
    subscription: str | None = None
    expression_type: str | None = field(name="expressionType", default=None)
    max_msg_bytes: Int32 | None = field(name="maxMsgBytes", default=None)
    request_source: Int32 | None = field(name="requestSource", default=None)
    proxy_forward_client_id: str | None = field(name="proxyFrowardClientId", default=None)


class PullResponse(Header, gc=False):
    """
    The result of a pull, and the offset to go on from.

    @ivar suggest_which_broker_id: the broker of the set to ask next.
    @ivar next_begin_offset: the offset to ask for next; C{min_offset} and C{max_offset} bound the queue.
    """

    suggest_which_broker_id: Int64 = field(name="suggestWhichBrokerId")
    next_begin_offset: Int64 = field(name="nextBeginOffset")
    min_offset: Int64 = field(name="minOffset")
    max_offset: Int64 = field(name="maxOffset")
    offset_delta: Int64 | None = field(name="offsetDelta", default=None)
    topic_sys_flag: Int32 | None = field(name="topicSysFlag", default=None)
    group_sys_flag: Int32 | None = field(name="groupSysFlag", default=None)
    forbidden_type: Int32 | None = field(name="forbiddenType", default=None)
