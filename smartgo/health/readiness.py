"""Readiness: which parts of a process keep it from serving."""

from __future__ import annotations

from collections.abc import Sequence

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


def members_state(name: str, missing: Sequence[str], silent: Sequence[str], unknown: bool = False) -> PartState:
    """
    Judge whether members of the cluster are missing, or do not answer.

    @param name: C{brokers} or C{registries}.
    @param missing: those that were there and are gone; C{silent}: others that do not answer.
    @param unknown: whether no registry answers, so that nobody knows who else is missing.

    >>> members_state("brokers", ["broker-a"], ["broker-b"])
    PartState(name='brokers', well=False, detail='missing: broker-a; not answering: broker-b')
    """
    parts = [("missing", missing), ("not answering", silent)]
    detail = "; ".join(f"{what}: {', '.join(names)}" for what, names in parts if names)
    if unknown and not detail:
        detail = "all that were registered before answer; whether others are missing is not known: no registry answers"
        return PartState(name, True, detail)
    return PartState(name, not detail, detail or "none is missing")
