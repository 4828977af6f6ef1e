"""The files of a store: how much disk each part takes, and how to drop them from the page cache."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ..errors import BenchmarkError

_BLOCK = 512
"""Unit of C{st_blocks}."""


class Disk(msgspec.Struct, frozen=True):
    """Bytes that are allocated on disk (not lengths: files are sparse), and how many files there are."""

    log: int
    queues: int
    index: int
    other: int
    files: int

    @property
    def total(self) -> int:
        """All bytes."""
        return self.log + self.queues + self.index + self.other


def disk_of(store: Path) -> Disk:
    """Return what a store takes on disk."""
    parts = {"commitlog": 0, "consumequeue": 0, "index": 0}
    other = files = 0
    for path in _files(store):
        try:
            taken = path.stat().st_blocks * _BLOCK
        except FileNotFoundError:  # a broker that runs renames files
            continue
        files += 1
        part = path.relative_to(store).parts[0]
        if part in parts:
            parts[part] += taken
        else:
            other += taken
    return Disk(parts["commitlog"], parts["consumequeue"], parts["index"], other, files)


def evict(store: Path) -> None:
    """Write a closed store's files to disk and drop them from the page cache, so that the next reads go to the disk."""
    for path in _files(store):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fdatasync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def check_room(folder: Path, wanted: float, floor: float) -> None:
    """
    See that so many bytes can be written and a floor of free bytes remains.

    @raise BenchmarkError: they cannot.
    """
    free = shutil.disk_usage(folder).free
    if free - wanted < floor:
        raise BenchmarkError(
            f"{folder} has {free / 1e9:.1f} GB free; {wanted / 1e9:.1f} GB are needed and {floor / 1e9:.1f} GB "
            "must remain (--floor)"
        )


def _files(store: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(store):
        for name in names:
            path = Path(folder, name)
            if not path.is_symlink():
                yield path
