"""Clients and what they do: heartbeats, subscriptions, locks, connections, what a consumer tells about itself."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from msgspec import field

from smartgo.schema.bodies.shape import REQUEST_LIMIT, Body, Double, MessageQueue, always, keyed_by_queue
from smartgo.schema.headerfields import INT32_MAX, INT32_MIN, Int32, Int64


class ConsumeType(StrEnum):
    """The driver of a consumer: the application (pull) or the client library (push)."""

    CONSUME_ACTIVELY = "CONSUME_ACTIVELY"
    CONSUME_PASSIVELY = "CONSUME_PASSIVELY"
    CONSUME_POP = "CONSUME_POP"


class MessageModel(StrEnum):
    """The delivery mode of a group: its members share the messages, or each gets all of them."""

    BROADCASTING = "BROADCASTING"
    CLUSTERING = "CLUSTERING"


class ConsumeFromWhere(StrEnum):
    """The starting offset of a new group; the last three are legacy."""

    CONSUME_FROM_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    CONSUME_FROM_FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    CONSUME_FROM_TIMESTAMP = "CONSUME_FROM_TIMESTAMP"
    CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST = "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST"
    CONSUME_FROM_MIN_OFFSET = "CONSUME_FROM_MIN_OFFSET"
    CONSUME_FROM_MAX_OFFSET = "CONSUME_FROM_MAX_OFFSET"


if TYPE_CHECKING:
    _Type: TypeAlias = ConsumeType
    _Model: TypeAlias = MessageModel
    _Where: TypeAlias = ConsumeFromWhere
else:
    # SmartGo sends numbers; they are the order of the members above.
    _Type, _Model, _Where = ConsumeType | Int32, MessageModel | Int32, ConsumeFromWhere | Int32

_TYPES, _MODELS, _WHERES = tuple(ConsumeType)[:2], tuple(MessageModel), tuple(ConsumeFromWhere)[:3]


def _member(value: Any, members: tuple[Any, ...]) -> Any:
    """Return the member for SmartGo's number; a C{ValueError} within decoding is a malformed body."""
    if isinstance(value, StrEnum):
        return value
    if not 0 <= value < len(members):
        raise ValueError(f"{value} is not one of {', '.join(members)}")
    return members[value]


class SubscriptionData(Body):
    """
    The subscription of a group to one topic.

    @ivar sub_string: the expression: C{*}, C{A || B}, or SQL92.
    @ivar code_set: the Java hashes of C{tags_set}; client-go's are of UTF-8 bytes and differ for other than ASCII tags.
    @ivar sub_version: wall clock in ms.
    @ivar expression_type: C{TAG} or C{SQL92}.
    """

    topic: str = always("")
    sub_string: str = always("")
    tags_set: frozenset[str] = always(frozenset())
    code_set: frozenset[Int64] = always(frozenset())
    sub_version: Int64 = always(0)
    expression_type: str = always("TAG")
    class_filter_mode: bool = always(False)

    def __post_init__(self) -> None:
        """Bring codes that were sent unsigned into the range of a Java int."""
        for code in self.code_set:
            if not INT32_MIN <= code <= INT32_MAX:
                self.code_set = frozenset((each + 2**31) % 2**32 - 2**31 for each in self.code_set)
                break


class ProducerData(Body):
    """One producer group of a client."""

    group_name: str


class ConsumerData(Body):
    """One consumer group of a client."""

    group_name: str
    consume_type: _Type = always(ConsumeType.CONSUME_PASSIVELY)
    message_model: _Model = always(MessageModel.CLUSTERING)
    consume_from_where: _Where = always(ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET)
    subscription_data_set: list[SubscriptionData] = always([])
    unit_mode: bool = always(False)

    def __post_init__(self) -> None:
        """Take SmartGo's numbers for the enums."""
        self.consume_type = _member(self.consume_type, _TYPES)
        self.message_model = _member(self.message_model, _MODELS)
        self.consume_from_where = _member(self.consume_from_where, _WHERES)


class HeartbeatData(Body):
    """
    The identity of a client, and the groups that it is a member of (34).

    @ivar without_sub: 5.x: the subscriptions are as in the last heartbeat and were left out.
    """

    client_id: str = field(name="clientID")
    producer_data_set: list[ProducerData] = always([])
    consumer_data_set: list[ConsumerData] = always([])
    heartbeat_fingerprint: Int32 | None = None
    without_sub: bool = False

    size_limit: ClassVar = REQUEST_LIMIT


class CheckClientBody(Body):
    """A subscription to be checked by the broker (46)."""

    client_id: str = always("")
    group: str = always("")
    subscription_data: SubscriptionData | None = None

    size_limit: ClassVar = REQUEST_LIMIT


class ConsumerList(Body):
    """The client ids of a group (38)."""

    consumer_id_list: list[str] = always([])


class LockBatchBody(Body):
    """Queues to lock or unlock for an orderly consumer (41, 42)."""

    consumer_group: str
    client_id: str
    mq_set: list[MessageQueue]
    only_this_broker: bool | None = None

    other_names: ClassVar = {"mq_set": "mqSet"}
    size_limit: ClassVar = REQUEST_LIMIT

    @classmethod
    def prepared(cls, value: dict[str, Any]) -> dict[str, Any]:
        """Take a request without queues."""
        value = super().prepared(value)
        value.setdefault("mqSet", [])
        return value


class LockBatchResult(Body):
    """The queues that were granted (41)."""

    lock_ok_mq_set: list[MessageQueue] = always([], "lockOKMQSet")


class SubscriptionOfGroup(Body):
    """The subscription of a connected group to a topic (345); no C{subscription_data} where there is none."""

    group: str = always("")
    topic: str | None = None
    subscription_data: SubscriptionData | None = None


