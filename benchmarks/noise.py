"""The noise of other programs in a measurement, and the cautions that follow from it."""

from __future__ import annotations

from collections.abc import Iterable

NOISY_CORES = 0.2
"""Processors that others may keep busy before a figure is unreliable."""


def cell(foreign_cores: float) -> str:
    """Write the processors that others kept busy, in yellow where a figure is unreliable."""
    return f"[yellow]{foreign_cores:.2f}[/yellow]" if foreign_cores > NOISY_CORES else f"{foreign_cores:.2f}"


def cautions(foreign_cores: Iterable[tuple[str, float]], rounds: int) -> list[str]:
    """
    Return sentences that say why the figures of a comparison should not be quoted; empty if they may be.

    @param foreign_cores: the name of each row, and the processors that others kept busy in its middle sample.
    """
    sentences = []
    noisy = [row for row, cores in foreign_cores if cores > NOISY_CORES]
    if noisy:
        sentences.append(
            f"Other programs were busy during {', '.join(noisy)}: repeat on a quiet machine before quoting a figure."
        )
    if rounds < 3:
        sentences.append("Fewer than three rounds: a first impression.")
    return sentences
