"""The schema as tables: every setting by table and name, other spellings, and the nearest name to a wrong one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, cast

import msgspec

from smartgo.config import known
from smartgo.config.fields import SettingDefault
from smartgo.config.kinds import Path, SettingKind
from smartgo.config.settings import TABLES
from smartgo.errors import SettingError

_SHOWN = 200
"""Characters of a wrong key or value that a message repeats, at most."""


class Setting(NamedTuple):
    """One setting of the schema."""

    table: str
    name: str
    """As in files."""
    attribute: str
    """As in the code."""
    kind: SettingKind
    default: Any

    @property
    def about(self) -> str:
        """The description of the setting; it says so if the setting has no effect yet."""
        return f"No effect yet. {self.kind.about}" if self.name in known.NOT_BUILT else self.kind.about

    @property
    def optional(self) -> bool:
        """Tell whether an empty value means that the setting is not given."""
        return self.default is None or self.default in ("", ())

    def read(self, value: object, place: str) -> Any:
        """
        Return what the code works with.

        @param value: text, or a TOML value.
        @param place: where it stands, for the message.
        @raise SettingError: not allowed.
        """
        try:
            return self.kind.read(value)
        except ValueError as error:
            shown = "***" if self.kind.secret else as_text(value)
            raise SettingError(f"{place}: {self.name}={shown} is not allowed; it must be {error}") from None


def settings_of(table: str) -> list[Setting]:
    """Return the settings of one table in the order of its schema."""
    return list(_SETTINGS[table].values())


def find(key: str, tables: Iterable[str]) -> Setting | None:
    """Return the setting of that name, or of that other spelling, in the first table that has it."""
    for table in tables:
        setting = _SETTINGS[table].get(key) or _ALIASES[table].get(key)
        if setting is not None:
            return setting
    return None


def find_attribute(key: str, table: str) -> Setting | None:
    """Return the setting of a table whose name in lower case with underscores is this."""
    return _ATTRIBUTES[table].get(key)


def show(table: str, config: msgspec.Struct, paths: bool = True) -> Iterator[tuple[str, str]]:
    """
    Yield name and value of each setting of a table, as in a file; secrets are C{***} (reliability X8).

    @param paths: whether whoever asks may know paths; else these are C{***} too.
    """
    for setting in _SETTINGS[table].values():
        value = getattr(config, setting.attribute)
        hidden = setting.kind.secret or (isinstance(setting.kind, Path) and not paths)
        yield setting.name, "***" if hidden and value else setting.kind.show(value)


def names_of_paths(table: str) -> set[str]:
    """Return the names of the settings of a table that are paths."""
    return {setting.name for setting in _SETTINGS[table].values() if isinstance(setting.kind, Path)}


def with_settings(table: str, config: Any, changes: Iterable[tuple[str, str]], source: str) -> Any:
    """
    Return a copy of one table's struct with some settings read anew from text.

    @param source: for the messages.
    @raise SettingError: an unknown name, or a value that is not allowed.
    """
    changed = {}
    for name, text in changes:
        setting = find(name, (table,))
        if setting is None:
            raise SettingError(f"{source}: {unknown(name, (table,))}")
        changed[setting.attribute] = setting.read(text, source)
    return msgspec.structs.replace(config, **changed)


def unknown(key: str, tables: Iterable[str]) -> str:
    """Return the sentence for a setting that nobody knows."""
    if key in known.WITHOUT_MEANING:
        return f"{as_text(key)} is a setting of RocketMQ that smartgo does not have"
    names = [name for table in tables for name in _SETTINGS[table]]
    return f"unknown setting {as_text(key)}{nearest(key, names)}"


def nearest(word: str, words: Sequence[str]) -> str:
    """Return the end of a sentence that names the word most like this one, or nothing."""
    lower = {one.lower(): one for one in words}
    found = difflib.get_close_matches(word.lower()[:_SHOWN], list(lower), n=1)
    return f"; did you mean {lower[found[0]]}?" if found else ""


def as_text(value: object) -> str:
    """Return a given value for a message: one line, escaped, cut."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return ascii(text[:_SHOWN])[1:-1]


def _collect(table: str, config: type[msgspec.Struct]) -> dict[str, Setting]:
    found = {}
    for field in msgspec.structs.fields(config):
        described = cast(SettingDefault, field.default_factory)
        found[field.encode_name] = Setting(table, field.encode_name, field.name, described.kind, described.default)
    return found


_SETTINGS: Final = {table: _collect(table, config) for table, config in TABLES.items()}
_ATTRIBUTES: Final = {table: {one.attribute: one for one in found.values()} for table, found in _SETTINGS.items()}
_ALIASES: Final = {
    table: {alias: one for one in found.values() for alias in one.kind.aliases} for table, found in _SETTINGS.items()
}
