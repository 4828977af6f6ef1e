"""Filters of subscriptions and pulls beside tags."""

from __future__ import annotations

import msgspec

from smartgo.errors import SubscriptionParseFailed


class Sql(msgspec.Struct, frozen=True):
    """
    An SQL92 expression over the properties of messages: C{Sql("region = 'EU' AND amount > 100")}.

    The broker evaluates it, and refuses it where it is wrong (docs/spec/broker#filters).

    @ivar text: the expression.
    """

    text: str

    def __post_init__(self) -> None:
        """
        Check the text.

        @raise TypeError: it is no C{str}.
        @raise SubscriptionParseFailed: it is empty.
        """
        if not isinstance(self.text, str):
            raise TypeError(f"an SQL92 expression is a str, not {type(self.text).__name__}")
        if not self.text.strip():
            raise SubscriptionParseFailed("the SQL92 expression is empty")
