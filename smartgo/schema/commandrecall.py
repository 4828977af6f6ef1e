"""
Hot binary requests straight into their typed headers, by what earlier ones looked like.

A client's requests of one kind differ in a few numbers and texts (which queue, when, the properties) and in nothing
else. So a header that was read the long way is remembered as a I{shape}: its bytes with the opaque and those few values
blanked out, and the typed header that they gave. A header that has the same bytes around the same places means the
same, but for what lies in those places: the remembered header is copied and these are read into the copy.

All other bytes are compared as they are, at once, as one big integer under a mask; so nothing is taken for granted,
and whatever does not fit goes the long way.
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

_SEND: Final = ("queue_id", "born_timestamp", "properties")

CHANGING: Final[dict[type[Header], tuple[str, ...]]] = {
    SendRequest: _SEND,
    SendRequestV2: _SEND,
    PullRequest: ("queue_id", "queue_offset", "max_msg_nums", "commit_offset"),
    UpdateOffsetRequest: ("queue_id", "commit_offset"),
}
"""The attributes that differ from one request of a client to the next; texts and numbers."""

_SHAPES: Final = 4  # of one length
_KNOWN: Final = 2048  # headers remembered; one more begins anew
_LONGEST: Final = 2048  # bytes of one that is remembered
_int = int.from_bytes
_FIELDS: Final = binary_head_struct.size + 4  # where they begin in a header without a remark


class Recalled(NamedTuple):
    """What a request says beside its opaque, and what gives a copy of its typed header."""

    code: int
    flag: int
    language: int
    version: int
    copy: Callable[[], Any]


class _Shape(NamedTuple):
    """Where the changing values of a header lie, and the headers known that have them there."""

    mask: int
    numbers: tuple[tuple[str, int, int], ...]
    texts: tuple[tuple[str, int, int], ...]
    known: dict[int, Recalled]


class Memory:
    """Headers that were read, for those that are like them."""

    def __init__(self) -> None:
        self._shapes: dict[int, list[_Shape]] = {}
        self._count = 0

    def recall(self, raw: bytes) -> tuple[Recalled, Any] | None:
        """
        Read a binary header as one like it was read before.

        @return: what it says, with the typed header, which is the caller's own; C{None} where none is like it.
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

    def remember(self, raw: bytes, said: tuple[int, int, int, int], fields: Mapping[str, str], header: Header) -> None:
        """
        Remember a request's header that was read the long way.

        @param raw: the binary header; one that holds more than its fields, or is unusually long, is passed over.
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
        recalled = Recalled(*said, copy(header).__copy__)  # type: ignore[attr-defined]
        shapes = self._shapes.setdefault(size, [])
        for shape in shapes:
            if shape.mask == mask:
                shape.known[key] = recalled
                return
        if len(shapes) >= _SHAPES:
            self._count -= len(shapes.pop(0).known)
        shapes.append(_Shape(mask, tuple(numbers), tuple(texts), {key: recalled}))
