"""Topics and subscription groups, as brokers keep, register and copy them."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from msgspec import field

from smartgo.errors import BadBody
from smartgo.schema.bodies.shape import REQUEST_LIMIT, Body, always
from smartgo.schema.headerfields import Int32, Int64

if TYPE_CHECKING:
    FilterType = str
else:
    FilterType = str | int

SINGLE_TAG = "SINGLE_TAG"
MULTI_TAG = "MULTI_TAG"
_FILTER_TYPES = {0: SINGLE_TAG, 1: MULTI_TAG}

BARE_KEYS = 256 * 1024
"""The longest body with tables of topics in which bare keys are taken: RocketMQ writes none there."""

INFLATED_LIMIT = 16 * 1024 * 1024
"""The largest registration body after decompression, in bytes (reliability L7)."""


class DataVersion(Body):
    """
    The version of a table; two tables are equal when all members of their versions are.

    @ivar timestamp: wall clock in ms (SmartGo: ns).
    @ivar state_version: 5.x.
    """

    timestamp: Int64 = always(0)
    counter: Int64 = always(0)
    state_version: Int64 | None = None


class TopicConfig(Body):
    """
    The settings of one topic.

    @ivar perm: 4 read, 2 write, 1 inherit.
    @ivar topic_filter_type: C{SINGLE_TAG} or C{MULTI_TAG}.
    @ivar topic_sys_flag: 1 unit, 2 unit-sub.
    @ivar attributes: 5.x.
    """

    topic_name: str
    read_queue_nums: Int32 = always(16)
    write_queue_nums: Int32 = always(16)
    perm: Int32 = always(6)
    topic_filter_type: FilterType = always(SINGLE_TAG)
    topic_sys_flag: Int32 = always(0)
    order: bool = always(False)
    attributes: dict[str, str] | None = None

    def __post_init__(self) -> None:
        """Take SmartGo's numbers for the filter type."""
        if self.topic_filter_type.__class__ is not str:
            self.topic_filter_type = _FILTER_TYPES.get(self.topic_filter_type, SINGLE_TAG)  # type: ignore[call-overload]


class TopicConfigSerializeWrapper(Body):
    """All topics of a broker with their version: C{topics.json}, the answer to 21, a part of 103."""

    topic_config_table: dict[str, TopicConfig] = always({})
    data_version: DataVersion = field(default_factory=DataVersion)

    bare_keys_limit: ClassVar = BARE_KEYS

    @classmethod
    def prepared(cls, value: dict[str, Any]) -> dict[str, Any]:
        """Take SmartGo's extra level, and topics that do not say their name."""
        table = value.get("topicConfigTable")
        if isinstance(table, dict):
            inner = table.get("topicConfigs")
            if isinstance(inner, dict) and "topicName" not in inner:
                table = inner
            value["topicConfigTable"] = {
                name: {"topicName": name} | config if isinstance(config, dict) else config
                for name, config in table.items()
                if name != "SEPARATOR"
            }
        return super().prepared(value)


class SubscriptionGroupConfig(Body):
    """
    The settings of one consumer group.

    @ivar retry_max_times: deliveries after which a message goes to the dead-letter topic.
    @ivar broker_id: whom to pull from; C{which_broker_when_consume_slowly} where the messages lie far back.
    @ivar group_retry_policy: 5.x, as are the members below it; kept, not used.
    """

    group_name: str
    consume_enable: bool = always(True)
    consume_from_min_enable: bool = always(True)
    consume_broadcast_enable: bool = always(True)
    retry_queue_nums: Int32 = always(1)
    retry_max_times: Int32 = always(16)
    broker_id: Int64 = always(0)
    which_broker_when_consume_slowly: Int64 = always(1)
    notify_consumer_ids_changed_enable: bool = always(True)
    consume_message_orderly: bool | None = None
    group_retry_policy: dict[str, Any] | None = None
    group_sys_flag: Int32 | None = None
    consume_timeout_minute: Int32 | None = None
    subscription_data_set: list[dict[str, Any]] | None = None
    attributes: dict[str, str] | None = None

    size_limit: ClassVar = REQUEST_LIMIT


class TopicConfigList(Body):
    """Topics to create or change at once (18)."""

    topic_config_list: list[TopicConfig] = always([])

    size_limit: ClassVar = REQUEST_LIMIT


class SubscriptionGroupList(Body):
    """Consumer groups to create or change at once (225)."""

    group_config_list: list[SubscriptionGroupConfig] = always([])

    size_limit: ClassVar = REQUEST_LIMIT


class SubscriptionGroupWrapper(Body):
    """
    All consumer groups of a broker with their version: C{subscriptionGroup.json}, the answer to 201.

    @ivar forbidden_table: 5.x: group, topic, forbidden bits.
    """

    subscription_group_table: dict[str, SubscriptionGroupConfig]
    data_version: DataVersion = field(default_factory=DataVersion)
    forbidden_table: dict[str, dict[str, Int32]] | None = None

    other_names: ClassVar = {"tables": "subscriptionGroupTable"}

    @classmethod
    def prepared(cls, value: dict[str, Any]) -> dict[str, Any]:
        """Take groups that do not say their name."""
        value = super().prepared(value)
        table = value.setdefault("subscriptionGroupTable", {})
        if isinstance(table, dict):
            value["subscriptionGroupTable"] = {
                name: {"groupName": name} | config if isinstance(config, dict) else config
                for name, config in table.items()
            }
        return value


