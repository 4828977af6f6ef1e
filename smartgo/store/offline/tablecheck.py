"""Checks what stands beside the log of a store: checkpoints, the abort marker's meaning, and the JSON tables."""

from __future__ import annotations

import posixpath
from typing import Any, Final

from smartgo.env.interfaces import IFiles
from smartgo.errors import BadBody
from smartgo.schema import fastjson
from smartgo.schema.checkpoint import FILE_SIZE
from smartgo.store.offline.directory import OfflineStore
from smartgo.store.offline.findings import DAMAGE, NOTE, REPAIR, StoreCheckResult

TABLES: Final = "config"
"""Directory of the broker's tables, below the root."""
BACKUP: Final = ".bak"
"""What the name of a table's previous content ends with (reliability S12)."""
_LIMIT: Final = 256 << 20  # bytes of a table
_AHEAD_MS: Final = 3000  # RocketMQ's margin


def table_names(files: IFiles, root: str) -> list[str]:
    """Return the names of the tables of a store that have a file or its previous content, sorted."""
    names = files.list(posixpath.join(root, TABLES))
    return sorted({name.removesuffix(BACKUP) for name in names if name.removesuffix(BACKUP).endswith(".json")})


def read_table(files: IFiles, path: str) -> Any:
    """
    Return the content of a table.

    @raise BadBody: it is no JSON, not even as fastjson writes it, or no object.
    @raise OSError: there is no such file, or as the system says.
    """
    raw = files.read(path, _LIMIT)
    if not raw.strip(b" \t\r\n\0"):
        raise BadBody("it is empty")
    found = fastjson.loads(raw)
    if not isinstance(found, dict):
        raise BadBody("it is not an object")
    return found


def table_fault(files: IFiles, path: str) -> str | None:
    """Return why a file is no table, C{None} if it is one."""
    try:
        read_table(files, path)
    except BadBody as error:
        return str(error)
    except OSError as error:
        return error.strerror or str(error)
    return None


def check_tables(store: OfflineStore, result: StoreCheckResult) -> None:
    """Check that every table can be read, or else its previous content."""
    for name in table_names(store.files, store.root):
        path = posixpath.join(store.root, TABLES, name)
        result.tables += 1
        fault = table_fault(store.files, path)
        if fault is None:
            continue
        if table_fault(store.files, path + BACKUP) is None:
            result.find(
                REPAIR, path, f"unreadable ({fault}); the next start takes {name}{BACKUP}, its previous content"
            )
        else:
            result.find(
                DAMAGE, path, f"unreadable ({fault}), and so is {name}{BACKUP}; a broker does not start with it"
            )


def check_checkpoints(store: OfflineStore, result: StoreCheckResult, newest_ms: int) -> None:
    """
    Check the checkpoint files against the log.

    @param newest_ms: store timestamp of the newest record; 0 without one.
    """
    files = store.files
    own = posixpath.join(store.root, "smartgo.checkpoint")
    peer = posixpath.join(store.root, "checkpoint")
    if store.own is None and files.exists(own) and any(files.read(own, FILE_SIZE)):
        result.find(
            REPAIR, own, "damaged, or older than a RocketMQ broker's use of the store; the next start reads the log"
        )
    elif store.own is not None and store.table is None:
        result.find(REPAIR, posixpath.join(store.root, "smartgo.queues"), "damaged or missing; it is made anew")
    if files.exists(peer) and files.size(peer) != FILE_SIZE:
        result.find(REPAIR, peer, f"it has {files.size(peer)} B, not {FILE_SIZE} B")
    flushed_ms = store.peer.physical_ms
    if store.own is None and newest_ms and flushed_ms > newest_ms + _AHEAD_MS:
        result.find(
            NOTE,
            peer,
            f"it says that messages of up to {flushed_ms - newest_ms} ms after the newest one were flushed",
        )
    if result.end < store.flushed:
        result.find(
            DAMAGE, own, f"the log was flushed up to {store.flushed}, but its last valid record ends at {result.end}"
        )
    if store.regions_problem:
        result.find(REPAIR, store.root, store.regions_problem)
