"""
The files of a store directory, and the check that a store can open them. Nothing is changed here.

A file of a foreign name, or a log file of a length that the others do not have, is an error that names it (reliability
S15): it may be of a newer RocketMQ, or of other settings. Two things are no errors. At the tail of a log that was not
closed cleanly a file may be short, as its length was not on the disk yet; it is set aside if all of it was unflushed.
And a queue whose files are short, missing or misplaced is made anew from the log (S10).
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Sequence
from typing import Final

from smartgo.env.interfaces import IFiles
from smartgo.errors import ForeignFile, StoreError
from smartgo.schema.topics import QUEUE_LIMIT, is_topic
from smartgo.store.checkpoint import CheckpointSlot, QueueTable
from smartgo.store.filequeue import FileQueue, file_name, is_file_name
from smartgo.store.queues.file import QueueKey, round_up
from smartgo.store.settings import LOG_FILE_SIZE, QUEUE_FILE_SIZE, StoreSettings

SPARE: Final = "smartgo.spare"
"""Directory for log files made ahead, named by number; on the file system of the log, see L{spare_directory}."""
DELETED: Final = "smartgo.deleted"
"""
Directory below the root for the directories of deleted queues, named by number, until their files are removed, and for
the files of L{smartgo.store.queues.deletions}.
"""
_MARK: Final = ".mark"
_CUT: Final = '; if it was cut, "smartgo store repair" gives it its length back'

_IGNORED = frozenset({"lost+found"})  # where the directory is a file system of its own


class StoreLayout:
    """
    The files of one store.

    @ivar log_files: the CommitLog's files, all of one length and without a gap.
    @ivar begun: physical offset below which no log file counts, see L{QueueTable<smartgo.store.checkpoint.QueueTable>}.
    @ivar left_over: paths of the log files below it.
    @ivar aside: paths of files at the log's tail that are not whole; nothing in them was flushed.
    @ivar queue_file_size: length of a queue file.
    @ivar queues: the offsets at which the files of each queue begin.
    @ivar broken: queues with a file of a wrong length or a gap; not in C{queues}.
    @ivar impossible: directories of queues with ids that no topic has; damaged records once made some.
    """

    def __init__(
        self,
        files: IFiles,
        root: str,
        settings: StoreSettings,
        own: CheckpointSlot | None,
        table: QueueTable | None,
        clean: bool,
    ) -> None:
        """
        @param own: our last checkpoint, if there is one.
        @param table: the table of queues, if it is whole.
        @param clean: the store was closed cleanly.
        @raise ForeignFile: a file that does not belong there.
        @raise StoreError: a log file is missing.
        """
        self._files = files
        self.log_directory = settings.commitlog_directory or posixpath.join(root, "commitlog")
        self.queue_directory = posixpath.join(root, "consumequeue")
        self.begun = 0 if own is None or table is None or own.position < table.begun else table.begun
        self.left_over: list[str] = []
        self.aside: list[str] = []
        self.queues: dict[QueueKey, list[int]] = {}
        self.broken: dict[QueueKey, list[str]] = {}
        self.impossible: list[str] = []
        left_spares(files, spare_directory(files, root, self.log_directory))
        left_queues(files, root)
        self._durable = 0 if own is None else max(own.position, own.flushed)
        self._read_log(settings, own, clean)
        self._read_queues(settings, own)

    @property
    def is_empty(self) -> bool:
        """Tell whether there is no log file."""
        return not self.log_files.files

    @property
    def minimum(self) -> int:
        """Physical offset at which the log begins."""
        return max(self.begun, self.log_files.begin)

    # -- the log -----------------------------------------------------------------------------------------------

    def check_log(self) -> None:
        """
        Check that there is a log where there are queues; its disk may only not be mounted.

        Not after a crash of ours before the first flush: a power cut then may leave names of queue files alone.

        @raise StoreError: there is none.
        """
        if self.is_empty and (self.queues or self.broken) and not self._durable:
            raise StoreError(f"{self.log_directory} has no files, but {self.queue_directory} has")

    def _read_log(self, settings: StoreSettings, own: CheckpointSlot | None, clean: bool) -> None:
        durable = self._durable
        sizes: dict[int, int] = {}
        for name in self._files.list(self.log_directory):
            path = posixpath.join(self.log_directory, name)
            if name in _IGNORED or name == SPARE:
                continue
            if not is_file_name(name) or self._files.is_directory(path):
                raise ForeignFile(f"{path} is not a CommitLog file; remove it, or give the store another directory")
            if int(name) < self.begun:
                self.left_over.append(path)
            else:
                sizes[int(name)] = self._files.size(path)
        known = settings.log_file_size or (own.log_file_size if own is not None else None)
        file_size = known or _usual(list(sizes.values())) or LOG_FILE_SIZE
        bases = sorted(sizes)
        while bases and sizes[bases[-1]] != file_size:
            if clean or bases[-1] < durable or (len(bases) == 1 and sizes[bases[0]] and own is None):
                break
            self.aside.insert(0, self._log_path(bases.pop()))
        for number, base in enumerate(bases):
            path = self._log_path(base)
            if sizes[base] != file_size or base % file_size:
                raise ForeignFile(
                    f"{path} has {sizes[base]} B; the CommitLog's files must have {file_size} B and names that are"
                    f" multiples of that (mappedFileSizeCommitLog){_CUT if sizes[base] < file_size else ''}"
                )
            if number and base != bases[number - 1] + file_size:
                raise StoreError(f"{self._log_path(bases[number - 1] + file_size)} is missing, and files follow it")
        self.log_files = FileQueue(self._files, self.log_directory, file_size, bases)
        if durable > max(self.begun, self.log_files.end):
            missing = max(self.log_files.end, durable - 1 - (durable - 1) % file_size)
            raise StoreError(f"{self._log_path(missing)} is missing: the CommitLog went on up to {durable}")

    def _log_path(self, base: int) -> str:
        return posixpath.join(self.log_directory, file_name(base))

    # -- the queues --------------------------------------------------------------------------------------------

    def _read_queues(self, settings: StoreSettings, own: CheckpointSlot | None) -> None:
        found: dict[QueueKey, dict[int, int]] = {}
        for topic in self._names(self.queue_directory):
            topic_path = posixpath.join(self.queue_directory, topic)
            if not is_topic(topic) or not self._files.is_directory(topic_path):
                raise ForeignFile(f"{topic_path} is not a topic's directory")
            for number in self._names(topic_path):
                queue_path = posixpath.join(topic_path, number)
                if not _is_number(number) or not self._files.is_directory(queue_path):
                    raise ForeignFile(f"{queue_path} is not a queue's directory")
                if int(number) >= QUEUE_LIMIT:
                    self.impossible.append(queue_path)
                    continue
                sizes: dict[int, int] = {}
                for name in self._names(queue_path):
                    path = posixpath.join(queue_path, name)
                    if not is_file_name(name) or self._files.is_directory(path):
                        raise ForeignFile(f"{path} is not a queue file")
                    sizes[int(name)] = self._files.size(path)
                found[topic, int(number)] = sizes
        all_sizes = [size for sizes in found.values() for size in sizes.values()]
        usual = _usual(all_sizes)
        known = settings.queue_file_size or (own.queue_file_size if own is not None else None)
        file_size = self.queue_file_size = round_up(known or usual or QUEUE_FILE_SIZE)
        if usual is not None and usual != file_size and file_size not in all_sizes and len(all_sizes) > 1:
            raise ForeignFile(
                f"the queue files in {self.queue_directory} have {usual} B, not {file_size} B"
                " (mappedFileSizeConsumeQueue)"
            )
        for key, sizes in found.items():
            bases = sorted(sizes)
            if not bases:
                continue
            if (
                all(sizes[base] == file_size and base % file_size == 0 for base in bases)
                and bases[-1] - bases[0] == (len(bases) - 1) * file_size
            ):
                self.queues[key] = bases
            else:
                directory = posixpath.join(self.queue_directory, key[0], str(key[1]))
                self.broken[key] = [posixpath.join(directory, file_name(base)) for base in bases]

    def _names(self, path: str) -> list[str]:
        return [name for name in self._files.list(path) if name not in _IGNORED]


def spare_directory(files: IFiles, root: str, log_directory: str) -> str:
    """Return where log files are made ahead: below the root, or in the log's directory if that is elsewhere."""
    beside = posixpath.dirname(files.real(log_directory)) == files.real(root)
    return posixpath.join(root if beside else log_directory, SPARE)


