"""
Messages as values, their identifiers, hosts and system flags.

A host is stored as 4 or 16 address bytes and a big-endian int32 port. Two kinds of message id, both upper-case hex:

 - the offset id: store host, then the physical offset as int64 (32 digits, 56 with IPv6). It leads to the record.
   Source: C{common/message/MessageDecoder.java}, C{createMessageId}.
 - the unique id, made by the client: address (4 or 16 bytes), process id (2), class loader hash (4), milliseconds since
   the client's local start of month (4), counter (2). Source: C{common/message/MessageClientIDSetter.java}.
"""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import msgspec
from construct import Bytes, Int16ub, Int32ub, Int64sb, Struct

from smartgo.errors import BadHeader
from smartgo.schema.fixed import fixed

# -- the sys flag of a message (common/sysflag/MessageSysFlag.java) -------------------------------------------

COMPRESSED: Final = 0x1
MULTI_TAGS: Final = 0x2
TRANSACTION_MASK: Final = 0xC
PREPARED: Final = 0x4
COMMIT: Final = 0x8
ROLLBACK: Final = 0xC
BORN_V6: Final = 0x10
STORE_V6: Final = 0x20
HOSTS_MASK: Final = BORN_V6 | STORE_V6
NEED_UNWRAP: Final = 0x40
INNER_BATCH: Final = 0x80
COMPRESSION_MASK: Final = 0x700

NO_HOST: Final = bytes(8)
_V4_HOST: Final = 8
_V6_HOST: Final = 20


class NewMessage(msgspec.Struct, gc=False):
    """
    A message to be appended.

    The stored sys flag's IPv6 bits follow from the lengths of the hosts, whatever C{sys_flag} says.

    @ivar properties: in stored form, see L{smartgo.schema.properties}.
    @ivar born_host: producer's address, as a record stores it; C{store_host} is this broker's.
    @ivar tag_code: third field of the ConsumeQueue unit.
    @ivar copied: it is the copy of a stored message, for which the limits of sends do not hold.
    """

    topic: str
    queue_id: int
    body: bytes | memoryview
    properties: bytes
    flag: int = 0
    sys_flag: int = 0
    born_ms: int = 0
    born_host: bytes = NO_HOST
    store_host: bytes = NO_HOST
    reconsume_times: int = 0
    prepared_offset: int = 0
    tag_code: int = 0
    copied: bool = False


class StoredMessage(NamedTuple):
    """
    Every field of a CommitLog record, see L{smartgo.schema.record}.

    @ivar size: the whole record, in bytes.
    @ivar crc: of the body as stored (perhaps compressed).
    @ivar queue_offset: logical, in messages.
    @ivar physical_offset: of the record's first byte.
    @ivar body: a piece of what was decoded: C{bytes} of C{bytes}, a memoryview of a memoryview (copy it to keep it).
    """

    size: int
    magic: int
    crc: int
    queue_id: int
    flag: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    born_ms: int
    born_host: bytes
    stored_ms: int
    store_host: bytes
    reconsume_times: int
    prepared_offset: int
    body: bytes | memoryview
    topic: str
    properties: bytes

    @property
    def message_id(self) -> str:
        """The offset id of this message."""
        return message_id(self.store_host, self.physical_offset)

    def copy_to(self, topic: str, queue_id: int, properties: bytes, prepared_offset: int, tag_code: int) -> NewMessage:
        """Return what to append to another queue: all that its producer gave, with other properties."""
        return NewMessage(
            topic,
            queue_id,
            bytes(self.body),
            properties,
            self.flag,
            self.sys_flag,
            self.born_ms,
            self.born_host,
            self.store_host,
            self.reconsume_times,
            prepared_offset,
            tag_code,
            True,
        )


# -- hosts ---------------------------------------------------------------------------------------------------


def pack_host(ip: str, port: int) -> bytes:
    """
    Return a host as a record stores it: 8 bytes, or 20 for IPv6.

    An IPv4 address in IPv6 clothing (C{::ffff:10.0.0.1}) becomes the IPv4 address, a scope (C{%eth0}) is dropped.

    @raise ValueError: C{ip} is no IP address (a name must be resolved first).
    """
    address = ipaddress.ip_address(ip.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).packed + port.to_bytes(4, "big", signed=True)


def unpack_host(raw: bytes) -> tuple[str, int]:
    """
    Return IP address and port of a stored host.

    @raise ValueError: neither 8 nor 20 bytes.
    """
    port = int.from_bytes(raw[-4:], "big", signed=True)
    if len(raw) == _V4_HOST:  # nearly all are; as ipaddress writes it, in a tenth of the time
        return f"{raw[0]}.{raw[1]}.{raw[2]}.{raw[3]}", port
    if len(raw) != _V6_HOST:
        raise ValueError(f"a host of {len(raw)} B")
    return str(ipaddress.ip_address(raw[:-4])), port


