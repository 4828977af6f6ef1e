"""The bytes of one structure of a store, with the name of every field, from the construct schemas."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import Final, NamedTuple

from construct import ConstructError, Int32sb, Struct

from smartgo.errors import BadRecord, StoreError
from smartgo.schema import index
from smartgo.schema.annotate import AnnotatedField, fields_of
from smartgo.schema.checkpoint import CHECKPOINT, FILE_SIZE
from smartgo.schema.consumequeue import UNIT, UNIT_SIZE, Unit
from smartgo.schema.message import HOSTS_MASK
from smartgo.schema.record import (
    BLANK,
    BLANK_MAGICS,
    BLANK_SIZE,
    HEAD,
    HEAD_SIZE,
    MESSAGE_MAGICS,
    RECORD,
    SIZE_LIMIT,
    check,
    start_struct,
)
from smartgo.store.checkpoint import SLOT, SLOT_DISTANCE
from smartgo.store.offline.directory import OfflineStore
from smartgo.store.queues.file import QueueKey

_SLOT_WITH_CRC: Final = Struct(*SLOT.subcons, "crc" / Int32sb)
_LONGEST_HEAD: Final = HEAD_SIZE + 24


class Hexdump(NamedTuple):
    """
    One structure.

    @ivar title: what it is, C{path} and C{at} where: the file and the position of its first byte.
    @ivar fields: with positions from that byte on.
    @ivar fault: what is wrong with it; empty if nothing is.
    """

    title: str
    path: str
    at: int
    fields: Sequence[AnnotatedField]
    fault: str = ""


def dump_record(store: OfflineStore, offset: int) -> Hexdump:
    """
    Return what lies at a physical offset: a record, a blank, or the head of what is neither.

    @raise StoreError: no log file holds the offset.
    """
    run = store.run_at(offset)
    file = None if run is None else run.find(offset)
    if file is None:
        raise StoreError(
            f"no CommitLog file holds physical offset {offset}: the log is {store.begin} to {store.log_end}"
        )
    at = offset - file.base
    head = store.files.read_at(file.path, at, _LONGEST_HEAD)
    size, magic = start_struct.unpack_from(head.ljust(BLANK_SIZE, b"\0"))
    if magic in BLANK_MAGICS or len(head) < HEAD_SIZE:
        room = file.end - offset
        fault = "" if size == room else f"it says {size} B, but {room} B are left in the file"
        return Hexdump("blank", file.path, at, _parsed(head[:BLANK_SIZE], BLANK), fault)
    raw = store.files.read_at(file.path, at, size) if 0 < size <= SIZE_LIMIT else b""
    fault = ""
    try:
        check(raw or head, 0, offset)
    except BadRecord as error:
        fault = str(error) if size or magic else "nothing was written here"
    if magic in MESSAGE_MAGICS and raw:
        whole = _parsed(raw, RECORD)
        if whole:
            return Hexdump("record", file.path, at, whole, fault)
    if head[36:40] and int.from_bytes(head[36:40], "big") & HOSTS_MASK and magic not in MESSAGE_MAGICS:
        head = head[:36] + bytes(4) + head[40:]  # no record: its flags say nothing of the hosts
    if fault and magic and magic not in MESSAGE_MAGICS:
        fault = f"no record begins here: {fault}"
    return Hexdump("head of a record", file.path, at, _parsed(head, HEAD), fault)


def dump_unit(store: OfflineStore, key: QueueKey, number: int) -> Hexdump:
    """
    Return a unit of a queue.

    @raise StoreError: the queue has no file for it.
    """
    offset = number * UNIT_SIZE
    base = offset - offset % store.queue_file_size
    path = store.queue_path(key, base)
    if number < 0 or not store.files.exists(path):
        raise StoreError(f"queue {key[1]} of topic {key[0]} has no file for unit {number}")
    raw = store.files.read_at(path, offset - base, UNIT_SIZE)
    fault = ""
    if len(raw) == UNIT_SIZE and Unit.unpack(raw).is_filler:
        fault = "a filler: the queue has no message here"
    elif not any(raw):
        fault = "nothing was written here"
    return Hexdump("unit", path, offset - base, _parsed(raw, UNIT), fault)


def dump_index(store: OfflineStore, name: str, part: str = "header", number: int = 0) -> Hexdump:
    """
    Return a piece of an index file.

    @param part: C{header}, C{slot} or C{entry}.
    @raise StoreError: there is no such file, or no such slot or entry; or nothing tells how many slots there are.
    """
    path = posixpath.join(store.index_directory, name)
    if path not in store.index_files:
        raise StoreError(f"{path} is not one of the index files")
    if part == "header":
        return Hexdump("index header", path, 0, _parsed(store.files.read_at(path, 0, index.HEADER_SIZE), index.HEADER))
    geometry = store.geometry_of(path)
    if geometry is None:
        raise StoreError(f"{path}: set maxHashSlotNum and maxIndexNum, its size does not tell them")
    if not 0 <= number < (geometry.slots if part == "slot" else geometry.entries):
        raise StoreError(f"{path} has {geometry.slots} slots and {geometry.entries} entries, no {part} {number}")
    if part == "slot":
        at = index.HEADER_SIZE + number * index.SLOT_SIZE
        raw = store.files.read_at(path, at, index.SLOT_SIZE)
        return Hexdump(f"index slot {number}", path, at, _parsed(raw, index.SLOT))
    at = geometry.entry_at(number)
    raw = store.files.read_at(path, at, index.ENTRY_SIZE)
    return Hexdump(f"index entry {number}", path, at, _parsed(raw, index.ENTRY))


def dump_checkpoints(store: OfflineStore) -> list[Hexdump]:
    """Return RocketMQ's checkpoint and both slots of smartgo's, those that there are."""
    found = []
    path = posixpath.join(store.root, "checkpoint")
    if store.files.exists(path):
        found.append(Hexdump("checkpoint", path, 0, _parsed(store.files.read(path, FILE_SIZE), CHECKPOINT)))
    path = posixpath.join(store.root, "smartgo.checkpoint")
    if store.files.exists(path):
        for slot in (0, 1):
            at = slot * SLOT_DISTANCE
            raw = store.files.read_at(path, at, SLOT_DISTANCE)
            fault = "" if any(raw) else "never written"
            found.append(Hexdump(f"smartgo checkpoint, slot {slot}", path, at, _parsed(raw, _SLOT_WITH_CRC), fault))
    return found


def _parsed(raw: bytes, schema: Struct) -> list[AnnotatedField]:
    """Return the fields; none where the bytes are too few."""
    try:
        return list(fields_of(raw, schema))
    except ConstructError:
        return []
