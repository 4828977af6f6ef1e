"""Tests of L{smartgo.spark.reader} and what it stands on: every record once, whatever the log has been through."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import zlib
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any
from unittest.mock import patch as patched

import lz4.frame
import pyarrow as pa
import zstandard
from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import SettingError, StoreError
from smartgo.schema import record, regions
from smartgo.schema.message import NewMessage, StoredMessage, message_id, pack_host, unpack_host
from smartgo.schema.properties import decode as properties_of
from smartgo.schema.record import MAGIC_V2, SMARTGO_BLANK_MAGIC, SMARTGO_MAGIC, encode, start_struct
from smartgo.schema.regions import Region
from smartgo.spark import partitions, walk
from smartgo.spark.columns import MESSAGES, table_schema
from smartgo.spark.conditions import Conditions
from smartgo.spark.gaps import DataLost
from smartgo.spark.logrange import LogRange
from smartgo.spark.options import ReadOptions, parse
from smartgo.spark.partitions import plan
from smartgo.spark.reader import LogDamaged, read_messages
from smartgo.spark.storefollower import StoreFollower
from smartgo.spark.stores import find_stores
from smartgo.spark.tables import read_part
from tests import golden_store
from tests.schema.test_record import as_v2
from tests.spark.logs import LogWriter, any_message, patch, rows, write

CORRUPT: dict[str, Any] = {"columnNameOfCorruptRecord": "_bad"}


class Notes(logging.Handler):
    """Keeps what is logged."""

    def __init__(self, notes: list[str]) -> None:
        super().__init__()
        self._notes = notes

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one message."""
        self._notes.append(record.getMessage())


class Case(SynchronousTestCase):
    def setUp(self) -> None:
        """Make a directory for a store, and keep warnings off the terminal."""
        self.root = self.mktemp()
        os.makedirs(os.path.join(self.root, "commitlog"))
        self.root = os.path.abspath(self.root)
        self.warnings: list[str] = []
        handler = Notes(self.warnings)
        logger = logging.getLogger("smartgo.spark")
        logger.addHandler(handler)
        logger.propagate = False
        self.addCleanup(logger.removeHandler, handler)

    def log(self, begin: int = 0) -> str:
        """Path of a log file."""
        return os.path.join(self.root, "commitlog", f"{begin:020d}")

    def offsets(self, **options: Any) -> list[int]:
        """The physical offsets that are read."""
        return [row["physical_offset"] for row in rows(self.root, columns=["physical_offset", "body"], **options)]

    def damage(self, **options: Any) -> list[tuple[int, int]]:
        """The regions that are told of, as (offset, length)."""
        found = rows(self.root, **CORRUPT, failOnCorrupt=False, failOnDataLoss=False, **options)
        return [(row["_bad"]["offset"], row["_bad"]["length"]) for row in found if row["_bad"]]


def ranges(root: str, options: ReadOptions) -> list[LogRange]:
    """The ranges that a read of a whole store is cut into."""
    return [part for part in plan(find_stores([root]), options, Conditions()) if isinstance(part, LogRange)]


def host(raw: bytes) -> str:
    """A host as its column shows it."""
    ip, port = unpack_host(raw)
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


def shown(stored: StoredMessage, root: str) -> dict[str, Any]:
    """A record as the table shows it."""
    pairs = properties_of(stored.properties)
    keys = pairs.get("KEYS", "").split()
    return {
        "store": root,
        "topic": stored.topic,
        "queue_id": stored.queue_id,
        "queue_offset": stored.queue_offset,
        "physical_offset": stored.physical_offset,
        "key": keys[0] if keys else None,
        "keys": keys,
        "tags": pairs.get("TAGS"),
        "properties": list(pairs.items()),
        "body": bytes(stored.body),
        "body_size": len(stored.body),
        "size": stored.size,
        "flag": stored.flag,
        "sys_flag": stored.sys_flag,
        "born_timestamp": stored.born_ms,
        "store_timestamp": stored.stored_ms,
        "born_host": host(stored.born_host),
        "store_host": host(stored.store_host),
        "reconsume_times": stored.reconsume_times,
        "prepared_transaction_offset": stored.prepared_offset,
        "message_id": message_id(stored.store_host, stored.physical_offset),
        "unique_id": pairs.get("UNIQ_KEY"),
        "crc": stored.crc,
        "crc_ok": True,
    }


