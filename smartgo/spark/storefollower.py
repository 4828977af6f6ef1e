"""
A stream over the logs of some stores: where it begins, how far it may go, what a micro-batch is. Without Spark.

An offset of the stream is a physical offset for each store directory: all before it was read. Spark keeps it in its
checkpoint, asks for the next, and has what lies between two of them read, again if need be; so the same two offsets
must mean the same records whenever they are asked for.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from smartgo.errors import SettingError
from smartgo.schema.record import BLANK_SIZE, SIZE_LIMIT
from smartgo.spark import files
from smartgo.spark.logfollower import DataLost, LogFollower, begins_record, next_record, share
from smartgo.spark.logrange import LogRange
from smartgo.spark.options import LATEST, ReadOptions
from smartgo.spark.stores import Store, check_named, find_stores

Offset = dict[str, int]
"""Physical offset by root directory, sorted by directory: Spark compares offsets as texts."""

_log: Final = logging.getLogger("smartgo.spark")
_LOOKS: Final = 20


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
        self._target: Offset | None = None

    def initial(self) -> Offset:
        """
        Return where a new stream begins.

        @raise SettingError: there is no store at a path, or the position given is none in it.
        """
        stores = find_stores(self._options.paths)
        check_named(stores, self._options.starting.by_store, "startingOffsets")
        return _sorted({store.root: self._beginning(store) for store in stores})

    def settled(self) -> Offset:
        """Return where the logs end now, newest messages included."""
        found = {}
        for store in find_stores(self._options.paths):
            found[store.root] = self._tail(store).settle(store.log_files)
        return _sorted(found)

    def reached(self) -> Offset:
        """Return how far the logs went at the last look."""
        return _sorted({root: tail.reached for root, tail in self._tails.items()})

    def stop_at_the_end(self) -> None:
        """Go no further than the logs go now."""
        self._target = self.settled()

    def latest(self, start: Mapping[str, int], limit: int | None) -> Offset:
        """
        Return how far the next micro-batch goes.

        @param start: where the last one ended.
        @param limit: bytes of log, about, all stores together; C{None} for all there is.
        @raise DataLost: C{start} is not a place in a log any more, and that is to be an error.
        """
        stores = {store.root: store for store in find_stores(self._options.paths)}
        begins: Offset = {}
        ends: Offset = {}
        for root, store in stores.items():
            begins[root], ends[root] = self._waiting(store, start.get(root))
        found = share(begins, ends, limit)
        for root, end in found.items():
            if end < ends[root]:
                found[root] = next_record(stores[root].log_files(), begins[root], end, ends[root], files.read_at)
        for root in start.keys() - stores.keys():
            self._lose(root, "there is no store at this path any more")
            found[root] = start[root]
        return _sorted(found)

    def ranges(self, start: Mapping[str, int], end: Mapping[str, int]) -> list[LogRange]:
        """
        Return what a micro-batch has to read.

        @param start: physical offsets from which on records may start; C{end} before which they do.
        @raise DataLost: some of it was removed, and that is to be an error.
        """
        stores = {store.root: store for store in find_stores(self._options.paths)}
        found: list[LogRange] = []
        for root, stop in end.items():
            begin = start.get(root, 0)
            if begin >= stop:
                continue
            pieces = self._pieces(stores[root], begin, stop) if root in stores else []
            there = sum(piece.end - piece.begin for piece in pieces)
            if there < stop - begin and root in start:
                self._lose(root, f"{stop - begin - there} B between physical offsets {begin} and {stop} are missing")
            found += pieces
        return found

    # -- inside ------------------------------------------------------------------------------------------------

    def _beginning(self, store: Store) -> int:
        listed = store.log_files()
        minimum = listed[0].base if listed else 0
        starting = self._options.starting
        if starting.named == "latest":
            return self._tail(store).settle(store.log_files)
        given = starting.physical if starting.physical is not None else starting.by_store.get(store.root)
        if given is None:
            return minimum
        tail = self._tail(store)
        if given > tail.settle(store.log_files):
            raise SettingError(
                f"option startingOffsets: {given} lies behind the end of {store.root}, which is {tail.end}"
            )
        return max(given, minimum)

    def _waiting(self, store: Store, begin: int | None) -> tuple[int, int]:
        """Return what there is to read of a store, as (from, to)."""
        root = store.root
        tail = self._tail(store)
        self._look(tail, store)
        unsure = self._sure.get(root) != tail.cut
        if unsure:
            tail.settle(store.log_files)
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

    def _look(self, tail: LogFollower, store: Store) -> None:
        for _ in range(_LOOKS):
            try:
                tail.look(store.log_files())
            except FileNotFoundError:  # removed between listing and looking
                continue
            return

    def _pieces(self, store: Store, begin: int, end: int) -> list[LogRange]:
        found = []
        listed = store.log_files()
        known = store.regions()
        for file in listed:
            at, stop = max(begin, file.base), min(end, file.end)
            regions = tuple(one for one in known if one.end > at and one.offset < stop)
            # Within the last record's reach of a file's end nothing begins by searching, see smartgo.spark.partitions.
            safe = file.end - SIZE_LIMIT - BLANK_SIZE
            while at < stop:
                after = min(at + self._options.partition_bytes, stop)
                if after > safe:
                    after = stop
                aligned = at == file.base or (at == begin and begins_record(listed, at, files.read_at))
                found.append(
                    LogRange(store.root, file.path, file.base, at, after, stop, aligned, is_last=False, known=regions)
                )
                at = after
        return found

    def _lose(self, root: str, reason: str) -> None:
        if self._options.fail_on_data_loss:
            raise DataLost(root, reason)
        _log.warning("%s: %s; going on with what there is", root, reason)


def _sorted(offset: Mapping[str, int]) -> Offset:
    return dict(sorted(offset.items()))
