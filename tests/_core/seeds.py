"""
Seeds for C{fuzz.c}: frames of the tape of sends, and units of a queue with their records, as files in a folder, or one
after another on standard output, each behind its length.

    python -m tests._core.seeds [FOLDER]
"""

from __future__ import annotations

import os
import sys

from smartgo.schema.consumequeue import PREFILL, UNIT_SIZE, Unit
from tests.broker.sendtape import Tape
from tests.fakes import FakeEnvironment
from tests.store.stores import ROOT, StoreTestCase, message, small


def queue_with_log(records: int) -> bytes:
    """Units, most of them fillers, and as many bytes of records that the others lead to."""
    case, env = StoreTestCase(), FakeEnvironment()
    store = case.opened(env, small(log_file_size=1 << 16, queue_file_size=20_000))
    for number in range(records):
        store.append([message(body=b"%d" % (number % 10), properties=b"KEYS\x01xy", tag_code=number % 4)])
    store.end_run()
    units = store.units("T", 0, 0, records)
    size = units[0].size
    log = bytearray(env.files.files[f"{ROOT}/commitlog/{0:020d}"].data[: size * records])
    step = size // UNIT_SIZE
    packed = []
    for number, unit in enumerate(units):
        log[number * size + 20 : number * size + 28] = (number * step).to_bytes(8, "big")
        packed += [Unit(number * size, size, unit.tag_hash).pack(), *[PREFILL.pack()] * (step - 1)]
    return b"".join(packed) + bytes(log)


def main() -> None:
    """Write the seeds."""
    frames = [frame for frame in Tape(1).frames(600, 0.4) if len(frame) < 8192]
    frames += [len(one).to_bytes(4, "big") + one for one in map(queue_with_log, (1, 2, 3, 7, 20))]
    if len(sys.argv) < 2:
        sys.stdout.buffer.write(b"".join(frames))
        return
    for number, frame in enumerate(frames):
        with open(os.path.join(sys.argv[1], f"{number:03}"), "wb") as file:
            file.write(frame[4:])


if __name__ == "__main__":
    main()
