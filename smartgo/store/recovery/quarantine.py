"""The quarantine: bytes behind the end of a log, saved in C{quarantine/} and removed from the log at the opening."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence
from typing import Final

from twisted.logger import Logger

from smartgo.env.interfaces import IEnvironment
from smartgo.store.filequeue import FileQueue, file_name
from smartgo.store.mappedfile import MappedFile
from smartgo.store.recovery.logscan import whole_records, written_end

_COPY: Final = 4 << 20  # bytes that are copied at once


class Quarantine:
    """The directory C{quarantine} of a store. All methods block."""

    _log = Logger()

    def __init__(
        self,
        env: IEnvironment,
        root: str,
        log_files: FileQueue,
        changing: Callable[[], None],
        check_cancelled: Callable[[], None],
    ) -> None:
        """
        @param changing: called before any file is changed.
        @param check_cancelled: called between pieces of some MiB; may raise to end the work.
        """
        self._files = env.files
        self._wall_ms = env.clock.wall_ms
        self._directory = posixpath.join(root, "quarantine")
        self._log_files = log_files
        self._changing = changing
        self._check_cancelled = check_cancelled

    def clear_behind(self, end: int, torn: int, aside: Sequence[str]) -> None:
        """
        Save and zero what lies behind the log's end, so that nothing there can be taken for a record later.

        @param torn: physical offset at which no whole record begins.
        @param aside: paths of log files behind the end that are not whole.
        """
        files = self._log_files
        keep = len(files.files)
        for number, file in enumerate(files.files):
            if file.end <= end:
                continue
            at = max(0, end - file.base)
            last = written_end(self._files, file.path, at, file.size, self._check_cancelled)
            if file.base <= end:
                if last > at:
                    self._changing()
                    self._log_whole_records(torn)
                    self._save(file, at, last)
                    self._files.zero(file.path, at, last)
            elif last > at or number > keep:
                self._changing()
                keep = min(keep, number)
        while len(files.files) > keep:
            self._set_aside(files.forget_newest().path)
        for path in aside:
            self._changing()
            self._set_aside(path)

    def _log_whole_records(self, torn: int) -> None:
        """Log how many whole records are cut with a torn one: their sends may have been acknowledged."""
        count = whole_records(self._files, self._log_files, torn, self._check_cancelled)
        if count:
            self._log.error(
                "{count} whole records behind the torn one at {offset} are cut with it, as they may have been stored"
                " after it was lost; the messages of a killed process are among them if its disk or memory is faulty",
                count=count,
                offset=torn,
            )

    def _save(self, file: MappedFile, begin: int, end: int) -> None:
        self._files.make_directories(self._directory)
        path = posixpath.join(self._directory, f"{file_name(file.base + begin)}-{self._wall_ms()}")
        self._log.warn(
            "{size} B behind the end of the log, at {offset}, were not whole, and are saved as {path}",
            size=end - begin,
            offset=file.base + begin,
            path=path,
        )
        while begin < end:
            self._check_cancelled()
            data = self._files.read_at(file.path, begin, min(_COPY, end - begin))
            self._files.append(path, data)
            begin += len(data)

    def _set_aside(self, path: str) -> None:
        self._files.make_directories(self._directory)
        target = posixpath.join(self._directory, f"{posixpath.basename(path)}-{self._wall_ms()}")
        self._log.warn("{path} lies behind the end of the log and was moved to {target}", path=path, target=target)
        self._files.rename(path, target)
