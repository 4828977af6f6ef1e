"""
Conversion of rows to messages, by the columns of a table that is written. No I/O, and nothing of Spark but the names of
its types.

Columns are told by name, in any order::

    topic        string          where to; the option C{topic} stands for it and goes before it
    body, value  binary, string  the content, 1 byte at least; text as UTF-8
    key, keys    string, array   words the message can be searched by; C{keys} goes before C{key}
    tags         string          the tag
    properties   map             names and values of the application's own, see L{Shape.message}
    unique_id    string          the id by which consumers tell a message that comes twice; made up where there is none
    queue_id     integer         the queue; else queues take turns
    delay_level  integer         deliver later: 1 is the broker's first delay
    flag         integer         the application's number

What else a table read by C{format("smartgo")} has is left to the broker that takes the message, and passed over; other
columns are a mistake.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from smartgo.errors import MessageIllegal, SettingError
from smartgo.schema import properties
from smartgo.schema.message import COMPRESSED
from smartgo.schema.topics import RETRY_PREFIX

if TYPE_CHECKING:
    from pyarrow import RecordBatch

_TEXT: Final = frozenset({"string"})
_BYTES: Final = frozenset({"binary", "string"})
_WORDS: Final = frozenset({"string", "array<string>"})
_PAIRS: Final = frozenset({"map<string,string>"})
_NUMBER: Final = frozenset({"tinyint", "smallint", "int", "bigint"})
_TYPES: Final[Mapping[str, frozenset[str]]] = {
    "topic": _TEXT,
    "body": _BYTES,
    "value": _BYTES,
    "key": _WORDS,
    "keys": _WORDS,
    "tags": _TEXT,
    "properties": _PAIRS,
    "unique_id": _TEXT,
    "queue_id": _NUMBER,
    "delay_level": _NUMBER,
    "flag": _NUMBER,
}
_PASSED_OVER: Final = frozenset(
    {
        *("store", "queue_offset", "physical_offset", "body_size", "size", "born_timestamp", "store_timestamp"),
        *("born_host", "store_host", "reconsume_times", "prepared_transaction_offset", "message_id", "crc", "crc_ok"),
        *("sys_flag",),
    }
)
_AS_STORED: Final = ("sys_flag", "body_size")
"""Columns that together tell whether a body is still compressed, as it was stored."""
_ITEM_OVERHEAD: Final = 64
"""Bytes of an item of a batch beside its body and given properties: five int32, an int16, and a unique id."""
_INT32: Final = 1 << 31


class Outgoing(NamedTuple):
    """
    One message to be sent, by a row's columns.

    @ivar row: the row's number within its task, from 1.
    @ivar queue_id: C{None} for the next queue.
    @ivar properties: the application's, and perhaps its unique id.
    """

    row: int
    topic: str
    queue_id: int | None
    body: bytes
    tag: str
    keys: tuple[str, ...]
    properties: dict[str, str]
    delay_level: int
    flag: int

    @property
    def size(self) -> int:
        """About how many bytes it takes in a batch; up to four times as many where much is not ASCII."""
        words = sum([len(name) + len(value) + 2 for name, value in self.properties.items()])
        return _ITEM_OVERHEAD + len(self.body) + words + len(self.tag) + sum([len(key) + 1 for key in self.keys])

    @property
    def alone(self) -> bool:
        """Tell whether no batch may contain this message."""
        return self.delay_level > 0 or self.topic.startswith(RETRY_PREFIX)


class BadRow(MessageIllegal):
    """
    A row that cannot be sent as a message.

    @ivar row: its number within its task, from 1.
    """

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(f"row {row} of this task cannot be sent: {reason}")
        self.row = row


class Shape:
    """
    The meaning of the columns of a table.

    @ivar used: the columns that make messages, by what they are.
    """

    def __init__(self, columns: Iterable[tuple[str, str]], topic: str | None) -> None:
        """
        @param columns: name and Spark type (as C{simpleString} has it) of each.
        @param topic: the option; C{None} for a column of that name.
        @raise SettingError: a column is missing, unknown or of another type.
        """
        found = {name.lower(): (name, kind) for name, kind in columns}
        unknown = [name for low, (name, _) in found.items() if low not in _TYPES and low not in _PASSED_OVER]
        if unknown:
            raise SettingError(
                f"no message has a column {', '.join(sorted(unknown))}; columns are {', '.join(_TYPES)}: rename or drop"
            )
        for low, allowed in _TYPES.items():
            if low in found and found[low][1] not in allowed:
                name, kind = found[low]
                raise SettingError(f"column {name} is {kind}, and must be {' or '.join(sorted(allowed))}")
        if "body" in found and "value" in found:
            raise SettingError("columns body and value are two names of one thing: drop one of them")
        if "body" not in found and "value" not in found:
            raise SettingError("a column body (or value) is needed: the content of the messages")
        if topic is None and "topic" not in found:
            raise SettingError("no topic: give the option topic, or a column of that name")
        self._topic = topic
        self.used = {low: name for low, (name, _) in found.items() if low in _TYPES}
        if "value" in self.used:
            self.used["body"] = self.used.pop("value")
        if "keys" in self.used:
            self.used.pop("key", None)
        elif "key" in self.used:
            self.used["keys"] = self.used.pop("key")
        if topic is not None:
            self.used.pop("topic", None)
        if all(name in found for name in _AS_STORED):
            self.used.update((name, found[name][0]) for name in _AS_STORED)

    def messages(self, batches: Iterable[RecordBatch]) -> Iterator[Outgoing]:
        """
        Make a message of each row.

        @raise BadRow: a row is none.
        """
        row = 0
        for batch in batches:
            columns = {what: batch.column(name).to_pylist() for what, name in self.used.items()}
            for values in zip(*columns.values(), strict=True):
                row += 1
                yield self.message(row, dict(zip(columns, values, strict=True)))

    def message(self, row: int, values: Mapping[str, Any]) -> Outgoing:
        """
        Make a message of one row.

        Of the properties, C{TAGS} and C{KEYS} stand for columns that are not there and C{UNIQ_KEY} for the id, so that
        a message that was read can be sent on as it is; the other names that the protocol reserves are left out, as
        client and broker set them.

        @param values: by what the columns are, see L{used}; C{None} for null.
        @raise BadRow: it is none.
        """
        topic = self._topic or values.get("topic")
        if not topic:
            raise BadRow(row, "its topic is null")
        body = values["body"]
        if body is None:
            raise BadRow(row, "its body is null")
        if (values.get("sys_flag") or 0) & COMPRESSED and values.get("body_size") == len(body):
            raise BadRow(row, "its body is compressed, as it was stored; read it with the option decompressBody")
        given = _pairs(row, values.get("properties"))
        own = {name: value for name, value in given.items() if name not in properties.RESERVED}
        unique_id = values.get("unique_id") or given.get(properties.UNIQ_KEY)
        if unique_id:
            own[properties.UNIQ_KEY] = unique_id
        keys = _words(values["keys"]) if "keys" in values else _words(given.get(properties.KEYS))
        tag = values["tags"] if "tags" in values else given.get(properties.TAGS)
        queue_id = values.get("queue_id")
        if queue_id is not None and queue_id < 0:
            raise BadRow(row, f"queue_id {queue_id} is negative")
        delay_level = values.get("delay_level") or 0
        if delay_level < 0:
            raise BadRow(row, f"delay_level {delay_level} is negative")
        flag = values.get("flag") or 0
        if not -_INT32 <= flag < _INT32:
            raise BadRow(row, f"flag {flag} is not an int32")
        raw = body.encode() if isinstance(body, str) else body
        return Outgoing(row, topic, queue_id, raw, tag or "", keys, own, delay_level, flag)


def _pairs(row: int, column: Sequence[tuple[str, str | None]] | Mapping[str, str | None] | None) -> dict[str, str]:
    """Read the pairs that Arrow makes of a map. @raise BadRow: a value is null."""
    found = dict(column or ())
    for name, value in found.items():
        if value is None:
            raise BadRow(row, f"property {name!r} is null")
    return found  # type: ignore[return-value]  # no value is None


def _words(keys: str | Sequence[str | None] | None) -> tuple[str, ...]:
    """Read a text of words, or a list of them."""
    if keys is None:
        return ()
    if isinstance(keys, str):
        return tuple(keys.split())
    return tuple([key for key in keys if key])


class Portion(NamedTuple):
    """
    A batch of messages of one topic, for one queue.

    @ivar queue_id: C{None} for the next queue.
    """

    topic: str
    queue_id: int | None
    messages: list[Outgoing]


def portions(messages: Iterable[Outgoing], byte_limit: int, count_limit: int) -> Iterator[Portion]:
    """
    Group messages into batches, those of one topic and queue in their order.

    What is held back meanwhile is C{byte_limit} for each of a few topics and queues at most, eight times that together.

    @param byte_limit: bytes of a portion, unless a single message has more.
    @param count_limit: messages of a portion.
    """
    opened: dict[tuple[str, int | None], list[Outgoing]] = {}
    sizes: dict[tuple[str, int | None], int] = {}
    held = 0
    for message in messages:
        key = (message.topic, message.queue_id)
        size = message.size
        if message.alone or size > byte_limit:
            if key in opened:
                held -= sizes.pop(key)
                yield Portion(*key, opened.pop(key))
            yield Portion(*key, [message])
            continue
        if key in opened and (sizes[key] + size > byte_limit or len(opened[key]) >= count_limit):
            held -= sizes.pop(key)
            yield Portion(*key, opened.pop(key))
        opened.setdefault(key, []).append(message)
        sizes[key] = sizes.get(key, 0) + size
        held += size
        if held > 8 * byte_limit:
            fullest = max(sizes, key=sizes.__getitem__)
            held -= sizes.pop(fullest)
            yield Portion(*fullest, opened.pop(fullest))
    for key, left in opened.items():
        yield Portion(*key, left)
