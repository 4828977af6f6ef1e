"""Readiness: which parts of a process keep it from serving."""

from __future__ import annotations

import msgspec

from smartgo.health.judgements import JUDGEMENTS


class PartState(msgspec.Struct, rename="camel"):
    """One condition of readiness."""

    name: str
    well: bool
    detail: str


def part_state(name: str, started: bool, failure: str | None) -> PartState:
    """
    Judge whether a part of the process serves.

    @param failure: why it could not start; C{None} while it starts.
    """
    return PartState(name, started, "serves" if started else failure or "starts")


def store_state(refusal: str | None) -> PartState:
    """
    Judge whether the store takes messages.

    @param refusal: why not; C{None} where it does.
    """
    refuses = JUDGEMENTS["store-refuses"].judge(float(refusal is not None)) is not None
    return PartState("store", not refuses, refusal or "takes messages")
