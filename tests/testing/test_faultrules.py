"""Tests of L{smartgo.testing.faultrules}: which requests meet which fault, and what becomes of them."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from smartgo.errors import RequestRefused, SettingError
from smartgo.remoting.interfaces import IRequestHook
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import ONE_WAY, Command
from smartgo.schema.headerfields import Header
from smartgo.schema.headers.offsets import QueryOffsetRequest, UpdateOffsetRequest
from smartgo.schema.headers.pull import PullRequest
from smartgo.schema.headers.send import SendBackRequest, SendRequestV2
from smartgo.testing.faultrules import KINDS, ActiveFault, FaultButtons, FaultHook, FaultRule, Kind
from tests.fakes import FakeClock


class RecordingPeer:
    """A connection that keeps why it was ended."""

    def __init__(self) -> None:
        self.closed: list[str] = []

    def close(self, reason: str) -> None:
        """Keep the reason."""
        self.closed.append(reason)


def request(code: int, **fields: str) -> Command:
    """Return a request with these header fields."""
    return Command.request(code, fields=fields)


class FaultHookTests(SynchronousTestCase):
    """The rules in a dispatcher."""

    def setUp(self) -> None:
        self.clock = FakeClock()
        self.carried: list[Command] = []
        self.later: list[Deferred[Any]] = []
        self.peer: Any = RecordingPeer()
        self.hook = FaultHook(self.clock, self.carry_out)
        self.faults: FaultButtons[ActiveFault, None] = FaultButtons(self.hook.add, self.hook.clear)

    def carry_out(self, peer: object, command: Command) -> Any:
        """Keep what is carried out; one-way requests take time."""
        self.carried.append(command)
        return succeed(None) if command.flag & ONE_WAY else None

    def refused(self, command: Command) -> int | None:
        """Return the code that a request is refused with; C{None}: it passes."""
        try:
            self.assertIsNone(self.hook.before(self.peer, command))
        except RequestRefused as error:
            return error.code
        return None

    def test_interface(self) -> None:
        """The hook is one of the dispatcher's."""
        verifyObject(IRequestHook, self.hook)

    def test_kinds(self) -> None:
        """Every kind matches its codes and no others; any matches all."""
        for kind, codes in KINDS.items():
            rule = FaultRule("refuse", kind)  # type: ignore[arg-type]
            for code in RequestCode:
                self.assertEqual(rule.matches(request(code)), code in codes, f"{kind} {code!r}")
        self.assertEqual(KINDS["any"], frozenset(RequestCode))

    def test_refuse(self) -> None:
        """As many requests are refused as the rule counts, with its code and its words; then they pass again."""
        fault = self.faults.refuse(14, count=2, remark="not now")
        error = self.assertRaises(RequestRefused, self.hook.before, self.peer, request(10))
        self.assertEqual((error.code, str(error)), (14, "not now"))
        self.assertIsNone(self.refused(request(RequestCode.PULL_MESSAGE)))
        self.assertEqual([self.refused(request(10)) for _ in range(2)], [14, None])
        self.assertEqual(fault.met(), 2)

    def test_topic(self) -> None:
        """A rule with a topic matches requests that name it, whatever their field is called."""
        fault = self.faults.refuse(1, "any", topic="Orders", count=None)
        self.assertEqual(self.refused(request(RequestCode.PULL_MESSAGE, topic="Orders")), 1)
        self.assertEqual(self.refused(request(RequestCode.SEND_MESSAGE_V2, b="Orders")), 1)
        self.assertEqual(self.refused(request(RequestCode.CONSUMER_SEND_MSG_BACK, originTopic="Orders")), 1)
        self.assertIsNone(self.refused(request(RequestCode.PULL_MESSAGE, topic="Other")))
        self.assertIsNone(self.refused(request(RequestCode.HEART_BEAT)))
        self.assertEqual(fault.met(), 3)

    def test_order(self) -> None:
        """The first rule that matches and is not spent applies."""
        self.faults.refuse(2)
        self.faults.refuse(14)
        self.assertEqual([self.refused(request(310)) for _ in range(3)], [2, 14, None])

    def test_delay(self) -> None:
        """A request is held for as long as the rule says, by the real clock."""
        self.faults.delay(1.5)
        held = self.hook.before(self.peer, request(10))
        assert held is not None
        self.clock.advance(1.4)
        self.assertNoResult(held)
        self.clock.advance(0.1)
        self.successResultOf(held)
        self.assertIsNone(self.refused(request(10)))

    def test_drop(self) -> None:
        """An answer is lost: the request is carried out, and nothing is answered."""
        self.faults.drop()
        lost = request(10)
        self.assertIsNone(self.refused(lost))
        self.assertTrue(lost.is_one_way)

    def test_drop_request(self) -> None:
        """A request is lost: it is not carried out, and nothing is answered."""
        self.faults.drop(carried_out=False)
        lost = request(10)
        self.assertIsNotNone(self.refused(lost))
        self.assertTrue(lost.is_one_way)
        self.assertEqual(self.peer.closed, [])

    def test_duplicate(self) -> None:
        """A request is carried out by the hook as well, and then as always, also where that takes time."""
        self.faults.duplicate(count=2)
        self.assertIsNone(self.hook.before(self.peer, request(10)))
        slow = request(10)
        slow.flag |= ONE_WAY
        waiting = self.hook.before(self.peer, slow)
        assert waiting is not None
        self.successResultOf(waiting)
        self.assertEqual([one.code for one in self.carried], [10, 10])
        self.assertIsNot(self.carried[1], slow)

    def test_disconnect(self) -> None:
        """The connection ends; the request is neither carried out nor answered."""
        self.faults.disconnect("send")
        self.assertIsNone(self.refused(request(RequestCode.HEART_BEAT)))
        self.assertEqual(self.peer.closed, [])
        lost = request(10)
        self.assertIsNotNone(self.refused(lost))
        self.assertTrue(lost.is_one_way)
        self.assertEqual(len(self.peer.closed), 1)

    def test_clear(self) -> None:
        """All faults end, and what is held goes on at once; no timer is left."""
        self.faults.delay(60)
        self.faults.refuse(14, count=None)
        held = self.hook.before(self.peer, request(10))
        assert held is not None
        self.faults.clear()
        self.successResultOf(held)
        self.assertIsNone(self.refused(request(10)))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_wrong(self) -> None:
        """A button refuses what cannot be."""
        self.assertRaises(ValueError, self.faults.drop, "push")
        self.assertRaises(ValueError, self.faults.drop, count=0)
        self.assertRaises(ValueError, self.faults.delay, -1)

    def test_no_topic(self) -> None:
        """A topic is refused where requests name none, by every button; the text says so, and which kinds take one."""
        for kind in ("transaction", "heartbeat", "lock"):
            error = self.assertRaises(SettingError, self.faults.drop, kind, topic="Orders")
            self.assertEqual(
                str(error),
                f"a fault for '{kind}' cannot be for topic 'Orders' alone, as these requests name no topic:"
                " leave topic out (a topic is possible with send, pull, ack, retry, offset, any)",
            )
            for button in (partial(self.faults.refuse, 14), partial(self.faults.delay, 1), self.faults.duplicate):
                self.assertRaises(SettingError, button, kind, topic="Orders")
            self.assertRaises(SettingError, self.faults.disconnect, kind, topic="Orders")
        self.faults.refuse(14, "transaction")
        self.assertEqual(self.refused(request(RequestCode.END_TRANSACTION, producerGroup="g")), 14)

    def test_all_others_take_a_topic(self) -> None:
        """Every kind that takes a topic has requests with a field that holds it."""
        headers: dict[Kind, type[Header]] = {
            "send": SendRequestV2, "pull": PullRequest, "ack": UpdateOffsetRequest, "retry": SendBackRequest,
            "offset": QueryOffsetRequest,
        }  # fmt: skip
        self.assertEqual(set(KINDS) - set(headers), {"transaction", "heartbeat", "lock", "any"})
        for kind, header in headers.items():
            names = {one.encode_name for one in msgspec.structs.fields(header)} & {"topic", "b", "originTopic"}
            (code, *_) = KINDS[kind]
            self.assertEqual(len(names), 1)
            rule = FaultRule("drop", kind, "Orders")
            self.assertTrue(rule.matches(request(code, **dict.fromkeys(names, "Orders"))), kind)
            self.assertFalse(rule.matches(request(code, **dict.fromkeys(names, "Other"))), kind)
