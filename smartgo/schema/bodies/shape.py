"""
The common base of all JSON bodies: lenient reading and strict writing.

Reading takes what fastjson and Go write: bare integer and object keys, null for an absent member, integers spelled as
text, numbers for enum names, and SmartGo's other spellings. Writing gives compact standard JSON: wire names in camel
case, null members left out, integer keys quoted, L{MessageQueue} keys as a string that holds their JSON. Rules:
docs/spec/remoting#json, docs/spec/smartgo-differences#wire, reliability B4.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar, get_args

import msgspec
from msgspec import Meta, Struct, field

from smartgo.errors import BadBody
from smartgo.schema.fastjson import decode_with, loads
from smartgo.schema.headerfields import Int32

B = TypeVar("B", bound="Body")
S = TypeVar("S", bound=Struct)

LENIENT_LIMIT = 4 * 1024 * 1024
"""The longest body, in bytes, that gets a second, lenient reading when the first one fails."""

REQUEST_LIMIT = 4 * 1024 * 1024
"""The longest JSON body of a client's request, in bytes: what may be sent as a message."""


if TYPE_CHECKING:
    Double = float
    """A finite Java double."""
else:
    # Lax mode reads "inf" and "nan"; neither is within bounds.
    Double = Annotated[float, Meta(ge=-sys.float_info.max, le=sys.float_info.max)]


def always(value: Any, name: str | None = None) -> Any:
    """
    Give a member a default that is written out all the same; a plain default is left out when it is unchanged.

    A Java class fills a member that is missing with a default of its own, which need not be ours.

    @param value: an immutable value, or a list or dict, of which each body gets its own copy.
    """
    return field(default_factory=value.copy if isinstance(value, (dict, list)) else lambda: value, name=name)


class Body(Struct, rename="camel", omit_defaults=True):
    """
    A JSON body.

    @cvar queue_keyed: wire names of members that are maps with L{MessageQueue} keys.
    @cvar other_names: what SmartGo calls a member, and its wire name; such a member must be a required one, so that
        its absence leads the reader here.
    @cvar bare_keys_limit: the longest body in which bare keys are taken, in bytes; C{None} for every one. For bodies
        whose maps RocketMQ writes with keys of text, and which everybody may send.
    @cvar size_limit: the longest body that is read, in bytes; C{None} for the frame's limit.
    """

    queue_keyed: ClassVar[frozenset[str]] = frozenset()
    other_names: ClassVar[Mapping[str, str]] = {}
    bare_keys_limit: ClassVar[int | None] = None
    size_limit: ClassVar[int | None] = None

    @classmethod
    def decode(cls: type[B], data: bytes) -> B:
        """
        Read a body.

        @raise BadBody: it is no JSON object, does not fit, or is too long; the message says where.
        """
        if cls.size_limit is not None and len(data) > cls.size_limit:
            raise BadBody(f"body of {len(data)} B exceeds the limit of {cls.size_limit} B")
        try:
            if cls.queue_keyed:
                return _keyed(cls, decode_with(_decoder(_wire(cls)), data, cls.bare_keys_limit))
            return decode_with(_decoder(cls), data, cls.bare_keys_limit)
        except BadBody:
            if len(data) > LENIENT_LIMIT and not cls.queue_keyed:
                raise
            # The slow way takes more.
        return cls.convert(loads(data, cls.bare_keys_limit))

    @classmethod
    def convert(cls: type[B], value: Any) -> B:
        """
        Make a body of plain values, as L{decode} does of JSON.

        @raise BadBody: it does not fit; the message says where.
        """
        if not isinstance(value, dict):
            raise BadBody("body is not a JSON object")
        try:
            return msgspec.convert(cls.prepared(without_nulls(value)), cls, strict=False)
        except msgspec.ValidationError as error:
            raise BadBody(f"body cannot be read: {str(error)[:200]}") from None

    @classmethod
    def prepared(cls, value: dict[str, Any]) -> dict[str, Any]:
        """Bring one object of a body into the form that the class names; subclasses add to it."""
        for other, name in cls.other_names.items():
            if other in value and name not in value:
                value[name] = value.pop(other)
        for name in cls.queue_keyed:
            if name in value:
                value[name] = keyed_by_queue(value[name])
        return value

    def encode(self) -> bytes:
        """Write the body as compact JSON."""
        return encode_keyed(self)


