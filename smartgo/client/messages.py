"""The messages of applications: messages to send, results of sends, messages received."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import Final

import msgspec
from twisted.logger import Logger

from smartgo.errors import BadCompression, BadRecord, BodyTooLong, MessageIllegal, MessageTypeWrong
from smartgo.net.limits import MIB
from smartgo.schema import properties, record
from smartgo.schema.bodies import MessageQueue
from smartgo.schema.compression import decompress_body
from smartgo.schema.message import StoredMessage, unpack_host
from smartgo.schema.topics import RETRY_PREFIX, check_topic

BODY_LIMIT: Final = 4 * MIB
"""The longest body of a message, and the longest batch, in bytes, before compression."""

_SEPARATORS: Final = ("\x01", "\x02")
_OURS: Final = frozenset({properties.TAGS, properties.KEYS, properties.DELAY, properties.WAIT})

_KINDS: Final = {"topic": str, "body": bytes, "tag": str, "delay_level": int, "flag": int, "wait": bool}

_log = Logger()


class Message(msgspec.Struct, kw_only=True):
    """
    A message to send.

        >>> Message(topic="Orders", body=b"7 apples", tag="new", keys="order-7").keys
        ('order-7',)
        >>> Message(topic="Orders", body="7 apples")
        Traceback (most recent call last):
        ...
        smartgo.errors.MessageTypeWrong: the body of a message must be bytes, not str: encode it, as in "...".encode()

    @ivar topic: the topic; the broker creates it at the first send if its settings allow that.
    @ivar body: 1 byte to L{BODY_LIMIT}; long bodies are compressed for the transfer.
    @ivar tag: one word by which consumers may filter; C{""} for none.
    @ivar keys: words by which the message can be searched for; without blanks. A C{str} is one key.
    @ivar delay_level: the delay before delivery: 1 for the broker's first level (1 s), 2 for its second (5 s), and so
        on; 0 for none.
    @ivar delay: the delay before delivery in seconds, to the millisecond, for brokers of smartgo and RocketMQ 5; 0 for
        none. At most one of C{delay}, C{deliver_at} and C{delay_level} may be given.
    @ivar deliver_at: when to deliver it, as a C{datetime} with a time zone, for the same brokers; a time that is past
        means at once.
    @ivar flag: a number for the application's use, int32.
    @ivar properties: names and values for the application's use.
    @ivar wait: whether the broker answers only when the message is as durable as its settings ask: flushed, replicated.
    """

    topic: str
    body: bytes
    tag: str = ""
    keys: Sequence[str] = ()
    delay_level: int = 0
    delay: float = 0.0
    deliver_at: datetime | None = None
    flag: int = 0
    properties: Mapping[str, str] = msgspec.field(default_factory=dict)
    wait: bool = True

    def __post_init__(self) -> None:
        """
        Check the types of all parts, and make a single key a sequence of one.

        @raise MessageTypeWrong: a part is of a wrong type.
        """
        if isinstance(self.keys, str):
            self.keys = (self.keys,) if self.keys else ()
        if (
            type(self.topic) is not str
            or type(self.body) is not bytes
            or type(self.tag) is not str
            or type(self.delay_level) is not int
            or type(self.flag) is not int
            or type(self.wait) is not bool
        ):
            _check_kinds(self)  # subclasses of these types are fine, too
        if self.keys != ():
            _check_words("keys", self.keys)
        if self.deliver_at is not None or type(self.delay) is not float:
            _check_times(self)
        if type(self.properties) is not dict and not isinstance(self.properties, Mapping):
            raise MessageTypeWrong(f"the properties of a message must be a mapping, not {_named(self.properties)}")
        for pair in self.properties.items():
            _check_words("names and values of properties", pair)

    def check(self) -> None:
        """
        Check the limits and rules of brokers, as each send does.

        @raise BadName: the topic's name breaks the rules.
        @raise MessageIllegal: the body is empty or too long, or a property cannot be written.
        """
        check_topic(self.topic)
        if not self.body:
            raise MessageIllegal("the body is empty")
        if len(self.body) > BODY_LIMIT:
            raise MessageIllegal(f"body of {len(self.body)} B exceeds the limit of {BODY_LIMIT} B")
        if self.is_delayed and (
            self.delay < 0 or (self.delay > 0) + (self.deliver_at is not None) + bool(self.delay_level) > 1
        ):
            raise MessageIllegal("a message has one of delay, deliver_at and delay_level, and no delay below 0")
        for name in self.properties:
            if not name or name in _OURS:
                raise MessageIllegal(f"property {name!r} is reserved and cannot be set")
        if self.properties.get(properties.TRAN_MSG, "").lower() == "true":
            raise MessageIllegal(
                f"property {properties.TRAN_MSG!r} makes a half message, which nobody would commit: send it by "
                "TransactionProducer.send_in_transaction, or leave the property out"
            )
        for key in self.keys:
            if not key or " " in key:
                raise MessageIllegal(f"key {key!r} is empty or contains a space")

    @property
    def is_delayed(self) -> bool:
        """True for a message that is to be delivered later."""
        return bool(self.delay_level or self.delay) or self.deliver_at is not None

    def all_properties(self) -> dict[str, str]:
        """Return the application's properties, and those that carry tag, keys, delay level and C{wait}."""
        found = dict(self.properties)
        if self.tag:
            found[properties.TAGS] = self.tag
        if self.keys:
            found[properties.KEYS] = " ".join(self.keys)
        if self.delay_level:
            found[properties.DELAY] = str(self.delay_level)
        if self.delay:
            found[properties.TIMER_DELAY_MS] = str(round(self.delay * 1000))
        if self.deliver_at is not None:
            found[properties.TIMER_DELIVER_MS] = str(round(self.deliver_at.timestamp() * 1000))
        if not self.wait:
            found[properties.WAIT] = "false"
        return found


