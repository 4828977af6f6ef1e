"""
Frames of the most frequent responses, written from templates in place of a header that is built and serialised.

Each function returns what L{smartgo.schema.command.encode} would write for the same answer, as a parser sees it: the
length word and the header, to be followed by as many body bytes as the caller announced.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from smartgo.schema.codes import LANGUAGE, LANGUAGE_NAMES, VERSION
from smartgo.schema.commandlayout import BINARY, JSON, OPAQUE, binary_head_struct, prefix_struct

_pack_prefix = prefix_struct.pack
_pack_head = binary_head_struct.pack

_RESPONSE = 1
_TAIL = f',"version":{VERSION}}}'
_MIDDLE = f'"}},"flag":1,"language":"{LANGUAGE_NAMES[LANGUAGE]}","opaque":'

_READY = 512
_CACHED = 256  # of each; one more empties the cache


def _starts(begin: bytes) -> list[bytes]:
    """Prefix and first bytes of headers that have C{begin} and then 0, 1, 2, ... bytes, without a body."""
    sizes = range(len(begin), len(begin) + _READY)
    return [_pack_prefix(size + 4, JSON << 24 | size) + begin for size in sizes]


_SEND = b'{"code":0,"extFields":{"msgId":"'
_OFFSET = b'{"code":0,"extFields":{"offset":"'
_SEND_NAMES = (b"\0\5msgId", b"\0\7queueId", b"\0\x0bqueueOffset")
_send_starts = _starts(_SEND)
_offset_starts = _starts(_OFFSET)


class SendPieces(NamedTuple):
    """
    The bytes between the values of an answer to a send, behind the eight bytes that a frame begins with.

    @ivar json: before the ids, the queue id, the queue offset and the opaque, and the end.
    @ivar binary: before the opaque; from behind it to the length of all fields; name of the ids, of the queue id and
        of the queue offset, whose lengths follow; the fields behind them.
    """

    json: tuple[bytes, bytes, bytes, bytes, bytes]
    binary: tuple[bytes, bytes, bytes, bytes, bytes, bytes]


def send_pieces(region: str, trace_on: bool) -> SendPieces:
    """Return what L{ResponseFrames.send} puts between the values that it is given."""
    head = _pack_head(0, LANGUAGE, VERSION, 0, _RESPONSE, 0)
    return SendPieces(
        (_SEND, b'","queueId":"', b'","queueOffset":"', _region_middle(region, trace_on).encode(), _TAIL.encode()),
        (head[: OPAQUE.start], head[OPAQUE.stop :], *_SEND_NAMES, _send_rest(region, trace_on)),
    )


class ResponseFrames:
    """
    Writes response frames of sends and pulls, with the parts that repeat kept ready.

    Regions, remarks and lengths of texts are few; the caches are bounded all the same.
    """

    def __init__(self) -> None:
        self._regions: tuple[dict[str, str], dict[str, str]] = ({}, {})
        self._remarks: dict[str | None, str] = {}
        self._sends: dict[tuple[int, int, int, str, bool], bytes] = {}

    def send(
        self, encoding: int, opaque: int, msg_id: str, queue_id: int, queue_offset: int, region: str, trace_on: bool
    ) -> bytes:
        """
        Write the whole answer to a send that succeeded.

        @param msg_id: the offset id, or several joined by commas.
        """
        if encoding == JSON:
            middle = self._regions[trace_on].get(region) or self._region(region, trace_on)
            rest = f'{msg_id}","queueId":"{queue_id}","queueOffset":"{queue_offset}{middle}{opaque}{_TAIL}'.encode()
            size = len(rest)
            return (_send_starts[size] if size < _READY else _start(_SEND, size)) + rest
        queue, offset = b"%d" % queue_id, b"%d" % queue_offset
        key = (len(msg_id), len(queue), len(offset), region, trace_on)
        template = self._sends.get(key) or self._send_template(key)
        return template % (opaque.to_bytes(4, "big", signed=True), msg_id.encode(), queue, offset)

    def pull(
        self,
        encoding: int,
        opaque: int,
        code: int,
        remark: str | None,
        suggest: int,
        next_offset: int,
        minimum: int,
        maximum: int,
        body_size: int,
    ) -> bytes:
        """
        Write the answer to a pull up to its body.

        @param remark: the name of the read status.
        @param suggest: the broker id to ask next.
        @param body_size: how many bytes of messages follow.
        """
        if encoding == JSON:
            tail = self._remarks.get(remark) or self._remark(remark)
            header = (
                f'{{"code":{code},"extFields":{{"suggestWhichBrokerId":"{suggest}","nextBeginOffset":"{next_offset}",'
                f'"minOffset":"{minimum}","maxOffset":"{maximum}{_MIDDLE}{opaque}{tail}'
            ).encode()
            size = len(header)
            return _pack_prefix(size + 4 + body_size, size) + header
        fields = (
            (b"\0\x14suggestWhichBrokerId", b"%d" % suggest),
            (b"\0\x0fnextBeginOffset", b"%d" % next_offset),
            (b"\0\x09minOffset", b"%d" % minimum),
            (b"\0\x09maxOffset", b"%d" % maximum),
        )
        return _binary(code, opaque, remark.encode("utf-8", "replace") if remark else b"", fields, body_size)

    def _send_template(self, key: tuple[int, int, int, str, bool]) -> bytes:
        """Write a binary answer to a send with texts of these lengths, whose values and opaque are to be filled in."""
        id_size, queue_size, offset_size, region, trace_on = key
        if len(self._sends) >= _CACHED:
            self._sends.clear()
        rest = _send_rest(region, trace_on)
        sizes = (id_size, queue_size, offset_size)
        starts = [b"%b%b" % (name, size.to_bytes(4, "big")) for name, size in zip(_SEND_NAMES, sizes, strict=True)]
        size = len(b"".join(starts)) + id_size + queue_size + offset_size + len(rest)
        head = _head(0, 0, b"", size, 0)
        before = prefix_struct.size + OPAQUE.start
        pieces = [head[:before], head[before + 4 :] + starts[0], starts[1], starts[2], rest]
        template = self._sends[key] = b"%b".join([piece.replace(b"%", b"%%") for piece in pieces])
        return template

    def _region(self, region: str, trace_on: bool) -> str:
        cached = self._regions[trace_on]
        if len(cached) >= _CACHED:
            cached.clear()
        middle = cached[region] = _region_middle(region, trace_on)
        return middle

    def _remark(self, remark: str | None) -> str:
        if len(self._remarks) >= _CACHED:
            self._remarks.clear()
        tail = self._remarks[remark] = _TAIL if remark is None else f',"remark":{_quoted(remark)}{_TAIL}'
        return tail


def offset_response(encoding: int, opaque: int, offset: int) -> bytes:
    """Write the whole answer to a request for one offset."""
    if encoding == JSON:
        rest = f"{offset}{_MIDDLE}{opaque}{_TAIL}".encode()
        return _offset_starts[len(rest)] + rest
    return _binary(0, opaque, b"", ((b"\0\6offset", b"%d" % offset),), 0)


def _region_middle(region: str, trace_on: bool) -> str:
    """Write the JSON answer to a send from behind its queue offset to its opaque."""
    return f'","MSG_REGION":{_quoted(region)},"TRACE_ON":"{"true" if trace_on else "false"}{_MIDDLE}'


def _send_rest(region: str, trace_on: bool) -> bytes:
    """Write the ext fields of the binary answer to a send that follow its queue offset."""
    return _block(
        (
            (b"\0\x0aMSG_REGION", region.encode("utf-8", "replace")),
            (b"\0\x08TRACE_ON", b"true" if trace_on else b"false"),
        )
    )


def _start(begin: bytes, rest: int) -> bytes:
    size = len(begin) + rest
    return _pack_prefix(size + 4, JSON << 24 | size) + begin


def _quoted(text: str) -> str:
    return json.dumps(text.encode("utf-8", "replace").decode())


def _binary(code: int, opaque: int, remark: bytes, fields: tuple[tuple[bytes, bytes], ...], body_size: int) -> bytes:
    block = _block(fields)
    return _head(code, opaque, remark, len(block), body_size) + block


def _block(fields: tuple[tuple[bytes, bytes], ...]) -> bytes:
    """Write ext fields; the names come with their lengths."""
    return b"".join([b"%b%b%b" % (name, len(value).to_bytes(4, "big"), value) for name, value in fields])


def _head(code: int, opaque: int, remark: bytes, block_size: int, body_size: int) -> bytes:
    """Write a binary answer up to its ext fields."""
    size = binary_head_struct.size + len(remark) + 4 + block_size
    return b"".join(
        (
            _pack_prefix(size + 4 + body_size, BINARY << 24 | size),
            _pack_head(code, LANGUAGE, VERSION, opaque, _RESPONSE, len(remark)),
            remark,
            block_size.to_bytes(4, "big"),
        )
    )
