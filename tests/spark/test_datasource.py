"""Tests of L{smartgo.spark.datasource} in Spark itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import Any
from unittest.mock import patch as patched

from pyspark.errors import PySparkException
from pyspark.sql.types import StringType, StructField, StructType
from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import SettingError
from smartgo.spark.datasource import SmartgoDataSource
from smartgo.spark.java import check_java
from smartgo.spark.starting import FAST
from tests import golden_store
from tests.spark.logs import patch, rows
from tests.spark.session import ROOT, SparkTestCase
from tests.spark.test_reader import as_manifest, known


def as_dict(row: Any) -> dict[str, Any]:
    """A row of Spark's in the form of L{rows}."""
    found: dict[str, Any] = row.asDict(recursive=False)
    found["properties"] = list(found["properties"].items())
    found["body"] = bytes(found["body"])
    return found


class GoldenTests(SparkTestCase):
    def setUp(self) -> None:
        """Unpack both real stores."""
        super().setUp()
        self.root = os.path.abspath(self.mktemp())
        self.manifests = {name: golden_store.unpack(name, os.path.join(self.root, name)) for name in golden_store.NAMES}

    def read(self, *names: str, **options: Any) -> Any:
        """A data frame of stores."""
        reader = self.spark.read.format("smartgo")
        for name, value in options.items():
            reader = reader.option(name, value)
        return reader.load([os.path.join(self.root, name) for name in names])

    def test_manifest(self) -> None:
        """Every message of both stores, read together, is as the official decoder read it."""
        frame = self.read(*golden_store.NAMES, decompressBody=True)
        found = [as_dict(row) for row in frame.collect()]
        for name, manifest in self.manifests.items():
            mine = [as_manifest(row) for row in found if row["store"] == os.path.join(self.root, name)]
            self.assertEqual(
                sorted(mine, key=lambda one: one["physicalOffset"]), list(map(known, manifest["messages"]))
            )

    def test_columns(self) -> None:
        """The option columns leaves only these, in that order; a schema may name columns in capitals."""
        count = len(self.manifests["store-a"]["messages"])
        frame = self.read("store-a", columns="Queue_Id, topic")
        self.assertEqual(frame.columns, ["queue_id", "topic"])
        self.assertEqual(frame.count(), count)
        self.assertEqual(self.read("store-a", table="consumequeue", columns="size").columns, ["size"])
        damage = self.read("store-a", columns="topic", columnNameOfCorruptRecord="damage")
        self.assertEqual(damage.columns, ["topic", "damage"])
        reader = self.spark.read.format("smartgo").schema("TOPIC string, Queue_ID int")
        found = reader.load(os.path.join(self.root, "store-a")).toArrow()
        self.assertEqual(found.column_names, ["TOPIC", "Queue_ID"])
        self.assertEqual(found.to_pydict()["TOPIC"], [row.topic for row in frame.collect()])
        error = self.assertRaises(PySparkException, self.read, "store-a", columns="topic,quue_id")
        self.assertIn("option columns: table messages has no column quue_id; did you mean queue_id?", str(error))

    def test_keys(self) -> None:
        """The options key and uniqueKey leave the messages of a key, with the index of a real broker."""
        messages = self.read("store-a").where("key is not null and unique_id is not null").collect()
        one = messages[len(messages) // 2]
        found = self.read("store-a", uniqueKey=one["unique_id"], subscribe=one["topic"]).collect()
        same = [row["physical_offset"] for row in messages if row["unique_id"] == one["unique_id"]]
        self.assertEqual(
            sorted(row["physical_offset"] for row in found),
            sorted(at for at in same if at in {r["physical_offset"] for r in messages if r["topic"] == one["topic"]}),
        )
        expected = {row["physical_offset"] for row in messages if one["key"] in row["keys"]}
        self.assertEqual({row["physical_offset"] for row in self.read("store-a", key=one["key"]).collect()}, expected)

    def test_unknown_topic(self) -> None:
        """Offsets of a topic that no store has, and nobody subscribed to, are refused."""
        offsets = '{"nosuch": {"0": 10}}'
        error = self.assertRaises(PySparkException, self.read("store-a", startingOffsets=offsets).count)
        self.assertIn("option startingOffsets: topic nosuch is not subscribed to, and no store has it", str(error))
        self.assertEqual(self.read("store-a", startingOffsets=offsets, subscribe="nosuch").count(), 0)

    def test_other_tables(self) -> None:
        """Units and index entries, as many as there are."""
        manifest = self.manifests["store-a"]
        units = self.read("store-a", table="consumequeue").count()
        self.assertEqual(units, sum(len(queue["units"]) for queue in manifest["consumeQueues"]))
        entries = self.read("store-a", table="index").groupBy("file").count().collect()
        self.assertEqual(
            {row["file"]: row["count"] for row in entries},
            {file["file"]: file["indexCount"] - 1 for file in manifest["indexFiles"]},
        )

    def test_queries(self) -> None:
        """What is pushed down and what is not, columns and counts: Spark's answers are those of plain Python."""
        plain = rows(os.path.join(self.root, "store-a"))
        middle = plain[300]["store_timestamp"]
        for clause, expected in (
            ("topic = 'Order' and queue_id = 1", lambda row: row["topic"] == "Order" and row["queue_id"] == 1),
            ("topic in ('Plain', 'Big') and queue_offset >= 5",
             lambda row: row["topic"] in ("Plain", "Big") and row["queue_offset"] >= 5),
            (f"store_timestamp > timestamp '{middle:%Y-%m-%d %H:%M:%S.%f}'",
             lambda row: row["store_timestamp"] > middle),
            ("topic <> 'Plain'", lambda row: row["topic"] != "Plain"),
            ("tags = 'TagA'", lambda row: row["tags"] == "TagA"),
            ("size(keys) = 0 or body_size > 1000", lambda row: not row["keys"] or row["body_size"] > 1000),
        ):  # fmt: skip
            offsets = [row["physical_offset"] for row in plain if expected(row)]
            for pushes in (True, False):
                frame = self.read("store-a", filterPushdown=pushes)
                found = frame.where(clause).select("physical_offset").collect()
                self.assertEqual(sorted(row[0] for row in found), offsets, clause)
        topics = self.spark.read.format("smartgo").schema("topic string").load(os.path.join(self.root, "store-a"))
        counts = {row["topic"]: row["count"] for row in topics.groupBy("topic").count().collect()}
        self.assertEqual(counts, {name: sum(row["topic"] == name for row in plain) for name in counts})
        self.assertEqual(sum(counts.values()), len(plain))

    def test_damage(self) -> None:
        """A damaged copy: the read fails by a sentence that says what to do, or all but the damaged is there."""
        copy = os.path.join(self.root, "copy")
        shutil.copytree(os.path.join(self.root, "store-a"), copy)
        messages = self.manifests["store-a"]["messages"]
        lost = [messages[number]["physicalOffset"] for number in (77, 78, 300)]
        log = os.path.join(copy, "commitlog", "0" * 20)
        patch(log, lost[0] + 4, b"\0")
        patch(log, lost[1] + 4, b"\0")
        patch(log, lost[2] + 100, b"\xff\xff")
        error = self.assertRaises(PySparkException, self.read("copy").collect)
        self.assertIn(f"damaged at physical offset {lost[0]}", str(error))
        left = self.read("copy", failOnCorrupt=False).select("physical_offset").collect()
        self.assertEqual([row[0] for row in left], [one["physicalOffset"] for one in messages
                                                    if one["physicalOffset"] not in lost])  # fmt: skip
        told = self.read("copy", failOnCorrupt=False, columnNameOfCorruptRecord="bad").where("bad is not null")
        self.assertEqual(
            [(row["bad"]["offset"], row["bad"]["length"]) for row in told.orderBy("physical_offset").collect()],
            [(lost[0], messages[77]["storeSize"] + messages[78]["storeSize"]), (lost[2], messages[300]["storeSize"])],
        )

    def test_refusals(self) -> None:
        """What a user got wrong is told in one sentence."""
        for options, sentence in (
            ({"startingOfsets": "earliest"}, "did you mean startingOffsets?"),
            ({"startingOffsets": "latest"}, "latest is for streams"),
            ({"endingOffsets": "earliest"}, "option endingOffsets"),
        ):
            error = self.assertRaises(PySparkException, lambda given: self.read("store-a", **given).collect(), options)
            self.assertIn(sentence, str(error))
        wrong = self.spark.read.format("smartgo").schema("topik string")
        self.assertIn("did you mean topic?", str(self.assertRaises(PySparkException, wrong.load(self.root).collect)))

    def test_frame_used_again(self) -> None:
        """What one query asked of a frame narrows no other, nor another part of the same query."""
        messages = self.manifests["store-a"]["messages"]
        orders = sum(one["topic"] == "Order" for one in messages)
        frame = self.read("store-a")
        order, others = frame.where("topic = 'Order'"), frame.where("topic <> 'Order'")
        self.assertEqual(order.count(), orders)
        self.assertEqual(frame.count(), len(messages))
        self.assertEqual(others.union(order).count(), len(messages))
        self.assertEqual(order.join(frame, "physical_offset").count(), orders)
        subscribed = self.read("store-a", subscribe="Order")
        self.assertEqual(subscribed.where("queue_id = 1").union(subscribed.where("queue_id <> 1")).count(), orders)
        self.assertEqual(subscribed.count(), orders)

    def test_without_pushdown(self) -> None:
        """The option filterPushdown needs a session in which Spark may push filters; a read without it does not."""
        self.spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
        try:
            pushing = self.read("store-a", filterPushdown=True)
            self.assertIn("filterPushdown.enabled", str(self.assertRaises(PySparkException, pushing.count)))
            found = self.read("store-a").where("topic = 'Order'").count()
        finally:
            self.spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
        self.assertEqual(found, sum(one["topic"] == "Order" for one in self.manifests["store-a"]["messages"]))


class BoundsTests(SynchronousTestCase):
    def test_nothing_to_find(self) -> None:
        """A batch read that begins at an end, or ends at a beginning, is refused; of single queues too."""
        schema = StructType([StructField("topic", StringType())])
        for name, text, sentence in (
            ("startingOffsets", "latest", "latest is for streams"),
            ("startingOffsets", '{"T": {"0": 5, "3": -1}}', "at the end (-1) of topic T, queue 3"),
            ("endingOffsets", "earliest", "ends at the earliest offset"),
            ("endingOffsets", '{"T": {"0": -2}}', "ends at the earliest offset"),
        ):
            source = SmartgoDataSource({"path": "/s", name: text})
            error = str(self.assertRaises(SettingError, source.reader, schema))
            self.assertIn(f"option {name}: ", error)
            self.assertIn(sentence, error)


class JavaTests(SynchronousTestCase):
    def refused(self, home: str) -> str:
        """The sentence for some JAVA_HOME."""
        with patched.dict(os.environ, {"JAVA_HOME": home}):
            return f"{self.assertRaises(SettingError, check_java.__wrapped__)}"

    def java(self, text: str) -> str:
        """A JAVA_HOME whose java tells some version."""
        home: str = os.path.abspath(self.mktemp())
        os.makedirs(os.path.join(home, "bin"))
        path = os.path.join(home, "bin", "java")
        with open(path, "w") as file:
            file.write(f"#!/bin/sh\necho '{text}' >&2\n")
        os.chmod(path, 0o755)
        return home

    def test_refusals(self) -> None:
        """No Java, an old one, or one that does not tell: each sentence names Java 17 and where was looked."""
        self.assertIn("needs Java 17 or newer, and there is none in JAVA_HOME=/no", self.refused("/no"))
        self.assertIn("has Java 11", self.refused(self.java('openjdk version "11.0.2" 2019')))
        self.assertIn("has Java 8", self.refused(self.java('java version "1.8.0_292"')))
        self.assertIn("does not tell its version", self.refused(self.java("hello")))

    def test_session(self) -> None:
        """A session asked for where there is no Java ends in that sentence, and in nothing of Spark's own."""
        code = "import smartgo.spark; smartgo.spark.session()"
        environment = {"PATH": "/nowhere", "PYTHONPATH": ROOT}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False, timeout=300
        )
        self.assertEqual(done.returncode, 1)
        self.assertEqual(
            done.stderr.splitlines()[-1],
            "smartgo.errors.SettingError: Spark needs Java 17 or newer, and there is none in the PATH; install a JDK"
            " (such as Debian's openjdk-17-jre-headless) or set JAVA_HOME",
        )
        self.assertNotIn("pyspark", done.stderr)

    def test_submitted(self) -> None:
        """A program that spark-submit started is not asked for a Java: it has one."""
        with patched.dict(os.environ, {"JAVA_HOME": "/no", "PYSPARK_GATEWAY_PORT": "1"}):
            check_java.__wrapped__()

    def test_found(self) -> None:
        """Java 17 will do, and what comes after."""
        for text in ('openjdk version "17.0.15" 2025', 'openjdk version "25" 2025'):
            with patched.dict(os.environ, {"JAVA_HOME": self.java(text)}):
                check_java.__wrapped__()


class SettingTests(SparkTestCase):
    def test_fast(self) -> None:
        """A session that is started has the settings that cost nothing, beside Java options of the user's own."""
        given = self.spark.sparkContext.getConf()
        self.assertEqual({name: given.get(name) for name in FAST}, dict(FAST))
        self.assertIn("TieredStopAtLevel", given.get("spark.driver.extraJavaOptions"))
        read = self.spark._jvm.java.lang.System.getProperty
        self.assertEqual(read("arrow.enable_unsafe_memory_access"), "true")
        self.assertEqual(read("arrow.enable_null_check_for_get"), "false")