def with_times(row: dict[str, Any]) -> dict[str, Any]:
    """A row with its moments as milliseconds."""
    return {
        name: round(value.timestamp() * 1000) if name.endswith("_timestamp") and value else value
        for name, value in row.items()
    }


class RowsTests(Case):
    def fill(self, count: int, seed: int, **options: Any) -> LogWriter:
        """Write a store of any messages."""
        random, log = Random(seed), LogWriter(self.root, **options)
        for _ in range(count):
            log.add(any_message(random))
        log.close()
        return log

    def test_all_columns(self) -> None:
        """Every column is what the store's own reader says: both host families, over several files."""
        log = self.fill(300, 1, file_size=1 << 16)
        found = list(map(with_times, rows(self.root)))
        self.assertEqual(found, [shown(stored, self.root) for stored in log.expected()])
        self.assertGreater(log.begin, 0)

    def test_one_family(self) -> None:
        """As well where all hosts are IPv4, or all IPv6."""
        for number, address in enumerate(("10.1.2.3", "2001:db8::7")):
            self.root = f"{self.root}-{number}"
            log = LogWriter(self.root)
            raw = pack_host(address, 1)
            log.add(NewMessage("T", 0, b"x", b"", born_host=raw, store_host=raw))
            log.close()
            self.assertEqual(list(map(with_times, rows(self.root))), [shown(one, self.root) for one in log.expected()])

    def test_each_column(self) -> None:
        """A column asked for alone is the same as among all."""
        log = self.fill(40, 2)
        expected = [shown(stored, self.root) for stored in log.expected()]
        for name in MESSAGES.names:
            found = [with_times(row) for row in rows(self.root, columns=[name])]
            self.assertEqual(found, [{name: row[name]} for row in expected])

    def test_dialects(self) -> None:
        """Records of 5.x and of BoltMQ among others, and a file that BoltMQ's blank closes."""
        random, log = Random(3), LogWriter(self.root, file_size=1 << 16)
        expected = []
        for number in range(120):
            raw = encode(any_message(random), number, log.at, 1_000 + number)
            kind = number % 3
            if kind == 1:
                raw = as_v2(raw)
            elif kind == 2:
                crc = (-1 - (0x7FFFFFFF ^ record.decode(raw).crc)).to_bytes(4, "big", signed=True)
                raw = start_struct.pack(len(raw), SMARTGO_MAGIC) + crc + raw[12:]
            expected.append((log.add_raw(raw), kind))
        end = log.at
        log.close()
        patch(self.log(), end, start_struct.pack((1 << 16) - end, SMARTGO_BLANK_MAGIC))
        write(self.log(1 << 16), bytes(1 << 16))
        found = rows(self.root, columns=["physical_offset", "crc_ok"])
        self.assertEqual([row["physical_offset"] for row in found], [offset for offset, _ in expected])
        self.assertTrue(all(row["crc_ok"] for row in found))
        self.assertEqual(MAGIC_V2, record.decode(log.written[1][1]).magic)

    def test_extreme_times(self) -> None:
        """A birth that no calendar shows is null; the record is there."""
        log = LogWriter(self.root)
        for born_ms in (2**62, -(2**62), 0):
            log.add(NewMessage("T", 0, b"", b"", born_ms=born_ms))
        log.close()
        stamps = [row["born_timestamp"] for row in rows(self.root, columns=["born_timestamp"])]
        self.assertEqual([stamp is None for stamp in stamps], [True, True, False])

    def test_several_stores(self) -> None:
        """Directories are read together, patterns too; each row tells where it is from."""
        roots = []
        for number in range(3):
            roots.append(os.path.join(self.root, f"broker-{number}", "store"))
            log = LogWriter(roots[-1])
            log.add(NewMessage("T", number, b"", b""))
            log.close()
        found = rows(*roots, columns=["store", "queue_id"])
        self.assertEqual(found, [{"store": root, "queue_id": number} for number, root in enumerate(roots)])
        self.assertEqual(rows(os.path.join(self.root, "broker-*", "store"), columns=["store", "queue_id"]), found)
        self.assertEqual(rows(os.path.join(roots[1], "commitlog"), columns=["queue_id"]), [{"queue_id": 1}])

    def test_empty(self) -> None:
        """A store without a log file, or with files made ahead alone, has no rows."""
        self.assertEqual(rows(self.root), [])
        write(self.log(), bytes(1 << 16))
        self.assertEqual(rows(self.root, **CORRUPT), [])


