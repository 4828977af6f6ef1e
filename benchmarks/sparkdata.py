"""
Stores for the Spark benchmark, written by the schema's own packers: what a broker would have on its disk.

Eight topics of four queues, three tags; keys, unique ids and the properties that brokers and clients add, in RocketMQ's
form. Bodies are unique: pieces of JSON, or random bytes, which no codec makes smaller.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy

from smartgo.schema import properties
from smartgo.schema.columns import record_positions
from smartgo.schema.consumequeue import UNIT_SIZE, unit_struct
from smartgo.schema.message import NewMessage, pack_host
from smartgo.schema.properties import java_hash
from smartgo.schema.record import BLANK_SIZE, encode, encode_blank

_TOPICS = tuple(f"orders-{place}" for place in ("berlin", "hangzhou", "lagos", "lima", "oslo", "pune", "quito", "rome"))
_QUEUES = 4
_TAGS = ("created", "paid", "shipped")
_BEGAN_MS = 1_767_225_600_000
_STORE_HOST = pack_host("10.0.0.9", 10911)
_QUEUE_FILE_UNITS = 300_000
_POOL = 4 << 20
_OFFSET_AT = 28  # the physical offset, in a record


class Written(NamedTuple):
    """
    A store that was written.

    @ivar log_bytes: of records.
    """

    root: Path
    rows: int
    log_bytes: int


def write_store(root: Path, total: int, body_size: int, file_size: int, bodies: str = "json") -> Written:
    """
    Write a store of about C{total} bytes of log.

    @param body_size: of every message, in bytes.
    @param file_size: of a log file, in bytes; the files are preallocated (sparse) like a broker's.
    @param bodies: C{json} or C{random}.
    """
    random = Random(20260131)
    pool = _json_pool(random) if bodies == "json" else random.randbytes(_POOL)
    hosts = [pack_host(f"10.0.1.{number}", 40_000 + number) for number in range(1, 65)]
    pattern = properties.encode(
        {
            properties.KEYS: "order-%07d",
            properties.UNIQ_KEY: "0A000101%04X18B4AAC2%012X",
            properties.CLUSTER: "DefaultCluster",
            properties.TAGS: "%s",
            properties.MSG_REGION: "DefaultRegion",
            properties.TRACE_ON: "true",
        }
    )
    names = [pair.split(b"\x01")[0].decode() for pair in pattern.split(b"\x02")]
    hashes = {tag: java_hash(tag) for tag in _TAGS}
    queues: dict[tuple[str, int], list[bytes]] = {(topic, queue): [] for topic in _TOPICS for queue in range(_QUEUES)}
    (root / "commitlog").mkdir(parents=True)
    rows = at = log_bytes = begin = 0
    pending: list[bytes] = []
    while at < total:
        topic, queue, tag = _TOPICS[random.randrange(8)], rows % _QUEUES, _TAGS[random.randrange(3)]
        fill: dict[str, tuple[object, ...]] = {
            properties.KEYS: (random.randrange(10**7),),
            properties.UNIQ_KEY: (rows % 8, rows),
            properties.TAGS: (tag.encode(),),
        }
        raw = pattern % tuple(value for name in names for value in fill.get(name, ()))
        head = b'{"order":%d,"items":[' % rows if bodies == "json" else rows.to_bytes(8, "big")
        cut = random.randrange(_POOL - body_size)
        body = (head + pool[cut : cut + body_size])[:body_size]
        stored_ms = _BEGAN_MS + rows // 5
        born_ms = stored_ms - rows % 17
        message = NewMessage(
            topic, queue, body, raw, born_ms=born_ms, born_host=hosts[rows % 64], store_host=_STORE_HOST
        )  # fmt: skip
        units = queues[topic, queue]
        record = encode(message, len(units), at, stored_ms)
        room = begin + file_size - at
        if len(record) + BLANK_SIZE > room:
            pending.append(encode_blank(room))
            _write_sparse(root / "commitlog" / f"{begin:020d}", file_size, pending)
            pending.clear()
            begin += file_size
            at = begin
            continue
        pending.append(record)
        units.append(unit_struct.pack(at, len(record), hashes[tag]))
        rows += 1
        at += len(record)
        log_bytes += len(record)
    _write_sparse(root / "commitlog" / f"{begin:020d}", file_size, pending)
    for (topic, queue), units in queues.items():
        folder = root / "consumequeue" / topic / str(queue)
        folder.mkdir(parents=True)
        for first in range(0, len(units), _QUEUE_FILE_UNITS):
            size = _QUEUE_FILE_UNITS * UNIT_SIZE
            _write_sparse(folder / f"{first * UNIT_SIZE:020d}", size, units[first : first + _QUEUE_FILE_UNITS])
    return Written(root, rows, log_bytes)


def lengthen(store: Written, file_size: int, files: int) -> None:
    """
    Add copies of a store's one log file, each record at its own physical offset; the queues do not know of them.

    @param files: how many there are then.
    """
    raw = bytearray((store.root / "commitlog" / f"{0:020d}").read_bytes())
    fields = record_positions(memoryview(raw), 0, 0)[:, None] + range(_OFFSET_AT, _OFFSET_AT + 8)
    shown = numpy.frombuffer(raw, "u1")
    for number in range(1, files):
        at = (fields[:, :1] - _OFFSET_AT + number * file_size).astype(">i8")
        shown[fields] = at.view("u1").reshape(-1, 8)
        (store.root / "commitlog" / f"{number * file_size:020d}").write_bytes(raw)


def _json_pool(random: Random) -> bytes:
    items = [
        {"sku": f"{random.getrandbits(48):012x}", "amount": random.randrange(1, 99), "cents": random.randrange(99999)}
        for _ in range(_POOL // 48)
    ]
    return json.dumps(items, separators=(",", ":")).encode().ljust(_POOL, b" ")[:_POOL]


def _write_sparse(path: Path, size: int, parts: list[bytes]) -> None:
    with path.open("wb") as file:
        file.writelines(parts)
        file.truncate(size)
