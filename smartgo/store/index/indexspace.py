"""Index files on the disk: made and mapped with blocks for what is written next (reliability S1). All of it blocks."""

from __future__ import annotations

from typing import Final

from smartgo.env.interfaces import IFiles, IMapping
from smartgo.schema.columns import numpy_or_none
from smartgo.schema.index import Geometry
from smartgo.store.index.indexfile import IndexFile

STEP: Final = 16 << 20
"""Bytes of blocks that a file gets at a time."""


class IndexSpace:
    """Gives index files their blocks, step by step; in the lane of the index."""

    def __init__(self, files: IFiles, directory: str, geometry: Geometry) -> None:
        """@param directory: of the index files, made if missing."""
        self._files = files
        self._directory = directory
        self._geometry = geometry

    def create(self, path: str) -> IMapping:
        """Make a file, blocks for its slots and its first entries included. @raise OSError"""
        files = self._files
        files.make_directories(self._directory)
        files.create_sparse(path, self._geometry.size)
        try:
            mapping = self.map(path, 0)
            files.sync_directory(self._directory)
        except OSError:
            files.remove(path)
            raise
        return mapping

    def map(self, path: str, count: int) -> IMapping:
        """Map a file that is to be written to from entry number C{count} on. @raise OSError"""
        numpy_or_none()  # imported here, as that takes a tenth of a second and more
        mapping: IMapping = self._files.map(path, scattered=True)
        try:
            entries = self._geometry.entry_at(count)
            mapping.reserve(0, self.step_after(entries))
            mapping.populate(0, self._geometry.entry_at(0))
            mapping.populate(entries, self.step_after(entries))
        except OSError:
            mapping.close()
            raise
        return mapping

    def extend(self, mapping: IMapping, begin: int, end: int) -> None:
        """Get blocks for a part of a file, and its pages into memory. @raise OSError"""
        mapping.reserve(begin, end)
        mapping.populate(begin, end)

    def is_little_left(self, file: IndexFile) -> bool:
        """Tell whether a file should get more blocks before it needs them."""
        return file.wants_room(STEP // 2)

    def step_after(self, at: int) -> int:
        """Return the position in a file up to which there are blocks after a step that begins at C{at}."""
        return min(at + STEP, self._geometry.size)
