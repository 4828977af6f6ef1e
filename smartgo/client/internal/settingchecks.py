"""Checks of the values of settings that a program gives: a wrong value is refused where it is written."""

from __future__ import annotations

from enum import Enum
from math import isfinite
from typing import Any, Final

from smartgo.errors import SettingError

MOST: Final = 2**31 - 1
"""The greatest number: requests hold numbers as ints of 32 bits with a sign."""


def check_int(settings: object, field: str, least: int = 1, most: int = MOST) -> None:
    """
    Check a whole number.

    @raise SettingError: it is no C{int}, or less than C{least}, or more than C{most}.
    """
    value = getattr(settings, field)
    if type(value) is not int or not least <= value <= most:
        raise _wrong(settings, field, f"an int from {least} to {most}")


def check_optional_int(settings: object, field: str, least: int = 1) -> None:
    """
    Check a whole number that may be C{None}; it may be as great as it likes.

    @raise SettingError: it is neither C{None} nor an C{int} of at least C{least}.
    """
    value = getattr(settings, field)
    if value is not None and (type(value) is not int or value < least):
        raise _wrong(settings, field, f"an int of at least {least}, or None")


def check_seconds(settings: object, field: str, or_none_at_all: bool = False) -> None:
    """
    Check a time in seconds.

    @param or_none_at_all: 0 s is a time as well.
    @raise SettingError: it is no finite C{int} or C{float}, or negative, or 0 without C{or_none_at_all}.
    """
    value = getattr(settings, field)
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    if not is_number or value < 0 or (value == 0 and not or_none_at_all):
        raise _wrong(settings, field, f"a number of seconds, {'0 or more' if or_none_at_all else 'more than 0'}")


def check_member(settings: object, field: str, kind: type[Enum]) -> None:
    """
    Check a member of an enumeration.

    @raise SettingError: it is none; the text says which there are.
    """
    if not isinstance(getattr(settings, field), kind):
        raise _wrong(settings, field, " or ".join(f"{kind.__name__}.{one.name}" for one in kind))


def check_flag(settings: object, field: str) -> None:
    """@raise SettingError: the value is neither true nor false."""
    check_kind(settings, field, bool, "True or False")


def check_kind(settings: object, field: str, kind: Any, allowed: str) -> None:
    """
    Check the type of a value.

    @param kind: a type, or several as for C{isinstance}.
    @param allowed: what can be given, for the text of the error.
    @raise SettingError: it is of another type.
    """
    if not isinstance(getattr(settings, field), kind):
        raise _wrong(settings, field, allowed)


def check_strategy(settings: object, field: str) -> None:
    """@raise SettingError: the value is a class, or has no C{allocate} to call, or no C{name}."""
    value = getattr(settings, field)
    if (
        isinstance(value, type)
        or not callable(getattr(value, "allocate", None))
        or not isinstance(getattr(value, "name", None), str)
    ):
        raise _wrong(settings, field, "an object with the members name and allocate, such as AllocateAveragely()")


def _wrong(settings: object, field: str, allowed: str) -> SettingError:
    return SettingError(f"{type(settings).__name__}.{field} is {getattr(settings, field)!r}: give {allowed}")
