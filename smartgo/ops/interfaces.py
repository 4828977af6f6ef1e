"""What the API asks of the process it runs in, where that is a broker's or a registry's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from zope.interface import Interface


class SettingValue(NamedTuple):
    """One setting as it is in force."""

    table: str
    name: str
    value: str
    """As in a file; secrets are C{***}."""
    default: str
    origin: str
    """C{default}, C{environment}, C{file} or C{flag}."""
    place: str
    """The variable; the file with line or table; the flag."""
    about: str
    allowed: str


class Check(NamedTuple):
    """One thing that must be well for the process to serve."""

    name: str
    well: bool
    detail: str


class ILocalNode(Interface):
    """
    The process around the API. Called on the reactor thread; answers at once.
    """

    def settings() -> Iterable[SettingValue]:
        """Every setting with its value and where that came from."""

    def checks() -> Iterable[Check]:
        """What must be well for the process to serve; it is ready when all are."""

    def figures() -> Mapping[str, float]:
        """Figures that no request of the remoting protocol tells: reactor stalls, bytes that wait for the disk."""
