"""
Files of one length in one directory, named by the offset of their first byte, without a gap.

The CommitLog is such a queue of files, and every ConsumeQueue. Source: C{store/MappedFileQueue.java}.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from typing import Final

from smartgo.env.interfaces import IFiles
from smartgo.store.mappedfile import MappedFile

_NAME: Final = re.compile("[0-9]{20}")


def file_name(offset: int) -> str:
    """Return the name of the file that begins at an offset: 20 digits."""
    return f"{offset:020d}"


def is_file_name(name: str) -> bool:
    """Tell whether a name is that of a log or queue file."""
    return _NAME.fullmatch(name) is not None


class FileQueue:
    """
    The files of one directory, oldest first.

    @ivar file_size: of every file, in bytes.
    @ivar files: in order; the bases of neighbours differ by C{file_size}.
    """

    __slots__ = ("_files", "_scattered", "directory", "file_size", "files")

    def __init__(
        self, files: IFiles, directory: str, file_size: int, bases: Sequence[int] = (), scattered: bool = False
    ) -> None:
        """
        @param bases: of the files that exist, in order and without a gap.
        @param scattered: little of a file is used at a time.
        """
        self._files = files
        self._scattered = scattered
        self.directory = directory
        self.file_size = file_size
        self.files = [MappedFile(self._path(base), base, file_size, scattered) for base in bases]

    @property
    def begin(self) -> int:
        """Offset of the first byte of the oldest file; 0 without files."""
        return self.files[0].base if self.files else 0

    @property
    def end(self) -> int:
        """Offset after the last byte of the newest file; 0 without files."""
        return self.files[-1].end if self.files else 0

    def find(self, offset: int) -> MappedFile | None:
        """Return the file that holds an offset, C{None} where there is none."""
        files = self.files
        if not files:
            return None
        number = (offset - files[0].base) // self.file_size
        return files[number] if 0 <= number < len(files) else None

    def between(self, begin: int, end: int) -> list[MappedFile]:
        """Return the files that hold bytes from C{begin} on and below C{end}, oldest first."""
        found = []
        for file in reversed(self.files):
            if file.end <= begin:
                break
            if file.base < end:
                found.append(file)
        return found[::-1]

    def add(self, file: MappedFile) -> MappedFile:
        """
        Add a file as the newest.

        @raise ValueError: it does not begin where the newest ends.
        """
        if self.files and file.base != self.end:
            raise ValueError(f"{file.path} does not follow {self.files[-1].path}")
        self.files.append(file)
        return file

    def rename_in(self, source: str, base: int) -> MappedFile:
        """Move a file that has the right length already to where it is the newest. @raise OSError"""
        path = self._path(base)
        self._files.rename(source, path)
        return self.add(MappedFile(path, base, self.file_size, self._scattered, fresh=True))

    def create_sparse(self, base: int) -> MappedFile:
        """
        Create the newest file, without blocks, the directory too where it is missing; no name is durable yet.

        @raise OSError: as the system says.
        """
        if not self.files:
            self._files.make_directories(self.directory, sync=False)
        path = self._path(base)
        self._files.create_sparse(path, self.file_size)
        return self.add(MappedFile(path, base, self.file_size, self._scattered, fresh=True))

    def forget_newest(self) -> MappedFile:
        """Take the newest file out of the queue; the file itself stays."""
        return self.files.pop()

    def forget_oldest(self) -> MappedFile:
        """Take the oldest file out of the queue; the file itself stays. Threads that have the list keep the old one."""
        oldest = self.files[0]
        self.files = self.files[1:]
        return oldest

    def remove(self, file: MappedFile) -> None:
        """Unlink a file that was taken out and is not mapped. @raise OSError"""
        self._files.remove(file.path)

    def _path(self, base: int) -> str:
        return posixpath.join(self.directory, file_name(base))
