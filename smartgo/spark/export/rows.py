"""Rows that an export writes: the columns of messages, the day, and bodies decoded from JSON."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructField, StructType

from smartgo.errors import SettingError

PAYLOAD: Final = "payload"
"""The column of what a body says."""
_BROKEN: Final = "_broken"
_SAMPLE: Final = 10_000


def with_day(messages: DataFrame) -> DataFrame:
    """Return messages with the column C{day}: the UTC day of storing, in a session whose time zone is UTC."""
    return messages.withColumn("day", f.to_date("store_timestamp"))


def sized(rows: DataFrame, file_bytes: int, batch_bytes: int) -> DataFrame:
    """
    Return rows so that a micro-batch becomes files of about a size, few of them: a piece of the log goes to one task.

    @param batch_bytes: bytes of log in one micro-batch.
    """
    tasks = max(1, -(-batch_bytes // file_bytes))
    piece = f.floor(f.col("physical_offset") / file_bytes)
    return rows.repartition(tasks, f.col("topic"), f.col("day"), piece)


def schema_of(spark: SparkSession, text: str) -> StructType:
    """
    Return a schema that a user wrote as DDL, such as C{id bigint, name string}.

    @raise SettingError: it is none.
    """
    from pyspark.errors import PySparkException

    try:
        return spark.createDataFrame([], text).schema
    except PySparkException as error:
        line = str(error).strip().splitlines()[0]
        raise SettingError(f"--json: {text!r} is not a list of columns and types: {line}") from None


def inferred(messages: DataFrame) -> StructType:
    """
    Return the schema that fits the JSON in the first bodies.

    @raise SettingError: no body holds a JSON object.
    """
    texts = [row[0] for row in messages.select(f.col("body").cast("string")).limit(_SAMPLE).collect() if row[0]]
    spark = messages.sparkSession
    found = spark.read.json(spark.sparkContext.parallelize(texts)).schema
    fields = [field for field in found.fields if field.name != "_corrupt_record"]
    if not fields:
        raise SettingError("no body holds a JSON object: give the columns with --json 'NAME TYPE, ...'")
    return StructType(fields)


def decoded(rows: DataFrame, schema: StructType) -> DataFrame:
    """Return rows whose bodies are JSON of a schema: the body gives way to the column L{PAYLOAD}."""
    return _parsed(rows, schema).where(_is_good()).drop("body", _BROKEN).withColumn(PAYLOAD, _without_broken(schema))


def undecoded(rows: DataFrame, schema: StructType) -> DataFrame:
    """Return the rows that L{decoded} leaves out, with their bodies."""
    return _parsed(rows, schema).where(~_is_good()).drop(PAYLOAD, _BROKEN)


def _parsed(rows: DataFrame, schema: StructType) -> DataFrame:
    whole = StructType([*schema.fields, StructField(_BROKEN, StringType())])
    text = f.col("body").cast("string")
    parsed = f.from_json(text, whole, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _BROKEN})
    return rows.withColumn(PAYLOAD, parsed).withColumn(_BROKEN, f.col(PAYLOAD)[_BROKEN])


def _is_good() -> Column:
    return f.col(PAYLOAD).isNotNull() & f.col(_BROKEN).isNull()


def _without_broken(schema: StructType) -> Column:
    return f.struct(*(f.col(PAYLOAD)[field.name].alias(field.name) for field in schema.fields))