def _check_kinds(message: Message) -> None:
    """@raise MessageTypeWrong: a part that is one value is of another type than L{_KINDS} names."""
    for name, kind in _KINDS.items():
        value = getattr(message, name)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise MessageTypeWrong(f"the {name} of a message must be {kind.__name__}, not {_named(value, name)}")


def _check_times(message: Message) -> None:
    """@raise MessageTypeWrong: the delay is no number, or the time of delivery none of a time zone."""
    delay, moment = message.delay, message.deliver_at
    if not isinstance(delay, (int, float)) or isinstance(delay, bool):
        raise MessageTypeWrong(f"the delay of a message is a number of seconds, not {_named(delay)}")
    if moment is not None and (not isinstance(moment, datetime) or moment.tzinfo is None):
        raise MessageTypeWrong(
            f"the deliver_at of a message is a datetime with a time zone, not {moment!r}: as in datetime.now(UTC)"
        )


def _check_words(part: str, words: Sequence[object]) -> None:
    """@raise MessageTypeWrong: the words are no sequence, or not all of them are C{str}."""
    if type(words) not in (list, tuple) and (not isinstance(words, Sequence) or isinstance(words, bytes)):
        raise MessageTypeWrong(f"the {part} of a message must be a str or a sequence of str, not {_named(words)}")
    for word in words:
        if not isinstance(word, str):
            raise MessageTypeWrong(f"the {part} of a message must be str, not {_named(word)}: {word!r}")


def _named(value: object, name: str = "") -> str:
    """Return the type of a value of a wrong type, and what to do about it where that is known."""
    kind = type(value).__name__
    if name == "body" and isinstance(value, str):
        return f'{kind}: encode it, as in "...".encode()'
    if name == "body" and isinstance(value, bytearray | memoryview):
        return f"{kind}: give bytes(body)"
    return kind


def properties_text(pairs: Mapping[str, str]) -> str:
    """
    Return properties as a send's header holds them.

    @raise MessageIllegal: a name or value holds one of the two separators, or all are too long.
    """
    kept = [f"{name}\x01{value}" for name, value in pairs.items() if value]
    text = "\x02".join(kept)
    if len(kept) != len(pairs) or text.count("\x01") != len(kept) or text.count("\x02") != len(kept) - 1:
        _refuse_separators(pairs)
    if len(text) * 4 > properties.SIZE_LIMIT:  # may be too long: count
        size = len(text.encode("utf-8", "replace"))
        if size > properties.SIZE_LIMIT:
            raise MessageIllegal(f"properties of {size} B exceed the limit of {properties.SIZE_LIMIT} B")
    return text


def _refuse_separators(pairs: Mapping[str, str]) -> None:
    """@raise MessageIllegal: a name or value holds one of the two separators; the message names it."""
    for pair in pairs.items():
        for word in pair:
            if any(one in word for one in _SEPARATORS):
                raise MessageIllegal(f"property {pair[0]!r} contains the character 0x01 or 0x02")


class SendStatus(Enum):
    """
    The durability of a message that a broker has stored.

    All but C{SEND_OK} mean that the message is stored, but less durably than the broker's settings ask.
    """

    SEND_OK = 0
    FLUSH_DISK_TIMEOUT = 10
    SLAVE_NOT_AVAILABLE = 11
    FLUSH_SLAVE_TIMEOUT = 12


class SendResult(msgspec.Struct, frozen=True):
    """
    The result of a send of a message or a batch.

    @ivar status: the durability of the message.
    @ivar message_id: the unique id, which the client generates; the ids of a batch are joined by commas.
    @ivar offset_id: the broker's id, by which the message can be viewed; the ids of a batch are joined by commas.
    @ivar queue: the queue of the message.
    @ivar queue_offset: its offset in that queue; of a batch the first one's. Of a message that is delivered later this
        is the offset where it waits, not the one that it will have.
    @ivar recall_handle: of a message with a delivery time: what recalls it (L{smartgo.Producer.recall}).
    """

    status: SendStatus
    message_id: str
    offset_id: str
    queue: MessageQueue
    queue_offset: int
    recall_handle: str | None = None


