"""A reactor of our own in a daemon thread, for programs that block."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.epollreactor import EPollReactor
from twisted.logger import Logger
from twisted.python.failure import Failure

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


class ReactorCalls:
    """
    Functions to call on the reactor's thread, in the order in which they are added, whichever thread adds them.

    The reactor is woken once for all that are added until it has woken up.
    """

    _log = Logger()

    def __init__(self, reactor: EPollReactor) -> None:
        self._reactor = reactor
        self._calls: deque[tuple[Callable[..., Any], tuple[Any, ...]]] = deque()
        self._woken = False

    def add(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call a function soon. What it raises is logged. From any thread."""
        self._calls.append((function, arguments))
        # The call was added before this is read, and the reactor sets it back before it takes calls: none is left.
        if not self._woken:
            self._woken = True
            self._reactor.callFromThread(self._run)

    def _run(self) -> None:
        self._woken = False
        for _ in range(len(self._calls)):
            function, arguments = self._calls.popleft()
            try:
                function(*arguments)
            except Exception:
                self._log.failure("a call on the reactor's thread failed")


class WorkerThreads:
    """Daemon threads that run the functions of an application; one that never returns holds up nobody else."""

    def __init__(self, calls: ReactorCalls, count: int, name: str) -> None:
        """
        @param calls: brings the results to the reactor's thread.
        @param count: threads at most; they start when they are needed.
        @param name: the beginning of their names.
        """
        self._calls = calls
        self._count = count
        self._name = name
        self._work: SimpleQueue[tuple[Deferred[Any], Callable[..., Any], tuple[Any, ...]] | None] = SimpleQueue()
        self._started = 0
        self._under_way = 0

    def run(self, function: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
        """Run a function in one of the threads; fires with its result. On the reactor's thread, as the result is."""
        result: Deferred[Any] = Deferred()
        self._under_way += 1
        if self._started < min(self._count, self._under_way):
            self._started += 1
            _daemon(target=self._serve, name=f"{self._name}-{self._started}").start()
        self._work.put((result, function, arguments))
        return result

    def _serve(self) -> None:
        """Run functions until there are no more, in one of the threads."""
        while (work := self._work.get()) is not None:
            result, function, arguments = work
            try:
                value = function(*arguments)
            except BaseException:
                self._calls.add(self._ended, result.errback, Failure())
            else:
                self._calls.add(self._ended, result.callback, value)

    def _ended(self, fire: Callable[[Any], None], value: Any) -> None:
        self._under_way -= 1
        fire(value)

    def end(self) -> None:
        """End the threads that have nothing to do, and the others after that; returns at once."""
        for _ in range(self._started):
            self._work.put(None)
        self._started = 0


def _daemon(**arguments: Any) -> threading.Thread:
    return threading.Thread(daemon=True, **arguments)


class _AwaitedResult(Generic[T]):
    """
    A result that one thread waits for, and the reactor's thread gives; C{concurrent.futures} takes four locks for that.

    @ivar done: whether the result is there.
    """

    __slots__ = ("_error", "_lock", "_then", "_value", "done")

    def __init__(self, then: Callable[[], object] | None = None) -> None:
        """@param then: called on the reactor's thread when the result is there."""
        self.done = False
        self._then = then
        self._error: BaseException | None = None
        self._lock = threading.Lock()
        self._lock.acquire()

    def give(self, result: T | Failure) -> None:
        """Wake the thread up with a result; one after the first is dropped."""
        if self.done:
            return
        if isinstance(result, Failure):
            self._error = result.value
        else:
            self._value = result
        self.done = True
        self._lock.release()
        if self._then is not None:
            self._then()

    def result(self) -> T:
        """Wait for the result and return it. @raise BaseException: the value of the failure that was given."""
        self._lock.acquire()
        if self._error is not None:
            raise self._error
        return self._value


class _EndWatch(threading.Thread):
    """
    A thread that waits for the end of the program: of the main thread, and of all others that are no daemons.

    It is no daemon itself: the interpreter waits for it.
    """

    def __init__(self, ended: Callable[[], None]) -> None:
        """@param ended: called in this thread at the end of the program."""
        super().__init__(name="smartgo-end", daemon=False)
        self._program_ended = ended

    def run(self) -> None:
        """Wait, then call the function."""
        threading.main_thread().join()
        while others := [one for one in threading.enumerate() if one.is_alive() and _keeps_program(one)]:
            others[0].join()
        self._program_ended()


def _keeps_program(thread: threading.Thread) -> bool:
    return not thread.daemon and not isinstance(thread, _EndWatch)


class ReactorThread:
    """
    A reactor that is not installed, in a thread; L{shared} by all clients of a process.

    It ends with the program: when the main thread and all others that are no daemons have ended, what L{call_at_end}
    named is called, and its Deferreds are waited for up to L{END_WAIT}. A forked process has no such thread, and gets
    one of its own.

    @ivar env: the environment on that reactor.
    """

    _log = Logger()
    _lock: ClassVar[threading.Lock] = threading.Lock()
    _of_process: ClassVar[ReactorThread | None] = None

    def __init__(self) -> None:
        self._reactor = EPollReactor()
        self.env: IEnvironment = RealEnvironment(self._reactor)
        self._pid = os.getpid()
        self._calls = ReactorCalls(self._reactor)
        self._waiting: dict[_AwaitedResult[Any], Deferred[Any] | None] = {}  # changed on the reactor's thread alone
        self._at_end: dict[Callable[[], Deferred[Any]], None] = {}
        self._ended = False
        running = threading.Event()
        self._reactor.callWhenRunning(running.set)
        self._thread = _daemon(
            target=self._reactor.run, kwargs={"installSignalHandlers": False}, name="smartgo-reactor"
        )
        self._thread.start()
        running.wait()
        _EndWatch(self._program_ended).start()

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
        waiter: _AwaitedResult[T] = _AwaitedResult()
        self._begin(work, waiter)
        try:
            return waiter.result()
        finally:
            self._cancel_unless_done(waiter)

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

        waiter: _AwaitedResult[T] = _AwaitedResult(lambda: calls.put(None))
        self._begin(lambda: work(call_here), waiter)
        try:
            while (call := calls.get()) is not None:
                call()
            return waiter.result()
        finally:
            self._cancel_unless_done(waiter)

    def _call_here(self, result: Deferred[Any], function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        if result.called:  # cancelled meanwhile
            return
        try:
            found: Any = function(*arguments)
        except Exception:
            found = Failure()
        self.tell(lambda: result.callback(found))

    def _begin(self, work: Callable[[], Deferred[T]], waiter: _AwaitedResult[T]) -> None:
        if not self.is_ours:
            raise SettingError(
                f"this client was started by process {self._pid}, from which this process was forked: start a new one"
            )
        if threading.current_thread() is self._thread:
            raise SettingError("a blocking call on the reactor's own thread would wait for ever")
        if self._ended:
            raise CallFailed("the program ends")

        def begin() -> None:
            self._waiting[waiter] = None
            try:
                deferred = work()
            except Exception as error:
                self._over(Failure(error), waiter)
            else:
                self._waiting[waiter] = deferred
                deferred.addBoth(self._over, waiter)

        self._calls.add(copy_context().run, begin)

    def _cancel_unless_done(self, waiter: _AwaitedResult[Any]) -> None:
        if not waiter.done:  # the waiting thread was interrupted
            self.tell(lambda: self._cancel(waiter))

    def _cancel(self, waiter: _AwaitedResult[Any]) -> None:
        deferred = self._waiting.get(waiter)
        if deferred is not None:
            deferred.cancel()

    def _over(self, result: Any, waiter: _AwaitedResult[Any]) -> None:
        self._waiting.pop(waiter, None)
        waiter.give(result)

    def tell(self, function: Callable[[], object]) -> None:
        """Call a function on the reactor's thread, without waiting for it; nothing happens in a forked process."""
        if self.is_ours:
            self._calls.add(function)

    def workers(self, count: int, name: str) -> WorkerThreads:
        """Return threads for the functions of an application."""
        return WorkerThreads(self._calls, count, name)

    # -- the end of the program ----------------------------------------------------------------------------------

    def call_at_end(self, work: Callable[[], Deferred[Any]]) -> None:
        """Call a function on the reactor's thread when the program ends, if it is not withdrawn before."""
        self._at_end[work] = None

    def call_no_more(self, work: Callable[[], Deferred[Any]]) -> None:
        """Undo L{call_at_end}; idempotent."""
        self._at_end.pop(work, None)

    def _program_ended(self) -> None:
        over = threading.Event()
        self._calls.add(lambda: Deferred.fromCoroutine(self._end(over)))
        over.wait(END_WAIT)
        self._calls.add(self._finish)
        self._thread.join(END_WAIT)

    async def _end(self, over: threading.Event) -> None:
        try:
            for work in [*self._at_end, self.env.threads.stop]:
                try:
                    await work()
                except Exception:  # of one client; the others are to be stopped all the same
                    self._log.failure("what runs at the end of the program failed")
        finally:
            over.set()

    def _finish(self) -> None:
        self._ended = True
        for waiter in list(self._waiting):
            self._over(Failure(CallFailed("the program ends")), waiter)
        self._reactor.stop()


os.register_at_fork(after_in_child=ReactorThread.forget)
