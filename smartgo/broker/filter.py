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


class _FilterCache:
    """The filters of expressions that were asked for lately, so that a pull need not parse its own."""

    def __init__(self) -> None:
        self.filters: dict[str, TagFilter] = {}
        self._tags = 0

    def add(self, expression: str, found: TagFilter) -> None:
        """Keep a filter; where there are too many, or too many tags in them, the others are forgotten."""
        tags = len(found.hashes())
        if len(self.filters) >= _CACHED or self._tags + tags > _CACHED_TAGS:
            self.filters.clear()
            self._tags = 0
        self.filters[expression] = found
        self._tags += tags


_cache = _FilterCache()


def tag_filter(expression: str | None) -> TagFilter | None:
    """
    Return the filter of a tag expression (C{A || B}), C{None} where everything passes.

    @raise SubscriptionParseFailed: the expression is over 4 KiB, or names no tag.
    """
    if not expression or expression == ALL:
        return None
    try:
        return _cache.filters[expression]
    except KeyError:
        pass
    if len(expression) > _EXPRESSION_LIMIT:
        raise SubscriptionParseFailed(f"the subscription expression is longer than {_EXPRESSION_LIMIT} characters")
    tags = [tag for part in expression.split("||") if (tag := part.strip())]
    if not tags:
        raise SubscriptionParseFailed("parse the consumer's subscription failed")
    found = TagFilter(frozenset(map(tag_code, tags)))
    _cache.add(expression, found)
    return found


def check_type(expression_type: str | None) -> None:
    """
    Accept tag expressions, and refuse every other type.

    @raise RequestRefused: it is of another type, with the remark of a broker that has property filters off.
    """
    if expression_type and expression_type != TAG:
        raise RequestRefused(f"The broker does not support consumer to filter message by {expression_type}")
