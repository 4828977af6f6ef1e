"""Times as text for people."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_text(ms: int) -> str:
    """
    Return a time of the wall clock.

    >>> utc_text(1_500)
    '1970-01-01 00:00:01 UTC'
    """
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
