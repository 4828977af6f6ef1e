"""
Search of stored messages at brokers: by offset id, and by key in the index.

Brokers find by hashes of keys, and know times to the second alone: what they bring is looked through here.

Source: C{client/impl/MQAdminImpl.java}; docs/spec/search.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from smartgo.client.administration.asking import Asking
from smartgo.client.internal.records import FoundMessage, all_of, found
from smartgo.errors import CallFailed
from smartgo.schema import properties
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.headerfields import INT64_MAX
from smartgo.schema.headers.messages import QueryMessageRequest, ViewMessageRequest
from smartgo.schema.message import host_text, parse_message_id

KEY_LIMIT: Final = 64
"""Messages that one broker brings for a key, at most, those of other keys with the same hash included."""
UNIQUE_LIMIT: Final = 32

_SECOND: Final = 1000  # ms: an entry of the index may look that much older than it is


class BrokerSearch:
    """
    Searches of several brokers at once, given by name with their addresses.

    All methods raise L{PeerRefused<smartgo.errors.PeerRefused>} where one declines, and
    L{CallFailed<smartgo.errors.CallFailed>} where one does not answer and the questions may not go on without it.
    """

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    async def by_offset_id(self, id: str, brokers: Mapping[str, str]) -> FoundMessage | None:
        """
        Return the message with an offset id; C{None} if no broker has it.

        One that does not answer is nothing to those who find it at another.

        @raise BadHeader: that is no offset id.
        """
        _, offset = parse_message_id(id)
        missing: list[tuple[str, CallFailed]] = []
        lenient = self._asking.noting(lambda name, error: missing.append((name, error)))
        answers = await lenient.answers(
            lambda name, answer: found(answer.body, name),
            brokers,
            RequestCode.VIEW_MESSAGE_BY_ID,
            ViewMessageRequest(offset=offset),
            none=(ResponseCode.SYSTEM_ERROR,),
        )
        for message in answers.values():
            if message.stored.message_id == id.upper():
                return message
        self._asking.go_on_without(missing)
        return None

    async def by_key(
        self, topic: str, key: str, brokers: Mapping[str, str], begin_ms: int = 0, end_ms: int = INT64_MAX
    ) -> list[FoundMessage]:
        """
        Return the messages of a topic that have a key, oldest first, at most L{KEY_LIMIT} of each broker.

        @param begin_ms: stored at this time or later; C{end_ms} or earlier; wall clock.
        """
        header = QueryMessageRequest(topic, key, KEY_LIMIT, max(0, begin_ms - _SECOND), end_ms)
        return await self._indexed(
            brokers, header, lambda one: key in one.keys and begin_ms <= one.stored.stored_ms <= end_ms
        )

    async def by_unique_key(self, topic: str, id: str, brokers: Mapping[str, str]) -> list[FoundMessage]:
        """Return the messages of a topic with a producer's unique id, oldest first; several if the producer retried."""
        header = QueryMessageRequest(topic, id, UNIQUE_LIMIT, 0, INT64_MAX, unique_key_query=True)
        return await self._indexed(brokers, header, lambda one: one.properties.get(properties.UNIQ_KEY) == id)

    async def by_word(self, topic: str, word: str, brokers: Mapping[str, str]) -> list[FoundMessage]:
        """Return the messages of a topic with a word among their keys, or as their unique id, oldest first."""
        header = QueryMessageRequest(topic, word, KEY_LIMIT, 0, INT64_MAX)
        return await self._indexed(
            brokers, header, lambda one: word in one.keys or one.properties.get(properties.UNIQ_KEY) == word
        )

    async def _indexed(
        self, brokers: Mapping[str, str], header: QueryMessageRequest, meant: Callable[[FoundMessage], bool]
    ) -> list[FoundMessage]:
        answers = await self._asking.answers(
            lambda name, answer: all_of(answer.body, name),
            brokers,
            RequestCode.QUERY_MESSAGE,
            header,
            none=(ResponseCode.QUERY_NOT_FOUND,),
        )
        hits = {
            (name, one.stored.physical_offset): one  # a broker may name one twice whose keys repeat
            for name, messages in answers.items()
            for one in messages
            if one.stored.topic == header.topic and meant(one)
        }
        return sorted(hits.values(), key=lambda one: (one.stored.stored_ms, one.broker, one.stored.physical_offset))


def at_limit(found: Sequence[FoundMessage]) -> bool:
    """Tell whether a broker brought as many messages for a key as it may, so that it may have more."""
    return any(count >= KEY_LIMIT for count in Counter(one.broker for one in found).values())


def address_in(offset_id: str) -> str:
    """Return the address that an offset id names. @raise BadHeader: it is none."""
    host, _ = parse_message_id(offset_id)
    return host_text(host)
