"""Tests of L{smartgo.spark.decoder}: the compiled core makes the same rows as Python, whatever lies in a log."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from random import Random
from typing import Any
from unittest.mock import patch as patched

import pyarrow as pa
from msgspec.structs import replace

from smartgo.core import CORE, IS_COMPILED
from smartgo.errors import SettingError, StoreError
from smartgo.schema import record
from smartgo.schema.record import start_struct
from smartgo.spark import batches, decoder, reader, walk
from smartgo.spark.columns import MESSAGES
from smartgo.spark.decoder import Decoder, LogColumns, WalkEnd
from tests import golden_store
from tests.spark.logs import NOW_MS, LogWriter, patch, rows
from tests.spark.oddrecords import ODD_PROPERTIES, odd_record, plain_message
from tests.spark.test_reader import Case


@contextmanager
def small_steps(random: Random) -> Iterator[None]:
    """Let batches, reads and runs end often."""
    with ExitStack() as stack:
        for module, name, sizes in (
            (decoder, "ROWS", [1, 3, 50, 16384]),
            (decoder, "CAPACITY", [200, 1000, 8 << 20]),
            (walk, "READ", [100, 900, 5000, 1 << 20]),
            (walk, "_RUN", [100, 2000, 65536]),
            (walk, "_RARE", [500, 4 << 20]),
        ):
            stack.enter_context(patched.object(module, name, random.choice(sizes)))
        yield


class EqualityTests(Case):
    if not IS_COMPILED:
        skip = f"the core is {CORE}"

    def outcome(
        self, columns: Sequence[str], options: dict[str, Any]
    ) -> tuple[list[dict[str, Any]] | None, str, list[str]]:
        """What a read gives: rows, or the error; and what it warns of."""
        self.warnings.clear()
        try:
            found, error = rows(self.root, columns=columns, **options), ""
        except (SettingError, StoreError) as raised:
            found, error = None, f"{type(raised).__name__}: {raised}"
        return found, error, list(self.warnings)

    def assert_same(self, random: Random, several: int = 1) -> None:
        """Read the store with the core and without it, by any columns and options."""
        for _ in range(several):
            columns = random.sample(MESSAGES.names, random.choice([1, 3, 24]))
            options = any_options(random)
            if "columnNameOfCorruptRecord" in options and random.random() < 0.7:
                columns.append("_bad")
            with small_steps(random):
                compiled = self.outcome(columns, options)
            with patched.object(reader, "is_possible", lambda: False):
                pure = self.outcome(columns, options)
            self.assertEqual(compiled, pure, f"{columns} {options}")

    def fill(self, random: Random, count: int, strange: float) -> LogWriter:
        """Write a store in which a part of the records is not what the core takes."""
        log = LogWriter(self.root, file_size=1 << 18)
        for number in range(count):
            if random.random() < strange:
                log.add_raw(odd_record(random, number, log.at))
            else:
                log.add(plain_message(random))
        log.close()
        return log

    def test_plain(self) -> None:
        """Records that nothing is strange about, by each column alone and by any options; Python makes no row."""
        random = Random(1)
        self.fill(random, 1500, 0.0)
        self.assert_same(random, 20)
        for name in MESSAGES.names:
            self.assertEqual(self.outcome([name], {}), self.pure([name]))
        expected = self.pure(MESSAGES.names)
        with patched.object(batches, "Rows", side_effect=AssertionError("Python makes rows")):
            self.assertEqual(self.outcome(MESSAGES.names, {}), expected)
            for option in ({"subscribe": "T"}, {"queues": "1"}, {"startingTimestamp": str(NOW_MS + 99_999)}):
                self.outcome(["body"], {**option, "useConsumeQueue": "false"})

    def pure(self, columns: Sequence[str]) -> Any:
        """What a read gives without the core."""
        with patched.object(reader, "is_possible", lambda: False):
            return self.outcome(columns, {})

    def test_strange(self) -> None:
        """Records that are rare, hostile or damaged, few and many among others."""
        for seed in range(40):
            random = Random(seed)
            root = self.root
            self.root = os.path.join(root, str(seed))
            self.fill(random, random.choice([20, 300]), random.choice([0.02, 0.2, 0.7, 1.0]))
            self.assert_same(random, 6)
            self.root = root

    def test_properties(self) -> None:
        """Each kind of properties, alone between plain records."""
        for number, properties in enumerate(ODD_PROPERTIES):
            random, root = Random(number), self.root
            self.root = os.path.join(root, str(number))
            log = LogWriter(self.root)
            for raw in (b"TAGS\x01a", properties, b"a\x01b"):
                log.add(replace(plain_message(random), properties=raw))
            log.close()
            self.assertEqual(self.outcome(MESSAGES.names, {}), self.pure(MESSAGES.names), str(properties))
            self.root = root

    def test_golden(self) -> None:
        """Both stores of the real broker, whole and with damage anywhere in their log files."""
        for seed in range(24):
            random = Random(seed)
            root = self.root
            self.root = os.path.join(root, str(seed))
            golden_store.unpack(golden_store.NAMES[seed % 2], self.root)
            logs = sorted(os.listdir(os.path.join(self.root, "commitlog")))
            for _ in range(random.choice([0, 1, 5, 40]) if seed > 1 else 0):
                path = os.path.join(self.root, "commitlog", random.choice(logs))
                junk = random.choice([b"\0", b"\xff", b"\x01", b"\x02", random.randbytes(4), bytes(5000)])
                patch(path, random.randrange(os.path.getsize(path) - len(junk)), junk)
            self.assert_same(random, 4)
            self.root = root


class ChoiceTests(Case):
    def test_core(self) -> None:
        """The core's part is used wherever the core is."""
        self.assertEqual(decoder.is_possible(), IS_COMPILED)