def host_text(raw: bytes) -> str:
    """
    Return a stored host as C{address:port}, an IPv6 address in brackets. Raises as L{unpack_host} does.

    >>> host_text(pack_host("::1", 10911))
    '[::1]:10911'
    """
    address, port = unpack_host(raw)
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


# -- offset ids ----------------------------------------------------------------------------------------------

OFFSET_ID = Struct("address" / Bytes(4), "port" / Int32ub, "offset" / Int64sb)
OFFSET_ID_V6 = Struct("address" / Bytes(16), "port" / Int32ub, "offset" / Int64sb)
_OFFSET_ID_SIZES: Final = (OFFSET_ID.sizeof(), OFFSET_ID_V6.sizeof())


def message_id(store_host: bytes, offset: int) -> str:
    """
    Return the offset id of the record at physical C{offset}.

    >>> message_id(pack_host("10.0.0.2", 10911), 1000)
    '0A00000200002A9F00000000000003E8'
    """
    return (store_host + offset.to_bytes(8, "big")).hex().upper()


def parse_message_id(text: str) -> tuple[bytes, int]:
    """
    Return store host and physical offset that an offset id holds.

    A unique id has the same form: only looking there tells them apart.

    @raise BadHeader: not 32 or 56 hex digits, or a negative offset.
    """
    raw = _unhex(text)
    if len(raw) not in _OFFSET_ID_SIZES or raw[-8] & 0x80:
        raise BadHeader(f"message id {text[:64]!r} is malformed")
    return raw[:-8], int.from_bytes(raw[-8:], "big")


# -- unique ids ----------------------------------------------------------------------------------------------

UNIQUE_ID = Struct(
    "address" / Bytes(4), "process" / Int16ub, "loader" / Int32ub, "span_ms" / Int32ub, "counter" / Int16ub
)
UNIQUE_ID_V6 = Struct("address" / Bytes(16), *UNIQUE_ID.subcons[1:])
_unique_id = fixed(UNIQUE_ID)
_unique_id_v6 = fixed(UNIQUE_ID_V6)


class UniqueId(NamedTuple):
    """
    The parts of a client's unique id.

    @ivar address: 4 or 16 bytes.
    @ivar span_ms: milliseconds since the month began where the client runs.
    """

    address: bytes
    process: int
    loader: int
    span_ms: int
    counter: int

    @classmethod
    def parse(cls, text: str) -> UniqueId:
        """
        Take a unique id apart.

        @raise BadHeader: not 32 or 56 hex digits.
        """
        raw = _unhex(text)
        if len(raw) == _unique_id.size:
            return cls._make(_unique_id.unpack(raw))
        if len(raw) == _unique_id_v6.size:
            return cls._make(_unique_id_v6.unpack(raw))
        raise BadHeader(f"message id {text[:64]!r} is malformed")

    def format(self) -> str:
        """Return the id as text."""
        packer = _unique_id if len(self.address) == _V4_HOST - 4 else _unique_id_v6
        return packer.pack(*self).hex().upper()

    def born_ms(self, now_ms: int, utc_offset: float = 0.0) -> int:
        """
        Return when the id was made: the latest such moment before C{now_ms}.

        Only the time within a month is in the id, so an older id is taken for one of this or the last month.

        @param now_ms: wall clock.
        @param utc_offset: seconds that local time is ahead of UTC; the client's, which is taken to be ours.
        """
        return unique_id_ms(self.span_ms, now_ms, utc_offset)


def unique_id_ms(span_ms: int, now_ms: int, utc_offset: float = 0.0) -> int:
    """
    Return the moment that lies C{span_ms} after the start of this month, or of the last one where that is not past.

    Source: C{MessageClientIDSetter.getNearlyTimeFromID}.
    """
    shift = timedelta(seconds=utc_offset)
    local = datetime.fromtimestamp(now_ms / 1000, UTC) + shift
    first = local.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    begin_ms = round((first - shift).timestamp()) * 1000
    if begin_ms + span_ms >= now_ms:
        first = (first - timedelta(days=1)).replace(day=1)
        begin_ms = round((first - shift).timestamp()) * 1000
    return begin_ms + span_ms


def _unhex(text: str) -> bytes:
    if not text.isalnum():  # fromhex also takes blanks
        return b""
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""
