"""From requests to answers."""

from __future__ import annotations

from typing import Any, cast

from twisted.internet.defer import CancelledError, Deferred, fail, succeed
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer
from zope.interface.verify import verifyObject

from smartgo.errors import NoPermission, TopicNotExist
from smartgo.net.limits import Limits
from smartgo.remoting import dispatch
from smartgo.remoting.buglog import BugLog
from smartgo.remoting.dispatch import NOTHING, Dispatcher, LongPoll
from smartgo.remoting.interfaces import IConnectionListener, IPeer, IRequestHook, IRequestProcessor, IRunTaker
from smartgo.remoting.processor import Processor, RequestHook
from smartgo.remoting.rungrants import RunGrants
from smartgo.schema.command import Command, encode
from tests.remoting.doubles import ECHO, LATE, OTHER, Accepted, Doing, Hearing, Lates, echo, request


@implementer(IRequestHook)
class Hook:
    """Does as told before, remembers after."""

    grants = None

    def __init__(self, before: Any = None) -> None:
        self._before = before
        self.answers: list[Any] = []

    def before(self, peer: Any, request: Command) -> Deferred[None] | None:
        """As told."""
        result: Deferred[None] | None = None if self._before is None else self._before(request)
        return result

    def after(self, peer: Any, request: Command, answer: Any) -> None:
        """Remember."""
        self.answers.append(answer)


class HalfHookTests(SynchronousTestCase):
    """Hooks that override one of the two calls."""

    def test_before_alone(self) -> None:
        """A hook that looks at requests alone is shown no answer: these leave as without hooks."""
        seen: list[int] = []

        @implementer(IRequestHook)
        class Guard(RequestHook):
            def before(self, peer: Any, request: Command) -> None:
                seen.append(request.opaque)

        self.patch(RequestHook, "after", None)
        accepted = Accepted([Doing(ECHO, lambda _, asked: encode(asked.answer(body=asked.body)))], [Guard()])
        self.patch(accepted.dispatcher, "_reply", None)
        accepted.hear(request(ECHO, 1, b"x"), request(ECHO, 3, b"y"))
        self.assertEqual([(a.opaque, a.body) for a in accepted.answers()], [(1, b"x"), (3, b"y")])
        self.assertEqual(seen, [1, 3])

    def test_refused_before(self) -> None:
        """What such a hook refuses is answered with its code."""

        @implementer(IRequestHook)
        class Guard(RequestHook):
            def before(self, peer: Any, request: Command) -> None:
                raise NoPermission("not you")

        accepted = Accepted([echo()], [Guard()])
        accepted.hear(request(ECHO, 2))
        self.assertEqual([(a.opaque, a.code) for a in accepted.answers()], [(2, NoPermission.code)])

    def test_after_alone(self) -> None:
        """A hook that looks at answers alone is shown each of them, and is not asked before."""
        seen: list[int] = []

        @implementer(IRequestHook)
        class Log(RequestHook):
            def after(self, peer: Any, request: Command, answer: Any) -> None:
                seen.append(request.opaque)

        self.patch(RequestHook, "before", None)
        accepted = Accepted([echo()], [Log()])
        accepted.hear(request(ECHO, 1), request(ECHO, 2))
        self.assertEqual((seen, len(accepted.answers())), ([1, 2], 2))


