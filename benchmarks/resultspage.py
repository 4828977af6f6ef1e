"""The part of a page of the documentation that a command writes from its results: its place, and its pieces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .errors import BenchmarkError
from .spread import Spread

END = ".. End of the results.\n"
"""The line of a page behind which the results end."""


def begin(command: str) -> str:
    """Return the line of a page behind which the results of a command begin."""
    return f'.. Begin of the results: written by "python -m benchmarks {command}".\n'


class ResultsPlace:
    """
    The place of the results in a page that exists.

    @raise BenchmarkError: the page is not there or has no place for results.
    """

    def __init__(self, path: Path, command: str) -> None:
        self._path = path
        self._begin = begin(command)
        try:
            self._before, found, rest = path.read_text("utf-8").partition(self._begin)
        except OSError as error:
            raise BenchmarkError(f"{path}: {error.strerror}") from None
        _, end, self._after = rest.partition(END)
        if not found or not end:
            lines = f"{self._begin.strip()} {END.strip()}"
            raise BenchmarkError(f"{path} has lost a line between which results stand: {lines}")

    def write(self, text: str) -> Path:
        """Replace what stands between the two lines; return the page."""
        self._path.write_text(f"{self._before}{self._begin}\n{text}\n{END}{self._after}", "utf-8")
        return self._path


def measured(started: str, machine: Mapping[str, Any], rounds: int, took_s: float) -> str:
    """Return a sentence about day, rounds and machine."""
    gib = round(int(machine.get("memory_bytes", 0)) / (1 << 30))
    return (
        f"Measured on {started[:10]}: {rounds} round{'s' * (rounds > 1)}, {took_s / 60:.0f} minutes"
        f" on {machine.get('processor')}, {machine.get('processors')} processors, {gib} GiB, Linux "
        f"{str(machine.get('kernel')).partition('-')[0]}, Python {machine.get('python')}."
    )


def failures(sentences: Iterable[str]) -> str:
    """Return the first line of each failure, as they are; an empty text for none."""
    lines = [f"    {sentence.partition(chr(10))[0]}" for sentence in sentences]
    return "\n".join(["What went wrong::", "", *lines]) if lines else ""


def cell(found: Spread | None) -> str:
    """Write a median with its bounds, one round as one figure, nothing as an empty text."""
    if found is None:
        return ""
    if found.rounds == 1:
        return f"{found.median:.2f}"
    return f"{found.median:.2f} ({found.minimum:.2f} to {found.maximum:.2f})"


def table(title: str, heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a list-table; an empty text for no lines."""
    rows = ["   * - " + "\n     - ".join(cells) for cells in lines]
    if not rows:
        return ""
    return "\n".join([f".. list-table:: {title}", "   :header-rows: 1", "", "   * - " + "\n     - ".join(heads), *rows])


def joined(blocks: Iterable[str]) -> str:
    """Put the pieces that are not empty one below the other."""
    return "\n\n".join(block for block in blocks if block) + "\n"
