"""
The cost of checking records when they are first read: C{python -m benchmarks.verifiedreads --help}.

A store is read as pulls read it, in this process, without a network: what this process appended itself, which is not
checked; then, opened again, for the first time, which checks each region once, and once more. CPU and wall time count
for all threads of the process, divided by the messages.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from typing import Any, NamedTuple

import click

from smartgo.schema.message import NewMessage
from smartgo.store.interfaces import ReadLimit, ReadStatus
from smartgo.store.opening import open_store
from smartgo.store.openstore import OpenStore
from smartgo.store.settings import StoreSettings

from .errors import BenchmarkError
from .timers import HOST, Machine

_LIMIT = ReadLimit(32, 256 << 10)
_PROPERTIES = b"UNIQ_KEY\1%032X\2WAIT\1true\2TAGS\1TagA"


class Cost(NamedTuple):
    """Microseconds a message, and how many reads had to wait for a check."""

    cpu: float
    wall: float
    waited: int


def opened(root: str) -> OpenStore:
    """Open a store whose lanes work at once."""
    machine: Any = Machine(1.0)
    found: list[Any] = []
    settings = StoreSettings(disk_free_minimum=1 << 20, log_file_size=256 << 20, scrub_rate=0)
    open_store(machine, root, settings).addBoth(found.append)
    if not isinstance(found[0], OpenStore):
        raise BenchmarkError(f"the store cannot be opened: {found[0]}")
    return found[0]


def fill(store: OpenStore, count: int, size: int) -> None:
    """Append messages."""
    for number in range(count):
        message = NewMessage("T", 0, bytes(size), _PROPERTIES % number, born_ms=1, store_host=HOST)
        store.append((message,))
        if number % 1000 == 999:
            store.end_run()
    store.end_run()


def read(store: OpenStore, count: int) -> Cost:
    """Read all messages. @raise BenchmarkError: not all of them are there."""
    at = waited = 0
    cpu, wall = time.process_time(), time.perf_counter()
    while at < count:
        result: Any = store.read("T", 0, at, _LIMIT, None)
        if result.status is ReadStatus.COLD:
            waited += 1
            found: list[Any] = []
            store.read_cold("T", 0, at, _LIMIT, None).addBoth(found.append)
            result = found[0]
        if getattr(result, "status", None) is not ReadStatus.FOUND:
            raise BenchmarkError(f"message {at} of {count} cannot be read: {result}")
        at = result.next_offset
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return Cost(cpu / count * 1e6, wall / count * 1e6, waited)


@click.command()
@click.option("--count", default=200_000, show_default=True, help="Messages.")
@click.option("--size", default=1024, show_default=True, help="Bytes of a body.")
@click.option("--rounds", default=3, show_default=True, help="How often the store is opened again.")
def main(count: int, size: int, rounds: int) -> None:
    """Measure what the check of records costs a message that is read, the first time and later."""
    root = tempfile.mkdtemp(prefix="verified")
    try:
        store = opened(root)
        fill(store, count, size)
        read(store, count)
        print("us a message                cpu    wall  reads that waited")
        for number in range(rounds):
            print(f"own messages           {_row(read(store, count))}")
            store.close()
            store = opened(root)
            print(f"first time, round {number + 1}    {_row(read(store, count))}")
            print(f"once more              {_row(read(store, count))}")
            if number < rounds - 1:
                store.close()
                shutil.rmtree(root)
                store = opened(root)
                fill(store, count, size)
                read(store, count)
        store.close()
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _row(cost: Cost) -> str:
    return f"{cost.cpu:8.2f}{cost.wall:8.2f}{cost.waited:8}"


if __name__ == "__main__":
    main()