class TableTests(SynchronousTestCase):
    """The processor of each code."""

    def test_doubles(self) -> None:
        """The stand-ins of these tests provide the interfaces."""
        verifyObject(IRequestProcessor, echo())
        verifyObject(IRequestHook, Hook())
        verifyObject(IConnectionListener, Hearing())

    def test_codes(self) -> None:
        """Each code goes to the processor that claims it."""
        one, other = echo(), Doing(OTHER, lambda _, asked: asked.answer(body=b"other"))
        accepted = Accepted([one, other])
        accepted.hear(request(ECHO, 1, b"x"), request(OTHER, 2), request(ECHO, 3, b"y"))
        self.assertEqual(
            [(a.opaque, a.code, a.body) for a in accepted.answers()], [(1, 0, b"x"), (2, 0, b"other"), (3, 0, b"y")]
        )
        self.assertEqual([asked.opaque for asked in one.seen], [1, 3])
        self.assertEqual(accepted.dispatcher.codes, {ECHO, OTHER})

    def test_claimed_twice(self) -> None:
        """Two processors for one code are a mistake of whoever assembles."""
        self.assertRaises(ValueError, Dispatcher, [echo(), echo()])

    def test_without(self) -> None:
        """A port may leave codes out; they are answered 3 there."""
        self.assertEqual(Dispatcher([echo(), Doing(OTHER, lambda *_: None)], without={ECHO}).codes, {OTHER})
        self.assertEqual(NOTHING.codes, frozenset())

    def test_unknown(self) -> None:
        """An unknown code is answered 3 with RocketMQ's remark."""
        accepted = Accepted()
        accepted.hear(request(12345, 7))
        (answer,) = accepted.answers()
        self.assertEqual((answer.code, answer.opaque, answer.remark), (3, 7, " request type 12345 not supported"))

    def test_encoding(self) -> None:
        """An answer is encoded as its request was, refusals too."""
        accepted = Accepted([echo()])
        asked = [request(ECHO, 1), request(ECHO, 2), request(12345, 3)]
        asked[1].encoding = asked[2].encoding = 1
        accepted.hear(*asked)
        self.assertEqual([answer.encoding for answer in accepted.answers()], [0, 1, 1])


class RunTests(SynchronousTestCase):
    """The requests of one read."""

    def test_one_write(self) -> None:
        """All answers that are ready leave in one write, in the order of the requests."""
        accepted = Accepted([echo()])
        accepted.hear(*(request(ECHO, number, b"%d" % number) for number in range(50)))
        self.assertEqual(len(accepted.wire.writes), 1)
        self.assertEqual([answer.body for answer in accepted.answers()], [b"%d" % number for number in range(50)])

    def test_kinds(self) -> None:
        """An answer may be a command, an encoded frame, an encoded frame in pieces, or nothing."""
        frame = encode(request(ECHO, 5).answer(body=b"bytes"))
        pieces = [frame[:9], memoryview(frame)[9:20], memoryview(frame)[20:]]
        kinds: list[Any] = [request(ECHO, 4).answer(body=b"command"), frame, pieces, None]
        accepted = Accepted([Doing(ECHO, lambda *_: kinds.pop(0))])
        accepted.hear(*(request(ECHO, number) for number in range(4)))
        self.assertEqual([answer.body for answer in accepted.answers()], [b"command", b"bytes", b"bytes"])

    def test_one_way(self) -> None:
        """A one-way request is processed and never answered, whatever comes of it."""

        def refused(*_: object) -> None:
            raise TopicNotExist("no topic")

        def broken(*_: object) -> None:
            raise ZeroDivisionError("bug")

        frame = encode(request(ECHO, 1).answer())
        for do in (
            lambda _, asked: asked.answer(), refused, broken, lambda *_: frame, lambda *_: [frame],
            lambda _, asked: succeed(asked.answer()), lambda *_: fail(TopicNotExist("no topic")),
        ):  # fmt: skip
            processor = Doing(ECHO, do)
            accepted = Accepted([processor])
            accepted.hear(request(ECHO, 1, one_way=True), request(12345, 2, one_way=True))
            accepted.turn()
            self.assertEqual((len(processor.seen), accepted.wire.writes), (1, []))
            self.assertEqual(accepted.connection.in_flight, 0)
        self.flushLoggedErrors(ZeroDivisionError)

    def test_run_ended(self) -> None:
        """Every processor that was given a request hears once that the run is over, before the answers are written."""
        written: list[int] = []

        class Watching(Doing):
            def run_ended(self) -> None:
                super().run_ended()
                written.append(len(accepted.wire.writes))

        one = Watching(ECHO, lambda _, asked: asked.answer())
        other = Watching(OTHER, lambda _, asked: asked.answer())
        idle = Watching(LATE, lambda _, asked: asked.answer())
        accepted = Accepted([one, other, idle])
        accepted.hear(*(request(code) for code in (ECHO, ECHO, OTHER, ECHO, OTHER, 12345)))
        self.assertEqual((one.runs, other.runs, idle.runs), ([3], [2], []))
        self.assertEqual((written, len(accepted.wire.writes)), ([0, 0], 1))
        accepted.hear(request(ECHO))
        self.assertEqual(one.runs, [3, 4])

    def test_nothing_put_off(self) -> None:
        """What a processor inherits from L{Processor}, which refuses nothing and puts nothing off, is never called."""

        @implementer(IRequestProcessor)
        class Plain(Processor):
            codes = frozenset({ECHO})

            def process(self, peer: IPeer, request: Command) -> Command:
                return request.answer(body=request.body)

        accepted = Accepted([Plain()])
        self.patch(Processor, "refuses", None)
        self.patch(Processor, "run_ended", None)
        accepted.hear(request(ECHO, 1, b"hello"))
        self.assertEqual([(one.code, one.body) for one in accepted.answers()], [(0, b"hello")])

    def test_run_ended_fails(self) -> None:
        """A processor that fails at the end of the run costs neither the answers nor the others their end."""

        class Failing(Doing):
            def run_ended(self) -> None:
                raise ZeroDivisionError

        one = Failing(ECHO, lambda _, asked: asked.answer())
        other = Doing(OTHER, lambda _, asked: asked.answer())
        accepted = Accepted([one, other])
        accepted.hear(request(ECHO), request(OTHER))
        self.assertEqual((len(accepted.answers()), other.runs), (2, [1]))
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_run_ended_before_broken_stream(self) -> None:
        """Whole requests before a broken header length are answered, and their run is ended."""
        processor = echo()
        accepted = Accepted([processor])
        accepted.protocol.dataReceived(encode(request(ECHO, 1)) + b"\0\0\0\x08\0\xff\xff\xff1234")
        self.assertEqual((processor.runs, len(accepted.answers())), ([1], 1))
        self.assertTrue(accepted.wire.disconnecting)

    def test_answers_to_us_in_a_run(self) -> None:
        """Answers to our calls and requests of the peer may come in one read."""
        accepted = Accepted([echo()])
        answer = accepted.connection.ask(Command.request(77), 3.0)
        accepted.turn()
        (asked,) = accepted.answers()
        accepted.hear(request(ECHO, 1), asked.answer(body=b"ours"), request(ECHO, 2))
        self.assertEqual(self.successResultOf(answer).body, b"ours")
        self.assertEqual([one.opaque for one in accepted.answers()], [1, 2])

    def test_closed_in_a_run(self) -> None:
        """A processor may close the connection: its answer is still sent, later requests are not taken."""

        def closing(peer: Any, asked: Command) -> Command:
            peer.close("enough")
            return asked.answer(body=b"bye")

        processor = Doing(ECHO, closing)
        accepted = Accepted([processor])
        accepted.hear(request(ECHO, 1), request(ECHO, 2))
        self.assertEqual(([one.body for one in accepted.answers()], len(processor.seen)), ([b"bye"], 1))
        self.assertTrue(accepted.wire.disconnecting)


