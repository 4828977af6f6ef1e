"""A reactor of our own in a daemon thread, for programs that block."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any, ClassVar, TypeAlias, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.epollreactor import EPollReactor
from twisted.python.failure import Failure
from twisted.python.threadpool import ThreadPool

from smartgo.env.interfaces import IEnvironment
from smartgo.env.real import RealEnvironment
from smartgo.errors import CallFailed, SettingError

T = TypeVar("T")

CallHere: TypeAlias = "Callable[..., Deferred[Any]]"
"""
A function that calls another one, with the arguments behind it, in the thread that waits; fires on the reactor's thread
with the result. Cancelling it before the call prevents the call.
"""

END_WAIT = 10.0
"""Seconds that the end of the program waits for clients that nobody stopped."""


class WorkerThreads:
    """Daemon threads that run the functions of an application; one that never returns holds up nobody else."""

    def __init__(self, reactor: EPollReactor, count: int, name: str) -> None:
        """
        @param count: threads at most; they start when they are needed.
        @param name: the beginning of their names.
        """
        self._reactor = reactor
        self._pool = ThreadPool(0, count, name)
        self._pool.threadFactory = _daemon  # type: ignore[assignment]
        self._pool.start()

    def run(self, function: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
        """Run a function in one of the threads; fires on the reactor's thread with its result."""
        result: Deferred[Any] = Deferred()

        def ended(success: bool, value: Any) -> None:
            self._reactor.callFromThread(result.callback if success else result.errback, value)

        self._pool.callInThreadWithCallback(ended, function, *arguments)
        return result

    def end(self) -> None:
        """End the threads that have nothing to do, and the others after that; returns at once."""
        _daemon(target=self._pool.stop, name="smartgo-threads-end").start()


def _daemon(**arguments: Any) -> threading.Thread:
    return threading.Thread(daemon=True, **arguments)


