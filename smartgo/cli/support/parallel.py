"""Calls of one kind, some at a time, that end with the failure that a single one would end with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any

from twisted.internet.defer import Deferred, FirstError, gatherResults


async def gather(works: Iterable[Coroutine[Deferred[Any], Any, None]]) -> None:
    """
    Run coroutines side by side. A cancellation cancels all; after a failure the others go on, unheeded.

    @raise Exception: what the first one raised that failed.
    """
    running = [Deferred.fromCoroutine(work) for work in works]
    try:
        await gatherResults(running, consumeErrors=True)
    except FirstError as error:
        error.subFailure.raiseException()


async def call_each(function: Callable[[int], Awaitable[object]], count: int, at_once: int) -> None:
    """
    Call a function with each number below C{count}, some calls at a time; after a failure begin no more.

    @raise Exception: what the first call raised that failed.
    """
    numbers = iter(range(count))
    failed = False

    async def lane() -> None:
        nonlocal failed
        for number in numbers:
            if failed:
                return
            try:
                await function(number)
            except BaseException:
                failed = True
                raise

    await gather(lane() for _ in range(min(count, at_once)))
