"""
Settings as given in files, the environment and flags, before they are checked.

Two kinds of files are understood, told apart by name: C{*.toml} is ours, with one table each of
L{smartgo.config.settings.TABLES} (BoltMQ's keys are taken too); anything else is a properties file of RocketMQ, flat,
whose keys are looked up in the tables of the program that reads it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from smartgo.config import known, properties
from smartgo.config.catalog import Setting, as_text, find, find_attribute, nearest, unknown
from smartgo.config.findings import LoadFindings
from smartgo.config.settings import TABLES
from smartgo.errors import SettingError


class Origin(NamedTuple):
    """The source of a value."""

    source: str
    """C{default}, C{environment}, C{file}, C{kept}, C{flag} or C{request}; the last was changed since the start."""
    detail: str = ""
    """The variable; the file with line or table; the flag; by whom and when it was changed."""

    def __str__(self) -> str:
        return f"{self.source} {self.detail}".rstrip()

    @property
    def place(self) -> str:
        """The origin as the beginning of a message."""
        if self.source == "flag":
            return "command line"  # the sentence names the setting
        return self.detail if self.source == "file" else str(self)


class GivenSetting(NamedTuple):
    """A setting as somebody gave it."""

    setting: Setting
    value: object
    """Text, or a TOML value; not yet checked."""
    origin: Origin


def from_environment(variable: Callable[[str], str | None]) -> Iterator[GivenSetting]:
    """
    Yield what the process environment says.

    @param variable: returns a variable of it.
    """
    for name, key in (
        ("NAMESRV_ADDR", "namesrvAddr"),
        ("ROCKETMQ_HOME", "rocketmqHome"),
        ("SMARTGO_HOME", "rocketmqHome"),
    ):
        value = variable(name)
        setting = find(key, ("broker",))
        if value and setting is not None:
            yield GivenSetting(setting, value, Origin("environment", name))


def from_properties(path: str, data: bytes, tables: Sequence[str], findings: LoadFindings) -> Iterator[GivenSetting]:
    """
    Yield what a properties file says.

    @param tables: where its keys are looked up, first match first.
    @param findings: takes a sentence for each key that nobody knows or that has no effect.
    @raise SettingError: a malformed file, or a key of RocketMQ that must not be ignored.
    """
    for key, value, line in properties.parse(data, path):
        place = f"{path}, line {line}"
        setting = find(key, tables)
        if setting is not None:
            if value or not setting.optional:
                yield GivenSetting(setting, value, Origin("file", place))
        elif key in known.MUST_BE:
            _must_be(key, value, place, findings)
        elif key in known.WITHOUT_MEANING:
            findings.ignored.append(f"{place}: {unknown(key, tables)}")
        elif (elsewhere := find(key, TABLES)) is not None:
            findings.ignored.append(f"{place}: {key} is a setting of the table [{elsewhere.table}], not read here")
        else:
            findings.warnings.append(f"{place}: {unknown(key, tables)}")


def from_toml(path: str, data: bytes, findings: LoadFindings) -> Iterator[GivenSetting]:
    """
    Yield what a TOML file says, whatever program reads it.

    @param findings: takes a sentence for each table and key that nobody knows or that has no effect.
    @raise SettingError: a malformed file, a key in a wrong table, or one of RocketMQ that must not be ignored.
    """
    try:
        document = tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError(f"{path}: {error}") from None
    for table, content in document.items():
        if not isinstance(content, dict):
            findings.refuse(SettingError(f"{path}: {table} must stand below one of the tables {_listed(TABLES)}"))
            continue
        ours = known.FOREIGN_TABLES.get(table, table)
        if ours not in TABLES and table != "log":
            findings.warnings.append(f"{path}: unknown table [{table}]{nearest(table, list(TABLES))}")
            continue
        for key, value in _flat(content):
            place = f"{path}, [{table}]"
            if (table, key) in known.FOREIGN_WITHOUT_MEANING:
                findings.ignored.append(f"{place}: {as_text(key)} is a setting of BoltMQ that smartgo does not have")
                continue
            setting = _find_in_table(table, ours, key)
            if setting is not None:
                if value != "" or not setting.optional:
                    yield GivenSetting(setting, value, Origin("file", place))
            elif key in known.MUST_BE:
                _must_be(key, str(value).lower() if isinstance(value, bool) else str(value), place, findings)
            elif key in known.WITHOUT_MEANING:
                findings.ignored.append(f"{place}: {unknown(key, TABLES)}")
            elif (elsewhere := find(key, TABLES)) is not None:
                findings.refuse(SettingError(f"{place}: {key} belongs in the table [{elsewhere.table}]"))
            else:
                findings.warnings.append(f"{place}: {unknown(key, (ours,) if ours in TABLES else TABLES)}")


def from_flags(
    flags: Mapping[str, str], tables: Sequence[str], findings: LoadFindings | None = None
) -> Iterator[GivenSetting]:
    """
    Yield what the command line says.

    @param flags: by file name, or C{table.name} where two tables share it.
    @param findings: takes the errors; by default the first one is raised.
    @raise SettingError: a name that nobody knows.
    """
    findings = findings or LoadFindings()
    for key, value in flags.items():
        table, dot, name = key.partition(".")
        setting = find(name, (table,)) if dot and table in tables else None
        setting = setting or find(key, tables)
        if setting is None and key in known.MUST_BE:
            _must_be(key, value, "command line", findings)
            continue
        if setting is None:
            findings.refuse(SettingError(f"command line: {unknown(key, tables)}"))
            continue
        yield GivenSetting(setting, value, Origin("flag", key))


def _flat(content: Mapping[str, object], above: str = "") -> Iterator[tuple[str, object]]:
    for key, value in content.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield above + key, value


def _find_in_table(table: str, ours: str, key: str) -> Setting | None:
    foreign = known.FOREIGN_KEYS.get((table, key))
    if foreign is not None:
        return find(foreign[1], (foreign[0],))
    if ours not in TABLES:
        return None
    short = f"{ours}.{key}"  # [tls] server.mode is tls.server.mode
    return find(key, (ours,)) or find(short, (ours,)) or find_attribute(key, ours)


def _must_be(key: str, value: str, place: str, findings: LoadFindings) -> None:
    wanted, reason = known.MUST_BE[key]
    if value.lower() != wanted:
        findings.refuse(SettingError(f"{place}: {key}={as_text(value)} is not supported: {reason}"))


def _listed(words: Iterable[str]) -> str:
    return ", ".join(f"[{word}]" for word in words)
