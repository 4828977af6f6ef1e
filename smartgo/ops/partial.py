"""
Answers that go on without brokers that are sick: which are missing, and how long a view waits for one.

A view asks several brokers, one question after another. Each question has a limit, all of them together have one, and
who did not answer one question is not asked the next: one broker that hangs costs a view one limit, once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

import msgspec
from twisted.internet.defer import Deferred, fail
from twisted.python.failure import Failure

from smartgo.client.administration.asking import TIMEOUT, Asking, OnMissing
from smartgo.client.instance import Client
from smartgo.errors import CallFailed, CallTimedOut, NotConnected, PeerRefused
from smartgo.ops.problems import Problem
from smartgo.schema.bodies import ClusterInfo
from smartgo.schema.command import Command

CALL_SECONDS: Final = 2.0
"""For a broker's answer to one question of a view."""
VIEW_SECONDS: Final = 4.5
"""For all questions of a view."""
SILENT_SECONDS: Final = 3.0
"""For which an address that did not answer is not asked by any view."""

_CUT: Final = 200  # characters of a reason


class MissingBroker(msgspec.Struct, rename="camel", frozen=True):
    """
    A broker that an answer goes on without.

    @ivar reason: why: it did not answer in time, cannot be reached, declined, or its answer cannot be read.
    """

    broker: str
    reason: str


class Partial(msgspec.Struct, rename="camel", kw_only=True):
    """
    An answer that may be made without some brokers.

    @ivar missing: the brokers that did not contribute what they were asked for; empty where the answer is whole.
    """

    missing: list[MissingBroker] = []


class Silences:
    """
    Addresses that did not answer a moment ago: for L{SILENT_SECONDS} no view waits for them again.

    Called on the reactor thread; shared by all views.
    """

    def __init__(self, seconds: Callable[[], float]) -> None:
        """@param seconds: the monotonic clock."""
        self._seconds = seconds
        self._until: dict[str, tuple[float, str]] = {}

    def note(self, address: str, reason: str) -> None:
        """One did not answer."""
        now = self._seconds()
        self._until = {one: kept for one, kept in self._until.items() if kept[0] > now}
        self._until[address] = (now + SILENT_SECONDS, reason)

    def reason(self, address: str) -> str | None:
        """Return why one is not to be asked now; C{None}: it is."""
        until, reason = self._until.get(address, (0.0, ""))
        return reason if until > self._seconds() else None


class Missing:
    """The brokers that one view goes on without."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._reasons)

    def note(self, broker: str, error: object) -> None:
        """Go on without a broker; what was noted first stays."""
        reason = (error.remark if isinstance(error, PeerRefused) else str(error)).removeprefix(f"broker {broker}: ")
        self._reasons.setdefault(broker, reason if len(reason) <= _CUT else reason[: _CUT - 1] + "…")

    def add(self, other: Missing) -> None:
        """Go on without those that another question went on without."""
        for broker, reason in other._reasons.items():
            self._reasons.setdefault(broker, reason)

    @property
    def rows(self) -> list[MissingBroker]:
        """They, by name."""
        return [MissingBroker(broker, self._reasons[broker]) for broker in sorted(self._reasons)]

    def absent(self, what: str, code: str) -> Problem:
        """Return the error for what no broker has that answered: who is missing may have it."""
        if not self:
            return Problem(404, f"there is no {what}", code)
        missing = "; ".join(f"{one.broker}: {one.reason}" for one in self.rows)
        return Problem(502, f"no broker that answers has {what}; missing: {missing}", "brokers-missing")


def fill(answer: object, missing: Missing) -> None:
    """Name who is missing in an answer that has a place for it: C{missing}, as L{Partial} has it."""
    if isinstance(answer, msgspec.Struct) and "missing" in answer.__struct_fields__:
        cast("Partial", answer).missing = missing.rows


class BoundedAsking(Asking):
    """Asks for one view: goes on without brokers that do not answer, and waits for none of them twice."""

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

    def _go_on(self, broker: str, error: CallFailed) -> None:
        self._missing.note(broker, error)
        if self._told is not None:
            self._told(broker, error)

    def exchange(
        self, address: str, command: Command, seconds: float = TIMEOUT, relayed: bool = False
    ) -> Deferred[Command]:
        """Ask one broker, unless it was silent a moment ago, or the view's time is over."""
        silent = self._silences.reason(address)
        if silent is not None:
            return fail(NotConnected(silent))
        left = min(seconds, CALL_SECONDS)
        if self._ends is not None:
            left = min(left, self._ends - self._clock.seconds())
        if left <= 0:
            return fail(CallTimedOut(f"a question to {address}, after others,", VIEW_SECONDS))
        answer = super().exchange(address, command, left)
        return answer if relayed else answer.addErrback(self._fell_silent, address)

    def _fell_silent(self, failure: Failure, address: str) -> Failure:
        if failure.check(CallTimedOut):  # a lost or refused connection is told at once, and may be made anew
            self._silences.note(address, failure.getErrorMessage())
        return failure

    async def cluster(self) -> ClusterInfo:
        """Return all brokers that the registry knows: the same for all questions of the view."""
        if self._cluster is None:
            self._cluster = await super().cluster()
        return self._cluster
