"""Checks of a consumer when it starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from smartgo.client.client import Client
from smartgo.client.internal.denials import is_denial
from smartgo.client.internal.subscription import lets_in
from smartgo.client.pullconsumer import QueueCalls
from smartgo.errors import CallFailed, PeerRefused, SettingError
from smartgo.schema.bodies import SubscriptionData
from smartgo.schema.codes import ResponseCode


def check_admitted(client: Client, topics: Iterable[str]) -> None:
    """
    Check that access control admits the group and the topics, as the answers to the last heartbeats say.

    @raise PeerRefused: all brokers of a topic refused the heartbeat for lack of a key or of a permission.
    """
    for topic in topics:
        refusal = client.refusal(topic)
        if refusal is not None and is_denial(refusal):
            raise refusal


def started_before(group: str) -> SettingError:
    """Return the error of a start of a consumer that runs, or was stopped."""
    return SettingError(f"the consumer of group {group} was started before; after a stop, make a new one")


def check_not_stopped(group: str, state: str) -> None:
    """
    Check that a consumer that is being started was not stopped meanwhile.

    @param state: of the consumer: C{new} until it runs.
    @raise CallFailed: it was stopped.
    """
    if state != "new":
        raise CallFailed(f"the consumer of group {group} was stopped while it started")


async def check_subscriptions(client: Client, calls: QueueCalls, wants: Mapping[str, SubscriptionData]) -> None:
    """
    Check that the topics can be looked up, and that a broker of each evaluates the expression.

    A topic that does not exist yet is no failure.

    @param wants: what the consumer subscribes to, by topic.
    @raise PeerRefused: a broker cannot evaluate an SQL92 expression (23: it is wrong, 1: C{enablePropertyFilter} is
        off), or a registry refused.
    @raise CallFailed: no registry, or no broker of a topic with such an expression, answers.
    """
    for topic, subscribed in wants.items():
        try:
            route = await client.routes.find(topic)
        except PeerRefused as refusal:
            if refusal.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
        else:
            if lets_in(subscribed, "") is None and route.subscribe:
                await calls.check(route.subscribe[0], subscribed)
