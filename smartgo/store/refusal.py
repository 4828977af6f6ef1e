"""The reason why a store refuses messages: a kind for programs to act on, and words for people to read."""

from __future__ import annotations

from typing import NamedTuple

from smartgo.schema.refusalkind import RefusalKind


class Refusal(NamedTuple):
    """The reason why messages are refused now."""

    kind: RefusalKind
    words: str
