"""The outcome of a change that goes to several brokers."""

from __future__ import annotations

import msgspec

from smartgo.ops.web.partial import MissingBroker


class Done(msgspec.Struct, rename="camel"):
    """
    The brokers that made the change.

    @ivar missing: brokers that the change did not reach, as they are missing or have no master: they bring back what
        they have.
    """

    brokers: list[str]
    missing: list[MissingBroker] = []
