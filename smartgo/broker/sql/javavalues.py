"""
Values of SQL92 filters: Java's conversions of strings to numbers, its comparisons and its texts of values.

Source: C{ComparisonExpression.__compare} and C{Integer}, C{Long}, C{Double}, C{Boolean} of Java. A filter compares an
C{Integer} with a property of C{3000000000} by an error, a C{Long} by the value; so the kinds are kept apart.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from enum import Enum
from typing import Any, Final

INT_LIMIT: Final = 1 << 31
LONG_LIMIT: Final = 1 << 63

_INTEGER: Final = re.compile("[+-]?\\d+")
_DOUBLE: Final = re.compile("[+-]?(?:NaN|Infinity|(?:[0-9]+\\.?[0-9]*|\\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)", re.ASCII)
_HEX_DOUBLE: Final = re.compile(
    "([+-]?0[xX](?:[0-9a-fA-F]+\\.?[0-9a-fA-F]*|\\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?", re.ASCII
)
_BLANKS: Final = "".join(map(chr, range(0x21)))  # what String.trim removes


class ValueKind(Enum):
    """The Java class of a value; C{NOTHING} is what is always null."""

    STRING = "String"
    INTEGER = "Integer"
    LONG = "Long"
    DOUBLE = "Double"
    BOOLEAN = "Boolean"
    NOTHING = "null"


NUMBERS: Final = frozenset({ValueKind.INTEGER, ValueKind.LONG, ValueKind.DOUBLE})


class EvaluationFailed(Exception):
    """Values cannot be compared: the message does not match. The text is that of the Java exception."""


def to_integer(text: str) -> int:
    """
    Return the C{int} of a text.

    @raise EvaluationFailed: it is none.
    """
    return _whole(text, INT_LIMIT)


def to_long(text: str) -> int:
    """
    Return the C{long} of a text.

    @raise EvaluationFailed: it is none.
    """
    return _whole(text, LONG_LIMIT)


def _whole(text: str, limit: int) -> int:
    if len(text) < 64 and _INTEGER.fullmatch(text) and (text.isascii() or max(text) <= "\uffff"):
        value = int(text)
        if -limit <= value < limit:
            return value
    raise _not_a_number(text)


def to_double(text: str) -> float:
    """
    Return the C{double} of a text, blanks around it removed.

    @raise EvaluationFailed: it is none.
    """
    trimmed = text.strip(_BLANKS)
    if _DOUBLE.fullmatch(trimmed):
        return float(trimmed if trimmed.endswith(("NaN", "Infinity")) else trimmed.rstrip("fFdD"))
    found = _HEX_DOUBLE.fullmatch(trimmed)
    if found:
        try:
            return float.fromhex(found[1])
        except OverflowError:
            return -math.inf if trimmed.startswith("-") else math.inf
    if not trimmed:
        raise EvaluationFailed("java.lang.RuntimeException: java.lang.NumberFormatException: empty String")
    raise _not_a_number(text)


def to_boolean(text: str) -> bool:
    """Return the C{boolean} of a text: false unless it is C{true} in any case."""
    return text.lower() == "true"


def _not_a_number(text: str) -> EvaluationFailed:
    return EvaluationFailed(f'java.lang.RuntimeException: java.lang.NumberFormatException: For input string: "{text}"')


_FROM_STRING: Final[dict[ValueKind, Callable[[str], Any]]] = {
    ValueKind.INTEGER: to_integer,
    ValueKind.LONG: to_long,
    ValueKind.DOUBLE: to_double,
    ValueKind.BOOLEAN: to_boolean,
}

Comparison = Callable[[Any, Any], int]


def comparison(left: ValueKind, right: ValueKind) -> Comparison:
    """
    Return the function that compares values of two kinds as Java does: below 0, 0 or above 0.

    Kinds that do not fit are C{-1}, whatever the values. The function raises L{EvaluationFailed} where a text is not
    of the other value's kind.
    """
    if left is right:
        return compare_doubles if left is ValueKind.DOUBLE else compare
    if left is ValueKind.BOOLEAN:
        return _refuse_text if right is ValueKind.STRING else _unlike
    if left is ValueKind.STRING and right in _FROM_STRING:
        convert = _FROM_STRING[right]
        after = comparison(right, right)
        return lambda one, other: after(convert(one), other)
    if left in NUMBERS and right is ValueKind.STRING:
        convert = _FROM_STRING[left]
        after = comparison(left, left)
        return lambda one, other: after(one, convert(other))
    if left in NUMBERS and right in NUMBERS:
        if ValueKind.DOUBLE in (left, right):
            return lambda one, other: compare_doubles(float(one), float(other))
        return compare
    return _unlike


def compare(one: Any, other: Any) -> int:
    """Compare two values of one kind."""
    return -1 if one < other else int(one > other)


def compare_doubles(one: float, other: float) -> int:
    """Compare as C{Double.compareTo}: -0.0 is below 0.0, NaN equals itself and is above everything else."""
    if one < other:
        return -1
    if one > other:
        return 1
    return compare(_rank(one), _rank(other))


def _rank(value: float) -> int:
    if math.isnan(value):
        return 2
    return -1 if value == 0 and math.copysign(1.0, value) < 0 else 0


def compare_numerals(one: str, other: str) -> int:
    """
    Compare two strings by the numbers that they spell, for C{<} and the like.

    @raise EvaluationFailed: one is no number.
    """
    return compare_doubles(to_double(one), to_double(other))


def _unlike(one: Any, other: Any) -> int:
    return -1


def _refuse_text(one: Any, other: Any) -> int:
    raise EvaluationFailed(
        "java.lang.ClassCastException: class java.lang.Boolean cannot be cast to class java.lang.String"
    )


def java_text(value: Any) -> str:
    """Return the text of a value as C{String.valueOf} gives it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if not isinstance(value, float) or math.isnan(value) or value == 0 or 1e-3 <= abs(value) < 1e7:
        return str(value)
    number = Decimal(repr(value))
    digits = "".join(map(str, number.as_tuple().digits)).rstrip("0") or "0"
    return f"{'-' if value < 0 else ''}{digits[0]}.{digits[1:] or '0'}E{number.adjusted()}"
