"""
The record of deleted topics, written before the table of queues is.

A deletion counts at once, and the topic can be used anew at once, but the table of queues (C{smartgo.queues}) is
replaced by a thread, a little later, or much later on a full disk. A process that is killed in between must still know
at its next start which records of the log belong to the deleted topic. So a small file is made first: without it
nothing is deleted.

One file a deletion, C{NUMBER.mark} in the directory of deleted queues: CRC-32 of what follows (int32, signed), then
topic and physical offset as msgpack. It survives a kill as soon as it is written. A flush that begins after the
deletion makes it durable before the log (both use the flush lane), so no durable message of the new topic is without
it. The file is removed when the table of queues holds the deletion.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import NamedTuple
from zlib import crc32

import msgspec
from construct import Int32sb, Struct

from smartgo.env.interfaces import IFiles
from smartgo.schema.fixed import fixed
from smartgo.store.checkpoint import QueueTable
from smartgo.store.storelayout import DELETED, deletion_marks, mark_name, mark_number

_crc = fixed(Struct("crc" / Int32sb))


class Deletion(NamedTuple):
    """
    The deletion of one topic.

    @ivar below: physical offset; the topic's records below it are those that it was deleted with.
    """

    topic: str
    below: int


class DeletionMarks:
    """The files that record deletions in one store. All methods block."""

    def __init__(self, files: IFiles, root: str) -> None:
        """@param root: the store's directory; the directory of deleted queues in it is there before L{write}."""
        self._files = files
        self._root = root
        self._directory = posixpath.join(root, DELETED)
        self._last = max(map(mark_number, deletion_marks(files, root)), default=0)

    def paths(self) -> list[str]:
        """Return the paths of all files."""
        return deletion_marks(self._files, self._root)

    def load(self) -> dict[str, int]:
        """
        Return the topics that were deleted, each with the highest C{below}, and make that durable.

        A file that a power failure tore is left out: nothing durable depends on it. @raise OSError
        """
        found: dict[str, int] = {}
        for path in self.paths():
            deletion = _unpack(self._files.read(path))
            if deletion is not None:
                self.sync(path)
                found[deletion.topic] = max(deletion.below, found.get(deletion.topic, 0))
        return found

    def known(self, table: QueueTable | None) -> dict[str, int]:
        """
        Return what the table of queues says is deleted, and what was deleted after it was saved; that is durable then.

        What the table says of the queues of such a topic is dropped from it: they are gone.

        @raise OSError: as the system says.
        """
        marks = self.load()
        if table is None:
            return marks
        deleted = table.deleted
        newer = {
            topic: below
            for topic, below in marks.items()
            if below > max(deleted.get(topic, 0), table.log_minimum)  # what the log begins behind is forgotten there
        }
        table.queues = [entry for entry in table.queues if entry.topic not in newer]
        return {**deleted, **newer}

    def write(self, deletion: Deletion) -> str:
        """Record a deletion, not durably yet; return the path. @raise OSError: it is not recorded."""
        raw = msgspec.msgpack.encode(deletion)
        self._last += 1
        path = posixpath.join(self._directory, mark_name(self._last))
        self._files.create(path, _crc.pack(_checksum(raw)) + raw, sync=False)
        return path

    def sync(self, path: str) -> None:
        """Make a written deletion durable. @raise OSError"""
        mapping = self._files.map(path, writable=False)
        try:
            mapping.sync()
        finally:
            mapping.close()
        self._files.sync_directory(self._directory)

    def remove(self, paths: Sequence[str]) -> None:
        """
        Remove files, durably: the table of queues holds what they say, or less where the log was cut.

        @raise OSError: some may be there still.
        """
        for path in paths:
            self._files.remove(path)
        if paths:
            self._files.sync_directory(self._directory)


def _unpack(data: bytes) -> Deletion | None:
    raw = data[_crc.size :]
    if len(data) < _crc.size or _crc.unpack_from(data)[0] != _checksum(raw):
        return None
    try:
        return Deletion(*msgspec.msgpack.decode(raw, type=tuple[str, int]))
    except msgspec.DecodeError:
        return None


def _checksum(raw: bytes) -> int:
    value = crc32(raw)
    return value - ((value & 0x80000000) << 1)
