"""
Recovery of the index: the files that are kept when a store is opened, and the offset to continue from.

The index is made from the log (reliability S10), so whatever may be wrong with a file is no error: it goes, those after
it too, and the keys are made anew from where the last good file ends. A file goes when it is of another size or its
header makes no sense; when a file before it is missing; when it has messages that the log has not; and after an unclean
stop, when it was still written to. After an unclean stop of RocketMQ these are the files with messages newer than its
checkpoint says, as it does itself.
"""

from __future__ import annotations

import posixpath
import struct
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from twisted.logger import Logger

from smartgo.env.interfaces import IFiles
from smartgo.errors import ForeignFile
from smartgo.schema.index import FIRST_ENTRY, HEADER_SIZE, Entry, Geometry, IndexHeader, entry_struct, is_file_name
from smartgo.store.index.indexfile import IndexFile

UNKNOWN: Final = 0
"""In a checkpoint: whoever wrote it knew nothing of the index."""
OFF: Final = -1
"""In a checkpoint: nothing was indexed; files that may be there tell nothing of the log."""

_IGNORED: Final = frozenset({"lost+found"})

_log = Logger()


class KeptIndex(NamedTuple):
    """
    The index files that are kept, and where the index continues.

    @ivar files: oldest first.
    @ivar position: physical offset of the record to go on with.
    @ivar skip: how many keys of that record are in the files already.
    @ivar dropped: paths of files to be removed.
    """

    files: list[IndexFile]
    position: int
    skip: int
    dropped: list[str]


class KnownIndex(NamedTuple):
    """
    The facts about the index in the last checkpoint.

    @ivar clean: the store was closed in order.
    @ivar indexed: physical offset of a record: the keys of all before it are in full files on the disk; after a clean
        stop, in the index; or L{UNKNOWN}, or L{OFF}.
    @ivar flushed_ms: RocketMQ's timestamp of the index.
    @ivar listed: the files there were, by name, with the physical offset of the last message of each.
    """

    clean: bool
    indexed: int
    flushed_ms: int
    listed: Mapping[str, int]


def index_names(files: IFiles, directory: str) -> list[str]:
    """
    Return the names of the index files, oldest first.

    @raise ForeignFile: there is something else, on which RocketMQ would fail.
    """
    names = [name for name in files.list(directory) if name not in _IGNORED]
    for name in names:
        path = posixpath.join(directory, name)
        if not is_file_name(name) or files.is_directory(path):
            raise ForeignFile(f"{path} is not an index file; remove it")
    return names


def keep(
    files: IFiles,
    directory: str,
    names: Sequence[str],
    geometry: Geometry,
    known: KnownIndex,
    minimum: int,
    end: int,
) -> KeptIndex:
    """
    Decide which index files are kept; nothing is changed.

    @param minimum: physical offset of the log's oldest record; C{end} that after its last.
    @raise OSError: as the system says.
    """
    missing = [name for name, last in known.listed.items() if name not in names and last >= minimum]
    lost = min(missing, default="~")
    kept: list[IndexFile] = []
    dropped: list[str] = []
    whole = not missing
    before = IndexHeader()
    for name in names:
        path = posixpath.join(directory, name)
        reason = "one before it was dropped" if dropped else "one before it is missing" if name > lost else None
        header = IndexHeader()
        if reason is None and files.size(path) != geometry.size:
            reason = f"its size is not {geometry.size} B"
        if reason is None:
            header = _header(files, path)
            reason = _fault(header, geometry, before, end)
        if reason is None and header.end_offset < known.listed.get(name, 0):
            reason = "it had more messages"
        if reason is None and name != names[-1] and not geometry.is_full(header.index_count):
            reason = "it is not full, and others follow it"
        if reason is None and not known.clean and not _is_durable(header, geometry, known):
            dropped.append(path)
            continue
        if reason is not None or known.indexed == OFF:
            if not dropped:
                _log.warn("{path} is rebuilt from the log: {reason}", path=path, reason=reason or "it is out of date")
            dropped.append(path)
            whole = False
            continue
        kept.append(IndexFile(path, geometry, header, header.begin_offset))
        before = header
    position, skip = _end_of(files, kept, geometry)
    if whole and position < known.indexed <= end:
        position, skip = known.indexed, 0
    if position < minimum:
        position, skip = minimum, 0
    return KeptIndex(kept, min(position, end), skip, dropped)


def _header(files: IFiles, path: str) -> IndexHeader:
    try:
        header = IndexHeader.unpack(files.read_at(path, 0, HEADER_SIZE))
    except struct.error:
        return IndexHeader(index_count=-1)
    return header if header.index_count else header._replace(index_count=FIRST_ENTRY)  # made, and nothing put in


def _fault(header: IndexHeader, geometry: Geometry, before: IndexHeader, end: int) -> str | None:
    """Return why a file cannot be used; C{None} if it can."""
    count = header.index_count
    if not FIRST_ENTRY <= count <= geometry.entries or not 0 <= header.used_slots < count:
        return "its header makes no sense"
    if count > FIRST_ENTRY and not before.end_offset <= header.begin_offset <= header.end_offset:
        return "its header makes no sense"
    if count > FIRST_ENTRY and header.end_offset >= end:
        return "it has messages that the log has not"
    return None


def _is_durable(header: IndexHeader, geometry: Geometry, known: KnownIndex) -> bool:
    """Tell whether an unclean stop left a file as it was."""
    if known.indexed == UNKNOWN:
        return header.index_count > FIRST_ENTRY and header.end_ms <= known.flushed_ms
    return geometry.is_full(header.index_count) and header.end_offset <= known.indexed


def _end_of(files: IFiles, kept: Sequence[IndexFile], geometry: Geometry) -> tuple[int, int]:
    """Return the record of the last key in the files, and how many keys of it there are."""
    last = -1
    count = 0
    for file in reversed(kept):
        for number in range(file.header.index_count - 1, FIRST_ENTRY - 1, -1):
            entry = Entry.unpack(files.read_at(file.path, geometry.entry_at(number), entry_struct.size))
            if last >= 0 and entry.offset != last:
                return last, count
            last = entry.offset
            count += 1
    return max(last, 0), count
