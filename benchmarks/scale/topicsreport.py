"""The table of C{scale topics}."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich.table import Table

from .process import How, Start
from .tables import Line, median, of_start, side_by_side
from .topics import Cost, Outcome, Stage


def table(outcome: Outcome) -> Table:
    """Lay out what was found."""
    queues = outcome.stages[0].queues if outcome.stages else 0
    return side_by_side(
        f"Topics of {queues} queues, messages in each",
        [f"{stage.topics:,}" for stage in outcome.stages],
        outcome.stages,
        list(_lines()),
    )


def _lines() -> Iterator[Line[Stage]]:
    yield "create: ms a topic", lambda stage: stage.create.seconds / stage.create.count * 1e3
    yield "create: broker, ms CPU a topic", _each(lambda stage: stage.create, lambda cost: cost.broker_s * 1e3)
    yield "create: registry, ms CPU a topic", _each(lambda stage: stage.create, lambda cost: cost.registry_s * 1e3)
    yield "first sends: ms CPU a queue", _each(lambda stage: stage.first_sends, lambda cost: cost.broker_s * 1e3)
    yield "KiB anonymous a topic", lambda stage: _grown(stage) / stage.topics / 1024
    yield "MB anonymous", lambda stage: stage.after.anonymous / 1e6
    yield "mappings", lambda stage: stage.after.mappings
    yield "descriptors", lambda stage: stage.after.descriptors
    yield "files", lambda stage: stage.disk.files
    yield "disk: KiB a queue", lambda stage: stage.disk.queues / stage.topics / stage.queues / 1024
    yield "registration: bytes a topic", lambda stage: stage.table_bytes / stage.topics
    yield "registration: kB", lambda stage: stage.table_bytes / 1e3
    yield "idle: broker, % of a core", lambda stage: stage.idle.broker_s / stage.idle.seconds * 100
    yield "idle: registry, % of a core", lambda stage: stage.idle.registry_s / stage.idle.seconds * 100
    yield "route query: registry, µs CPU", _each(lambda stage: stage.routes, lambda cost: cost.registry_s * 1e6)
    hows: tuple[How, ...] = ("killed", "clean")
    for how in hows:
        yield f"start, {how}: s until ready", _of_start(how, lambda start: start.ready_s)
        yield f"start, {how}: CPU s", _of_start(how, lambda start: start.cpu_s)
        yield f"start, {how}: MB anonymous", _of_start(how, lambda start: start.held.anonymous / 1e6)
    yield "clean stop: s", _of_start("clean", lambda start: start.stop_s)
    yield "start: s until a new registry knows all", lambda stage: stage.known_s
    yield "sends, all topics in turn: µs CPU a message", lambda stage: median(stage.spread)
    yield "sends, one topic: µs CPU a message", lambda stage: median(stage.one)
    yield "ratio of these, median", lambda stage: stage.ratio.median if stage.ratio else None
    yield "ratio of these, least", lambda stage: stage.ratio.minimum if stage.ratio else None
    yield "ratio of these, most", lambda stage: stage.ratio.maximum if stage.ratio else None


def _grown(stage: Stage) -> int:
    return stage.after.anonymous - stage.before.anonymous


def _each(cost: Callable[[Stage], Cost], figure: Callable[[Cost], float]) -> Callable[[Stage], float | None]:
    return lambda stage: figure(cost(stage)) / cost(stage).count


def _of_start(how: How, figure: Callable[[Start], float]) -> Callable[[Stage], float | None]:
    return lambda stage: of_start(stage.starts, how, figure)
