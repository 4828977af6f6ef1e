"""Why a store takes no messages: a kind for programs to act on, and words for people to read."""

from __future__ import annotations

from typing import NamedTuple

from smartgo.schema.refusalkind import RefusalKind


class Refusal(NamedTuple):
    """Why messages are refused now."""

    kind: RefusalKind
    words: str
