"""
Answers that go on without brokers that are sick: which are missing, and how long a view waits for one.

A view asks several brokers, one question after another. Each question has a limit, all of them together have one, and
who did not answer one question is not asked the next: one broker that hangs costs a view one limit, once.

The limits are for the sake of those that answer. As long as no other broker has answered, there is nothing that the
view could show without this one, and it is waited for as long as it takes: a broker that is slow because its machine is
busy is no sick one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from twisted.internet.defer import CancelledError, Deferred, fail
from twisted.internet.interfaces import IDelayedCall
from twisted.python.failure import Failure

from smartgo.client.administration.asking import TIMEOUT, Asking, OnMissing
from smartgo.client.client import Client
from smartgo.errors import CallFailed, CallTimedOut, NotConnected
from smartgo.ops.web.partial import Missing
from smartgo.schema.bodies import ClusterInfo
from smartgo.schema.codes import ResponseCode
from smartgo.schema.command import Command

CALL_SECONDS: Final = 2.0
"""For a broker's answer to one question of a view, where another broker has answered."""
VIEW_SECONDS: Final = 4.5
"""For all questions of a view, likewise."""
SILENT_SECONDS: Final = 3.0
"""For which no view waits for an address that did not answer, likewise."""


class Silences:
    """
    Addresses that did not answer in time: for L{SILENT_SECONDS} no view that another broker answers waits for them.

    Called on the reactor thread; shared by all views.
    """

    def __init__(self, seconds: Callable[[], float]) -> None:
        """@param seconds: the monotonic clock."""
        self._seconds = seconds
        self._until: dict[str, tuple[float, str]] = {}

    def note(self, address: str, reason: str) -> None:
        """Note that an address did not answer."""
        now = self._seconds()
        self._until = {one: kept for one, kept in self._until.items() if kept[0] > now}
        self._until[address] = (now + SILENT_SECONDS, reason)

    def reason(self, address: str) -> str | None:
        """Return why one is not to be waited for now; C{None}: it is."""
        until, reason = self._until.get(address, (0.0, ""))
        return reason if until > self._seconds() else None


class _Question:
    """
    A question to one broker, which may be given up.

    @ivar address: of the broker.
    @ivar error: what the question fails with where it is given up.
    @ivar is_limit: whether that is because the broker has had its time for one question.
    @ivar is_due: whether it is given up as soon as another broker answers.
    @ivar given_up: whether it was.
    """

    __slots__ = ("address", "answer", "error", "given_up", "is_due", "is_limit", "timer")

    def __init__(self, address: str, error: CallFailed, is_limit: bool) -> None:
        self.address = address
        self.error = error
        self.is_limit = is_limit
        self.is_due = False
        self.given_up = False
        self.answer: Deferred[Command]
        self.timer: IDelayedCall


class BoundedAsking(Asking):
    """
    Asks for one view: goes on without brokers that do not answer while others do, and waits for none of them twice.
    """

    def __init__(
        self,
        client: Client,
        missing: Missing,
        silences: Silences,
        seconds: float | None = VIEW_SECONDS,
        told: OnMissing | None = None,
    ) -> None:
        """
        @param missing: takes who did not answer.
        @param silences: who did not answer other views.
        @param seconds: for all questions; C{None} for work that takes as long as it takes.
        @param told: is called too with who did not answer, and why.
        """
        super().__init__(client, self._go_on)
        self._missing = missing
        self._silences = silences
        self._told = told
        self._clock = client.env.clock
        self._ends = None if seconds is None else self._clock.seconds() + seconds
        self._cluster: ClusterInfo | None = None
        self._answered: set[str] = set()
        self._asked: dict[_Question, None] = {}
        self._timed_out = Silences(self._clock.seconds)  # who did not answer this view, in all the time there is

    def _go_on(self, broker: str, error: CallFailed) -> None:
        self._missing.note(broker, error)
        if self._told is not None:
            self._told(broker, error)

    def exchange(
        self, address: str, command: Command, seconds: float = TIMEOUT, relayed: bool = False
    ) -> Deferred[Command]:
        """
        Ask one broker. Where another one has answered this view, it is waited for until its time or the view's is over,
        and not at all where it was silent a moment ago; else for C{seconds}.
        """
        timed_out = self._timed_out.reason(address)
        if timed_out is not None:
            return fail(NotConnected(timed_out))
        silent = self._silences.reason(address)
        left = CALL_SECONDS if self._ends is None else self._ends - self._clock.seconds()
        error: CallFailed
        if silent is not None:
            due, error = 0.0, NotConnected(silent)
        elif left < CALL_SECONDS:
            due, error = max(0.0, left), CallTimedOut(f"a question to {address}, after others,", VIEW_SECONDS)
        else:
            due, error = CALL_SECONDS, CallTimedOut(f"request {command.code} to {address}", CALL_SECONDS)
        if not due and self._has_answer_besides(address):
            return fail(error)
        if relayed:  # it is a client that may be slow: no reason to wait for long, and none to call the broker silent
            seconds = min(seconds, CALL_SECONDS)
        question = _Question(address, error, silent is None and left >= CALL_SECONDS and not relayed)
        question.answer = super().exchange(address, command, seconds)
        question.timer = self._clock.callLater(due, self._due, question)
        self._asked[question] = None
        return question.answer.addCallbacks(self._came, self._failed, (question,), {}, (question, relayed))

    def _has_answer_besides(self, address: str) -> bool:
        return any(one != address for one in self._answered)

    def _due(self, question: _Question) -> None:
        question.is_due = True
        if self._has_answer_besides(question.address):
            self._give_up(question)

    def _give_up(self, question: _Question) -> None:
        question.given_up = True
        if question.is_limit:
            self._silences.note(question.address, str(question.error))
        question.answer.cancel()

    def _came(self, answer: Command, question: _Question) -> Command:
        self._end(question)
        if answer.code == ResponseCode.SUCCESS:
            self._answered.add(question.address)
            for other in [one for one in self._asked if one.is_due and one.address != question.address]:
                if not other.given_up:
                    self._give_up(other)
        return answer

    def _failed(self, failure: Failure, question: _Question, relayed: bool) -> Failure:
        self._end(question)
        if question.given_up and failure.check(CancelledError):
            return Failure(question.error)
        if failure.check(CallTimedOut) and not relayed:  # a lost or refused connection is told at once
            self._timed_out.note(question.address, failure.getErrorMessage())
        return failure

    def _end(self, question: _Question) -> None:
        del self._asked[question]
        if question.timer.active():
            question.timer.cancel()

    async def cluster(self) -> ClusterInfo:
        """Return all brokers that the registry knows: the same for all questions of the view."""
        if self._cluster is None:
            self._cluster = await super().cluster()
        return self._cluster