class ConnectedClient(Body):
    """
    One connected client.

    @ivar client_addr: C{ip:port}.
    @ivar language: the name of its language.
    """

    client_id: str = always("")
    client_addr: str = always("")
    language: str = always("OTHER")
    version: Int32 = always(0)


class ConsumerConnection(Body):
    """The connected members of a consumer group, and its subscriptions (203)."""

    connection_set: list[ConnectedClient] = always([])
    subscription_table: dict[str, SubscriptionData] = always({})
    consume_type: _Type = always(ConsumeType.CONSUME_PASSIVELY)
    message_model: _Model = always(MessageModel.CLUSTERING)
    consume_from_where: _Where = always(ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET)

    def __post_init__(self) -> None:
        """Take SmartGo's numbers for the enums."""
        self.consume_type = _member(self.consume_type, _TYPES)
        self.message_model = _member(self.message_model, _MODELS)
        self.consume_from_where = _member(self.consume_from_where, _WHERES)


class ProducerConnection(Body):
    """The connected members of a producer group (204)."""

    connection_set: list[ConnectedClient] = always([])


class ProducerInfo(Body):
    """
    One connected producer.

    @ivar last_update_timestamp: its last heartbeat, wall clock in ms.
    """

    client_id: str = always("")
    remote_ip: str = always("", "remoteIP")
    language: str = always("OTHER")
    version: Int32 = always(0)
    last_update_timestamp: Int64 = always(0)


class ProducerTableInfo(Body):
    """All connected producers, by group (328)."""

    data: dict[str, list[ProducerInfo]] = always({})


class ProcessQueueInfo(Body):
    """The state of one queue at a consumer; offsets count messages, times are wall clock in ms."""

    commit_offset: Int64 = always(0)
    cached_msg_min_offset: Int64 = always(0)
    cached_msg_max_offset: Int64 = always(0)
    cached_msg_count: Int32 = always(0)
    cached_msg_size_in_mib: Int32 = always(0, "cachedMsgSizeInMiB")
    transaction_msg_min_offset: Int64 = always(0)
    transaction_msg_max_offset: Int64 = always(0)
    transaction_msg_count: Int32 = always(0)
    locked: bool = always(False)
    try_unlock_times: Int64 = always(0)
    last_lock_timestamp: Int64 = always(0)
    dropped: bool = always(False, "droped")
    last_pull_timestamp: Int64 = always(0)
    last_consume_timestamp: Int64 = always(0)
    never_consumed: bool | None = None  # ours: RocketMQ's clients report the start of the queue as the last consumption


class ConsumeStatus(Body):
    """The rates of a consumer in one topic: ms a pull or a message, and counts a second."""

    pull_rt: Double = always(0.0, "pullRT")
    pull_tps: Double = always(0.0, "pullTPS")
    consume_rt: Double = always(0.0, "consumeRT")
    consume_ok_tps: Double = always(0.0, "consumeOKTPS")
    consume_failed_tps: Double = always(0.0, "consumeFailedTPS")
    consume_failed_msgs: Int64 = always(0)


class ConsumerRunningInfo(Body):
    """
    The running information of a consumer (307).

    @ivar properties: C{PROP_...} names of docs/spec/client#calls.
    @ivar mq_pop_table: 5.x, as is C{user_consumer_info}.
    @ivar jstack: the stacks of its threads, as text.
    """

    properties: dict[str, str] = always({})
    subscription_set: list[SubscriptionData] = always([])
    mq_table: dict[MessageQueue, ProcessQueueInfo] = always({})
    status_table: dict[str, ConsumeStatus] = always({})
    mq_pop_table: dict[MessageQueue, dict[str, Any]] | None = None
    user_consumer_info: dict[str, str] | None = None
    jstack: str | None = None

    queue_keyed: ClassVar = frozenset({"mqTable", "mqPopTable"})
    MAX_RECONSUME: ClassVar = "maxReconsumeTimes"
    """The property with the most retries that a consumer asks for; -1: 16, of a consumer in order no limit."""
    CONSUME_TIMEOUT: ClassVar = "consumeTimeout"
    """The property with the minutes after which the messages of a listener call that has not ended come again."""
    LISTENER_CALLS: ClassVar = "listenerCalls"
    """The property with the number of listener calls under way."""
    LONGEST_CALL: ClassVar = "longestListenerCallMillis"
    """The property with the milliseconds for which the longest of them has been going on; 0 for none."""


class ConsumeDirectlyResult(Body):
    """
    The result of consuming one message directly (309).

    @ivar consume_result: C{CR_SUCCESS}, C{CR_LATER}, C{CR_ROLLBACK}, C{CR_COMMIT}, C{CR_THROW_EXCEPTION} or
        C{CR_RETURN_NULL}.
    @ivar spent_time_mills: in ms.
    """

    order: bool = always(False)
    auto_commit: bool = always(True)
    consume_result: str | None = None
    remark: str | None = None
    spent_time_mills: Int64 = always(0)


class ConsumerStatusBody(Body):
    """
    The offsets of a group's members (221: C{message_queue_table} of one member, 223: C{consumer_table} by client id).
    """

    message_queue_table: dict[MessageQueue, Int64] = always({})
    consumer_table: dict[str, dict[MessageQueue, Int64]] = always({})

    queue_keyed: ClassVar = frozenset({"messageQueueTable"})

    @classmethod
    def prepared(cls, value: dict[str, Any]) -> dict[str, Any]:
        """Read the keys of the inner tables too."""
        table = value.get("consumerTable")
        if isinstance(table, dict):
            value["consumerTable"] = {client: keyed_by_queue(member) for client, member in table.items()}
        return super().prepared(value)
