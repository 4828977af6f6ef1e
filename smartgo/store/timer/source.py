"""The parts of a store that the timer log is made from."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import NamedTuple

from smartgo.store.commitlog import CommitLog
from smartgo.store.filequeue import FileQueue
from smartgo.store.messagereader import MessageReader
from smartgo.store.queues.file import ConsumeQueues


class TimerSource(NamedTuple):
    """
    The parts of a store that the timer log is made from.

    @ivar flushed: returns the physical offset below which the log is durable.
    """

    log: CommitLog
    queues: ConsumeQueues
    reader: MessageReader
    flushed: Callable[[], int]

    def log_files(self) -> FileQueue:
        """Return the files of the log as they are now, for another thread."""
        files = copy(self.log.files)
        files.files = list(files.files)
        return files
