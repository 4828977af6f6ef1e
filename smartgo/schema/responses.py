"""
Frames of the most frequent responses, written from ready-made texts in place of a header that is built and serialised.

Each function returns what L{smartgo.schema.command.encode} would write for the same answer, as a parser sees it: the
length word and the header, to be followed by as many body bytes as the caller announced.
"""

from __future__ import annotations

from collections.abc import Iterable
from json.encoder import encode_basestring_ascii
from typing import NamedTuple

from smartgo.schema.codes import LANGUAGE, LANGUAGE_NAMES, VERSION
from smartgo.schema.commandlayout import BINARY, JSON, OPAQUE, binary_head_struct, prefix_struct

_pack_prefix = prefix_struct.pack
_pack_head = binary_head_struct.pack

_RESPONSE = 1
_TAIL = f',"version":{VERSION}}}'
_MIDDLE = f'"}},"flag":1,"language":"{LANGUAGE_NAMES[LANGUAGE]}","opaque":'

_SEND = b'{"code":0,"extFields":{"msgId":"'
_SEND_NAMES = (b"\0\5msgId", b"\0\7queueId", b"\0\x0bqueueOffset")
_PULL = b'{"code":0,"extFields":{"suggestWhichBrokerId":"'
_PULL_NAMES = (b"\0\x14suggestWhichBrokerId", b"\0\x0fnextBeginOffset", b"\0\x09minOffset", b"\0\x09maxOffset")


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
    """Return what L{send_response} puts between the values that it is given."""
    head = _pack_head(0, LANGUAGE, VERSION, 0, _RESPONSE, 0)
    return SendPieces(
        (_SEND, b'","queueId":"', b'","queueOffset":"', _region_middle(region, trace_on).encode(), _TAIL.encode()),
        (head[: OPAQUE.start], head[OPAQUE.stop :], *_SEND_NAMES, _send_rest(region, trace_on)),
    )


class FoundPieces(NamedTuple):
    """
    The bytes between the values of an answer to a pull that found messages, behind the eight bytes that a frame begins
    with.

    @ivar json: before each of the four numbers, before the opaque, and the end.
    @ivar binary: before the opaque; from behind it to the length of all fields; the names of the numbers, whose lengths
        follow.
    """

    json: tuple[bytes, bytes, bytes, bytes, bytes, bytes]
    binary: tuple[bytes, bytes, bytes, bytes, bytes, bytes]


def found_pieces(remark: str) -> FoundPieces:
    """Return what L{pull_response} puts between the values that it is given, for code 0 and a remark."""
    head = _pack_head(0, LANGUAGE, VERSION, 0, _RESPONSE, len(remark))
    names = [b'","%b":"' % name[2:] for name in _PULL_NAMES[1:]]
    return FoundPieces(
        (_PULL, *names, _MIDDLE.encode(), f',"remark":{_quoted(remark)}{_TAIL}'.encode()),  # type: ignore[arg-type]
        (head[: OPAQUE.start], head[OPAQUE.stop :] + remark.encode(), *_PULL_NAMES),
    )


def send_response(
    encoding: int, opaque: int, msg_id: str, queue_id: int, queue_offset: int, pieces: SendPieces
) -> bytes:
    """
    Write the whole answer to a send that succeeded.

    @param msg_id: the offset id, or several joined by commas.
    """
    ids, queue, offset = msg_id.encode(), b"%d" % queue_id, b"%d" % queue_offset
    if encoding == JSON:
        before, second, third, fourth, end = pieces.json
        return _json(b"".join((before, ids, second, queue, third, offset, fourth, b"%d" % opaque, end)))
    fields = zip(pieces.binary[2:], (ids, queue, offset), strict=False)
    return _binary(0, opaque, b"", _block(fields) + pieces.binary[5], 0)


def pull_response(
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
        said = "" if remark is None else f',"remark":{_quoted(remark)}'
        header = (
            f'{{"code":{code},"extFields":{{"suggestWhichBrokerId":"{suggest}","nextBeginOffset":"{next_offset}",'
            f'"minOffset":"{minimum}","maxOffset":"{maximum}{_MIDDLE}{opaque}{said}{_TAIL}'
        )
        return _json(header.encode(), body_size)
    fields = (
        (b"\0\x14suggestWhichBrokerId", b"%d" % suggest),
        (b"\0\x0fnextBeginOffset", b"%d" % next_offset),
        (b"\0\x09minOffset", b"%d" % minimum),
        (b"\0\x09maxOffset", b"%d" % maximum),
    )
    return _binary(code, opaque, remark.encode("utf-8", "replace") if remark else b"", _block(fields), body_size)


def offset_response(encoding: int, opaque: int, offset: int) -> bytes:
    """Write the whole answer to a request for one offset."""
    if encoding == JSON:
        return _json(f'{{"code":0,"extFields":{{"offset":"{offset}{_MIDDLE}{opaque}{_TAIL}'.encode())
    return _binary(0, opaque, b"", _block(((b"\0\6offset", b"%d" % offset),)), 0)


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


def _json(header: bytes, body_size: int = 0) -> bytes:
    """Put the length word and the header's length before a JSON header."""
    size = len(header)
    return _pack_prefix(size + 4 + body_size, JSON << 24 | size) + header


def _quoted(text: str) -> str:
    return encode_basestring_ascii(text.encode("utf-8", "replace").decode())


def _block(fields: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Write ext fields; the names come with their lengths."""
    return b"".join([b"%b%b%b" % (name, len(value).to_bytes(4, "big"), value) for name, value in fields])


def _binary(code: int, opaque: int, remark: bytes, block: bytes, body_size: int) -> bytes:
    """Write a binary answer with its ext fields."""
    size = binary_head_struct.size + len(remark) + 4 + len(block)
    return b"".join(
        (
            _pack_prefix(size + 4 + body_size, BINARY << 24 | size),
            _pack_head(code, LANGUAGE, VERSION, opaque, _RESPONSE, len(remark)),
            remark,
            len(block).to_bytes(4, "big"),
            block,
        )
    )
