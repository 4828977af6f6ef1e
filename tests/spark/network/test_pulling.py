"""Tests of L{smartgo.spark.network.pulling} and of the rows made of what was pulled."""

from __future__ import annotations

import logging
from random import Random
from typing import Any
from unittest.mock import patch as patched

import pyarrow as pa
from msgspec.structs import replace
from twisted.trial.unittest import SynchronousTestCase

from smartgo.core import CORE, IS_COMPILED
from smartgo.errors import CallFailed, PeerRefused
from smartgo.schema.codes import ResponseCode
from smartgo.schema.record import HEAD_SIZE, encode
from smartgo.spark.columns import CORRUPT, MESSAGES
from smartgo.spark.gaps import DataLost
from smartgo.spark.network import pulledrows
from smartgo.spark.network.networkoptions import parse_network
from smartgo.spark.network.pulledrows import PulledRows, RecordDamaged
from smartgo.spark.network.pulling import RangePull
from smartgo.spark.network.queueranges import Queue, QueueRange
from tests.spark.logs import any_message
from tests.spark.network.brokerdouble import MASTER, NOW_MS, SLAVE, MemoryBroker, PausedClock
from tests.spark.oddrecords import ODD_PROPERTIES

QUEUE = Queue("T", "broker-a", 0)


class PullTestCase(SynchronousTestCase):
    """A test with a broker in memory that has 500 messages in a queue."""

    def setUp(self) -> None:
        """A broker."""
        self.broker = MemoryBroker()
        self.broker.add("T", 0, 500)
        self.clock = PausedClock()

    def read(
        self, begin: int = 0, end: int = 500, columns: pa.Schema = MESSAGES, **options: str
    ) -> list[dict[str, Any]]:
        """Read a range as a task does."""
        given = parse_network({"registry": "r:9876", "subscribe": "T", **options})
        part = QueueRange(QUEUE, begin, end, (MASTER, SLAVE))
        pulls = RangePull(part, given, self.broker.dial, self.clock)
        found: list[dict[str, Any]] = []
        for batch in PulledRows(part, columns, given).batches(pulls):
            batch.validate(full=True)
            assert batch.schema.equals(columns)
            found += batch.to_pylist()
        return found

    def offsets(self, begin: int = 0, end: int = 500, **options: str) -> list[int]:
        """Return the queue offsets of a range's rows."""
        return [row["queue_offset"] for row in self.read(begin, end, **options)]


class RangePullTests(PullTestCase):
    def test_range(self) -> None:
        """A range has its messages in order, whatever the order of the answers; all columns say what was stored."""
        rows = self.read(3, 477)
        self.assertEqual([row["queue_offset"] for row in rows], list(range(3, 477)))
        row = rows[7]
        self.assertEqual((row["store"], row["topic"], row["queue_id"]), ("broker-a", "T", 0))
        self.assertEqual((row["body"], row["key"], row["crc_ok"]), (b"T-0-10", "k10", True))
        self.assertEqual(row["store_timestamp"].timestamp() * 1000, NOW_MS + 10)
        self.assertEqual(row["store_host"], "10.0.0.1:10911")

    def test_short_answers(self) -> None:
        """Answers with fewer messages than asked for lead to more pulls."""
        self.broker.bytes_limit = 700
        self.assertEqual(self.offsets(), list(range(500)))

    def test_lost_connection(self) -> None:
        """A connection that breaks is made again, to the slave and back, and goes on where it was."""
        self.broker.lost = {MASTER: 5, SLAVE: 3}
        self.assertEqual(self.offsets(), list(range(500)))
        self.assertEqual([address for address, _ in self.broker.asked[:8]], [MASTER] * 5 + [SLAVE] * 3)

    def test_master_gone(self) -> None:
        """Without its master a broker is read from its slave."""
        self.broker.down = {MASTER}
        self.assertEqual(self.offsets(), list(range(500)))
        self.assertEqual({address for address, _ in self.broker.asked}, {SLAVE})

    def test_moved(self) -> None:
        """A broker that has moved is asked for at the registry."""
        self.broker.addresses = {0: "elsewhere:1"}
        self.assertEqual(self.offsets(), list(range(500)))

    def test_gone(self) -> None:
        """A broker that does not answer at all is an error, after the time-out."""
        self.broker.down = {MASTER, SLAVE}
        error = self.assertRaises(CallFailed, self.offsets, timeout="7")
        self.assertIn("topic T, queue broker-a:0: broker broker-a does not answer", str(error))
        self.assertLessEqual(self.clock.now, 7)
        self.assertGreater(self.clock.now, 4)

    def test_busy(self) -> None:
        """A broker that has too much to do is asked again after a pause; not for ever."""
        self.broker.refused = [ResponseCode.SYSTEM_BUSY, ResponseCode.FLOW_CONTROL]
        self.assertEqual(self.offsets(), list(range(500)))
        self.assertGreater(self.clock.now, 0.1)
        self.broker.refused = [ResponseCode.FLOW_CONTROL] * 1000
        self.assertEqual(self.assertRaises(PeerRefused, self.offsets).code, ResponseCode.FLOW_CONTROL)

    def test_refused(self) -> None:
        """A refusal is an error at once, with the broker's words."""
        self.broker.refused = [ResponseCode.NO_PERMISSION]
        error = self.assertRaises(PeerRefused, self.offsets)
        self.assertEqual((error.code, self.clock.now), (ResponseCode.NO_PERMISSION, 0))


