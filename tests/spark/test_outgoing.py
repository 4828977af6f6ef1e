"""From rows to messages, and messages to portions."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import SettingError
from smartgo.schema import properties
from smartgo.spark.columns import MESSAGES
from smartgo.spark.outgoing import BadRow, Outgoing, Shape, portions

SPARK_TYPES = {
    pa.string(): "string",
    pa.binary(): "binary",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.bool_(): "boolean",
    pa.timestamp("us", tz="UTC"): "timestamp",
}
PAIRS = pa.map_(pa.string(), pa.string())


def spark_type(kind: pa.DataType) -> str:
    """Return Spark's name of an Arrow type."""
    if pa.types.is_map(kind):
        return "map<string,string>"
    return "array<string>" if pa.types.is_list(kind) else SPARK_TYPES[kind]


def outgoing(row: int = 1, topic: str = "T", size: int = 10, **values: Any) -> Outgoing:
    """A message with a body of C{size} bytes."""
    given = {"queue_id": None, "tag": "", "keys": (), "properties": {}, "delay_level": 0, "flag": 0, **values}
    return Outgoing(row=row, topic=topic, body=b"x" * size, **given)


class ShapeTests(SynchronousTestCase):
    def messages(self, shape: Shape, **columns: Any) -> list[Outgoing]:
        """Return the messages made of the rows of a batch."""
        names = list(columns)
        batch = pa.record_batch([pa.array(*columns[name]) for name in names], names=names)
        return list(shape.messages([batch]))

    def refused(self, columns: list[tuple[str, str]], topic: str | None = "T") -> str:
        """Return why columns cannot be written."""
        return str(self.assertRaises(SettingError, Shape, columns, topic))

    def test_all_columns(self) -> None:
        """Each column becomes what it is named for, in whatever order and case."""
        shape = Shape(
            [
                ("Value", "string"),
                ("KEYS", "array<string>"),
                ("tags", "string"),
                ("properties", "map<string,string>"),
                ("unique_id", "string"),
                ("queue_id", "bigint"),
                ("delay_level", "int"),
                ("flag", "int"),
                ("topic", "string"),
            ],
            None,
        )
        (found,) = self.messages(
            shape,
            Value=(["grüße"],),
            KEYS=([["a", None, "b"]],),
            tags=(["x"],),
            properties=([[("p", "1")]], PAIRS),
            unique_id=(["U"],),
            queue_id=([3],),
            delay_level=([2],),
            flag=([-7],),
            topic=(["Orders"],),
        )
        own = {"p": "1", properties.UNIQ_KEY: "U"}
        self.assertEqual(found, Outgoing(1, "Orders", 3, "grüße".encode(), "x", ("a", "b"), own, 2, -7))

    def test_least(self) -> None:
        """A body and the option topic are enough; rows are counted through all batches."""
        shape = Shape([("body", "binary")], "T")
        batches = [pa.record_batch([pa.array(part, pa.binary())], names=["body"]) for part in ([b"1", b"2"], [b"3"])]
        self.assertEqual(
            [(one.row, one.topic, one.body, one.queue_id) for one in shape.messages(batches)],
            [(1, "T", b"1", None), (2, "T", b"2", None), (3, "T", b"3", None)],
        )

    def test_read_and_written(self) -> None:
        """A table that was read can be written as it is: what the broker sets is passed over, tags, keys, id stay."""
        shape = Shape([(field.name, spark_type(field.type)) for field in MESSAGES], None)
        self.assertNotIn("store", shape.used)
        values = dict.fromkeys(shape.used)
        stored = [("CLUSTER", "c"), ("KEYS", "k1 k2"), ("TAGS", "t"), ("UNIQ_KEY", "U"), ("WAIT", "true"), ("own", "1")]
        found = shape.message(
            1, {**values, "topic": "T", "body": b"x", "properties": stored, "keys": ["k1", "k2"], "tags": "t"}
        )
        self.assertEqual((found.tag, found.keys), ("t", ("k1", "k2")))
        self.assertEqual(found.properties, {"own": "1", properties.UNIQ_KEY: "U"})

    def test_compressed(self) -> None:
        """A body that is compressed as it was stored is refused: consumers would not know; one unpacked is sent."""
        columns = [("body", "binary"), ("sys_flag", "int"), ("body_size", "int")]
        shape = Shape(columns, "T")
        error = self.assertRaises(BadRow, shape.message, 1, {"body": b"x" * 9, "sys_flag": 1, "body_size": 9})
        self.assertIn("decompressBody", str(error))
        self.assertEqual(shape.message(1, {"body": b"x" * 50, "sys_flag": 1, "body_size": 9}).body, b"x" * 50)
        self.assertEqual(shape.message(1, {"body": b"x" * 9, "sys_flag": 0, "body_size": 9}).body, b"x" * 9)

    def test_properties_alone(self) -> None:
        """Tag and keys are taken from the properties where no columns tell them."""
        shape = Shape([("body", "binary"), ("properties", "map<string,string>")], "T")
        found = shape.message(1, {"body": b"x", "properties": [("KEYS", "k1 k2"), ("TAGS", "t")]})
        self.assertEqual((found.tag, found.keys, found.properties), ("t", ("k1", "k2"), {}))

    def test_topic(self) -> None:
        """The option topic goes before the column; without both there is nothing to write to."""
        columns = [("topic", "string"), ("body", "string")]
        self.assertEqual(Shape(columns, "A").message(1, {"topic": "B", "body": "x"}).topic, "A")
        self.assertEqual(Shape(columns, None).message(1, {"topic": "B", "body": "x"}).topic, "B")
        self.assertIn("option topic", self.refused([("body", "string")], None))

    def test_wrong_columns(self) -> None:
        """Missing, unknown, doubled and mistyped columns are refused before anything is sent, by name."""
        self.assertIn("body (or value)", self.refused([("topic", "string")]))
        self.assertIn("Propertees", self.refused([("body", "string"), ("Propertees", "string")]))
        self.assertIn("drop one", self.refused([("body", "string"), ("value", "string")]))
        self.assertIn("column body is int", self.refused([("body", "int")]))
        self.assertIn("map<string,string>", self.refused([("body", "string"), ("properties", "map<string,int>")]))

    def test_bad_rows(self) -> None:
        """A row without topic or body, or with a number out of its range, is refused by its number."""
        shape = Shape([("topic", "string"), ("body", "string"), ("queue_id", "int"), ("flag", "bigint")], None)
        good = {"topic": "T", "body": "x", "queue_id": 0, "flag": 0}
        self.assertEqual(shape.message(5, good).row, 5)
        for wrong in ({"topic": None}, {"body": None}, {"queue_id": -1}, {"flag": 1 << 31}):
            error = self.assertRaises(BadRow, shape.message, 5, {**good, **wrong})
            self.assertIn("row 5", str(error))
            self.assertEqual(error.row, 5)

    def test_null_property(self) -> None:
        """A property that is null is refused, by its name."""
        shape = Shape([("body", "string"), ("properties", "map<string,string>")], "T")
        error = self.assertRaises(BadRow, shape.message, 1, {"body": "x", "properties": [("colour", None)]})
        self.assertIn("'colour'", str(error))


