"""
Futures of asyncio from Deferreds, and the other way round.

They are made by txaio's objects for one framework, C{txaio.tx} and C{txaio.aio.with_config}: its functions for the
framework that a process chose once (C{use_asyncio}) would forbid a process with both. See
C{docs/decisions/client-faces.rst}.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, TypeVar

import txaio.aio
import txaio.tx
from twisted.internet import defer
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from smartgo.errors import CallFailed

T = TypeVar("T")


def future_of(deferred: Deferred[T]) -> asyncio.Future[T]:
    """
    Return a future of the running loop with the result of a Deferred.

    Its exception is the one of the Deferred's failure. Cancelling the future cancels the Deferred; what the Deferred
    fires with after that is dropped.
    """
    loop = txaio.aio.with_config(loop=asyncio.get_running_loop())
    future: asyncio.Future[T] = loop.create_future(canceller=lambda _: deferred.cancel())

    def succeeded(result: T) -> None:
        if not future.done():
            loop.resolve(future, result)

    def failed(failure: Failure) -> None:
        if not future.done():
            error = failure.value
            if isinstance(error, defer.CancelledError):
                error = CallFailed("the call was given up: its client has stopped")
            loop.reject(future, error)

    txaio.tx.add_callbacks(deferred, succeeded, failed)
    return future


def deferring(function: Callable[..., Any]) -> Callable[..., Deferred[Any]]:
    """
    Return a function that calls another one, plain or C{async}, on the loop that runs now; its result is a Deferred.

    An C{async} function runs as a task. Each call sees the context variables as they are now.
    """
    loop = txaio.aio.with_config(loop=asyncio.get_running_loop())
    context = copy_context()

    def call(*arguments: Any) -> Deferred[Any]:
        return Deferred.fromFuture(context.copy().run(loop.as_future, function, *arguments))

    return call


async def outlast(work: asyncio.Task[T]) -> T:
    """Await a task to its end even where the awaiting task is cancelled, which is told of that afterwards."""
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError as error:
            if work.cancelled():
                raise
            cancelled = error
        except BaseException:
            break  # the task's own: it is raised below
    if cancelled is not None:
        work.exception()
        raise cancelled
    return work.result()