class ConsumerOffsetTable(Body):
    """
    The offsets of all groups: C{consumerOffset.json}, the answer to 43.

    @ivar offset_table: C{topic@group}, queue id, offset.
    """

    offset_table: dict[str, dict[Int32, Int64]]
    data_version: DataVersion | None = None

    other_names: ClassVar = {"offsets": "offsetTable"}

    @classmethod
    def prepared(cls, value: dict[str, Any]) -> dict[str, Any]:
        """Take an object without a table."""
        value = super().prepared(value)
        value.setdefault("offsetTable", {})
        return value


class DelayOffsetTable(Body):
    """
    The delivery offsets of the delay levels: C{delayOffset.json}, the answer to 45.

    @ivar offset_table: level, offset in the queue of that level.
    """

    offset_table: dict[Int32, Int64] = always({})
    data_version: DataVersion | None = None


class RegisteredTopics(Body):
    """Of what a broker registers (103) what a registry uses; the rest, however long, is skipped."""

    topic_config_serialize_wrapper: TopicConfigSerializeWrapper

    bare_keys_limit: ClassVar = BARE_KEYS

    @classmethod
    def prepared(cls, value: dict[str, Any]) -> dict[str, Any]:
        """Prepare the part that has its own forms."""
        value = super().prepared(value)
        wrapper = value.setdefault("topicConfigSerializeWrapper", {})
        if isinstance(wrapper, dict):
            value["topicConfigSerializeWrapper"] = TopicConfigSerializeWrapper.prepared(wrapper)
        return value


class RegisterBrokerBody(RegisteredTopics):
    """The registration of a broker (103)."""

    filter_server_list: list[str] = always([])

    def encode(self, compressed: bool = False) -> bytes:
        """Write the body, as JSON or in the compressed form of docs/spec/broker#registration."""
        return _deflated(self) if compressed else super().encode()

    @classmethod
    def decode(cls, data: bytes, compressed: bool = False) -> RegisterBrokerBody:
        """
        Read the body.

        @param compressed: what the request's header says.
        @raise BadBody: it cannot be read, or is larger than L{INFLATED_LIMIT} when inflated.
        """
        return _inflated(data) if compressed else super().decode(data)


def _deflated(body: RegisterBrokerBody) -> bytes:
    wrapper = body.topic_config_serialize_wrapper
    parts = [_sized(wrapper.data_version.encode()), len(wrapper.topic_config_table).to_bytes(4, "big")]
    for config in wrapper.topic_config_table.values():
        text = (
            f"{config.topic_name} {config.read_queue_nums} {config.write_queue_nums} {config.perm}"
            f" {config.topic_filter_type}"
        )
        if config.attributes:
            text += " " + msgspec.json.encode(config.attributes).decode()
        parts.append(_sized(text.encode()))
    parts.append(_sized(msgspec.json.encode(body.filter_server_list)))
    return zlib.compress(b"".join(parts), 9)


def _inflated(data: bytes) -> RegisterBrokerBody:
    inflate = zlib.decompressobj()
    try:
        raw = inflate.decompress(data, INFLATED_LIMIT)
    except zlib.error as error:
        raise BadBody(f"body is not a zlib stream: {error}") from None
    if inflate.unconsumed_tail:
        raise BadBody(f"body exceeds the limit of {INFLATED_LIMIT} B when inflated")
    reader = _Reader(raw)
    version = DataVersion.decode(reader.sized())
    table = {}
    for _ in range(reader.number()):
        config = _config(reader.sized())
        table[config.topic_name] = config
    # 5.x appends more sections, which mean nothing here.
    try:
        servers = msgspec.json.decode(reader.sized(), type=list[str])
    except msgspec.MsgspecError as error:
        raise BadBody(f"filter servers cannot be read: {error}") from None
    return RegisterBrokerBody(TopicConfigSerializeWrapper(table, version), servers)


def _sized(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


class _Reader:
    """The pieces of an inflated registration, one after another."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._at = 0

    def number(self) -> int:
        """Read a length or a count."""
        end = self._at + 4
        number = int.from_bytes(self._raw[self._at : end], "big")
        # Every item takes four bytes at least: this refuses any count that cannot be true.
        if end > len(self._raw) or number > len(self._raw):
            raise BadBody("registration body ends too early")
        self._at = end
        return number

    def sized(self) -> bytes:
        """Read a piece that tells its length."""
        size = self.number()
        begin, self._at = self._at, self._at + size
        if self._at > len(self._raw):
            raise BadBody("registration body ends too early")
        return self._raw[begin : self._at]


def _config(raw: bytes) -> TopicConfig:
    try:
        parts = raw.decode().split(" ", 5)
        attributes = msgspec.json.decode(parts[5], type=dict[str, str]) if len(parts) > 5 else None
    except (UnicodeDecodeError, msgspec.MsgspecError):
        raise BadBody("a registered topic cannot be read") from None
    if len(parts) < 5 or not parts[0]:
        raise BadBody("a registered topic lacks a part")
    names = ("topicName", "readQueueNums", "writeQueueNums", "perm", "topicFilterType")
    config = TopicConfig.convert(dict(zip(names, parts, strict=False)))
    config.attributes = attributes
    return config
