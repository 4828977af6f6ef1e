"""
Seeds for C{fuzz.c}: those kept in C{seeds.xz}, frames of the tape of sends, and units of a queue with their records; as
files in a folder, or one after another on standard output, each behind its length.

    python -m tests._core.seeds [FOLDER]

C{seeds.xz} holds what libFuzzer found to reach the most of the C part with the fewest bytes. To write it anew from a
folder that C{fuzz -merge=1 FOLDER OLD_FOLDER} has filled::

    python -m tests._core.seeds --keep FOLDER
"""

from __future__ import annotations

import lzma
import os
import sys
from pathlib import Path
from typing import Final

from smartgo.schema.consumequeue import PREFILL, UNIT_SIZE, Unit
from tests.broker.sendtape import SIGNERS, Tape
from tests.fakes import FakeEnvironment
from tests.store.stores import ROOT, StoreTestCase, message, small

KEPT: Final = Path(__file__).with_name("seeds.xz")
COLUMN_SEEDS: Final = Path(__file__).with_name("columnseeds.xz")
"""Those for C{fuzzcolumns.c}, see L{tests._core.columnseeds}."""


def kept(path: Path = KEPT) -> list[bytes]:
    """Return the seeds kept in a file, each behind its length."""
    if not path.exists():
        return []
    seeds = lzma.decompress(path.read_bytes())
    found, at = [], 0
    while at < len(seeds):
        end = at + 4 + int.from_bytes(seeds[at : at + 4], "big")
        found.append(seeds[at:end])
        at = end
    return found


def keep(folder: Path, path: Path = KEPT) -> None:
    """Write the files of a folder as the kept seeds, the shortest first."""
    found = sorted((path.read_bytes() for path in folder.iterdir()), key=lambda seed: (len(seed), seed))
    path.write_bytes(lzma.compress(b"".join(map(behind_length, found)), preset=9 | lzma.PRESET_EXTREME))


def behind_length(seed: bytes) -> bytes:
    """Return a seed as the harness reads it from standard input."""
    return len(seed).to_bytes(4, "big") + seed


def write_seeds(seeds: list[bytes], folders: list[str]) -> None:
    """Write seeds, each behind its length, to standard output, or without it as files in the one folder."""
    if not folders:
        sys.stdout.buffer.write(b"".join(seeds))
        return
    os.makedirs(folders[0], exist_ok=True)
    for number, seed in enumerate(seeds):
        with open(os.path.join(folders[0], f"{number:04}"), "wb") as file:
            file.write(seed[4:])


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
    """Write the seeds, or keep those of a folder."""
    match sys.argv[1:]:
        case ["--keep", folder]:
            keep(Path(folder))
            return
    frames = kept() + [frame for frame in Tape(1).frames(600, 0.4, 0.3) if len(frame) < 8192]
    frames += [frame for frame in Tape(2, SIGNERS).frames(200, 0.7, 0.3) if len(frame) < 8192]
    frames += map(behind_length, map(queue_with_log, (1, 2, 3, 7, 20)))
    write_seeds(frames, sys.argv[1:])


if __name__ == "__main__":
    main()
