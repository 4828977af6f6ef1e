"""The batch job: counts the messages of stores, and writes Parquet files and the figures of the report."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from pyspark.storagelevel import StorageLevel

from smartgo.errors import SettingError
from smartgo.spark import jobtables
from smartgo.spark.hadoopfiles import file_system, write_file
from smartgo.spark.report import REPORT, Report
from smartgo.spark.reportcharts import Row
from smartgo.spark.stores import find_stores

_LAST: Final = ("retries", "top_keys", "corrupt")


class ReportJob:
    """Counts the messages of some stores."""

    def __init__(
        self,
        paths: Sequence[str],
        out: str,
        starting: str | None,
        ending: str | None,
        keys: int,
        say: Callable[[str], None],
    ) -> None:
        """
        @param paths: root directories of stores, or patterns.
        @param out: the directory to write to, in any file system that Spark's Hadoop knows.
        @param starting: only what was stored from then on, as C{startingTimestamp} has it; C{ending} before then.
        @param keys: how many keys to list.
        @param say: told what goes on, in sentences.
        @raise SettingError: there is no store at a path, or C{out} lies in one.
        """
        self._paths = list(paths)
        self._out = out.rstrip("/") or "/"
        self._times = {"startingTimestamp": starting, "endingTimestamp": ending}
        self._keys = keys
        self._say = say
        target = posixpath.abspath(out.removeprefix("file://"))
        for store in find_stores(paths):
            if f"{target}/".startswith(f"{store.root}/"):
                raise SettingError(
                    f"{out} lies within the store {store.root}, where nothing is written: choose another"
                )
        self._done = 0

    def path(self, name: str) -> str:
        """Return where something of that name is written."""
        return f"{self._out}/{name}"

    def prepare(self, spark: SparkSession, overwrite: bool) -> None:
        """
        Check that the directory can be written to.

        @raise SettingError: something is in it, and C{overwrite} was not asked for.
        """
        files, path = file_system(spark, self._out)
        if not overwrite and files.exists(path) and len(files.listStatus(path)):
            raise SettingError(f"{self._out} is not empty: choose another directory, or say --overwrite")

    def write(self, spark: SparkSession, name: str, data: bytes) -> None:
        """Write a file into the directory."""
        write_file(spark, self.path(name), data)

    def report(self, spark: SparkSession, made: datetime) -> Report:
        """
        Count everything, write the tables, and return what the report tells.

        @param made: now.
        """
        whole = self._messages(spark, jobtables.COLUMNS)
        self._clear(spark)
        kept = jobtables.narrow(whole).persist(StorageLevel.MEMORY_AND_DISK)
        rows = kept.where(f"{jobtables.CORRUPT} IS NULL")
        self._say(f"reading {', '.join(self._paths)}")
        tables = {name: self._table(name, make(rows)) for name, make in jobtables.TABLES.items()}
        tables["top_keys"] = self._table("top_keys", jobtables.top_keys(rows, self._keys))
        tables["corrupt"] = self._table("corrupt", jobtables.corrupt(kept))
        again = [row["topic"] for row in tables["by_topic"] if row["kind"] in ("retry", "dlq")]
        properties = self._messages(spark, jobtables.RETRY_COLUMNS, filterPushdown="true")  # asked one thing alone
        tables["retries"] = self._table("retries", jobtables.retries(properties, again))
        totals = tables["totals"][0]
        width = jobtables.width_of(_seconds(totals))
        tables["timeline"] = _collected(jobtables.timeline(rows, width))
        tables["lag_timeline"] = _collected(jobtables.lag_timeline(rows, width))
        kept.unpersist()
        tables["sizes"] = _summed(tables["sizes"], "up_to_bytes")
        tables["lags"] = [row for row in tables["lags"] if row["kind"] == "plain"]
        return Report(self._paths, made, width, tables)

    # -- inside ------------------------------------------------------------------------------------------------

    def _clear(self, spark: SparkSession) -> None:
        """Remove the files of an earlier run, and nothing else, so that no report disagrees with the tables."""
        for name in (REPORT, *jobtables.TABLES, *_LAST):
            files, path = file_system(spark, self.path(name))
            files.delete(path, True)

    def _messages(self, spark: SparkSession, names: Sequence[str], **options: str) -> DataFrame:
        """Return columns of the messages; the others are not even decoded."""
        read = spark.read.format("smartgo").options(
            failOnCorrupt="false",
            failOnDataLoss="false",
            columnNameOfCorruptRecord=jobtables.CORRUPT,
            **{name: time for name, time in self._times.items() if time is not None},
            **options,
        )
        fields = read.load(self._paths).schema
        return read.schema(StructType([fields[name] for name in names])).load(self._paths)

    def _table(self, name: str, frame: DataFrame) -> list[Row]:
        """Write a table, say so, and return its rows."""
        frame = frame.coalesce(1).cache()  # one file, and counted once
        frame.write.mode("overwrite").parquet(self.path(name))
        found = _collected(frame)
        frame.unpersist()
        self._done += 1
        count = len(jobtables.TABLES) + len(_LAST)
        self._say(f"[{self._done}/{count}] {name}: {len(found)} {'row' if len(found) == 1 else 'rows'}")
        return found


def _collected(frame: DataFrame) -> list[Row]:
    """Return the rows; times are aware of their zone."""
    found: list[Row] = frame.toArrow().to_pylist()
    return found


def _summed(rows: Sequence[Row], name: str) -> list[Row]:
    """Add up messages by a column, in its order."""
    sums: Counter[Any] = Counter()
    for row in rows:
        sums[row[name]] += row["messages"]
    return [{name: value, "messages": sums[value]} for value in sorted(sums)]


def _seconds(totals: Row) -> float:
    if totals["first_stored"] is None:
        return 0.0
    seconds: float = (totals["last_stored"] - totals["first_stored"]).total_seconds()
    return seconds
