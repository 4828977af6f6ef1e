"""
Join all JavaScript modules of the console: browsers send one request instead of forty, which take most of a second.

The text of each module becomes the body of a function that runs when the module is first imported. This requires a
plain style, which the console's and the vendored modules have: imports are at the beginning, exported names are
never reassigned, and modules do not import each other in a circle. Any other style is a C{ValueError} at start, which
tests detect. An import of a module that is not joined remains an import in the browser.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from posixpath import dirname, join, normpath
from typing import Final

_IMPORT: Final = re.compile(r'\s*(?://[^\n]*\n\s*)*import\s*(?:([^"\';]+?)\s*from\s*)?"([^"]+)";?')
_EXPORTED: Final = re.compile(r"^export (?=(?:async )?function (\w+)|(?:const|class) (\w+))", re.MULTILINE)
_DEFAULT: Final = re.compile(r"(^|[;}])export default (?:(async )?function (\w+))?", re.MULTILINE)
_LIST: Final = re.compile(r'(^|[;}])export\s*\{([^}]*)\}(?:\s*from\s*"([^"]+)")?;?', re.MULTILINE)
_LATER: Final = re.compile(r'\bimport\("([^"]+)"\)')
_LEFT: Final = re.compile(r"^\s*(?:export|import)\b(?!\(|\.)|[;}](?:export|import)[ {]", re.MULTILINE)
_COMMENT: Final = re.compile(r"^[ \t]*// .*\n", re.MULTILINE)  # a line of its own; browsers need none

_HEAD: Final = """\
// All modules of the console, joined when the server started; each runs when it is first imported.
const done = {};
const use = (name) => (done[name] ??= modules[name]());
const later = async (name) => use(name);
const modules = {
"""


def joined(modules: Mapping[str, str], first: str, place: str) -> str:
    """
    Return one module that has the effect of C{first}.

    @param modules: texts by path.
    @param place: the path at which it is served, in the folder of the modules that use C{import.meta.url}.
    @raise ValueError: a module is not in the required style, or modules import each other in a circle.
    """
    needs: dict[str, set[str]] = {}
    bodies = [_body(path, modules[path], modules, place, needs) for path in sorted(modules)]
    _check_order(needs)
    return f'{_HEAD}{"".join(bodies)}}};\nuse("{first}");\n'


def _body(path: str, text: str, modules: Mapping[str, str], place: str, needs: dict[str, set[str]]) -> str:
    needed = needs[path] = set()
    head = []
    outside = []

    def target(name: str) -> str:
        return normpath(join(dirname(path), name))

    def source(name: str) -> str:
        if target(name) not in modules:
            raise ValueError(f"{path} imports {name}, which is not joined")
        needed.add(target(name))
        return f'use("{target(name)}")'

    at = 0
    while (found := _IMPORT.match(text, at)) is not None:
        what, name = found.groups()
        head.append(f"const {_names(what)} = {source(name)};" if what else f"{source(name)};")
        at = found.end()
    text = _COMMENT.sub("", text[at:])
    exported: dict[str, str] = {}

    def plain(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        exported[name] = name
        return ""

    def default(match: re.Match[str]) -> str:
        exported["default"] = match[3] or "$default"
        return match[1] + (f"{match[2] or ''}function {match[3]}" if match[3] else "const $default = ")

    def listed(match: re.Match[str]) -> str:
        pairs = [one.split(" as ") for one in re.split(r"\s*,\s*", match[2].strip().rstrip(",")) if one]
        for pair in pairs:
            exported[pair[-1]] = f"{source(match[3])}.{pair[0]}" if match[3] else pair[0]
        return match[1]

    def lazily(match: re.Match[str]) -> str:
        if target(match[1]) in modules:
            return f'later("{target(match[1])}")'
        outside.append(match[1])
        return f'import("{_relative(target(match[1]), place)}")'

    text = _LIST.sub(listed, _DEFAULT.sub(default, _EXPORTED.sub(plain, text)))
    if _LEFT.search(text):
        raise ValueError(f"{path} has an import or export in a form that joining does not support")
    text = _LATER.sub(lazily, text)
    given = ", ".join(f"{name}: {value}" for name, value in exported.items())
    return f'"{path}"() {{\n{chr(10).join(head)}\n{text.strip()}\nreturn {{ {given} }};\n}},\n'


def _names(what: str) -> str:
    """Return the names of an import as a destructuring pattern."""
    what = what.strip()
    if not what.startswith("{"):
        return f"{{ default: {what} }}"
    return re.sub(r"([\w$]+) as ([\w$]+)", r"\1: \2", what)


def _relative(path: str, place: str) -> str:
    """Return a path relative to the module at C{place}."""
    return "../" * (place.count("/")) + path


def _check_order(needs: Mapping[str, set[str]]) -> None:
    """Check that no module imports itself, directly or indirectly. @raise ValueError: one does."""
    ready: set[str] = set()
    while len(ready) < len(needs):
        more = {path for path, needed in needs.items() if path not in ready and needed <= ready}
        if not more:
            raise ValueError(f"these modules need each other: {', '.join(sorted(needs.keys() - ready))}")
        ready |= more
