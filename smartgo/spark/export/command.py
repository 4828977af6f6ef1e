"""
C{smartgo-spark export}: messages of stores into tables, incrementally and exactly once.

Exit status: 0 done, 1 Spark failed or stores and tables do not agree, 2 wrong arguments, 74 a store cannot be read,
78 wrong settings or no Java, 130 interrupted.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from smartgo.errors import SettingError
from smartgo.spark.failures import job_failed
from smartgo.spark.java import check_java
from smartgo.spark.starting import session
from smartgo.spark.stores import find_stores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME: Final = "export"
REPORT: Final = "reconciliation"
"""The name of the report's files, before C{.html} and C{.json}."""
_EPILOG: Final = """
examples:
  smartgo-spark export ~/store --to /lake/messages --bookmark /lake/messages.bookmark --report /lake/report
  smartgo-spark export '/brokers/*/store' --format iceberg --to lake.messages.orders --warehouse /lake \\
      --bookmark /lake/orders.bookmark --topics orders --json 'id bigint, total double' --bad lake.messages.orders_bad

Run it again, by cron for example, to add what came since; --bookmark holds how far it is. A run that was killed goes
on where it was.
"""
_UNITS: Final = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def parser() -> argparse.ArgumentParser:
    """Return the reader of the command line."""
    made = argparse.ArgumentParser(
        f"smartgo-spark {NAME}",
        description="Write the messages of stores to a table, partitioned by topic and day: each message once.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("stores", nargs="+", metavar="STORE_DIR", help="root directory of a store; patterns are allowed")
    made.add_argument("--to", required=True, metavar="TABLE", help="directory, or CATALOG.DATABASE.TABLE of Iceberg")
    made.add_argument("--format", default="parquet", choices=("parquet", "delta", "iceberg"), help="(%(default)s)")
    made.add_argument("--bookmark", required=True, metavar="DIR", help="directory that holds how far the export is")
    made.add_argument("--topics", metavar="NAME,NAME", help="only these topics")
    made.add_argument(
        "--json", metavar="COLUMNS", help="decode bodies: 'id bigint, name string', or auto to infer the columns"
    )
    made.add_argument("--bad", metavar="TABLE", help="table of the messages that --json cannot decode")
    made.add_argument(
        "--file-size", type=_size, default=128 << 20, metavar="SIZE", help="bytes of log in a file (128m)"
    )
    made.add_argument("--batch-size", type=_size, default=1 << 30, metavar="SIZE", help="bytes of log in a step (1g)")
    made.add_argument("--compact", action="store_true", help="join small files afterwards (delta, iceberg)")
    made.add_argument("--report", metavar="DIR", help=f"compare stores and tables: {REPORT}.html and .json in DIR")
    made.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help="an option of the source")
    made.add_argument("--warehouse", metavar="DIR", help="directory of Iceberg's tables, where that is the catalog")
    made.add_argument("--packages", metavar="COORDINATES", help="jars of the format, by Maven; none: they are there")
    made.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark")
    made.add_argument("--master", help="Spark master URL; by default that of spark-submit, or local[*]")
    made.add_argument("-q", "--quiet", action="store_true", help="print errors only")
    return made


def run(given: argparse.Namespace, say: Callable[[str], None]) -> bool:
    """
    Export; return whether stores and tables agree, which is C{True} where that was not asked.

    @raise SmartgoError: it cannot run, or Spark failed.
    """
    if given.json and not given.bad:
        raise SettingError("--json needs --bad: a table of the messages that cannot be decoded")
    find_stores(given.stores)  # that there are some
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession

        from smartgo.spark.export.exporting import Export, Wanted
        from smartgo.spark.export.reconcilingpage import page
        from smartgo.spark.export.targets import ExportTable
        from smartgo.spark.hadoopfiles import write_file
    except ImportError as error:
        package = str(error.name).partition(".")[0]
        raise SettingError(f'{package} is not installed: pip install "smartgo[spark]"') from None
    check_java()
    if given.compact and given.format == "parquet":
        raise SettingError("--compact is for delta and iceberg: files of plain Parquet cannot be replaced safely")
    options = _pairs(given.option, "--option")
    if given.topics:
        options["subscribe"] = given.topics
    wanted = Wanted(given.stores, options, given.bookmark.rstrip("/"), given.json, given.file_size, given.batch_size)
    runs_already = SparkSession.getActiveSession() is not None
    spark: SparkSession | None = None
    try:
        spark = _session(given, runs_already, say)
        good = ExportTable(spark, given.format, given.to, given.file_size)
        bad = ExportTable(spark, given.format, given.bad, given.file_size) if given.bad else None
        export = Export(spark, wanted, good, bad, say)
        count = export.run()
        say(f"{count:,} messages went to {given.to}")
        if given.compact:
            export.compact()
        if given.report is None:
            return True
        found = export.reconcile(datetime.now(UTC))
        top = given.report.rstrip("/")
        write_file(spark, f"{top}/{REPORT}.json", found.as_json())
        write_file(spark, f"{top}/{REPORT}.html", page(found).encode())
        figures = ", ".join(f"{found.total(name):,} {name}" for name in ("missing", "twice", "foreign"))
        say(f"{found.total('source'):,} messages in the stores, {found.total('rows'):,} in tables: {figures}")
        say(f"the report is {top}/{REPORT}.html")
        return found.is_good
    except PySparkException as error:
        raise job_failed(error) from None
    finally:
        if spark is not None and not runs_already:
            spark.stop()


def _session(given: argparse.Namespace, runs_already: bool, say: Callable[[str], None]) -> SparkSession:
    from smartgo.spark.export.targets import package_of, settings_of
    from smartgo.spark.versions import SPARK

    settings = {
        "spark.app.name": f"smartgo-spark {NAME}",
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "8",
    }
    if not runs_already:
        say("starting Spark")
        package = given.packages or package_of(given.format, SPARK)
        if package not in (None, "none"):
            settings["spark.jars.packages"] = package
        settings |= settings_of(given.format, given.to, given.warehouse)
    settings |= _pairs(given.conf, "--conf")
    spark = session(given.master, **settings)
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    return spark


def _pairs(texts: Sequence[str], option: str) -> dict[str, str]:
    found = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise SettingError(f"{option}: {text!r} is not NAME=VALUE")
        found[name] = value
    return found


def _size(text: str) -> int:
    unit = _UNITS.get(text[-1:].lower(), 1)
    digits = text[:-1] if unit > 1 else text
    if not digits.isdecimal() or not int(digits):
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 512k or 64m")
    return int(digits) * unit
