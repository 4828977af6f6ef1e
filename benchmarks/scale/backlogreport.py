"""The table of C{scale backlog}."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich.table import Table

from .backlog import PLACES, Outcome, Pull, Stage
from .process import How, Start
from .tables import Line, of_start, side_by_side

_HOWS: tuple[How, ...] = ("killed", "clean", "clean, cold")


def table(outcome: Outcome) -> Table:
    """Lay out what was found."""
    keys = "with a key each" if outcome.keys else "without keys"
    return side_by_side(
        f"Backlog of messages of {outcome.size} bytes, {keys}",
        [f"{stage.messages:,}" for stage in outcome.stages],
        outcome.stages,
        list(_lines()),
    )


def _lines() -> Iterator[Line[Stage]]:
    yield "storing: messages/s", lambda stage: stage.fill.rate
    yield "storing: µs CPU a message", lambda stage: stage.fill.cpu_us
    yield "disk: log, bytes a message", lambda stage: stage.disk.log / stage.messages
    yield "disk: queues, bytes a message", lambda stage: stage.disk.queues / stage.messages
    yield "disk: index, bytes a message", lambda stage: stage.disk.index / stage.messages
    yield "disk: all, GB", lambda stage: stage.disk.total / 1e9
    yield "files", lambda stage: stage.disk.files
    yield "after storing: MB anonymous", lambda stage: stage.held.anonymous / 1e6
    yield "after storing: MB resident", lambda stage: stage.held.resident / 1e6
    yield "after storing: mappings", lambda stage: stage.held.mappings
    yield "after storing: descriptors", lambda stage: stage.held.descriptors
    for how in _HOWS:
        yield f"start, {how}: s until ready", _of_start(how, lambda start: start.ready_s)
        yield f"start, {how}: CPU s", _of_start(how, lambda start: start.cpu_s)
        yield f"start, {how}: MB anonymous", _of_start(how, lambda start: start.held.anonymous / 1e6)
    yield "clean stop: s", _of_start("clean", lambda start: start.stop_s)
    for cold in (True, False):
        for place in PLACES:
            name = f"pull, {place}, {'from disk' if cold else 'again'}"
            yield f"{name}: messages/s", _of_pull(place, cold, lambda pull: pull.rate)
            yield f"{name}: µs CPU a message", _of_pull(place, cold, lambda pull: pull.cpu_us)
            yield f"{name}: messages an answer", _of_pull(place, cold, lambda pull: pull.messages / pull.answers)


def _of_start(how: How, figure: Callable[[Start], float]) -> Callable[[Stage], float | None]:
    return lambda stage: of_start(stage.starts, how, figure)


def _of_pull(place: str, cold: bool, figure: Callable[[Pull], float]) -> Callable[[Stage], float | None]:
    return lambda stage: next((figure(each) for each in stage.pulls if (each.place, each.cold) == (place, cold)), None)