class MessageQueue(Struct, frozen=True, order=True, gc=False, rename="camel"):
    """
    One queue of a topic at one broker; usable as a key, ordered as rebalancing needs it.

    >>> MessageQueue("T", "b", 0).key()
    '{"brokerName":"b","queueId":0,"topic":"T"}'
    """

    topic: str
    broker_name: str
    queue_id: Int32

    def __str__(self) -> str:
        """Return the queue as logs and errors name it."""
        return f"queue {self.queue_id} of {self.topic} at {self.broker_name}"

    def key(self) -> str:
        """Return the text that stands for it where JSON wants a string for a key."""
        return f'{{"brokerName":{_text(self.broker_name)},"queueId":{self.queue_id},"topic":{_text(self.topic)}}}'

    @classmethod
    def from_key(cls, key: str) -> MessageQueue:
        """
        Read such a text, or SmartGo's C{topic@brokerName@queueId}.

        @raise BadBody: it is neither.
        """
        try:
            if key.startswith("{"):
                return msgspec.json.decode(key, type=MessageQueue, strict=False)
            topic, broker_name, queue_id = key.rsplit("@", 2)
            return msgspec.convert(
                {"topic": topic, "brokerName": broker_name, "queueId": queue_id}, MessageQueue, strict=False
            )
        except (ValueError, msgspec.MsgspecError):
            raise BadBody(f"{key[:80]!r} is not a message queue") from None


def keyed_by_queue(value: Any) -> Any:
    """
    Turn the keys of a map into L{MessageQueue}; anything but a map is returned as it is.

    @raise BadBody: a key is no queue.
    """
    if not isinstance(value, dict):
        return value
    return {MessageQueue.from_key(key): member for key, member in value.items()}


def without_nulls(value: Any) -> Any:
    """Leave null members out of objects, at any depth."""
    if isinstance(value, dict):
        return {name: without_nulls(member) for name, member in value.items() if member is not None}
    if isinstance(value, list):
        return [without_nulls(member) for member in value]
    return value


def _text(value: str) -> str:
    return msgspec.json.encode(value).decode()


def _key(value: object) -> str:
    if isinstance(value, MessageQueue):
        return value.key()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


encode_keyed = msgspec.json.Encoder(enc_hook=_key).encode
"""Writes what bodies are made of: values with L{MessageQueue} for keys, too."""

_decoders: dict[type[Struct], msgspec.json.Decoder[Any]] = {}
_wires: dict[type[Body], type[Struct]] = {}


def _wire(cls: type[Body]) -> type[Struct]:
    """Return a class as JSON has it: with texts for the keys that name queues."""
    wire = _wires.get(cls)
    if wire is None:
        members: list[tuple[str, Any, Any]] = []
        for one in msgspec.structs.fields(cls):
            kind = one.type
            if one.encode_name in cls.queue_keyed:
                kind = dict[str, get_args(kind)[1]]  # type: ignore[misc]  # known when it runs
            default: dict[str, Any] = {"default": one.default, "default_factory": one.default_factory}
            members.append((one.name, kind, field(name=one.encode_name, **default)))
        wire = _wires[cls] = msgspec.defstruct(cls.__name__, members)
    return wire


def _keyed(cls: type[B], wire: Struct) -> B:
    """Return the body that was read as L{_wire} says. @raise BadBody: a key is no queue."""
    values = {one.name: getattr(wire, one.name) for one in msgspec.structs.fields(wire)}
    for one in msgspec.structs.fields(cls):
        if one.encode_name in cls.queue_keyed:
            values[one.name] = keyed_by_queue(values[one.name])
    return cls(**values)


def _decoder(cls: type[S]) -> msgspec.json.Decoder[S]:
    decoder = _decoders.get(cls)
    if decoder is None:
        decoder = _decoders[cls] = msgspec.json.Decoder(cls, strict=False)
    return decoder
