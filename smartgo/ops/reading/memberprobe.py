"""Questions about the members of a cluster that the list of registered brokers does not answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from smartgo.client.admin import Admin
from smartgo.client.administration.brokers import BrokerPlace
from smartgo.client.internal.route import MASTER
from smartgo.errors import CallFailed
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command

PROMPT: Final = 2.0
"""Seconds within which a process that is there answers."""


async def answers(admin: Admin, address: str) -> bool:
    """Return whether a broker process answers."""
    try:
        await admin.asking.exchange(address, Command.request(RequestCode.GET_BROKER_RUNTIME_INFO), PROMPT)
    except CallFailed:
        return False
    return True


async def unrouted(admin: Admin, places: Iterable[BrokerPlace]) -> list[str]:
    """
    Return the names of brokers without a master of which a registry does not know the topics.

    The broker's own name is one of its topics. A broker of which no registry answers is not among them.
    """
    registered = list(places)
    masters = {one.name for one in registered if one.id == MASTER}
    found = []
    for name in sorted({one.name for one in registered} - masters):
        try:
            if not await admin.topics.serves(name, name):
                found.append(name)
        except CallFailed:
            pass  # not known
    return found
