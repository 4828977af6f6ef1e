r"""
JSON as fastjson 1.2 writes it, which is not always JSON.

Java bodies hold maps with bare integer keys (C{{0:"10.0.0.1:10911"}}) and with whole objects as keys
(C{{{"brokerName":"b","queueId":0,"topic":"T"}:12}}). Both become strings here, an object key the string that holds its
JSON, and msgspec reads the rest. The other way there is nothing to do: fastjson takes the quoted forms
(docs/spec/remoting#json).

Reliability B4: UTF-8 only; of duplicate keys the last wins; no C{NaN}, no lone surrogates, no number of more than 19
digits. The meaning of C{@type} is none.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

from smartgo.errors import BadBody

T = TypeVar("T")

DEPTH_LIMIT = 16
"""How deep plain JSON may be nested before it is refused."""

MARK_LIMIT = 2**20
"""The most quote marks in a body whose bare keys have to be quoted: bounds what that costs."""

INTEGER_KEY_LIMIT = 2**21
"""The most bare integer keys in a body; L{OBJECT_KEY_LIMIT} for objects."""

OBJECT_KEY_LIMIT = 2**18

# The closing mark is optional: a string without an end would else be tried anew from every escaped mark within it.
_TEXT = rb'"(?:[^"\\]++|\\.)*+"?'
_STRING = re.compile(_TEXT, re.DOTALL)
_STRINGS = re.compile(b"(" + _TEXT + b")", re.DOTALL)
_CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_LONG_NUMBER = re.compile(rb"[0-9]{20}")

_ROUND = bytes.maketrans(b"[{]}", b"(())")
_NO_BRACKET = bytes(sorted(set(range(256)) - set(b"[{]}")))

# In a text whose strings were replaced by a single quote mark each:
_INTEGER_KEY = re.compile(rb"([{,]\s*)(-?[0-9]{1,19})(?=\s*:)")
_OBJECT_KEY = re.compile(rb"\{([^{}]*)\}(?=\s*:)")
# A mark that cannot come from outside, as are 1 and 2 below: control characters are refused before.
_QUOTE = b"\x00"
_MARKED_KEY = re.compile(rb"\x01([^\x02]*)\x02")

_any_decoder = msgspec.json.Decoder()


def loads(data: bytes, quoted_up_to: int | None = None) -> Any:
    """
    Read a body into plain values: dict, list, str, int, float, bool, C{None}.

    @param quoted_up_to: as for L{decode_with}.
    @raise BadBody: as the module says, or nested deeper than L{DEPTH_LIMIT}.
    """
    if too_deep(data):
        raise BadBody(f"JSON is nested deeper than {DEPTH_LIMIT}, or its brackets do not match")
    if _LONG_NUMBER.search(data) is not None and _LONG_NUMBER.search(_STRING.sub(b'""', data)) is not None:
        raise BadBody("JSON holds a number of more than 19 digits")
    return decode_with(_any_decoder, data, quoted_up_to)


def decode(data: bytes, kind: type[T]) -> T:
    """
    Read a body as the given type, strictly; text where a number is wanted is taken if it spells one.

    @raise BadBody: it is no JSON, or does not fit the type.
    """
    return decode_with(msgspec.json.Decoder(kind, strict=False), data)


def decode_with(decoder: msgspec.json.Decoder[T], data: bytes, quoted_up_to: int | None = None) -> T:
    """
    Read a body with a decoder of the caller's.

    @param quoted_up_to: bytes of a body up to which bare keys are quoted; longer ones must be standard JSON, as quoting
        takes some 60 ns a byte of a hostile one. C{None} for no limit.
    @raise BadBody: it is no JSON, or does not fit the decoder's type.
    """
    try:
        if not data.isascii():
            str(data, "utf-8")  # msgspec does not look into members that its type lacks
        try:
            return decoder.decode(data)
        except msgspec.ValidationError:
            raise
        except msgspec.DecodeError:
            if quoted_up_to is not None and len(data) > quoted_up_to:
                raise
            return decoder.decode(quote_keys(data))
    except UnicodeDecodeError:
        raise BadBody("body is not UTF-8") from None
    except RecursionError:
        raise BadBody("JSON is nested too deep") from None
    except msgspec.MsgspecError as error:
        raise BadBody(f"body cannot be read: {error}") from None


def quote_keys(data: bytes) -> bytes:
    r"""
    Turn bare integer and object keys into strings; everything else stays as it is.

    >>> quote_keys(b'{"t":{0:"{0:1}",1:"b"}}')
    b'{"t":{"0":"{0:1}","1":"b"}}'
    >>> quote_keys(b'{{"queueId":0,"topic":"T"}:12}')
    b'{"{\\"queueId\\":0,\\"topic\\":\\"T\\"}":12}'

    @raise BadBody: there are raw control characters, which JSON forbids, or too many strings or object keys.
    """
    if _CONTROL.search(data) is not None:
        raise BadBody("JSON holds a raw control character")
    if data.count(b'"') > MARK_LIMIT:
        raise BadBody(f"body is not standard JSON and holds more than {MARK_LIMIT // 2} strings")
    pieces = _STRINGS.split(data)
    # Strings go out of the way, so that what looks like a key inside one is left alone.
    bare = b'"'.join(pieces[::2])
    bare, integers = _INTEGER_KEY.subn(b"\\1\x00\\2\x00", bare, INTEGER_KEY_LIMIT + 1)
    bare, objects = _OBJECT_KEY.subn(b"\x01\\1\x02", bare, OBJECT_KEY_LIMIT + 1)
    if integers > INTEGER_KEY_LIMIT or objects > OBJECT_KEY_LIMIT:
        raise BadBody(f"JSON holds more than {INTEGER_KEY_LIMIT} bare integer or {OBJECT_KEY_LIMIT} object keys")
    pieces[::2] = bare.split(b'"')
    return _MARKED_KEY.sub(_quote_object, b"".join(pieces)).replace(_QUOTE, b'"')


def _quote_object(match: re.Match[bytes]) -> bytes:
    return msgspec.json.encode("{" + match[1].replace(_QUOTE, b'"').decode() + "}")


def too_deep(data: bytes, limit: int = DEPTH_LIMIT) -> bool:
    """Tell whether JSON is nested deeper than C{limit}; also true where brackets do not match and there are many."""
    if data.count(b"{") + data.count(b"[") <= limit:
        return False
    brackets = _STRING.sub(b"", data).translate(_ROUND, _NO_BRACKET)
    for _ in range(limit):
        if not brackets:
            return False
        brackets = brackets.replace(b"()", b"")  # the innermost level of everything at once
    return bool(brackets)
