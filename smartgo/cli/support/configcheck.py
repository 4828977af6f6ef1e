"""The check of a configuration file, as a daemon makes it at its start, without starting anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from smartgo.cli.support.embedded import surroundings
from smartgo.cli.support.output import counted
from smartgo.config.catalog import show
from smartgo.config.findings import AllFindings
from smartgo.config.loading import load
from smartgo.env.interfaces import IEnvironment
from smartgo.errors import SettingError
from smartgo.node.options import (
    AllOptions,
    BrokerOptions,
    FrontOptions,
    NodeOptions,
    RegistryOptions,
    SlaveOptions,
    without_effect,
)
from smartgo.node.settingchecks import access_notes, make_all, program_checks

PROGRAMS: Final[Mapping[str, type[NodeOptions]]] = {
    "broker": BrokerOptions,
    "slave": SlaveOptions,
    "registry": RegistryOptions,
    "all": AllOptions,
    "ops": FrontOptions,
}
"""The programs whose files can be checked, by the word that C{--for} takes."""


class CheckedSettingRow(msgspec.Struct, frozen=True):
    """
    One setting of a checked file: its table, its value, and where the value comes from.

    @ivar given: whether the file, a flag, the environment or the program sets it.
    """

    table: str
    name: str
    value: str
    origin: str
    given: bool = False


@dataclass(frozen=True)
class CheckedFile:
    """
    The outcome of starting a program with a file.

    @ivar program: its name for twistd.
    @ivar rows: all settings that the program reads.
    @ivar errors: sentences with which it would refuse to start; it shows the first of them.
    @ivar warnings: sentences that it would log.
    @ivar ignored: sentences about settings that have no effect and of which it would say nothing.
    """

    program: str
    rows: list[CheckedSettingRow]
    errors: list[str]
    warnings: list[str]
    ignored: list[str]

    def verdict(self, path: str) -> str:
        """Return the verdict on a file without errors, as one sentence."""
        words = [counted(sum(row.given for row in self.rows), "setting")]
        if self.warnings:
            words.append(counted(len(self.warnings), "warning"))
        if self.ignored:
            words.append(f"{len(self.ignored)} without effect")
        return f"{path} is valid for {self.program}: {', '.join(words)}."


def check_file(
    env: IEnvironment, options: type[NodeOptions], path: str, data: bytes, flags: Mapping[str, str]
) -> CheckedFile:
    """
    Check a file as a program does at its start.

    @param flags: settings of the command line, by name.
    """
    program, usual = options.program, options.usual
    told = {**flags, "brokerRole": "SLAVE"} if options is SlaveOptions else flags
    findings = AllFindings()
    rows: list[CheckedSettingRow] = []
    warnings: list[str] = []
    try:
        found = load(surroundings(env), options.tables, path, data, told, usual, findings)
    except SettingError as error:  # the file as a whole cannot be read
        findings.refuse(error)
    else:
        make_all(program_checks(env, found, options.tables, options.serves_ops), findings)
        warnings = [*found.warnings, *without_effect(found), *access_notes(env, found)]
        for table in options.tables:
            for name, text in show(table, getattr(found, table)):
                origin = found.origins[table, name]
                given = origin.source != "default" or name in usual
                rows.append(CheckedSettingRow(table, name, text, str(origin), given))
    errors = [str(one) for one in findings.errors]
    return CheckedFile(program, rows, errors, warnings, findings.ignored)
