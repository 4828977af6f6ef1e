"""
Filters of subscriptions: the messages of a queue that a consumer gets (docs/spec/broker#filters).

The broker compares 32-bit tag hashes; the client compares the tags themselves once more. SQL92 expressions see the
properties of each message, where C{enablePropertyFilter} is on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from zope.interface import implementer

from smartgo.broker.sql.expressions import Evaluate, Expression
from smartgo.broker.sql.javavalues import EvaluationFailed
from smartgo.errors import RequestRefused, SubscriptionParseFailed
from smartgo.schema.consumequeue import Unit
from smartgo.schema.properties import tag_code
from smartgo.store.interfaces import IMessageFilter

ALL: Final = "*"
TAG: Final = "TAG"
SQL92: Final = "SQL92"

_CACHED: Final = 4096
_CACHED_TAGS: Final = 65_536  # of all filters that are cached; each takes about 100 bytes
_CACHED_TEXT: Final = 65_536  # characters of SQL92 expressions that are cached; a filter takes about 100 bytes for each
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


@implementer(IMessageFilter)
class SqlFilter:
    """Lets in messages whose properties make a condition true: neither false nor unknown nor impossible to tell."""

    def __init__(self, evaluate: Evaluate) -> None:
        """
        @param evaluate: of a condition.
        """
        self._evaluate = evaluate

    def by_unit(self, unit: Unit) -> bool:
        """Return True: the unit has no properties."""
        return True

    def by_content(self, properties: Mapping[str, str], body: memoryview) -> bool:
        """Tell whether the condition is true for a message with these properties."""
        try:
            return self._evaluate(properties) is True
        except EvaluationFailed:
            return False

    def needs_content(self) -> bool:
        """Return True: the properties decide."""
        return True

    def hashes(self) -> frozenset[int] | None:
        """Return None: the tag hash does not decide."""
        return None


class FilterCache:
    """The filters of the subscriptions that pulls had lately, so that a pull need not parse its own."""

    def __init__(self, parse: Callable[[str], Expression] | None = None) -> None:
        """
        @param parse: L{smartgo.broker.sql.parser.SelectorParser.parse}; C{None} where the broker does not filter by
            properties.
        """
        self._filters: dict[str, TagFilter] = {}
        self._tags = 0
        self._parse = parse
        self._sql: dict[str, SqlFilter | str] = {}  # a text: the words of its refusal
        self._text = 0

    def __len__(self) -> int:
        return len(self._filters) + len(self._sql)

    def find(self, expression_type: str | None, expression: str | None) -> IMessageFilter | None:
        """
        Return the filter of a subscription, C{None} where everything passes.

        @raise RequestRefused: the expression is of a type other than C{TAG} and the broker does not filter by
            properties.
        @raise SubscriptionParseFailed: see L{tag_filter} and L{smartgo.broker.sql.parser.SelectorParser.parse}.
        """
        if expression_type and expression_type != TAG:
            return self.sql(expression_type, expression)
        if not expression or expression == ALL:
            return None
        found = self._filters.get(expression)
        if found is None:
            found = tag_filter(expression)
            if found is not None:
                self._keep(expression, found)
        return found

    def sql(self, expression_type: str, expression: str | None) -> SqlFilter:
        """
        Return the filter of an expression that is no tag expression.

        @raise RequestRefused: the broker does not filter by properties.
        @raise SubscriptionParseFailed: it is not of the type C{SQL92}, over 4 KiB, or cannot be read.
        """
        if self._parse is None:
            raise RequestRefused(f"The broker does not support consumer to filter message by {expression_type[:40]}")
        if expression_type != SQL92:
            raise SubscriptionParseFailed(f"there is no filter of the type {expression_type[:40]}")
        text = expression or ""
        if len(text) > _EXPRESSION_LIMIT:
            raise SubscriptionParseFailed(f"the subscription expression is longer than {_EXPRESSION_LIMIT} characters")
        found = self._sql.get(text)
        if found is None:
            try:
                found = SqlFilter(self._parse(text).evaluate)
            except SubscriptionParseFailed as error:
                found = str(error)
            if self._text + len(text) > _CACHED_TEXT or len(self._sql) >= _CACHED:
                self._sql.clear()
                self._text = 0
            self._sql[text] = found
            self._text += len(text)
        if isinstance(found, str):
            raise SubscriptionParseFailed(found)
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
