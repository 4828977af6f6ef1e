"""Records for tests of whatever reads a log: plain ones, and others in which something is rare, hostile or damaged."""

from __future__ import annotations

import zlib
from random import Random

from msgspec.structs import replace

from smartgo.schema.message import NewMessage, pack_host
from smartgo.schema.record import SMARTGO_MAGIC, encode, start_struct
from tests.schema.test_record import as_v2
from tests.spark.logs import NOW_MS, V4, any_message

ODD_PROPERTIES = [
    b"", b"KEYS\x01a b\x02TAGS\x01x\x02UNIQ_KEY\x010A0B", b"TAGS\x01t\x02", b"KEYS\x01 a  b ", b"KEYS\x01 ",
    b"TAGS", b"\x02\x02\x01", b"\x01a\x02b\x01", b"color\x01a\x01b\x02TAGS\x01x", b"TAGS\x01a\x02TAGS\x01b",
    b"k\x01v\x02k\x01w", b"TAGS\x01a\x02TAGS\x01", b"TAGS\x01\xff\xfe", b"a\0b\x01\0", b"TAGS\x01\xed\xa0\x80",
    "TAGS\x01标签😀\x02色\x01ü".encode(), b"TAGS\x01\xf4\x90\x80\x80", b"TAGS\x01\xc0\xaf", b"KEYS\x01" + b"k " * 90,
    b"x" * 40 + b"\x01" + b"y" * 400, b"\x02".join(b"n%d\x01v" % number for number in range(70)),
    b"KEYSX\x01a\x02TAG\x01b\x02UNIQ_KEYS\x01c",
]  # fmt: skip


def plain_message(random: Random) -> NewMessage:
    """A message that the core takes."""
    pairs = [
        b"KEYS\x01k%d x" % random.randrange(99),
        b"TAGS\x01t",
        b"UNIQ_KEY\x01%032X" % random.getrandbits(128),
        b"a\x01b",
    ]
    hosts = [V4, pack_host("255.254.1.20", 65535), pack_host("1.2.3.4", 0)]
    return NewMessage(
        random.choice(["T", "Other", "%RETRY%g", "t" * 127]), random.randrange(3),
        random.randbytes(random.choice([0, 1, 63, 64, 65, 128, 700])),
        b"\x02".join(random.sample(pairs, random.randrange(5))),
        born_ms=NOW_MS + random.randrange(10**6), born_host=random.choice(hosts), store_host=random.choice(hosts),
        flag=random.getrandbits(31), sys_flag=random.choice([0, 4, 8]), prepared_offset=random.getrandbits(40),
        reconsume_times=random.randrange(3),
    )  # fmt: skip


def odd_record(random: Random, queue_offset: int, at: int) -> bytes:
    """A record in which something is rare or wrong, as often as not damage."""
    message = replace(any_message(random, v6=random.random() < 0.3), properties=random.choice(ODD_PROPERTIES))
    kind = random.randrange(14)
    if kind == 0:
        message = replace(message, born_ms=random.choice([2**62, -(2**62), -62_135_596_800_001, 253_402_300_800_000]))
    if kind == 1:
        message = replace(
            message, born_host=V4[:4] + random.choice([b"\xff\xff\xff\xff", b"\0\1\0\0", b"\0\0\xff\xff"])
        )
    if kind == 2:
        body = zlib.compress(bytes(message.body) * 3) if random.random() < 0.7 else message.body
        message = replace(message, body=body, sys_flag=1)
    raw = encode(message, queue_offset, at, NOW_MS + at, seal=kind == 3)
    if kind == 4:
        raw = as_v2(raw)
    if kind == 5:
        raw = start_struct.pack(len(raw), SMARTGO_MAGIC) + raw[8:]
    if kind in (6, 7):  # anywhere: properties have no checksum, all else is damage
        place = random.randrange(len(raw))
        raw = raw[:place] + bytes([raw[place] ^ 1 << random.randrange(8)]) + raw[place + 1 :]
    if kind == 8:
        raw = raw[: random.randrange(len(raw))]
    if kind == 9:
        raw = bytes(random.randrange(1, 300))
    if kind == 10 and raw.endswith(message.properties) and message.properties:
        raw = raw[: -len(message.properties)] + random.randbytes(len(message.properties))
    return raw