class ReceivedMessage(msgspec.Struct, kw_only=True, eq=False):
    """
    A message that a consumer received.

    @ivar topic: the topic that it was sent to, even if it was redelivered from the group's retry topic.
    @ivar queue: the queue that it was pulled from.
    @ivar queue_offset: its offset in that queue.
    @ivar body: the body as the producer gave it, decompressed.
    @ivar properties: all properties, reserved names included.
    @ivar message_id: the producer's unique id, or C{offset_id} if the producer gave none.
    @ivar offset_id: the broker's id of this stored copy.
    @ivar log_offset: its physical offset in the broker's CommitLog, in bytes.
    @ivar flag: the application's number.
    @ivar born_ms: the time of the send, by the producer's wall clock in ms.
    @ivar stored_ms: the time of the append, by the broker's wall clock in ms.
    @ivar born_host: C{address:port} of the producer.
    @ivar reconsume_times: how often the group was given the message before.
    """

    topic: str
    queue: MessageQueue
    queue_offset: int
    body: bytes
    properties: dict[str, str]
    message_id: str
    offset_id: str
    log_offset: int
    flag: int
    born_ms: int
    stored_ms: int
    born_host: str
    reconsume_times: int

    @property
    def tag(self) -> str:
        """The tag; C{""} if it has none."""
        return self.properties.get(properties.TAGS, "")

    @property
    def keys(self) -> list[str]:
        """The keys by which it can be searched for."""
        return properties.split_keys(self.properties.get(properties.KEYS, ""))


class _Places(dict[tuple[str, int], MessageQueue]):
    """The queues of one broker by topic and id, each made once for many messages."""

    def __init__(self, broker_name: str) -> None:
        self._broker_name = broker_name

    def __missing__(self, key: tuple[str, int]) -> MessageQueue:
        queue = self[key] = MessageQueue(key[0], self._broker_name, key[1])
        return queue


class _Hosts(dict[bytes, str]):
    """Hosts as texts by their stored form, each made once for many messages."""

    def __missing__(self, raw: bytes) -> str:
        address, port = unpack_host(raw)
        text = self[raw] = f"{address}:{port}"
        return text


def received(
    stored: StoredMessage,
    broker_name: str,
    body: bytes | None = None,
    places: _Places | None = None,
    hosts: _Hosts | None = None,
) -> ReceivedMessage:
    """
    Return a stored message as applications receive it.

    @param body: a body that is decompressed already; C{None} to decompress the message's.
    @param places: the queues of this broker; C{hosts}: hosts. They are shared by the messages of one answer.
    @raise BadCompression: the body is not compressed as its flags say.
    @raise BodyTooLong: the decompressed body is longer than any that can be sent.
    """
    found = properties.decode(stored.properties)
    if places is None or hosts is None:
        places, hosts = _Places(broker_name), _Hosts()
    topic = stored.topic
    queue = places[topic, stored.queue_id]
    if topic.startswith(RETRY_PREFIX):
        topic = found.get(properties.RETRY_TOPIC, topic)
    offset_id = stored.message_id
    return ReceivedMessage(
        topic=topic,
        queue=queue,
        queue_offset=stored.queue_offset,
        body=decompress_body(bytes(stored.body), stored.sys_flag) if body is None else body,
        properties=found,
        message_id=found.get(properties.UNIQ_KEY, offset_id),
        offset_id=offset_id,
        log_offset=stored.physical_offset,
        flag=stored.flag,
        born_ms=stored.born_ms,
        stored_ms=stored.stored_ms,
        born_host=hosts[stored.born_host],
        reconsume_times=stored.reconsume_times,
    )


def received_if_readable(
    stored: StoredMessage, broker_name: str, places: _Places | None = None, hosts: _Hosts | None = None
) -> ReceivedMessage | None:
    """
    Return a stored message as applications receive it; C{None}, with a warning, if it cannot be decompressed.

    @param places: see L{received}; C{hosts} as well.
    """
    try:
        return received(stored, broker_name, None, places, hosts)
    except (BadCompression, BodyTooLong) as error:
        _log.warn("message {id} is left out: {error}", id=stored.message_id, error=error)
        return None


def decode_messages(body: bytes, broker_name: str) -> list[ReceivedMessage]:
    """
    Return the messages of a pull response, in order.

    As in Java, the first record that cannot be read ends the list. A record whose body cannot be decompressed is left
    out with a warning: no consumer could ever consume it.
    """
    found = []
    places, hosts = _Places(broker_name), _Hosts()
    at, end = 0, len(body)
    while at < end:
        try:
            stored = record.decode(body, at)
        except BadRecord as error:
            _log.warn(
                "broker {broker} answered with a record that cannot be read: {error}", broker=broker_name, error=error
            )
            break
        at += stored.size
        message = received_if_readable(stored, broker_name, places, hosts)
        if message is not None:
            found.append(message)
    return found
