"""A reactor in a daemon thread: calls that wait for it, functions that it has called in the waiting thread, workers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, cast

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.epollreactor import EPollReactor
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import SynchronousTestCase, TestCase

from smartgo.env.reactorthread import CallHere, ReactorCalls, ReactorThread, WorkerThreads
from smartgo.errors import SettingError

WAIT = 60.0

_shade: ContextVar[str] = ContextVar("shade", default="none")


class WaitTests(SynchronousTestCase):
    """Calls from this thread, which is not the reactor's."""

    def setUp(self) -> None:
        """The thread of this process."""
        self.thread = ReactorThread.shared()

    def test_shared(self) -> None:
        """There is one for a process."""
        self.assertIs(ReactorThread.shared(), self.thread)
        self.assertTrue(self.thread.is_ours)

    def test_result(self) -> None:
        """A call returns the result of its Deferred, which may fire later, and sees the caller's context."""
        clock = self.thread.env.clock

        def later() -> Deferred[str]:
            fired: Deferred[str] = Deferred()
            clock.callLater(0.01, fired.callback, f"{_shade.get()} in {threading.current_thread().name}")
            return fired

        token = _shade.set("blue")
        self.addCleanup(_shade.reset, token)
        self.assertEqual(self.thread.wait(later), "blue in smartgo-reactor")

    def test_errors(self) -> None:
        """A call raises what its function raises, and what its Deferred fails with."""

        def broken() -> Deferred[None]:
            raise ZeroDivisionError

        self.assertRaises(ZeroDivisionError, self.thread.wait, broken)
        self.assertRaises(LookupError, self.thread.wait, lambda: fail(LookupError()))

    def test_own_thread(self) -> None:
        """A call on the reactor's own thread is refused."""
        self.assertRaises(SettingError, self.thread.wait, lambda: succeed(self.thread.wait(lambda: succeed(None))))

    def test_interrupted(self) -> None:
        """An interrupt of the waiting thread cancels the Deferred."""
        cancelled = threading.Event()

        def never() -> Deferred[None]:
            return Deferred(lambda _: cancelled.set())

        class Interrupted(BaseException):
            pass

        def raises(call: CallHere) -> Deferred[None]:
            call(interrupt)
            return never()

        def interrupt() -> None:
            raise Interrupted

        self.assertRaises(Interrupted, self.thread.wait_calling, raises)
        self.assertTrue(cancelled.wait(WAIT))


class WaitCallingTests(SynchronousTestCase):
    """Functions that are called in the thread that waits."""

    def setUp(self) -> None:
        """The thread of this process."""
        self.thread = ReactorThread.shared()

    def test_called_here(self) -> None:
        """Functions run in the waiting thread, in order; their results and errors come back."""
        here = threading.current_thread()
        seen: list[tuple[int, bool]] = []

        def step(number: int) -> int:
            seen.append((number, threading.current_thread() is here))
            return 10 // number

        async def work(call: CallHere) -> list[object]:
            found: list[object] = []
            for number in (2, 0, 5):
                try:
                    found.append(await call(step, number))
                except ZeroDivisionError as error:
                    found.append(type(error))
            return found

        result = self.thread.wait_calling(lambda call: Deferred.fromCoroutine(work(call)))
        self.assertEqual(result, [5, ZeroDivisionError, 2])
        self.assertEqual(seen, [(2, True), (0, True), (5, True)])

    def test_waits_inside(self) -> None:
        """Such a function may wait for the reactor itself."""
        result = self.thread.wait_calling(lambda call: call(self.thread.wait, lambda: succeed("inside")))
        self.assertEqual(result, "inside")

    def test_cancelled(self) -> None:
        """A call that is cancelled before its turn does not take place."""
        called: list[str] = []

        async def work(call: CallHere) -> None:
            first = call(called.append, "first")
            second = call(called.append, "second")
            second.addErrback(lambda _: None)
            second.cancel()
            await first
            await call(called.append, "third")

        self.thread.wait_calling(lambda call: Deferred.fromCoroutine(work(call)))
        self.assertEqual(called, ["first", "third"])

    def test_nothing_called(self) -> None:
        """Without a call it is a wait; its error is raised."""
        self.assertEqual(self.thread.wait_calling(lambda _: succeed(1)), 1)
        self.assertRaises(LookupError, self.thread.wait_calling, lambda _: fail(LookupError()))


