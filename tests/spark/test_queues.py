"""Tests of L{smartgo.spark.queues}, C{conditions} and C{pushdown}: less is read, and no row less."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from unittest.mock import patch as patched

from pyspark.sql import datasource as spark
from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import SettingError
from smartgo.schema.consumequeue import PREFILL, UNIT_SIZE, Unit
from smartgo.schema.message import NewMessage
from smartgo.spark import files, pushdown
from smartgo.spark.conditions import Comparison, Conditions, OneOf, Operator, of_options
from smartgo.spark.logrange import LogRange
from smartgo.spark.options import parse
from smartgo.spark.partitions import plan
from smartgo.spark.queues import Located, QueueFile, _units_near, locate, newest_end
from smartgo.spark.stores import find_stores
from tests import golden_store
from tests.spark.logs import NOW_MS, LogWriter, any_message, patch, rows, write


def topic(*names: str) -> Conditions:
    """Only these topics."""
    return Conditions().and_topics(names)


class Case(SynchronousTestCase):
    def setUp(self) -> None:
        """Write a store of two files: many records of a topic, a few of another."""
        self.root = os.path.abspath(self.mktemp())
        random = Random(21)
        self.log = LogWriter(self.root, file_size=1 << 16)
        for number in range(400):
            message = any_message(random, ("Many",))
            if number % 20 == 3:
                message.topic, message.queue_id = "Few", number % 2
            self.log.add(message)
        self.log.close()
        self.expected = [row["physical_offset"] for row in rows(self.root) if row["topic"] == "Few"]
        self.assertEqual(len(self.expected), 20)

    def found(self, conditions: Conditions, **options: Any) -> list[int]:
        """The physical offsets read under conditions; what conditions do not tell is looked at by nobody here."""
        columns = ["physical_offset", "topic"]
        return [row["physical_offset"] for row in rows(self.root, columns=columns, conditions=conditions, **options)]

    def located(self, conditions: Conditions, begin: int = 0) -> list[list[Located | LogRange] | None]:
        """Return the places that queues give for each range of the log."""
        stores = find_stores([self.root])
        parts = plan(stores, parse({"path": self.root}), Conditions())
        return [locate(part, conditions) for part in parts if isinstance(part, LogRange)]


class LocateTests(Case):
    def test_picks(self) -> None:
        """A topic's records are read through its queues: the rest of the log is not looked at."""
        for found in self.located(topic("Few")):
            assert found is not None
            self.assertTrue(any(isinstance(one, Located) for one in found))
        read: list[int] = []
        original = files.FileReader.read

        def counting(reader: files.FileReader, at: int, count: int) -> memoryview:
            read.append(count)
            return original(reader, at, count)

        with patched.object(files.FileReader, "read", counting), patched("smartgo.spark.reader._NEAR", 64):
            self.assertEqual(self.found(topic("Few")), self.expected)
            few = sum(read)
            read.clear()
            self.assertEqual(self.found(topic("Few"), useConsumeQueue=False), self.expected)
        self.assertLess(few, sum(read) / 2)

    def test_any_cut(self) -> None:
        """However the log is cut into ranges."""
        with patched("smartgo.spark.partitions.SIZE_LIMIT", 0):
            self.assertEqual(self.found(topic("Few"), partitionBytes=65536), self.expected)

    def test_queue(self) -> None:
        """A queue, and offsets in it, narrow it further."""
        one = Conditions().and_topics(["Few"]).and_number(Comparison("queue_id", "==", 1))
        all_rows = rows(self.root, columns=["topic", "queue_id", "queue_offset", "physical_offset"])
        mine = [row for row in all_rows if (row["topic"], row["queue_id"]) == ("Few", 1)]
        self.assertEqual(self.found(one), [row["physical_offset"] for row in mine])
        later = one.and_number(Comparison("queue_offset", ">=", 7))
        self.assertEqual(self.found(later), [row["physical_offset"] for row in mine if row["queue_offset"] >= 7])

    def test_not_worth(self) -> None:
        """Where most of the log is wanted, it is read as a whole."""
        self.assertEqual(set(self.located(topic("Many"))), {None})

    def test_no_queues(self) -> None:
        """Without queues the log is read, and nothing is missed."""
        shutil.rmtree(os.path.join(self.root, "consumequeue"))
        self.assertEqual(set(self.located(topic("Few"))), {None})
        self.assertEqual(self.found(topic("Few")), self.expected)
        self.assertEqual(newest_end(find_stores([self.root])[0]), 0)

    def test_missing_queue(self) -> None:
        """What no queue covers is walked: a deleted topic's records are found, and no others missed."""
        for gone in ("Many", "Few/1", "Few"):
            shutil.rmtree(os.path.join(self.root, "consumequeue", gone))
            self.assertEqual(self.found(topic("Few")), self.expected, gone)

    def test_any_missing(self) -> None:
        """Whichever queues are gone, and however the log is cut, each record of a topic is read once."""
        random = Random(5)
        for number in range(4):
            self.root = os.path.join(os.path.dirname(self.root), f"store-{number}")
            log = LogWriter(self.root, file_size=1 << 18)
            for _ in range(600):
                log.add(any_message(random))
            log.close()
            for name, queue_id in random.sample([(name, n) for name in ("T", "Other") for n in range(3)], 2):
                shutil.rmtree(os.path.join(self.root, "consumequeue", name, str(queue_id)))
            with patched("smartgo.spark.partitions.SIZE_LIMIT", 0):
                for stored in {(one.topic, one.queue_id) for one in log.expected()}:
                    wanted = topic(stored[0]).and_number(Comparison("queue_id", "==", stored[1]))
                    mine = [one for one in log.expected() if (one.topic, one.queue_id) == stored]
                    found = self.found(wanted, partitionBytes=65536)
                    self.assertEqual(found, [one.physical_offset for one in mine], str(stored))

    def test_behind(self) -> None:
        """Queues that lack the newest records, or any, are no harm."""
        for _ in range(12):
            for place, _, names in os.walk(os.path.join(self.root, "consumequeue")):
                for name in names:
                    path = os.path.join(place, name)
                    with open(path, "rb") as file:
                        data = file.read()
                    used = len(data.rstrip(b"\0")) // UNIT_SIZE * UNIT_SIZE
                    write(path, data[: used * 2 // 3 // UNIT_SIZE * UNIT_SIZE].ljust(len(data), b"\0"))
            self.assertEqual(self.found(topic("Few")), self.expected)

    def test_wrong_units(self) -> None:
        """Units that lead to nothing, or overlap, are not believed."""
        path = os.path.join(self.root, "consumequeue", "Few", "1", "0" * 20)
        for at, unit in ((3, Unit(self.expected[0] + 5, 200, 0)), (4, Unit(1 << 40, 100, 0)), (0, Unit(0, 1 << 30, 0))):
            with open(path, "rb") as file:
                before = file.read()
            patch(path, at * UNIT_SIZE, unit.pack())
            self.assertEqual(self.found(topic("Few")), self.expected)
            write(path, before)
        many = os.path.join(self.root, "consumequeue", "Many", "1", "0" * 20)
        with open(many, "rb") as file:
            before = file.read()
        for size in (-5, 5, Unit.unpack(before, 9 * UNIT_SIZE).size - 7):  # of a queue that nobody asks for
            patch(many, 9 * UNIT_SIZE, Unit.unpack(before, 9 * UNIT_SIZE)._replace(size=size).pack())
            self.assertEqual(self.found(topic("Few")), self.expected)
            write(many, before)
        stale = self.log.written[10]
        other = os.path.join(self.root, "consumequeue", "Few", "7", "0" * 20)
        write(other, Unit(stale[0], len(stale[1]) + 1, 0).pack().ljust(200, b"\0"))
        self.assertEqual(self.found(topic("Few")), self.expected)

    def test_light_queue(self) -> None:
        """Units of a light queue lead to records of other topics, which stay what they are."""
        units = b"".join(Unit(offset, len(raw), 0).pack() for offset, raw in self.log.written[5:9])
        write(os.path.join(self.root, "consumequeue", "%LMQ%x", "0", "0" * 20), units.ljust(200, b"\0"))
        self.assertEqual(self.found(topic("Few")), self.expected)
        self.assertEqual(self.found(topic("%LMQ%x")), [])

    def test_prefilled(self) -> None:
        """A queue whose first file begins in the middle is filled up in front."""
        path = os.path.join(self.root, "consumequeue", "Few", "1", "0" * 20)
        with open(path, "rb") as file:
            data = file.read()
        write(path, PREFILL.pack() * 5 + data[5 * UNIT_SIZE :])
        self.assertEqual(self.found(topic("Few")), self.expected)
        rows_of_queue = rows(self.root, table="consumequeue")
        self.assertEqual(len([row for row in rows_of_queue if row["topic"] == "Few"]), 15)

    def test_fillers(self) -> None:
        """Units without a message may stand anywhere in a queue, and at its end; other rows keep their offsets."""
        path = os.path.join(self.root, "consumequeue", "Few", "1", "0" * 20)
        with open(path, "rb") as file:
            data = file.read()
        units = [Unit.unpack(data, at) for at in range(0, 10 * UNIT_SIZE, UNIT_SIZE)]
        filler = [Unit(one.commitlog_offset, PREFILL.size, 0) for one in units]
        chosen = [*units[:3], filler[3], *units[4:6], filler[6], *units[7:9], filler[9]]
        write(path, b"".join(one.pack() for one in chosen).ljust(len(data), b"\0"))
        self.assertEqual(self.found(topic("Few")), self.expected)  # the log is read where the queues have a gap
        left = [number for number in range(10) if not chosen[number].is_filler]
        shown = [row for row in rows(self.root, table="consumequeue") if (row["topic"], row["queue_id"]) == ("Few", 1)]
        self.assertEqual([row["queue_offset"] for row in shown], left)
        part = [
            (numbers.tolist(), found["size"].tolist())
            for numbers, found in _units_near(os.path.dirname(path), 0, 1 << 40)
        ]
        self.assertEqual(part, [(left, [units[number].size for number in left])])
        last = max(end for end in (newest_end(store) for store in find_stores([self.root])))
        self.assertLess(last, 1 << 30)

    def test_last_is_a_filler(self) -> None:
        """A queue that ends with a unit without a message has its newest record before what that leads to."""
        shutil.rmtree(os.path.join(self.root, "consumequeue", "Many"))
        path = os.path.join(self.root, "consumequeue", "Few", "1", "0" * 20)
        with open(path, "rb") as file:
            data = bytearray(file.read())
        unit = Unit.unpack(bytes(data), 19 * UNIT_SIZE)
        data[19 * UNIT_SIZE : 20 * UNIT_SIZE] = Unit(unit.commitlog_offset, PREFILL.size, 0).pack()
        write(path, bytes(data))
        (store,) = find_stores([self.root])
        self.assertEqual(newest_end(store), unit.commitlog_offset)

    def test_several_files(self) -> None:
        """A queue of several files."""
        folder = os.path.join(self.root, "consumequeue", "Few", "1")
        with open(os.path.join(folder, "0" * 20), "rb") as file:
            data = file.read()
        os.unlink(os.path.join(folder, "0" * 20))
        for begin in range(0, 12 * UNIT_SIZE, 3 * UNIT_SIZE):
            write(os.path.join(folder, f"{begin:020d}"), data[begin : begin + 3 * UNIT_SIZE])
        self.assertEqual(self.found(topic("Few")), self.expected)
        self.assertTrue(all(found is not None for found in self.located(topic("Few"))))

    def test_opened_files(self) -> None:
        """Of a queue of many files those alone are opened that have units of a range, and the one before."""
        folder = os.path.join(self.root, "consumequeue", "Few", "1")
        with open(os.path.join(folder, "0" * 20), "rb") as file:
            data = file.read()
        units = [Unit.unpack(data, number * UNIT_SIZE) for number in range(len(self.expected))]
        units = [unit for unit in units if unit.size]
        os.unlink(os.path.join(folder, "0" * 20))
        for number in range(len(units) + 2):  # brokers make files ahead
            at = number * UNIT_SIZE
            write(os.path.join(folder, f"{at:020d}"), data[at : at + UNIT_SIZE])
        for number, unit in enumerate(units):
            for begin in (unit.commitlog_offset, unit.commitlog_offset + 1):
                end = begin + 2 * unit.size
                with patched("smartgo.spark.queues.QueueFile", side_effect=QueueFile) as opened:
                    found = [(first, one.tolist()) for first, some in _units_near(folder, begin, end) for one in some]
                before = sum(one.commitlog_offset < begin for one in units)
                wanted = range(max(before - 1, 0), sum(one.commitlog_offset < end for one in units))
                self.assertEqual(found, [(each, tuple(units[each])) for each in wanted], str(number))
                self.assertLessEqual(opened.call_count, len(wanted) + 3)

    def test_golden(self) -> None:
        """Both real stores, each topic and each queue."""
        for name in golden_store.NAMES:
            self.root = os.path.abspath(self.mktemp())
            messages = golden_store.unpack(name, self.root)["messages"]
            for each in sorted({one["topic"] for one in messages}):
                mine = [one for one in messages if one["topic"] == each]
                self.assertEqual(self.found(topic(each)), [one["physicalOffset"] for one in mine])
                for queue_id in {one["queueId"] for one in mine}:
                    conditions = topic(each).and_number(OneOf("queue_id", frozenset([queue_id])))
                    expected = [one["physicalOffset"] for one in mine if one["queueId"] == queue_id]
                    self.assertEqual(self.found(conditions), expected)


class ConditionTests(Case):
    def test_numbers(self) -> None:
        """Every comparison, on every column, alone and with others, selects as it should."""
        all_rows = rows(self.root)
        random = Random(3)
        operators: dict[Operator, Any] = {
            "==": int.__eq__, "<": int.__lt__, "<=": int.__le__, ">": int.__gt__, ">=": int.__ge__,
        }  # fmt: skip
        values = {
            "queue_id": [row["queue_id"] for row in all_rows],
            "queue_offset": [row["queue_offset"] for row in all_rows],
            "physical_offset": [row["physical_offset"] for row in all_rows],
            "store_timestamp": [round(row["store_timestamp"].timestamp() * 1000) for row in all_rows],
        }
        for _ in range(60):
            conditions, kept = Conditions(), set(range(len(all_rows)))
            for _ in range(random.randrange(1, 3)):
                column = random.choice(list(values))
                value = random.choice(values[column]) + random.choice([-1, 0, 1])
                operator = random.choice(list(operators))
                conditions = conditions.and_number(Comparison(column, operator, value))
                kept &= {n for n, each in enumerate(values[column]) if operators[operator](each, value)}
            expected = [all_rows[number]["physical_offset"] for number in sorted(kept)]
            self.assertEqual(self.found(conditions), expected, str(conditions))

    def test_offsets_by_queue(self) -> None:
        """startingOffsets and endingOffsets by queue leave the other queues whole."""
        all_rows = rows(self.root)
        first, last = '{"Few": {"0": 4, "1": -2}}', '{"Few": {"0": 6}}'
        expected = [
            row for row in all_rows if (row["topic"], row["queue_id"]) != ("Few", 0) or 4 <= row["queue_offset"] < 6
        ]
        self.assertEqual(rows(self.root, startingOffsets=first, endingOffsets=last), expected)

    def test_other_topic(self) -> None:
        """An offset of a topic that is neither subscribed to nor in a store is a mistake, not an offset of nothing."""
        for option in ("startingOffsets", "endingOffsets"):
            error = self.assertRaises(SettingError, rows, self.root, **{option: '{"No": {"0": 1}}'})
            self.assertEqual(str(error), f"option {option}: topic No is not subscribed to, and no store has it")

    def test_other_store(self) -> None:
        """An offset of a directory that is not read is a mistake, not an offset of nothing."""
        for option in ("startingOffsets", "endingOffsets"):
            error = self.assertRaises(SettingError, rows, self.root, **{option: f'{{"{self.root}x": 5}}'})
            self.assertIn(f"option {option}: {self.root}x is not one of the stores", str(error))
            self.assertIn(f"did you mean {self.root}?", str(error))

    def test_physical_offsets(self) -> None:
        """Physical offsets, for all stores or by directory, cut the log; a record belongs where it starts."""
        offsets = [offset for offset, _ in self.log.written]
        columns = ["physical_offset"]
        low, high = offsets[7] - 3, offsets[300] + 1
        for starting, ending in ((low, high), (f'{{"{self.root}": {low}}}', f'{{"{self.root}": {high}}}')):
            found = rows(self.root, columns=columns, startingOffsets=starting, endingOffsets=ending)
            self.assertEqual([row["physical_offset"] for row in found], offsets[7:301])

    def test_subscriptions(self) -> None:
        """Options that name topics and queues give what conditions of the same kind do, reading as little."""
        all_rows = rows(self.root)
        few = [row for row in all_rows if row["topic"] == "Few"]
        cases: tuple[tuple[dict[str, Any], list[dict[str, Any]]], ...] = (
            ({"subscribe": "Few"}, few),
            ({"subscribe": "Few, No"}, few),
            ({"subscribe": "Few,Many"}, all_rows),
            ({"subscribePattern": "F.w"}, few),
            ({"subscribePattern": "Fe"}, []),
            ({"subscribePattern": "Few|Ma.*"}, all_rows),
            ({"subscribe": "Few", "queues": "1"}, [row for row in few if row["queue_id"] == 1]),
            ({"queues": "0,2"}, [row for row in all_rows if row["queue_id"] in (0, 2)]),
        )
        for options, expected in cases:
            for uses in (True, False):
                self.assertEqual(rows(self.root, useConsumeQueue=uses, **options), expected, str(options))
            units = rows(self.root, table="consumequeue", **options)
            places = ("topic", "queue_id", "queue_offset")
            self.assertEqual(
                sorted([unit[name] for name in places] for unit in units),
                sorted([row[name] for name in places] for row in expected),
            )
        for options in ({"subscribe": "Few"}, {"subscribePattern": "F.*"}):
            located = self.located(of_options(parse({"path": self.root, **options})))
            self.assertTrue(all(found is not None for found in located))

    def test_times(self) -> None:
        """startingTimestamp is included, endingTimestamp is not."""
        stamps = [NOW_MS + offset for offset, _ in self.log.written]
        self.assertEqual(len(rows(self.root, startingTimestamp=stamps[40], endingTimestamp=stamps[60])), 20)

    def test_files_of_other_times(self) -> None:
        """Files whose records were all stored at other times, by more than a clock is set back, are not opened."""
        root = os.path.abspath(self.mktemp())
        log = LogWriter(root, file_size=1 << 12)
        hour = 3_600_000
        for number in range(200):
            log.add(NewMessage("T", 0, bytes(100), b""), stored_ms=NOW_MS + number * hour)
        log.close()
        everything = plan(find_stores([root]), parse({"path": root}), Conditions())
        wanted = Conditions().and_number(Comparison("store_timestamp", ">=", NOW_MS + 150 * hour))
        wanted = wanted.and_number(Comparison("store_timestamp", "<", NOW_MS + 160 * hour))
        parts = plan(find_stores([root]), parse({"path": root}), wanted)
        self.assertLess(len(parts), len(everything) / 4)
        found = rows(root, columns=["store_timestamp"], conditions=wanted)
        self.assertEqual(len(found), 10)

    def test_nothing_wanted(self) -> None:
        """Conditions that exclude each other leave nothing."""
        self.assertEqual(self.found(topic("Few").and_topics(["Many"])), [])
        self.assertEqual(self.found(Conditions().and_number(OneOf("queue_id", frozenset()))), [])


class PushdownTests(SynchronousTestCase):
    def taken(self, *filters: Any) -> Conditions:
        """The conditions that filters become."""
        return pushdown.take(Conditions(), filters)

    def test_filters(self) -> None:
        """Topics, queues, offsets and times become conditions."""
        moment = datetime(2026, 1, 1, tzinfo=UTC)
        found = self.taken(
            spark.EqualTo(("topic",), "T"),
            spark.In(("topic",), ("T", None, "U")),
            spark.EqualNullSafe(("queue_id",), 3),
            spark.In(("queue_id",), (3, None)),
            spark.GreaterThan(("queue_offset",), 5),
            spark.LessThanOrEqual(("physical_offset",), 9),
            spark.GreaterThanOrEqual(("store_timestamp",), moment),
        )
        self.assertEqual(found.topics, {"T"})
        self.assertEqual(
            found.numbers,
            (
                Comparison("queue_id", "==", 3),
                OneOf("queue_id", frozenset([3])),
                Comparison("queue_offset", ">", 5),
                Comparison("physical_offset", "<=", 9),
                Comparison("store_timestamp", ">=", NOW_MS),
            ),
        )

    def test_between_milliseconds(self) -> None:
        """Times between two milliseconds are put so that the same rows are meant."""
        moment = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(microseconds=500)
        for name in ("GreaterThan", "GreaterThanOrEqual", "LessThan", "LessThanOrEqual"):
            found = self.taken(getattr(spark, name)(("store_timestamp",), moment))
            operator: Operator = ">" if name.startswith("G") else "<="
            self.assertEqual(found.numbers, (Comparison("store_timestamp", operator, NOW_MS),))
        self.assertEqual(self.taken(spark.EqualTo(("store_timestamp",), moment)).numbers[0].column, "store_timestamp")

    def test_left_out(self) -> None:
        """All others are left to Spark."""
        for one in (
            spark.EqualTo(("tags",), "a"),
            spark.GreaterThan(("topic",), "a"),
            spark.EqualTo(("topic",), 5),
            spark.EqualTo(("queue_id",), 1.5),
            spark.EqualTo(("_bad", "offset"), 1),
            spark.IsNotNull(("topic",)),
            spark.Not(spark.EqualTo(("topic",), "T")),
            spark.StringStartsWith(("topic",), "T"),
            spark.In(("store_timestamp",), (1,)),
            spark.EqualTo(("store_timestamp",), datetime(2026, 1, 1)),  # noqa: DTZ001 - what is tested
        ):
            self.assertTrue(self.taken(one).is_empty, str(one))
