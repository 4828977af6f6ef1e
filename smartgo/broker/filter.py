"""
Filters of subscriptions: the messages of a queue that a consumer gets (docs/spec/broker#filters).

The broker compares 32-bit tag hashes; the client compares the tags themselves once more. SQL92 expressions are
answered as a RocketMQ broker with C{enablePropertyFilter=false} does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from zope.interface import implementer

from smartgo.errors import RequestRefused, SubscriptionParseFailed
from smartgo.schema.consumequeue import Unit
from smartgo.schema.properties import tag_code
from smartgo.store.interfaces import IMessageFilter

ALL: Final = "*"
TAG: Final = "TAG"

_CACHED: Final = 4096
_CACHED_TAGS: Final = 65_536  # of all filters that are cached; each takes about 100 bytes
_EXPRESSION_LIMIT: Final = 4096  # characters (reliability L23)


@implementer(IMessageFilter)
class TagFilter:
    """Lets in messages with one of some tags, by the hash in the ConsumeQueue unit."""

    def __init__(self, codes: frozenset[int]) -> None:
        """
        @param codes: the signed 32-bit Java hashes of the tags.
        """
        self._codes = codes

    def by_unit(self, unit: Unit) -> bool:
        """Tell whether the hash of a unit is one of the wanted tags."""
        return unit.tag_hash in self._codes

    def by_content(self, properties: Mapping[str, str], body: memoryview) -> bool:
        """Return True: the hash has decided already."""
        return True

    def needs_content(self) -> bool:
        """Return False: the hash decides."""
        return False

    def hashes(self) -> frozenset[int]:
        """The tag hashes that pass."""
        return self._codes


class FilterCache:
    """The filters of the subscriptions that pulls had lately, so that a pull need not parse its own."""

    def __init__(self) -> None:
        self._filters: dict[str, TagFilter] = {}
        self._tags = 0

    def __len__(self) -> int:
        return len(self._filters)

    def find(self, expression_type: str | None, expression: str | None) -> TagFilter | None:
        """
        Return the filter of a subscription, C{None} where everything passes.

        @raise RequestRefused: the expression is of a type other than C{TAG}; the remark is that of a broker that has
            property filters off.
        @raise SubscriptionParseFailed: see L{tag_filter}.
        """
        if expression_type and expression_type != TAG:
            raise RequestRefused(f"The broker does not support consumer to filter message by {expression_type}")
        if not expression or expression == ALL:
            return None
        found = self._filters.get(expression)
        if found is None:
            found = tag_filter(expression)
            if found is not None:
                self._keep(expression, found)
        return found

    def _keep(self, expression: str, found: TagFilter) -> None:
        """Keep a filter; where there are too many, or too many tags in them, the others are forgotten."""
        tags = len(found.hashes())
        if len(self._filters) >= _CACHED or self._tags + tags > _CACHED_TAGS:
            self._filters.clear()
            self._tags = 0
        self._filters[expression] = found
        self._tags += tags


def tag_filter(expression: str | None) -> TagFilter | None:
    """
    Return the filter of a tag expression (C{A || B}), C{None} where everything passes.

    @raise SubscriptionParseFailed: the expression is over 4 KiB, or names no tag.
    """
    if not expression or expression == ALL:
        return None
    if len(expression) > _EXPRESSION_LIMIT:
        raise SubscriptionParseFailed(f"the subscription expression is longer than {_EXPRESSION_LIMIT} characters")
    tags = [tag for part in expression.split("||") if (tag := part.strip())]
    if not tags:
        raise SubscriptionParseFailed("parse the consumer's subscription failed")
    return TagFilter(frozenset(map(tag_code, tags)))