def left_spares(files: IFiles, directory: str) -> list[str]:
    """
    Return the paths of the log files made ahead that a killed process left.

    @param directory: see L{spare_directory}.
    @raise ForeignFile: something else lies there.
    """
    found = _numbered(files, directory)
    for path in found:
        if files.is_directory(path):
            raise _foreign(path)
    return found


def left_queues(files: IFiles, root: str) -> list[str]:
    """
    Return the paths of the directories of deleted queues that a killed process left; they hold queue files only.

    @raise ForeignFile: something else lies there.
    """
    found = _numbered(files, posixpath.join(root, DELETED), _MARK)
    deletion_marks(files, root)
    for path in found:
        if not files.is_directory(path):
            raise _foreign(path)
        for name in files.list(path):
            below = posixpath.join(path, name)
            if not is_file_name(name) or files.is_directory(below):
                raise _foreign(below)
    return found


def mark_name(number: int) -> str:
    """Return the name of a file that says that a topic was deleted, see L{smartgo.store.queues.deletions}."""
    return f"{number}{_MARK}"


def mark_number(path: str) -> int:
    """Return the number of such a file."""
    return int(posixpath.basename(path).removesuffix(_MARK))


def deletion_marks(files: IFiles, root: str) -> list[str]:
    """
    Return the paths of the files that say that topics were deleted.

    @raise ForeignFile: something else has such a name.
    """
    directory = posixpath.join(root, DELETED)
    found = [posixpath.join(directory, name) for name in files.list(directory) if name.endswith(_MARK)]
    for path in found:
        if not _is_number(posixpath.basename(path).removesuffix(_MARK)) or files.is_directory(path):
            raise _foreign(path)
    return found


def _numbered(files: IFiles, directory: str, other: str = "") -> list[str]:
    """
    Return the paths of what is named by number in a directory.

    @param other: the ending of names that belong there, too, and are left out.
    """
    if files.exists(directory) and not files.is_directory(directory):
        raise _foreign(directory)
    names = [name for name in files.list(directory) if not (other and name.endswith(other))]
    for name in names:
        if not _is_number(name):
            raise _foreign(posixpath.join(directory, name))
    return [posixpath.join(directory, name) for name in names]


def _foreign(path: str) -> ForeignFile:
    return ForeignFile(f"{path} is nothing that a broker puts there; what belongs there is removed at start")


def _usual(sizes: Sequence[int]) -> int | None:
    """Return the length that most files have, of those that have any."""
    counted = Counter(size for size in sizes if size > 0)
    return counted.most_common(1)[0][0] if counted else None


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdigit() and len(name) <= 10 and str(int(name)) == name
