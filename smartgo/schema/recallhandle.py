"""
The handle by which a timed message is recalled: base64url of C{v1 topic broker-name delivery-time unique-id}.

Source: C{common/producer/RecallMessageHandle.java} of RocketMQ 5.3.3. Clients take it for opaque.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from typing import Final, NamedTuple

from smartgo.errors import IllegalOperation

_BASE64: Final = re.compile("[A-Za-z0-9_-]*={0,2}")
_VERSION: Final = "v1"
_WORDS: Final = 5
_INVALID: Final = "recall handle is invalid"


class RecallHandle(NamedTuple):
    """
    The content of a handle.

    >>> RecallHandle.parse(RecallHandle("T", "broker-a", "1700000000000", "00").format()).topic
    'T'

    @ivar due_ms: the delivery time, in milliseconds, as text.
    @ivar unique_id: the UNIQ_KEY of the message.
    """

    topic: str
    broker_name: str
    due_ms: str
    unique_id: str

    @classmethod
    def parse(cls, text: str) -> RecallHandle:
        """Read a handle. @raise IllegalOperation: it is none."""
        # the decoder below reads only what stands before the padding, and passes over what is no digit
        if _BASE64.fullmatch(text) is None or len(text) % 4:
            raise IllegalOperation(_INVALID)
        try:
            words = urlsafe_b64decode(text).decode().split(" ")
        except (Error, ValueError):
            raise IllegalOperation(_INVALID) from None
        if words[0] != _VERSION or len(words) < _WORDS:
            raise IllegalOperation(_INVALID)
        return cls(*words[1:_WORDS])

    def format(self) -> str:
        """Return the handle as text."""
        return urlsafe_b64encode(" ".join((_VERSION, *self)).encode()).decode()
