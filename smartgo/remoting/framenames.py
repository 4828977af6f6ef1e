"""Names of frames, for counts and the log."""

from __future__ import annotations

from typing import Final

from smartgo.errors import BadHeader, FramingError
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import RESPONSE, decode

CODES: Final = frozenset(int(one) for one in RequestCode)


def frame_name(frame: bytes) -> str:
    """Return the name of a frame: one of a few, whatever a peer makes up."""
    try:
        command = decode(frame)
    except (FramingError, BadHeader):
        return "unreadable request"
    if command.flag & RESPONSE:
        return "answer to a call of ours"
    return f"request {command.code}" if command.code in CODES else "request of an unknown code"
