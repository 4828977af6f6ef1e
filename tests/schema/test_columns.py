"""Tests of L{smartgo.schema.columns}: and that all readers of a record agree."""

from __future__ import annotations

from random import Random
from typing import Any
from unittest import skipUnless
from unittest.mock import patch

from construct import Bytes, Float32b, Int8sb, Int32sb, Struct, this
from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import SettingError
from smartgo.schema import columns
from smartgo.schema.columns import Columns, gather, java_hashes, record_positions, records, table
from smartgo.schema.consumequeue import UNIT, Unit
from smartgo.schema.message import HOSTS_MASK, NewMessage
from smartgo.schema.properties import java_hash
from smartgo.schema.record import MAGIC_V2, RECORD, decode, encode
from smartgo.schema.recordscan import scan
from smartgo.schema.rows import RowCodec
from tests import golden_store
from tests.schema.test_record import as_v2, random_message, rebuilt

FIND_NUMPY = columns.numpy_or_none.__wrapped__
WITH_NUMPY = skipUnless(columns.numpy_or_none(), "numpy is not installed")


def row(view: bytes, found: Columns, number: int) -> dict[str, Any]:
    """One record out of columns, as the other readers give it."""
    values: dict[str, Any] = {}
    for name, column in found.values.items():
        value = column[number]
        values[name] = value.tobytes() if column.ndim > 1 else int(value)
    for name, (begin, end) in found.spans.items():
        values[name] = view[begin[number] : end[number]]
    for name, flag in (("born_host", 0x10), ("store_host", 0x20)):
        values[name] = values[name][: 20 if values["sys_flag"] & flag else 8]
    return values


class AgreementTests(SynchronousTestCase):
    """Schema, row codec, record codec and columns read the same, and what they write is what they read."""

    def assert_agree(self, data: bytes, positions: list[int]) -> None:
        """Compare all readers on the records of a buffer."""
        found = records(data, positions) if columns.numpy_or_none() else None
        for number, at in enumerate(positions):
            stored = decode(data, at)
            raw = data[at : at + stored.size]
            expected = rebuilt(stored)
            parsed = RECORD.parse(raw)
            self.assertEqual({name: parsed[name] for name in expected}, expected)
            self.assertEqual(RECORD.build(expected), raw)
            codec = CODECS[stored.sys_flag & HOSTS_MASK, stored.magic == MAGIC_V2]
            self.assertEqual(codec.unpack(data, at), (expected, at + stored.size))
            self.assertEqual(codec.pack(expected), raw)
            if found is not None:
                self.assertTrue(found.valid[number])
                self.assertEqual(row(data, found, number), expected)

    def test_golden(self) -> None:
        """On every record of both real stores."""
        for name in golden_store.NAMES:
            count = 0
            for base, data in golden_store.read(name).logs():
                positions = [stored.physical_offset - base for stored in scan(data, 0, base)]
                self.assert_agree(data, positions)
                count += len(positions)
            self.assertEqual(count, 619)

    def test_random(self) -> None:
        """On random records: both host families and both magics, mixed in one buffer."""
        random = Random(12)
        data, positions = b"", []
        for _ in range(200):
            raw = encode(random_message(random), random.getrandbits(40), random.getrandbits(40), 1)
            positions.append(len(data))
            data += as_v2(raw) if random.random() < 0.3 else raw
        self.assert_agree(data, positions)


CODECS = {
    (hosts, v2): RowCodec(RECORD, {"sys_flag": hosts, "magic": MAGIC_V2 if v2 else 0})
    for hosts in (0, 0x10, 0x20, 0x30)
    for v2 in (False, True)
}


