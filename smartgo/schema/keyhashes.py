"""
Java's hash of many keys at once: with numpy, and without by arithmetic on one long integer.

One key at a time (L{smartgo.schema.properties.java_hash}) this costs more than storing the message does.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from smartgo.schema.columns import windows

LONGEST: Final = 64
"""Bytes of a key that is hashed together with others."""
POWERS: Final = [pow(31, exponent, 1 << 32) for exponent in range(LONGEST + 1)]
MASK_32: Final = 0xFFFFFFFF


def hash_together(texts: Sequence[bytes]) -> Sequence[int]:
    """
    Return Java's hash, unsigned, of ASCII texts of L{LONGEST} bytes at most.

    All are put to one length by zeros in front, which change nothing in a hash, and into one integer. Neighbours are
    combined, h1 * 31^n + h2, in all of it at once: bytes to lanes of 16 bits, these to 32, then to 64, of which the low
    32 count, and so on until a lane is one text.
    """
    if not texts:
        return ()
    width = 8
    longest = max(map(len, texts))
    while width < longest:
        width *= 2
    total = len(texts) * width
    together = b"".join(texts)
    if len(together) < total:
        together = b"".join([one.rjust(width, b"\0") for one in texts])
    value = int.from_bytes(together, "big")
    lane, power = 1, 31
    while lane < width:
        low = _lanes(lane, total)
        value = ((value >> 8 * lane) & low) * power + (value & low)
        lane *= 2
        power = power * power & MASK_32
        if lane >= 8:
            value &= _lanes(lane, total, 4)
    return [one for (one,) in struct.iter_unpack(f">{width - 4}xI", value.to_bytes(total, "big"))]


@lru_cache(maxsize=16)
def _lanes(lane: int, total: int, kept: int = 0) -> int:
    """Return a mask over C{total} bytes: of each two lanes the lower one, or of each lane its last C{kept} bytes."""
    pattern = bytes(lane - kept) + b"\xff" * kept if kept else bytes(lane) + b"\xff" * lane
    return int.from_bytes(pattern * (total // len(pattern)), "big")


def hash_spans(np: Any, letters: Any, begins: Any, lengths: Any) -> tuple[Any, Any]:
    """Return Java's hash, unsigned, of pieces of ASCII text; and which pieces are none."""
    found = np.zeros(len(begins), "u4")
    strange = np.zeros(len(begins), bool)
    counts = np.bincount(lengths) if len(lengths) else lengths
    for length in np.flatnonzero(counts).tolist():
        if not length:
            continue
        chosen = slice(None) if counts[length] == len(begins) else np.flatnonzero(lengths == length)
        rows = windows(letters, length)[begins[chosen]].view("u1").reshape(-1, length)
        found[chosen] = hash_rows(np, rows)
        if rows.max() >= 0x80:
            strange[chosen] = rows.max(1) >= 0x80
    return found, strange


def hash_rows(np: Any, rows: Any) -> Any:
    """Return Java's hash, unsigned, of each row of ASCII letters."""
    return rows.astype("u4") @ np.array(_descending(rows.shape[1]), "u4")


@lru_cache(maxsize=256)
def _descending(length: int) -> list[int]:
    return [pow(31, exponent, 1 << 32) for exponent in range(length - 1, -1, -1)]
