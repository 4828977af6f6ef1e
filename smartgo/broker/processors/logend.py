"""
The question about a log that brokers ask at each other's main port (30001), and its answer.

A slave asks its master before it follows its log; each asks the other for bytes in place of damaged ones
(L{smartgo.broker.cluster.damagefetcher}). Rules: reliability H3, S8, X6: a master answers only those who may replicate,
a slave only its master; where there is a key, who has it, too (L{smartgo.ha.guard}). A RocketMQ broker answers 3 to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from zope.interface import implementer

from smartgo.broker.cluster.registrar import Ask
from smartgo.broker.processors.requestcodes import answered_by
from smartgo.errors import BadHeader, CallFailed, NoPermission, NoSuchMessage, PeerRefused, RequestRefused
from smartgo.ha.guard import Guard
from smartgo.ha.interfaces import IMasterTail, Tail
from smartgo.net.ratelimitedlog import RateLimitedLog
from smartgo.remoting.interfaces import Answer, IPeer, IRequestProcessor
from smartgo.remoting.processor import Processor
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.hatransfer import TAIL_LIMIT, TICKET_WORD_SIZE
from smartgo.schema.headers.ha import CHALLENGE, TailAnswer, TailRequest
from smartgo.schema.message import unpack_host
from smartgo.schema.signature import AccessKey
from smartgo.store.replicatedlog import FoundDamage, IReplicatedLog, read_cold

TIMEOUT: Final = 5.0
"""Seconds that a master gets for its answer."""

_CHALLENGE: Final = re.compile("[0-9a-f]{16,128}")
"""A slave signs nothing else: a signature does not say for what request it is, so nobody may choose the text."""
_LAST_PORT: Final = 65535


@implementer(IRequestProcessor)
class TailProcessor(Processor):
    """Answers the question."""

    codes = answered_by("logend")

    def __init__(
        self,
        log: IReplicatedLog,
        warnings: RateLimitedLog,
        allows: Callable[[str], bool],
        guard: Guard | None = None,
        heard: Callable[[str, int], None] | None = None,
    ) -> None:
        """
        @param warnings: where those are logged who may not replicate.
        @param allows: whether who comes from this IP address may replicate.
        @param guard: who else has a say in it.
        @param heard: called with the IP address and the main port of each slave that asks; C{None} on a slave, which
            nobody follows.
        """
        self._log = log
        self._warnings = warnings
        self._allows = allows
        self._guard = guard
        self._heard = heard

    def process(self, peer: IPeer, request: Command) -> Deferred[Answer]:
        """
        Answer with the log's bounds, and the CRC of the range where it is all there.

        @raise NoPermission: through the Deferred: who asks may not replicate.
        @raise RequestRefused: through the Deferred: a range that is none, or longer than C{TAIL_LIMIT}.
        """
        return Deferred.fromCoroutine(self._tell(unpack_host(peer.host)[0], request))

    async def _tell(self, ip: str, request: Command) -> Answer:
        header = request.read(TailRequest)
        if self._heard is None and not header.read:
            raise RequestRefused("a slave cannot be followed")  # not code 3, which says that this is a RocketMQ broker
        guard = self._guard
        try:
            if not self._allows(ip):
                why = "haAllow does not name it" if self._heard is not None else "it is not the master of this slave"
                raise NoPermission(f"{ip} may not replicate from this broker: {why}")
            signed = guard is None or guard.check(request, header.challenge)
        except NoPermission as error:
            self._warnings.warn(ip, "not replicating to {slave}: {why}", slave=ip, why=str(error))
            raise
        if guard is not None and not signed:
            remark = "sign the question once more, over the challenge"
            return request.answer(ResponseCode.NO_PERMISSION, remark, fields={CHALLENGE: guard.challenge()})
        begin, end = header.begin, header.end
        if not 0 <= begin <= end <= begin + TAIL_LIMIT:
            raise RequestRefused(f"not a range of the log of at most {TAIL_LIMIT} bytes: {begin} to {end}")
        if self._heard is not None and header.main_port is not None and 0 < header.main_port <= _LAST_PORT:
            self._heard(ip, header.main_port)
        crc, data = None, b""
        if begin < end:
            try:
                crc = await self._log.crc(begin, end)
                data = await read_cold(self._log, begin, end) if header.read else b""
            except NoSuchMessage:
                pass  # it is answered without
            except OSError as error:
                crc = None
                self._unreadable(ip, begin, error)
        damaged: Sequence[FoundDamage] = ()
        if header.check:
            try:
                damaged = await self._log.find_damage(begin, end)
            except OSError as error:
                self._unreadable(ip, begin, error)
        minimum, last = self._log.log_bounds()
        answer = TailAnswer(minimum=minimum, end=last, crc=crc)
        answer.marked_from = self._log.marked_from if header.follow else None
        if damaged:
            answer.damaged = _written(damaged)
            answer.unreadable = _written([one for one in damaged if one.is_unreadable]) or None
        if guard is not None:
            answer.challenge = guard.challenge()
            answer.ticket = guard.ticket() if header.follow else None
        return request.answer(header=answer, body=data)

    def _unreadable(self, ip: str, begin: int, error: OSError) -> None:
        self._warnings.warn(ip, "the log at {begin} cannot be read: {why}", begin=begin, why=str(error))


@implementer(IMasterTail)
class RemoteTail:
    """Asks another broker the question."""

    _log = Logger()

    def __init__(self, ask: Ask, credentials: AccessKey | None = None, main_port: int | None = None) -> None:
        """
        @param credentials: our key, for brokers that ask for one.
        @param main_port: of ours, where our master can ask us; C{None} for a master.
        """
        self._ask_at = ask
        self._credentials = credentials
        self._main_port = main_port
        self._challenge: tuple[str, str] | None = None  # the last that we were given, behind the address that gave it
        self._unguarded: str | None = None  # a master of which we have said that it asks for no key

    def ask(
        self, master: str, begin: int, end: int, follow: bool = False, read: bool = False, check: bool = False
    ) -> Deferred[Tail | None]:
        """See L{IMasterTail}."""
        header = TailRequest(begin, end, follow or None, None, check or None, read or None, self._main_port)
        return Deferred.fromCoroutine(self._ask(master, header))

    async def _ask(self, master: str, header: TailRequest) -> Tail | None:
        answer = await self._send(master, header)
        if answer.code == ResponseCode.NO_PERMISSION and self._challenge is not None:
            answer = await self._send(master, header)
        known = answer.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        if known and answer.code != ResponseCode.SUCCESS:
            raise PeerRefused(answer.code, answer.remark or "")
        try:
            tail = _read(answer) if known else None
        except (BadHeader, ValueError) as error:
            raise CallFailed(f"the answer of {master} cannot be read: {error}") from None
        if header.follow:
            self._note(master, guarded=tail is not None and tail.ticket != b"")
        return tail

    async def _send(self, master: str, header: TailRequest) -> Command:
        """Ask once, signed over the challenge that we have, if any; a challenge is used once."""
        given, self._challenge = self._challenge, None
        header.challenge = given[1] if given is not None and given[0] == master else None
        request = Command.request(RequestCode.GET_LOG_TAIL, header)
        if self._credentials is not None:
            self._credentials.sign(request)
        answer = await self._ask_at(master, request, TIMEOUT)
        challenge = answer.fields.get(CHALLENGE, "")
        if self._credentials is not None and _CHALLENGE.fullmatch(challenge):
            self._challenge = master, challenge
        return answer

    def _note(self, master: str, guarded: bool) -> None:
        """Log once that a master asks for no key, so that ours protects nothing."""
        if guarded or self._credentials is None:
            self._unguarded = None
        elif self._unguarded != master:
            self._unguarded = master
            self._log.warn(
                "we have a haAccessKey, and the master {master} asks for none: whoever reaches its port for slaves gets"
                " every message", master=master,
            )  # fmt: skip


def _read(answer: Command) -> Tail:
    """@raise BadHeader: it lacks a field. @raise ValueError: what should be a ticket, or a region, is none."""
    header = answer.read(TailAnswer)
    ticket = bytes.fromhex(header.ticket or "")
    if len(ticket) not in (0, TICKET_WORD_SIZE):
        raise ValueError(f"a ticket of {len(ticket)} bytes")
    unreadable = set(_regions(header.unreadable))
    places = tuple(FoundDamage(*one, one in unreadable) for one in _regions(header.damaged))
    return Tail(header.minimum, header.end, header.crc, ticket, bytes(answer.body or b""), places, header.marked_from)


def _written(damaged: Sequence[FoundDamage]) -> str:
    """Return the field for damaged regions: C{offset+length}, with commas between."""
    return ",".join(f"{one.offset}+{one.length}" for one in damaged)


def _regions(field: str | None) -> list[tuple[int, int]]:
    """Return the offsets and lengths that such a field tells. @raise ValueError: it is none."""
    parts = [one.split("+") for one in (field or "").split(",") if one]
    return [(int(offset), int(length)) for offset, length in parts]