class RefusalTests(SynchronousTestCase):
    """Answers other than success."""

    def test_refused(self) -> None:
        """A refusal is answered with its code and words, and the connection goes on."""

        def refuse(*_: object) -> None:
            raise TopicNotExist("topic[T] not exist")

        accepted = Accepted([Doing(LATE, refuse), echo()])
        accepted.hear(request(LATE, 1), request(ECHO, 2))
        self.assertEqual([(a.code, a.remark) for a in accepted.answers()], [(17, "topic[T] not exist"), (0, None)])

    def test_busy(self) -> None:
        """A processor that refuses is not given the request; the peer is told 2 with RocketMQ's remark."""
        processor = echo()
        processor.busy = True
        accepted = Accepted([processor])
        accepted.hear(request(ECHO))
        (answer,) = accepted.answers()
        self.assertEqual(
            (answer.code, answer.remark), (2, "[REJECTREQUEST]system busy, start flow control for a while")
        )
        self.assertEqual((processor.seen, processor.runs), ([], []))

    def test_bug(self) -> None:
        """A bug is answered 1 with class, text and a reference; its stack is logged once (reliability B1)."""

        def bug(*_: object) -> None:
            raise ZeroDivisionError("x" * 1000)

        accepted = Accepted([Doing(ECHO, bug)])
        accepted.hear(*(request(ECHO, number) for number in range(5)))
        answers = accepted.answers()
        self.assertEqual({answer.code for answer in answers}, {1})
        self.assertEqual({answer.remark for answer in answers}, {("ZeroDivisionError: " + "x" * 1000)[:256] + " ref 1"})
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_wrong_answer(self) -> None:
        """An answer that cannot be encoded is a bug like any other."""
        accepted = Accepted(
            [Doing(ECHO, lambda _, asked: asked.answer(body=cast("Any", "text"))), Doing(OTHER, lambda *_: 5)]
        )
        accepted.hear(request(ECHO, 1), request(OTHER, 2))
        self.assertEqual([(answer.code, answer.opaque) for answer in accepted.answers()], [(1, 1), (1, 2)])
        self.assertEqual(len(self.flushLoggedErrors()), 2)

    def test_unreadable(self) -> None:
        """A header that cannot be read is answered 1 where its opaque can, by its encoding; the connection goes on."""
        accepted = Accepted([echo()])
        for header in (
            b'{"code":"x","opaque":5,"flag":0}',
            b'{"code":901,"opaque":5,"extFields":' + b'{"a":' * 30 + b"1" + b"}" * 31,
        ):
            accepted.protocol.dataReceived(framed(header))
        answers = accepted.answers()
        self.assertEqual([(answer.code, answer.opaque) for answer in answers], [(1, 5)] * 2)
        accepted.hear(request(ECHO, 9))
        self.assertEqual([answer.opaque for answer in accepted.answers()], [9])
        self.assertEqual(accepted.counts.unreadable, 2)

    def test_decoder_bug(self) -> None:
        """A bug in reading a frame ends that connection; it is logged once, however often it is met."""

        def broken(frame: bytes, templates: object) -> Command:
            raise ZeroDivisionError

        self.patch(dispatch, "decode", broken)
        bugs = BugLog()
        for _ in range(3):
            accepted = Accepted([echo()])
            accepted.dispatcher._bugs = bugs
            accepted.hear(request(ECHO, 1))
            self.assertTrue(accepted.wire.disconnecting)
            self.assertEqual(accepted.hearing.events, ["active", "first_frame", "failed"])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_unreadable_flood(self) -> None:
        """Answers to unreadable headers are under back-pressure like others."""
        accepted = Accepted(limits=Limits(unsent_pause=1000))
        accepted.wire.full = True
        accepted.protocol.dataReceived(framed(b'{"code":"x","opaque":5}') * 100)
        self.assertFalse(accepted.wire.reading)
        self.assertLess(accepted.connection.unsent, 1500)

    def test_bug_beside(self) -> None:
        """A bug in taking frames at all ends the connection, with its stack in the log."""

        def broken(*_: object) -> int:
            raise ZeroDivisionError

        accepted = Accepted()
        self.patch(accepted.dispatcher, "run", broken)
        accepted.hear(request())
        self.assertEqual(accepted.hearing.events, ["active", "first_frame", "failed"])
        self.assertTrue(accepted.wire.disconnecting)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_unreadable_unanswered(self) -> None:
        """An unreadable header without opaque, of an answer, or of a one-way request is not answered."""
        accepted = Accepted([echo()])
        for header in (b"{", b"\xff", b'{"code":"x","opaque":5,"flag":1}', b'{"code":"x","opaque":5,"flag":2}'):
            accepted.protocol.dataReceived(framed(header))
        self.assertEqual(accepted.answers(), [])
        self.assertEqual(accepted.counts.unreadable, 4)
        self.assertTrue(accepted.connection.open)


