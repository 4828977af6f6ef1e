"""Tests of L{smartgo.spark.options} and L{smartgo.spark.columns}."""

from __future__ import annotations

import pyarrow as pa
from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import SettingError
from smartgo.spark.columns import MESSAGES, check_columns, table_schema
from smartgo.spark.options import Position, ReadOptions, parse


class ParseTests(SynchronousTestCase):
    def refused(self, **options: str) -> str:
        """The sentence that options are refused with."""
        return str(self.assertRaises(SettingError, parse, {"path": "/s", **options}))

    def test_defaults(self) -> None:
        """Only a path is needed."""
        self.assertEqual(parse({"path": "/s"}), ReadOptions(("/s",)))
        self.assertIn("load(DIR)", str(self.assertRaises(SettingError, parse, {})))

    def test_names(self) -> None:
        """Names are not case-sensitive, and an unknown one brings the nearest to mind."""
        self.assertTrue(parse({"PATH": "/s", "DECOMPRESSBODY": "True"}).decompress_body)
        self.assertEqual(
            self.refused(startingOfsets="x"), "there is no option startingOfsets; did you mean startingOffsets?"
        )
        self.assertEqual(self.refused(xyzzy="x"), "there is no option xyzzy")

    def test_paths(self) -> None:
        """Several directories; file: is taken off, other schemes are refused with what to do."""
        self.assertEqual(parse({"paths": '["/a", "file:///b", "file:/c"]'}).paths, ("/a", "/b", "/c"))
        self.assertIn("copyToLocal", str(self.assertRaises(SettingError, parse, {"path": "hdfs://h/s"})))

    def test_values(self) -> None:
        """A wrong value is refused by a sentence that names the option and says what is right."""
        self.assertIn("option failOnCorrupt: 'yes' is neither true nor false", self.refused(failOnCorrupt="yes"))
        self.assertIn("did you mean consumequeue?", self.refused(table="consumequeu"))
        self.assertIn("option partitionBytes", self.refused(partitionBytes="12 parsecs"))
        self.assertIn("less than 65536 B", self.refused(partitionBytes="1"))
        self.assertIn("option verifyCrc", self.refused(verifyCrc="maybe"))
        self.assertIn("option indexSlots", self.refused(indexSlots="0"))
        self.assertIn("option columnNameOfCorruptRecord", self.refused(columnNameOfCorruptRecord=" "))
        for name in ("topic", "Topic"):  # Spark does not tell them apart
            self.assertIn(f"a column {name} already", self.refused(columnNameOfCorruptRecord=name))
        for wrong in ("nonsense", "[1]", '"/a"'):
            self.assertIn("option paths", self.refused(paths=wrong))
        self.assertIn("option startingTimestamp", self.refused(startingTimestamp="yesterday"))
        for wrong in ("first", "-1", "1.5", "[]", "{}", '{"T": {"x": 1}}', '{"T": {"0": -3}}', '{"T": 1, "U": {}}'):
            self.assertIn("option startingOffsets", self.refused(startingOffsets=wrong), wrong)

    def test_columns(self) -> None:
        """Columns are named by commas between them, in any case, each once; the one for damage comes by itself."""
        for text, expected in (("topic", ("topic",)), ("BODY, Topic", ("body", "topic"))):
            self.assertEqual(parse({"path": "/s", "columns": text}).columns, expected)
        self.assertEqual(
            parse({"path": "/s", "columns": "topic", "columnNameOfCorruptRecord": "Bad"}).columns, ("topic", "Bad")
        )
        for wrong in ("", "topic,", "nosuch", "topic,Topic", "tag_hash"):
            self.assertIn("option columns", self.refused(columns=wrong))

    def test_sizes(self) -> None:
        """Sizes may have units."""
        for text, expected in (("65536", 65536), ("64k", 65536), ("2 MB", 2 << 20), ("1G", 1 << 30)):
            self.assertEqual(parse({"path": "/s", "partitionBytes": text}).partition_bytes, expected)

    def test_verify(self) -> None:
        """Checksums are verified unless told otherwise; what was once decided by the columns is not any more."""
        for text, expected in (("true", True), ("false", False), ("AUTO", True)):
            self.assertIs(parse({"path": "/s", "verifyCrc": text}).verify_crc, expected)

    def test_offsets(self) -> None:
        """Offsets are names, physical for all or by directory, or by topic and queue."""
        for text, expected in (
            ("earliest", Position("earliest")),
            ("Latest", Position("latest")),
            ("4096", Position(physical=4096)),
            ('{"/a/": 7}', Position(by_store={"/a": 7})),
            ('{"T": {"0": 5, "1": -2}}', Position(by_queue={("T", 0): 5, ("T", 1): -2})),
        ):
            self.assertEqual(parse({"path": "/s", "endingOffsets": text}).ending, expected)

    def test_times(self) -> None:
        """Times are milliseconds or ISO 8601, UTC where no zone is given; they exclude offsets."""
        for text in ("1767225600000", "2026-01-01T00:00:00Z", "2026-01-01", "2026-01-01T08:00:00+08:00"):
            self.assertEqual(parse({"path": "/s", "startingTimestamp": text}).starting_ms, 1767225600000)
        self.assertIn("exclude each other", self.refused(endingOffsets="latest", endingTimestamp="1"))

    def test_tables(self) -> None:
        """Options about messages are refused for other tables."""
        self.assertIn("decompressBody is for table messages", self.refused(table="index", decompressBody="true"))
        self.assertIn(
            "subscribe is for table messages or consumequeue, not for index", self.refused(table="index", subscribe="T")
        )

    def test_subscriptions(self) -> None:
        """Topics are names or a pattern, queues are numbers; each is checked, and offsets are of these alone."""
        found = parse({"path": "/s", "subscribe": "orders, %RETRY%g", "queues": "0,3"})
        self.assertEqual((found.topics, found.queues), ({"orders", "%RETRY%g"}, {0, 3}))
        pattern = parse({"path": "/s", "subscribepattern": "order.*", "table": "consumequeue"}).topic_pattern
        assert pattern is not None
        self.assertEqual(pattern.pattern, "order.*")
        self.assertIn("exclude each other", self.refused(subscribe="a", subscribePattern="b"))
        for wrong in ("", "a,,b", "a,"):
            self.assertIn("empty name", self.refused(subscribe=wrong), wrong)
        self.assertIn(
            "option subscribePattern: '*' is not a Python regular expression", self.refused(subscribePattern="*")
        )
        for wrong in ("x", "-1", "1;2"):
            self.assertIn("is not a queue number", self.refused(queues=wrong), wrong)
        offsets = '{"T": {"1": 5}}'
        for name in ("startingOffsets", "endingOffsets"):
            other = self.refused(subscribePattern="T.+", **{name: offsets})
            self.assertEqual(other, f"option {name}: topic T is not subscribed to")
            queue = self.refused(subscribe="T", queues="0", **{name: offsets})
            self.assertEqual(queue, f"option {name}: queue 1 of topic T is not among the option queues")
        self.assertEqual(parse({"path": "/s", "subscribe": "T", "startingOffsets": offsets}).topics, {"T"})


class ColumnsTests(SynchronousTestCase):
    def test_subset(self) -> None:
        """Any columns in any order may be asked for."""
        check_columns(pa.schema([MESSAGES.field("topic"), MESSAGES.field("store")]), "messages")
        check_columns(table_schema("messages", "_bad"), "messages", "_bad")

    def test_refusal(self) -> None:
        """An unknown column, or one of another type, is refused by name."""
        unknown = pa.schema([pa.field("queue_ofset", pa.int64())])
        error = self.assertRaises(SettingError, check_columns, unknown, "messages")
        self.assertEqual(str(error), "table messages has no column queue_ofset; did you mean queue_offset?")
        wrong = pa.schema([pa.field("queue_id", pa.int64())])
        self.assertIn("int32, not int64", str(self.assertRaises(SettingError, check_columns, wrong, "messages")))