class GoldenTests(Case):
    def test_manifest(self) -> None:
        """Every message of both real stores is as the official decoder read it, in order, body by body."""
        for name in golden_store.NAMES:
            root = os.path.join(self.root, name)
            manifest = golden_store.unpack(name, root)["messages"]
            for limit in (1 << 30, 1 << 16):
                found = rows(root, decompressBody=True, partitionBytes=limit)
                self.assertEqual([as_manifest(row) for row in found], [known(one) for one in manifest])
            self.assertEqual(rows(root, columns=["crc_ok", "body"], **CORRUPT)[0]["crc_ok"], True)

    def test_stored_bodies(self) -> None:
        """Unless asked for, bodies are as they are stored."""
        root = os.path.join(self.root, "a")
        manifest = golden_store.unpack("store-a", root)["messages"]
        digests = [hashlib.sha256(row["body"]).hexdigest() for row in rows(root, columns=["body"])]
        self.assertEqual(digests, [one["storedBodySha256"] for one in manifest])
        self.assertNotEqual(digests, [one["bodySha256"] for one in manifest])


def as_manifest(row: dict[str, Any]) -> dict[str, Any]:
    """A row in the words of the manifest."""
    row = with_times(row)
    return {
        "topic": row["topic"],
        "queueId": row["queue_id"],
        "queueOffset": row["queue_offset"],
        "physicalOffset": row["physical_offset"],
        "storeSize": row["size"],
        "msgId": row["message_id"],
        "uniqKey": row["unique_id"],
        "tags": row["tags"],
        "keys": dict(row["properties"]).get("KEYS"),
        "flag": row["flag"],
        "sysFlag": row["sys_flag"],
        "bodyCRC": row["crc"],
        "bornTimestamp": row["born_timestamp"],
        "bornHost": row["born_host"],
        "storeTimestamp": row["store_timestamp"],
        "storeHost": row["store_host"],
        "reconsumeTimes": row["reconsume_times"],
        "preparedTransactionOffset": row["prepared_transaction_offset"],
        "storedBodyLength": row["body_size"],
        "bodyLength": len(row["body"]),
        "bodySha256": hashlib.sha256(row["body"]).hexdigest(),
        "properties": dict(row["properties"]),
    }