def framed(header: bytes) -> bytes:
    """A frame with this JSON header."""
    return (4 + len(header)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header


class LateTests(SynchronousTestCase):
    """Answers that are Deferreds."""

    def test_fires(self) -> None:
        """A late answer is written when it fires; those of one turn leave together."""
        lates = Lates()
        accepted = Accepted([Doing(LATE, lates)])
        accepted.hear(*(request(LATE, number) for number in range(4)))
        self.assertEqual((accepted.wire.writes, accepted.connection.in_flight), ([], 4))
        lates.fire(2)
        lates.fire(0)
        self.assertEqual(accepted.wire.writes, [])
        accepted.turn()
        self.assertEqual(len(accepted.wire.writes), 1)
        self.assertEqual([answer.opaque for answer in accepted.answers()], [2, 0])
        self.assertEqual(accepted.connection.in_flight, 2)

    def test_fired_already(self) -> None:
        """A Deferred that has fired leaves with the run."""
        accepted = Accepted([Doing(LATE, lambda _, asked: succeed(asked.answer(body=b"now"))), echo()])
        accepted.hear(request(LATE, 1), request(ECHO, 2))
        self.assertEqual(len(accepted.wire.writes), 1)
        self.assertEqual([answer.opaque for answer in accepted.answers()], [1, 2])

    def test_kinds(self) -> None:
        """A late answer may be of any kind, nothing included."""
        frame = encode(request(ECHO, 5).answer())
        lates = Lates()
        accepted = Accepted([Doing(LATE, lates)])
        accepted.hear(*(request(LATE, number) for number in range(4)))
        for late, answer in zip(
            lates.pending, (None, frame, [frame[:5], memoryview(frame)[5:]], request(ECHO, 6).answer()), strict=True
        ):
            late.callback(answer)
        accepted.turn()
        self.assertEqual([answer.opaque for answer in accepted.answers()], [5, 5, 6])
        self.assertEqual(accepted.connection.in_flight, 0)

    def test_fails(self) -> None:
        """A late refusal is answered with its code, a late bug with 1 and a reference."""
        lates = Lates()
        accepted = Accepted([Doing(LATE, lates)])
        accepted.hear(request(LATE, 1), request(LATE, 2))
        lates.pending[0].errback(NoPermission("not you"))
        lates.pending[1].errback(ZeroDivisionError("bug"))
        accepted.turn()
        self.assertEqual(
            [(answer.code, answer.remark) for answer in accepted.answers()],
            [(16, "not you"), (1, "ZeroDivisionError: bug ref 1")],
        )
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_gone(self) -> None:
        """A late answer for a connection that is gone is dropped."""
        lates = Lates()
        accepted = Accepted([Doing(LATE, lates)])
        accepted.hear(request(LATE, 1))
        accepted.protocol.connectionLost(Failure(ConnectionError()))
        lates.fire()
        accepted.turn()
        self.assertEqual(accepted.wire.writes, [])

    def test_too_many(self) -> None:
        """With 1,024 in flight nothing more is read or taken until half are answered (reliability L12)."""
        lates = Lates()
        processor = Doing(LATE, lates)
        accepted = Accepted([processor])
        accepted.hear(*(request(LATE, number) for number in range(1030)))
        accepted.turns()
        self.assertEqual((len(processor.seen), accepted.wire.reading), (1024, False))
        accepted.hear(request(LATE, 1030))  # what TLS had deciphered already
        for _ in range(511):
            lates.fire()
        accepted.turn()
        self.assertEqual((len(processor.seen), accepted.wire.reading), (1024, False))
        lates.fire()
        accepted.turn()
        self.assertEqual((len(processor.seen), accepted.wire.reading), (1031, True))
        self.assertEqual([asked.opaque for asked in processor.seen], list(range(1031)))

    def test_runs_after_waiting(self) -> None:
        """Requests that had to wait are a run like any other."""
        lates = Lates()
        late, other = Doing(LATE, lates), echo()
        accepted = Accepted([late, other], limits=Limits(in_flight=2))
        accepted.hear(request(LATE, 1), request(LATE, 2), request(ECHO, 3), request(ECHO, 4))
        self.assertEqual((late.runs, other.runs), ([2], []))
        lates.fire()
        accepted.turn()
        self.assertEqual(other.runs, [2])
        self.assertEqual([answer.opaque for answer in accepted.answers()], [1, 3, 4])


class HeldTests(SynchronousTestCase):
    """Long polls."""

    def test_not_counted(self) -> None:
        """Held answers do not count as requests in flight."""
        lates = Lates(LongPoll)
        accepted = Accepted([Doing(LATE, lates)], limits=Limits(in_flight=2))
        accepted.hear(*(request(LATE, number) for number in range(100)))
        accepted.turns()
        self.assertEqual((accepted.connection.in_flight, accepted.connection.held), (0, 100))
        self.assertTrue(accepted.wire.reading)
        lates.fire(50)
        accepted.turn()
        self.assertEqual([answer.opaque for answer in accepted.answers()], [50])
        self.assertEqual(accepted.connection.held, 99)

    def test_cancelled_when_gone(self) -> None:
        """When the connection is gone its held answers are cancelled, so that whoever holds them lets go."""
        cancelled: list[Any] = []
        lates = Lates(LongPoll, cancelled.append)
        accepted = Accepted([Doing(LATE, lates)])
        accepted.hear(request(LATE, 1), request(LATE, 2))
        accepted.protocol.connectionLost(Failure(ConnectionError()))
        self.assertEqual(set(cancelled), set(lates.pending))
        self.assertEqual((accepted.wire.writes, accepted.connection.outstanding), ([], {}))

    def test_cancelled_in_order(self) -> None:
        """They are cancelled in the order in which they were asked for, so that a simulation can be repeated."""
        cancelled: list[Any] = []
        lates = Lates(LongPoll, cancelled.append)
        accepted = Accepted([Doing(LATE, lates)])
        accepted.hear(*(request(LATE, number) for number in range(100)))
        accepted.turns()
        accepted.protocol.connectionLost(Failure(ConnectionError()))
        self.assertEqual((len(cancelled), cancelled), (100, list(lates.pending)))

    def test_failing_canceller(self) -> None:
        """A canceller that fails is logged and keeps nothing else from ending."""

        def failing(_: Any) -> None:
            raise ZeroDivisionError

        accepted = Accepted([Doing(LATE, Lates(LongPoll, failing))])
        accepted.hear(request(LATE, 1), request(LATE, 2))
        accepted.protocol.connectionLost(Failure(ConnectionError()))
        self.assertEqual((accepted.hearing.events[-1], accepted.owner.gone), ("disconnected", 1))
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_others_not_cancelled(self) -> None:
        """Other late answers are left alone: their work may be shared, and its effect is wanted all the same."""
        cancelled: list[Any] = []
        accepted = Accepted([Doing(LATE, Lates(Deferred, cancelled.append))])
        accepted.hear(request(LATE, 1))
        accepted.protocol.connectionLost(Failure(ConnectionError()))
        self.assertEqual(cancelled, [])


class HookTests(SynchronousTestCase):
    """Hooks around processors."""

    def test_around(self) -> None:
        """Hooks see every request, and its answer whatever it is, unknown codes and one-way requests included."""
        seen: list[int] = []
        hook = Hook(lambda asked: seen.append(asked.opaque))
        frame = encode(request(OTHER, 2).answer())
        lates = Lates()
        accepted = Accepted([echo(), Doing(OTHER, lambda *_: frame), Doing(LATE, lates)], [hook])
        accepted.hear(
            request(ECHO, 1), request(OTHER, 2), request(12345, 3), request(ECHO, 4, one_way=True), request(LATE, 5)
        )
        self.assertEqual((seen, len(hook.answers)), ([1, 2, 3, 4, 5], 4))
        lates.fire()
        self.assertEqual((hook.answers[1], len(hook.answers)), (frame, 5))
        accepted.turn()
        self.assertEqual([answer.opaque for answer in accepted.answers()], [1, 2, 3, 5])

    def test_stops(self) -> None:
        """A hook that refuses keeps the request from its processor; later hooks do not see it."""

        def refuse(_: Command) -> None:
            raise NoPermission("no")

        processor, later = echo(), Hook(lambda _: self.fail("seen"))
        accepted = Accepted([processor], [Hook(refuse), later])
        accepted.hear(request(ECHO, 1))
        (answer,) = accepted.answers()
        self.assertEqual((answer.code, answer.remark, processor.seen), (16, "no", []))

    def test_late(self) -> None:
        """A hook may need time: then the next hooks and the processor follow when it has passed."""
        order: list[str] = []
        passing: list[Deferred[None]] = []

        def wait(_: Command) -> Deferred[None]:
            passing.append(Deferred())
            return passing[-1]

        def process(_: object, asked: Command) -> Command:
            order.append("processed")
            return asked.answer()

        def third_waits(_: Command) -> Deferred[None]:
            order.append("third")
            return succeed(None)

        processor = Doing(ECHO, process)
        second = Hook(lambda _: order.append("second"))
        third = Hook(third_waits)
        accepted = Accepted([processor], [Hook(wait), second, third])
        accepted.hear(request(ECHO, 1), request(ECHO, 2), request(12345, 3), request(ECHO, 4))
        self.assertEqual((order, accepted.connection.in_flight), ([], 4))
        for one in passing[:3]:
            one.callback(None)
        passing[3].errback(NoPermission("no"))
        accepted.turn()
        self.assertEqual(order, ["second", "third", "processed"] * 2 + ["second", "third"])
        self.assertEqual(
            [(answer.code, answer.opaque) for answer in accepted.answers()], [(0, 1), (0, 2), (3, 3), (16, 4)]
        )
        self.assertEqual(processor.runs, [1, 2])

    def test_late_and_busy(self) -> None:
        """A processor may have become busy while a hook took its time."""
        passing: Deferred[None] = Deferred()
        processor = echo()
        accepted = Accepted([processor], [Hook(lambda _: passing)])
        accepted.hear(request(ECHO, 1))
        processor.busy = True
        passing.callback(None)
        accepted.turn()
        self.assertEqual(([answer.code for answer in accepted.answers()], processor.seen), ([2], []))

    def test_after_fails(self) -> None:
        """A hook that fails after an answer is logged; the answer leaves."""

        class Failing(Hook):
            def after(self, peer: Any, request: Command, answer: Any) -> None:
                raise ZeroDivisionError

        accepted = Accepted([echo()], [Failing()])
        accepted.hear(request(ECHO, 1))
        self.assertEqual(len(accepted.answers()), 1)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)


