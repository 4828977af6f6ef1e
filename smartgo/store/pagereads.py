"""Reads around the pages of a file that the disk cannot give."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Final

from twisted.python.components import proxyForInterface

from smartgo.env.interfaces import IFiles

PAGE: Final = 4096
"""Bytes that are read at once where the disk cannot read more; what cannot be read is lost in such pieces."""
_DISK_ERRORS: Final = frozenset((errno.EIO, errno.EBADMSG, errno.EUCLEAN, errno.ENODATA, errno.EREMOTEIO))


def is_unreadable(error: OSError) -> bool:
    """Tell whether an error says that the disk cannot read a place, and not that the system lacks something."""
    return error.errno in _DISK_ERRORS


def read_pages(read: Callable[[int, int], bytes | None], begin: int, end: int) -> bytes:
    """
    Read a range of a file page by page; zeros stand for pages that cannot be read.

    @param read: reads bytes, given their position and how many, all of one page; C{None}: they cannot be read.
    """
    parts = []
    while begin < end:
        part = min(PAGE - begin % PAGE, end - begin)
        data = read(begin, part)
        parts.append(bytes(part) if data is None else data)
        begin += part
    return b"".join(parts)


class TolerantFiles(proxyForInterface(IFiles, "_files")):  # type: ignore[misc]
    """Files that are read page by page where the disk cannot read a piece, with zeros for the pages that it cannot."""

    _files: IFiles

    def __init__(self, files: IFiles) -> None:
        super().__init__(files)
        self._unreadable: dict[str, dict[int, str]] = {}  # by path: where pages begin, and why; not asked for again

    def read_at(self, path: str, offset: int, size: int) -> bytes:
        """See L{IFiles.read_at}."""
        try:
            return self._files.read_at(path, offset, size)
        except OSError as error:
            if not is_unreadable(error):
                raise
        failed = self._unreadable.setdefault(path, {})

        def read(at: int, count: int) -> bytes | None:
            page = at - at % PAGE
            if page in failed:
                return None
            try:
                return self._files.read_at(path, at, count)
            except OSError as error:
                if not is_unreadable(error):
                    raise
                failed[page] = error.strerror or str(error)
                return None

        return read_pages(read, offset, min(offset + size, self._files.size(path)))

    def unreadable(self, path: str, begin: int, end: int) -> str:
        """Return why the disk could not read a page of a range that was read; empty where it could read all of it."""
        failed = self._unreadable.get(path, {})
        return next((why for page, why in sorted(failed.items()) if page < end and page + PAGE > begin), "")
