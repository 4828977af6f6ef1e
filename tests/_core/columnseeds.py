"""
Seeds for C{fuzzcolumns.c}: those kept in C{columnseeds.xz}, and records of tests behind any heads; see
L{tests._core.seeds}, whose arguments these are.

    python -m tests._core.columnseeds [FOLDER | --keep FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from typing import Final

from smartgo.schema.record import encode
from tests._core.seeds import COLUMN_SEEDS, behind_length, keep, kept, write_seeds
from tests.spark.logs import NOW_MS
from tests.spark.oddrecords import odd_record, plain_message

HEAD_SIZE: Final = 8
_BASE: Final = 1000


def records(seed: int) -> bytes:
    """A head that asks for anything, and some records."""
    random = Random(seed)
    head, raw = random.randbytes(HEAD_SIZE), b""
    if seed % 3 == 0:  # all columns of all records
        head = b"\xff\xff\xff\xff\x14\xff\xff\xff"
    for number in range(random.randrange(1, 9)):
        if random.random() < 0.5:
            raw += odd_record(random, number, _BASE + len(raw))
        else:
            raw += encode(plain_message(random), number, _BASE + len(raw), NOW_MS)
    return head + raw


def main() -> None:
    """Write the seeds, or keep those of a folder."""
    if sys.argv[1:2] == ["--keep"]:
        keep(Path(sys.argv[2]), COLUMN_SEEDS)
        return
    write_seeds([*kept(COLUMN_SEEDS), *(behind_length(records(seed)) for seed in range(300))], sys.argv[1:])


if __name__ == "__main__":
    main()
