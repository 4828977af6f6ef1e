"""Sentences of resources of the REST API about a subject: functions for L{tests.scenarios.faces.Faces.rest}."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

Say = Callable[[Any], str | None]


def _broker(page: Any, name: str, id: int) -> Any:
    return next((one for one in page["items"] if (one["name"], one["id"]) == (name, id)), None)


def missing(name: str, id: int = 0) -> Say:
    """Say of C{/brokers} that a process is missing, and what cannot be reached."""

    def say(page: Any) -> str | None:
        one = _broker(page, name, id)
        if one is None or one["state"] != "missing":
            return None
        lost = one["unreachable"]
        more = f", {lost['messages']} messages unreachable" if lost else f", broker {one['brokerState']}"
        return f"{name} ({id}): {one['error']}{more}"

    return say


def stopped(name: str, id: int = 0) -> Say:
    """Say of C{/brokers} that a process was stopped in order, and when."""

    def say(page: Any) -> str | None:
        one = _broker(page, name, id)
        if one is None or one["left"] != "stopped":
            return None
        return f"{name} ({id}): {one['error']}, at {one['leftMs']}; {one['effect']}"

    return say


def refusing(name: str, why: str) -> Say:
    """Say of C{/brokers} why a broker takes no messages."""

    def say(page: Any) -> str | None:
        one = _broker(page, name, 0)
        return one["refusal"] if one and one["refusal"] and re.search(why, one["refusal"]) else None

    return say


def clock_off(name: str, seconds: float) -> Say:
    """Say of C{/brokers} by how much a clock differs, if by so many seconds at least."""

    def say(page: Any) -> str | None:
        one = _broker(page, name, 0)
        offset = one["clockOffset"] if one else None
        return f"{name}: clockOffset {offset} s" if offset is not None and abs(offset) >= seconds else None

    return say


def silent(name: str) -> Say:
    """Say of C{/brokers} that a registered broker does not answer."""

    def say(page: Any) -> str | None:
        one = _broker(page, name, 0)
        return f"{name}: {one['error']}" if one and one["state"] == "down" else None

    return say


def registry_down(address: str) -> Say:
    """Say of C{/registries} that a registry does not answer."""

    def say(rows: Any) -> str | None:
        one = next(row for row in rows if row["address"] == address)
        return None if one["up"] else f"{address}: {one['error']}"

    return say


def lag(messages: int) -> Say:
    """Say of C{/groups/NAME/progress} how many messages wait, if these, and since when."""

    def say(one: Any) -> str | None:
        if one["lag"] != messages or not one["lagMs"]:
            return None
        return f"lag {one['lag']}, lagMs {one['lagMs']}, consumeTps {one['consumeTps']}"

    return say


def dead_letters(group: str, count: int) -> Say:
    """Say of C{/dlq} how many dead letters a group has, if so many."""

    def say(page: Any) -> str | None:
        one = next((row for row in page["items"] if row["group"] == group), None)
        return f"{group}: {one['messages']} dead letters" if one and one["messages"] == count else None

    return say


def contended(name: str, address: str) -> Say:
    """Say of C{/brokers} that another broker claims to be a master, if it has this address."""

    def say(page: Any) -> str | None:
        one = _broker(page, name, 0)
        return f"{name}: contenders {one['contenders']}" if one and address in one["contenders"] else None

    return say
