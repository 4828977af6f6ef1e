"""The tables of C{scale connections}."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table

from .connections import Outcome, Stage
from .crowd import Kind
from .tables import Line, median, side_by_side

_TITLES: dict[Kind, str] = {
    "beat": "Connections with a heart-beat every 30 s",
    "poll": "Connections with a heart-beat every 30 s and a pull that waits",
}


def table(outcome: Outcome, kind: Kind) -> Table:
    """Lay out what was found for one kind of client."""
    stages = [stage for stage in outcome.stages if stage.kind == kind]
    return side_by_side(_TITLES[kind], [f"{stage.connections:,}" for stage in stages], stages, list(_lines()))


def _lines() -> Iterator[Line[Stage]]:
    yield "connections/s until all are answered", lambda stage: stage.connections / stage.accept_s
    yield "µs CPU a connection, first heart-beat included", lambda stage: stage.accept_cpu_s / stage.connections * 1e6
    yield "MB anonymous before", lambda stage: stage.before.anonymous / 1e6
    yield "MB anonymous with them", lambda stage: stage.after.anonymous / 1e6
    yield "KiB anonymous a connection", lambda stage: stage.bytes_each / 1024
    yield "descriptors", lambda stage: stage.after.descriptors
    yield "idle: % of a core", lambda stage: stage.idle_cores * 100
    yield "idle: answers/s", lambda stage: stage.answers
    yield "idle: µs CPU an answer", lambda stage: stage.idle_cores / stage.answers * 1e6 if stage.answers else None
    yield "64 senders beside: µs CPU a message", lambda stage: median(stage.beside)
    yield "64 senders, no clients: µs CPU a message", lambda stage: median(stage.alone)
    yield "ratio of these, median", lambda stage: stage.ratio.median if stage.ratio else None
    yield "ratio of these, least", lambda stage: stage.ratio.minimum if stage.ratio else None
    yield "ratio of these, most", lambda stage: stage.ratio.maximum if stage.ratio else None
    yield "restart, no clients: s until ready", lambda stage: stage.alone_ready_s
    yield "restart, all reconnect: s until all are answered", lambda stage: stage.storm_s
    yield "restart, all reconnect: CPU s", lambda stage: stage.storm_cpu_s
    yield "connections lost", lambda stage: stage.lost
