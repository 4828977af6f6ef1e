"""
From frames to answers: request code -> processor; refusals, unknown codes and bugs -> response codes.

The answers to the requests of one read are collected and leave together, after every processor that was given one has
heard that the run is over. An answer that needs time is a Deferred: it leaves when it fires.

Source of the codes and remarks: C{remoting/netty/NettyRemotingAbstract.java}, C{processRequestCommand}.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final, cast

from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure
from zope.interface import implementer

from smartgo.errors import BadHeader, CodeNotSupported, FramingError, RequestRefused, ServiceNotAvailable, SystemBusy
from smartgo.net.hub import RunSource
from smartgo.remoting.buglog import BugLog
from smartgo.remoting.interfaces import (
    Answer,
    IDispatchedPeer,
    IOutstanding,
    IPeer,
    IRequestHook,
    IRequestProcessor,
    IRunSource,
    IRunTaker,
)
from smartgo.remoting.processor import Processor, RequestHook, has_grants
from smartgo.schema.command import ONE_WAY, RESPONSE, Command, decode, encode
from smartgo.schema.headertemplates import HeaderTemplateCache

Before = Callable[[IPeer, Command], "Deferred[None] | None"]
After = Callable[[IPeer, Command, Answer], None]
LateAnswers = list[tuple[Command, "Answer | Deferred[Answer]"]]
Take = Callable[["IDispatchedPeer", list[bytes], int, int, LateAnswers], int]

REJECTED: Final = "[REJECTREQUEST]system busy, start flow control for a while"
_LATER: Final = 512  # bytes that a request whose answer is outstanding takes beside its frame
STOPPING: Final = "the server is stopping, this request was given up"


class LongPoll(Deferred[Answer]):
    """
    An answer that is late because the peer asked for it: a long poll.

    It does not count as a request in flight (L12). It is cancelled when its connection ends and when the server
    stops; a canceller may then answer by C{callback}, else the peer is told 14 where it can still be told.

    @ivar size: about how many bytes are kept for it while it waits; counted in the memory budget.
    """

    size = 1024


class _Family:
    """
    A processor's methods, bound once.

    @ivar refuses: C{None} where it takes every request.
    @ivar run_ended: C{None} where it puts nothing off to the end of a run.
    @ivar take: C{None} where it takes one request at a time.
    """

    __slots__ = ("process", "refuses", "run_ended", "take")

    def __init__(self, processor: IRequestProcessor) -> None:
        self.process: Callable[[IPeer, Command], Answer | Deferred[Answer]] = processor.process
        self.refuses: Callable[[], bool] | None = _overridden(processor, Processor, "refuses")
        self.run_ended: Callable[[], None] | None = _overridden(processor, Processor, "run_ended")
        self.take: Take | None = processor.take if IRunTaker.providedBy(processor) else None


def _overridden(one: object, base: type, name: str) -> Any:
    """Return a method of a processor or hook; C{None} where it is the one of its base, which does nothing."""
    inherits = getattr(type(one), name, None) is getattr(base, name)
    return None if inherits else getattr(one, name)


def _do_nothing() -> None:
    """Do nothing."""


class Dispatcher:
    """
    The requests that one kind of port answers.

    One dispatcher may serve any number of connections.

    @ivar run_sources: the processors that take runs of plain requests; where hooks see each request none but those that
        ask the grants of the only hook.
    """

    def __init__(
        self,
        processors: Iterable[IRequestProcessor] = (),
        hooks: Iterable[IRequestHook] = (),
        without: Collection[int] = (),
        bugs: BugLog | None = None,
    ) -> None:
        """
        @param processors: who answers; no two of them the same code.
        @param hooks: see every request before and every answer after it, in this order; what a hook inherits from
            L{RequestHook} is not called.
        @param without: codes not answered here although a processor could (the fast port and PULL_MESSAGE).
        @param bugs: numbers the bugs; dispatchers of one process share it so that numbers are unique.
        @raise ValueError: two processors claim a code.
        """
        hooks = tuple(hooks)
        self._families: dict[int, _Family] = {}
        taker: tuple[Take | None, Callable[[], None]] = (None, _do_nothing)
        sources: list[RunSource] = []
        for processor in processors:
            family = _Family(processor)
            if (
                IRunSource.providedBy(processor)
                and not set(without).intersection(processor.codes)
                and has_grants(hooks, processor)
            ):
                if family.take is not None:
                    taker = (family.take, family.run_ended or _do_nothing)
                sources.append(cast("RunSource", processor))
            for code in processor.codes:
                if code in self._families:
                    raise ValueError(f"two processors claim request code {code}")
                self._families[code] = family
        for code in without:
            self._families.pop(code, None)
        self.run_sources: tuple[RunSource, ...] = tuple(sources)
        found = [_overridden(hook, RequestHook, "before") for hook in hooks]
        self._before: tuple[Before, ...] = tuple(one for one in found if one is not None)
        found = [_overridden(hook, RequestHook, "after") for hook in hooks]
        self._after: tuple[After, ...] = tuple(one for one in found if one is not None)
        self._taker = taker
        self._bugs = BugLog() if bugs is None else bugs
        self._templates = HeaderTemplateCache()

    @property
    def codes(self) -> frozenset[int]:
        """The request codes that are answered."""
        return frozenset(self._families)

    # -- the hot path --------------------------------------------------------------------------------------

    def run(self, peer: IDispatchedPeer, frames: list[bytes], begun: list[Callable[[], None]]) -> int:
        """
        Take frames in order and put the answers that are ready into C{peer.link.out}.

        It stops early when the answers fill C{peer.link.room}, when too many requests are in flight, or when the
        connection is being ended.

        @param begun: what ends the runs of processors before the answers leave; that of each processor that was given
            a request is added.
        @return: how many frames were taken, one at least.
        @raise FramingError: a header length that is none, or a header that our decoder fails on; the frames before
            it were answered.
        """
        find = self._families.get
        before, after = self._before, self._after
        link = peer.link
        out = link.out
        append = out.append
        room = link.room
        templates = self._templates
        take, end_taken = self._taker
        late: LateAnswers = []
        taken = 0
        count = len(frames)
        answer: Answer | Deferred[Answer]
        while taken < count:
            pieces = len(out)
            if take is not None and (run := take(peer, frames, taken, room, late)):
                taken += run
                if end_taken not in begun:
                    begun.append(end_taken)
                if late:
                    room -= self._begin_late(peer, late)
                    if peer.full:
                        break
                elif len(out) > pieces:
                    room -= len(out[-1])
                if room < 0 or link.state.over:
                    break
                continue
            frame = frames[taken]
            taken += 1
            try:
                request = decode(frame, templates)
            except BadHeader as error:
                room -= self._unreadable(peer, error)
                if room < 0:
                    break
                continue
            except FramingError:
                raise
            except Exception:
                raise FramingError(f"a frame cannot be read ({self._bugs.remark(Failure())})") from None
            if request.flag & RESPONSE:
                peer.heard(request)
                if link.state.over:
                    break
                continue
            try:
                family = find(request.code)
                if before and (passing := self._ask_before(peer, request)) is not None:
                    answer = self._process_after(passing, peer, request, family)
                elif family is None:
                    raise CodeNotSupported(request.code)
                elif family.refuses is not None and family.refuses():
                    raise SystemBusy(REJECTED)
                else:
                    end = family.run_ended
                    if end is not None and end not in begun:
                        begun.append(end)
                    answer = family.process(peer, request)
            except RequestRefused as refusal:
                answer = request.answer(refusal.code, str(refusal))
            except Exception:
                answer = request.answer(1, self._bugs.remark(Failure()))
            if type(answer) is bytes and not after and not request.flag & ONE_WAY:
                append(answer)
                room -= len(answer)
            elif isinstance(answer, Deferred):
                Later(self, peer, request, answer)
                if peer.full:
                    break
            else:
                room -= self._reply(peer, request, answer)
            if room < 0 or link.state.over:
                break
        return taken

    # -- beside it -----------------------------------------------------------------------------------------

    def _begin_late(self, peer: IDispatchedPeer, late: LateAnswers) -> int:
        """Let requests that were taken wait for their answers; return how many bytes were put for the others."""
        put = 0
        for request, answer in late:
            if isinstance(answer, Deferred):
                Later(self, peer, request, answer)
            else:
                put += self._reply(peer, request, answer)
        late.clear()
        return put

    def reply(self, peer: IDispatchedPeer, request: Command, answer: Answer) -> None:
        """Send an answer that was late."""
        self._reply(peer, request, answer)

    def _reply(self, peer: IDispatchedPeer, request: Command, answer: Answer) -> int:
        """Put an answer of any kind into C{peer}; return how many bytes that was."""
        for after in self._after:
            try:
                after(peer, request, answer)
            except Exception:
                self._bugs.remark(Failure())
        if answer is None or request.flag & ONE_WAY:
            return 0
        if isinstance(answer, list):
            return peer.link.put_pieces(answer)
        if not isinstance(answer, bytes):
            try:
                answer = encode(answer)
            except Exception:
                answer = encode(request.answer(1, self._bugs.remark(Failure())))
        return peer.link.put(answer)

    def _unreadable(self, peer: IDispatchedPeer, error: BadHeader) -> int:
        """Answer a header that cannot be read, where its opaque could and it was no answer itself."""
        peer.unreadable(error)
        flag = error.flag or 0
        if error.opaque is None or flag & (RESPONSE | ONE_WAY):
            return 0
        request = Command.request(0)
        request.opaque = error.opaque
        request.encoding = error.encoding
        return peer.link.put(encode(request.answer(error.code, str(error))))

    def _ask_before(self, peer: IDispatchedPeer, request: Command) -> Deferred[None] | None:
        """Ask the hooks; a Deferred where one of them needs time."""
        for index, before in enumerate(self._before):
            waiting = before(peer, request)
            if waiting is not None:
                return Deferred.fromCoroutine(_all_pass(waiting, self._before[index + 1 :], peer, request))
        return None

    def _process_after(
        self, passing: Deferred[None], peer: IDispatchedPeer, request: Command, family: _Family | None
    ) -> Deferred[Answer]:
        """Process a request, alone and not in a run, once its hooks have let it pass."""

        return passing.addCallback(lambda _: self._process_alone(peer, request, family))

    def _process_alone(self, peer: IPeer, request: Command, family: _Family | None) -> Answer | Deferred[Answer]:
        if family is None:
            raise CodeNotSupported(request.code)
        if family.refuses is not None and family.refuses():
            raise SystemBusy(REJECTED)
        try:
            return family.process(peer, request)
        finally:
            if family.run_ended is not None:
                family.run_ended()

    def carry_out(self, peer: IPeer, request: Command) -> Answer | Deferred[Answer]:
        """
        Process a request, alone and not in a run, without hooks; return its answer, which nobody is sent.

        @raise RequestRefused: no processor takes it, or the one that does refuses it.
        """
        return self._process_alone(peer, request, self._families.get(request.code))

    def met_bug(self, failure: Failure) -> None:
        """Note a bug that nobody is told about."""
        self._bugs.remark(failure)

    def refusal(self, request: Command, failure: Failure) -> Command:
        """Return the answer to a request whose Deferred failed."""
        error = failure.value
        if isinstance(error, RequestRefused):
            return request.answer(error.code, str(error))
        if isinstance(error, CancelledError):
            return request.answer(ServiceNotAvailable.code, STOPPING)
        return request.answer(1, self._bugs.remark(failure))


async def _all_pass(waiting: Deferred[None], rest: Sequence[Before], peer: IPeer, request: Command) -> None:
    await waiting
    for before in rest:
        passing = before(peer, request)
        if passing is not None:
            await passing


_NOTHING: Final = Command(0)  # in place of a request that nobody wants answered


@implementer(IOutstanding)
class Later:
    """
    A request whose answer is a Deferred.

    @ivar held: it waits because the peer wants it to.
    @ivar size: about how many bytes are kept for it.
    """

    __slots__ = ("_deferred", "_dispatcher", "_peer", "_request", "held", "size")
    count = 1

    def __init__(
        self, dispatcher: Dispatcher, peer: IDispatchedPeer, request: Command, deferred: Deferred[Answer]
    ) -> None:
        self._dispatcher = dispatcher
        self._peer: IDispatchedPeer | None = peer
        self._deferred: Deferred[Answer] | None = deferred
        self.held = isinstance(deferred, LongPoll)
        if isinstance(deferred, LongPoll):
            self.size = deferred.size
            request = request.bare()
        else:
            self.size = _LATER + len(request.body) + len(request.raw)
        self._request = request
        peer.begun(self)
        deferred.addCallbacks(self._answered, self._failed)

    def _answered(self, answer: Answer) -> None:
        peer = self._peer
        if peer is not None and peer.done(self):
            self._dispatcher.reply(peer, self._request, answer)

    def _failed(self, failure: Failure) -> None:
        peer = self._peer
        if peer is not None and peer.done(self):
            self._dispatcher.reply(peer, self._request, self._dispatcher.refusal(self._request, failure))

    def forget(self) -> None:
        """Keep neither the connection nor the request until the answer comes: nobody wants it any more."""
        self._peer = None
        self._request = _NOTHING
        self._deferred = None

    def cancel(self) -> None:
        """Cancel a long poll."""
        if self._deferred is None:
            return
        try:
            self._deferred.cancel()
        except Exception:
            self._dispatcher.met_bug(Failure())

    def give_up(self) -> None:
        """Answer in the processor's place; what it says later is dropped."""
        self._failed(Failure(CancelledError()))


NOTHING: Final = Dispatcher()
"""Answers every request with 3."""
