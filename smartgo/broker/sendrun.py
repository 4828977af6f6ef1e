"""
Runs of plain sends: from frames to records, units and answers in one go, without an object for any of them.

A run takes a frame only when it is sure of all of it. Whatever is out of the ordinary (a topic it does not know, a
special property, a full file, odd JSON) is not taken and has changed nothing: the processor goes on at that frame. So
there are no errors here, no log and no refusals. What is taken leaves the very bytes that the processor would leave.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from zlib import crc32

from smartgo.core import choose
from smartgo.errors import BadHeader, FramingError, MessageIllegal
from smartgo.remoting.rungrants import RunGrants
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import ONE_WAY, Command, decode
from smartgo.schema.consumequeue import unit_struct
from smartgo.schema.headers.send import SendRequest
from smartgo.schema.headertemplates import HeaderTemplateCache
from smartgo.schema.message import HOSTS_MASK, TRANSACTION_MASK
from smartgo.schema.propertyrewriter import Rewriter
from smartgo.schema.record import MAGIC, PROPERTIES_LIMIT, SEAL_BEGIN, pack_head
from smartgo.schema.responses import SendPieces, send_response
from smartgo.store.tails import LogTail, QueueTail

StoredSend: TypeAlias = "tuple[int, int, int, bool, str, int, tuple[int, int, int, int, list[int] | tuple[int, ...]]]"
"""A send that was stored and is not answered: encoding, opaque, flag, whether it waits, topic, queue id, and the
fields of L{Appended<smartgo.store.interfaces.Appended>}."""

_SINGLE: Final = (int(RequestCode.SEND_MESSAGE), int(RequestCode.SEND_MESSAGE_V2))
_JSON_BEGINS: Final = tuple(b'{"code":%d,' % code for code in _SINGLE)
_BINARY_BEGINS: Final = tuple(code.to_bytes(2, "big") for code in _SINGLE)
_NO_HOST_FLAGS: Final = ~HOSTS_MASK
_V4_HOST: Final = 8
_RARE: Final = SEAL_BEGIN[-2]
_unit_pack = unit_struct.pack
_pack_length: Final = struct.Struct(">h").pack


@dataclass(frozen=True)
class SendRules:
    """
    The rules by which every send to a broker is stored.

    @ivar store_host: address and port of the broker as a record stores them.
    @ivar added: the property put into every message: C{NAME 0x01 VALUE}.
    @ivar special: names of properties that make a message one that is not plain.
    @ivar body_limit: the longest body, or bodies of a batch, in bytes.
    @ivar count_limit: the most messages of a batch.
    @ivar later: whether answers wait for a flush or a slave.
    """

    store_host: bytes
    added: bytes
    special: tuple[bytes, ...]
    body_limit: int
    count_limit: int
    later: bool


@dataclass(frozen=True)
class SendAnswers:
    """
    The parts that all answers to sends have in common.

    @ivar id_prefix: the store host in hexadecimal digits, with which message ids begin.
    @ivar json: see L{SendPieces<smartgo.schema.responses.SendPieces>}, as C{binary}.
    """

    id_prefix: bytes
    json: tuple[bytes, bytes, bytes, bytes, bytes]
    binary: tuple[bytes, bytes, bytes, bytes, bytes, bytes]


class PureSendRun:
    """
    Runs of plain sends, in Python.

    It takes single messages between IPv4 hosts where no answer waits. The compiled one takes batches, IPv6 hosts and
    waiting answers, too; there is nothing to gain for them here.
    """

    def __init__(
        self,
        log: LogTail,
        find: Callable[[str, int], QueueTail | None],
        rules: SendRules,
        answers: SendAnswers,
        grants: RunGrants | None = None,
    ) -> None:
        """
        @param log: where records are appended.
        @param find: returns the queue of a topic and queue id that clients may send to; C{None}: there is none, or not
            yet, or not for this. What it returned is kept until L{forget}.
        @param grants: lets frames pass; without the core none. C{None}: all pass.
        """
        name, _, value = rules.added.decode().partition("\x01")
        self._log = log
        self._find = find
        self._rules = rules
        self._pieces = SendPieces(answers.json, answers.binary)
        self._id_prefix = answers.id_prefix.decode()
        self._rewriter = Rewriter({name: value}, special=[one.decode() for one in rules.special])
        self._open = grants is None
        self._templates = HeaderTemplateCache()
        self._queues: dict[tuple[str, int], QueueTail] = {}
        self._counts: dict[str, list[int]] = {}

    def forget(self) -> None:
        """Ask for every queue anew: a topic or a setting has changed."""
        self._queues.clear()

    def drain(self) -> list[tuple[str, int, int, int]]:
        """Return topic, messages, bytes of records, and requests of what was stored since the last time."""
        counts, self._counts = self._counts, {}
        return [(topic, *found) for topic, found in counts.items()]  # type: ignore[misc]

    def take(self, frames: list[bytes], begin: int, born_host: bytes, out: list[Any], room: int, limit: int) -> int:
        """
        Store the plain sends among frames from C{begin} on, up to the first that is none.

        @param frames: whole frames, without their length words.
        @param born_host: address and port of the client as a record stores them.
        @param out: gets all answers, as one piece; where answers wait, a L{StoredSend} for each request.
        @param room: no more are taken once more bytes of answers are there.
        @param limit: how many may be taken.
        @return: how many were.
        """
        rules = self._rules
        if not self._open or rules.later or len(born_host) != _V4_HOST or len(rules.store_host) != _V4_HOST:
            return 0
        log = self._log
        first = offset = log.end
        records: list[bytes] = []
        answers: list[bytes] = []
        at = begin
        try:
            for frame in frames[begin : begin + limit]:
                found = self._plain(frame) if room >= 0 else None
                if found is None:
                    break
                request, header, queue, (raw, code, _, _) = found
                body = request.body
                properties_size = len(raw)
                size = queue.overhead + len(body) + properties_size
                following = offset + size
                queue_offset = queue.next_offset
                if following > log.limit or queue_offset >= queue.reserved:
                    break
                stored_ms = log.now_ms or log.read_clock()
                try:
                    head = pack_head(
                        size,
                        MAGIC,
                        crc32(body) & 0x7FFFFFFF,
                        header.queue_id,
                        header.flag,
                        queue_offset,
                        offset,
                        header.sys_flag & _NO_HOST_FLAGS,
                        header.born_timestamp,
                        born_host,
                        stored_ms,
                        rules.store_host,
                        header.reconsume_times,
                        0,
                        len(body),
                    )
                except struct.error:
                    break
                answer = b""
                if not request.flag & ONE_WAY:
                    answer = send_response(
                        request.encoding,
                        request.opaque,
                        f"{self._id_prefix}{offset:016X}",
                        header.queue_id,
                        queue_offset,
                        self._pieces,
                    )
                unit = _unit_pack(offset, size, code)
                records += (head, body, queue.topic_part, _pack_length(properties_size), raw)
                if not queue.pending:
                    queue.staged.append(queue)
                queue.pending.append(unit)
                queue.codes.append(code)
                queue.next_offset = queue_offset + 1
                queue.stored_ms = stored_ms
                self._count(header.topic, size)
                answers.append(answer)
                room -= len(answer)
                offset = following
                at += 1
        except Exception:
            if not records:
                raise
            # It comes again when the caller goes on at that frame; what was taken before it is not lost.
        if records:
            log.view[first - log.base : offset - log.base] = b"".join(records)
            log.end = offset
            log.stored_ms = log.now_ms
        if answer := b"".join(answers):
            out.append(answer)
        return at - begin

    def _plain(self, frame: bytes) -> tuple[Command, SendRequest, QueueTail, tuple[bytes, int, bool, bool]] | None:
        """Read a frame; C{None}: it is no plain send."""
        if not (frame.startswith(_JSON_BEGINS, 4) or (frame[:1] == b"\1" and frame.startswith(_BINARY_BEGINS, 4))):
            return None
        try:
            request = decode(frame, self._templates)
        except (BadHeader, FramingError):
            return None
        header = request.header
        if not isinstance(header, SendRequest) or request.flag & ~ONE_WAY or header.sys_flag & TRANSACTION_MASK:
            return None
        key = (header.topic, header.queue_id)
        queue = self._queues.get(key)
        if queue is None or queue.dropped:
            queue = self._find(*key)
            if queue is None:
                return None
            self._queues[key] = queue
        try:
            rewritten = self._rewriter.rewrite(header.properties)
        except MessageIllegal:
            return None
        raw = rewritten.raw
        if rewritten.special or len(request.body) > self._rules.body_limit or len(raw) > PROPERTIES_LIMIT:
            return None
        if 0 in raw or (_RARE in raw and SEAL_BEGIN in raw):
            return None
        return request, header, queue, rewritten

    def _count(self, topic: str, size: int) -> None:
        counts = self._counts.get(topic)
        if counts is None:
            self._counts[topic] = [1, size, 1]
        else:
            counts[0] += 1
            counts[1] += size
            counts[2] += 1


if TYPE_CHECKING:
    SendRun = PureSendRun
else:
    SendRun = choose("SendRun", PureSendRun)