class WorkerTests(TestCase):
    """Threads for the functions of an application."""

    def setUp(self) -> None:
        """The thread of this process."""
        self.thread = ReactorThread.shared()

    def in_thread(self, work: Callable[[], None]) -> Deferred[None]:
        """Run what blocks apart from trial's reactor."""
        return deferToThread(work)

    def test_side_by_side(self) -> Deferred[None]:
        """So many functions run at a time, in daemon threads; results and errors come back."""

        def work() -> None:
            together = threading.Barrier(3, timeout=WAIT)
            workers = self.thread.workers(3, "test-workers")

            def meet(number: int) -> tuple[int, bool]:
                together.wait()
                return number, threading.current_thread().daemon

            async def all_of(numbers: range) -> list[Any]:
                begun = [workers.run(meet, number) for number in numbers]
                return [await one for one in begun]

            found = self.thread.wait(lambda: Deferred.fromCoroutine(all_of(range(3))))
            self.assertEqual(found, [(number, True) for number in range(3)])
            self.assertRaises(ZeroDivisionError, self.thread.wait, lambda: workers.run(lambda: 1 // 0))
            workers.end()

        return self.in_thread(work)

    def test_end(self) -> Deferred[None]:
        """The end waits for nobody: a function that still runs ends later, and its thread then."""

        def work() -> None:
            begun, go_on = threading.Event(), threading.Event()
            threads: list[threading.Thread] = []
            workers = self.thread.workers(1, "test-workers")

            def hold() -> None:
                threads.append(threading.current_thread())
                begun.set()
                go_on.wait(WAIT)

            self.thread.tell(lambda: workers.run(hold))
            self.assertTrue(begun.wait(WAIT))
            workers.end()
            self.assertTrue(threads[0].is_alive())
            go_on.set()
            threads[0].join(WAIT)
            self.assertFalse(threads[0].is_alive())

        return self.in_thread(work)


class FakeReactor:
    """Keeps what it is to call."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []

    def callFromThread(self, function: Callable[[], None]) -> None:
        """Keep a function."""
        self.calls.append(function)


class CallsTests(SynchronousTestCase):
    """Calls on the reactor's thread."""

    def setUp(self) -> None:
        self.reactor = FakeReactor()
        self.calls = ReactorCalls(cast("EPollReactor", self.reactor))
        self.seen: list[object] = []

    def test_one_wake_up(self) -> None:
        """The reactor is woken once for all calls until it wakes up; they are made in order."""
        for number in range(3):
            self.calls.add(self.seen.append, number)
        (woken,) = self.reactor.calls
        woken()
        self.assertEqual(self.seen, [0, 1, 2])
        self.calls.add(self.seen.append, 3)
        self.assertEqual(len(self.reactor.calls), 2)

    def test_added_meanwhile(self) -> None:
        """A call that a call adds is made the next time: who adds for ever does not keep the reactor."""
        self.calls.add(self.calls.add, self.seen.append, "late")
        self.reactor.calls[0]()
        self.assertEqual(self.seen, [])
        self.reactor.calls[1]()
        self.assertEqual(self.seen, ["late"])

    def test_raised(self) -> None:
        """What a call raises is logged, and the next ones are made."""
        self.calls.add(divmod, 1, 0)
        self.calls.add(self.seen.append, 1)
        self.reactor.calls[0]()
        self.assertEqual(self.seen, [1])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_none_lost(self) -> None:
        """Calls that several threads add while the reactor takes them are all made."""
        ended = threading.Event()
        taken = 0

        def add_many() -> None:
            for number in range(2000):
                self.calls.add(self.seen.append, number)

        threads = [threading.Thread(target=add_many) for _ in range(3)]
        for each in threads:
            each.start()

        def watch() -> None:
            for each in threads:
                each.join()
            ended.set()

        watcher = threading.Thread(target=watch)
        watcher.start()
        while not ended.is_set() or taken < len(self.reactor.calls):
            if taken < len(self.reactor.calls):
                self.reactor.calls[taken]()
                taken += 1
            else:
                ended.wait(0.001)
        watcher.join()
        self.assertEqual(len(self.seen), 6000)


class QueueTests(SynchronousTestCase):
    """Threads for the functions of an application."""

    def setUp(self) -> None:
        self.arrived = threading.Semaphore(0)
        self.results: list[tuple[Any, tuple[Any, ...]]] = []
        self.workers = WorkerThreads(cast("ReactorCalls", self), 2, "test")
        self.addCleanup(self.workers.end)

    def add(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Keep a result, as L{ReactorCalls} does."""
        self.results.append((function, arguments))
        self.arrived.release()

    def deliver(self, count: int) -> None:
        """Wait for some results and deliver them."""
        for _ in range(count):
            self.assertTrue(self.arrived.acquire(timeout=30))
        for function, arguments in self.results:
            function(*arguments)
        self.results.clear()

    def test_results(self) -> None:
        """A function's result, or what it raised, arrives on the reactor's thread."""
        good, bad = self.workers.run(divmod, 7, 2), self.workers.run(divmod, 1, 0)
        self.assertNoResult(good)
        self.deliver(2)
        self.assertEqual(self.successResultOf(good), (3, 1))
        self.failureResultOf(bad, ZeroDivisionError)

    def test_count(self) -> None:
        """Threads are started as they are needed, up to the count; further functions wait."""
        names: list[str] = []
        go_on = threading.Event()

        def work() -> None:
            go_on.wait(30)
            names.append(threading.current_thread().name)

        for _ in range(4):
            self.workers.run(work)
        go_on.set()
        self.deliver(4)
        self.assertEqual(len(names), 4)
        self.assertLessEqual(set(names), {"test-1", "test-2"})
        self.workers.run(names.append, "one more")
        self.deliver(1)
        self.assertEqual(self.workers._started, 2)

    def test_ended(self) -> None:
        """Threads end when they have done what they were given."""
        done = self.workers.run(threading.current_thread)
        self.workers.end()
        self.deliver(1)
        thread = self.successResultOf(done)
        thread.join(30)
        self.assertFalse(thread.is_alive())
