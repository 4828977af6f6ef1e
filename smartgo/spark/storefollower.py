"""
A stream over the logs of some stores: where it begins, how far it may go, what a micro-batch is. Without Spark.

An offset of the stream is a physical offset for each log, by L{its name<smartgo.spark.storenames>}: all before it was
read. Spark keeps it in its checkpoint, asks for the next, and has what lies between two of them read, again if need be;
so the same two offsets must mean the same records whenever they are asked for.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from smartgo.errors import SettingError
from smartgo.spark import files
from smartgo.spark.conditions import of_options
from smartgo.spark.gaps import DataLost, LogGap
from smartgo.spark.logfollower import LogFollower, begins_record, next_record, share
from smartgo.spark.logrange import LogRange
from smartgo.spark.options import LATEST, ReadOptions
from smartgo.spark.partitions import log_parts, written_behind
from smartgo.spark.queues import newest_end
from smartgo.spark.seeking import begin_at_time, begin_of_queues
from smartgo.spark.storenames import StoreNames
from smartgo.spark.stores import Store, check_named, check_topics, find_stores, looked_again
from smartgo.spark.walk import PROMISED

Offset = dict[str, int]
"""Physical offset by name of a log, sorted by name: Spark compares offsets as texts."""

_log: Final = logging.getLogger("smartgo.spark")
_LOOKS: Final = 20
_HOLES: Final = 100
"""Holes of zeros in the newest file that a stream passes over when it begins."""


def check_stream(options: ReadOptions) -> None:
    """
    Refuse options that have no meaning for a stream.

    @raise SettingError: it names the option.
    """
    if options.table != "messages":
        raise SettingError(f"table {options.table} cannot be read as a stream; only table messages can")
    if options.ending.named != "latest" or options.ending_ms is not None:
        raise SettingError("a stream has no end: options endingOffsets and endingTimestamp are for batch reads")
    if LATEST in options.starting.by_queue.values():
        raise SettingError("option startingOffsets: the end of a single queue (-1) is for batch reads; give its offset")


class StoreFollower:
    """
    The logs of the stores that the options name, followed.

    Stores that come to match a path later are read from their beginning.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._tails: dict[str, LogFollower] = {}
        self._sure: dict[
            str, int
        ] = {}  # stores in whose logs the stream's place was found, and how often they were cut
        self._target: dict[str, int] | None = None
        self._names = StoreNames(options.store_names)

    def initial(self) -> Offset:
        """
        Return where a new stream begins.

        @raise SettingError: there is no store at a path, or the position given is none in it.
        """
        stores = self._stores()
        starting = self._options.starting
        check_named(stores.values(), starting.by_store, "startingOffsets")
        topics = (topic for topic, _ in starting.by_queue)
        check_topics(stores.values(), topics, self._options.topics, "startingOffsets")
        return self._named({root: self._beginning(store) for root, store in stores.items()})

    def settled(self) -> Offset:
        """Return where the logs end now, newest messages included."""
        return self._named({root: self._settle(store).end for root, store in self._stores().items()})

    def reached(self) -> Offset:
        """Return how far the logs went at the last look."""
        return self._named({root: tail.reached for root, tail in self._tails.items()})

    def stop_at_the_end(self) -> None:
        """Go no further than the logs go now."""
        self._target = {root: self._settle(store).end for root, store in self._stores().items()}

    def latest(self, start: Mapping[str, int], limit: int | None) -> Offset:
        """
        Return how far the next micro-batch goes.

        @param start: where the last one ended.
        @param limit: bytes of log, about, all stores together; C{None} for all there is.
        @raise DataLost: C{start} is not a place in a log any more, and that is to be an error.
        """
        stores = self._stores(start)
        begins: dict[str, int] = {}
        ends: dict[str, int] = {}
        for root, store in stores.items():
            begins[root], ends[root] = self._waiting(store, start.get(self._names.of(root)))
        found = share(begins, ends, limit)
        for root, end in found.items():
            if end < ends[root]:
                found[root] = next_record(stores[root].log_files(), begins[root], end, ends[root], files.read_at)
        named = self._named(found)
        for name in start.keys() - named.keys():
            self._lose(name, "there is no store any more that this offset of the stream belongs to")
            named[name] = start[name]
        return _sorted(named)

    def ranges(self, start: Mapping[str, int], end: Mapping[str, int]) -> list[LogRange | LogGap]:
        """
        Return what a micro-batch has to read, and what is missing of it.

        @param start: physical offsets from which on records may start; C{end} before which they do.
        @raise DataLost: some of it is missing, and that is to be an error.
        """
        stores = {self._names.of(root): store for root, store in self._stores(start, end).items()}
        found: list[LogRange | LogGap] = []
        for name, stop in end.items():
            if start.get(name, 0) < stop:
                store = stores.get(name)
                found += self._parts(name if store is None else store.root, store, start.get(name), stop)
        return found

    # -- inside ------------------------------------------------------------------------------------------------

    def _stores(self, *offsets: Mapping[str, int]) -> dict[str, Store]:
        """Return the stores that there are, by directory; all have names."""
        stores = {store.root: store for store in find_stores(self._options.paths)}
        self._names.resolve(stores, *offsets)
        return stores

    def _named(self, by_root: Mapping[str, int]) -> Offset:
        return _sorted({self._names.of(root): offset for root, offset in by_root.items()})

    def _beginning(self, store: Store) -> int:
        listed = store.log_files()
        minimum = listed[0].base if listed else 0
        starting = self._options.starting
        if starting.named == "latest":
            return self._settle(store).end
        given = starting.physical if starting.physical is not None else starting.by_store.get(store.root)
        if given is None:
            return max(minimum, looked_again(lambda: self._sought(store)))
        tail = self._settle(store)
        if given > tail.end:
            raise SettingError(
                f"option startingOffsets: {given} lies behind the end of {store.root}, which is {tail.end}"
            )
        return max(given, minimum)

    def _sought(self, store: Store) -> int:
        """Return where to begin so that nothing that is asked for by a time or offsets of queues lies before."""
        options = self._options
        if options.starting_ms is not None:
            end = self._settle(store).end
            return begin_at_time(store.log_files(), end, options.starting_ms)
        if options.starting.by_queue and options.use_queues:
            return begin_of_queues(store, of_options(options), store.log_files())
        return 0

    def _waiting(self, store: Store, begin: int | None) -> tuple[int, int]:
        """Return what there is to read of a store, as (from, to)."""
        root = store.root
        tail = self._tail(store)
        self._look(tail, store)
        unsure = self._sure.get(root) != tail.cut
        if unsure:
            self._settle(store)
            if tail.reached < tail.promised:
                self._lose(root, f"the log ends at physical offset {tail.reached}; {PROMISED} {tail.promised}")
        if begin is None:
            begin = tail.minimum
        elif begin < tail.minimum:
            self._lose(root, f"physical offsets {begin} to {tail.minimum} were removed before they were read")
            begin = tail.minimum
        elif begin > tail.reached:
            self._lose(root, f"the log ends at physical offset {tail.reached}, before {begin}, up to where it was read")
            return tail.reached, tail.reached
        elif unsure and begin < tail.reached and not begins_record(store.log_files(), begin, files.read_at):
            self._lose(root, f"no message begins at physical offset {begin}, up to where it was read")
        self._sure[root] = tail.cut
        end = tail.end
        if self._target is not None:
            end = min(end, self._target.get(root, 0))
        return begin, max(begin, end)

    def _tail(self, store: Store) -> LogFollower:
        return self._tails.setdefault(store.root, LogFollower(files.read_at))

    def _settle(self, store: Store) -> LogFollower:
        """Find the end of a log that may be damaged; the ConsumeQueues tell how far it went at least."""
        tail = self._tail(store)
        tail.promised = looked_again(lambda: newest_end(store)) if self._options.use_queues else 0
        tail.written = 0
        for _ in range(_HOLES):
            tail.settle(store.log_files)
            written = looked_again(lambda: written_behind(store.log_files(), tail.reached))
            if written is None or written < tail.written:
                break
            tail.written = written + 1
        return tail

    def _look(self, tail: LogFollower, store: Store) -> None:
        for _ in range(_LOOKS):
            try:
                tail.look(store.log_files())
            except FileNotFoundError:  # removed between listing and looking
                continue
            return

    def _parts(self, root: str, store: Store | None, start: int | None, end: int) -> list[LogRange | LogGap]:
        """Return what is to be read of a store; one that is new to the stream may have lost what it began with."""
        found: list[LogRange | LogGap] = []
        if store is not None:
            found = looked_again(lambda: self._existing(store, start or 0, end))
        first = min((part.begin for part in found), default=end)
        if start is not None and start < first:
            path = f"{root if store is None else store.log}/{start:020d}"
            found.insert(0, LogGap(root, path, start, first, "it was removed before it was read"))
        gaps = [part for part in found if isinstance(part, LogGap)]
        if gaps:
            size = sum(gap.end - gap.begin for gap in gaps)
            self._lose(
                root,
                f"{size} B between physical offsets {gaps[0].begin} and {gaps[-1].end} are missing"
                f" ({gaps[0].path}: {gaps[0].reason})",
            )
        return found

    def _existing(self, store: Store, begin: int, end: int) -> list[LogRange | LogGap]:
        logs = store.log_files()
        parts = log_parts(store, logs, begin, end, self._options.partition_bytes, None)
        for number, part in enumerate(parts):
            if isinstance(part, LogRange) and part.begin == begin:
                parts[number] = replace(part, is_aligned=begins_record(logs, begin, files.read_at))
        return parts

    def _lose(self, root: str, reason: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLost(root, reason)
        _log.warning("%s: %s; going on with what there is", root, reason)


def _sorted(offset: Mapping[str, int]) -> Offset:
    return dict(sorted(offset.items()))
