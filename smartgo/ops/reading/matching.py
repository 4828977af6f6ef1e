"""Which messages are meant: by tag, key, body, property and time."""

from __future__ import annotations

from collections.abc import Callable

from smartgo.client.internal.records import FoundMessage
from smartgo.client.internal.subscription import subscription
from smartgo.ops.reading.inflating import Inflater
from smartgo.schema.bodies import SubscriptionData

Test = Callable[[FoundMessage], bool]


class Filter:
    """
    Lets messages in for which all holds that was asked for; what is empty or 0 was not.

    @ivar wants: the tags, as brokers are told; C{None} for all.
    @ivar shortened: messages of whose body the beginning alone was looked at.
    """

    def __init__(
        self,
        inflater: Inflater,
        *,
        tag: str = "",
        key: str = "",
        body: str = "",
        property: str = "",
        value: str = "",
        from_ms: int = 0,
        until_ms: int = 0,
    ) -> None:
        """
        @param inflater: unpacks bodies, where these are looked at.
        @param tag: one, or several with C{||} between them.
        @param key: a whole one.
        @param body: text that it holds.
        @param property: the name of one that it has; C{value}: text that this one holds, or any where none is named.
        @raise SubscriptionParseFailed: C{tag} has separators but no tag.
        """
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
        if property:
            self._tests.append(lambda one: value in one.properties.get(property, "") and property in one.properties)
        elif value:
            self._tests.append(lambda one: any(value in text for text in one.properties.values()))
        self._inflater = inflater
        self._text = body.encode()
        self.shortened = 0

    async def lets_in(self, one: FoundMessage) -> bool:
        """Tell whether a message is meant."""
        if not all(test(one) for test in self._tests):
            return False
        if not self._text:
            return True
        searched = await self._inflater.search(one.stored, self._text)
        if not (searched.holds or searched.whole):
            self.shortened += 1
        return searched.holds
