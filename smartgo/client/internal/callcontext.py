"""
The context variables that the client's listeners set for a call of the application's listener: the current span.

The faces for asyncio and for threads call the application's listener in a copy of the context of the start, not in that
of the call. L{with_added} puts there what was set for the call.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from typing import Any, Final

_added: ContextVar[tuple[tuple[ContextVar[Any], Any], ...]] = ContextVar("smartgo_added", default=())
_ABSENT: Final = object()


@contextmanager
def added_since(before: Context) -> Iterator[None]:
    """Take note, for the length of a block, of the variables that were set since C{before} was copied."""
    changed = [(name, value) for name, value in copy_context().items() if before.get(name, _ABSENT) is not value]
    token = _added.set(tuple(changed))
    try:
        yield
    finally:
        _added.reset(token)


def with_added(context: Context) -> Context:
    """Return a copy of a context, with the variables that were set for the call of a listener that is under way."""
    found = context.copy()
    for name, value in _added.get():
        found.run(name.set, value)
    return found
