"""
The settings in force, and the few that can be changed while the broker runs.

Which these are is a list of allowed ones, each followed by whom it concerns (reliability X7): never an address, a port,
a path, a name, or what decides who may do what. A change lasts until the broker is started again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
from twisted.logger import Logger

from smartgo.config.catalog import Setting, find, show, unknown
from smartgo.config.loading import Configuration
from smartgo.config.sources import Origin
from smartgo.env.interfaces import IClock
from smartgo.errors import BadBody, NoPermission, SettingError
from smartgo.schema.bodies import DataVersion

SHOWN: Final = ("broker", "store", "ha", "tls")
"""The tables whose settings administrators are told (26)."""
_TABLES: Final = (*SHOWN, "limits")


class LiveSettings:
    """
    One broker's settings.

    @ivar configuration: what is in force, origins included; replaced by every change.
    @ivar version: changes with every change.
    """

    _log = Logger()

    def __init__(self, clock: IClock, configuration: Configuration, settled: Mapping[str, str] | None = None) -> None:
        """@param settled: what is shown of some settings instead of what was configured, and more than these."""
        self._clock = clock
        self._settled = dict(settled or {})
        self._followers: dict[str, Callable[[Any], object]] = {}
        self.configuration = configuration
        self.version = DataVersion(timestamp=clock.wall_ms(), counter=0)

    def follow(self, name: str, take: Callable[[Any], object]) -> None:
        """Let a setting be changed from now on: C{take} is called with its new value, and must not fail."""
        self._followers[name] = take

    @property
    def changeable(self) -> list[str]:
        """The names of the settings that can be changed, sorted."""
        return sorted(self._followers)

    def shown(self) -> Iterator[tuple[str, str]]:
        """Yield every setting as (name, text), secrets hidden."""
        more = dict(self._settled)
        for table in SHOWN:
            for name, text in show(table, getattr(self.configuration, table)):
                yield name, more.pop(name, text)
        yield from more.items()

    def change(self, changes: Iterable[tuple[str, str]], who: str) -> None:
        """
        Change some settings, all or none.

        @param changes: names, and values as in a file.
        @param who: for the log and the origins.
        @raise NoPermission: a setting that cannot be changed while the broker runs; the message names those that can.
        @raise BadBody: an unknown setting, or a value that is not allowed.
        """
        read = [self._read(name, text) for name, text in changes]
        if not read:
            return
        now = self._clock.wall_ms()
        for setting, value in read:
            table = getattr(self.configuration, setting.table)
            old = getattr(table, setting.attribute)
            changed = {
                setting.table: msgspec.structs.replace(table, **{setting.attribute: value}),
                "origins": {
                    **self.configuration.origins,
                    (setting.table, setting.name): Origin("request", f"of {who} at {now}"),
                },
            }
            self.configuration = msgspec.structs.replace(self.configuration, **changed)
            self._followers[setting.name](value)
            self._log.info(
                "{who} changed {name} from {old} to {new}",
                who=who,
                name=setting.name,
                old=setting.kind.show(old),
                new=setting.kind.show(value),
            )
        self.version = DataVersion(timestamp=now, counter=self.version.counter + 1)

    def _read(self, name: str, text: str) -> tuple[Setting, Any]:
        setting = find(name, _TABLES)
        if setting is None:
            raise BadBody(unknown(name, _TABLES))
        if setting.name not in self._followers:
            raise NoPermission(
                f"{setting.name} cannot be changed while the broker runs; {', '.join(self.changeable)} can"
            )
        try:
            return setting, setting.read(text, "request")
        except SettingError as error:
            raise BadBody(str(error)) from None