class LossTests(PullTestCase):
    def lost(self, **options: str) -> str:
        """Return the error of a read that misses messages."""
        return str(self.assertRaises(DataLost, self.offsets, **options))

    def test_removed(self) -> None:
        """Messages that retention removed are an error, or the read goes on with the first that is there."""
        self.broker.queues["T", 0].minimum = 200
        error = self.lost()
        self.assertIn("topic T, queue broker-a:0: offsets", error)
        self.assertIn("to 200 were removed before they were read", error)
        self.assertIn("failOnDataLoss", error)
        self.assertEqual(self.offsets(failOnDataLoss="false"), list(range(200, 500)))
        self.broker.queues["T", 0].minimum = 500
        self.assertEqual(self.offsets(failOnDataLoss="false"), [])

    def test_cut(self) -> None:
        """A queue that ends earlier than it did is waited for, and then is an error, or the read ends there."""
        self.broker.hidden = 100
        self.assertIn("the queue ends at 400", self.lost(timeout="5"))
        self.assertGreater(self.clock.now, 3)
        self.assertEqual(self.offsets(failOnDataLoss="false", timeout="5"), list(range(400)))

    def test_topic_gone(self) -> None:
        """A topic that was deleted is an error, or there are no rows."""
        self.broker.queues.clear()
        self.assertIn("the broker knows no such topic", self.lost())
        self.assertEqual(self.offsets(failOnDataLoss="false"), [])

    def test_hole(self) -> None:
        """Messages that a broker leaves out in the middle are an error, or the others are read."""
        for offset in (77, 78, *range(128, 160)):
            self.broker.queues["T", 0].records[offset] = None
        self.assertIn("are not there", self.lost())
        expected = [one for one in range(500) if one not in (77, 78) and not 128 <= one < 160]
        self.assertEqual(self.offsets(failOnDataLoss="false"), expected)


class FilterTests(PullTestCase):
    def setUp(self) -> None:
        """Messages with tags, two of which have the same hash."""
        super().setUp()
        for count, tag in ((1500, "Aa"), (3, "BB"), (900, "C"), (40, "Aa"), (1, "D")):
            self.broker.add("T", 0, count, tag)

    def test_tags(self) -> None:
        """Only messages of these tags are read; one whose tag has the same hash is not."""
        tags = [None] * 500 + ["Aa"] * 1500 + ["BB"] * 3 + ["C"] * 900 + ["Aa"] * 40 + ["D"]
        for wanted in ({"Aa"}, {"BB"}, {"C", "D"}, {"nothing"}):
            found = self.offsets(0, 2944, tags=" || ".join(wanted))
            self.assertEqual(found, [at for at, tag in enumerate(tags) if tag in wanted])
        found = self.offsets(1990, 2002, tags="Aa || BB")
        self.assertEqual(found, list(range(1990, 2002)))


