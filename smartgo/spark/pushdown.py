"""Translation of filters that Spark pushes down into L{Conditions}."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from smartgo.spark.conditions import NUMBERS, Comparison, Conditions, OneOf, Operator

_OPERATORS: Final[dict[type[Filter], Operator]] = {
    EqualTo: "==",
    EqualNullSafe: "==",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def take(conditions: Conditions, filters: Iterable[Filter]) -> Conditions:
    """Return the conditions with those of the filters that can be told by columns; the others are left out."""
    for each in filters:
        conditions = _take_one(conditions, each)
    return conditions


def _take_one(conditions: Conditions, one: Filter) -> Conditions:
    column = ".".join(getattr(one, "attribute", ()))
    value = getattr(one, "value", None)
    if column == "topic":
        if isinstance(one, In):
            return conditions.and_topics(each for each in one.value if isinstance(each, str))
        is_name = _OPERATORS.get(type(one)) == "==" and isinstance(value, str)
        return conditions.and_topics([str(value)]) if is_name else conditions
    if column not in NUMBERS:
        return conditions
    if isinstance(one, In):
        return _take_in(conditions, column, one.value)
    operator = _OPERATORS.get(type(one))
    return conditions if operator is None else _take_comparison(conditions, column, operator, value)


def _take_in(conditions: Conditions, column: str, given: Iterable[Any]) -> Conditions:
    values = [value for value in given if value is not None]
    if column == "store_timestamp" or not all(type(value) is int for value in values):
        return conditions
    return conditions.and_number(OneOf(column, frozenset(values)))


def _take_comparison(conditions: Conditions, column: str, operator: Operator, value: Any) -> Conditions:
    if column == "store_timestamp":
        if not isinstance(value, datetime) or value.tzinfo is None:
            return conditions
        whole, rest = divmod(value - _EPOCH, _MILLISECOND)
        if rest:  # between two milliseconds: the store counts no finer
            if operator == "==":
                return conditions.and_number(OneOf(column, frozenset()))
            return conditions.and_number(Comparison(column, "<=" if operator in ("<", "<=") else ">", whole))
        return conditions.and_number(Comparison(column, operator, whole))
    if type(value) is not int:
        return conditions
    return conditions.and_number(Comparison(column, operator, value))
