"""
Taking the queues of a topic away, whose records stay in the log, and queue files whose messages the log has lost.

A deletion is written down first (L{smartgo.store.queues.deletions}), so that recovery knows of it whatever happens
next. The queue files go out of the way at once, so that a topic of the same name can begin anew; they are removed by a
thread, when the deletion is durable.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from smartgo.env.interfaces import IFiles, IThreads
from smartgo.observer import OneShotObserver
from smartgo.store.checkpointer import Checkpointer
from smartgo.store.flush import LANE as FLUSH_LANE
from smartgo.store.interfaces import PutStatus
from smartgo.store.mappedfile import OpenMappings
from smartgo.store.queues.deletions import Deletion, DeletionMarks
from smartgo.store.queues.file import ConsumeQueue, ConsumeQueues, QueueKey
from smartgo.store.storelayout import DELETED, left_queues

LANE: Final = "prepare"


class _Running(NamedTuple):
    """A deletion under way, and the event of its end."""

    topic: str
    ended: OneShotObserver[None]


class QueueRemoval:
    """Removes the queues of deleted topics, and the expired files of the others."""

    _log = Logger()

    def __init__(
        self,
        threads: IThreads,
        files: IFiles,
        root: str,
        queues: ConsumeQueues,
        mappings: OpenMappings,
        checkpointer: Checkpointer,
        failed: Callable[[BaseException], None],
    ) -> None:
        """@param failed: called when a deletion could not be made durable; nothing may be appended from then on."""
        self._threads = threads
        self._files = files
        self._root = root
        self._directory = posixpath.join(root, DELETED)
        self._queues = queues
        self._mappings = mappings
        self._checkpointer = checkpointer
        self._failed = failed
        self._marks = DeletionMarks(files, root)
        self._unsaved: list[str] = []  # files of deletions that the table of queues may not hold yet
        self._running: list[_Running] = []
        self._moved = 0  # queues whose files went to the directory of deleted ones

    def clear(self, saved: bool) -> None:
        """
        Make the directory of deleted queues, and remove what a killed process left there. Blocking.

        @param saved: the table of queues holds every deletion that was written down.
        """
        self._files.make_directories(self._directory)
        for path in left_queues(self._files, self._root):
            self._files.remove_tree(path)
        if saved:
            self._marks.remove(self._marks.paths())
        else:
            self._unsaved = self._marks.paths()

    def drop(self, topic: str, below: int, but: Collection[QueueKey] = ()) -> Deferred[None]:
        """
        Drop the queues of a topic; fires when that is durable and their files are gone.

        @param below: physical offset; the records of the topic below it are those that it is deleted with.
        @param but: queues that stay: all that they have lies behind that.
        @raise OSError: the deletion could not be written down, and nothing was changed; or, through the Deferred: it
            could not be made durable, or the files could not be moved or removed.
        """
        doomed = [queue for queue in self._queues if queue.topic == topic and queue.key not in but]
        if not doomed:
            return self._durable(topic)
        mark = self._marks.write(Deletion(topic, below))
        self._checkpointer.deleted[topic] = below
        moved: list[str] = []
        failed: OSError | None = None
        for queue in doomed:
            queue.dropped = True
            del self._queues.by_key[queue.key]
            try:
                moved += self._move_away(queue)
            except OSError as error:
                failed = error
        running = _Running(topic, OneShotObserver())
        self._running.append(running)
        waiting = running.ended.when()
        Deferred.fromCoroutine(self._remove(mark, doomed, moved, failed)).addBoth(self._removed, running)
        return waiting

    async def idle(self) -> None:
        """Return when no deletion is under way."""
        while self._running:
            await self._running[-1].ended.when().addErrback(lambda failure: None)  # whoever asked for it is told

    def _durable(self, topic: str) -> Deferred[None]:
        """Fire with the result of the topic's deletion under way; at once if there is none."""
        for running in reversed(self._running):
            if running.topic == topic:
                return running.ended.when()
        return succeed(None)

    def _removed(self, result: None, running: _Running) -> None:
        self._running.remove(running)
        running.ended.fire(result)

    def _move_away(self, queue: ConsumeQueue) -> list[str]:
        """Move the files of a queue to the directory of deleted queues: a new queue may have the same name."""
        for file in queue.files.files:
            self._queues.dirty.pop(file, None)
        if not queue.files.files:
            return []
        self._moved += 1
        target = posixpath.join(self._directory, str(self._moved))
        self._files.rename(queue.directory, target)
        parent = posixpath.dirname(queue.directory)
        if not self._files.list(parent):
            self._files.remove_directory(parent)
        return [target]

    def move_expired_away(self, queue: ConsumeQueue) -> tuple[int, str]:
        """
        Take the files out of a queue whose units all lie below its first offset.

        They go to the directory of deleted queues first: the queue may be deleted, and begin anew, before a thread has
        removed them. L{remove_moved} removes them.

        @return: how many there were, and the directory that has them now, which is not made without any.
        @raise OSError: a file could not be moved; those before it were.
        """
        file = queue.expired()
        if file is None:
            return 0, ""
        self._moved += 1
        target = posixpath.join(self._directory, str(self._moved))
        self._files.make_directories(target, sync=False)
        count = 0
        while file is not None:
            self._files.rename(file.path, posixpath.join(target, posixpath.basename(file.path)))
            queue.files.forget_oldest()
            self._queues.dirty.pop(file, None)
            self._mappings.close(file)
            count += 1
            file = queue.expired()
        return count, target

    def remove_moved(self, directory: str) -> Deferred[None]:
        """Remove a directory that L{move_expired_away} returned, in the lane."""
        return self._threads.run(LANE, self._files.remove_tree, directory)

    async def _remove(
        self, mark: str, doomed: Sequence[ConsumeQueue], moved: Sequence[str], failed: OSError | None
    ) -> None:
        try:
            # In the lane of flushes: the log must not become durable with messages of the new topic before this.
            await self._threads.run(FLUSH_LANE, self._marks.sync, mark)
        except OSError as error:
            self._failed(error)
            raise
        self._unsaved.append(mark)
        await self._save()
        for queue in doomed:
            for file in queue.files.files:
                self._mappings.close(file)
        for path in moved:
            await self._threads.run(LANE, self._files.remove_tree, path)
        if failed is not None:
            raise failed

    async def _save(self) -> None:
        """Save the table of queues, then remove the files of the deletions that it holds."""
        held = set(self._unsaved)
        status = await self._checkpointer.save(table=True)
        await self._checkpointer.idle()
        if status is not PutStatus.OK:
            return
        done = [path for path in self._unsaved if path in held]
        self._unsaved = [path for path in self._unsaved if path not in held]
        try:
            await self._threads.run(LANE, self._marks.remove, done)
        except OSError as error:
            self._log.warn("{error}; the next start removes it", error=str(error))
