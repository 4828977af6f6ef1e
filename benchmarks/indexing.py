"""
The cost of the index per message: in this process, without network, in slices as the broker takes them.

Measured is all that the broker's own thread does for the index after an append: find the records, their keys and the
hashes of these, and put them into a mapped file of the real size. The log's pages are warm, as an append has just
touched them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple
from unittest import mock

from rich.table import Table
from twisted.internet import reactor

from smartgo.env.real import RealEnvironment
from smartgo.schema import indexkeys
from smartgo.schema.index import FIRST_ENTRY, Geometry, IndexHeader
from smartgo.schema.message import NewMessage, pack_host
from smartgo.schema.properties import encode as encode_properties
from smartgo.schema.record import encode
from smartgo.store.index import indexfile
from smartgo.store.index.indexfile import IndexFile
from smartgo.store.index.messageindex import RECORDS

GOALS = {True: 1.0, False: 3.0}
"""Microseconds a message with a unique key, with numpy and without; set on a machine twice as fast as most here."""

_HOST = pack_host("127.0.0.1", 10911)
_BORN_MS = 1_700_000_000_000


class Cost(NamedTuple):
    """
    One line of the table; microseconds of CPU a message.

    @ivar mixed: whether bodies, topics and properties differ in length, so that no two messages are alike for long.
    @ivar walk: to find the records, C{keys} their keys and hashes, C{put} to write them down.
    """

    numpy: bool
    body: int
    mixed: bool
    words: int
    slice: int
    walk: float
    keys: float
    put: float

    @property
    def total(self) -> float:
        """The sum of all three costs."""
        return self.walk + self.keys + self.put


def table(costs: Sequence[Cost]) -> Table:
    """Lay out what was measured."""
    found = Table(title="CPU of the index, us a message", title_justify="left")
    titles = ("numpy", "body", "mixed", "KEYS", "slice", "find records", "find and hash keys", "write", "all", "goal")
    for title in titles:
        found.add_column(title, justify="right")
    for one in costs:
        goal = f"{GOALS[one.numpy]:g}" if not one.words and one.slice == RECORDS else ""
        costs_us = [f"{part:.2f}" for part in (one.walk, one.keys, one.put, one.total)]
        numpy, mixed = ("yes" if yes else "no" for yes in (one.numpy, one.mixed))
        found.add_row(numpy, str(one.body), mixed, str(one.words), str(one.slice), *costs_us, goal)
    return found


def measure(folder: Path, rounds: int, messages: int = 16384) -> Iterator[Cost]:
    """
    Measure each case C{rounds} times; of each the best round is told, as others on the machine only add.

    @param messages: in a round.
    """
    for body, mixed, words in ((128, False, 0), (1024, False, 0), (1024, True, 0), (1024, False, 1), (1024, False, 3)):
        log = _log(body, mixed, words, messages)
        for numpy in (True, False):
            for size in (RECORDS, 32):
                yield _cost(folder, log, messages, (numpy, body, mixed, words, size), rounds)


def _log(body: int, mixed: bool, words: int, messages: int) -> memoryview:
    """Records as a Java client's messages make them: a unique key, and words of KEYS."""
    pieces = []
    offset = 0
    random = Random(1)
    for number in range(messages):
        properties = {
            "UNIQ_KEY": f"7F00000100002A9F73D16E93{number:08X}",
            "CLUSTER": "DefaultCluster",
            "MSG_REGION": "DefaultRegion",
            "TRACE_ON": "true",
            "TAGS": "TagA" + "A" * (mixed * number % 5),
        }
        if words:
            properties["KEYS"] = " ".join(f"order-{number}-{word}" for word in range(words))
        message = NewMessage(
            f"Topic{10 ** (mixed * number % 3) + number % 4}",
            number % 8,
            b"x" * (random.randrange(body * 2) if mixed else body),
            encode_properties(properties),
            born_ms=_BORN_MS,
            born_host=_HOST,
            store_host=_HOST,
        )
        record = encode(message, number, offset, _BORN_MS + number // 50)
        pieces.append(record)
        offset += len(record)
    return memoryview(b"".join(pieces))


def _cost(folder: Path, log: memoryview, messages: int, case: tuple[bool, int, bool, int, int], rounds: int) -> Cost:
    fewest = indexkeys.FEWEST if case[0] else 1 << 30
    with mock.patch.object(indexkeys, "FEWEST", fewest), mock.patch.object(indexfile, "FEWEST", fewest):
        found = [Cost(*case, *_round(folder, log, messages, case[-1])) for _ in range(rounds)]
    return min(found, key=lambda one: one.total)


def _round(folder: Path, log: memoryview, messages: int, size: int) -> list[float]:
    """Index the log into a new file; return microseconds of CPU a message."""
    files = RealEnvironment(reactor).files
    geometry = Geometry()
    path = str(folder / "20300101000000000")
    files.create_sparse(path, geometry.size)
    mapping = files.map(path, scattered=True)
    ready = geometry.entry_at(FIRST_ENTRY + 5 * messages)
    mapping.reserve(0, ready)
    mapping.populate(0, ready)
    file = IndexFile(path, geometry, IndexHeader(), 0)
    file.open(mapping.view)
    file.begin_after(IndexHeader())
    file.make_ready(ready)
    walk = find = put = 0.0
    clock = time.process_time
    at = 0
    try:
        while at < len(log):
            first = clock()
            view = log[at : at + (4 << 20)]
            starts, end = indexkeys.record_starts(view, 0, size)
            second = clock()
            keys = indexkeys.keys_in(view, starts, at)
            third = clock()
            file.put(keys)
            last = clock()
            walk += second - first
            find += third - second
            put += last - third
            at += end
    finally:
        file.close()
        mapping.close()
        files.remove(path)
    return [seconds / messages * 1e6 for seconds in (walk, find, put)]
