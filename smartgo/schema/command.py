"""
One remoting command: a request or a response, with its header and its body.

The byte tables and construct schemas are in L{smartgo.schema.commandlayout}, the two header encodings in
L{smartgo.schema.commandjson} and L{smartgo.schema.commandbinary}, ready-made response frames in
L{smartgo.schema.responses}.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from smartgo.errors import BadFrameLength, BadHeader, BadHeaderLength
from smartgo.schema.codes import LANGUAGE, LANGUAGE_CODES, VERSION
from smartgo.schema.commandbinary import BinaryHeader, decode_binary, encode_binary
from smartgo.schema.commandjson import HOT_HEADERS, JsonHeader, decode_json, encode_json, hot_decoder
from smartgo.schema.commandlayout import BINARY, FIELD_LIMIT, HEADER_LIMIT, JSON, OPAQUE, prefix_struct, word_struct
from smartgo.schema.commandlayout import ONE_WAY as ONE_WAY
from smartgo.schema.commandlayout import RESPONSE as RESPONSE
from smartgo.schema.headerfields import Header, from_fields, to_fields
from smartgo.schema.headers.pull import PullRequest
from smartgo.schema.headers.send import SendRequestV2
from smartgo.schema.headertemplates import HeaderTemplateCache

H = TypeVar("H", bound=Header)

FRAME_LIMIT = 16 * 1024 * 1024
"""The longest frame, length word excluded (reliability L1)."""

_unpack_word = word_struct.unpack_from
_pack_prefix = prefix_struct.pack
_decode_hot = hot_decoder.decode
_int = int.from_bytes
_SURPRISES = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, KeyError)


class Command(Struct, gc=False, eq=False):
    """
    A request or a response. Mutable; made by L{Command.request}, L{Command.answer} and L{decode}.

    @ivar code: request or response code, as bit 0 of C{flag} tells.
    @ivar opaque: the sender's number for a request, repeated by its response.
    @ivar language: the sender's L{smartgo.schema.codes.LanguageCode}.
    @ivar version: the sender's release, as an ordinal.
    @ivar remark: what went wrong, in words.
    @ivar encoding: 0 JSON, 1 binary.
    @ivar body: C{b""} for none.
    @ivar header: the typed header of a command of ours and of a hot request, else C{None}; see L{read}.
    @ivar raw: the header as it was received; empty for commands of ours.
    """

    code: int
    opaque: int = 0
    flag: int = 0
    language: int = LANGUAGE
    version: int = VERSION
    remark: str | None = None
    encoding: int = JSON
    body: bytes = b""
    header: Any = None
    raw: bytes = b""
    _fields: dict[str, str] | None = None
    _reader: Callable[[bytes], JsonHeader | BinaryHeader] = decode_json

    @classmethod
    def request(
        cls,
        code: int,
        header: Header | None = None,
        body: bytes = b"",
        fields: Mapping[str, str] | None = None,
        one_way: bool = False,
    ) -> Command:
        """
        Make a request; whoever sends it gives it an opaque.

        @param fields: ext fields beside those of C{header}.
        """
        return cls(
            int(code),
            flag=ONE_WAY if one_way else 0,
            body=body,
            header=header,
            _fields=_merged(header, fields) if fields else None,
        )

    def answer(
        self,
        code: int = 0,
        remark: str | None = None,
        header: Header | None = None,
        body: bytes = b"",
        fields: Mapping[str, str] | None = None,
    ) -> Command:
        """Make the response to this request: same opaque, same encoding."""
        return Command(
            int(code),
            self.opaque,
            RESPONSE,
            LANGUAGE,
            VERSION,
            remark,
            self.encoding,
            body,
            header,
            b"",
            _merged(header, fields) if fields else None,
        )

    def bare(self) -> Command:
        """Return this request without body and ext fields: all that L{answer} needs, in little memory."""
        return Command(self.code, self.opaque, self.flag, self.language, self.version, None, self.encoding)

    @property
    def is_response(self) -> bool:
        """Tell whether this command is a response."""
        return self.flag & RESPONSE != 0

    @property
    def is_one_way(self) -> bool:
        """Tell whether this request must never be answered."""
        return self.flag & ONE_WAY != 0

    @property
    def fields(self) -> dict[str, str]:
        """
        The ext fields as text, all that were received or will be sent; read once, then kept.

        A change to the dict of a command of ours is sent; a change to C{header} after the first use of this is not.
        """
        if self._fields is None:
            if self.raw:
                self._fields = self._reader(self.raw).fields
            else:
                self._fields = _merged(self.header, None)
        return self._fields

    def read(self, header_type: type[H]) -> H:
        """
        Return the ext fields as a typed header.

        For a request whose code has its own form of C{header_type} (the one-letter names of SEND_MESSAGE_V2) that
        form is read and returned.

        @raise BadHeader: a required field is absent, or a field malformed; the message names it.
        """
        header = self.header
        if isinstance(header, header_type):
            return header
        own = HOT_HEADERS.get(self.code)
        if own is not None and not self.flag & RESPONSE and issubclass(own, header_type):
            header_type = own
        header = from_fields(self.fields, header_type)
        if self.raw:
            self.header = header
        return header

    def trim(self, header: Header) -> None:
        """
        Forget what was received, for a request whose answer takes time: body, remark, and all of the header but
        C{header}.
        """
        self.header = header
        self.body = self.raw = b""
        self.remark = self._fields = None


def _merged(header: Header | None, fields: Mapping[str, str] | None) -> dict[str, str]:
    merged = {} if header is None else to_fields(header)
    if fields:
        merged.update(fields)
    return merged


def decode(frame: bytes, templates: HeaderTemplateCache | None = None) -> Command:
    """
    Read a frame without its length word.

    @param templates: makes frequent binary headers fast to decode; without it each is decoded in full.

    @raise FramingError: the lengths contradict each other or pass a limit; the stream is lost.
    @raise BadHeader: the header cannot be read; with C{opaque} and C{flag} where they can be made out, so that the
        request can be answered.
    """
    size = len(frame)
    if size < 4:
        raise BadFrameLength(size, 4, FRAME_LIMIT)
    (word,) = _unpack_word(frame)
    if word > HEADER_LIMIT or word > size - 4:
        # Not JSON, whose encoding byte is 0, or too long.
        return _decode_other(frame, word, templates)
    end = word + 4
    raw = frame[4:end]
    try:
        hot = _decode_hot(raw)
        language = LANGUAGE_CODES[hot.language]
    except _SURPRISES:
        return _command(decode_json(raw), JSON, frame[end:], raw)
    header = hot.extFields
    kind = header.__class__
    fields: dict[str, str] | None = None
    if kind is dict:
        fields, header = header, None
        if len(hot.extFields) > FIELD_LIMIT:
            raise BadHeader(f"more than {FIELD_LIMIT} ext fields", hot.opaque, hot.flag)
    elif (
        kind is not PullRequest
        and (kind is not SendRequestV2 or header.batch or header.unit_mode)
        and not _spelled_out(hot.truths, header, raw)
    ):
        return _command(decode_json(raw), JSON, frame[end:], raw)
    return Command(
        hot.code, hot.opaque, hot.flag, language, hot.version, hot.remark, JSON, frame[end:], header, raw, fields
    )


def _spelled_out(truths: tuple[tuple[str, bytes], ...], header: object, raw: bytes) -> bool:
    """Check that what was read as true is true for Java too."""
    return all(spelled in raw for attribute, spelled in truths if getattr(header, attribute, None) is True)


def _decode_other(frame: bytes, word: int, templates: HeaderTemplateCache | None) -> Command:
    size = len(frame)
    end = 4 + (word & 0xFFFFFF)
    if end > size or end > HEADER_LIMIT + 4:
        raise BadHeaderLength(end - 4, min(size - 4, HEADER_LIMIT))
    if word >> 24 != BINARY:
        raise BadHeaderLength(word, HEADER_LIMIT)
    raw = frame[4:end]
    found = None if templates is None else templates.find(raw)
    if found is None:
        return _decode_in_full(raw, frame[end:], templates)
    (code, flag, language, version, _), header = found
    opaque = _int(raw[OPAQUE], "big", signed=True)
    return Command(code, opaque, flag, language, version, None, BINARY, frame[end:], header, raw, None, decode_binary)


def _decode_in_full(raw: bytes, body: bytes, templates: HeaderTemplateCache | None) -> Command:
    """Decode a binary header in full; one of a frequent request becomes a template."""
    command = _command(decode_binary(raw), BINARY, body, raw)
    header_type = HOT_HEADERS.get(command.code)
    if header_type is not None and not command.flag & RESPONSE:
        with suppress(BadHeader):  # whoever reads it will be told
            command.header = from_fields(command.fields, header_type)
            if templates is not None:
                said = (command.code, command.flag, command.language, command.version)
                templates.add(raw, said, command.fields, command.header)
    return command


def _command(parts: JsonHeader | BinaryHeader, encoding: int, body: bytes, raw: bytes) -> Command:
    code, language, version, opaque, flag, remark, fields = parts
    return Command(code, opaque, flag, language, version, remark, encoding, body, None, raw, fields)


def encode(command: Command) -> bytes:
    """
    Write a whole frame, length word included, in the command's encoding.

    @raise BadHeader: the header does not fit the encoding or its limit.
    """
    header = _header(command)
    size = len(header)
    if size > HEADER_LIMIT:
        raise BadHeader(f"header of {size} B exceeds the limit of {HEADER_LIMIT} B")
    prefix = _pack_prefix(4 + size + len(command.body), command.encoding << 24 | size)
    return b"".join((prefix, header, command.body))


def _header(command: Command) -> bytes:
    fields = command._fields
    if fields is None:
        fields = command.fields if command.raw or command.header is None else to_fields(command.header)
    write = encode_binary if command.encoding == BINARY else encode_json
    return write(command.code, command.language, command.version, command.opaque, command.flag, command.remark, fields)
