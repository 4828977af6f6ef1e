"""
Lists by pages: filtered, sorted and paginated on the server (reliability L22), in one way for all lists.

    >>> page = page_of(["b", "a", "c"], ListQuery(limit=2), {"name": lambda one: one}, lambda one: one, "name")
    >>> page.items, page.total, page.next
    (['a', 'b'], 3, 'MjpuYW1l')
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, Generic, TypeVar

import msgspec
from msgspec import Meta

from smartgo.ops.problems import Problem
from smartgo.ops.web.partial import Partial

MOST: Final = 200
"""Rows of a page."""

T = TypeVar("T")

Limit = Annotated[int, Meta(ge=1, le=MOST, description="Number of rows on this page.")]
Cursor = Annotated[
    str,
    Meta(
        max_length=64, pattern="^[A-Za-z0-9_=-]*$", description="Where this page begins: `next` of the previous page."
    ),
]
Offset = Annotated[int, Meta(ge=0, le=10_000_000, description="Number of rows to skip, if there is no cursor.")]
Search = Annotated[str, Meta(max_length=127, description="Only rows whose name contains this text, in any case.")]
Sort = Annotated[
    str,
    Meta(
        max_length=32,
        pattern="^-?[A-Za-z]*$",
        description="The member to sort by; with `-` in front in descending order.",
    ),
]


class ListQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """The query parameters of every list; lists add their own filters."""

    limit: Limit = 50
    cursor: Cursor = ""
    offset: Offset = 0
    q: Search = ""
    sort: Sort = ""


class Page(Partial, Generic[T], rename="camel"):
    """
    One page of a list.

    @ivar total: matching rows on all pages.
    @ivar next: the cursor of the next page; null on the last one.
    @ivar missing: the brokers that did not answer; empty if the list is complete.
    """

    items: list[T]
    total: int
    next: str | None = None


def page_of(
    rows: Iterable[T],
    query: ListQuery,
    sorts: Mapping[str, Callable[[T], Any]],
    name: Callable[[T], str],
    default: str,
) -> Page[T]:
    """
    Return the page that was asked for.

    @param sorts: what rows may be sorted by, under the word for it.
    @param name: the text that C{q} is looked for in, and that decides between equal rows.
    @param default: the word to sort by where none is asked for, perhaps with C{-}.
    @raise Problem: 400, a word that is none of C{sorts}, or no cursor of this list.
    """
    word = query.sort or default
    down = word.startswith("-")
    by = sorts.get(word.removeprefix("-"))
    if by is None:
        raise Problem(400, f"cannot sort by {word}; possible are {', '.join(sorts)}", "invalid-value")
    if query.q:
        wanted = query.q.lower()
        rows = [one for one in rows if wanted in name(one).lower()]
    return cut(sorted(sorted(rows, key=name), key=by, reverse=down), query, word)


def cut(rows: Sequence[T], query: ListQuery, word: str) -> Page[T]:
    """
    Return the page that was asked for of rows that are in order already.

    @param word: the order's, which the cursor holds, so that no cursor is used in another.
    @raise Problem: 400, no cursor of this list.
    """
    start = _start(query.cursor, word) if query.cursor else query.offset
    end = start + query.limit
    return Page(list(rows[start:end]), len(rows), _cursor(end, word) if end < len(rows) else None)


def _cursor(at: int, word: str) -> str:
    return base64.urlsafe_b64encode(f"{at}:{word}".encode()).decode()


def _start(cursor: str, word: str) -> int:
    try:
        at, _, sort = base64.urlsafe_b64decode(cursor).decode().partition(":")
        start = int(at) if at.isascii() and at.isdigit() and len(at) < 10 else -1
    except (binascii.Error, ValueError):
        start, sort = -1, ""
    if start < 0 or sort != word:
        raise Problem(400, "the cursor does not belong to this list and order", "invalid-cursor")
    return start
