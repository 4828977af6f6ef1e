"""Tables in Spark's catalog: which options they have, in plain Python and in Spark itself."""

from __future__ import annotations

import os
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql.types import IntegerType, StringType, StructField, StructType
from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import SettingError
from smartgo.spark import catalog
from tests import golden_store
from tests.spark.session import SparkTestCase

CREATED = {
    "location": "file:/a/store",
    "comment": "c",
    "subscribe": "Order",
    "option.subscribe": "Order",
    "my.property": "x",
    "owner": "me",
    "path": "file:/a/store",
    "provider": "smartgo",
}
"""What Spark 4.1 to 4.3 give for C{CREATE TABLE ... OPTIONS (path .., subscribe ..) TBLPROPERTIES (my.property ..)}."""
COLUMNS = StructType([StructField("a", IntegerType()), StructField("b", StringType())])


class OptionsTests(SynchronousTestCase):
    def test_created(self) -> None:
        """Of what C{CREATE TABLE} gives, only the options and the path count, in lower case; a misspelt one too."""
        self.assertEqual(catalog.own_options(CREATED), {"path": "file:/a/store", "subscribe": "Order"})
        misspelt = {**CREATED, "subscrib": "x", "option.subscrib": "x"}
        self.assertEqual(catalog.own_options(misspelt)["subscrib"], "x")
        capitals = {name.upper(): text for name, text in CREATED.items()}
        self.assertEqual(catalog.own_options(capitals), {"path": "file:/a/store", "subscribe": "Order"})

    def test_given(self) -> None:
        """Options that a program gives are left as they are: there, an unknown one is a mistake."""
        given = {"path": "/a", "owner": "me"}
        self.assertEqual(catalog.own_options(given), given)
        self.assertFalse(catalog.is_table(given))
        self.assertTrue(catalog.is_table(CREATED))

    def test_recalled(self) -> None:
        """The columns of a table bring its options with them; those of a query come over them."""
        kept = catalog.remember(COLUMNS, {"path": "/a", "subscribe": "T"})
        self.assertEqual([field.name for field in kept], ["a", "b"])
        self.assertEqual(catalog.options_of_table({}, kept), {"path": "/a", "subscribe": "T"})
        self.assertEqual(catalog.options_of_table({"Subscribe": "U"}, kept), {"path": "/a", "subscribe": "U"})
        self.assertEqual(catalog.options_of_table({"path": "/b"}, COLUMNS), {"path": "/b"})

    def test_lost(self) -> None:
        """A table whose options Spark dropped is refused by a sentence that says what to do."""
        error = self.assertRaises(SettingError, catalog.options_of_table, {}, COLUMNS)
        self.assertIn("leave the list out", str(error))


class CatalogTests(SparkTestCase):
    def setUp(self) -> None:
        """A real store; no table of an earlier test is left."""
        super().setUp()
        self.root = os.path.abspath(self.mktemp())
        self.messages = golden_store.unpack("store-a", self.root)["messages"]
        self.addCleanup(self.spark.sql, "DROP TABLE IF EXISTS t")

    def one(self, query: str) -> Any:
        """The first value of a query's first row."""
        return self.spark.sql(query).first()[0]

    def test_table(self) -> None:
        """A table of the catalog is read with its options, by SQL and as a stream; a query may give others."""
        self.spark.sql(
            f"CREATE TABLE t USING smartgo OPTIONS (path '{self.root}', subscribe 'Order') COMMENT 'orders'"
            " TBLPROPERTIES ('team' = 'sales')"
        )
        orders = sum(one["topic"] == "Order" for one in self.messages)
        self.assertEqual(self.one("SELECT count(*) FROM t"), orders)
        self.assertEqual(self.one("SELECT count(*) FROM t a JOIN t b ON a.physical_offset = b.physical_offset"), orders)
        plain = sum(one["topic"] == "Plain" for one in self.messages)
        self.assertEqual(self.one("SELECT count(*) FROM t WITH (subscribe = 'Plain')"), plain)
        sink = f"{self.root}.sink"
        query = (
            self.spark.readStream.table("t").writeStream.format("parquet").trigger(availableNow=True)
            .option("checkpointLocation", f"{self.root}.progress").start(sink)
        )  # fmt: skip
        query.awaitTermination()
        self.assertEqual(self.spark.read.parquet(sink).count(), orders)

    def test_ways(self) -> None:
        """A pattern for a path, a location, a list of paths and the catalog's own method make tables, too."""
        pattern = f"{os.path.dirname(self.root)}/{os.path.basename(self.root)}*"
        for clause in (
            f"OPTIONS (path '{pattern}')",
            f"LOCATION '{self.root}'",
            f"OPTIONS (paths '[\"{self.root}\"]')",
        ):
            self.spark.sql(f"CREATE TABLE t USING smartgo {clause}")
            self.assertEqual(self.one("SELECT count(*) FROM t"), len(self.messages), clause)
            self.spark.sql("DROP TABLE t")
        self.spark.catalog.createTable("t", source="smartgo", path=self.root, subscribe="Order")
        self.assertEqual(self.one("SELECT count(DISTINCT topic) FROM t"), 1)

    def test_refused(self) -> None:
        """A misspelt option is refused when the table is made; a table with a list of columns when it is read."""
        for sql, sentence in (
            (f"CREATE TABLE t USING smartgo OPTIONS (path '{self.root}', subscrib 'a')", "did you mean subscribe?"),
            (f"CREATE TABLE t (topic string) USING smartgo OPTIONS (path '{self.root}')", None),
            ("SELECT count(*) FROM t", "leave the list out"),
        ):
            if sentence is None:
                self.spark.sql(sql)
                continue
            error = self.assertRaises(PySparkException, lambda text: self.spark.sql(text).collect(), sql)
            self.assertIn(sentence, str(error))
