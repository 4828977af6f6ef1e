"""The options of a read as a table: a name, where its value goes, and what reads it from Spark's text."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from typing import Any

from smartgo.errors import SettingError


@dataclass(frozen=True)
class Option:
    """
    One option.

    @ivar attribute: of the options that are made of all; empty where another function looks at it.
    @ivar read: returns the value that a text means; raises C{ValueError} with the reason if it means none.
    """

    name: str
    attribute: str
    read: Callable[[str], Any]

    def value(self, text: str) -> Any:
        """Return the value of a text. @raise SettingError: it means none; the sentence names the option."""
        try:
            return self.read(text.strip())
        except ValueError as error:
            raise SettingError(f"option {self.name}: {error}") from None


def check_excluding(given: Container[str], excluding: Iterable[tuple[str, str]]) -> None:
    """Refuse two options that exclude each other. @raise SettingError: both names of a pair are given."""
    for first, second in excluding:
        if first in given and second in given:
            raise SettingError(f"options {first} and {second} exclude each other")
