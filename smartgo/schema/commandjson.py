"""
The JSON header <-> values.

Three readers, from fast to exact; each passes on what surprises it:

 1. one msgspec pass over a union of envelopes, tagged by C{code}: the hot requests straight into their typed header,
    some more codes into a dict of texts (L{hot_decoder}). Unknown members are refused here, so that whatever gets
    through is flat, counted and valid UTF-8 by construction;
 2. one msgspec pass into an envelope of texts, for every other code;
 3. JSON into plain values, then each member as fastjson would take it.

The last two are L{decode_json}.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Struct, defstruct

from smartgo.errors import BadBody, BadHeader
from smartgo.schema.codes import LANGUAGE_CODES, LANGUAGE_NAMES, LanguageCode, RequestCode, ResponseCode
from smartgo.schema.commandlayout import FIELD_LIMIT, JSON, ONE_WAY
from smartgo.schema.fastjson import loads
from smartgo.schema.headerfields import INT32_MAX, INT32_MIN, Header, Int32
from smartgo.schema.headers.offsets import QueryOffsetRequest, UpdateOffsetRequest
from smartgo.schema.headers.pull import PullRequest
from smartgo.schema.headers.send import SendRequest, SendRequestV2

_OTHER = int(LanguageCode.OTHER)

HOT_HEADERS: Final[dict[int, type[Header]]] = {
    int(RequestCode.SEND_MESSAGE): SendRequest,
    int(RequestCode.PULL_MESSAGE): PullRequest,
    int(RequestCode.QUERY_CONSUMER_OFFSET): QueryOffsetRequest,
    int(RequestCode.UPDATE_CONSUMER_OFFSET): UpdateOffsetRequest,
    int(RequestCode.SEND_MESSAGE_V2): SendRequestV2,
    int(RequestCode.SEND_BATCH_MESSAGE): SendRequestV2,
    int(RequestCode.SEND_REPLY_MESSAGE): SendRequest,
    int(RequestCode.SEND_REPLY_MESSAGE_V2): SendRequestV2,
    int(RequestCode.LITE_PULL_MESSAGE): PullRequest,
}
"""Request codes whose JSON header is decoded together with its typed fields."""

_WARM_CODES: Final[tuple[int, ...]] = (
    ResponseCode.SUCCESS,
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
    RequestCode.HEART_BEAT,
    RequestCode.CONSUMER_SEND_MSG_BACK,
    RequestCode.END_TRANSACTION,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP,
    RequestCode.GET_ROUTEINFO_BY_TOPIC,
)


class JsonHeader(NamedTuple):
    """The content of a JSON header; C{fields} is never C{None}."""

    code: int
    language: int
    version: int
    opaque: int
    flag: int
    remark: str | None
    fields: dict[str, str]


class _Envelope(Struct, gc=False, forbid_unknown_fields=True):
    # In the order in which Java writes them: msgspec finds the next member at once where the order agrees.
    code: Int32 = 0
    extFields: dict[str, str] | None = None
    flag: Int32 = 0
    language: str = "JAVA"
    opaque: Int32 = 0
    remark: str | None = None
    serializeTypeCurrentRPC: str | None = None
    version: Int32 = 0


def _tagged(code: int, fields: Any) -> type[Struct]:
    typed = isinstance(fields, type) and issubclass(fields, Header)
    members = []
    for each in msgspec.structs.fields(_Envelope):
        kind = each.type
        if each.name == "extFields":
            kind = fields | None
        elif each.name == "flag" and typed:
            # Responses whose code equals a request's have other fields: they are a surprise.
            kind = Literal[0, ONE_WAY]
        if each.name != "code":
            members.append((each.name, kind, each.default))
    return defstruct(
        f"Envelope{int(code)}",
        members,
        tag_field="code",
        tag=int(code),
        gc=False,
        forbid_unknown_fields=True,
        namespace={"code": int(code), "truths": _truths(fields) if typed else ()},
    )


def _truths(header_type: type[Header]) -> tuple[tuple[str, bytes], ...]:
    """Name the booleans of a typed header, with what the raw header holds where one is true."""
    fields = msgspec.structs.fields(header_type)
    return tuple(
        (each.name, b'"%s":"true"' % each.encode_name.encode()) for each in fields if each.type in (bool, bool | None)
    )


def _hot_union() -> Any:
    union: Any = None
    for code, header in HOT_HEADERS.items():
        union = _tagged(code, header) if union is None else union | _tagged(code, header)
    for code in _WARM_CODES:
        union |= _tagged(code, dict[str, str])
    return union


hot_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_hot_union(), strict=False)
"""
Reader 1. Its values have C{code}, C{extFields} (a typed header, a dict, or C{None}), C{flag}, C{language} (the name),
C{opaque}, C{remark}, C{version}, and C{truths}: it takes C{"1"} for true, which Java does not, so the caller checks
that the text named there is in the raw header for each attribute that came out true.
"""

_envelope_decoder = msgspec.json.Decoder(_Envelope, strict=False)
_fields_decoder = msgspec.json.Decoder(dict[str, str], strict=True)


def decode_json(raw: bytes) -> JsonHeader:
    """
    Read a JSON header of any code.

    @raise BadHeader: it is no JSON object, or breaks a rule of reliability B3, B4 or L2; with the opaque and the flag
        where they can be made out.
    """
    try:
        envelope = _envelope_decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _decode_surprising(raw)
    fields = envelope.extFields or {}
    if len(fields) > FIELD_LIMIT:
        raise BadHeader(f"more than {FIELD_LIMIT} ext fields", envelope.opaque, envelope.flag, JSON)
    return JsonHeader(
        envelope.code,
        LANGUAGE_CODES.get(envelope.language, _OTHER),
        envelope.version,
        envelope.opaque,
        envelope.flag,
        envelope.remark,
        fields,
    )


def _decode_surprising(raw: bytes) -> JsonHeader:
    try:
        value = loads(raw)
        if not isinstance(value, dict):
            raise BadHeader("the header is not a JSON object")
        fields = value.get("extFields")
        if fields is None:
            fields = {}
        if not isinstance(fields, dict):
            raise BadHeader("extFields is not a JSON object")
        if len(fields) > FIELD_LIMIT:
            raise BadHeader(f"more than {FIELD_LIMIT} ext fields")
        remark = value.get("remark")
        return JsonHeader(
            _number(value, "code"),
            _language(value.get("language", "JAVA")),
            _number(value, "version"),
            _number(value, "opaque"),
            _number(value, "flag"),
            None if remark is None else _text(remark),
            {name: _text(member) for name, member in fields.items() if member is not None},
        )
    except BadBody as error:
        raise BadHeader(_of_header(str(error)), _glimpse(_OPAQUE, raw), _glimpse(_FLAG, raw), JSON) from None
    except BadHeader as error:
        raise BadHeader(str(error), _glimpse(_OPAQUE, raw), _glimpse(_FLAG, raw), JSON) from None


def _of_header(text: str) -> str:
    """Turn an error that the JSON reader words for a body into one for a header."""
    return f"header{text.removeprefix('body')}" if text.startswith("body ") else f"header: {text}"


_OPAQUE = re.compile(rb'"opaque"\s*:\s*"?(-?[0-9]{1,10})(?![0-9.eE])')
_FLAG = re.compile(rb'"flag"\s*:\s*"?(-?[0-9]{1,10})(?![0-9.eE])')
_DIGITS = re.compile(r"-?[0-9]{1,19}", re.ASCII).fullmatch


def _glimpse(pattern: re.Pattern[bytes], raw: bytes) -> int | None:
    """Find a number in a header that cannot be read as a whole."""
    found = pattern.search(raw)
    if found is None or not INT32_MIN <= (value := int(found[1])) <= INT32_MAX:
        return None
    return value


def _number(header: dict[str, Any], name: str) -> int:
    value = header.get(name)
    if value is None:
        return 0
    if isinstance(value, str) and _DIGITS(value) is not None:
        value = int(value)
    if type(value) is not int or not INT32_MIN <= value <= INT32_MAX:
        raise BadHeader(f"{name} of the header is not an int32: {str(value)[:40]!r}")
    return value


def _language(value: Any) -> int:
    if isinstance(value, str):
        return LANGUAGE_CODES.get(value, _OTHER)
    return value if type(value) is int and value in LANGUAGE_NAMES else _OTHER


def _text(value: Any) -> str:
    """Turn a JSON value into a text as fastjson does for a map of strings."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


class _Out(Struct, gc=False, omit_defaults=True):
    code: int
    flag: int
    language: str
    opaque: int
    version: int
    extFields: Mapping[str, str] | None = None
    remark: str | None = None


_encode = msgspec.json.Encoder().encode


def encode_json(
    code: int, language: int, version: int, opaque: int, flag: int, remark: str | None, fields: Mapping[str, str]
) -> bytes:
    """Write a compact JSON header. Lone surrogates of a text, which UTF-8 cannot carry, become question marks."""
    out = _Out(code, flag, LANGUAGE_NAMES.get(language, "OTHER"), opaque, version, fields or None, remark)
    try:
        return _encode(out)
    except UnicodeEncodeError:
        out.extFields = {_clean(name): _clean(value) for name, value in fields.items()} or None
        out.remark = None if remark is None else _clean(remark)
        return _encode(out)


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
