"""
Small stores with random damage, and a parser of their CommitLogs that shares no code with the product: C{struct}, the
layout of docs/spec, and the rules of docs/spark.rst#damage.
"""

from __future__ import annotations

import os
import re
import struct
from dataclasses import dataclass, field
from random import Random
from typing import Final, NamedTuple
from zlib import crc32

_MAGICS: Final = (0xDAA320A7, 0xDAA320AB, 0xDAA320B7)
_BLANKS: Final = (0xCBD43194, 0xCBD431A4)
_HEAD: Final = struct.Struct(">iIiiiqqiq")  # up to and with the birth timestamp
_SEARCHED: Final = re.compile(b"\xda\xa3\x20[\xa7\xab\xb7]")
_TOPIC: Final = re.compile("[%|a-zA-Z0-9_-]{1,127}")
_UNIT: Final = struct.Struct(">qiq")
_START_MS: Final = 1_767_225_600_000


class Row(NamedTuple):
    """What both parsers are to agree upon of a message."""

    physical_offset: int
    size: int
    topic: str
    queue_id: int
    queue_offset: int
    flag: int
    sys_flag: int
    reconsume_times: int
    body: bytes


class _Record(NamedTuple):
    row: Row
    stored_ms: int
    crc_holds: bool


# -- the parser ------------------------------------------------------------------------------------------------


def parse_log(directory: str) -> list[Row]:
    """Return the valid messages of a CommitLog, whatever happened to its files."""
    found: list[Row] = []
    for name in sorted(os.listdir(directory)):
        with open(os.path.join(directory, name), "rb") as file:
            found += _parse_file(file.read(), int(name))
    return found


def _parse_file(data: bytes, base: int) -> list[Row]:
    found: list[Row] = []
    at = stored_ms = 0
    while len(data) - at >= 8:
        record = _record(data, at, base + at)
        if record is None:
            size, magic = struct.unpack_from(">iI", data, at)
            if magic in _BLANKS and size >= len(data) - at:
                break
            after = _next(data, at + 1, base, stored_ms)
            if after is None:
                break
            at = after
            continue
        if record.crc_holds:
            found.append(record.row)
        at, stored_ms = at + record.row.size, record.stored_ms
    return found


def _next(data: bytes, begin: int, base: int, stored_ms: int) -> int | None:
    """Return where the next record begins that was stored no earlier than the one before."""
    for match in _SEARCHED.finditer(data, begin + 4):
        at = match.start() - 4
        record = _record(data, at, base + at)
        if record is not None and record.stored_ms >= stored_ms:
            return at
    return None


def _record(data: bytes, at: int, offset: int) -> _Record | None:
    """Return the record at a place, C{None} if what lies there is none; its checksum may be wrong."""
    try:
        size, magic, crc, queue_id, flag, queue_offset, own, sys_flag, _ = _HEAD.unpack_from(data, at)
        if magic not in _MAGICS or own != offset or queue_id < 0 or queue_offset < 0 or at + size > len(data):
            return None
        place = at + _HEAD.size + (20 if sys_flag & 16 else 8)
        (stored_ms,) = struct.unpack_from(">q", data, place)
        place += 8 + (20 if sys_flag & 32 else 8)
        reconsume_times, _, length = struct.unpack_from(">iqi", data, place)
        place += 16
        if stored_ms <= 0 or length < 0:
            return None
        body = data[place : place + length]
        place += length
        (count,) = struct.unpack_from(">h" if magic == _MAGICS[1] else ">B", data, place)
        place += 2 if magic == _MAGICS[1] else 1
        if count < 0:
            return None
        topic = data[place : place + count].decode()
        (count,) = struct.unpack_from(">h", data, place + count)
    except (struct.error, UnicodeDecodeError):
        return None
    if count < 0 or place + len(topic) + 2 + count != at + size or not _TOPIC.fullmatch(topic):
        return None
    row = Row(offset, size, topic, queue_id, queue_offset, flag, sys_flag, reconsume_times, body)
    return _Record(row, stored_ms, not (crc32(body) ^ crc) & 0x7FFFFFFF)


