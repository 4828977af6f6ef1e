"""
A cache of decoded request headers, by which similar binary headers are decoded fast.

The requests of one kind from one client differ in a few numbers and texts (queue, time, properties) and in nothing
else. So a header that was decoded in full becomes a I{template}: its bytes with the opaque and those few values
blanked out, and the typed header that they gave. A later header whose other bytes equal a template's differs from it
in those places alone: the template's typed header is copied and the values in those places are set in the copy.

All other bytes are compared at once, as one big integer under a mask, so nothing about them is assumed; a header that
matches no template is decoded in full.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from typing import Any, Final, NamedTuple

from smartgo.schema.commandlayout import OPAQUE, binary_head_struct
from smartgo.schema.headerfields import Header, safe_digits
from smartgo.schema.headers.offsets import UpdateOffsetRequest
from smartgo.schema.headers.pull import PullRequest
from smartgo.schema.headers.send import SendRequest, SendRequestV2

_SEND: Final = ("queue_id", "born_timestamp", "properties", "signature")

CHANGING: Final[dict[type[Header], tuple[str, ...]]] = {
    SendRequest: _SEND,
    SendRequestV2: _SEND,
    PullRequest: ("queue_id", "queue_offset", "max_msg_nums", "commit_offset", "signature"),
    UpdateOffsetRequest: ("queue_id", "commit_offset", "signature"),
}
"""The attributes that differ from one request of a client to the next; texts and numbers."""

_SHAPES: Final = 4  # of one length
_KNOWN: Final = 2048  # templates; one more empties the cache
_LONGEST: Final = 2048  # bytes of a header that becomes a template
_int = int.from_bytes
_FIELDS: Final = binary_head_struct.size + 4  # where they begin in a header without a remark


class HeaderTemplate(NamedTuple):
    """The content of a request header beside its opaque, and a function that returns a copy of its typed header."""

    code: int
    flag: int
    language: int
    version: int
    copy: Callable[[], Any]


class _Shape(NamedTuple):
    """The places of the changing values in headers of one shape, and the templates of that shape."""

    mask: int
    numbers: tuple[tuple[str, int, int], ...]
    texts: tuple[tuple[str, int, int], ...]
    known: dict[int, HeaderTemplate]


class HeaderTemplateCache:
    """Templates made of headers that were decoded in full, for headers that match them."""

    def __init__(self) -> None:
        self._shapes: dict[int, list[_Shape]] = {}
        self._count = 0

    def find(self, raw: bytes) -> tuple[HeaderTemplate, Any] | None:
        """
        Decode a binary header by a template that it matches.

        @return: the template, and the typed header, which is the caller's own; C{None} where no template matches.
        """
        shapes = self._shapes.get(len(raw))
        if shapes is None:
            return None
        together = _int(raw, "big")
        for mask, numbers, texts, known in shapes:
            found = known.get(together & mask)
            if found is not None:
                header = found.copy()
                for attribute, begin, end in numbers:
                    digits = raw[begin:end]
                    if not digits.isdigit():
                        return None
                    setattr(header, attribute, int(digits))
                try:
                    for attribute, begin, end in texts:
                        setattr(header, attribute, raw[begin:end].decode())
                except UnicodeDecodeError:
                    return None
                return found, header
        return None

    def add(self, raw: bytes, said: tuple[int, int, int, int], fields: Mapping[str, str], header: Header) -> None:
        """
        Make a template of a request's header that was decoded in full.

        @param raw: the binary header; no template is made of one that has more than its fields, or is unusually long.
        @param said: its code, flag, language and version.
        """
        size = len(raw)
        if size > _LONGEST:
            return
        kind = type(header)
        changing = {name: (attribute, digits) for attribute, name, digits in safe_digits(kind, CHANGING.get(kind, ()))}
        blank = bytearray(b"\xff" * size)
        blank[OPAQUE] = bytes(4)
        numbers: list[tuple[str, int, int]] = []
        texts: list[tuple[str, int, int]] = []
        at = _FIELDS
        for name, value in fields.items():
            begin = at + 2 + len(name.encode()) + 4
            at = begin + len(value.encode())
            attribute, digits = changing.get(name, ("", 0))
            if not attribute:
                continue
            if digits is None:
                texts.append((attribute, begin, at))
            elif value.isascii() and value.isdigit() and len(value) <= digits:
                numbers.append((attribute, begin, at))
            else:
                continue
            blank[begin:at] = bytes(at - begin)
        if at != size:  # a remark, a name that came twice, or bytes after the fields
            return
        if self._count >= _KNOWN:
            self._shapes.clear()
            self._count = 0
        self._count += 1
        mask = _int(blank, "big")
        key = _int(raw, "big") & mask
        # msgspec's own copy, without the detour over the module copy; its stubs do not name it
        template = HeaderTemplate(*said, copy(header).__copy__)  # type: ignore[attr-defined]
        shapes = self._shapes.setdefault(size, [])
        for shape in shapes:
            if shape.mask == mask:
                shape.known[key] = template
                return
        if len(shapes) >= _SHAPES:
            self._count -= len(shapes.pop(0).known)
        shapes.append(_Shape(mask, tuple(numbers), tuple(texts), {key: template}))