class FaultsTests(SynchronousTestCase):
    """References to bugs."""

    def remark(self, bugs: BugLog, error: Exception) -> str:
        """Return the remark for this error, raised here."""
        try:
            raise error
        except Exception:
            return bugs.remark(Failure())

    def test_numbers(self) -> None:
        """The same class from the same place is the same bug, another class or place another one."""
        bugs = BugLog()
        self.assertEqual(self.remark(bugs, KeyError("a")), "KeyError: 'a' ref 1")
        self.assertEqual(self.remark(bugs, KeyError("b")), "KeyError: 'b' ref 1")
        self.assertEqual(self.remark(bugs, ValueError("c")), "ValueError: c ref 2")
        try:
            dict[str, int]()["d"]
        except KeyError:
            self.assertEqual(bugs.remark(Failure()), "KeyError: 'd' ref 3")
        self.assertEqual((bugs.met, len(self.flushLoggedErrors())), (4, 3))

    def test_speechless(self) -> None:
        """An exception whose text cannot be made is told by its class."""

        class Speechless(Exception):
            def __str__(self) -> str:
                raise CancelledError

        self.assertEqual(self.remark(BugLog(), Speechless()), "Speechless: ? ref 1")
        self.flushLoggedErrors()

    def test_bounded(self) -> None:
        """The table of bugs is bounded, and numbers are not used again."""
        bugs = BugLog()
        kinds = [type(f"E{number}", (Exception,), {}) for number in range(300)]
        for kind in kinds:
            self.remark(bugs, kind())
        self.assertEqual(self.remark(bugs, kinds[0]()), "E0:  ref 301")
        self.assertEqual(self.remark(bugs, kinds[299]()), "E299:  ref 300")
        self.assertLessEqual(len(bugs._numbers), 256)
        self.flushLoggedErrors()


