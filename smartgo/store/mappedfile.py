"""
One file of the store under a mapping, open while it is used.

A mapping costs descriptors and page tables, and a store may have files by the ten thousand: L{OpenMappings} closes the
one unused for longest when there are too many (reliability L19). Closing never waits for readers: slices that were
handed out keep the memory mapped (S5).
"""

from __future__ import annotations

import errno
from collections import OrderedDict

from smartgo.env.interfaces import IFiles, IMapping


def check_writes(files: IFiles) -> None:
    """
    Raise if the disk has refused a write to a mapped file: a sync that succeeds proves nothing then.

    Call it after the sync: a write during that may have been refused, too (docs/spec/reliability#D4).

    @raise OSError: it has; the first such file is named.
    """
    if files.refused_writes:
        raise OSError(errno.EIO, "the disk refused a write", files.refused_writes[0])


class MappedFile:
    """
    A file of fixed length whose name is the offset of its first byte.

    @ivar base: offset of the first byte, in the log or the queue; C{end} that after the last.
    @ivar view: the whole content while the file is mapped, else C{None}: ask L{OpenMappings.view}.
    @ivar mapping: what C{view} belongs to.
    @ivar pins: how many need the mapping to stay; not closed while above zero.
    @ivar scattered: little of it is used at a time, as of a queue's file.
    @ivar fresh: the name may not be durable yet: the directory wants an fsync with the next flush.
    """

    __slots__ = ("base", "end", "fresh", "mapping", "path", "pins", "scattered", "size", "view")

    def __init__(self, path: str, base: int, size: int, scattered: bool = False, fresh: bool = False) -> None:
        self.path = path
        self.base = base
        self.end = base + size
        self.size = size
        self.scattered = scattered
        self.fresh = fresh
        self.view: memoryview | None = None
        self.mapping: IMapping | None = None
        self.pins = 0


class OpenMappings:
    """The mappings that are open now, by time of last use."""

    def __init__(self, files: IFiles, limit: int) -> None:
        """
        @param limit: how many may be open; passed only while more than that are pinned.
        """
        self._files = files
        self.limit = limit
        self._open: OrderedDict[MappedFile, None] = OrderedDict()
        self.touch = self._open.move_to_end  # an open file was used: one call into C, no Python frame

    def __len__(self) -> int:
        return len(self._open)

    def view(self, file: MappedFile) -> memoryview:
        """
        Return the content of a file, mapping it if need be, and count that as a use.

        @raise OSError: it cannot be opened or mapped.
        """
        if file.view is not None:
            self.touch(file)
            return file.view
        return self.adopt(file, self._files.map(file.path, scattered=file.scattered))

    def adopt(self, file: MappedFile, mapping: IMapping) -> memoryview:
        """Give a file a mapping that exists already."""
        file.mapping = mapping
        view: memoryview = mapping.view
        file.view = view
        self._open[file] = None
        if len(self._open) > self.limit:
            self._shrink()
        return view

    def mapping(self, file: MappedFile) -> IMapping:
        """Return the mapping of a file, opened if need be. @raise OSError: as L{view}."""
        mapping = file.mapping
        if mapping is None:
            mapping = self._files.map(file.path, scattered=file.scattered)
            self.adopt(file, mapping)
        else:
            self.touch(file)
        return mapping

    def pin(self, file: MappedFile) -> IMapping:
        """Keep a file mapped until L{unpin}, as another thread uses it. @raise OSError: as L{view}."""
        mapping = self.mapping(file)
        file.pins += 1
        return mapping

    def unpin(self, file: MappedFile) -> None:
        """Undo one L{pin}."""
        file.pins -= 1

    def close(self, file: MappedFile) -> None:
        """Give up the mapping of a file, if it has one."""
        if file.mapping is not None:
            del self._open[file]
            file.view = None
            file.mapping.close()
            file.mapping = None

    def close_all(self) -> None:
        """Unmap all files."""
        for file in list(self._open):
            self.close(file)

    def _shrink(self) -> None:
        newest = next(reversed(self._open))
        for file in self._open:
            if file.pins == 0 and file is not newest:
                self.close(file)
                return