def known(message: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a manifest's message that the table shows."""
    return {name: value for name, value in message.items() if name not in ("filePosition", "storedBodySha256")}


class SplitTests(Case):
    def test_every_cut(self) -> None:
        """However the log is cut into ranges, each record is read once, by the range in which it starts."""
        random, log = Random(7), LogWriter(self.root, file_size=1 << 18)
        while log.at < 200_000:
            log.add(any_message(random))
        log.close()
        expected = [offset for offset, _ in log.written]
        whole = ranges(self.root, parse({"path": self.root}))[0]
        columns, options = pa.schema([MESSAGES.field("physical_offset")]), parse({"path": self.root})
        for _ in range(60):
            cuts = sorted({0, *(random.randrange(whole.end) for _ in range(random.randrange(1, 9))), whole.end})
            found = []
            for begin, end in pairwise(cuts):
                part = replace(whole, begin=begin, end=end, is_aligned=begin == 0)
                for batch in read_messages(part, columns, options):
                    found += batch.column("physical_offset").to_pylist()
            self.assertEqual(found, expected, str(cuts))

    def test_known_regions(self) -> None:
        """However the log is cut, each region that the store lists is told of once, and no sound record is missed."""
        random, log = Random(9), LogWriter(self.root, file_size=1 << 18)
        while log.at < 100_000:
            log.add(any_message(random))
        log.close()
        ends = [offset + len(raw) for offset, raw in log.written]
        whole = ranges(self.root, parse({"path": self.root}))[0]
        columns = table_schema("messages", "_bad")
        options = parse({"path": self.root, "failOnCorrupt": "false", **CORRUPT})
        for _ in range(60):
            low = random.randrange(1, len(ends) - 9)
            high = low + random.randrange(1, 9)
            begin, end = ends[low - 1], ends[high - 1]
            patch(self.log(), end, b"\0" * 8)  # what follows the region is damaged too, and nobody knows
            region = Region(begin, end - begin, "known")
            cuts = {0, whole.end, random.randrange(begin - 50, begin), random.randrange(begin, end), end}
            found = []
            for cut in pairwise(sorted(cuts)):
                part = replace(whole, begin=cut[0], end=cut[1], is_aligned=cut[0] == 0, known=(region,))
                for batch in read_messages(part, columns, options):
                    found += batch.select(["physical_offset", "_bad"]).to_pylist()
            patch(self.log(), end, log.written[high][1][:8])
            told = [(row["_bad"]["offset"], row["_bad"]["length"]) for row in found if row["_bad"]]
            self.assertEqual(told, [(begin, end - begin), (end, ends[high] - end)], str(cuts))
            sound = [offset for offset, _ in [*log.written[:low], *log.written[high + 1 :]]]
            self.assertEqual([row["physical_offset"] for row in found if not row["_bad"]], sound, str(cuts))

    def test_small_pieces(self) -> None:
        """Nor does it matter how much is read at a time, down to less than a record."""
        random, log = Random(8), LogWriter(self.root, file_size=1 << 18)
        while log.at < 100_000:
            log.add(any_message(random))
        log.close()
        for chunk in (120, 1000, 9999):
            with patched.object(walk, "CHUNK", chunk):
                self.assertEqual(self.offsets(), [offset for offset, _ in log.written])

    def test_plan(self) -> None:
        """No range begins where old records may lie: near a full file's end, or behind the newest record."""
        log = LogWriter(self.root, file_size=1 << 20)
        for _ in range(12_000):
            log.add(NewMessage("T", 0, bytes(100), b""))
        log.close()
        options = replace(parse({"path": self.root}), partition_bytes=100_000)
        with patched.object(partitions, "SIZE_LIMIT", 300_000):
            parts = ranges(self.root, options)
        full = [part for part in parts if part.base == 0]
        self.assertEqual([part.begin for part in full], [n * 100_000 for n in range(8)])
        self.assertEqual(full[-1].end, 1 << 20)
        newest = [part for part in parts if part.base == parts[-1].base]
        self.assertTrue(newest[-1].is_last and newest[-1].begin < log.at)
        self.assertEqual(self.offsets(partitionBytes=65536), [offset for offset, _ in log.written])

    def test_body_in_a_body(self) -> None:
        """A body that holds what is no less than a record of its place ends the read, where a range begins in it."""
        log = LogWriter(self.root)
        log.add(NewMessage("T", 0, b"first", b""))
        at = log.at + record.HEAD_SIZE + 50
        inner = encode(NewMessage("Fake", 0, b"x", b""), 0, at, 5)
        outer = log.add(NewMessage("T", 0, bytes(50) + inner + bytes(50), b""))
        log.add(NewMessage("T", 0, b"last", b""))
        log.close()
        self.assertEqual(self.offsets(), [offset for offset, _ in log.written])
        whole = ranges(self.root, parse({"path": self.root}))[0]
        part = replace(whole, end=outer + 20)
        error = self.assertRaises(StoreError, list, read_messages(part, MESSAGES, parse({"path": self.root})))
        self.assertIn("partitionBytes", str(error))


class LongRecordTests(Case):
    """Records longer than a frame of 16 MiB, as a broker stores them whose limits were raised."""

    def setUp(self) -> None:
        """Write two files with one each: the second did not fit into the first, whose blank is as long."""
        super().setUp()
        self.writer = LogWriter(self.root, file_size=45 << 20)
        with patched.object(record, "SIZE_LIMIT", 1 << 30):
            for size in (100, 20 << 20, 100, 25 << 20, 100):
                self.writer.add(NewMessage("T", 0, bytes(size), b"KEYS\x01a\x02"))
        self.writer.close()
        self.all = [offset for offset, _ in self.writer.written]
        # An older record lies in the blank, as a broker leaves it that cuts its log after a crash.
        blank = self.all[2] + 200
        patch(self.log(), blank + 1000, encode(NewMessage("T", 0, b"old", b""), 7, blank + 1000, 5))

    def test_valid(self) -> None:
        """They are rows, however the log is cut, and nothing is damaged."""
        for options in ({}, {"partitionBytes": "1m"}, {"partitionBytes": "1m", "useConsumeQueue": "false"}):
            self.assertEqual(self.offsets(**options), self.all)
            self.assertEqual(self.damage(**options), [])
        self.assertEqual([row["body_size"] for row in rows(self.root)], [100, 20 << 20, 100, 25 << 20, 100])

    def test_stream(self) -> None:
        """A stream reads them, too, in micro-batches of less."""
        options = parse({"path": self.root, "partitionBytes": "1m"})
        following = StoreFollower(options)
        following.stop_at_the_end()
        at, found = following.initial(), []
        while (end := following.latest(at, 1 << 20)) != at:
            for part in following.ranges(at, end):
                for batch in read_part(part, MESSAGES, options, Conditions()):
                    found += batch.column("physical_offset").to_pylist()
            at = end
        self.assertEqual(found, self.all)

    def test_damaged(self) -> None:
        """What is wrong with one is told, and what follows is read; a size must agree with that of the body."""
        for at, data in ((3, b"\x05"), (0, b"\x02"), (5 << 20, b"x"), (28, b"\x01")):
            patch(self.log(), self.all[1] + at, data)
            self.assertEqual(self.offsets(failOnCorrupt=False), [self.all[0], *self.all[2:]])
            raw = self.writer.written[1][1]
            self.assertEqual(self.damage(), [(self.all[1], len(raw))])
            patch(self.log(), self.all[1] + at, raw[at : at + 1])


class DamageTests(Case):
    def setUp(self) -> None:
        """Write a store of two files."""
        super().setUp()
        random = Random(11)
        self.writer = LogWriter(self.root, file_size=1 << 16)
        for _ in range(250):
            self.writer.add(any_message(random))
        self.writer.add(NewMessage("T", 0, b"the newest body", b"TAGS\x01a"))
        self.writer.close()
        self.all = [offset for offset, _ in self.writer.written]
        self.sizes = {offset: len(raw) for offset, raw in self.writer.written}

    def smash(self, number: int, at: int, data: bytes) -> int:
        """Overwrite bytes of a record; return its offset."""
        offset = self.all[number]
        base = offset - offset % (1 << 16)
        patch(self.log(base), offset - base + at, data)
        return offset

    def with_body(self) -> int:
        """The number of some record that has a body."""
        return next(n for n, (_, raw) in enumerate(self.writer.written) if n > 50 and len(record.decode(raw).body) > 50)

    def assert_lost(self, *lost: int) -> None:
        """Only these records are missing, and told of; by default the read fails."""
        kept = [offset for offset in self.all if offset not in lost]
        self.assertEqual(self.offsets(failOnCorrupt=False), kept)
        self.assertTrue(self.warnings)
        self.assertEqual(sum(length for _, length in self.damage()), sum(self.sizes[offset] for offset in lost))
        for limit in (1 << 30, 1 << 16):
            error = self.assertRaises(LogDamaged, self.offsets, partitionBytes=limit)
            self.assertEqual(error.offset, lost[0])
            self.assertIn("failOnCorrupt", str(error))

    def test_fields(self) -> None:
        """A record is lost by a fault in any field that says how it lies, and it alone."""
        for at, data in ((0, b"\x7f"), (3, b"\x01"), (4, b"\0"), (12, b"\x80"), (20, b"\x80"), (28, b"\x01"),
                         (35, b"\x77"), (56, b"\x80"), (39, b"\x30"), (84, b"\x11")):  # fmt: skip
            with self.subTest(at=at):
                number = 100
                before = self.writer.written[number][1][at : at + 1]
                self.assert_lost(self.smash(number, at, data))
                self.smash(number, at, before)
        self.assertEqual(self.offsets(), self.all)

    def test_body(self) -> None:
        """A body whose checksum is wrong is damage, of that record."""
        number = self.with_body()
        lost = self.smash(number, 120, b"\xff\x00\xff")
        self.assert_lost(lost)
        told = [row for row in rows(self.root, **CORRUPT, failOnCorrupt=False) if row["_bad"]]
        self.assertEqual([(row["physical_offset"], row["crc_ok"]) for row in told], [(lost, False)])
        self.assertEqual(told[0]["_bad"]["reason"], "a checksum differs")

    def test_body_not_read(self) -> None:
        """Checksums are verified whatever columns are read, unless told otherwise; crc_ok tells in any case."""
        number = self.with_body()
        lost = self.smash(number, 120, b"\xff\x00\xff")
        for columns in (["topic"], ["topic", "body"], ["crc_ok"]):
            self.assertRaises(LogDamaged, rows, self.root, columns=columns)
            self.assertEqual(len(rows(self.root, columns=columns, failOnCorrupt=False)), len(self.all) - 1)
            self.assertEqual(len(rows(self.root, columns=columns, verifyCrc=False)), len(self.all))
        found = rows(self.root, verifyCrc=False)
        self.assertEqual([row["physical_offset"] for row in found if not row["crc_ok"]], [lost])

    def test_holes(self) -> None:
        """Zeros, or noise, over several records cost these."""
        for filler in (b"\0", b"\xda"):
            with self.subTest(filler=filler):
                length = self.all[34] - self.all[30]
                before = b"".join(raw for _, raw in self.writer.written[30:34])
                self.smash(30, 0, filler * length)
                self.assert_lost(*self.all[30:34])
                self.smash(30, 0, before)

    def test_not_asked_for(self) -> None:
        """Damage where nobody asked for rows fails nothing: before the begin, or from the end on."""
        self.smash(30, 4, b"\0")
        for options in ({"endingOffsets": self.all[30]}, {"startingOffsets": self.all[31]}):
            self.assertEqual(len(self.offsets(**options)), 30 if "endingOffsets" in options else len(self.all) - 31)
        self.assertRaises(LogDamaged, self.offsets, endingOffsets=self.all[30] + 1)

    def test_file_begin(self) -> None:
        """The first record of a file is no different."""
        first = next(number for number, offset in enumerate(self.all) if offset >= 1 << 16)
        self.smash(first, 0, bytes(50))
        self.assert_lost(self.all[first])

    def test_file_end(self) -> None:
        """Nor the last of a full file, nor its blank."""
        last = next(number for number, offset in enumerate(self.all) if offset >= 1 << 16) - 1
        end = self.all[last] + self.sizes[self.all[last]]
        patch(self.log(), end, bytes(8))
        self.assertEqual(self.damage(), [(end, (1 << 16) - end)])
        self.assertEqual(self.offsets(failOnCorrupt=False), self.all)
        self.assertEqual(self.assertRaises(LogDamaged, self.offsets).offset, end)

    def test_torn_tail(self) -> None:
        """The newest record cut anywhere before its properties is the end of the log: no failure, told of as such."""
        shutil.rmtree(os.path.join(self.root, "consumequeue"))  # a broker was not done with it
        offset, raw = self.writer.written[-1]
        base = self.writer.begin
        for cut in range(0, len(raw) - len(record.decode(raw).properties) - 1, 3):
            patch(self.log(base), offset - base, raw[:cut].ljust(len(raw), b"\0"))
            self.assertEqual(self.offsets(), self.all[:-1], cut)
            self.assertEqual([place for place, _ in self.damage()], [offset] if raw[:cut].strip(b"\0") else [], cut)
        patch(self.log(base), offset - base, raw)
        self.assertEqual((self.offsets(), self.damage()), (self.all, []))

    def test_promised(self) -> None:
        """What the queues name and the log does not hold any more is data loss: torn, zeroed, all of the file too."""
        offset, raw = self.writer.written[-1]
        base = self.writer.begin
        for begin, cut in ((offset, 0), (offset, 3), (offset, len(raw) // 2), (base, 0)):
            patch(self.log(base), begin - base, raw[:cut].ljust(offset - begin + len(raw), b"\0"))
            error = self.assertRaises(DataLost, self.offsets)
            self.assertIn(f"the consume queues name records up to {offset + len(raw)}", str(error))
            self.assertEqual(self.offsets(failOnDataLoss=False), [one for one in self.all if one < begin])
            self.assertEqual(self.damage(), [(begin, offset + len(raw) - begin)])

    def test_written_meanwhile(self) -> None:
        """A record that is only half there when it is looked at, and whole when others follow, is no damage."""
        offset, raw = self.writer.written[-3]
        base = self.writer.begin
        with open(self.log(base), "rb") as file:
            whole = file.read()
        original = walk.Walk.next_record

        def later(*arguments: Any) -> int | None:
            write(self.log(base), whole)
            return original(*arguments)

        for cut in (0, 6, 30, len(raw) // 2):
            write(self.log(base), (whole[: offset - base] + raw[:cut]).ljust(1 << 16, b"\0"))
            with patched.object(walk.Walk, "next_record", later):
                self.assertEqual(self.offsets(), self.all, cut)

    def test_short_file(self) -> None:
        """A newest file that lacks what the queues name is reported; on request it ends where it ends."""
        offset, raw = self.writer.written[-1]
        end = offset - self.writer.begin
        for cut in (end + len(raw), end + len(raw) - 1, end + 3, end):
            os.truncate(self.log(self.writer.begin), cut)
            if cut == end + len(raw):
                self.assertEqual(self.offsets(), self.all)
                continue
            error = self.assertRaises(DataLost, self.offsets)
            self.assertIn(f"the consume queues name records up to {offset + len(raw)}", str(error))
            self.assertEqual(self.offsets(failOnDataLoss=False), self.all[:-1])
            self.assertIn((self.writer.begin + cut, end + len(raw) - cut), self.damage())

    def test_left_overs(self) -> None:
        """Records of an earlier life behind the newest are not taken for later ones."""
        log = LogWriter(self.root, file_size=1 << 16, begin=self.writer.begin)
        for number in range(20):
            log.add(NewMessage("Old", 0, bytes(200), b""), stored_ms=1_000 + number)
        log.close(queues=False)
        with open(self.log(log.begin), "rb") as file:
            old = file.read()
        fresh = encode(NewMessage("New", 0, bytes(100), b""), 0, log.begin, 10**12)
        write(self.log(log.begin), fresh + old[len(fresh) :])
        shutil.rmtree(os.path.join(self.root, "consumequeue"))  # which the broker cut as well
        found = rows(self.root, columns=["topic", "physical_offset"])
        self.assertEqual([row["topic"] for row in found if row["physical_offset"] >= log.begin], ["New"])

    def test_known_regions(self) -> None:
        """Regions that the store lists are passed over without a look, and told of in its words."""
        region = Region(self.all[10], self.all[13] - self.all[10], "a bad sector")
        write(os.path.join(self.root, regions.PATH), regions.encode([region]))
        self.assert_lost(*self.all[10:13])
        told = [row["_bad"] for row in rows(self.root, **CORRUPT, failOnCorrupt=False) if row["_bad"]]
        self.assertEqual([each["reason"] for each in told], ["a bad sector"])
        write(os.path.join(self.root, regions.PATH), b"[{]")
        self.assertIn("regions.json", str(self.assertRaises(SettingError, self.offsets)))

    def test_random(self) -> None:
        """Whatever is smashed, the records that are whole are read, in order, once, however the log is cut."""
        random = Random(13)
        for _ in range(25):
            self.restore()
            hit = set()
            for _ in range(random.randrange(1, 4)):
                number = random.randrange(5, len(self.all) - 40)
                offset = self.all[number]
                at = random.choice([random.randrange(4, 88), 0])
                self.smash(number, at, bytes([random.getrandbits(8) | 1]) * random.choice([1, 4]))
                hit.add(offset)
            expected = [offset for offset in self.all if offset not in hit]
            found = rows(self.root, columns=["physical_offset", "body"], failOnCorrupt=False, partitionBytes=65536)
            offsets = [row["physical_offset"] for row in found]
            self.assertEqual([offset for offset in offsets if offset not in hit], expected)
            self.assertEqual(len(set(offsets)), len(offsets))

    def restore(self) -> None:
        """Put the undamaged files back."""
        log = LogWriter(self.root, file_size=1 << 16)
        for offset, raw in self.writer.written:
            if offset >= log.begin + (1 << 16):
                log.roll()
            log.add_raw(raw)
        log.close(queues=False)


class SealTests(Case):
    def test_seal(self) -> None:
        """The checksum of the whole record, where there is one, is verified with the body's."""
        raw = encode(NewMessage("T", 0, b"body", b"TAGS\x01abc"), 0, 0, 5, seal=True)
        follows = encode(NewMessage("T", 0, b"", b""), 1, len(raw), 6)
        write(self.log(), (raw + follows).ljust(4096, b"\0"))
        self.assertEqual(self.offsets(), [0, len(raw)])
        write(self.log(), (raw.replace(b"abc", b"abd") + follows).ljust(4096, b"\0"))
        self.assertEqual(self.offsets(failOnCorrupt=False), [len(raw)])


class BodyTests(Case):
    def write_bodies(self, *bodies: tuple[bytes, int]) -> None:
        """Write messages of some bodies and sys flags."""
        log = LogWriter(self.root)
        for body, sys_flag in bodies:
            log.add(NewMessage("T", 0, body, b"", sys_flag=sys_flag))
        log.close()

    def test_methods(self) -> None:
        """Each method is undone, by the sys flag; what is not compressed is left alone."""
        plain = b"many words " * 50
        self.write_bodies(
            (zlib.compress(plain), 0x1),
            (plain, 0),
            (lz4.frame.compress(plain), 0x101),
            (zstandard.compress(plain), 0x201),
            (zlib.compress(plain), 0x301),
        )
        self.assertEqual([row["body"] for row in rows(self.root, decompressBody=True)], [plain] * 5)

    def test_faults(self) -> None:
        """What cannot be undone, or grows too long, has no body; the record stays, and says why."""
        self.write_bodies((b"not zlib", 0x1), (zlib.compress(bytes(5000)), 0x1), (b"?", 0x501), (b"plain", 0))
        found = rows(self.root, decompressBody=True, decompressLimit=4999, **CORRUPT)
        self.assertEqual([row["body"] for row in found], [None, None, None, b"plain"])
        self.assertEqual([row["_bad"] is None for row in found], [False, False, False, True])
        self.assertIn("exceeds the limit of 4999 B", found[1]["_bad"]["reason"])
        self.assertEqual(len(rows(self.root, columns=["body"], decompressBody=True)), 4)
        self.assertEqual(len(self.warnings), 2)

    def test_bounded(self) -> None:
        """Bodies that grow very long come in batches of their own, so memory stays bounded."""
        self.write_bodies(*[(zlib.compress(bytes(90_000)), 0x1)] * 12)
        options = parse({"path": self.root, "decompressBody": "true"})
        part = ranges(self.root, options)[0]
        with patched("smartgo.spark.batches._INFLATED", 320_000):
            found = [batch.column("body").to_pylist() for batch in read_messages(part, MESSAGES, options)]
        self.assertEqual([len(bodies) for bodies in found], [4, 4, 4])
        self.assertEqual({body for bodies in found for body in bodies}, {bytes(90_000)})
