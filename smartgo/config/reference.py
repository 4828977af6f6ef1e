"""
The reference page of all settings, from the schema itself.

C{python -m smartgo.config.reference} prints the part of C{docs/configuration.rst} that stands between its two marks;
a test holds that the page has it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from smartgo.config.catalog import Setting, settings_of
from smartgo.config.settings import TABLES


def tables() -> str:
    """Return one reStructuredText table for each table of settings."""
    return "\n".join(line for table in TABLES for line in _table(table))


def default_of(setting: Setting) -> str:
    """Return what holds when the setting is not given, in words."""
    if setting.kind.otherwise:
        return setting.kind.otherwise
    return f"``{setting.kind.show(setting.default)}`` {setting.kind.unit}".rstrip()


def _table(table: str) -> Iterator[str]:
    title = f"[{table}]"
    about = (TABLES[table].__doc__ or "").strip()
    yield from (title, "-" * len(title), "", about, "")
    yield from (".. list-table::", "   :header-rows: 1", "   :widths: 25 20 25 45", "")
    yield from _row("Setting", "Default", "Allowed", "Meaning")
    for setting in settings_of(table):
        names = " or ".join(f"``{name}``" for name in (setting.name, *setting.kind.aliases))
        unit = f"; a bare number is {setting.kind.unit}" if setting.kind.unit not in ("", "bytes") else ""
        yield from _row(names, default_of(setting), f"{setting.kind.allowed}{unit}", setting.about)
    yield ""


def _row(*cells: str) -> Iterator[str]:
    for number, cell in enumerate(cells):
        escaped = cell.replace("|", "\\|").replace("*", "\\*") if not cell.startswith("``") else cell
        yield f"   {'*' if number == 0 else ' '} - {escaped}"


if __name__ == "__main__":
    sys.stdout.write(tables() + "\n")
