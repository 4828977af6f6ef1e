"""
Filter expressions: C{*} for everything, tags with C{||} between them, or an SQL92 expression over properties.

Source: C{common/filter/FilterAPI.java}.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from smartgo.client.filters import Sql
from smartgo.client.messages import ReceivedMessage
from smartgo.errors import SubscriptionParseFailed
from smartgo.schema.bodies import SubscriptionData
from smartgo.schema.properties import tag_code

EVERYTHING: Final = "*"

_BY_TAG: Final = "TAG"
_BY_SQL: Final = "SQL92"


def subscription(topic: str, expression: str | Sql, version_ms: int) -> SubscriptionData:
    """
    Return the subscription of a group to a topic, in the form of heartbeats.

    @param expression: such as C{TagA || TagB}, or C{Sql("n > 5")}.
    @param version_ms: wall clock; brokers keep the newest of a group's.
    @raise SubscriptionParseFailed: there are separators but no tag.
    """
    if isinstance(expression, Sql):
        return SubscriptionData(
            topic=topic, sub_string=expression.text, sub_version=version_ms, expression_type=_BY_SQL
        )
    if expression.strip() in ("", EVERYTHING):
        return SubscriptionData(topic=topic, sub_string=EVERYTHING, sub_version=version_ms)
    tags = frozenset(one.strip() for one in expression.split("||") if one.strip())
    if not tags:
        raise SubscriptionParseFailed(f"{expression!r} names no tag")
    codes = frozenset(map(tag_code, tags))
    return SubscriptionData(topic=topic, sub_string=expression, tags_set=tags, code_set=codes, sub_version=version_ms)


def lets_in(data: SubscriptionData, tag: str) -> bool | None:
    """Return whether a subscription matches a tag; C{None} if it is not by tags, so that only the broker knows."""
    if data.expression_type not in ("", _BY_TAG):
        return None
    if data.sub_string in ("", EVERYTHING) or not data.tags_set:
        return True
    return tag in data.tags_set


def wanted(messages: Iterable[ReceivedMessage], data: SubscriptionData) -> list[ReceivedMessage]:
    """Return the messages whose tags match: brokers compare hashes of tags only, which may collide."""
    if not data.tags_set:
        return list(messages)
    return [one for one in messages if one.tag in data.tags_set]
