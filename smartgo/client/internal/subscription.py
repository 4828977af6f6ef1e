"""
Filter expressions by tag: C{*} for everything, or tags with C{||} between them.

Source: C{common/filter/FilterAPI.java}.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from smartgo.client.messages import ReceivedMessage
from smartgo.errors import SubscriptionParseFailed
from smartgo.schema.bodies import SubscriptionData
from smartgo.schema.properties import tag_code

EVERYTHING: Final = "*"

_BY_TAG: Final = "TAG"


def subscription(topic: str, expression: str, version_ms: int) -> SubscriptionData:
    """
    Return what a group wants of a topic, as heartbeats tell it.

    @param expression: such as C{TagA || TagB}.
    @param version_ms: wall clock; brokers keep the newest of a group's.
    @raise SubscriptionParseFailed: there are separators but no tag.
    """
    if expression.strip() in ("", EVERYTHING):
        return SubscriptionData(topic=topic, sub_string=EVERYTHING, sub_version=version_ms)
    tags = frozenset(one.strip() for one in expression.split("||") if one.strip())
    if not tags:
        raise SubscriptionParseFailed(f"{expression!r} names no tag")
    codes = frozenset(map(tag_code, tags))
    return SubscriptionData(topic=topic, sub_string=expression, tags_set=tags, code_set=codes, sub_version=version_ms)


def lets_in(data: SubscriptionData, tag: str) -> bool | None:
    """Tell whether a subscription lets a message with this tag in; C{None}: it is none by tags, its broker knows."""
    if data.expression_type not in ("", _BY_TAG):
        return None
    if data.sub_string in ("", EVERYTHING) or not data.tags_set:
        return True
    return tag in data.tags_set


def wanted(messages: Iterable[ReceivedMessage], data: SubscriptionData) -> list[ReceivedMessage]:
    """Return the messages that are really meant: brokers compare hashes of tags, which may be equal by chance."""
    if not data.tags_set:
        return list(messages)
    return [one for one in messages if one.tag in data.tags_set]
