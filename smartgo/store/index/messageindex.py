"""
The index: from a key to the messages that carry it, in files that RocketMQ can go on with.

It follows the log at some distance, so that no send waits for it: a tenth of a second after an append, and then a slice
of records at a turn of the reactor, from the pages that the append has just touched. What was in the log when the store
was opened is read by a thread, as it may have to come from the disk. All else that may take long is done in that lane
too: new files and their blocks (reliability S1), and the sync of full ones. While that lasts the index falls behind,
and a search waits for it, for some time.

The index holds nothing that the log does not. So nobody waits for it to be durable: what an unclean stop leaves of the
newest file is dropped and made anew, L{smartgo.store.index.recovery}.

Longer than 400 lines because it is one state machine: what may be done next depends on the newest file, the bytes of
the log at hand, the keys left over and the work in the lane, all of which each step changes.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from zope.interface import implementer

from smartgo.env.interfaces import IEnvironment, IMapping
from smartgo.schema.index import Geometry, IndexHeader, file_name, key_hash, key_text
from smartgo.schema.indexkeys import Keys, record_starts
from smartgo.schema.record import BLANK_MAGICS, BLANK_SIZE, MESSAGE_MAGICS, start_struct
from smartgo.store.backgroundtask import BackgroundTask
from smartgo.store.checkpoint import IndexEntry
from smartgo.store.commitlog import CommitLog
from smartgo.store.index.indexfile import IndexFile
from smartgo.store.index.indexspace import IndexSpace
from smartgo.store.index.positionwaiters import PositionWaiters
from smartgo.store.index.recovery import KeptIndex
from smartgo.store.index.runkeys import keys_of_run
from smartgo.store.index.search import LANE as SEARCH_LANE
from smartgo.store.index.search import IndexSearch
from smartgo.store.interfaces import IDispatcher
from smartgo.store.recovery.logscan import record_after
from smartgo.store.settings import StoreSettings

LANE: Final = "index"

_DELAY: Final = 0.1  # seconds from an append to its keys: what comes meanwhile costs little more
RECORDS: Final = 1024
"""In a slice, at most."""
_SLICE: Final = 4 << 20  # bytes that are looked at, or read by the lane, at once
_STOP_WAIT: Final = 3.0


T = TypeVar("T")


class IndexMatches(NamedTuple):
    """
    The result of a search in the index.

    @ivar offsets: physical offsets, ascending; some may be of messages with another key of the same hash.
    @ivar last_ms: how far the index has come: store timestamp and physical offset of the last message in it.
    """

    offsets: list[int]
    last_ms: int
    last_offset: int


@implementer(IDispatcher)
class MessageIndex:
    """
    The index of a store; see L{IDispatcher}.

    @ivar flushed_ms: store timestamp up to which full files are on the disk, as RocketMQ's checkpoint has it.
    """

    _log = Logger()
    name = "the index"

    def __init__(
        self,
        env: IEnvironment,
        root: str,
        log: CommitLog,
        settings: StoreSettings,
        kept: KeptIndex,
        flushed_ms: int,
        changed: Callable[[], None],
    ) -> None:
        """
        @param log: what it has now may not be in memory.
        @param kept: the files to go on with, and where.
        @param changed: called when what a checkpoint says of the index should be written down.
        """
        self._clock = env.clock
        self._threads = env.threads
        self._lane = BackgroundTask(self.name)
        self._files = env.files
        self._commitlog = log
        self._geometry: Geometry = settings.index_geometry
        self._retry_interval = settings.retry_interval
        self._end = log.end  # physical offset up to which records may be read
        self._changed = changed
        self._directory = posixpath.join(root, "index")
        self._space = IndexSpace(env.files, self._directory, settings.index_geometry)
        self._index_files = kept.files
        self._mapping: IMapping | None = None  # of the newest file, while that is written to
        self._cold = log.end  # physical offset below which records are read by the lane
        self._chunk = memoryview(b"")  # what the lane has read last, and where that begins
        self._chunk_base = 0
        self._wanted = 0  # how much it is to read at least: the size of a long record
        self._skip = kept.skip  # keys at the position that are in the index already
        self._left: Keys | None = None  # keys found that wait for room, and where to go on after them
        self._next = 0
        self._call: IDelayedCall | None = None
        self._blocked = False  # by work in the lane without which nothing can be done
        self._extending = False
        self._broken = False  # by a bug: what is in the files is not to be relied on
        self._taken = 0  # slices of records
        self._stopped = False
        self._waiters = PositionWaiters(env.clock)
        self.position = kept.position
        self.flushed_ms = flushed_ms

    # -- for the store -----------------------------------------------------------------------------------------

    @property
    def behind(self) -> int:
        """Bytes of log that are readable and not in the index yet."""
        return max(0, self._end - self.position)

    @property
    def durable(self) -> int:
        """
        Physical offset of a record: the keys of all before it are in files that are full and on the disk.

        Records without keys before the first key of the newest file need not be looked at again.
        """
        for file in self._index_files:
            if not (file.is_full and file.synced) and file.begin is not None:
                return file.begin
        return self.position if self._left is None else int(self._left.offsets[0])

    def entries(self) -> list[IndexEntry]:
        """Return the files there are, for the table that tells which must be there."""
        return [IndexEntry(file.name, file.header.end_offset) for file in self._index_files]

    def start(self) -> None:
        """See L{IDispatcher.start}."""
        self.expire(self._commitlog.minimum)
        self.dispatch(self._end)

    def dispatch(self, end: int) -> None:
        """See L{IDispatcher.dispatch}."""
        self._end = end
        if self._call is None and not self._blocked and not self._stopped and self.position < end:
            self._call = self._clock.callLater(_DELAY, self._go_on)

    def recover(self, position: int) -> None:
        """See L{IDispatcher.recover}."""
        self.position = self._end = position

    def stop(self) -> None:
        """See L{IDispatcher.stop}."""
        self._stopped = True
        self._cancel()

    def flush(self) -> Deferred[bool]:
        """See L{IDispatcher.flush}."""
        return Deferred.fromCoroutine(self._flush())

    async def _flush(self) -> bool:
        await self._lane.idle()
        if not self._broken:
            await self._make_up()
        newest = self._newest()
        if newest is not None and not newest.synced and self._mapping is not None:
            try:
                await self._threads.run(LANE, self._mapping.sync)
            except OSError as error:
                self._log.warn("the index could not be flushed and will be rebuilt: {error}", error=str(error))
            else:
                newest.synced = True
                if newest.is_full:
                    self.flushed_ms = newest.header.end_ms
        self.close()
        return not self._broken and all(file.synced for file in self._index_files)

    async def _make_up(self) -> None:
        deadline = self._clock.seconds() + _STOP_WAIT
        self._lane.failed = False
        while self._is_behind() and self._clock.seconds() < deadline and not self._lane.failed:
            if not self._try_step():
                return
            await self._lane.idle()

    def close(self) -> None:
        """See L{IDispatcher.close}. Whoever waits for the index waits no more."""
        newest = self._newest()
        if newest is not None:
            newest.close()
        if self._mapping is not None:
            self._mapping.close()
            self._mapping = None
        self._chunk = memoryview(b"")
        self._waiters.give_up()

    # -- following the log -------------------------------------------------------------------------------------

    def _newest(self) -> IndexFile | None:
        return self._index_files[-1] if self._index_files else None

    def _cancel(self) -> None:
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def _soon(self, delay: float = 0.0) -> None:
        """Schedule L{_go_on} for the reactor's next turn, or C{delay} seconds later."""
        if self._call is None and not self._stopped:
            self._call = self._clock.callLater(delay, self._go_on)

    def _go_on(self) -> None:
        self._call = None
        self._lane.failed = False
        taken = self._taken
        while not self._blocked and not self._lane.failed and self._taken == taken and self._is_behind():
            if not self._try_step():
                return
        if not self._blocked and self._is_behind():
            self._soon()

    def _is_behind(self) -> bool:
        return self._left is not None or self.position < self._end

    def _try_step(self) -> bool:
        """Take the next step; return whether the index can go on."""
        try:
            self._step()
        except Exception:  # searches become incomplete; sends and pulls must go on
            self._log.failure("the index no longer follows the log; the next start rebuilds it")
            self._broken = self._stopped = True
            return False
        return True

    def _step(self) -> None:
        newest = self._newest()
        if newest is None or newest.is_full:
            self._begin_file()
        elif self._mapping is None:
            self._open_file(newest)
        elif not newest.room:
            self._blocked = True
            self._extend(self._mapping, newest)
        elif self._left is not None:
            self._put(self._mapping, newest, self._left)
        else:
            self._taken += 1
            self._take(self._mapping, newest)

    def _take(self, mapping: IMapping, newest: IndexFile) -> None:
        """Find the keys of the next records, and put them into the newest file."""
        view = self._readable()
        if view is None:
            return
        starts, end = record_starts(view, 0, RECORDS)
        if not starts:
            self._pass_unreadable(view)
            return
        keys = keys_of_run(view, starts, self.position)
        view.release()
        if self._skip:
            keys = keys.after(self._skip)
            self._skip = 0
        self._next = self.position + end
        self._wanted = 0
        self._put(mapping, newest, keys)

    def _put(self, mapping: IMapping, newest: IndexFile, keys: Keys) -> None:
        count = newest.put(keys)
        if count < len(keys.hashes):
            self._left = keys.after(count)
            return
        self._left = None
        self.position = self._next
        self._waiters.reached(self.position)
        if self._space.is_little_left(newest):
            self._extend(mapping, newest)

    def _readable(self) -> memoryview | None:
        """Return the log's bytes from the position on, as many as are to be looked at; C{None}: the lane reads them."""
        position = self.position
        size = max(_SLICE, self._wanted)
        if position >= self._cold:
            window, base, limit = self._commitlog.window(position)
            return window[position - base : min(limit, self._end, position + size) - base]
        at = position - self._chunk_base
        if 0 <= at < len(self._chunk) and len(self._chunk) - at >= self._wanted:
            return self._chunk[at:]
        file = self._commitlog.files.find(position)
        if file is None:  # it was removed meanwhile
            self._found_next(max(self._commitlog.minimum, position + 1), self._end)
            return None
        size = min(size, file.end - position, self._cold - position)
        work = self._threads.run(LANE, self._files.read_at, file.path, position - file.base, size)
        self._block(work, self._have_read, position, size, file.end)
        return None

    def _have_read(self, data: bytes, position: int, size: int, end: int) -> None:
        if len(data) < size:  # somebody shortened the file
            self._found_next(end, self._end)
        self._chunk, self._chunk_base = memoryview(data), position

    def _pass_unreadable(self, view: memoryview) -> None:
        """Skip a blank, ask for more bytes of a long record, or search for the record behind damage."""
        position = self.position
        file = self._commitlog.files.find(position)
        room = 0 if file is None else file.end - position
        left = min(room, self._cold - position) if position < self._cold else room  # no record goes beyond that
        length = len(view)
        size, magic = start_struct.unpack_from(view) if length >= BLANK_SIZE else (BLANK_SIZE, 0)
        view.release()
        if magic in BLANK_MAGICS and size == room:
            self.position = position + size
            self._wanted = 0
            self._waiters.reached(self.position)
        elif (magic in MESSAGE_MAGICS or length < BLANK_SIZE) and max(length, self._wanted) < size <= left:
            self._wanted = size
        else:
            self._log.warn("the record at {offset} cannot be read; its keys are not indexed", offset=position)
            work = self._threads.run(LANE, record_after, self._files, self._commitlog.files, position, _check_cancelled)
            self._block(work, self._found_next, self._end)

    def _found_next(self, position: int | None, end: int) -> None:
        """Continue at the next valid record, or at C{end}."""
        self.position = end if position is None else min(position, end)
        self._skip = self._wanted = 0
        self._waiters.reached(self.position)

    # -- files -------------------------------------------------------------------------------------------------

    def _begin_file(self) -> None:
        """Begin a new index file."""
        newest = self._newest()
        name = file_name(self._clock.wall_ms(), self._clock.utc_offset())
        if newest is not None and name <= newest.name:  # the clock was set back, or is another's
            name = f"{int(newest.name) + 1:017d}"
        since = self.position if self._left is None else int(self._left.offsets[0])
        file = IndexFile(posixpath.join(self._directory, name), self._geometry, IndexHeader(), since)
        self._block(self._threads.run(LANE, self._space.create, file.path), self._begun, file)

    def _begun(self, mapping: IMapping, file: IndexFile) -> None:
        before, old = self._newest(), self._mapping
        self._index_files.append(file)
        self._opened(mapping, file)
        file.begin_after(IndexHeader() if before is None else before.header)
        if before is not None and old is not None:
            before.close()
            self._lane.follow(self._threads.run(LANE, old.sync), self._sealed, before).addBoth(lambda _: old.close())
        self.expire(self._commitlog.minimum)

    def _open_file(self, file: IndexFile) -> None:
        """Map the newest file, which was there when the store was opened."""
        work = self._threads.run(LANE, self._space.map, file.path, file.header.index_count)
        self._block(work, self._opened, file)

    def _opened(self, mapping: IMapping, file: IndexFile) -> None:
        self._mapping = mapping
        file.open(mapping.view)
        file.make_ready(self._space.step_after(self._geometry.entry_at(file.header.index_count)))

    def _sealed(self, _: None, file: IndexFile) -> None:
        """Note that a full file is on the disk, so that the next checkpoint says so."""
        file.synced = True
        self.flushed_ms = file.header.end_ms
        self._changed()

    def _extend(self, mapping: IMapping, file: IndexFile) -> None:
        """Get blocks for more entries."""
        if self._extending:
            return
        self._extending = True
        begin = file.ready_end
        end = self._space.step_after(begin)
        work = self._threads.run(LANE, self._space.extend, mapping, begin, end)
        self._lane.follow(work, self._extended, file, end).addBoth(self._unblock)

    def _extended(self, _: None, file: IndexFile, end: int) -> None:
        file.make_ready(end)

    def expire(self, minimum: int) -> None:
        """See L{IDispatcher.expire}; the newest file always stays."""
        while len(self._index_files) > 1 and self._index_files[0].header.end_offset < minimum:
            file = self._index_files.pop(0)
            self._lane.follow(self._threads.run(LANE, self._files.remove, file.path), self._dropped)

    def _dropped(self, _: None) -> None:
        self._changed()

    # -- work in the lane --------------------------------------------------------------------------------------

    def _block(self, work: Deferred[T], done: Callable[..., None], *args: Any) -> None:
        """Run a task in the lane, and take no other step until it has ended."""
        self._blocked = True
        self._lane.follow(work, done, *args).addBoth(self._unblock)

    def _unblock(self, _: object) -> None:
        self._blocked = self._extending = False
        self._soon(self._retry_interval if self._lane.failed else 0.0)

    # -- searching ---------------------------------------------------------------------------------------------

    async def find(self, topic: str, key: str, limit: int, begin_ms: int, end_ms: int) -> IndexMatches:
        """
        Find messages by a key or unique key, the newest first where there are more than C{limit}.

        All that was readable when this was called is found, unless the index takes long to catch up with it.

        @param begin_ms: store times from this on, to the second; C{end_ms} likewise.
        """
        await self._catch_up()
        places = [(file.path, file.header) for file in reversed(self._index_files)]
        search = IndexSearch(self._geometry, key_hash(key_text(topic, key)), limit, begin_ms, end_ms)
        await self._threads.run(SEARCH_LANE, search.run, self._files, places)
        last = places[0][1] if places else IndexHeader()
        return IndexMatches(sorted(search.found), last.end_ms, last.end_offset)

    async def _catch_up(self) -> None:
        """Wait until all that can be read now is in the index; not for long."""
        target = self._end
        if self.position >= target or self._stopped:
            return
        if not self._blocked:
            self._cancel()
            self._soon()
        await self._waiters.wait(target)


def _check_cancelled() -> None:
    """Never cancel: nobody waits for the end of the search for the next record."""
