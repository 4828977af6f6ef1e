"""Concurrent calls; the first failure is raised as a single call would raise it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any

from twisted.internet.defer import Deferred, FirstError, gatherResults


async def gather(works: Iterable[Coroutine[Deferred[Any], Any, None]]) -> None:
    """
    Run coroutines concurrently. A cancellation cancels all; after a failure the others continue and their results are
    ignored.

    @raise Exception: the first failure.
    """
    running = [Deferred.fromCoroutine(work) for work in works]
    try:
        await gatherResults(running, consumeErrors=True)
    except FirstError as error:
        error.subFailure.raiseException()


async def call_each(function: Callable[[int], Awaitable[object]], count: int, at_once: int) -> None:
    """
    Call a function with each number below C{count}, C{at_once} calls at a time; start no more after a failure.

    @raise Exception: the first failure.
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
