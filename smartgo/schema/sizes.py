"""Numbers of bytes as text for people."""

from __future__ import annotations


def size_text(count: float) -> str:
    """
    Return a number of bytes with four digits and a unit.

    >>> size_text(996_519_936)
    '950.4 MiB'
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} TiB"
