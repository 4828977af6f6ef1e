"""
Java's properties format, as RocketMQ writes C{broker.conf} and C{namesrv.properties}.

Source: the documentation of C{java.util.Properties.load}. Java reads ISO-8859-1; files that are valid UTF-8 are read
as such, others as Java does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from smartgo.errors import SettingError

_LINE_END = re.compile(r"\r\n|\r|\n")
_BLANK = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SAFE = re.compile(r"[^\x00-\x1f\x7f\\]*\Z")


class Property(NamedTuple):
    """One setting of a file."""

    key: str
    value: str
    line: int
    """The line it begins on, from 1."""


def parse(data: bytes, path: str = "properties") -> list[Property]:
    """
    Return the settings of a file in their order, repeated keys and all; blanks at the end of a value are dropped.

    >>> parse(b"a = 1\\\\\\n  2\\n# no\\nb:x")
    [Property(key='a', value='12', line=1), Property(key='b', value='x', line=4)]

    @param path: for the messages.
    @raise SettingError: a malformed escape, or bytes that are no text.
    """
    if b"\0" in data:
        raise SettingError(f"{path}: not a properties file: it holds zero bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return [_split(line, number, path) for number, line in _logical_lines(text)]


def render(items: Iterable[tuple[str, str]]) -> str:
    """Return C{key=value} lines that L{parse} reads back, as the config requests answer them."""
    return "".join(f"{key}={_escaped(value)}\n" for key, value in items)


def _escaped(value: str) -> str:
    if _SAFE.match(value) and not value.startswith(" "):
        return value
    names = {text: "\\" + letter for letter, text in _ESCAPES.items()} | {"\\": "\\\\"}
    escaped = "".join(
        names.get(one) or (one if one >= " " and one != "\x7f" else f"\\u{ord(one):04x}") for one in value
    )
    return "\\" + escaped if escaped.startswith(" ") else escaped


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    pending = ""
    begun = 0
    for number, natural in enumerate(_LINE_END.split(text), 1):
        line = natural.lstrip(_BLANK)
        if not begun and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending += line[:-1]
            begun = begun or number
            continue
        yield begun or number, pending + line
        pending = ""
        begun = 0
    if begun:
        yield begun, pending


def _split(line: str, number: int, path: str) -> Property:
    at = 0
    while at < len(line) and line[at] not in "=:" + _BLANK:
        at += 2 if line[at] == "\\" else 1
    rest = line[at:].lstrip(_BLANK)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANK)
    return Property(_unescape(line[:at], number, path), _unescape(rest, number, path).rstrip(), number)


def _unescape(text: str, number: int, path: str) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    at = 0
    while at < len(text):
        one = text[at]
        at += 1
        if one != "\\":
            parts.append(one)
            continue
        one = text[at : at + 1]
        at += 1
        if one == "u":
            digits = text[at : at + 4]
            if not re.fullmatch("[0-9A-Fa-f]{4}", digits):
                raise SettingError(f"{path}, line {number}: \\u is not followed by four hexadecimal digits")
            parts.append(chr(int(digits, 16)))
            at += 4
        else:
            parts.append(_ESCAPES.get(one, one))
    joined = "".join(parts)
    return joined.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