@implementer(IRunTaker)
class Taker(Processor):
    """Takes runs of the echo code; which of its requests came one by one is remembered."""

    codes = frozenset((ECHO,))

    def __init__(self, grants: Any) -> None:
        self.grants = grants
        self.taken = 0

    def ready_run(self) -> None:
        """Nothing for the hub."""

    def awaited(self) -> bool:
        """Nobody."""
        return False

    def take(self, peer: Any, frames: list[bytes], begin: int, room: int, late: Any) -> int:
        """Take all."""
        self.taken += len(frames) - begin
        return len(frames) - begin

    def process(self, peer: Any, request: Command) -> Command:
        """As it came."""
        return request.answer()


class GrantTests(SynchronousTestCase):
    """Runs where a hook sees requests."""

    def test_grants(self) -> None:
        """Runs take frames where the only hook looks at no answers, and they ask its own grants."""

        @implementer(IRequestHook)
        class Guard(RequestHook):
            def __init__(self, grants: Any) -> None:
                self.grants = grants

            def before(self, peer: Any, request: Command) -> None:
                """Let all pass."""

        class Both(Guard):
            def after(self, peer: Any, request: Command, answer: Any) -> None:
                """Look at it."""

        grants, others = RunGrants(lambda *names: None), RunGrants(lambda *names: None)
        for hooks, has, taken in (
            ([], None, 1),
            ([], grants, 1),
            ([Guard(grants)], grants, 1),
            ([Guard(grants)], others, 0),
            ([Guard(grants)], None, 0),
            ([Guard(None)], None, 0),
            ([Both(grants)], grants, 0),
            ([Guard(grants), Guard(grants)], grants, 0),
            ([Hook()], None, 0),
        ):
            taker = Taker(has)
            accepted = Accepted([taker], hooks)
            accepted.hear(request(ECHO, 1))
            self.assertEqual(taker.taken, taken, (hooks, has))
            self.assertEqual(len(accepted.dispatcher.run_sources), taken)
