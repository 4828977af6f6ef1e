"""The memory of Spark's processes while stores of several sizes are read: it must not grow with the store."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from . import sparksession
from .sparkdata import lengthen, write_store
from .sparktree import peaks_below

GIB = 1 << 30
_FILE = 256 << 20
_BODY = 1024
GROWTH = 1.2
"""The most that a peak may grow from the smallest store to the largest."""


class Measured(msgspec.Struct):
    """
    One scan of all columns.

    @ivar log_bytes: of the log that was read.
    @ivar workers: the most memory without a file behind it, in bytes, that all Python workers had together.
    @ivar java: the same of driver and executor, which are one Java process here.
    @ivar python: the same of the process that runs the query.
    """

    log_bytes: int
    workers: int
    java: int
    python: int


def run(work: Path, sizes: Sequence[int], say: Callable[[str], object]) -> list[Measured]:
    """
    Read parts of one store, the smallest first.

    @param sizes: bytes of log, growing.
    """
    say(f"writing {sizes[-1] >> 20} MiB")
    store = write_store(work / "store", _FILE - 1, _BODY, _FILE)
    lengthen(store, _FILE, sizes[-1] // _FILE)
    spark = sparksession.start(work / "spark", "1g")
    found = []
    try:
        for size in [_FILE, *sizes]:  # Spark is warm when the first size is measured
            say(f"reading {size >> 20} MiB")
            frame = spark.read.format("smartgo").option("endingOffsets", str(size)).load(str(store.root))
            with peaks_below(os.getpid()) as peaks:
                frame.write.format("noop").mode("overwrite").save()
            found.append(Measured(size, peaks.workers, peaks.java, peaks.root))
    finally:
        spark.stop()
    return found[1:]


def is_flat(found: Sequence[Measured]) -> bool:
    """Tell whether no process has grown with the store."""
    first, last = found[0], found[-1]
    pairs = ((first.workers, last.workers), (first.java, last.java), (first.python, last.python))
    return all(after <= GROWTH * before for before, after in pairs)
