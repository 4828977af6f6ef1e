"""The batch job: its command line, how it ends, and what it counts in the stores of a real broker."""

from __future__ import annotations

import io
import os
import sys
from collections import Counter
from typing import Any

from pyspark.errors import PySparkException
from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import SettingError
from smartgo.spark import job
from smartgo.spark.jobtables import width_of
from smartgo.spark.report import REPORT, page
from tests import golden_store
from tests.spark.session import SparkTestCase

HOUR = 3600_000


def run(*arguments: str) -> tuple[int, str]:
    """Run the command; return its exit status and what it says."""
    said, kept = io.StringIO(), sys.stderr
    sys.stderr = said
    try:
        status = job.main(arguments)
    except SystemExit as end:  # argparse
        status = int(end.code or 0)
    finally:
        sys.stderr = kept
    return status, said.getvalue()


class CommandTests(SynchronousTestCase):
    def setUp(self) -> None:
        """A directory that looks like a store."""
        self.store = os.path.abspath(self.mktemp())
        os.makedirs(os.path.join(self.store, "commitlog"))

    def test_usage(self) -> None:
        """Arguments that cannot be understood end with status 2."""
        for wrong in ((), (self.store,), (self.store, "--out", "x", "--keys", "0"), ("--nonsense",)):
            status, said = run(*wrong)
            self.assertEqual(status, job.USAGE, wrong)
            self.assertIn("usage: smartgo-spark", said)

    def test_no_java(self) -> None:
        """Without Java there is one sentence that says what is needed, and status 78."""

        def none() -> None:
            raise SettingError("Spark needs Java 17 or newer, and there is none in the PATH; install a JDK")

        self.patch(job, "check_java", none)
        status, said = run(self.store, "--out", self.mktemp())
        self.assertEqual((status, said.count("\n")), (job.WRONG_SETTING, 1))
        self.assertTrue(said.startswith("smartgo-spark: Spark needs Java 17"))

    def test_no_store(self) -> None:
        """A path without a store, and a directory to write to that lies in one, are refused before Spark starts."""
        self.patch(job, "check_java", lambda: None)
        for arguments in (("/nowhere", "--out", self.mktemp()), (self.store, "--out", f"{self.store}/report")):
            status, said = run(*arguments)
            self.assertEqual((status, said.count("\n")), (job.WRONG_SETTING, 1), said)

    def test_failed(self) -> None:
        """When Spark fails, what is printed names the cause, in one line."""

        def fails(*_: object) -> None:
            raise PySparkException(
                "[PYTHON_DATA_SOURCE_ERROR] Failed to create Python data source instance: Traceback (most recent call"
                " last):\n  File \"worker.py\", line 1\nModuleNotFoundError: No module named 'smartgo'\n"
            )

        self.patch(job, "check_java", lambda: None)
        self.patch(job, "_session", fails)
        status, said = run("-q", self.store, "--out", self.mktemp())
        self.assertEqual(status, job.FAILED)
        self.assertEqual(
            said,
            "smartgo-spark: Spark failed: [PYTHON_DATA_SOURCE_ERROR] Failed to create Python data source instance:"
            " ModuleNotFoundError: No module named 'smartgo'\n",
        )

    def test_width(self) -> None:
        """Charts over time have at most 120 columns, of a round width."""
        self.assertEqual([width_of(seconds) for seconds in (0, 60, 7200, 86400)], [1, 1, 60, 900])


