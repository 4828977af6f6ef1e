"""
Headers of sends: 10, 310, 320, 324, 325 and the answer; 36 (send-back); 326 (a reply pushed to its requester).

310, 320 and 325 carry the fields of 10 under one-letter names. Source: C{SendMessageRequestHeader},
C{SendMessageRequestHeaderV2}, C{SendMessageResponseHeader}, C{ConsumerSendMsgBackRequestHeader},
C{ReplyMessageRequestHeader} of 4.9.8 and 5.3.3.
"""

from __future__ import annotations

from msgspec import field

from smartgo.schema.headerfields import Header, Int32, Int64


class SendRequest(Header, kw_only=True, gc=False, forbid_unknown_fields=True):
    """
    Store a message: the long names of codes 10 and 324.

    @ivar default_topic: the template for creating the topic, C{TBW102}.
    @ivar queue_id: negative for "any".
    @ivar born_timestamp: the client's wall clock, in ms.
    @ivar properties: the text of docs/spec/remoting#messages.
    @ivar max_reconsume_times: C{None} where the client did not say.
    """

    producer_group: str = field(name="producerGroup")
    topic: str
    default_topic: str = field(name="defaultTopic")
    default_topic_queue_nums: Int32 = field(name="defaultTopicQueueNums")
    queue_id: Int32 = field(name="queueId")
    sys_flag: Int32 = field(name="sysFlag")
    born_timestamp: Int64 = field(name="bornTimestamp")
    flag: Int32
    properties: str = ""
    reconsume_times: Int32 = field(name="reconsumeTimes", default=0)
    unit_mode: bool = field(name="unitMode", default=False)
    batch: bool = False
    max_reconsume_times: Int32 | None = field(name="maxReconsumeTimes", default=None)


class SendRequestV2(SendRequest, kw_only=True, gc=False, forbid_unknown_fields=True):
    """The same under the one-letter names of codes 310, 320 and 325."""

    producer_group: str = field(name="a")
    topic: str = field(name="b")
    default_topic: str = field(name="c")
    default_topic_queue_nums: Int32 = field(name="d")
    queue_id: Int32 = field(name="e")
    sys_flag: Int32 = field(name="f")
    born_timestamp: Int64 = field(name="g")
    flag: Int32 = field(name="h")
    properties: str = field(name="i", default="")
    reconsume_times: Int32 = field(name="j", default=0)
    unit_mode: bool = field(name="k", default=False)
    batch: bool = field(name="m", default=False)
    max_reconsume_times: Int32 | None = field(name="l", default=None)
    bname: str | None = field(name="n", default=None)


class SendResponse(Header, gc=False):
    """
    The id, queue and offset of a stored message.

    @ivar msg_id: the offset id; joined by commas for a batch.
    @ivar queue_offset: of the first message of a batch.
    @ivar region: always sent with a success: clients read it without a check.
    """

    msg_id: str = field(name="msgId")
    queue_id: Int32 = field(name="queueId")
    queue_offset: Int64 = field(name="queueOffset")
    transaction_id: str | None = field(name="transactionId", default=None)
    batch_unique_id: str | None = field(name="batchUniqId", default=None)
    recall_handle: str | None = field(name="recallHandle", default=None)
    region: str | None = field(name="MSG_REGION", default=None)
    trace_on: bool | None = field(name="TRACE_ON", default=None)


class SendBackRequest(Header, gc=False):
    """
    36: a consumer could not process a message and wants it again later.

    @ivar offset: its place in the CommitLog.
    @ivar delay_level: 0 for the broker's choice, negative for the dead-letter topic at once.
    """

    offset: Int64
    group: str
    delay_level: Int32 = field(name="delayLevel")
    origin_msg_id: str | None = field(name="originMsgId", default=None)
    origin_topic: str | None = field(name="originTopic", default=None)
    unit_mode: bool = field(name="unitMode", default=False)
    max_reconsume_times: Int32 | None = field(name="maxReconsumeTimes", default=None)


class PushReplyRequest(Header, gc=False):
    """
    326: a reply message for the client that asked, from the broker.

    @ivar born_host: C{ip:port}, as is C{store_host}.
    """

    producer_group: str = field(name="producerGroup")
    topic: str
    default_topic: str = field(name="defaultTopic")
    default_topic_queue_nums: Int32 = field(name="defaultTopicQueueNums")
    queue_id: Int32 = field(name="queueId")
    sys_flag: Int32 = field(name="sysFlag")
    born_timestamp: Int64 = field(name="bornTimestamp")
    flag: Int32
    born_host: str = field(name="bornHost")
    store_host: str = field(name="storeHost")
    store_timestamp: Int64 = field(name="storeTimestamp")
    properties: str = ""
    reconsume_times: Int32 = field(name="reconsumeTimes", default=0)
    unit_mode: bool = field(name="unitMode", default=False)
