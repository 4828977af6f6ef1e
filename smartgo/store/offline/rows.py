"""Records as rows, as C{smartgo store dump} and C{export} write them, and the choice of records."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Final

import msgspec

from smartgo.errors import BadBody
from smartgo.schema import properties
from smartgo.schema.compression import decompress_body
from smartgo.schema.message import COMPRESSED, StoredMessage, host_text
from smartgo.store.offline.logwalk import LogDamage

_ENDLESS: Final = 1 << 62


class RecordRow(msgspec.Struct, kw_only=True):
    """
    One record of the CommitLog; the names are those of the Spark table C{messages} (docs/spark).

    @ivar key: the first of C{keys}.
    @ivar body: as stored, or decompressed.
    @ivar body_size: bytes of the stored body; C{size} of the whole record.
    @ivar born_timestamp: in milliseconds since the epoch, as C{store_timestamp}.
    @ivar message_id: the offset id; C{unique_id} the client's.
    """

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    key: str | None
    keys: list[str]
    tags: str | None
    properties: dict[str, str]
    body: bytes
    body_size: int
    size: int
    flag: int
    sys_flag: int
    born_timestamp: int
    store_timestamp: int
    born_host: str
    store_host: str
    reconsume_times: int
    prepared_transaction_offset: int
    message_id: str
    unique_id: str | None
    crc: int


def row_of(message: StoredMessage, inflate: bool = False) -> RecordRow:
    """
    Return a record's row.

    @param inflate: decompress the body; one that cannot be decompressed stays as it is stored.
    """
    found = properties.decode(message.properties)
    keys = properties.split_keys(found.get(properties.KEYS, ""))
    body = bytes(message.body)
    if inflate and message.sys_flag & COMPRESSED:
        try:
            body = decompress_body(body, message.sys_flag)
        except BadBody:
            pass
    return RecordRow(
        topic=message.topic,
        queue_id=message.queue_id,
        queue_offset=message.queue_offset,
        physical_offset=message.physical_offset,
        key=keys[0] if keys else None,
        keys=keys,
        tags=found.get(properties.TAGS),
        properties=found,
        body=body,
        body_size=len(message.body),
        size=message.size,
        flag=message.flag,
        sys_flag=message.sys_flag,
        born_timestamp=message.born_ms,
        store_timestamp=message.stored_ms,
        born_host=host_text(message.born_host),
        store_host=host_text(message.store_host),
        reconsume_times=message.reconsume_times,
        prepared_transaction_offset=message.prepared_offset,
        message_id=message.message_id,
        unique_id=found.get(properties.UNIQ_KEY),
        crc=message.crc,
    )


def json_members(row: RecordRow) -> dict[str, object]:
    """Return a row for JSON: a body that is no UTF-8 text stands as base64 in C{body_base64}, and C{body} is null."""
    members: dict[str, object] = msgspec.structs.asdict(row)
    try:
        members["body"], members["body_base64"] = row.body.decode(), None
    except UnicodeDecodeError:
        members["body"], members["body_base64"] = None, base64.b64encode(row.body).decode()
    return members


class RecordFilter(msgspec.Struct, frozen=True, kw_only=True):
    """
    Conditions that choose records; all of them must hold.

    @ivar topic: C{None} for all; C{queue_id} too.
    @ivar first: the lowest queue offset; C{last}: the highest.
    @ivar begin: physical offset from which on records are wanted; C{end}: before which.
    @ivar from_ms: store timestamp from which on; C{until_ms}: before which.
    @ivar key: one of the message's keys, or its unique id; C{tag}: its tag.
    """

    topic: str | None = None
    queue_id: int | None = None
    first: int = 0
    last: int = _ENDLESS
    begin: int = 0
    end: int = _ENDLESS
    from_ms: int = 0
    until_ms: int = _ENDLESS
    key: str | None = None
    tag: str | None = None

    def wants(self, message: StoredMessage) -> bool:
        """Tell whether a record is wanted."""
        if not (
            (self.topic is None or message.topic == self.topic)
            and (self.queue_id is None or message.queue_id == self.queue_id)
            and self.first <= message.queue_offset <= self.last
            and self.begin <= message.physical_offset < self.end
            and self.from_ms <= message.stored_ms < self.until_ms
        ):
            return False
        raw = message.properties
        if self.tag is not None and properties.find(raw, properties.TAGS) != self.tag:
            return False
        if self.key is None or properties.find(raw, properties.UNIQ_KEY) == self.key:
            return True
        return self.key in properties.split_keys(properties.find(raw, properties.KEYS) or "")

    def select(self, walk: Iterator[StoredMessage | LogDamage]) -> Iterator[StoredMessage | LogDamage]:
        """Yield the wanted records of a walk, and the damage between C{begin} and C{end}; stop behind C{end}."""
        for one in walk:
            if isinstance(one, LogDamage):
                if one.begin >= self.end:
                    return
                if one.end > self.begin:
                    yield one
            elif one.physical_offset >= self.end:
                return
            elif self.wants(one):
                yield one