# -- the stores ------------------------------------------------------------------------------------------------


@dataclass
class DamagedStore:
    """
    A store that was written whole, and then damaged.

    @ivar written: physical offset and size of each record that was written.
    @ivar begin: physical offset at which the log begins for somebody who sees what is left: older files may have been
        removed by retention.
    @ivar damages: what was done, in words.
    @ivar names_end: the ConsumeQueues are whole, so they tell how far the log went.
    @ivar is_damaged: something was done that a reader may complain of.
    """

    root: str
    written: list[tuple[int, int]] = field(default_factory=list)
    begin: int = 0
    damages: list[str] = field(default_factory=list)
    names_end: bool = True
    is_damaged: bool = False

    @property
    def log(self) -> str:
        """Directory of the CommitLog."""
        return os.path.join(self.root, "commitlog")

    def lost(self, rows: list[Row]) -> list[tuple[int, int]]:
        """
        Return the records that a reader has to report as missing: those written that are none of some rows.

        Without the ConsumeQueues nobody can tell that the newest records ever were.
        """
        left = {row.physical_offset for row in rows}
        missing = [one for one in self.written if one[0] >= self.begin and one[0] not in left]
        if not self.names_end:
            last = max(left, default=-1)
            missing = [one for one in missing if one[0] < last]
        return missing

    def is_open_end(self, rows: list[Row]) -> bool:
        """Tell whether the newest of some rows ends with zeros, and no ConsumeQueue says that it was complete."""
        if self.names_end or not rows:
            return False
        last = rows[-1].physical_offset + rows[-1].size - 1
        for name in os.listdir(self.log):
            with open(os.path.join(self.log, name), "rb") as file:
                file.seek(max(last - int(name), 0))
                if int(name) <= last and file.read(1) == b"\0":
                    return True
        return False


def make_store(root: str, random: Random) -> DamagedStore:
    """Write a store of several small files, and damage it."""
    made = DamagedStore(root)
    file_size = random.choice([4096, 8192, 16384])
    _write_log(made, random, file_size)
    names = sorted(os.listdir(made.log))
    if random.random() < 0.25 and len(names) > 3:
        for name in names[: random.randrange(1, len(names) - 2)]:
            os.remove(os.path.join(made.log, name))
            made.begin = int(name) + file_size
        made.damages.append(f"retention removed what was before {made.begin}")
    for _ in range(random.choice([0, 1, 1, 1, 2, 3])):
        _damage(made, random, file_size)
    bases = sorted(int(name) for name in os.listdir(made.log))
    made.begin = bases[0] if bases else made.begin
    return made


def _write_log(made: DamagedStore, random: Random, file_size: int) -> None:
    pieces: dict[int, bytes] = {0: b""}
    queues: dict[tuple[str, int], list[bytes]] = {}
    base, stored_ms = 0, _START_MS
    for _ in range(random.randrange(20, 160)):
        topic, queue_id = random.choice(["T", "Orders", "%RETRY%g"]), random.randrange(3)
        units = queues.setdefault((topic, queue_id), [])
        stored_ms += random.randrange(50)
        body = random.randbytes(random.choice([0, 1, 60, 300, 700]))
        magic, flags = random.choice(_MAGICS), random.choice([0, 0, 16, 32, 48])
        at = base + len(pieces[base])
        raw = _encode(random, magic, flags, topic, queue_id, len(units), at, stored_ms, body)
        if len(pieces[base]) + len(raw) + 8 > file_size:
            room = file_size - len(pieces[base])
            pieces[base] += struct.pack(">iI", room, _BLANKS[0])
            base = at = base + file_size
            pieces[base] = b""
            raw = raw[:28] + struct.pack(">q", at) + raw[36:]
        pieces[base] += raw
        made.written.append((at, len(raw)))
        units.append(_UNIT.pack(at, len(raw), 0))
    if random.random() < 0.3:
        pieces[base + file_size] = b""  # made ahead
    os.makedirs(made.log)
    for begin, data in pieces.items():
        with open(os.path.join(made.log, f"{begin:020d}"), "wb") as file:
            if random.random() < 0.5:
                file.write(data)
                file.truncate(file_size)
            else:
                file.write(data.ljust(file_size, b"\0"))
    if random.random() < 0.2:
        made.names_end = False
        return
    length = 20 * random.choice([5, 20, 100])
    for (topic, queue_id), listed in queues.items():
        directory = os.path.join(made.root, "consumequeue", topic, str(queue_id))
        os.makedirs(directory)
        whole = b"".join(listed)
        for begin in range(0, len(whole), length):
            with open(os.path.join(directory, f"{begin:020d}"), "wb") as file:
                file.write(whole[begin : begin + length].ljust(length, b"\0"))


