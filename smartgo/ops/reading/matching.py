"""Filter messages by tag, key, body, property and time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from smartgo.client.internal.records import FoundMessage
from smartgo.client.internal.subscription import subscription
from smartgo.ops.reading.inflating import Inflater
from smartgo.schema.bodies import SubscriptionData

Test = Callable[[FoundMessage], bool]


@dataclass(frozen=True, kw_only=True)
class FilterTerms:
    """
    The conditions that a message must meet; one that is empty, or 0, is met by every message.

    @ivar tag: one, or several with C{||} between them.
    @ivar key: a whole one.
    @ivar body: text that the body contains.
    @ivar property: the name of a property; C{value}: text that it contains, or any property where none is named.
    @ivar from_ms: stored then or later, wall clock; C{until_ms}: or earlier.
    """

    tag: str = ""
    key: str = ""
    body: str = ""
    property: str = ""
    value: str = ""
    from_ms: int = 0
    until_ms: int = 0


class Filter:
    """
    Lets messages in that have everything that was asked for.

    @ivar wants: the tags, as brokers are told; C{None} for all.
    @ivar shortened: messages of whose body only the beginning was searched.
    """

    def __init__(self, inflater: Inflater, terms: FilterTerms) -> None:
        """
        @param inflater: unpacks bodies, where these are searched.
        @raise SubscriptionParseFailed: C{tag} has separators but no tag.
        """
        tag, key, name, value = terms.tag, terms.key, terms.property, terms.value
        from_ms, until_ms = terms.from_ms, terms.until_ms
        self.wants: SubscriptionData | None = subscription("", tag, 0) if tag else None
        self._tests: list[Test] = []
        if self.wants is not None and self.wants.tags_set:
            tags = self.wants.tags_set
            self._tests.append(lambda one: one.tag in tags)
        if from_ms:
            self._tests.append(lambda one: one.stored.stored_ms >= from_ms)
        if until_ms:
            self._tests.append(lambda one: one.stored.stored_ms <= until_ms)
        if key:
            self._tests.append(lambda one: key in one.keys)
        if name:
            self._tests.append(lambda one: value in one.properties.get(name, "") and name in one.properties)
        elif value:
            self._tests.append(lambda one: any(value in text for text in one.properties.values()))
        self._inflater = inflater
        self._text = terms.body.encode()
        self.shortened = 0

    async def lets_in(self, one: FoundMessage) -> bool:
        """Tell whether a message matches."""
        if not all(test(one) for test in self._tests):
            return False
        if not self._text:
            return True
        searched = await self._inflater.search(one.stored, self._text)
        if not (searched.holds or searched.whole):
            self.shortened += 1
        return searched.holds
