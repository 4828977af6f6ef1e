"""Tests for L{smartgo.aio.futures}."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from typing import Any

from twisted.internet.defer import Deferred, fail
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from smartgo.aio.futures import deferring, future_of
from smartgo.errors import CallFailed

shade: ContextVar[str] = ContextVar("shade", default="none")


class FutureTests(SynchronousTestCase):
    """Futures with the result of a Deferred."""

    def run_on_loop(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run(work)

    def test_result(self) -> None:
        """A future has the result of its Deferred, and the exception of its failure."""

        async def work() -> None:
            deferred: Deferred[int] = Deferred()
            future = future_of(deferred)
            deferred.callback(7)
            self.assertEqual(await future, 7)
            with self.assertRaises(ZeroDivisionError):
                await future_of(fail(ZeroDivisionError()))

        self.run_on_loop(work())

    def test_cancelled(self) -> None:
        """Cancelling a future cancels its Deferred; what that fires with is dropped."""

        async def work() -> None:
            cancelled: list[Deferred[int]] = []
            deferred: Deferred[int] = Deferred(cancelled.append)
            task = asyncio.ensure_future(future_of(deferred))
            waiting = asyncio.create_task(asyncio.wait_for(task, 30))
            await asyncio.sleep(0)
            waiting.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await waiting
            self.assertEqual(cancelled, [deferred])

        self.run_on_loop(work())

    def test_given_up(self) -> None:
        """A Deferred that somebody else cancels is a call that failed: the task was not cancelled."""

        async def work() -> None:
            deferred: Deferred[int] = Deferred()
            future = future_of(deferred)
            deferred.cancel()
            with self.assertRaises(CallFailed):
                await future

        self.run_on_loop(work())


class DeferringTests(SynchronousTestCase):
    """Listeners of asyncio as listeners of Deferreds."""

    def called(self, listener: Callable[..., Any]) -> tuple[object, list[str]]:
        """Call a listener with C{shade} set; return the outcome and the shades that it saw."""
        seen: list[str] = []
        found: list[object] = []

        async def work() -> None:
            shade.set("blue")
            call = deferring(listener)
            shade.set("red")
            result = call(seen)
            ended = asyncio.Event()

            def keep(outcome: object) -> None:
                found.append(outcome.value if isinstance(outcome, Failure) else outcome)
                ended.set()

            result.addBoth(keep)
            await ended.wait()
            self.assertEqual(shade.get(), "red")

        asyncio.run(work())
        return found[0], seen

    def test_coroutine_function(self) -> None:
        """It runs as a task of its own, with the context of the time when the listener was given."""

        async def listener(seen: list[str]) -> int:
            self.assertIsNotNone(asyncio.current_task())
            seen.append(shade.get())
            shade.set("green")
            await asyncio.sleep(0)
            seen.append(shade.get())
            return 7

        self.assertEqual(self.called(listener), (7, ["blue", "green"]))

    def test_raising(self) -> None:
        """What it raises is the failure."""

        async def listener(seen: list[str]) -> None:
            raise ZeroDivisionError

        self.assertIsInstance(self.called(listener)[0], ZeroDivisionError)

    def test_plain(self) -> None:
        """A plain function has ended when it returns; what it returns is the result, what it raises the failure."""

        def listener(seen: list[str]) -> int:
            seen.append(shade.get())
            shade.set("green")
            return 7

        self.assertEqual(self.called(listener), (7, ["blue"]))

        def raising(seen: list[str]) -> None:
            raise ZeroDivisionError

        self.assertIsInstance(self.called(raising)[0], ZeroDivisionError)

    def test_returning_awaitables(self) -> None:
        """A plain function that returns a coroutine or a future has ended when these have."""

        async def later(seen: list[str]) -> int:
            await asyncio.sleep(0)
            seen.append(shade.get())
            return 7

        def coroutine(seen: list[str]) -> Awaitable[int]:
            return later(seen)

        def future(seen: list[str]) -> Awaitable[int]:
            return asyncio.ensure_future(later(seen))

        for listener in (coroutine, future):
            self.assertEqual(self.called(listener), (7, ["blue"]))
