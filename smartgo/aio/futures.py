"""
Futures of asyncio from Deferreds, and the other way round.

A future of each send is made here, because txaio's cost five times as much. What a listener returns becomes a future by
txaio's object for one framework, C{txaio.aio.with_config}: its functions for the framework that a process chose once
(C{use_asyncio}) would forbid a process with both. See C{docs/decisions/client-faces.rst}.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from inspect import iscoroutinefunction
from typing import Any, TypeVar

import txaio.aio
from twisted.internet import defer
from twisted.internet.defer import Deferred, fail, succeed
from twisted.python.failure import Failure

from smartgo.client.internal.callcontext import with_added
from smartgo.errors import CallFailed

T = TypeVar("T")


class _FutureOf(asyncio.Future[T]):
    """A future with the result of a Deferred."""

    def __init__(self, deferred: Deferred[T], loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self._deferred = deferred
        deferred.addCallbacks(self._succeeded, self._failed)

    def cancel(self, msg: Any = None) -> bool:
        """Cancel the Deferred as well."""
        cancelled = super().cancel(msg)
        if cancelled:
            self._deferred.cancel()
        return cancelled

    def _succeeded(self, result: T) -> None:
        if not self.done():
            self.set_result(result)

    def _failed(self, failure: Failure) -> None:
        if not self.done():
            error: BaseException = failure.value  # type: ignore[assignment]
            if isinstance(error, defer.CancelledError):
                error = CallFailed("the call was given up: its client has stopped")
            self.set_exception(error)


def future_of(deferred: Deferred[T]) -> asyncio.Future[T]:
    """
    Return a future of the running loop with the result of a Deferred.

    Its exception is the one of the Deferred's failure. Cancelling the future cancels the Deferred; what the Deferred
    fires with after that is dropped.
    """
    return _FutureOf(deferred, asyncio.get_running_loop())


def deferring(function: Callable[..., Any]) -> Callable[..., Deferred[Any]]:
    """
    Return a function that calls another one, plain or C{async}, on the loop that runs now; its result is a Deferred.

    An C{async} function runs as a task. Each call sees the context variables as they are now, and those that the
    client's listeners set for the call, such as the current span.
    """
    loop = asyncio.get_running_loop()
    framework = txaio.aio.with_config(loop=loop)
    context = copy_context()

    def call_async(*arguments: Any) -> Deferred[Any]:
        return Deferred.fromFuture(loop.create_task(function(*arguments), context=with_added(context)))

    def call(*arguments: Any) -> Deferred[Any]:
        own = with_added(context)
        try:
            result = own.run(function, *arguments)
        except Exception:  # of an application's function: whoever called it is told
            return fail(Failure())
        if not framework.is_future(result):
            return succeed(result)
        return Deferred.fromFuture(own.run(framework.as_future, lambda: result))

    return call_async if iscoroutinefunction(function) else call


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
