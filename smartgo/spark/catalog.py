"""
Options of tables that Spark's catalog keeps: C{CREATE TABLE t USING smartgo OPTIONS (path '/a/store')}.

With C{CREATE TABLE}, Spark gives a source the table's options and properties in one map, and adds keys of its own; the
options alone stand there a second time, as C{option.NAME}. So an unknown key is a mistake if it is there twice, and a
property of the table otherwise.

When such a table is read, no version from 4.1 to 4.3 gives a Python source any of this. What the catalog does keep is
the columns with their metadata; so the options travel in the metadata of the first one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import StructField, StructType

from smartgo.errors import SettingError

METADATA: Final = "smartgo.options"
"""The key of the first column's metadata that holds the options of its table, as JSON."""

_PROVIDER: Final = "provider"
"""The key that only C{CREATE TABLE} gives."""
_OPTION: Final = "option."
_PATH: Final = "path"
"""What Spark makes of a table's location; it has no second key."""


def is_table(given: Mapping[str, str]) -> bool:
    """Tell whether options come from C{CREATE TABLE}."""
    return _PROVIDER in _lower(given)


def own_options(given: Mapping[str, str]) -> dict[str, str]:
    """
    Return the options among what Spark gives to a source, misspelt ones included.

    @param given: as Spark gives it. Of a table of a catalog, its properties and what Spark adds are left out.
    """
    found = _lower(given)
    if _PROVIDER not in found:
        return dict(given)
    options = {name.removeprefix(_OPTION) for name in found if name.startswith(_OPTION)}
    return {name: text for name, text in found.items() if name == _PATH or name in options}


def remember(schema: StructType, options: Mapping[str, str]) -> StructType:
    """Return columns of which the first has the options of their table in its metadata."""
    first, *others = schema.fields
    metadata = {**first.metadata, METADATA: json.dumps(dict(sorted(options.items())))}
    return StructType([StructField(first.name, first.dataType, first.nullable, metadata), *others])


def options_of_table(given: Mapping[str, str], schema: StructType) -> dict[str, str]:
    """
    Return the options of a read: those of the table that is read, if it is one of a catalog, and over them those given.

    @param schema: the columns that Spark asks for.
    @raise SettingError: a table of a catalog has lost its options.
    """
    kept = [field.metadata[METADATA] for field in schema.fields if METADATA in field.metadata]
    found: dict[str, str] = json.loads(kept[0]) if kept else {}
    if not kept and not given:
        raise SettingError(
            "no path is given: load(DIR) needs the root directory of a store. Of a table made by CREATE TABLE with a"
            " list of columns, Spark does not keep the options: leave the list out"
        )
    return {**found, **_lower(given)}


def _lower(given: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): text for name, text in given.items()}