class PortionTests(SynchronousTestCase):
    def test_together(self) -> None:
        """Messages of one topic and queue go together in their order, up to a count."""
        messages = [outgoing(row, "AB"[row % 2]) for row in range(6)]
        found = [(one.topic, [each.row for each in one.messages]) for one in portions(messages, 10_000, 2)]
        self.assertEqual(sorted(found), [("A", [0, 2]), ("A", [4]), ("B", [1, 3]), ("B", [5])])

    def test_queues(self) -> None:
        """A queue that is named has its own portions."""
        messages = [outgoing(1), outgoing(2, queue_id=0), outgoing(3, queue_id=1), outgoing(4, queue_id=0)]
        found = {one.queue_id: [each.row for each in one.messages] for one in portions(messages, 10_000, 100)}
        self.assertEqual(found, {None: [1], 0: [2, 4], 1: [3]})

    def test_bytes(self) -> None:
        """A portion has no more bytes than allowed; a message that alone has more goes alone, in its place."""
        messages = [outgoing(row, size=size) for row, size in enumerate([400, 400, 400, 5000, 400])]
        found = [[each.row for each in one.messages] for one in portions(messages, 1000, 100)]
        self.assertEqual(found, [[0, 1], [2], [3], [4]])
        for one in portions(messages, 1000, 100):
            self.assertTrue(len(one.messages) == 1 or sum(each.size for each in one.messages) <= 1000)

    def test_alone(self) -> None:
        """Delayed messages and those of retry topics go alone, as no batch may hold them."""
        messages = [outgoing(1), outgoing(2, delay_level=3), outgoing(3), outgoing(4, "%RETRY%g"), outgoing(5)]
        found = [[each.row for each in one.messages] for one in portions(messages, 10_000, 100)]
        self.assertEqual(found, [[1], [2], [4], [3, 5]])

    def test_bounded(self) -> None:
        """However many topics take turns, no more than eight portions' bytes are held back."""
        taken = 0

        def messages() -> Any:
            nonlocal taken
            for row in range(2000):
                one = outgoing(row, f"T{row % 500}", size=100)
                taken += one.size
                yield one

        given = rows = 0
        for one in portions(messages(), 2000, 100):
            self.assertLessEqual(taken - given, 8 * 2000 + 200)
            given += sum(each.size for each in one.messages)
            rows += len(one.messages)
        self.assertEqual(rows, 2000)
