"""Observers: one event told to many, once by Deferreds, or each time by calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, ParamSpec, TypeVar

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

T = TypeVar("T")
P = ParamSpec("P")


class Waiters(Generic[T]):
    """The Deferreds of those who wait for an event that can happen again; each is told of its next time alone."""

    def __init__(self) -> None:
        self._waiting: list[Deferred[T]] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def wait(self) -> Deferred[T]:
        """Return a Deferred that fires the next time the event happens. Cancelling it disturbs nobody."""
        waiter: Deferred[T] = Deferred(self._forget)
        self._waiting.append(waiter)
        return waiter

    def fire(self, result: T | Failure) -> None:
        """Tell all who wait now; a C{Failure} makes their Deferreds fail."""
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.called:  # one that was told before may have cancelled it
                waiter.callback(result)

    def _forget(self, waiter: Deferred[T]) -> None:
        if waiter in self._waiting:
            self._waiting.remove(waiter)


class OneShotObserver(Generic[T]):
    """
    An event that happens once. Whoever asks, before or after, gets a Deferred of his own.

    @ivar happened: whether it did, by success or by failure.
    """

    def __init__(self) -> None:
        self._waiters: Waiters[T] = Waiters()
        self._result: list[T | Failure] = []  # one, once it has happened

    @classmethod
    def of(cls, work: Deferred[T]) -> OneShotObserver[T]:
        """Return the event that C{work} fires, whose only callbacks are this observer's."""
        observer = cls()
        work.addBoth(observer.fire)
        return observer

    @property
    def happened(self) -> bool:
        """Tell whether the event has happened, by success or by failure."""
        return bool(self._result)

    def when(self) -> Deferred[T]:
        """Return a Deferred that fires with the result, at once where it is there. Cancelling it disturbs nobody."""
        waiter = self._waiters.wait()
        if self._result:
            self._waiters.fire(self._result[0])
        return waiter

    def fire(self, result: T | Failure) -> None:
        """Report the event to all waiters. The event must not have happened before."""
        if self._result:
            raise RuntimeError("this event has happened already")
        self._result.append(result)
        self._waiters.fire(result)


class ObserverList(Generic[P]):
    """Callables that are called each time something happens, in order; one that raises is logged and stops nobody."""

    _log = Logger()

    def __init__(self, what: str, observers: Iterable[Callable[P, Any]] = ()) -> None:
        """
        @param what: names the event in the log, such as C{a change of the topic table}.
        """
        self._what = what
        self._observers = tuple(observers)

    def __bool__(self) -> bool:
        return bool(self._observers)

    def __len__(self) -> int:
        return len(self._observers)

    def add(self, observer: Callable[P, Any]) -> None:
        """Call this one too, from now on."""
        self._observers += (observer,)

    def remove(self, observer: Callable[P, Any]) -> None:
        """Call it no more. @raise ValueError: it was not called."""
        left = list(self._observers)
        left.remove(observer)
        self._observers = tuple(left)

    def tell(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Call all that are there now."""
        for observer in self._observers:
            try:
                observer(*args, **kwargs)
            except Exception:  # it is the observer's own bug
                self._log.failure("an observer of {what} failed", what=self._what)
