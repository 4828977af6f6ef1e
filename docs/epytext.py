"""
Epytext, which the docstrings are written in, as reStructuredText, which Sphinx reads.

The docstrings use a small part of epytext: paragraphs, literal blocks, examples, lists, fields, and C{}, L{}, I{}, B{},
U{} within sentences. pydoctor reads them as they are; the public ones are shown on the site, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

Resolve = Callable[[str], str | None]
"""Return the full name of what a name in a docstring refers to, if the site documents it; else None."""

_FIELD = re.compile(r"@(\w+)(?: +([^:]+?))?: ?(.*)")
_FIELDS = {
    "cvar": "cvar", "ivar": "ivar", "param": "param", "raise": "raises", "raises": "raises", "return": "returns",
    "returns": "returns",
}  # fmt: skip
_MARKUP = re.compile(r"\b([BCILU])\{")
_TARGET = re.compile(r"(.*?)\s*<([^<>]+)>", re.DOTALL)
_ITEM = re.compile(r"(-|\d+\.) ")


def to_rst(lines: Sequence[str], resolve: Resolve) -> list[str]:
    """
    Return the lines of a docstring in reStructuredText.

    @param lines: the docstring's, without the indentation that all of them share.
    @param resolve: what names refer to.
    @raise ValueError: a field that is not known, or a brace that is not closed.
    """
    found: list[str] = []
    for block, literal in _blocks(lines):
        if not block:
            continue
        text = list(block) if literal else _inline("\n".join(block), resolve).split("\n")
        for line in text:
            _add(found, line if literal else _field(line, resolve))
    return found


def _blocks(lines: Sequence[str]) -> Iterator[tuple[list[str], bool]]:
    """Yield the blocks of a docstring, and of each whether it is literal: code or an example."""
    block: list[str] = []
    fence: int | None = None  # the indentation of the paragraph that announced the literal block
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if fence is not None and line and indent <= fence:
            yield block, True
            block, fence = [], None
        example = line.lstrip().startswith(">>>")
        if fence is None and example and not (block and block[0].lstrip().startswith(">>>")):
            yield block, False
            block = [line]
            continue
        if fence is None and not line and block and block[0].lstrip().startswith(">>>"):
            yield block, True
            block = []
        block.append(line)
        if fence is None and line.endswith("::"):
            yield block, False
            block, fence = [], indent
    yield block, fence is not None or bool(block and block[0].lstrip().startswith(">>>"))


def _add(found: list[str], line: str) -> None:
    """Append a line, after an empty one where fields or a list begin right behind a paragraph."""
    before = found[-1] if found else ""
    for begins in (re.compile(r":\w+( [^:]+)?: ?"), _ITEM):
        if begins.match(line) and before and not before.startswith(" ") and not begins.match(before):
            found.append("")
    found.append(line)


def _field(line: str, resolve: Resolve) -> str:
    """Return a line that begins a field as Sphinx has it; any other line as it is."""
    match = _FIELD.match(line)
    if match is None:
        return line
    tag, argument, text = match.groups()
    if tag not in _FIELDS:
        raise ValueError(f"no field of this name is known: {line}")
    if _FIELDS[tag] == "raises" and argument:
        argument = f"~{name}" if (name := resolve(argument)) else argument
    return f":{_FIELDS[tag]}{' ' + argument if argument else ''}: {text}"


def _inline(text: str, resolve: Resolve) -> str:
    """Return sentences with the marks of reStructuredText."""
    parts: list[str] = []
    at = 0
    while match := _MARKUP.search(text, at):
        parts.append(_escaped(text[at : match.start()]))
        at = _closing(text, match.end())
        parts.append(_marked(match[1], text[match.end() : at - 1], resolve))
        if text[at : at + 1].isalnum():
            parts.append("\\ ")
    return "".join(parts) + _escaped(text[at:])


def _closing(text: str, at: int) -> int:
    """Return the position behind the brace that closes the one before C{at}."""
    depth = 1
    for end in range(at, len(text)):
        depth += {"{": 1, "}": -1}.get(text[end], 0)
        if depth == 0:
            return end + 1
    raise ValueError(f"a brace is not closed: {text[at - 2 : at + 40]!r}")


def _marked(kind: str, text: str, resolve: Resolve) -> str:
    """Return one marked piece of a sentence."""
    text = " ".join(text.split())
    if kind in "BI":
        return f"**{text}**" if kind == "B" else f"*{text}*"
    title, target = match.groups() if (match := _TARGET.fullmatch(text)) else (text, text)
    if kind == "U":
        return f"`{title} <{target}>`__" if title != target else target
    if kind == "L":
        name = resolve(target)
        if name is not None:
            return f":py:obj:`{title} <{name}>`" if title != target else f":py:obj:`~{name}`"
        return f"``{title.rpartition('.')[2] if title == target else title}``"
    return f"``{text}``"


def _escaped(text: str) -> str:
    """Return plain text so that nothing in it is markup."""
    return re.sub(r"[*`|\\]|(?<=\w)_(?=\W|$)", r"\\\g<0>", text)