class ReactorThread:
    """
    A reactor that is not installed, in a thread; L{shared} by all clients of a process.

    It ends with the program: when the main thread ends, what L{call_at_end} named is called, and its Deferreds are
    waited for up to L{END_WAIT}. A forked process has no such thread, and gets one of its own.

    @ivar env: the environment on that reactor.
    """

    _lock: ClassVar[threading.Lock] = threading.Lock()
    _of_process: ClassVar[ReactorThread | None] = None

    def __init__(self) -> None:
        self._reactor = EPollReactor()
        self.env: IEnvironment = RealEnvironment(self._reactor)
        self._pid = os.getpid()
        self._waiting: dict[Future[Any], Deferred[Any] | None] = {}  # changed on the reactor's thread alone
        self._at_end: dict[Callable[[], Deferred[Any]], None] = {}
        self._ended = False
        running = threading.Event()
        self._reactor.callWhenRunning(running.set)
        self._thread = _daemon(
            target=self._reactor.run, kwargs={"installSignalHandlers": False}, name="smartgo-reactor"
        )
        self._thread.start()
        running.wait()
        # Not a daemon: the interpreter waits for it, once the main thread has ended.
        threading.Thread(target=self._watch, name="smartgo-end", daemon=False).start()

    @classmethod
    def shared(cls) -> ReactorThread:
        """Return the one of this process; started at the first call."""
        with cls._lock:
            thread = cls._of_process
            if thread is None or not thread.is_ours:
                thread = cls._of_process = cls()
            return thread

    @classmethod
    def forget(cls) -> None:
        """Forget the thread of the parent, in a process that was just forked."""
        cls._lock = threading.Lock()
        cls._of_process = None

    @property
    def is_ours(self) -> bool:
        """Tell whether this process started the thread; in a forked process it does not run."""
        return self._pid == os.getpid()

    def wait(self, work: Callable[[], Deferred[T]]) -> T:
        """
        Call a function on the reactor's thread, and wait for the result of its Deferred. From any other thread.

        An interrupt of the waiting thread cancels the Deferred.

        @raise SettingError: the thread belongs to the process that this one was forked from, or the caller is on it.
        @raise CallFailed: the program ends.
        """
        future = self._begin(work)
        try:
            return future.result()
        finally:
            self._cancel_unless_done(future)

    def wait_calling(self, work: Callable[[CallHere], Deferred[T]]) -> T:
        """
        Wait as L{wait} does, and meanwhile call functions in the waiting thread, one after another.

        @param work: gets a L{CallHere}; it is called on the reactor's thread.
        @raise SettingError: see L{wait}.
        @raise CallFailed: see L{wait}.
        """
        calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

        def call_here(function: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
            result: Deferred[Any] = Deferred()
            calls.put(partial(self._call_here, result, function, arguments))
            return result

        future = self._begin(lambda: work(call_here))
        future.add_done_callback(lambda _: calls.put(None))
        try:
            while (call := calls.get()) is not None:
                call()
            return future.result()
        finally:
            self._cancel_unless_done(future)

    def _call_here(self, result: Deferred[Any], function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        if result.called:  # cancelled meanwhile
            return
        try:
            found: Any = function(*arguments)
        except Exception:
            found = Failure()
        self.tell(lambda: result.callback(found))

    def _begin(self, work: Callable[[], Deferred[T]]) -> Future[T]:
        if not self.is_ours:
            raise SettingError(
                f"this client was started by process {self._pid}, from which this process was forked: start a new one"
            )
        if threading.current_thread() is self._thread:
            raise SettingError("a blocking call on the reactor's own thread would wait for ever")
        if self._ended:
            raise CallFailed("the program ends")
        future: Future[T] = Future()

        def begin() -> None:
            self._waiting[future] = None
            try:
                deferred = work()
            except Exception as error:
                self._over(Failure(error), future)
            else:
                self._waiting[future] = deferred
                deferred.addBoth(self._over, future)

        self._reactor.callFromThread(copy_context().run, begin)
        return future

    def _cancel_unless_done(self, future: Future[Any]) -> None:
        if not future.done():  # the waiting thread was interrupted
            self.tell(lambda: self._cancel(future))

    def _cancel(self, future: Future[Any]) -> None:
        deferred = self._waiting.get(future)
        if deferred is not None:
            deferred.cancel()

    def _over(self, result: Any, future: Future[Any]) -> None:
        self._waiting.pop(future, None)
        if future.done():
            return
        if isinstance(result, Failure):
            future.set_exception(result.value)
        else:
            future.set_result(result)

    def tell(self, function: Callable[[], object]) -> None:
        """Call a function on the reactor's thread, without waiting for it; nothing happens in a forked process."""
        if self.is_ours:
            self._reactor.callFromThread(function)

    def workers(self, count: int, name: str) -> WorkerThreads:
        """Return threads for the functions of an application."""
        return WorkerThreads(self._reactor, count, name)

    # -- the end of the program ----------------------------------------------------------------------------------

    def call_at_end(self, work: Callable[[], Deferred[Any]]) -> None:
        """Call a function on the reactor's thread when the program ends, if it is not withdrawn before."""
        self._at_end[work] = None

    def call_no_more(self, work: Callable[[], Deferred[Any]]) -> None:
        """Undo L{call_at_end}; idempotent."""
        self._at_end.pop(work, None)

    def _watch(self) -> None:
        threading.main_thread().join()
        over = threading.Event()
        self._reactor.callFromThread(lambda: Deferred.fromCoroutine(self._end(over)))
        over.wait(END_WAIT)
        self._reactor.callFromThread(self._finish)
        self._thread.join(END_WAIT)

    async def _end(self, over: threading.Event) -> None:
        try:
            for work in list(self._at_end):
                await work()
            await self.env.threads.stop()
        finally:
            over.set()

    def _finish(self) -> None:
        self._ended = True
        for future in list(self._waiting):
            self._over(Failure(CallFailed("the program ends")), future)
        self._reactor.stop()


os.register_at_fork(after_in_child=ReactorThread.forget)
