"""
The question that a slave asks a master's main port before it follows its log (30001), and its answer.

Rules: C{reliability.md} H3, X6: only those who may replicate are answered. A RocketMQ broker answers 3 to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from twisted.internet.defer import Deferred
from zope.interface import implementer

from smartgo.broker.announce import Ask
from smartgo.errors import BadHeader, CallFailed, NoPermission, NoSuchMessage, PeerRefused, RequestRefused
from smartgo.ha.interfaces import IMasterTail, Tail
from smartgo.remoting.interfaces import Answer, IPeer, IRequestProcessor
from smartgo.remoting.processor import Processor
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.hatransfer import TAIL_LIMIT
from smartgo.schema.headers.ha import TailAnswer, TailRequest
from smartgo.schema.message import unpack_host
from smartgo.store.interfaces import IReplicatedLog

TIMEOUT: Final = 5.0
"""Seconds that a master gets for its answer."""


@implementer(IRequestProcessor)
class TailProcessor(Processor):
    """Answers on a master."""

    codes = frozenset({int(RequestCode.GET_LOG_TAIL)})

    def __init__(self, log: IReplicatedLog, allows: Callable[[str], bool]) -> None:
        """@param allows: whether who comes from this IP address may replicate."""
        self._log = log
        self._allows = allows

    def process(self, peer: IPeer, request: Command) -> Deferred[Answer]:
        """
        Answer with the log's bounds, and the CRC of the range where it is all there.

        @raise NoPermission: through the Deferred: who asks may not replicate.
        @raise RequestRefused: through the Deferred: a range that is none, or longer than C{TAIL_LIMIT}.
        """
        return Deferred.fromCoroutine(self._tell(unpack_host(peer.host)[0], request))

    async def _tell(self, ip: str, request: Command) -> Answer:
        if not self._allows(ip):
            raise NoPermission(f"{ip} may not replicate from this broker: haAllow does not name it")
        header = request.read(TailRequest)
        begin, end = header.begin, header.end
        if not 0 <= begin <= end <= begin + TAIL_LIMIT:
            raise RequestRefused(f"no range of the log, of {TAIL_LIMIT} bytes at most: {begin} to {end}")
        crc = None
        if begin < end:
            try:
                crc = await self._log.crc(begin, end)
            except NoSuchMessage:
                pass  # it is answered without
        minimum, last = self._log.log_bounds()
        return request.answer(header=TailAnswer(minimum=minimum, end=last, crc=crc))


@implementer(IMasterTail)
class RemoteTail:
    """Asks a master."""

    def __init__(self, ask: Ask) -> None:
        self._ask_at = ask

    def ask(self, master: str, begin: int, end: int) -> Deferred[Tail | None]:
        """See L{IMasterTail}."""
        return Deferred.fromCoroutine(self._ask(master, begin, end))

    async def _ask(self, master: str, begin: int, end: int) -> Tail | None:
        request = Command.request(RequestCode.GET_LOG_TAIL, TailRequest(begin=begin, end=end))
        answer = await self._ask_at(master, request, TIMEOUT)
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            return None
        if answer.code != ResponseCode.SUCCESS:
            raise PeerRefused(answer.code, answer.remark or "")
        try:
            header = answer.read(TailAnswer)
        except BadHeader as error:
            raise CallFailed(f"the answer of {master} cannot be read: {error}") from None
        return Tail(header.minimum, header.end, header.crc)
