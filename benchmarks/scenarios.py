"""The measured scenarios, and the maximum that smartgo's broker may need in each."""

from __future__ import annotations

from typing import Literal

import msgspec

from .generator import Load

Quantity = Literal["cpu_us", "anonymous_mb", "idle_percent", "ready_s"]

UNITS: dict[Quantity, str] = {
    "cpu_us": "µs CPU a message",
    "anonymous_mb": "MB anonymous",
    "idle_percent": "% of a core",
    "ready_s": "s until ready",
}


class Goal(msgspec.Struct, frozen=True):
    """The median of one quantity in one scenario must not exceed C{at_most}."""

    scenario: str
    quantity: Quantity
    at_most: float


class Scenario(msgspec.Struct, frozen=True):
    """A load, and how many messages its topic must hold beforehand."""

    name: str
    about: str
    load: Load
    backlog: int = 0


def _send(name: str, about: str, size: int, connections: int, outstanding: int, binary: bool = False) -> Scenario:
    load = Load("send", (f"Bench-{name}",), 8, connections, outstanding, size, binary=binary)
    return Scenario(name, about, load)


_PULL_BACKLOG = 200_000

LOADS = (
    _send("send-1k", "1 KiB, 16 connections with 32 requests in flight each", 1024, 16, 32),
    _send("send-128", "128 B, 16 connections with 32 requests in flight each", 128, 16, 32),
    _send("send-1k-64x1", "1 KiB, 64 connections, one request in flight each", 1024, 64, 1),
    _send("send-128-64x1", "128 B, 64 connections, one request in flight each", 128, 64, 1),
    _send("send-1k-1x1", "1 KiB, one connection, one request in flight", 1024, 1, 1),
    _send("send-128-1x1", "128 B, one connection, one request in flight", 128, 1, 1),
    _send("send-1k-binary", "as send-1k with binary headers, as Apache's benchmark programs send", 1024, 16, 32, True),
    Scenario(
        "batch-128",
        "batches of 200 messages of 128 B, 4 connections with 4 batches in flight each",
        Load("batch", ("Bench-batch-128",), 8, 4, 4, 128, 200),
    ),
    Scenario(
        "pull-1k",
        "pulls of 32 messages of 1 KiB, 16 connections, through a backlog and over again",
        Load("pull", ("Bench-pull-1k",), 8, 16, 1, 1024, 32),
        _PULL_BACKLOG,
    ),
)

IDLE = "idle"
IDLE_CLIENTS = "idle-clients"
START_UP = "start-up"
OTHERS = {
    IDLE: "freshly started, nobody connected",
    IDLE_CLIENTS: "1000 connections, each with a heart-beat every 30 s",
    START_UP: "from the start of the process on an empty store until a heart-beat is answered",
}
NAMES = (START_UP, IDLE, IDLE_CLIENTS, *(scenario.name for scenario in LOADS))

GOALS = (
    Goal("send-1k", "cpu_us", 12.0),
    Goal("send-128", "cpu_us", 11.0),
    Goal("send-1k-64x1", "cpu_us", 45.0),
    Goal("send-128-64x1", "cpu_us", 45.0),
    Goal("batch-128", "cpu_us", 6.0),
    Goal("pull-1k", "cpu_us", 3.0),
    Goal(IDLE, "anonymous_mb", 60.0),
    Goal(IDLE, "idle_percent", 0.5),
    Goal(START_UP, "ready_s", 2.0),
)


def backlog_load(scenario: Scenario) -> Load:
    """Return the load that fills the scenario's topic: batches of the same body size."""
    wanted = scenario.load
    return Load("batch", wanted.topics, wanted.queues, 4, 4, wanted.size, 64)