class JobTests(SparkTestCase):
    def setUp(self) -> None:
        """Both golden stores, one record of the first damaged."""
        super().setUp()
        self.patch(job, "check_java", lambda: None)
        self.top = os.path.abspath(self.mktemp())
        self.messages: list[dict[str, Any]] = []
        for name in golden_store.NAMES:
            self.messages += golden_store.unpack(name, os.path.join(self.top, name))["messages"]
        self.damaged = self.messages.pop(7)
        with open(os.path.join(self.top, golden_store.NAMES[0], "commitlog", "0" * 20), "r+b") as file:
            file.seek(self.damaged["physicalOffset"] + 88)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 255]))
        self.out = os.path.join(self.top, "report")

    def table(self, name: str) -> list[dict[str, Any]]:
        """A table that was written."""
        rows: list[dict[str, Any]] = self.spark.read.parquet(os.path.join(self.out, name)).toArrow().to_pylist()
        return rows

    def test_counts(self) -> None:
        """
        The tables say what the broker's own classes found in the stores; the damaged record is told of and counts
        nowhere. A second run does not overwrite unless it is told to.
        """
        os.mkdir(self.out)
        for name in (REPORT, "notes.txt"):
            with open(os.path.join(self.out, name), "w", encoding="utf-8") as file:
                file.write("from before")
        left: list[str] = []

        def looking(*arguments: Any) -> str:
            left.extend(os.listdir(self.out))
            return page(*arguments)

        self.patch(job, "page", looking)
        status, said = run(os.path.join(self.top, "store-*"), "--out", self.out, "--check", "--overwrite")
        self.assertEqual(status, job.FAILED, said)
        self.assertIn("1 damaged places", said)
        self.assertNotIn(REPORT, left)  # the old one is gone before there are other figures
        self.assertIn("notes.txt", left)
        topics = {row["topic"]: row for row in self.table("by_topic")}
        count = Counter(one["topic"] for one in self.messages)
        self.assertEqual({topic: row["messages"] for topic, row in topics.items()}, dict(count))
        for topic, row in topics.items():
            ours = [one for one in self.messages if one["topic"] == topic]
            lags = [one["storeTimestamp"] - one["bornTimestamp"] for one in ours]
            self.assertEqual(row["bytes"], sum(one["storeSize"] for one in ours))
            self.assertEqual(row["body_bytes"], sum(one["storedBodyLength"] for one in ours))
            self.assertEqual(row["body_max"], max(one["storedBodyLength"] for one in ours))
            self.assertEqual(row["lag_max"], max(lags))
            self.assertTrue(sorted(lags)[(len(lags) - 1) // 2] <= row["lag_p50"] <= sorted(lags)[len(lags) // 2])
        self.assertEqual(topics["%RETRY%FailGroup"]["kind"], "retry")
        (totals,) = self.table("totals")
        self.assertEqual((totals["messages"], totals["stores"]), (len(self.messages), 2))
        tags = Counter((one["topic"], one["tags"]) for one in self.messages)
        self.assertEqual({(row["topic"], row["tag"]): row["messages"] for row in self.table("by_tag")}, dict(tags))
        hours = Counter((one["topic"], one["storeTimestamp"] // HOUR) for one in self.messages)
        found = {(row["topic"], round(row["hour"].timestamp() * 1000) // HOUR): row for row in self.table("by_hour")}
        self.assertEqual({key: row["messages"] for key, row in found.items()}, dict(hours))
        self.assertEqual(sum(row["messages"] for row in self.table("sizes")), len(self.messages))
        self.assertEqual(sum(row["messages"] for row in self.table("lags")), len(self.messages))
        keys = Counter(
            (one["topic"], key) for one in self.messages for key in (one["keys"] or "").split(" ") if key
        )  # fmt: skip
        for row in self.table("top_keys"):
            self.assertEqual(row["messages"], keys[row["topic"], row["key"]])
        (given_back,) = self.table("retries")
        self.assertEqual((given_back["group"], given_back["topic"]), ("FailGroup", "Fail"))
        self.assertEqual(given_back["retries"], count["%RETRY%FailGroup"])
        self.assertEqual(given_back["dead"], count["%DLQ%FailGroup"])
        (region,) = self.table("corrupt")
        self.assertEqual(
            (region["offset"], region["length"]), (self.damaged["physicalOffset"], self.damaged["storeSize"])
        )
        with open(os.path.join(self.out, REPORT), encoding="utf-8") as file:
            text = file.read()
        self.assertIn(f"{len(self.messages):,}", text)
        self.assertIn("Plotly", text)
        status, said = run(os.path.join(self.top, "store-*"), "--out", self.out)
        self.assertEqual(status, job.WRONG_SETTING)
        self.assertIn("--overwrite", said)
        arguments = (os.path.join(self.top, "store-*"), "--out", self.out, "--overwrite", "--from", "yesterday")
        self.assertEqual(run(*arguments)[0], job.WRONG_SETTING)
        self.assertIn(REPORT, os.listdir(self.out))  # a run that cannot begin removes nothing
        self.assertEqual(self.spark.range(3).count(), 3)  # a session that ran before goes on
