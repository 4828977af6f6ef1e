"""Commit logs of two stores, compared as they lie on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_PIECE = 1 << 20


@dataclass(frozen=True)
class Difference:
    """
    The differences of two logs.

    @ivar begin: the first offset that both have; C{end} behind the last byte, not zero, that either has.
    @ivar at: the first offset at which they differ; -1 for nowhere.
    """

    begin: int
    end: int
    at: int


def compare(one: str, other: str) -> Difference:
    """
    Compare the logs of two store folders; what lies behind their ends is zero in both, or not there.

    @raise FileNotFoundError: a store has no log.
    """
    first, second = _files(one), _files(other)
    begin = max(min(first), min(second))
    end = max(log_end(one), log_end(other))
    for at, ours, theirs in _pieces(first, second, begin, end):
        if ours != theirs:
            differs = next(index for index, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b)
            return Difference(begin, end, at + differs)
    return Difference(begin, end, -1)


def log_end(store: str) -> int:
    """Return the offset behind the last byte of a log that is not zero; no record ends in zero."""
    files = _files(store)
    for start in sorted(files, reverse=True):
        size = files[start].stat().st_size
        with open(files[start], "rb") as file:
            for at in range((size - 1) // _PIECE * _PIECE, -1, -_PIECE):
                file.seek(at)
                held = file.read(_PIECE).rstrip(b"\0")
                if held:
                    return start + at + len(held)
    return min(files)


def digest(store: str) -> str:
    """Return a digest of all bytes of a log, from its begin to its end."""
    files = _files(store)
    found = hashlib.sha256()
    for _, held, _ in _pieces(files, {}, min(files), log_end(store)):
        found.update(held)
    return found.hexdigest()


def _files(store: str) -> dict[int, Path]:
    found = {int(path.name): path for path in (Path(store) / "commitlog").iterdir() if path.name.isdigit()}
    if not found:
        raise FileNotFoundError(f"no log in {store}")
    return found


def _pieces(
    first: dict[int, Path], second: dict[int, Path], begin: int, end: int
) -> Iterator[tuple[int, bytes, bytes]]:
    size = next(iter(first.values())).stat().st_size
    for start in range(begin, end, size):
        for at in range(0, min(size, end - start), _PIECE):
            count = min(_PIECE, end - start - at)
            yield start + at, _read(first.get(start), at, count), _read(second.get(start), at, count)


def _read(file: Path | None, at: int, count: int) -> bytes:
    """Return bytes of a file; zeros for what it does not have."""
    if file is None:
        return bytes(count)
    with open(file, "rb") as opened:
        opened.seek(at)
        return opened.read(count).ljust(count, b"\0")
