"""What the API asks of the process it runs in, where that is a broker's or a registry's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from zope.interface import Interface


class SettingValue(msgspec.Struct, rename="camel"):
    """
    One setting as it is in force.

    @ivar value: as in a file; secrets are C{***}.
    @ivar origin: C{default}, C{environment}, C{file}, C{flag}, or C{request} where it was changed since the start;
        C{place} is the variable, file or flag, or who changed it.
    @ivar allowed: what may be there.
    @ivar changeable: whether it can be changed while the process runs.
    """

    table: str
    name: str
    value: str
    default: str
    origin: str
    place: str
    about: str
    allowed: str
    changeable: bool


class PartState(msgspec.Struct, rename="camel"):
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

    def change(changes: Mapping[str, str], who: str) -> None:
        """
        Change settings, all or none; they hold until the process is started again.

        @param changes: names, and values as in a file.
        @raise smartgo.errors.NoPermission: one cannot be changed while the process runs.
        @raise smartgo.errors.BadBody: an unknown one, or a value that is not allowed.
        """

    def checks() -> Iterable[PartState]:
        """What must be well for the process to serve; it is ready when all are."""

    def figures() -> Mapping[str, float]:
        """Figures that no request of the remoting protocol tells: reactor stalls, bytes that wait for the disk."""
