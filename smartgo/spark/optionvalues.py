"""
The kinds of values that options of a read have, each read from Spark's text.

Each function raises C{ValueError} with a sentence that names the value and what is wrong with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from smartgo.spark.columns import MESSAGES
from smartgo.spark.nearest import nearest

KIB: Final = 1024
MIB: Final = 1024 * KIB


def boolean(text: str) -> bool:
    """Return what C{true} or C{false} says."""
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return text.lower() == "true"


def automatic(text: str) -> bool:
    """Return a truth value that once depended on the columns asked for: C{auto} is true now."""
    return True if text.lower() == "auto" else boolean(text)


def choice(*names: str) -> Callable[[str], str]:
    """Return what reads one of some words, in any case."""

    def read(text: str) -> str:
        if text.lower() not in names:
            raise ValueError(f"{text!r} is not one of {', '.join(names)}{nearest(text, names)}")
        return text.lower()

    return read


def column_name(text: str) -> str:
    """Return the name of a column that is to be added to the table of messages."""
    if not text:
        raise ValueError("the name of a column is empty")
    if text.lower() in MESSAGES.names:
        raise ValueError(f"there is a column {text} already")
    return text


_UNITS: Final = {"b": 1, "k": KIB, "kb": KIB, "m": MIB, "mb": MIB, "g": KIB * MIB, "gb": KIB * MIB}


def size(least: int) -> Callable[[str], int]:
    """Return what reads a size in bytes such as C{64m}, of so many bytes at least."""

    def read(text: str) -> int:
        digits = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
        unit = _UNITS.get(text[len(digits) :].strip().lower() or "b")
        if not (digits.isascii() and digits.isdigit()) or unit is None:
            raise ValueError(f"{text!r} is not a size such as 1048576, 512k or 64m")
        if int(digits) * unit < least:
            raise ValueError(f"{text!r} is less than {least} B")
        return int(digits) * unit

    return read


def count(text: str) -> int:
    """Return a positive number."""
    if not (text.isascii() and text.isdigit()) or not int(text):
        raise ValueError(f"{text!r} is not a positive number")
    return int(text)


def moment(text: str) -> int:
    """Return milliseconds since the epoch; a time without a zone is UTC."""
    if text.removeprefix("-").isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is neither milliseconds since 1970 nor a time such as 2026-01-31T12:00:00Z"
        ) from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def listed(text: str) -> list[str]:
    """Return the names of a text with commas between them."""
    found = [one.strip() for one in text.split(",")]
    if not all(found):
        raise ValueError(f"{text!r} has an empty name in it")
    return found


def word(text: str) -> str:
    """Return a text that is not empty and has no blank in it."""
    if not text or " " in text:
        raise ValueError(f"{text!r} is not one word")
    return text


def topic_names(text: str) -> frozenset[str]:
    """Return topics of a text with commas between them."""
    return frozenset(listed(text))


def pattern(text: str) -> re.Pattern[str]:
    """Return a regular expression."""
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is not a Python regular expression: {error}") from None


def queue_ids(text: str) -> frozenset[int]:
    """Return queue ids of a text with commas between them."""
    names = listed(text)
    for name in names:
        if not (name.isascii() and name.isdigit()):
            raise ValueError(f"{name!r} is not a queue number")
    return frozenset(map(int, names))
