"""Arrow batches of tables whose columns are numbers, and names that are the same for all rows of a batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from numpy import ndarray

from smartgo.spark.arrays import constant, numbers
from smartgo.spark.columns import TIMESTAMP
from smartgo.spark.conditions import Conditions


def plain_batch(
    names: dict[str, str],
    plain: dict[str, ndarray[Any, Any]],
    columns: pa.Schema,
    conditions: Conditions,
    corrupt_column: str | None = None,
) -> Iterator[pa.RecordBatch]:
    """
    Make a batch of columns of numbers, and of names that are the same for all rows.

    @param corrupt_column: name of the column that reports damage, which these rows have not.
    """
    mask = conditions.select(plain)
    if mask is not None:
        plain = {name: values[mask] for name, values in plain.items()}
    count = len(next(iter(plain.values())))
    if not count:
        return
    arrays = []
    for field in columns:
        if field.name in names:
            arrays.append(constant(names[field.name], count))
        elif field.name == corrupt_column:
            arrays.append(pa.nulls(count, field.type))
        else:
            values = plain[field.name]
            arrays.append(numbers(values * 1000 if field.type == TIMESTAMP else values, field.type))
    yield pa.RecordBatch.from_arrays(arrays, schema=columns)
