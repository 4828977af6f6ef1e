"""
The faults that a test asks a broker for: answers refused, late or lost, requests carried out twice, connections ended.

A rule names a kind of request and perhaps a topic; the requests that it matches, as many as it counts, meet its fault.
The first rule that matches a request applies, in the order in which they were made. Rules stand in the broker's
dispatcher as a request hook, below all clients alike, so that a fault is seen by clients in any language.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from functools import partial
from typing import Final, Generic, Literal, TypeVar

import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from zope.interface import implementer

from smartgo.env.interfaces import IClock
from smartgo.errors import RequestRefused, SettingError
from smartgo.remoting.interfaces import Answer, IPeer, IRequestHook
from smartgo.remoting.processor import RequestHook
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import ONE_WAY, Command

Kind = Literal["send", "pull", "ack", "retry", "heartbeat", "transaction", "offset", "lock", "any"]
"""The kinds of requests that a rule can match; L{KINDS} says which codes they are."""

Set = TypeVar("Set")
"""What a button returns."""
Cleared = TypeVar("Cleared")
"""What L{FaultButtons.clear} returns."""

CarryOut = Callable[[IPeer, Command], "Answer | Deferred[Answer]"]

KINDS: Final[Mapping[str, frozenset[int]]] = {
    "send": frozenset({RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE}),
    "pull": frozenset({RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE}),
    "ack": frozenset({RequestCode.UPDATE_CONSUMER_OFFSET}),
    "retry": frozenset({RequestCode.CONSUMER_SEND_MSG_BACK}),
    "heartbeat": frozenset({RequestCode.HEART_BEAT}),
    "transaction": frozenset({RequestCode.END_TRANSACTION}),
    "offset": frozenset({RequestCode.QUERY_CONSUMER_OFFSET}),
    "lock": frozenset({RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ}),
    "any": frozenset(RequestCode),
}
"""The request codes of each kind. A push consumer acknowledges by committing offsets, which is C{ack}."""

_TOPIC_FIELDS: Final = ("topic", "b", "originTopic")
"""The header fields that hold a topic: of most requests, of SEND_MESSAGE_V2, of CONSUMER_SEND_MSG_BACK."""
_WITHOUT_TOPIC: Final = ("heartbeat", "transaction", "lock")
"""
The kinds whose requests have no such field. Only clients of RocketMQ 5 put a topic into the verdict of a transaction; a
heartbeat, and a request for locks, can be for many topics.
"""
_ON_PURPOSE: Final = "a test asked for this fault"


class FaultRule(msgspec.Struct, frozen=True):
    """
    One fault, and the requests that meet it.

    @ivar kind: a key of L{KINDS}.
    @ivar topic: only requests for this topic; C{None}: for any, and those for none. The kinds C{heartbeat},
        C{transaction} and C{lock} take none: their requests do not name a topic.
    @ivar count: the number of requests that meet it; C{None}: all until it is cleared.
    @ivar code: the response code of a refusal.
    @ivar seconds: the time that a request is held.
    @ivar carried_out: whether a request whose answer is dropped is carried out.
    """

    action: Literal["refuse", "delay", "drop", "duplicate", "disconnect"]
    kind: Kind = "any"
    topic: str | None = None
    count: int | None = 1
    code: int = 0
    remark: str = _ON_PURPOSE
    seconds: float = 0.0
    carried_out: bool = True

    def __post_init__(self) -> None:
        """
        Check the values.

        @raise ValueError: one is none that a rule can have.
        @raise SettingError: the rule names a topic, and the requests of its kind name none.
        """
        if self.kind not in KINDS:
            raise ValueError(f"{self.kind!r} is no kind of request; these are: {', '.join(KINDS)}")
        if self.count is not None and self.count < 1:
            raise ValueError(f"a fault for {self.count} requests")
        if not self.seconds >= 0:
            raise ValueError(f"a request cannot be held for {self.seconds} s")
        if self.topic is not None and self.kind in _WITHOUT_TOPIC:
            others = ", ".join(kind for kind in KINDS if kind not in _WITHOUT_TOPIC)
            raise SettingError(
                f"a fault for {self.kind!r} cannot be for topic {self.topic!r} alone, as these requests name no topic:"
                f" leave topic out (a topic is possible with {others})"
            )

    def matches(self, request: Command) -> bool:
        """Tell whether a request meets this fault, its count left aside."""
        if request.code not in KINDS[self.kind]:
            return False
        if self.topic is None:
            return True
        fields = request.fields
        return any(fields.get(name) == self.topic for name in _TOPIC_FIELDS)


class ActiveFault:
    """A rule, and the number of requests that met it."""

    def __init__(self, rule: FaultRule) -> None:
        self.rule = rule
        self.requests = 0

    def met(self) -> int:
        """Return the number of requests that met the fault."""
        return self.requests

    @property
    def spent(self) -> bool:
        """True once as many requests met it as the rule counts."""
        return self.rule.count is not None and self.requests >= self.rule.count


@implementer(IRequestHook)
class FaultHook(RequestHook):
    """Lets requests meet the faults that a test has asked for."""

    def __init__(self, clock: IClock, carry_out: CarryOut) -> None:
        """
        @param clock: measures delays.
        @param carry_out: processes a request as the broker does.
        """
        self._clock = clock
        self._carry_out = carry_out
        self._held: set[Deferred[None]] = set()
        self._active: list[ActiveFault] = []

    def add(self, rule: FaultRule) -> ActiveFault:
        """Let requests meet a fault from now on."""
        active = ActiveFault(rule)
        self._active.append(active)
        return active

    def clear(self) -> None:
        """End all faults; requests that are held go on now."""
        self._active.clear()
        for held in list(self._held):
            held.cancel()

    def before(self, peer: IPeer, request: Command) -> Deferred[None] | None:
        """
        Apply the first rule that matches.

        @raise RequestRefused: the rule refuses the request, or the request is not to be carried out.
        """
        for active in self._active:
            if not active.spent and active.rule.matches(request):
                active.requests += 1
                return self._apply(active.rule, peer, request)
        return None

    def _apply(self, rule: FaultRule, peer: IPeer, request: Command) -> Deferred[None] | None:
        if rule.action == "delay":
            return self._hold(rule.seconds)
        if rule.action == "duplicate":
            return self._carry_out_twice(peer, request)
        if rule.action == "drop" and rule.carried_out:
            request.flag |= ONE_WAY  # the dispatcher answers nothing
            return None
        if rule.action == "disconnect":
            peer.close(rule.remark)
        if rule.action != "refuse":
            request.flag |= ONE_WAY
        refusal = RequestRefused(rule.remark)
        refusal.code = rule.code
        raise refusal

    def _hold(self, seconds: float) -> Deferred[None]:
        held: Deferred[None] = deferLater(self._clock, seconds)
        self._held.add(held)
        return held.addErrback(lambda _: None).addCallback(partial(self._release, held))

    def _release(self, held: Deferred[None], _: None) -> None:
        self._held.discard(held)

    def _carry_out_twice(self, peer: IPeer, request: Command) -> Deferred[None] | None:
        answer = self._carry_out(peer, copy(request))
        return answer.addCallback(lambda _: None) if isinstance(answer, Deferred) else None


class FaultButtons(Generic[Set, Cleared]):
    """
    The faults that a test can ask a broker for; see L{smartgo.testing.faultrules}.

    Each method returns the fault, whose C{met()} says how many requests met it. All faults end with L{clear}.
    C{kind}, C{topic} and C{count} of each method are those of L{FaultRule}; C{count=None} stands for all requests.
    """

    def __init__(self, add: Callable[[FaultRule], Set], clear: Callable[[], Cleared]) -> None:
        self._add = add
        self._clear = clear

    def refuse(
        self,
        code: int,
        kind: Kind = "send",
        *,
        topic: str | None = None,
        count: int | None = 1,
        remark: str = _ON_PURPOSE,
    ) -> Set:
        """
        Answer requests with a response code, without carrying them out.

        @param code: such as 14 (the broker takes no messages now) or 2 (the broker is busy).
        @raise ValueError: an argument is none that a rule can have; so does every button.
        @raise SettingError: a topic was given, and requests of this kind name none; so does every button.
        """
        return self._add(FaultRule("refuse", kind, topic, count, code=code, remark=remark))

    def delay(self, seconds: float, kind: Kind = "send", *, topic: str | None = None, count: int | None = 1) -> Set:
        """Carry out requests, and answer them, C{seconds} of real time later."""
        return self._add(FaultRule("delay", kind, topic, count, seconds=seconds))

    def drop(
        self, kind: Kind = "send", *, topic: str | None = None, count: int | None = 1, carried_out: bool = True
    ) -> Set:
        """
        Answer nothing.

        @param carried_out: whether the request is carried out nevertheless: its answer is lost then, else the request.
        """
        return self._add(FaultRule("drop", kind, topic, count, carried_out=carried_out))

    def duplicate(self, kind: Kind = "send", *, topic: str | None = None, count: int | None = 1) -> Set:
        """Carry out requests twice, as if a client sent them again: a message is stored, and so delivered, twice."""
        return self._add(FaultRule("duplicate", kind, topic, count))

    def disconnect(self, kind: Kind = "any", *, topic: str | None = None, count: int | None = 1) -> Set:
        """End the connection that a request came by, without carrying the request out."""
        return self._add(FaultRule("disconnect", kind, topic, count))

    def clear(self) -> Cleared:
        """End all faults; requests that are held are carried out now."""
        return self._clear()
