"""The export: its command line, what it writes to Parquet across an interruption, and the comparison."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime

from pyspark.sql.types import StructType
from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import SettingError
from smartgo.spark import job
from smartgo.spark.export.command import REPORT
from smartgo.spark.export.reconciling import KEYS, Reconciliation, Row, compare
from smartgo.spark.export.reconcilingpage import page
from smartgo.spark.export.targets import package_of, settings_of
from tests.spark.session import SparkTestCase
from tests.spark.test_job import run
from tests.spark.test_storefollower import DiskLog


def queue(**figures: int) -> Row:
    """One queue of a comparison."""
    row: Row = {"store": "/s", "topic": "<b>", "queue_id": 0, "first": 0, "last": 9, "source": 10, "rows": 10}
    return {**row, "missing": 0, "twice": 0, "foreign": 0, **figures}


class CommandTests(SynchronousTestCase):
    def setUp(self) -> None:
        """A directory that looks like a store."""
        self.store = os.path.abspath(self.mktemp())
        os.makedirs(os.path.join(self.store, "commitlog"))

    def test_usage(self) -> None:
        """Arguments that cannot be understood end with status 2."""
        for wrong in (("export",), ("export", self.store, "--to", "t", "--bookmark", "b", "--file-size", "many")):
            status, said = run(*wrong)
            self.assertEqual(status, job.USAGE, wrong)
            self.assertIn("usage: smartgo-spark export", said)

    def test_refused(self) -> None:
        """What cannot be done is refused by one sentence before Spark starts."""
        self.patch(job, "check_java", lambda: None)
        plain = ("export", self.store, "--to", "t", "--bookmark", "b")
        for arguments, sentence in (
            ((*plain, "--json", "auto"), "--json needs --bad"),
            ((*plain, "--compact"), "--compact is for delta and iceberg"),
            ((*plain, "--option", "subscribe"), "is not NAME=VALUE"),
            (("export", "/nowhere", "--to", "t", "--bookmark", "b"), "/nowhere"),
        ):
            status, said = run(*arguments)
            self.assertEqual((status, said.count("\n")), (job.WRONG_SETTING, 1), said)
            self.assertIn(sentence, said)


class TargetTests(SynchronousTestCase):
    def test_packages(self) -> None:
        """A format's jar goes with the version of Spark; where none does, the versions that work are named."""
        self.assertIsNone(package_of("parquet", "4.3.0"))
        self.assertIn("delta-spark_4.2_2.13", package_of("delta", "4.2.1") or "")
        error = str(self.assertRaises(SettingError, package_of, "iceberg", "4.3.0"))
        self.assertIn("pyspark==4.1.*", error)

    def test_settings(self) -> None:
        """A warehouse becomes the catalog that the table's name begins with."""
        found = settings_of("iceberg", "lake.db.t", "/w")
        self.assertEqual(found["spark.sql.catalog.lake.warehouse"], "/w")
        self.assertNotIn("spark.sql.catalog.lake", settings_of("iceberg", "lake.db.t", None))


class PageTests(SynchronousTestCase):
    def test_page(self) -> None:
        """The page says whether all is well, escapes names, and puts queues that do not agree first."""
        made = datetime(2026, 1, 31, tzinfo=UTC)
        good = Reconciliation(made, ["/s"], ["/t"], {"/s": 5}, [queue()])
        self.assertTrue(good.is_good)
        self.assertIn("Every message is there once", page(good))
        bad = Reconciliation(made, ["/s"], ["/t"], {"/s": 5}, [queue(), queue(queue_id=7777, missing=3)])
        text = page(bad)
        self.assertIn("do not agree", text)
        self.assertNotIn("<b>", text)
        self.assertLess(text.index("7,777"), text.rindex("&lt;b&gt;"))
        told = json.loads(bad.as_json())
        self.assertEqual((told["good"], told["totals"]["missing"]), (False, 3))


class ExportTests(SparkTestCase):
    def setUp(self) -> None:
        """A store and a place for everything else."""
        super().setUp()
        self.top = os.path.abspath(self.mktemp())
        self.log = DiskLog(os.path.join(self.top, "store"))

    def export(self) -> tuple[int, str]:
        """Run the command once."""
        names = {"--to": "table", "--bookmark": "bookmark", "--report": "report"}
        places = [word for name, place in names.items() for word in (name, os.path.join(self.top, place))]
        return run("export", self.log.root, *places)

    def test_interrupted(self) -> None:
        """
        Each run adds what came since; a micro-batch that was written but not noted is not stored twice; the report
        agrees with the files.
        """
        for _ in range(10):
            self.log.append()
        status, said = self.export()
        self.assertEqual(status, 0, said)
        self.assertIn("10 messages in the stores, 10 in tables: 0 missing, 0 twice, 0 foreign", said)
        commits = os.path.join(self.top, "bookmark", "messages", "commits")
        os.unlink(os.path.join(commits, "0"))
        os.unlink(os.path.join(commits, ".0.crc"))
        for _ in range(5):
            self.log.append()
        status, said = self.export()
        self.assertEqual(status, 0, said)
        rows = self.spark.read.parquet(os.path.join(self.top, "table"))
        self.assertEqual((rows.count(), rows.select("physical_offset").distinct().count()), (15, 15))
        self.assertLess({"topic", "day"}, set(rows.columns))
        with open(os.path.join(self.top, "report", f"{REPORT}.json"), encoding="utf-8") as file:
            told = json.load(file)
        self.assertEqual((told["good"], told["totals"]["source"], told["totals"]["rows"]), (True, 15, 15))

    def test_compared(self) -> None:
        """A message that lacks, one that is there twice and one of no store are each counted; later ones are not."""
        fields = "store string, topic string, queue_id int, queue_offset bigint, physical_offset bigint"
        source = self.spark.createDataFrame([("/s", "T", 0, at, at * 10) for at in range(2, 8)], fields)
        held = [2, 3, 3, 5, 6]  # 4 lacks; 7 lies behind the bookmark, 0 before the oldest
        rows = [("/s", "T", 0, at, at * 10) for at in held] + [("/s", "T", 0, 0, 0), ("/s", "T", 0, 5, 55)]
        (found,) = compare(source, self.spark.createDataFrame(rows, fields).select(*KEYS), {"/s": 70})
        self.assertIsInstance(source.schema, StructType)
        self.assertEqual((found["first"], found["last"], found["source"]), (2, 6, 5))
        self.assertEqual((found["missing"], found["twice"], found["foreign"], found["rows"]), (1, 1, 1, 6))