def _encode(
    random: Random, magic: int, flags: int, topic: str, queue_id: int, number: int, at: int, stored_ms: int, body: bytes
) -> bytes:
    hosts = [random.randbytes(20 if flags & flag else 8) for flag in (16, 32)]
    properties = random.choice([b"", b"KEYS\x01a b\x02", b"TAGS\x01x\x02UNIQ_KEY\x010A\x02"])
    middle = struct.pack(">q", stored_ms) + hosts[1] + struct.pack(">iqi", random.randrange(3), 0, len(body)) + body
    length = struct.pack(">h" if magic == _MAGICS[1] else ">B", len(topic))
    end = length + topic.encode() + struct.pack(">h", len(properties)) + properties
    size = _HEAD.size + len(hosts[0]) + len(middle) + len(end)
    crc = crc32(body) & 0x7FFFFFFF
    head = _HEAD.pack(size, magic, crc, queue_id, random.getrandbits(31), number, at, flags, stored_ms - 1)
    return head + hosts[0] + middle + end


# -- the damage ------------------------------------------------------------------------------------------------


def _damage(made: DamagedStore, random: Random, file_size: int) -> None:
    """Do something to one file of the log or, less often, of a queue."""
    queue_files = sorted(
        os.path.join(above, name)
        for above, _, names in os.walk(os.path.join(made.root, "consumequeue"))
        for name in names
    )
    log_files = sorted(os.path.join(made.log, name) for name in os.listdir(made.log))
    if queue_files and (not log_files or random.random() < 0.2):
        path = random.choice(queue_files)
        made.names_end = False
    elif log_files:
        path = random.choice(log_files)
    else:
        return
    made.is_damaged = True
    size = os.path.getsize(path)
    base = int(os.path.basename(path))
    kind = random.choice(["removed", "emptied", "cut", "cut at a record", "zeroed", "zeroed", "flipped", "noise"])
    at = random.randrange(size) if size else 0
    count = min(random.choice([1, 8, 100, 1000, file_size]), size - at)
    if random.random() < 0.2:
        at = 0
    made.damages.append(f"{os.path.relpath(path, made.root)} {kind} at {at}, {count} B")
    if kind == "removed":
        os.remove(path)
    elif kind == "emptied":
        os.truncate(path, 0)
    elif kind == "cut":
        os.truncate(path, at)
    elif kind == "cut at a record":
        inside = [one - base for one, _ in made.written if base <= one < base + size] or [at]
        os.truncate(path, random.choice(inside))
    elif size:
        with open(path, "r+b") as file:
            file.seek(at)
            before = file.read(count)
            file.seek(at)
            if kind == "zeroed":
                file.write(bytes(count))
            elif kind == "flipped":
                file.write(bytes([before[0] ^ 1 << random.randrange(8)]))
            else:
                file.write(random.randbytes(count))