class DamageTests(PullTestCase):
    def setUp(self) -> None:
        """Spoil a body."""
        super().setUp()
        raw = bytearray(self.broker.queues["T", 0].records[33] or b"")
        raw[raw.index(b"T-0-33")] ^= 1
        self.broker.queues["T", 0].records[33] = bytes(raw)

    def test_fails(self) -> None:
        """A message whose checksum is wrong is an error that names it."""
        self.assertIn("queue broker-a:0: the message at offset 33", str(self.assertRaises(RecordDamaged, self.offsets)))

    def test_told(self) -> None:
        """It is left out where that is asked for, or reported in a column."""
        self.assertEqual(self.offsets(failOnCorrupt="false"), [one for one in range(500) if one != 33])
        columns = pa.schema([MESSAGES.field("queue_offset"), MESSAGES.field("crc_ok"), pa.field("damage", CORRUPT)])
        rows = self.read(30, 40, columns, failOnCorrupt="false", columnNameOfCorruptRecord="damage")
        self.assertEqual([row["crc_ok"] for row in rows], [True] * 3 + [False] + [True] * 6)
        self.assertEqual((rows[3]["damage"]["file"], rows[3]["damage"]["reason"]), (str(QUEUE), "a checksum differs"))

    def test_foreign(self) -> None:
        """An answer with messages of another queue, or with no records, is an error."""
        self.broker.add("S", 0, 1)
        self.broker.queues["T", 0].records[33] = self.broker.queues["S", 0].records[0]
        self.assertIn("another queue", str(self.assertRaises(CallFailed, self.offsets)))
        self.broker.queues["T", 0].records[33] = b"no record"
        self.assertIn("what is no record", str(self.assertRaises(CallFailed, self.offsets)))


class CoreTests(PullTestCase):
    if not IS_COMPILED:
        skip = f"the core is {CORE}"

    def outcome(self, **options: str) -> tuple[list[dict[str, Any]] | None, str]:
        """What a read gives: rows, or the error."""
        columns = MESSAGES.append(pa.field("bad", CORRUPT)) if "columnNameOfCorruptRecord" in options else MESSAGES
        try:
            return self.read(2, 495, columns, **options), ""
        except RecordDamaged as error:
            return None, str(error)

    def test_same(self) -> None:
        """The compiled core makes the rows that Python makes, of plain records and of any others."""
        logger = logging.getLogger("smartgo.spark")
        logger.disabled = True
        self.addCleanup(setattr, logger, "disabled", False)
        queue = self.broker.queues["T", 0]
        for seed, strange in enumerate((0.0, 0.01, 0.3, 1.0)):
            random = Random(seed)
            for offset in range(500):
                if random.random() < strange:
                    flips = random.random() < 0.5
                    message = replace(
                        any_message(random, ["T"], v6=not flips), queue_id=0, properties=random.choice(ODD_PROPERTIES),
                        sys_flag=random.choice([0, 1]),
                    )  # fmt: skip
                    raw = bytearray(encode(message, offset, 7 * offset, NOW_MS, seal=random.random() < 0.2))
                    if flips and message.body:
                        raw[HEAD_SIZE] ^= 1
                    queue.records[offset] = bytes(raw)
            for options in (
                {}, {"failOnCorrupt": "false"}, {"failOnCorrupt": "false", "columnNameOfCorruptRecord": "bad"},
                {"verifyCrc": "false", "decompressBody": "true"}, {"failOnCorrupt": "false", "tags": "a"},
            ):  # fmt: skip
                compiled = self.outcome(**options)
                with patched.object(pulledrows, "is_possible", lambda: False):
                    self.assertEqual(compiled, self.outcome(**options), f"{seed} {options}")
