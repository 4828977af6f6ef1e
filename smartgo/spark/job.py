"""
C{smartgo-spark}: count what is in message stores; Parquet files for programs, one HTML file for people.

Runs by itself, as C{python -m smartgo.spark.job}, and as the file given to C{spark-submit}.

Exit status: 0 done, 1 Spark failed or (with C{--check}) there is damage, 2 wrong arguments, 74 a store that cannot be
read, 78 wrong settings or no Java, 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from smartgo.errors import SettingError, SmartgoError, StoreError
from smartgo.spark.export import command
from smartgo.spark.failures import job_failed
from smartgo.spark.java import check_java
from smartgo.spark.report import REPORT, page
from smartgo.spark.starting import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FAILED: Final = 1
USAGE: Final = 2
STORE_FAILED: Final = 74
WRONG_SETTING: Final = 78
INTERRUPTED: Final = 130

_KEYS: Final = 1000
_EPILOG: Final = """
examples:
  smartgo-spark ~/store --out ~/store-report
  smartgo-spark /brokers/*/store --out report --from 2026-01-31 --overwrite
  spark-submit --master spark://host:7077 --py-files smartgo.zip job.py /mnt/store --out hdfs:///reports/today

"smartgo-spark export --help" tells how to write messages to tables.

DIR then holds report.html and a directory of Parquet for each table: totals, by_store, by_topic, by_tag, by_hour,
sizes, lags, retries, top_keys, corrupt.
"""

Say = Callable[[str], None]


def parser() -> argparse.ArgumentParser:
    """Return the reader of the command line."""
    made = argparse.ArgumentParser(
        "smartgo-spark",
        description="Count what is in message stores: by topic, tag and hour, sizes, lag, retries, keys, damage.\n"
        "They may be smartgo's or RocketMQ's, in use or not; nothing is written to them.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("stores", nargs="+", metavar="STORE_DIR", help="root directory of a store; patterns are allowed")
    made.add_argument(
        "--out", required=True, metavar="DIR", help="output directory, local or any that Spark can write to"
    )
    made.add_argument("--overwrite", action="store_true", help="replace the output of an earlier run in DIR")
    made.add_argument("--from", dest="starting", metavar="TIME", help="only messages stored at or after this time")
    made.add_argument("--to", dest="ending", metavar="TIME", help="only messages stored before this time")
    made.add_argument("--keys", type=_positive, default=_KEYS, metavar="N", help="number of keys to list (%(default)s)")
    made.add_argument("--master", help="Spark master URL; by default that of spark-submit, or local[*]")
    made.add_argument("--check", action="store_true", help="exit with status 1 if there is damage")
    made.add_argument("-q", "--quiet", action="store_true", help="print errors only")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Run the command; return its exit status.

    @param arguments: without the program's name; those of the process by default.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    exports = words[:1] == [command.NAME]
    given = command.parser().parse_args(words[1:]) if exports else parser().parse_args(words)

    def say(sentence: str) -> None:
        if not given.quiet:
            sys.stderr.write(f"smartgo-spark: {sentence}\n")
            sys.stderr.flush()

    try:
        if exports:
            return 0 if command.run(given, say) else FAILED
        damaged = _run(given, say)
    except KeyboardInterrupt:
        return _end("interrupted", INTERRUPTED)
    except SmartgoError as error:
        return _end(str(error), _status(error))
    return FAILED if given.check and damaged else 0


def _positive(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return int(text)


def _status(error: SmartgoError) -> int:
    if isinstance(error, SettingError):
        return WRONG_SETTING
    return STORE_FAILED if isinstance(error, StoreError) else FAILED


def _end(sentence: str, status: int) -> int:
    sys.stderr.write(f"smartgo-spark: {sentence}\n")
    return status


def _run(given: argparse.Namespace, say: Say) -> bool:
    """Run the job; return whether it found damage. @raise SmartgoError: it cannot run."""
    try:
        from plotly.offline import get_plotlyjs
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession

        from smartgo.spark.jobrun import ReportJob
    except ImportError as error:
        package = str(error.name).partition(".")[0]
        raise SettingError(f'{package} is not installed: pip install "smartgo[spark]"') from None
    check_java()
    job = ReportJob(given.stores, given.out, given.starting, given.ending, given.keys, say)
    runs_already = SparkSession.getActiveSession() is not None  # called from a program, it is the program's to stop
    if not runs_already:
        say("starting Spark")
    spark: SparkSession | None = None
    try:
        spark = _session(given.master, sys.stderr.isatty() and not given.quiet)
        job.prepare(spark, given.overwrite)
        report = job.report(spark, datetime.now(UTC))
        job.write(spark, REPORT, page(report, get_plotlyjs()).encode())
    except PySparkException as error:
        raise job_failed(error) from None
    finally:
        if spark is not None and not runs_already:
            spark.stop()
    damage = report.tables["corrupt"]
    if damage:
        say(f"{len(damage)} damaged places, {sum(row['length'] for row in damage)} B, are not in the figures")
    say(f"the report is {job.path(REPORT)}")
    return bool(damage)


def _session(master: str | None, progress: bool) -> SparkSession:
    from pyspark import SparkConf

    conf = SparkConf()
    local = (master or str(conf.get("spark.master", "local"))).startswith("local")
    settings = {
        "spark.app.name": "smartgo-spark",
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": str(progress).lower(),
        "spark.sql.session.timeZone": "UTC",
        **({"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "8"} if local else {}),
    }
    return session(master, **{name: value for name, value in settings.items() if not conf.contains(name)})


if __name__ == "__main__":
    sys.exit(main())