def any_options(random: Random) -> dict[str, Any]:
    """Options of a read."""
    found: dict[str, Any] = {
        "verifyCrc": random.choice(["auto", "true", "false"]),
        "failOnCorrupt": random.choice(["true", "false", "false"]),
        "partitionBytes": random.choice(["64k", "1g"]),
    }
    for options in (
        {"decompressBody": "true"},
        {"columnNameOfCorruptRecord": "_bad"},
        random.choice([{"subscribe": "T,%RETRY%g"}, {"subscribePattern": ".*e.*"}, {"queues": "0,2"}]),
        random.choice([{"startingTimestamp": str(NOW_MS + 40_000)}, {"startingOffsets": '{"T": {"1": 7}}'}, {}]),
        {"useConsumeQueue": "false"},
    ):
        if random.random() < 0.4:
            found.update(options)
    if "queues" in found or "subscribePattern" in found:
        found.pop("startingOffsets", None)
    return found


class DecoderTests(Case):
    if not IS_COMPILED:
        skip = f"the core is {CORE}"

    def records(self, count: int) -> bytes:
        """Plain records that lie back to back from physical offset 1000 on."""
        random, log = Random(9), LogWriter(self.root, begin=1000)
        for _ in range(count):
            log.add(plain_message(random))
        return b"".join(raw for _, raw in log.written)

    def test_batches_stay(self) -> None:
        """A batch that somebody holds is not written over; memory that nobody holds serves for the next one."""
        raw = self.records(200)
        made = Decoder(MESSAGES, "here")
        sizes = [one.size for one in map(record.decode, [raw[at:] for at in positions(raw)])]
        held: list[tuple[pa.RecordBatch, list[dict[str, Any]]]] = []
        at = 0
        for size in sizes:
            self.assertEqual(made.take(memoryview(raw), at, size, 1000 + at), (size, WalkEnd.BOUND))
            batch = made.batch()
            held.append((batch, batch.to_pylist()))
            at += size
        for batch, expected in held:
            self.assertEqual(batch.to_pylist(), expected)
        self.assertEqual(len({row[0]["physical_offset"] for _, row in held}), 200)
        del batch
        held.clear()
        places = set()
        for _ in range(20):
            made.take(memoryview(raw), 0, sizes[0], 1000)
            places.add(made.batch().column("size").buffers()[1].address)
        self.assertLess(len(places), 5)

    def test_anywhere(self) -> None:
        """Records need not lie at their own physical offsets, as those that a broker sends; with a base they must."""
        raw = self.records(40)
        made = Decoder(pa.schema([MESSAGES.field("physical_offset")]), "here")
        shuffled = b"".join(raw[at : at + record.decode(raw[at:]).size] for at in reversed(positions(raw)))
        self.assertEqual(made.take(memoryview(shuffled), 0, len(raw), -1), (len(raw), WalkEnd.BOUND))
        self.assertEqual(made.batch().column(0).to_pylist(), [1000 + at for at in reversed(positions(raw))])
        self.assertEqual(made.take(memoryview(shuffled), 0, len(raw), 1000), (0, WalkEnd.ODD))

    def test_every_cut(self) -> None:
        """However many bytes there are, whole records are taken and nothing else."""
        raw = self.records(6)
        made = Decoder(MESSAGES, "here")
        ends = [*positions(raw)[1:], len(raw)]
        for size in range(len(raw) + 1):
            whole = max([0, *[end for end in ends if end <= size]])
            end = WalkEnd.BOUND if size == whole else WalkEnd.SHORT
            self.assertEqual(made.take(memoryview(raw)[:size], 0, size, 1000), (whole, end), size)
            self.assertEqual(made.rows, sum(one <= size for one in ends))
            self.assertEqual(made.batch().num_rows, sum(one <= size for one in ends))

    def test_misuse(self) -> None:
        """The core writes into a block that fits alone, and begins within the view."""
        for wanted, count, capacity in ((1 << 24, 1, 1), (2, 0, 1), (2, 1, 0), (2, 1, 1 << 40)):
            self.assertRaises(ValueError, LogColumns, wanted, count, capacity, False, False)
        columns = LogColumns(2, 10, 1000, False, False)
        self.assertRaises(TypeError, columns.read, memoryview(b""), 0, 0, 0, None)
        self.assertRaises(ValueError, columns.empty, memoryview(bytearray(columns.size - 1)))
        self.assertRaises(TypeError, columns.read, memoryview(b""), 0, 0, 0, None)
        self.assertRaises(BufferError, columns.empty, memoryview(bytes(columns.size)))
        columns.empty(memoryview(bytearray(columns.size)))
        self.assertRaises(ValueError, columns.read, memoryview(b"abc"), 4, 0, 0, None)
        self.assertEqual(columns.read(memoryview(b"abc"), 3, 10, 0, None), (0, 0, WalkEnd.SHORT))


def positions(raw: bytes) -> list[int]:
    """Where records begin that lie back to back."""
    found, at = [], 0
    while at < len(raw):
        found.append(at)
        at += start_struct.unpack_from(raw, at)[0]
    return found
