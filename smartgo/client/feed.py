"""
A feed of messages: a listener whose messages are asked for one call at a time, instead of being handed over.

The consumers of C{smartgo.aio} and C{smartgo.sync} that are iterated are built on it.
"""

from __future__ import annotations

from collections import deque

from twisted.internet.defer import Deferred, fail
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.python.failure import Failure

from smartgo.client.listening import NotConsumed
from smartgo.client.messages import ReceivedMessage
from smartgo.errors import SettingError


class _Call:
    """A listener call: its messages, and the outcome that it waits for."""

    def __init__(self, messages: list[ReceivedMessage]) -> None:
        self.messages = messages
        self.outcome: Deferred[None] = Deferred()


class MessageFeed:
    """
    A listener that keeps its calls until somebody receives their messages. Used on the reactor thread.

    One call is in work at a time. To receive the next one acknowledges it.
    """

    def __init__(self, clock: IReactorTime) -> None:
        """
        @param clock: for the time-outs of L{receive}.
        """
        self._clock = clock
        self._calls: deque[_Call] = deque()
        self._in_work: _Call | None = None
        self._receiver: Deferred[list[ReceivedMessage] | None] | None = None
        self._timer: IDelayedCall | None = None
        self._closed = False

    @property
    def in_work(self) -> bool:
        """True while messages were received whose outcome is not known."""
        return self._in_work is not None

    def listen(self, messages: list[ReceivedMessage]) -> Deferred[None]:
        """
        Take a listener call; its Deferred fires when the messages are acknowledged or given back.

        @raise NotConsumed: through the Deferred: the feed is closed, or is closed before that.
        """
        if self._closed:
            return fail(NotConsumed())
        call = _Call(messages)
        self._calls.append(call)
        self._hand_out()
        return call.outcome

    def receive(self, timeout: float | None = None) -> Deferred[list[ReceivedMessage] | None]:
        """
        Acknowledge what is in work, and return the messages of the next call; they are in work from then on.

        Cancelling it is supported.

        @param timeout: seconds to wait; C{None} for no limit.
        @return: fires with C{None} when the time is over or the feed is closed.
        @raise SettingError: at once: somebody waits already.
        """
        if self._receiver is not None:
            raise SettingError("another task or thread waits for the next message of this consumer already")
        self.acknowledge()
        receiver: Deferred[list[ReceivedMessage] | None] = Deferred(lambda _: self._forget())
        self._receiver = receiver
        if self._closed:
            self._fire(None)
        else:
            self._hand_out()
        if self._receiver is not None and timeout is not None:
            self._timer = self._clock.callLater(max(0.0, timeout), self._fire, None)
        return receiver

    def acknowledge(self) -> None:
        """Report that the messages in work, if there are any, are consumed."""
        call, self._in_work = self._in_work, None
        if call is not None:
            call.outcome.callback(None)

    def give_back(self, error: BaseException) -> None:
        """
        Report that the messages in work, if there are any, failed: they are redelivered.

        @param error: the reason; what is no C{Exception}, such as an interrupt, is no failure of the messages, which
            stay where they are.
        """
        call, self._in_work = self._in_work, None
        if call is not None:
            call.outcome.errback(Failure(error if isinstance(error, Exception) else NotConsumed()))

    def put_back(self) -> None:
        """Keep the messages in work for the next receiver: the one who was to get them has gone."""
        call, self._in_work = self._in_work, None
        if call is not None:
            if self._closed:
                call.outcome.errback(Failure(NotConsumed()))
            else:
                self._calls.appendleft(call)
                self._hand_out()

    def close(self) -> None:
        """End: whoever waits gets C{None}, and messages without an outcome stay in their queues. Idempotent."""
        self._closed = True
        if self._receiver is not None:
            self._fire(None)
        self.give_back(NotConsumed())
        while self._calls:
            self._calls.popleft().outcome.errback(Failure(NotConsumed()))

    def _hand_out(self) -> None:
        if self._receiver is not None and self._calls:
            self._in_work = call = self._calls.popleft()
            self._fire(call.messages)

    def _fire(self, messages: list[ReceivedMessage] | None) -> None:
        receiver = self._receiver
        self._forget()
        if receiver is not None:
            receiver.callback(messages)

    def _forget(self) -> None:
        self._receiver = None
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()