@WITH_NUMPY
class ColumnsTests(SynchronousTestCase):
    def test_positions(self) -> None:
        """The records of a log file are found where a scan finds them."""
        for base, data in golden_store.read("store-a-crash").logs():
            expected = [stored.physical_offset - base for stored in scan(data, 0, base)]
            self.assertEqual(record_positions(data).tolist(), expected)
            if expected:
                self.assertEqual(record_positions(memoryview(data), expected[3]).tolist(), expected[3:])

    def test_positions_in_lanes(self) -> None:
        """Walked at many places at once, a log's records are found all the same, damaged or with logs inside."""
        random = Random(16)
        for kind in ("whole", "damaged", "nested"):
            data, base = b"", 1 << 40
            while len(data) < 200_000:
                size = random.choice([0, 10, 100, 900])
                body = random.randbytes(size)
                if kind == "nested" and size == 900:
                    for _ in range(4):
                        begin = len(data) + 88 + len(body)
                        body += encode(NewMessage("Fake", 0, bytes(300), b""), 0, base + begin, 1)
                data += encode(NewMessage("T", 0, body, b""), 0, base + len(data), 1)
            if kind == "damaged":
                at = record_positions(data).tolist()[random.randrange(100, 200)]
                data = data[: at + 4] + b"\0" + data[at + 5 :]
            for begin in (0, int(record_positions(data)[3])):
                expected = record_positions(data, begin).tolist()
                self.assertEqual(record_positions(data, begin, base).tolist(), expected, kind)
            self.assertGreater(len(expected), 90)

    def test_units(self) -> None:
        """Queue units are a table over the same memory; a torn one at the end is left out."""
        units = [Unit(1 << 40, 235, -5), Unit(7, 91, 1 << 50)]
        data = b"".join(unit.pack() for unit in units)
        found = table(data + b"torn", UNIT)
        self.assertEqual([Unit(*each) for each in found.tolist()], units)
        self.assertEqual(found["tag_hash"].tolist(), [-5, 1 << 50])

    def test_empty(self) -> None:
        """No records, or an empty buffer, give empty columns."""
        for data in (b"", bytes(200)):
            found = records(data, [])
            self.assertEqual((len(found.valid), len(found.values["size"])), (0, 0))
            self.assertEqual(record_positions(data).tolist(), [])

    def test_invalid(self) -> None:
        """What is no whole record is marked, wherever it is cut or points to, and does not disturb the others."""
        raw = encode(NewMessage("T", 0, b"body", b"a\x01b"), 0, 0, 1)
        taken = records(raw + raw, [0, len(raw)]).take(columns._numpy().array([1]))
        self.assertEqual((taken.valid.tolist(), taken.values["size"].tolist()), ([True], [len(raw)]))
        for cut in range(len(raw)):
            found = records(raw + raw[:cut], [0, len(raw), -1, 10**12])
            self.assertEqual(found.valid.tolist(), [True, False, False, False], cut)
        for change in (0, 3, 7, 84, 87):
            broken = bytearray(raw)
            broken[change] ^= 0x81
            self.assertEqual(records(bytes(broken) + raw, [0, len(raw)]).valid.tolist(), [False, True], change)

    def test_other_schemas(self) -> None:
        """Any plain record schema can be read by columns."""
        schema = Struct("a" / Int8sb, "n" / Int32sb, "text" / Bytes(this.n), "b" / Int8sb)
        data = schema.build({"a": 1, "n": 3, "text": b"xyz", "b": -1}) + schema.build(
            {"a": 2, "n": 0, "text": b"", "b": -2}
        )
        found = gather(data, [0, 9], schema, {})
        self.assertEqual((found.values["a"].tolist(), found.values["b"].tolist()), ([1, 2], [-1, -2]))
        self.assertEqual([each.tolist() for each in found.spans["text"]], [[5, 14], [8, 14]])

    def test_no_column_type(self) -> None:
        """A kind of number that no record has is refused."""
        self.assertRaises(ValueError, table, bytes(8), Struct("a" / Float32b))

    def test_hashes(self) -> None:
        """Many hashes at once are Java's."""
        random = Random(14)
        texts = ["".join(random.choices("aZ9#标😀", k=random.randint(0, 60))) for _ in range(200)]
        self.assertEqual(java_hashes(texts), [java_hash(text) for text in texts])
        self.assertEqual(java_hashes([""] * 20), [0] * 20)


class WithoutNumpyTests(SynchronousTestCase):
    def setUp(self) -> None:
        """Hide numpy."""
        self.patch(columns, "numpy_or_none", lambda: None)

    def test_hashes(self) -> None:
        """Hashing needs no numpy."""
        self.assertEqual(java_hashes(["TagA"] * 20), [2598919] * 20)

    def test_not_installed(self) -> None:
        """That it is not there is found out without failing."""
        with patch.dict("sys.modules", {"numpy": None}):
            self.assertIsNone(FIND_NUMPY())

    def test_refusal(self) -> None:
        """Reading by columns says what it lacks."""
        self.assertIn("numpy", str(self.assertRaises(SettingError, records, b"", [])))
